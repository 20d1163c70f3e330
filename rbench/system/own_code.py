"""Tells users of an exception in their own code: what it says, and the line of theirs that it came from."""

from __future__ import annotations

import traceback
from pathlib import Path


def told(error: BaseException, folder: Path) -> str:
    """Return an exception in one line, with the last place in the code below `folder`, or else in any other code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    other = [frame for frame in frames[1:] if "importlib" not in frame.filename]  # the first frame caught it
    what = " ".join(traceback.format_exception_only(error)[-1].split())
    if isinstance(error, SyntaxError):
        return f"{what} ({error.filename}, line {error.lineno})"
    place = next(reversed(own or other), None)
    return f"{what} ({place.filename}, line {place.lineno}: {place.line})" if place else what
