"""Defines the command line, with one short function per verb that parses options and prints results.

`rbench.api` does the work, and `rbench.api.housekeeping` that of `rbench cache`. Heavy libraries are imported only when
a verb needs them, so that `rbench --help` answers at once.
"""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
from typing import NoReturn

from rich.console import Console

from rbench.cli import (  # noqa: F401 - importing these adds their verbs, in the order of the help
    basic_verbs,
    judging_verbs,
    keeping_verbs,
    showing_verbs,
    training_verbs,
)
from rbench.cli.console import silence, tell
from rbench.cli.verbs import BAD_INPUT, FAILED, app
from rbench.errors import RbenchError
from rbench.system.deferred import deferred

__all__ = ["app", "main"]


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
        with deferred():
            app()
    except BrokenPipeError:
        _end_quietly()
    except (OSError, RbenchError) as error:  # help that cannot be printed; verbs handle their own errors
        silence(sys.stdout)
        said = f"standard output cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)
        tell(f"error: {said}")
        raise SystemExit(BAD_INPUT) from error
    except Exception as error:  # a fault of rbench's own: Python would print it and its causes with their secrets
        tell(traceback.format_exc().rstrip())
        raise SystemExit(FAILED) from error
