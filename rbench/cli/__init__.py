"""The command line: one short function a verb. It parses and prints; all work is done by `rbench.api` (that of
`rbench cache` by `rbench.api.housekeeping`).

Nothing heavy is imported until a verb needs it, so that `rbench --help` answers at once.
"""

from __future__ import annotations

import contextlib
import io
import sys

from rbench.cli import cache_verbs, keeping_verbs, training_verbs  # put their verbs beside the others
from rbench.cli.console import silence, tell
from rbench.cli.verbs import BAD_INPUT, app
from rbench.errors import RbenchError

__all__ = ["app", "cache_verbs", "keeping_verbs", "main", "training_verbs"]


def main() -> None:
    """Entry point of the `rbench` command; leaves through SystemExit with 0, 1, 2 or 130."""
    for stream in (sys.stdout, sys.stderr):
        # An adversarial text may hold characters that the terminal's encoding lacks: show them escaped, do not crash.
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError, ValueError):
                stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (OSError, RbenchError) as error:  # help that cannot be printed; what a verb meets, it tells itself
        silence(sys.stdout)
        said = f"standard output cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)
        tell(f"error: {said}")
        raise SystemExit(BAD_INPUT) from error
