"""Defines the command line, with one short function per verb that parses options and prints results.

`rbench.api` does the work, and `rbench.api.housekeeping` that of `rbench cache`. Heavy libraries are imported only when
a verb needs them, so that `rbench --help` answers at once. Of the modules of verbs, a command imports its own.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import traceback
from typing import Any, NoReturn

from rich.console import Console
from typer.models import CommandInfo

from rbench.cli import verbs
from rbench.cli.console import silence, tell
from rbench.cli.verbs import BAD_INPUT, FAILED
from rbench.errors import RbenchError

__all__ = ["app", "main"]

VERBS = {
    "basic_verbs": ("run", "eval", "attack", "list"),
    "judging_verbs": ("claims", "compare", "figure", "baseline", "check", "watch", "audit", "judge"),
    "keeping_verbs": ("verify", "pack", "cache"),
    "showing_verbs": ("plan", "report", "site", "status", "table"),
    "training_verbs": ("train",),
}
"""The modules that add verbs, in the order of the help, each with its verbs."""


def _import_verbs(verb: str | None = None) -> None:
    """Import the module of a verb, which adds it. Help, completion and misspelt verbs need all modules."""
    for module in [module for module, names in VERBS.items() if verb in names] or VERBS:
        importlib.import_module(f"rbench.cli.{module}")


def __getattr__(name: str) -> Any:
    """Return `app` with all verbs, which are imported when it is first asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _import_verbs()
    order = [verb for names in VERBS.values() for verb in names]
    # A module that was imported before the others added its verbs first.
    verbs.app.registered_commands.sort(key=lambda command_or_group: order.index(_verb_name(command_or_group)))
    verbs.app.registered_groups.sort(key=lambda command_or_group: order.index(str(command_or_group.name)))
    return verbs.app


def _verb_name(command: CommandInfo) -> str:
    """Return the verb of a command: its name, or else that of its function."""
    return command.name or (command.callback.__name__ if command.callback is not None else "")


def _end_quietly(console: Console | None = None) -> NoReturn:
    silence(sys.stdout)
    raise SystemExit(0)


def main() -> None:
    """Run the `rbench` command. Raises SystemExit with an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # An adversarial text may hold characters that the terminal's encoding lacks. They are shown escaped.
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError, ValueError):
                stream.reconfigure(errors="backslashreplace")
    # rich ends with 1 where the reader of a pipe has gone (`rbench --help | head -1`), as if something had failed.
    Console.on_broken_pipe = _end_quietly  # type: ignore[method-assign, assignment]
    try:
        # Only the module of the verb: the others import what this one may not need, which would delay its first line.
        _import_verbs(*sys.argv[1:2])
        verbs.app()
    except BrokenPipeError:
        _end_quietly()
    except (OSError, RbenchError) as error:  # help that cannot be printed; verbs handle their own errors
        silence(sys.stdout)
        message = f"standard output cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)
        tell(f"error: {message}")
        raise SystemExit(BAD_INPUT) from error
    except Exception as error:  # a fault of rbench's own: Python would print it and its causes with their secrets
        tell(traceback.format_exc().rstrip())
        raise SystemExit(FAILED) from error
