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
from rbench.cli.verbs import INTERRUPTED, TERMINATED, Terminated, ending_of, stoppable
from rbench.errors import LeaseLost

EXIT_DIED = 1
"""Exit code of a process that others took for dead, or that a fault ended. Another one in its place can go on."""


def main() -> int:
    """Do what the request says. Returns the exit code: 0 also if jobs failed, as records say; else that of a run."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    log_to_stderr(quiet=False)
    try:
        with stoppable():
            text = _line()
            # The thread starts after the request is read, because both read standard input.
            threading.Thread(target=_end_with_parent, name="watches the parent", daemon=True).start()
            return _do_request(text)
    except LeaseLost as error:
        tell(f"error: {error}")
        return EXIT_DIED
    except KeyboardInterrupt as error:
        tell("ended, because it was asked to")
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    except Exception as error:
        ending = ending_of(error)
        # Of a fault of rbench's own, Python would write it and its causes with their secrets into the log.
        tell(ending.said if ending is not None else traceback.format_exc().rstrip())
        return ending.code if ending is not None else EXIT_DIED


def _do_request(text: str) -> int:
    from rbench.api.suites import run_request
    from rbench.execution.spread import parse_request
    from rbench.system.progress import ProgressLines

    run_request(parse_request(text), ProgressLines())
    return 0


def _line() -> str:
    """Read the request. Nothing is buffered, so that the end of the input is seen afterwards."""
    received = b""
    while not received.endswith(b"\n"):
        chunk = os.read(0, 1 << 16)
        if not chunk:
            break
        received += chunk
    return received.decode()


def _end_with_parent() -> None:
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
