"""Delays the import of flair and bert_score until something uses them.

TextAttack imports both. They take about a fifth of the time of its import, and 44 of its 604 MB
(`benchmarks/results/growth.json`). rbench replaces the components that use them by resources of its own, so hardly any
process needs them. While TextAttack is imported, `sys.modules` holds
stand-ins. They are removed afterwards, so that `import flair` elsewhere gets the library. TextAttack keeps references
to the stand-ins. At its first use, a stand-in imports the library and forwards the call to it. So a user's attack in
which TextAttack tags words with flair works as it does without rbench.
"""

from __future__ import annotations

import importlib
import sys
from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from rbench.errors import ResourceError


class _Module(ModuleType):
    """Stands in for a module. Access to an attribute that was not set on the stand-in imports the module."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system and inspection look these up, not users
            raise AttributeError(name)
        return getattr(_library(self.__name__), name)


class _Name:
    """Stands in for `name` of a module. A call or access to an attribute imports the module."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(_library(self._module), self._name)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(_library(self._module), self._name), name)


class _Tokenizer(ABC):  # noqa: B024 (an ABC as flair's is: `__bases__` can only be set to a class of the same layout)
    """Stands in for flair's class of this name until TextAttack's subclass of it is first instantiated."""

    def __new__(cls) -> Any:
        _library("flair")
        return object.__new__(cls)


def _stand_ins() -> dict[str, ModuleType]:
    """Return a stand-in for each module that TextAttack imports, with the names that it imports from it."""
    modules: dict[str, Any] = {name: _Module(name) for name in ("flair", "flair.data", "flair.models", "bert_score")}
    modules["flair"].data = modules["flair.data"]
    modules["flair.data"].Tokenizer = _Tokenizer
    modules["flair.data"].Sentence = _Name("flair.data", "Sentence")
    modules["flair.models"].SequenceTagger = _Name("flair.models", "SequenceTagger")
    return modules


_made = _stand_ins()


@contextmanager
def deferred() -> Iterator[None]:
    """Put the stand-ins into `sys.modules` while TextAttack is imported. Imported libraries are kept."""
    ours = {name: module for name, module in _made.items() if name.partition(".")[0] not in sys.modules}
    sys.modules.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del sys.modules[name]


def _library(name: str) -> ModuleType:
    """Import the module of this name. flair gets the device and tokenizer base that TextAttack set on the stand-ins."""
    if sys.modules.get(name) is _made[name]:
        raise ImportError(f"{name} was asked for something while TextAttack was being imported", name=name)
    try:
        library = importlib.import_module(name)
    except ImportError as error:
        raise ResourceError(
            f"TextAttack asks for {name}, which cannot be imported ({error}); flair 0.15 needs transformers 4: "
            "pip install flair==0.15.1 'transformers<5'"
        ) from error
    if name.startswith("flair"):
        flair: Any = importlib.import_module("flair")
        if "device" in vars(_made["flair"]):
            flair.device = vars(_made["flair"]).pop("device")
        for tokenizer in _Tokenizer.__subclasses__():
            tokenizer.__bases__ = (flair.data.Tokenizer,)
    return library
