"""Imports textattack without its side effects. Importing this module is enough; do it before any textattack import.

By itself, `import textattack` (0.3.11)
- downloads NLTK packages and stanza models unless its cache folder has the file `post_install_check_3`. Here
  `nltk.download` does nothing during the import. The check file that TextAttack writes is removed if it is new, so that
  TextAttack's own command line still downloads what it needs. (`TA_CACHE_DIR` is left alone, because it would redirect
  the Hugging Face cache as well.)
- raises LookupError where NLTK's stop words are missing, because a class body in `textattack.augmentation`, which
  rbench does not use, reads them. Here that list is empty in that case.
- disables every existing logger (`dictConfig` with its default) and sets TOKENIZERS_PARALLELISM. Here both are
  restored, and TextAttack's logger shows errors only. Tokenizers use one thread unless the user says otherwise, because
  batches are small and processes fork.
- imports jieba, which divides texts with Chinese characters into words. It reads a table of words, with marshal, from
  the shared temporary folder, where anybody may have put it. Here the table is in rbench's cache folder.
- imports flair and bert_score, which take about a fifth of the time of its import, and 44 of its 604 MB
  (`benchmarks/results/growth.json`). rbench replaces the components that use them by resources of its own, so hardly
  any process needs them. Here `sys.modules` holds stand-ins during the import. They are removed afterwards, so that
  `import flair` elsewhere gets the library. TextAttack keeps references to the stand-ins. At its first use, a stand-in
  imports the library and forwards the call to it. So a user's attack in which TextAttack tags words with flair works as
  it does without rbench.
- imports datasets, which its own data sets use, and no attack. It has a stand-in, too.
- imports NLTK, and NLTK all of SciPy's statistics and scikit-learn, which it does without where they are not installed.
  Here it is imported as if they were not, because that took a fifth of the time to the first outcome. What is lost:
  in a process that attacks, NLTK's `fisher_exact`, SklearnClassifier and transition parser do not work, unless NLTK was
  imported before rbench attacked.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import os
import sys
from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from packaging.version import Version

from rbench.errors import ResourceError
from rbench.system import scratch

CHECK_FILE = "post_install_check_3"
MIN_FLAIR = Version("0.12")
"""The oldest flair with what TextAttack uses of it. pip installs an older one (pyproject.toml says why)."""
FLAIR = """flair 0.15 needs transformers 4: pip install flair==0.15.1 'transformers<5' 'sentence-transformers<6'"""


@contextmanager
def swap_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set `owner.name` to `value` inside the block. Restore it afterwards, also where a base class defined it."""
    previous = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if previous is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, previous)


_MISSING = object()


def _list_loggers() -> list[tuple[str, logging.Logger]]:
    known = logging.Logger.manager.loggerDict.items()
    return [(name, logger) for name, logger in known if isinstance(logger, logging.Logger)]


@contextmanager
def _keep_loggers_and_environment() -> Iterator[None]:
    parallel = os.environ.get("TOKENIZERS_PARALLELISM", "false")
    threshold = logging.root.manager.disable
    disabled = {name for name, logger in _list_loggers() if logger.disabled}
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        os.environ["TOKENIZERS_PARALLELISM"] = parallel
        logging.disable(threshold)
        for name, logger in _list_loggers():  # also those that were made during the import
            logger.disabled = name in disabled


@contextmanager
def _refuse_imports(*names: str) -> Iterator[None]:
    """Make imports of these modules fail inside the block, as where they are not installed. Imported ones stay."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None makes an import fail
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def _import_nltk() -> ModuleType:
    with _refuse_imports("scipy.stats", "sklearn"):
        return importlib.import_module("nltk")


@contextmanager
def _prevent_post_install() -> Iterator[None]:
    nltk = _import_nltk()
    check = Path(os.environ.get("TA_CACHE_DIR") or Path.home() / ".cache" / "textattack") / CHECK_FILE
    existed = check.exists()
    with swap_attribute(nltk, "download", lambda *args, **kwargs: False):
        yield
    if not existed:
        check.unlink(missing_ok=True)


@contextmanager
def _provide_stopwords() -> Iterator[None]:
    import nltk.corpus

    try:
        nltk.corpus.stopwords.words("english")
        yield
    except LookupError:
        with swap_attribute(nltk.corpus, "stopwords", SimpleNamespace(words=lambda language: [])):
            yield


class _ModuleStandIn(ModuleType):
    """Stands in for a module. Access to an attribute that was not set on the stand-in imports the module."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)  # by which others see that the module is installed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system and inspection look these up, not users
            raise AttributeError(name)
        return getattr(_import_library(self.__name__), name)


class _NameStandIn:
    """Stands in for `name` of a module. A call or access to an attribute imports the module."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(_import_library(self._module), self._name)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(_import_library(self._module), self._name), name)


class _TokenizerStandIn(ABC):  # noqa: B024 (an ABC as flair's is: `__bases__` can only be set to a class of the same layout)
    """Stands in for flair's class of this name until TextAttack's subclass of it is first instantiated."""

    def __new__(cls) -> Any:
        _import_library("flair")
        return object.__new__(cls)


def _stand_ins() -> dict[str, ModuleType]:
    """Return a stand-in for each module that TextAttack imports, with the names that it imports from it."""
    names = ("flair", "flair.data", "flair.models", "bert_score", "datasets")
    modules: dict[str, Any] = {name: _ModuleStandIn(name) for name in names}
    modules["flair"].data = modules["flair.data"]
    modules["flair.data"].Tokenizer = _TokenizerStandIn
    modules["flair.data"].Sentence = _NameStandIn("flair.data", "Sentence")
    modules["flair.models"].SequenceTagger = _NameStandIn("flair.models", "SequenceTagger")
    return modules


_STAND_INS = _stand_ins()


@contextmanager
def _defer_imports() -> Iterator[None]:
    """Put the stand-ins into `sys.modules` while TextAttack is imported. Imported libraries are kept."""
    put_in = {name: module for name, module in _STAND_INS.items() if name.partition(".")[0] not in sys.modules}
    sys.modules.update(put_in)
    try:
        yield
    finally:
        for name in put_in:
            del sys.modules[name]


def _import_library(name: str) -> ModuleType:
    """Import the module of this name. flair gets the device and tokenizer base that TextAttack set on the stand-ins."""
    if sys.modules.get(name) is _STAND_INS[name]:
        raise ImportError(f"{name} was asked for something while TextAttack was being imported", name=name)
    try:
        if name.startswith("flair") and Version(importlib.metadata.version("flair")) < MIN_FLAIR:
            raise ImportError(f"flair {importlib.metadata.version('flair')} is there for pip alone")
        library = importlib.import_module(name)
    except ImportError as error:
        raise ResourceError(f"TextAttack asks for {name}, which cannot be imported ({error}); {FLAIR}") from error
    if name.startswith("flair"):
        flair: Any = importlib.import_module("flair")
        if "device" in vars(_STAND_INS["flair"]):
            flair.device = vars(_STAND_INS["flair"]).pop("device")
        for tokenizer in _TokenizerStandIn.__subclasses__():
            tokenizer.__bases__ = (flair.data.Tokenizer,)
    return library


def _import_textattack() -> Any:
    try:
        with _keep_loggers_and_environment(), _prevent_post_install(), _provide_stopwords(), _defer_imports():
            import textattack
    except OSError as error:
        raise ResourceError(
            f"TextAttack cannot write to its cache folder ({error}); set TA_CACHE_DIR to a folder that it may write to"
        ) from error
    textattack.shared.utils.logger.setLevel(logging.ERROR)
    textattack.shared.logger.setLevel(logging.ERROR)
    return textattack


def _keep_words_in_cache() -> None:
    import jieba

    if jieba.dt.tmp_dir is None:  # nobody else has decided
        folder = scratch.default_cache().absolute() / "prepared" / "words"
        with suppress(OSError):  # then each process makes the table again
            folder.mkdir(parents=True, exist_ok=True)
        jieba.dt.tmp_dir = str(folder)


textattack: Any = sys.modules.get("textattack") or _import_textattack()
_keep_words_in_cache()


def use_device(device: str) -> None:
    """Make TextAttack's own components keep their tensors on `device`. By default they use a GPU if there is one."""
    import torch

    textattack.shared.utils.device = torch.device(device)
