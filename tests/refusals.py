"""What tests say of errors without repeating their wording, so that a change of a message breaks one test file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rbench.config.registry import unknown_message


@contextmanager
def refusal(kind: type[BaseException], *values: str) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    """Expect an error whose message names `values`: files, numbers, options and commands, and no sentences."""
    with pytest.raises(kind) as caught:
        yield caught
    message = str(caught.value)
    missing = [value for value in values if not names(message, value)]
    assert not missing, f"{message!r} does not name {missing}"


def names(message: str, value: str) -> bool:
    """Return whether a message has a value as words of its own: `7` is not in `17`."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", message) is not None


def unknown(what: str, name: str, *nearest: str) -> str:
    """Return what is said of an unknown name, to the first names that are near to it; more may follow, and then a `?`.

    The wording is tested in tests/config/test_registry.py alone.
    """
    return unknown_message(what, name, nearest).removesuffix("?")


def nearest(name: str) -> str:
    """Return what ends the message about an unknown name to which `name` is the nearest."""
    return unknown_message("", name, [name]).partition("; ")[2].removesuffix("?")
