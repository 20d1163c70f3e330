"""flair and bert_score, imported when something uses them and not before.

TextAttack imports both, which is half of the time and memory of its own import. rbench binds the components that would
use them to resources of its own, so hardly any process needs them. While TextAttack is imported, stand-ins lie in
`sys.modules`. They are taken out afterwards, so `import flair` elsewhere gets the library. What TextAttack holds of a
stand-in imports the library at its first use and passes the use on: an attack of your own in which TextAttack tags
words with flair works as it does without rbench.
"""

from __future__ import annotations

import importlib
import sys
from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class _Module(ModuleType):
    """Stands for a module, which is imported when it is asked for something that was not set here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by import machinery and inspection, not by a user
            raise AttributeError(name)
        return getattr(_library(self.__name__), name)


class _Name:
    """Stands for `name` of a module, which is imported when this is called or asked for an attribute."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(_library(self._module), self._name)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(_library(self._module), self._name), name)


class _Tokenizer(ABC):  # noqa: B024 (an ABC because flair's is: Python exchanges a base for one of the same layout)
    """Stands for flair's class of this name, also an ABC, until TextAttack's subclass of it is first instantiated."""

    def __new__(cls) -> Any:
        _library("flair")
        return object.__new__(cls)


def _stand_ins() -> dict[str, ModuleType]:
    """A module for each name that TextAttack imports, with all that it takes from there while it is imported."""
    modules: dict[str, Any] = {name: _Module(name) for name in ("flair", "flair.data", "flair.models", "bert_score")}
    modules["flair"].data = modules["flair.data"]
    modules["flair.data"].Tokenizer = _Tokenizer
    modules["flair.data"].Sentence = _Name("flair.data", "Sentence")
    modules["flair.models"].SequenceTagger = _Name("flair.models", "SequenceTagger")
    return modules


_made = _stand_ins()


@contextmanager
def deferred() -> Iterator[None]:
    """Import TextAttack inside this. A library that was imported before is left as it is."""
    ours = {name: module for name, module in _made.items() if name.partition(".")[0] not in sys.modules}
    sys.modules.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del sys.modules[name]


def _library(name: str) -> ModuleType:
    """The module of this name; flair also gets what TextAttack gave the stand-in: its device, and its tokenizer."""
    if sys.modules.get(name) is _made[name]:
        raise ImportError(f"{name} was asked for something while TextAttack was being imported", name=name)
    library = importlib.import_module(name)
    if name.startswith("flair"):
        flair: Any = importlib.import_module("flair")
        if "device" in vars(_made["flair"]):
            flair.device = vars(_made["flair"]).pop("device")
        for tokenizer in _Tokenizer.__subclasses__():
            tokenizer.__bases__ = (flair.data.Tokenizer,)
    return library
