"""Tests attacks on functions and endpoints: the same outcomes as on the network itself, and what fails with what."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from textattack.goal_functions import UntargetedClassification
from textattack.shared import AttackedText

from rbench import recipes
from rbench.errors import AnswerError, JobError, ResourceError
from rbench.recipes.answering import AnsweringVictim, open_answering
from rbench.schema import Outcome, TaskSpec
from rbench.schema.victims import VictimSpec
from rbench.victims.answers import AnswerClient
from rbench.words.resources import Resources
from tests.recipes import world
from tests.refusals import refusal
from tests.victims.server import Server

SPEC = VictimSpec(name="shipped", function="m:f", version="1")


def plainly(victim: recipes.Victim, texts: Sequence[Any]) -> list[list[float]]:
    """Probabilities of each text alone, as a user would compute them."""
    rows = []
    for text in texts:
        inputs = victim.tokenizer([text], truncation=True, max_length=victim.max_length, return_tensors="pt")
        with torch.no_grad():
            rows.append(victim.classifier(**inputs).logits[0].softmax(dim=0).tolist())
    return rows


def outcomes(victim: Any, resources: Resources, task: TaskSpec, examples: list[Any], pooled: int) -> list[Any]:
    spec = world.spec("textfooler")

    def build() -> Any:
        return recipes.build(spec, victim, resources, task)

    made = recipes.run(build, examples, spec=spec, task=task, seed=3, pooled=pooled)
    return sorted((one.model_dump(exclude={"seconds"}) for one in made), key=lambda one: one["example_id"])


@pytest.mark.parametrize("task", [world.SINGLE, world.PAIR], ids=["one text", "two texts"])
def test_a_function_and_an_endpoint_give_the_outcomes_of_their_weights(
    task: TaskSpec, bert: Path, resources: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = world.victim(bert, task)
    examples = world.examples(task, victim, 6)
    expected = outcomes(victim, resources, task, examples, pooled=1)
    statuses = {one["status"] for one in expected}
    assert "skipped" in statuses and statuses & {"succeeded", "failed"} and "errored" not in statuses

    name = f"serving_{task.kind}"
    (tmp_path / f"{name}.py").write_text(
        "from pathlib import Path\nfrom tests.recipes import test_answering, world\n"
        f"victim = world.victim(Path({str(bert)!r}), world.{'SINGLE' if task is world.SINGLE else 'PAIR'})\n"
        "def probabilities(texts):\n    return test_answering.plainly(victim, texts)\n"
    )
    monkeypatch.chdir(tmp_path)
    function = open_answering(VictimSpec(name="f", function=f"{name}:probabilities", version="1"), task)
    assert outcomes(function, resources, task, examples, pooled=5) == expected

    server = Server(
        lambda body: [dict(zip(task.labels, plainly(victim, [as_text(body["inputs"][0])])[0], strict=True))]
    )
    try:
        endpoint = open_answering(
            VictimSpec(name="e", endpoint={"url": server.url, "concurrency": 3, "timeout": 300}, version="1"), task
        )
        assert outcomes(endpoint, resources, task, examples, pooled=6) == expected
        assert server.most > 1
    finally:
        server.close()


def as_text(sent: Any) -> Any:
    return sent if isinstance(sent, str) else tuple(sent)


# ------------------------------------------------------------------------------------------------ without a network


class Words:
    """Probabilities that depend on the words of a text, whose texts are counted."""

    def __init__(self, labels: int = 2) -> None:
        self.labels, self.asked = labels, Counter[tuple[str, ...]]()

    def __call__(self, texts: Sequence[tuple[str, ...]]) -> list[Any]:
        self.asked.update(texts)
        return [self.row(" ".join(text)) for text in texts]

    def row(self, text: str) -> Any:
        logits = torch.tensor([(sum(map(ord, text)) * (i + 3)) % 31 / 7 for i in range(self.labels)])
        return logits.double().softmax(dim=0).numpy()


def answering(behind: Any, labels: int = 2) -> AnsweringVictim:
    return AnsweringVictim(AnswerClient(SPEC, tuple("abcdefghij"[:labels]), 1, behind, 64))


TEXTS = [str(row["text"]) for row in world.mini.rows("mini-sentiment", "test")[:40]]


def test_each_distinct_text_is_asked_once_in_the_order_and_number_asked_for() -> None:
    behind = Words()
    victim = answering(behind)
    rows = victim([TEXTS[0], TEXTS[1], TEXTS[0]])
    victim([TEXTS[1], TEXTS[2]])
    assert rows.dtype == torch.float32 and rows.shape == (3, 2)
    assert torch.equal(rows[0], rows[2]) and not torch.equal(rows[0], rows[1])
    assert behind.asked == Counter({(text,): 1 for text in TEXTS[:3]})


@pytest.mark.parametrize("labels", [2, 10])
def test_textattack_takes_the_probabilities_as_they_are(labels: int) -> None:
    behind = Words(labels)
    goal = UntargetedClassification(answering(behind, labels), use_cache=False)
    found = goal._call_model([AttackedText(text) for text in TEXTS])
    assert torch.equal(found, torch.from_numpy(np.array([behind.row(text) for text in TEXTS])).float())


def test_a_probability_of_zero_is_one() -> None:
    victim = answering(lambda texts: [np.array([0.0, 1.0]) for _ in texts])
    found = UntargetedClassification(victim, use_cache=False)._call_model([AttackedText("a film")])
    assert found.tolist() == [[0.0, 1.0]]


def attacked(behind: Any, resources: Resources, n: int = 8) -> list[Outcome]:
    victim = answering(behind)
    rows = {text: behind.row(text) for text in TEXTS[:n]}
    examples = [world.Example(f"test:{i}", (text,), int(rows[text].argmax())) for i, text in enumerate(TEXTS[:n])]
    spec = world.spec("pwws")

    def build() -> Any:
        return recipes.build(spec, victim, resources, world.SINGLE)

    return list(recipes.run(build, examples, spec=spec, task=world.SINGLE, seed=0, pooled=n))


def test_only_the_examples_that_ask_for_a_text_without_answer_are_errored(resources: Resources) -> None:
    class Choking(Words):
        def __call__(self, texts: Sequence[tuple[str, ...]]) -> list[Any]:
            rows = super().__call__(texts)
            return [
                AnswerError("it is too hot") if t == (TEXTS[3],) else row for t, row in zip(texts, rows, strict=True)
            ]

    found = {outcome.example_id: outcome for outcome in attacked(Choking(), resources)}
    assert {name for name, outcome in found.items() if outcome.status == "errored"} == {"test:3"}
    assert "victim shipped, asked for" in (found["test:3"].error or "") and "too hot" in (found["test:3"].error or "")
    plain = {outcome.example_id: outcome for outcome in attacked(Words(), resources)}
    for name in found.keys() - {"test:3"}:
        assert found[name].perturbed == plain[name].perturbed and found[name].num_queries == plain[name].num_queries


def test_a_failure_of_the_whole_ends_the_job(resources: Resources) -> None:
    class Down(Words):
        def __call__(self, texts: Sequence[tuple[str, ...]]) -> list[Any]:
            if self.asked:
                raise JobError("it is down")
            return super().__call__(texts)

    with refusal(JobError, "it is down"):
        attacked(Down(), resources)


def test_whatever_a_function_draws_the_attack_draws_the_same() -> None:
    def drawing(texts: Sequence[tuple[str, ...]]) -> list[Any]:
        random.random(), np.random.rand(), torch.rand(1)
        return [np.array([0.5, 0.5]) for _ in texts]

    def draws() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(1))

    recipes.run.__globals__["seed_all"](1, "a", "b")
    expected = draws()
    recipes.run.__globals__["seed_all"](1, "a", "b")
    victim = answering(drawing)
    victim(TEXTS[:2])
    victim.check()
    assert draws() == expected


def test_what_it_cannot_do_is_said() -> None:
    victim = answering(Words())
    assert not victim.is_truncated(TEXTS[0] * 99)
    assert victim.network.backend == "function" and victim.num_labels == 2 and victim.pooled == 64


def test_a_victim_is_refused_before_it_is_attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong_answers.py").write_text("def f(texts):\n    return [[0.2, 0.2, 0.6]] * len(texts)\n")
    with pytest.raises(ResourceError, match="shipped"):
        open_answering(VictimSpec(name="shipped", function="wrong_answers:f", version="1"), world.SINGLE)
