"""A RUN in which two attacks needed few or many words, or failed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rbench.schema import Outcome, Space
from rbench.store.runs import RunStore
from tests.tables import conftest as made

LABELS = ("exhaustive", "pwws")
WORDS_CHANGED = {
    "minilm": {LABELS[0]: (1, 0, 0, 0, -1, 0, 1, 0, 0, -2), LABELS[1]: (3, 2, 9, 0, -1, 1, 1, 4, 3, 1)},
    "bert_b": {LABELS[0]: (1, 1, 0, 1, 0, 0, 1, 1, 0, 1), LABELS[1]: (2, 2, 2, 0, 3, 0, 1, 4, 1, 1)},
}
"""By encoder and attack the words changed in each text: 0 the attack failed, -1 skipped, -2 errored."""
WORDS_NEEDED = {
    "minilm": (1, 2, 9, math.inf, None, 1, 1, 4, 3, None),
    "bert_b": (1, 1, 2, 1, 3, math.inf, 1, 1, 1, 1),
}
"""By encoder the fewest words with which any attack succeeded; None: skipped, or errored in one of the attacks."""
STATUS = {0: "failed", -1: "skipped", -2: "errored"}


def make_outcomes(job: Any, n: int = 20) -> list[Outcome]:
    attack = job.parts[-1]
    rows = []
    for i, words in enumerate(WORDS_CHANGED[job.parts[0]][attack]):
        complete = {"robust_words": int(words != 1), "texts_left": 0} if attack == LABELS[0] and words >= 0 else {}
        rows.append(
            Outcome(
                example_id=f"test:{i}",
                status=STATUS.get(words, "succeeded"),  # type: ignore[arg-type]
                original=("a text",),
                perturbed=("another",) if words >= 0 else None,
                label=0,
                original_prediction=None if words == -2 else int(words == -1),
                num_queries=10,
                num_words=12,
                num_words_changed=max(words, 0),
                perturbed_share=words / 12 if words > 0 else None,
                seconds=0.5,
                error="boom" if words == -2 else None,
                **complete,
            )
        )
    return rows


@pytest.fixture
def words_run(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    space = {"space": Space().model_dump(mode="json")}
    attacks = {LABELS[0]: made.AttackSpec(name=LABELS[0], parameters=space), LABELS[1]: made.AttackSpec(name=LABELS[1])}
    monkeypatch.setattr(made, "ATTACKS", attacks)
    monkeypatch.setattr(made, "make_outcomes", make_outcomes)
    suite = made.make_suite(attacks=LABELS, encoders=tuple(WORDS_CHANGED), tasks=("mr",), seeds=(0,))
    found: RunStore = make_run(suite, sealed=True)
    return found
