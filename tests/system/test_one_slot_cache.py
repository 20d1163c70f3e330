"""Tests the one-entry cache: it keeps one thing in memory while the same one is asked for."""

from __future__ import annotations

import gc
import weakref

import pytest

from rbench.system.one_slot_cache import OneSlotCache


class Network:
    """Something that one can refer to weakly."""


def test_what_is_asked_for_again_is_not_made_again() -> None:
    slot: OneSlotCache[Network] = OneSlotCache()
    first = slot.get(("here", 1), Network)
    assert slot.get(("here", 1), Network) is first
    other = slot.get(("here", 2), Network)
    assert other is not first
    assert slot.get(("here", 1), Network) is not first, "one thing is held, the last"


def test_what_was_held_is_gone_before_another_is_made() -> None:
    slot: OneSlotCache[Network] = OneSlotCache()
    before = weakref.ref(slot.get(1, Network))

    def make() -> Network:
        gc.collect()
        assert before() is None
        return Network()

    slot.get(2, make)


def test_nothing_is_held_of_what_could_not_be_made() -> None:
    slot: OneSlotCache[Network] = OneSlotCache()
    slot.get(1, Network)
    with pytest.raises(ZeroDivisionError):
        slot.get(2, lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    made = Network()
    assert slot.get(2, lambda: made) is made
    slot.clear()
    assert slot.get(2, Network) is not made
