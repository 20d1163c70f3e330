"""Defines the command line itself: `rbench`, what all verbs share, and how SIGTERM and mistakes end them."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup, TyperOption

import rbench
from rbench.cli.arguments import arguments_of, option, signature_of
from rbench.cli.console import log_to_stderr, say, tell
from rbench.errors import JobError, RbenchError

MEASURE, EXPLORE, KEEP, TRAIN = "Measure", "Explore", "Keep", "Train"
FAILED, BAD_INPUT, CHECK_FAILED, UNDECIDED, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 130, 143
INCOMPLETE = 5
"""Jobs are left, and none failed: another process has them, or those that an executor started ended too early."""
HELP = "How robust is a sentence encoder? Start here: [bold]rbench run quickstart[/bold]"
FORMER = {
    "best": "judge best RUN... --to FILE",
    "build": "attack ... --out DIR, or rbench attack --run RUN --out DIR",
    "cache list": "cache",
    "cache prune": "cache --prune",
    "cache verify": "cache --verify",
    "cases": "compare RUN --between A B --metric rev --show N",
    "doctor": "status --environment [SUITE] [--fix]",
    "export": "train ENCODER --out DIR",
    "merge": "pack RUN RUN... --out DIR",
    "strip": "pack RUN --no-texts",
    "unpack": "pack FILE --unpack",
}
"""The verbs of earlier versions, each with what does the same now."""


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph of a docstring, so that help wraps at the terminal's width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


class Verbs(TyperGroup):
    """The verbs. It says what became of those of earlier versions."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a verb. Ends with a message and exit code 2 where there is none of the name."""
        for former in (args[0], " ".join(args[:2])):
            if former in FORMER:
                ctx.fail(f"There is no verb '{former}' any more. It is now: rbench {FORMER[former]}")
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> Any:
        """Return the options without a verb. Help leaves out those of completion, which docs/install.md has."""
        found = super().get_params(ctx)
        for one in found:
            if isinstance(one, TyperOption) and one.name in ("install_completion", "show_completion"):
                one.hidden = True
        return found


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"rbench {rbench.__version__}")
        raise typer.Exit


@app.callback(help=unwrapped(HELP))
def rbench_(
    version: bool = option("--version", "Print the version.", False, callback=_version, is_eager=True),
) -> None:
    """Define the options of `rbench` without a verb. Its help text is HELP."""


def _spoken(value: object) -> object:
    """Return a list of folders as `a, b`. Other values are returned as they are."""
    return ", ".join(map(str, value)) if isinstance(value, list) else value


class Terminated(KeyboardInterrupt):
    """The process was asked to end. Whatever handles Ctrl-C handles this too."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Terminated` inside the block where SIGTERM arrives. A second SIGTERM ends the process at once.

    A program that calls rbench and handles SIGTERM itself keeps its handler.
    """
    own = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not own or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def verb(
    doing: str | Callable[[Mapping[str, object]], str], resume: str = "", *, of: str = "", shared: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add what all verbs share: the first line, error messages, Ctrl-C, and options that several have.

    The first line says what is being done. It is printed at once, before the verb imports anything, unless the user
    passes --quiet. An error that a user can fix becomes one message and exit code 2. Ctrl-C prints how to resume and
    exits with 130, SIGTERM with 143.

    Args:
        doing: the first line, with the verb's arguments in braces: `Planning {suite}`; or a function of these.
        resume: how to resume after Ctrl-C.
        of: a function of Python, such as `api.runs.table`. The verb has its parameters as options, and gets them as
            keyword arguments.
        shared: names of options that several verbs have, in the order of the help. The verb gets them as `options` and
            `executor`; those that it has as arguments of its own, too.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        names = shared.split()

        @functools.wraps(function)
        def call(**given: Any) -> None:
            if given.get("quiet") and given.get("verbose"):
                raise typer.BadParameter("--quiet and --verbose exclude each other")
            log_to_stderr(bool(given.get("quiet")), bool(given.get("verbose")))
            if not given.get("quiet"):
                said = {name: _spoken(value) for name, value in given.items()}
                tell(doing(said) if callable(doing) else doing.format_map(said))
            # Keep transformers from printing minor warnings, unless the user has set these variables.
            os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
            try:
                with stoppable():
                    function(**arguments_of(function, of, names, given))
            except (RbenchError, OSError) as error:
                failed = isinstance(error, JobError)  # all was well until the work itself began
                tell(f"{'failed' if failed else 'error'}: {said_of(error)}")
                raise typer.Exit(FAILED if failed else BAD_INPUT) from error
            except KeyboardInterrupt as error:
                asked = isinstance(error, Terminated)
                tell(f"{'Terminated' if asked else 'Interrupted'}. {resume}".rstrip())
                raise typer.Exit(TERMINATED if asked else INTERRUPTED) from error

        signature = signature_of(function, of, names)
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()} | {"return": None}
        call.__doc__ = unwrapped(function.__doc__ or "")
        return call

    return decorate


def said_of(error: RbenchError | OSError) -> str:
    """Return in words what a user can mend: also a full disk, a folder without access, or a name that is too long."""
    if isinstance(error, RbenchError):
        return str(error)
    return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}"
