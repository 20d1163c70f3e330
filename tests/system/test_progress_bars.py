"""Tests of `hide_progress_bars`: transformers' bars are off in the block, those of downloads stay."""

from __future__ import annotations

import pytest
from huggingface_hub.utils import are_progress_bars_disabled
from transformers.utils import logging

from rbench.system.progress_bars import hide_progress_bars


def bars_shown() -> tuple[bool, bool]:
    """Whether the bars of weights, and those of downloads, are shown."""
    return logging.is_progress_bar_enabled(), not are_progress_bars_disabled()


def test_bars_of_weights_are_hidden_and_those_of_downloads_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "_tqdm_active", True)
    before = bars_shown()
    assert before == (True, True)
    with hide_progress_bars():
        assert bars_shown() == (False, True)
    assert bars_shown() == before


def test_a_user_who_hid_all_bars_sees_none_afterwards() -> None:
    before = bars_shown()
    logging.disable_progress_bar()
    try:
        with hide_progress_bars():
            assert bars_shown() == (False, False)
        assert bars_shown() == (False, False)
    finally:
        if before[0]:
            logging.enable_progress_bar()
