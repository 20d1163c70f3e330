"""Generated raters of known skill and bias, and a RUN of the embedded world whose texts they judge."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rbench.mini.generators import generate
from rbench.mini.oracle import oracle
from rbench.report.sheet import ANSWERS
from rbench.schema import AttackJob, Job, Outcome, Plan, Provenance, Record, Suite, TaskSpec
from rbench.schema.judged import SCALE, TEXTS, Item, Sheet
from rbench.score import attack_health, attack_scores, count_outcomes
from rbench.store.runs import RunStore
from tests.tables.conftest import ATTACKS, OTHERS, PROFILE

TASK = "mini-sentiment"
LABELS = ("negative", "positive")
MINI = TaskSpec(name=TASK, kind="single", columns=("text",), labels=LABELS, generator=TASK, licence="Apache-2.0")


@cache
def texts_of(label: int) -> list[str]:
    return [row["text"] for row in generate(TASK, 0)["test"] if row["label"] == label]


def mini_run(
    root: Path,
    n: int = 60,
    *,
    fell: float = 0.7,
    valid: float = 0.6,
    encoders: Sequence[str] = ("minilm",),
    seeds: Sequence[int] = (0,),
    attacks: Sequence[str] = ("pwws",),
    seed: int = 0,
) -> Path:
    """Write a RUN in which texts of mini-sentiment fell to other texts, of which the oracle says the label.

    Args:
        fell: the rate of success.
        valid: the rate of successes that have their label still.
    """
    store, task = RunStore(root), MINI
    suite = Suite(name="s", encoders=tuple(encoders), tasks=(TASK,), attacks=tuple(attacks), seeds=tuple(seeds))
    jobs = [
        Job.make(_spec(encoder, task, attack, n), (encoder, TASK, "clean", attack), {}, seed_)
        for seed_ in seeds
        for encoder in encoders
        for attack in attacks
    ]
    store.write_plan(Plan(suite=suite, jobs=tuple(jobs)))
    for job in jobs:
        rng = random.Random(f"{seed}/{job.key}")
        made = [_outcome(i, rng, fell, valid) for i in range(n)]
        record = Record(
            job=job,
            status="complete",
            scores=tuple(attack_scores(made, True).values()),
            counts=count_outcomes(made),
            provenance=Provenance(rbench="0"),
            health=attack_health(made),
            outcomes=store.write_outcomes(job, made),
        )
        store.write_record(record)
    return root


def _spec(encoder: str, task: TaskSpec, attack: str, n: int) -> AttackJob:
    return AttackJob(
        encoder=encoder,
        strategy=Suite(name="s").finetune[0].choice,
        task=task,
        data_fingerprint="d",
        attack=(ATTACKS | OTHERS)[attack],
        resources=PROFILE,
        resource_fingerprints={},
        num_examples=n,
    )


def _outcome(i: int, rng: random.Random, fell: float, valid: float) -> Outcome:
    label = i % 2
    success = rng.random() < fell
    text = rng.choice(texts_of(label if rng.random() < valid else 1 - label))
    return Outcome(
        example_id=f"test:{i}",
        status="succeeded" if success else "failed",
        original=(texts_of(label)[i % 200],),
        perturbed=(text,),
        label=label,
        original_prediction=label,
        perturbed_prediction=1 - label if success else label,
        num_queries=10,
        num_words=5,
        num_words_changed=1,
        perturbed_share=0.2 if success else None,
        oracle_label=oracle(TASK, [text]) if success else None,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class Rater:
    """Answers as the oracle does with a probability, and else by a leaning of its own."""

    number: int
    skill: float = 1.0
    bias: float = 0.5
    """How often it says label 1 where it does not know."""
    careless: float = 0.0
    """How often it leaves an item open."""

    def answers(self, sheet: Sheet, shown: Mapping[str, tuple[tuple[str, ...], ...]], seed: int = 0) -> list[list[str]]:
        """Return the rows of its file, in the columns ANSWERS."""
        rng = random.Random(f"{seed}/{self.number}/{sheet.id}")
        return [self._row(sheet, item, shown[item.id], rng) for item in sheet.items]

    def _row(self, sheet: Sheet, item: Item, texts: tuple[tuple[str, ...], ...], rng: random.Random) -> list[str]:
        row = dict.fromkeys(ANSWERS, "") | {"sheet": sheet.id, "rater": str(self.number), "item": item.id}
        true = [oracle(TASK, text) for text in texts]
        if rng.random() < self.careless:
            pass
        elif item.kind in TEXTS:
            knows = rng.random() < self.skill
            label = true[0] if knows else int(rng.random() < self.bias)
            row |= {"label": "?" if label is None else LABELS[int(label)], "natural": "yes"}
        else:
            row["meaning"] = str(SCALE if true[0] == true[1] and item.kind == "pair" else 1)
        return [row[name] for name in ANSWERS]


def file_of(rows: Iterable[Sequence[str]], header: Sequence[str] = ANSWERS) -> str:
    """Return rows as a CSV file."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return file.getvalue()
