"""Tiny victims with random weights, outcomes of an attack on them, and the RUN that tests of tables make by hand."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rbench.encoders.classifier import EncoderClassifier
from rbench.measures import MeasureContext, VictimRef
from rbench.metrics import MetricCatalogue
from rbench.schema import Outcome, Plan, Provenance, Record, Suite
from rbench.store.job_status import JobStatuses
from rbench.tables import Results
from tests import tiny
from tests.measures.words_runs import words_run as words_run
from tests.tables.conftest import make_run as make_run

MEMBERS = [VictimRef(e, e, f) for e in ("one", "two") for f in ("clean", "adversarial")]


def said(victim: EncoderClassifier, text: str) -> int:
    """The victim's prediction for one text, alone in its batch."""
    encoded = victim.tokenizer(text, return_tensors="pt", truncation=True, max_length=victim.max_length)
    with torch.inference_mode():
        return int(victim(**encoded).logits.argmax())


def outcomes(victim: EncoderClassifier, n: int) -> tuple[Outcome, ...]:
    """An attack that puts one random text in place of another: what it makes is what the victim says."""
    rng, drawn = random.Random(3), []
    for _ in range(n):
        text, other = (" ".join(rng.choices(tiny.WORDS, k=6)) for _ in range(2))
        drawn.append((text, other, rng.randrange(2)))
    with torch.inference_mode():  # all at once; tests ask for each alone
        texts = [text for one in drawn for text in one[:2]]
        predicted = victim(**victim.tokenizer(texts, padding=True, return_tensors="pt")).logits.argmax(1).tolist()
    made = []
    for i, (text, other, label) in enumerate(drawn):
        before, after = predicted[2 * i : 2 * i + 2]
        status = "skipped" if before != label else "succeeded" if after != label else "failed"
        more = {"perturbed": (other,), "perturbed_prediction": after} if status != "skipped" else {}
        common = {"original": (text,), "label": label, "original_prediction": before}
        made.append(Outcome(example_id=f"test:{i:03}", status=status, **common, **more))
    return tuple(made)


@pytest.fixture(scope="session")
def victims(tmp_path_factory: pytest.TempPathFactory) -> dict[VictimRef, EncoderClassifier]:
    """Four victims that often disagree."""
    made = {}
    for seed, of in enumerate(MEMBERS):
        folder = tiny.write_bert(tmp_path_factory.mktemp(f"victim{seed}"), seed)
        torch.manual_seed(seed)
        victim = EncoderClassifier(tiny.encoder(folder), 2).eval()
        torch.nn.init.normal_(victim.head.weight)
        with torch.inference_mode():  # so that it says either class of half of the texts
            texts = [" ".join(random.Random(i).choices(tiny.WORDS, k=6)) for i in range(60)]
            logits = victim(**victim.tokenizer(texts, padding=True, return_tensors="pt")).logits
            victim.head.bias.data[1] -= (logits[:, 1] - logits[:, 0]).median()
        made[of] = victim
    return made


@pytest.fixture(scope="session")
def context(victims: dict[VictimRef, EncoderClassifier]) -> MeasureContext:
    """What a measure is given: outcomes of 80 texts for each victim. Not to be written to."""
    return MeasureContext(
        task=tiny.data(2, 2, 2).spec,
        attack="swap",
        seed=0,
        victims=tuple(victims),
        outcomes={of: outcomes(victim, 80) for of, victim in victims.items()},
        victim=victims.__getitem__,
        rows=tiny.data(12, 6, 4).split,
        splits=("train", "validation", "test"),
        progress=lambda done, total, text: None,
    )


def results(jobs: list[Any], **suite: Any) -> Results:
    """What tables of measures read: jobs that are done, with rows. `jobs` are (job, rows)."""
    plan = Plan(
        suite=Suite(**{"name": "s", "encoders": ("one", "two"), "tasks": ("tiny",), **suite}), jobs=[j for j, _ in jobs]
    )
    rows = {job.key: found for job, found in jobs}
    made = {job.key: Record(job=job, status="complete", provenance=Provenance(rbench="0")) for job, _ in jobs}
    store: Any = SimpleNamespace(rows=lambda job: rows[job.key], root=Path("RUN"))
    return Results(store, plan, JobStatuses(made, {}), MetricCatalogue())
