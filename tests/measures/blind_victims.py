"""A victim that is blind by construction beside one that reads, and the RUN that `two_sided` makes of both."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from rbench.encoders.classifier import EncoderClassifier
from rbench.measures import MeasureContext, VictimRef, two_sided
from rbench.schema import Choice, Job, MeasureJob, Outcome
from rbench.tables import Results, Table
from rbench.tasks import Example
from rbench.tasks.contrast import ContrastBundle
from tests import tiny
from tests.measures.conftest import outcomes, results

MEASURE = two_sided.TwoSided()
MEASURE.name = "two_sided"
TUNED = (Choice(name="clean"), Choice(name="adversarial"))
READER, BLIND = VictimRef("one", "one", "clean"), VictimRef("two", "two", "clean")


class ContrastRows:
    """The rows of a contrast set: for each attacked text one edit with the other label, or none."""

    def __init__(self, attacked: tuple[Outcome, ...]) -> None:
        rng = random.Random(11)
        found = []
        for i, one in enumerate(attacked):
            texts = (" ".join(rng.choices(tiny.WORDS, k=6)),)
            label = 1 - int(one.label or 0) if i % 4 else int(one.label or 0)
            original = Example(f"{i}:original", one.original or (), one.label)
            found.append(ContrastBundle(str(i), original, (Example(str(i), texts, label),)))
        self.rows = tuple(found)


@pytest.fixture(scope="module")
def blinded(victims: dict[VictimRef, EncoderClassifier]) -> MeasureContext:
    """A victim that reads texts, and one that is blind by construction: its network has no input to its answer."""
    torch.manual_seed(0)
    blind = EncoderClassifier(victims[READER].encoder, 2).eval()
    torch.nn.init.zeros_(blind.head.weight)
    blind.head.bias.data = torch.tensor([0.0, 1.0])
    asked = {READER: victims[READER], BLIND: blind}
    attacked = {of: outcomes(victim, 100) for of, victim in asked.items()}
    rows_of = tiny.data(4, 4, 4).split
    return MeasureContext(
        task=tiny.data(2, 2, 2).spec,
        attack="swap",
        seed=0,
        victims=(READER, BLIND),
        outcomes=attacked,
        victim=asked.__getitem__,
        rows=rows_of,
        splits=("train", "validation", "test"),
        progress=lambda done, total, text: None,
        set=ContrastRows(attacked[READER]),  # type: ignore[arg-type]
    )


def stored(context: MeasureContext, **suite: Any) -> Results:
    """The RUN that has the measure's rows."""
    spec = MeasureJob(
        what=Choice(name="two_sided", options=two_sided.Options().model_dump(mode="json")),
        task=tiny.data(2, 2, 2).spec,
        data_fingerprint="d",
        attack="swap",
        encoders=("one", "two"),
        strategies=TUNED,
    )
    lines = list(MEASURE.computed(two_sided.Options(), context).lines)
    job = Job.make(spec, ("two_sided", "tiny", "swap"), {}, 0)
    return results([(job, lines)], finetune=TUNED, attacks=("swap",), **suite)


def table(context: MeasureContext, **options: Any) -> Table:
    return MEASURE.table(two_sided.Options(**options), stored(context))
