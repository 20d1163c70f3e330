"""Every recipe of TextAttack is told apart by its name: it runs (see test_build.py), or is refused with the reason."""

from __future__ import annotations

import pytest

from rbench import config
from rbench.config.attacks import list_recipes as known
from rbench.config.registry import Registry
from rbench.errors import SuiteError

RUN = sorted(name for name, recipe in known().items() if not recipe.refused)
REFUSED = sorted(known().keys() - set(RUN))


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(SuiteError, match=name):
        config.load_attack(name, Registry())


def test_all_are_told_apart() -> None:
    assert len(RUN) >= 10 and len(RUN) + len(REFUSED) == 24
