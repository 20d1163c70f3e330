"""What a process runs that `rbench run --executor` started: `python -m rbench.cli.worker`. It is no command for users.

Its standard input holds one line, the request, and stays open. When it ends, whoever started this process is gone, and
it ends in order, as with SIGTERM. It prints its progress as lines, which go to a log.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback

from rbench.cli.console import log_to_stderr, tell
from rbench.cli.verbs import BAD_INPUT, INTERRUPTED, TERMINATED, Terminated, said_of, stoppable
from rbench.errors import LeaseLost, RbenchError

DIED = 1
"""Exit code of a process that others took for dead, or that a fault ended. Another one in its place can go on."""


def main() -> int:
    """Do what the request says. Returns the exit code: 0 also if jobs failed, as records say; else that of a run."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    log_to_stderr(quiet=False)
    try:
        with stoppable():
            text = _line()
            threading.Thread(target=_end_with_parent, name="watches the parent", daemon=True).start()
            return _work(text)
    except LeaseLost as error:
        tell(f"error: {error}")
        return DIED
    except (RbenchError, OSError) as error:
        tell(f"error: {said_of(error)}")
        return BAD_INPUT
    except KeyboardInterrupt as error:
        tell("ended, because it was asked to")
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    except Exception:  # a fault of rbench's own: Python would write it and its causes with their secrets into the log
        tell(traceback.format_exc().rstrip())
        return DIED


def _work(text: str) -> int:
    from rbench.api.suites import work
    from rbench.execution.spread import requested
    from rbench.system.progress import Lines

    work(requested(text), Lines())
    return 0


def _line() -> str:
    """Read the request. Nothing is buffered, so that the end of the input is seen afterwards."""
    found = b""
    while not found.endswith(b"\n") and (more := os.read(0, 1 << 16)):
        found += more
    return found.decode()


def _end_with_parent() -> None:
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
