"""Imports textattack without its side effects. Importing this module is enough; do it before any textattack import.

Left alone, `import textattack` (0.3.11)
- downloads NLTK packages and stanza models unless `post_install_check_3` lies in its cache folder. Here `nltk.download`
  does nothing while it is imported, and the check file that TextAttack then writes is removed where there was none: its
  own command line still downloads what it needs later. (`TA_CACHE_DIR` would redirect the Hugging Face cache as well.)
- raises LookupError where NLTK's stop words are missing, because a class body in `textattack.augmentation`, which
  rbench does not use, reads them. Here that one list is empty in that case.
- switches off every logger that exists already (`dictConfig` with its default) and sets TOKENIZERS_PARALLELISM. Here
  both are put back; its own logger speaks up for errors only. Tokenizers stay on one thread unless the user says
  otherwise: batches are small, and processes fork.
- imports flair and bert_score, which takes as long as all the rest. Here they wait for their first use (`_deferred`).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rbench.attack._deferred import deferred
from rbench.errors import ResourceError

CHECK_FILE = "post_install_check_3"


@contextmanager
def swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` inside; outside it is what it was, also if that came from a base class."""
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


textattack: Any = sys.modules.get("textattack") or _prepared_import()


def use_device(device: str) -> None:
    """Have TextAttack's own components keep their tensors on `device`; left alone they take any GPU they see."""
    import torch

    textattack.shared.utils.device = torch.device(device)
