"""Tests how a corpus is divided into batches: texts held out, and sentences that stay next to each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rbench.errors import JobError
from rbench.schema import TrainSpec
from rbench.train import batches, objectives
from rbench.train.loop import TextOrder, TrainingRows, _split_held_out, pretrain, shuffle_groups
from tests.refusals import refusal
from tests.train import bases
from tests.train.bases import TEXTS


def train(**settings: Any) -> TrainSpec:
    return TrainSpec.model_validate({"objective": "simcse", "data": "corpus", "batch_size": 8, **settings})


def runs(numbers: list[int], size: int) -> list[list[int]]:
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


@given(st.integers(1, 3000), st.integers(1, 64), st.integers(0, 5))
def test_whole_groups_are_trained_on_and_held_out(count: int, size: int, seed: int) -> None:
    texts = [str(i) for i in range(count)]
    trained, held_out = ([int(text) for text in part] for part in _split_held_out(texts, seed, size))
    assert len(held_out) == batches.count_held_out(count, size) <= 0.02 * count
    assert len(trained) == batches.count_trained(count, size)
    assert sorted(trained + held_out) == list(range(count - count % size))
    for group in runs(trained, size) + runs(held_out, size):
        assert group == list(range(group[0], group[0] + size)) and group[0] % size == 0


def test_a_batch_is_made_of_neighbours_in_an_order_of_its_own_each_epoch() -> None:
    rows = TrainingRows([str(i) for i in range(48)], lambda text: {"text": text}, False, 4)
    first, second, again = (list(TextOrder(rows, 8, 3, epoch)) for epoch in (lambda: 0, lambda: 1, lambda: 0))
    assert first == again and first != second and sorted(first) == list(range(48))
    starts = [group[0] for group in runs(first, 4)]
    assert runs(first, 4) == [[s, s + 1, s + 2, s + 3] for s in starts] and starts != sorted(starts)


def test_sentences_are_shuffled_one_by_one_unless_asked() -> None:
    """The order that stored trainings have had."""
    generator = torch.Generator().manual_seed(3)
    assert shuffle_groups(80, 1, torch.Generator().manual_seed(3)) == torch.randperm(80, generator=generator).tolist()
    assert batches.group_size(objectives.find("simcse").Options()) == 1
    assert batches.group_size(objectives.find("mlm").Options()) == 1


def test_an_encoder_sees_neighbours_in_each_batch(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    found: Any = objectives.find("simcse")
    build = found.build

    def watched(*args: Any) -> Any:
        built = build(*args)
        features, collate = built.features, built.collate
        built.features = lambda text: features(text) | {"text": text}

        def kept(rows: list[dict[str, Any]]) -> Any:
            seen.append([row["text"] for row in rows])
            return collate([{k: v for k, v in row.items() if k != "text"} for row in rows])

        built.collate = kept
        return built

    monkeypatch.setattr(found, "build", watched)
    texts = [f"{text} {i}" for i, text in enumerate(TEXTS)]
    spec = bases.spec("simcse", base, options={"neighbours": 4}, steps=3)
    pretrain(spec, base, texts, tmp_path, seed=0, module=found)
    trained = seen[1:]  # the first are the texts that health probes
    assert len(trained) >= 3
    for batch in trained:
        numbers = [int(text.rsplit(" ", 1)[1]) for text in batch]
        assert all(group == list(range(group[0], group[0] + 4)) for group in runs(numbers, 4)) and len(batch) == 8


def test_groups_that_make_no_batch_are_refused(base: Path, tmp_path: Path) -> None:
    spec = bases.spec("simcse", base, options={"neighbours": 3})
    with refusal(JobError, "8", "3", "neighbours"):
        pretrain(spec, base, TEXTS, tmp_path, seed=0)
    queue = train(objective="btcl", options={"neighbours": 3, "queue": 24})
    assert batches.find_problem("x", queue, 80, objectives.find("btcl"))
    few = train(options={"neighbours": 8})
    assert batches.find_problem("x", few, 15, objectives.find("simcse")) is None
    assert batches.find_problem("x", few, 7, objectives.find("simcse"))
