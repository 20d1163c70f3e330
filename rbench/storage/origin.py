"""Remember which suite file a RUN is of, so that another file of the same name is not run into the same folder.

RUN/.processes/suite    the path of the file, relative to the RUN, so that both may be moved together
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from rbench.errors import StoreError
from rbench.storage.runs.reader import PROCESSES
from rbench.system.below import SMALL, Below

_NAME = "suite"


def note(run: Path, suite: Path | None) -> None:
    """Write down the file of the suite that runs here, if it has one."""
    if suite is not None:
        with suppress(OSError, ValueError):  # ValueError: on another drive. Then nothing is compared.
            Below(run).replace(run / PROCESSES / _NAME, os.path.relpath(suite.resolve(), run.resolve()).encode())


def check(run: Path, suite: Path | None) -> None:
    """Raise StoreError if the RUN is of another file that is still there and has another content than this one."""
    with suppress(OSError, ValueError):
        said = Below(run).read(run / PROCESSES / _NAME, SMALL).decode()
        other = Path(os.path.normpath(run.resolve() / said))
        if suite is None or other == suite.resolve() or not other.is_file():
            return
        if _content(other) == _content(suite.resolve()):
            return
        raise StoreError(
            f"{run} holds the RUN of {other}, and {suite} has the same name. Choose another folder for this one: "
            "--out DIR; or --fresh, which sets the old results aside"
        )


def _content(suite: Path) -> bytes:
    """Return the content of a suite file. The RUN may be somebody else's, and name anything: a device, a giant file."""
    return Below(suite.parent).read(suite, SMALL)
