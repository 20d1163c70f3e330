"""Defines the command line itself: `rbench`, what all verbs share, and how SIGTERM and mistakes end them."""

from __future__ import annotations

import functools
import os
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, SimpleNamespace
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup, TyperOption

import rbench
from rbench import masking
from rbench.cli.arguments import build_signature, collect_arguments, option
from rbench.cli.console import log_to_stderr, say, tell
from rbench.errors import JobError, RbenchError
from rbench.system.own_code import error_message, place_of_error

MEASURE, EXPLORE, KEEP, TRAIN = "Measure", "Explore", "Keep", "Train"
FAILED, BAD_INPUT, CHECK_FAILED, UNDECIDED, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 130, 143
INCOMPLETE = 5
"""Jobs are left, and none failed: another process has them, or those that an executor started ended too early."""
HELP = "How robust is a sentence encoder? Start here: [bold]rbench run quickstart[/bold]"
FORMER_VERBS = {
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

FAMILIAR: dict[str, tuple[str, ...]] = {
    "--model": ("--model", "--victim"),
    "-m": ("--model", "--victim"),
    "--tasks": ("--task",),
    "--limit": ("--limit", "--n"),
    "--output-path": ("--out",),
    "--output_path": ("--out",),
}
"""Options as mteb and lm-eval call them, each with our names for the same, of which help shows one. They are read where
a verb has one of these."""


def translated(command: Any, words: Sequence[str]) -> list[str]:
    """Return the words behind a verb with options of mteb and lm-eval replaced by ours: `--tasks a,b` by `--task a
    --task b`, and `--model NAME` by NAME where a verb's models stand without a flag.

    Raises typer.BadParameter where several tasks are given to a verb that has one.
    """
    options = {flag: one for one in command.params for flag in one.opts}
    found: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*found, word, *left]
        flag, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        ours = next((name for name in FAMILIAR.get(flag, ()) if name in options), None)
        free = flag in ("--model", "-m") and ours is None and "model" in options
        if flag not in FAMILIAR or not (ours or free) or not (equals or left):
            found.append(word)
            continue
        value = value if equals else left.pop(0)
        values = [part.strip() for part in value.split(",") if part.strip()] if flag == "--tasks" else [value]
        if ours is not None and len(values) > 1 and not options[ours].multiple:
            raise typer.BadParameter(f"{value} names {len(values)} tasks, and this verb has one", param_hint=flag)
        found += [part for value in values for part in ((value,) if ours is None else (ours, value))]
    return found


def unwrap_paragraphs(text: str) -> str:
    """Join the lines of each paragraph of a docstring, so that help wraps at the terminal's width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


TRACEBACK = "--traceback"
_shown = SimpleNamespace(traceback=False)
"""What the user asked for beside the verb's own options."""


class VerbGroup(TyperGroup):
    """The verbs. It says what became of those of earlier versions."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the arguments. `--traceback` may stand anywhere, because it is added to a command that has failed."""
        if TRACEBACK in args:
            args = [TRACEBACK, *(one for one in args if one != TRACEBACK)]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a verb. Ends with a message and exit code 2 where there is none of the name."""
        for former in (args[0], " ".join(args[:2])):
            if former in FORMER_VERBS:
                ctx.fail(f"There is no verb '{former}' any more. It is now: rbench {FORMER_VERBS[former]}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, translated(command, rest)

    def get_params(self, ctx: Any) -> Any:
        """Return the options without a verb. Help leaves out those of completion, which docs/install.md has."""
        params = super().get_params(ctx)
        for param in params:
            if isinstance(param, TyperOption) and param.name in ("install_completion", "show_completion"):
                param.hidden = True
        return params


app = typer.Typer(
    cls=VerbGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"rbench {rbench.__version__}")
        raise typer.Exit


@app.callback(help=unwrap_paragraphs(HELP))
def rbench_(
    version: bool = option("--version", "Print the version.", False, callback=_print_version, is_eager=True),
    traceback: bool = option(TRACEBACK, "After an error, show also where in the code it was raised.", False),
) -> None:
    """Define the options of `rbench` without a verb. Its help text is HELP."""
    _shown.traceback = traceback


def _format_argument(value: object) -> object:
    """Return a list of folders as `a, b`. Other values are returned as they are."""
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _learn_addresses(values: Iterable[object]) -> None:
    """Mask the passwords of all addresses among the arguments, before anything is printed."""
    for value in values:
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and "://" in text:
                masking.learn_address(text)


class Terminated(KeyboardInterrupt):
    """The process was asked to end. Whatever handles Ctrl-C handles this too."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Terminated` inside the block where SIGTERM arrives. A second SIGTERM ends the process at once.

    A program that calls rbench and handles SIGTERM itself keeps its handler.
    """
    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    # Python lets only the main thread set handlers of signals.
    if not is_default or threading.current_thread() is not threading.main_thread():
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
    passes --quiet. An error that a user can fix becomes one message and exit code 2 (`ending_of`).
    Ctrl-C prints how to resume and exits with 130, SIGTERM with 143.

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
            log_to_stderr(bool(given.get("quiet")), bool(given.get("verbose")))
            _learn_addresses(given.values())
            if not given.get("quiet"):
                # Printed before any import of the verb, so that a user sees at once that something happens.
                arguments = {name: _format_argument(value) for name, value in given.items()}
                tell(doing(arguments) if callable(doing) else doing.format_map(arguments))
            # Keep transformers from printing minor warnings, unless the user has set these variables.
            os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
            try:
                with stoppable():
                    function(**collect_arguments(function, of, names, given))
            except Exception as error:
                ending = ending_of(error)
                if ending is None:
                    raise
                if _shown.traceback:
                    tell(traceback.format_exc().rstrip())
                tell(ending.said)
                raise typer.Exit(ending.code) from error
            except KeyboardInterrupt as error:
                was_terminated = isinstance(error, Terminated)
                tell(f"{'Terminated' if was_terminated else 'Interrupted'}. {resume}".rstrip())
                raise typer.Exit(TERMINATED if was_terminated else INTERRUPTED) from error

        # typer reads a verb's options from its signature, which here is not that of `call` itself.
        signature = build_signature(function, of, names)
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {
            name: signature_parameter.annotation for name, signature_parameter in signature.parameters.items()
        } | {"return": None}
        call.__doc__ = unwrap_paragraphs(function.__doc__ or "")
        return call

    return decorate


class Ending(NamedTuple):
    """How an error that a user can mend ends a command."""

    code: int
    said: str


def ending_of(error: Exception) -> Ending | None:
    """Return how an error ends a command; None for a fault of rbench's own, and for what typer raises.

    Errors of rbench and of the system say what is wrong, such as a full disk. Others are the user's to mend where
    a line of the user's own Python raised them.
    """
    if isinstance(error, RbenchError):
        place = re.match(r"[^\n:]+:\d+(:\d+)?: ", str(error))
        start = "failed:" if isinstance(error, JobError) else "error in" if place else "error:"
        return Ending(FAILED if isinstance(error, JobError) else BAD_INPUT, f"{start} {error}")
    if (line := place_of_error(error)) is not None:
        return Ending(BAD_INPUT, f"error in {line}: {error_message(error)} (--traceback shows more)")
    if isinstance(error, OSError):
        return Ending(BAD_INPUT, f"error: {error_message(error)}")
    return None
