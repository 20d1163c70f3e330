"""Fine-tuning: it learns, repeats itself for a seed and keeps the best epoch; a probe leaves the encoder alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rbench.errors import JobError
from rbench.schema import Training
from rbench.tasks import Example
from rbench.train.finetune import clean, probe, strategy
from rbench.train.finetune._data import encode
from tests import tiny
from tests.refusals import refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_bert(tmp_path_factory.mktemp("bert"))


TRAINING = Training(epochs=4, learning_rate=5e-3, batch_size=16)


def accuracy(victim: torch.nn.Module, data: object) -> float:
    examples = data.split("test")  # type: ignore[attr-defined]
    rows = [victim.tokenizer(*e.texts, return_tensors="pt") for e in examples]
    with torch.no_grad():
        right = [int(victim(**row).logits.argmax()) == e.label for row, e in zip(rows, examples, strict=True)]
    return float(np.mean(right))


@pytest.mark.parametrize("name", ["clean", "probe"])
@pytest.mark.parametrize(
    "pairs", [pytest.param(False, marks=pytest.mark.nightly), True]
)  # other tests have texts alone
def test_a_strategy_learns_the_task(folder: Path, name: str, pairs: bool) -> None:
    module = strategy(name)
    data = tiny.data(pairs=pairs)
    victim, scores = module.run(module.Options(), tiny.context(tiny.encoder(folder), data, TRAINING))
    assert not victim.training
    assert scores["validation_accuracy"] > 0.85
    assert accuracy(victim, data) > 0.8


def test_clean_repeats_itself_for_a_seed_and_moves_with_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def weights(seed: int) -> torch.Tensor:
        training = Training(epochs=1, learning_rate=1e-3)
        context = tiny.context(tiny.encoder(folder), tiny.data(train=48), training, seed=seed)
        victim, _ = clean.CleanStrategy().run(clean.Options(), context)
        return torch.cat([p.detach().flatten() for p in victim.parameters()])

    first = weights(0)
    assert torch.equal(first, weights(0))
    assert not torch.equal(first, weights(1))
    # A training in mixed precision leaves this in its process, and `accelerate launch` sets it.
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert torch.equal(first, weights(0))


def test_the_epoch_kept_is_the_one_reported(folder: Path) -> None:
    data = tiny.data(train=64)
    victim, scores = clean.CleanStrategy().run(clean.Options(), tiny.context(tiny.encoder(folder), data, TRAINING))
    rows = encode(data.split("validation"), victim.tokenizer, 64)
    with torch.no_grad():
        hits = [
            int(victim(**{k: torch.tensor([v]) for k, v in row.items() if k != "labels"}).logits.argmax())
            == row["labels"]
            for row in rows
        ]
    assert np.mean(hits) == pytest.approx(scores["validation_accuracy"])
    assert 1 <= scores["best_epoch"] <= TRAINING.epochs


def test_a_diverged_run_says_so(folder: Path) -> None:
    training = Training(epochs=2, learning_rate=1e30)
    with refusal(JobError, "learning_rate"):
        clean.CleanStrategy().run(clean.Options(), tiny.context(tiny.encoder(folder), tiny.data(train=64), training))


def test_a_probe_leaves_the_encoder_alone_and_equals_its_regression(folder: Path) -> None:
    encoder = tiny.encoder(folder)
    before = [p.detach().clone() for p in encoder.parameters()]
    data = tiny.data()
    victim, scores = probe.ProbeStrategy().run(probe.Options(c=(1.0,)), tiny.context(encoder, data, TRAINING))
    assert all(torch.equal(a, b) for a, b in zip(before, encoder.parameters(), strict=True))

    from sklearn.linear_model import LogisticRegression

    x = {s: encoder.encode([e.texts[0] for e in data.split(s)]) for s in ("train", "test")}
    y = np.array([e.label for e in data.split("train")])
    expected = LogisticRegression(C=1.0, max_iter=1000).fit(x["train"], y).predict_proba(x["test"])
    with torch.no_grad():
        logits = victim.head(torch.from_numpy(x["test"]))
    assert np.allclose(torch.softmax(logits, -1).numpy(), expected, atol=1e-4)
    assert scores["c"] == 1.0


def test_a_probe_reads_the_sample_and_takes_the_first_of_equally_good_penalties(folder: Path) -> None:
    told: list[tuple[int, int, str]] = []
    training = TRAINING.model_copy(update={"max_train": 24, "max_validation": 10})
    context = tiny.context(tiny.encoder(folder), tiny.data(), training, progress=lambda *step: told.append(step))
    _, scores = probe.ProbeStrategy().run(probe.Options(c=(2.0, 2.0001)), context)
    assert [step[:2] for step in told] == [(24, 36), (34, 36), (35, 36), (36, 36)]
    assert [step[2] for step in told[:2]] == ["24 of 34 texts encoded", "34 of 34 texts encoded"]
    assert told[2][2].endswith(told[3][2].rpartition(" ")[2]), "they are equally good"
    assert scores["c"] == 2.0


def test_a_probe_knows_two_labels_of_three_when_no_training_row_has_the_third(folder: Path) -> None:
    data = tiny.data()
    spec = data.spec.model_copy(update={"labels": ("bad", "neither", "good")})
    examples = {split: [e._replace(label=2 * int(e.label or 0)) for e in data.split(split)] for split in data.sizes}
    data = replace(data, spec=spec, examples=examples)
    victim, scores = probe.ProbeStrategy().run(probe.Options(), tiny.context(tiny.encoder(folder), data, TRAINING))
    assert scores["validation_accuracy"] > 0.85
    assert accuracy(victim, data) > 0.8


@pytest.mark.parametrize(("labels", "seen"), [pytest.param(3, (0, 2), marks=pytest.mark.nightly), (4, (0, 1, 3))])
def test_a_probe_gives_a_label_that_it_never_saw_no_chance(folder: Path, labels: int, seen: tuple[int, ...]) -> None:
    """Probabilities are those of the regression over the labels seen, and 0 for the other."""
    from sklearn.linear_model import LogisticRegression

    encoder, data = tiny.encoder(folder), tiny.data()
    spec = data.spec.model_copy(update={"labels": tuple("abcd"[:labels])})

    def relabelled(split: str) -> list[Example]:
        # The second of three labels has half of the good texts, so that the regression has a row for each label.
        kinds = [int(e.label or 0) * (1 + (i % 4 == 3) * (len(seen) - 2)) for i, e in enumerate(data.split(split))]
        return [e._replace(label=seen[kind]) for e, kind in zip(data.split(split), kinds, strict=True)]

    examples = {split: relabelled(split) for split in data.sizes}
    relabelled_data = replace(data, spec=spec, examples=examples)
    victim, _ = probe.ProbeStrategy().run(probe.Options(c=(1.0,)), tiny.context(encoder, relabelled_data, TRAINING))
    x = {split: encoder.encode([e.texts[0] for e in examples[split]]) for split in ("train", "test")}
    regression = LogisticRegression(C=1.0, max_iter=1000).fit(x["train"], [e.label for e in examples["train"]])
    with torch.no_grad():
        found = torch.softmax(victim.head(torch.from_numpy(x["test"])), -1).numpy()
    assert regression.classes_.tolist() == list(seen)
    assert np.allclose(found[:, list(seen)], regression.predict_proba(x["test"]), atol=1e-4)
    (unseen,) = set(range(labels)) - set(seen)
    assert not found[:, unseen].any()
