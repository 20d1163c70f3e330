"""Tests that attacks' questions reach networks in batches: calls of each network for a hundred rows that it reads.

The numbers are counted, not timed, on the embedded world with eight texts under way: about 1.3 times what they were
when this test was written. What a call costs besides arithmetic is the price of many small ones
(`benchmarks/questions.py` counts them on real texts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from rbench import recipes
from rbench.encoders.inference.network import Network, TokenRow
from tests.recipes import world

MOST = {"textfooler": 36, "textbugger": 36, "pwws": 19, "bae": 15, "bertattack": 25}
"""Calls of the victim for a hundred rows, at most."""
MOST_OF_MASKED_LM = {"bae": 90, "bertattack": 90}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("calls")
    return world.write_bert(folder / "victim", 0, head=False), world.write_bert(folder / "lm", 1, head=True)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("pwws", "bae") else [pytest.mark.nightly]) for name in world.ALL]
)
def test_a_hundred_rows_take_few_calls(name: str, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    calls, rows = Counter[str](), Counter[str]()
    whole = Network._whole

    def counted(network: Network, some: list[TokenRow]) -> Sequence[torch.Tensor]:
        kind = network.name.partition(" ")[0]
        calls[kind] += 1
        rows[kind] += len(some)
        return whole(network, some)

    victim = world.victim(folders[0], world.SINGLE)
    resources = world.resources(folders[1])
    examples = world.examples(world.SINGLE, victim, 24)
    victim.forget()
    monkeypatch.setattr(Network, "_whole", counted)
    spec = world.spec(name)
    outcomes = list(
        recipes.run(
            lambda: recipes.build(spec, victim, resources, world.SINGLE),
            examples,
            spec=spec,
            task=world.SINGLE,
            seed=0,
            pooled=8,
        )
    )
    assert sum(one.num_queries or 0 for one in outcomes) >= rows["victim"] > 100, "enough to count"
    per_hundred = {kind: 100 * calls[kind] / rows[kind] for kind in calls}
    assert per_hundred["victim"] <= MOST[name]
    if name in MOST_OF_MASKED_LM:
        assert per_hundred["masked"] <= MOST_OF_MASKED_LM[name]
