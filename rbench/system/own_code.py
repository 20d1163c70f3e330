"""Tells users in one line what a file, a function or data of theirs made fail, and where: `FILE:LINE: message`.

This is the boundary between rbench and what users write. Checks beside it are for mistakes that would be silent, or
would cost work. `failing_in` is put around what reads a file that a user names; the errors of libraries (pydantic,
json, csv, pyarrow) are then told with the file. A user's Python is called as it is: the command line finds its line in
the traceback (`place_of_error`).
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from rbench.errors import AnswerError, RbenchError, ResourceError

_PACKAGE = Path(__file__).resolve().parents[1]


def place_of_error(error: BaseException) -> str | None:
    """Return `FILE:LINE`, the last line of a user's own Python in an exception's traceback; None: there is none.

    Own is what is neither rbench's nor Python's nor of an installed package, except files that packages offer to
    rbench, which are imported by their paths (`config.registry.load_module`).
    """
    if isinstance(error, SyntaxError) and error.filename and _is_users_code(error.filename):
        return f"{_short_path(error.filename)}:{error.lineno or 1}"
    place, frames = None, error.__traceback__
    while frames is not None:
        file, module = frames.tb_frame.f_code.co_filename, str(frames.tb_frame.f_globals.get("__name__"))
        if _is_users_code(file, offered=module.startswith("rbench_file_")):
            place = f"{_short_path(file)}:{frames.tb_lineno}"
        frames = frames.tb_next
    return place


@cache
def _is_users_code(file: str, offered: bool = False) -> bool:
    """Return whether a file is a user's: not rbench's and, unless it was `offered` with --include, not installed."""
    path = Path(file)
    if not path.is_file() or any(path.resolve().is_relative_to(folder) for folder in _rbench_folders()):
        return False
    return offered or not any(path.resolve().is_relative_to(folder) for folder in _installed_folders())


@cache
def _rbench_folders() -> tuple[Path, ...]:
    """Return the folders of rbench's own code: the package, and the attacks that are beside it in a checkout."""
    return _PACKAGE, _PACKAGE.parent / "attacks"


@cache
def _installed_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple({Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")})


def _short_path(file: str) -> str:
    """Return a path as messages show it: relative where it lies below the current folder."""
    path = Path(file).absolute()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def error_message(error: BaseException) -> str:
    """Return what an exception says, in one line: of pydantic's the first problem, of others type and text."""
    if isinstance(error, ValidationError):
        first, *_ = error.errors(include_url=False, include_input=False, include_context=False)
        where = ".".join(map(str, first["loc"]))
        return f"`{where}`: {first['msg']}" if where else str(first["msg"])
    if isinstance(error, OSError) and error.strerror:
        return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
    return " ".join(traceback.format_exception_only(error)[-1].split())


@contextmanager
def failing_in(
    place: Path | str | Callable[[], str],
    kind: type[RbenchError] = ResourceError,
    remedy: str = "",
    *,
    also: tuple[type[BaseException], ...] = (),
) -> Iterator[None]:
    """Raise `kind` with the place of a file, where reading it or what it says raises in the block.

    The place is the line of a user's own Python, where one raised it.

    Errors of rbench pass, since they have their own places, and so does an OSError that names its file: the command
    line tells both.

    Args:
        place: the file, or FILE:LINE, or what returns that after the failure; a line that a parser names is added.
        remedy: ends the message, as a sentence.
        also: further exceptions that are told so, which are no subclasses of Exception.
    """
    caught: tuple[type[BaseException], ...] = (Exception, *also)
    try:
        yield
    except caught as error:
        # rbench's own errors and those that name their file already say where: a second place would only confuse.
        if isinstance(error, RbenchError | AnswerError) or (isinstance(error, OSError) and error.filename):
            raise
        where = place_of_error(error)
        if where is None:
            line = getattr(error, "lineno", None)
            where = f"{place() if callable(place) else place}{f':{line}' if line else ''}"
        raise kind.at(str(where), f"{error_message(error)}{remedy and f'. {remedy}'}") from error


def describe_error(error: BaseException, folder: Path) -> str:
    """Return an exception in one line, with the last place in the code below `folder`, or else in any other code."""
    frames = traceback.extract_tb(error.__traceback__)
    own_frames = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    other_frames = [frame for frame in frames[1:] if "importlib" not in frame.filename]  # the first frame caught it
    what = error_message(error)
    if isinstance(error, SyntaxError):
        return f"{what} ({error.filename}, line {error.lineno})"
    place = next(reversed(own_frames or other_frames), None)
    return f"{what} ({place.filename}, line {place.lineno}: {place.line})" if place else what
