"""The base of everything that a Python file of a kind found by name defines: a measure, a metric, a kind of noise ...

Such a file holds one class. The base of its kind has the members that it may state, each with its type, its default and
what it means, so that an editor completes them, and mypy and `rbench.config.code.open_checked` check them.
"""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, get_args

from pydantic import BaseModel

from rbench.schema.common import Strict


class NoOptions(Strict):
    """The options of something that has none."""


O = TypeVar("O", bound=BaseModel)  # noqa: E741


class Extension(ABC, Generic[O]):
    """What one file of a kind defines: exactly one subclass of the kind's base.

    rbench makes one instance of it, without arguments. The options that a suite may set are a pydantic model: the
    argument of the base (`class Transfer(Measure[Options])`), or a class `Options` inside the class.
    """

    guide: ClassVar[str] = ""
    """The page that says how to write one, for messages. A base states it."""

    name: str = ""
    """The name of the file, without its suffix. rbench sets it."""
    path: Path | None = None
    """The file. rbench sets it."""
    title: str = ""
    """What it is, in a few words, for lists. Empty: the first line of the docstring of the class, or of the file."""
    reference: str | tuple[str, ...] = ""
    """The works to cite: keys of references.bib, or texts."""
    licence: str = ""
    Options: type[BaseModel] = NoOptions
    """What a suite may set. A suite is checked against it while it loads."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.name = cls.__module__.rpartition(".")[2]
        for base in vars(cls).get("__orig_bases__", ()):
            for argument in get_args(base)[:1]:
                if isinstance(argument, type) and issubclass(argument, BaseModel):
                    cls.Options = argument

    def said(self) -> Mapping[str, Any]:
        """Return title, reference and licence."""
        doc = type(self).__doc__ or sys.modules[type(self).__module__].__doc__ or ""
        title = self.title or doc.strip().partition("\n")[0]
        return {"title": title, "reference": self.reference, "licence": self.licence}
