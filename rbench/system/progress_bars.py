"""Hide the progress bars that transformers shows while it reads and writes weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hide_progress_bars() -> Iterator[None]:
    """Hide transformers' bars in the block: rbench's own progress says what is done.

    The first bar of a process makes a lock between processes. Where a worker process is ended with such a lock, Python
    warns of leaked semaphores at the end of the command. Downloads keep the bars of huggingface_hub.
    """
    from huggingface_hub.utils.tqdm import enable_progress_bars
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # and those of huggingface_hub
    if shown:
        enable_progress_bars()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
