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
- imports flair and bert_score, which take as long as everything else. Here they are imported at their first use
  (see `_deferred`).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rbench.attack._deferred import deferred
from rbench.errors import ResourceError
from rbench.system import scratch

CHECK_FILE = "post_install_check_3"


@contextmanager
def swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set `owner.name` to `value` inside the block. Restore it afterwards, also where a base class defined it."""
    own = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


_MISSING = object()


@contextmanager
def _loggers_kept() -> Iterator[None]:
    threshold = logging.root.manager.disable
    before = {
        name: logger.disabled
        for name, logger in logging.Logger.manager.loggerDict.items()
        if isinstance(logger, logging.Logger)
    }
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(threshold)
        for name, disabled in before.items():
            logging.getLogger(name).disabled = disabled


@contextmanager
def _environment_kept(name: str, default: str) -> Iterator[None]:
    before = os.environ.get(name, default)
    try:
        yield
    finally:
        os.environ[name] = before


@contextmanager
def _no_post_install() -> Iterator[None]:
    import nltk

    check = Path(os.environ.get("TA_CACHE_DIR") or Path.home() / ".cache" / "textattack") / CHECK_FILE
    existed = check.exists()
    with swapped(nltk, "download", lambda *args, **kwargs: False):
        yield
    if not existed:
        check.unlink(missing_ok=True)


@contextmanager
def _stopwords_or_none() -> Iterator[None]:
    import nltk.corpus

    try:
        nltk.corpus.stopwords.words("english")
        yield
    except LookupError:
        with swapped(nltk.corpus, "stopwords", SimpleNamespace(words=lambda language: [])):
            yield


def _prepared_import() -> Any:
    try:
        with (
            _loggers_kept(),
            _environment_kept("TOKENIZERS_PARALLELISM", "false"),
            _no_post_install(),
            _stopwords_or_none(),
            deferred(),
        ):
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


textattack: Any = sys.modules.get("textattack") or _prepared_import()
_keep_words_in_cache()


def use_device(device: str) -> None:
    """Make TextAttack's own components keep their tensors on `device`. By default they use a GPU if there is one."""
    import torch

    textattack.shared.utils.device = torch.device(device)
