"""Attacks on STS tasks: pairs worked out by hand, bad input, options of the goal, and equality over batches."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import textattack
import torch
from textattack.constraints.pre_transformation import RepeatModification
from textattack.search_methods import GreedySearch
from textattack.transformations.word_swaps.word_swap import WordSwap

from rbench import mini, recipes
from rbench.encoders.scorer import CosineHead, EncoderScorer, RegressionHead
from rbench.encoders.sentence import SentenceEncoder
from rbench.recipes.cached import make_cached
from rbench.recipes.similarity_goal import SimilarityGoal, aim_at_similarity, remember_allowed
from rbench.schema import AttackJob, AttackSpec, Choice, Job, Outcome, ResourceSet, SimilarityGoalSpec, TaskSpec
from rbench.tasks import Example
from rbench.words.resources import Resources
from tests.recipes import world

TASK = TaskSpec(name="sts", kind="sts", columns=("sentence1", "sentence2"), scale=(0, 5))
MINI = TaskSpec(name="mini-sts", kind="sts", columns=("sentence1", "sentence2"), scale=(0, 5))
FIVE = "ant bee cat dog eel"
LONG = "ant pig pig pig pig pig pig pig pig pig"


class Shared:
    """A victim of known scores: 5 times the share of the first sentence's words that the second one has."""

    model = None

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> torch.Tensor:
        found = []
        for first, second in pairs:
            words = first.split()
            found.append(5 * sum(word in second.split() for word in words) / len(words))
        return torch.tensor(found, dtype=torch.float64)

    def is_truncated(self, texts: tuple[str, ...]) -> bool:
        return False


class Swap(WordSwap):  # type: ignore[misc]
    """Four words have one replacement each, other words none."""

    def _get_replacement_words(self, word: str) -> list[str]:
        return {"ant": ["fox"], "bee": ["gnu"], "cat": ["hen"], "yak": ["dog"]}.get(word, [])


def by_hand(**options: Any) -> textattack.Attack:
    """Each step asks for all pairs with one more word replaced, in alphabetical order, and takes the first of those
    with the largest error."""
    victim, goal = Shared(), SimilarityGoalSpec(**options)
    plain = textattack.Attack(
        textattack.goal_functions.UntargetedClassification(victim), [RepeatModification()], Swap(), GreedySearch()
    )
    made = make_cached(aim_at_similarity(plain, victim, TASK, goal))
    return remember_allowed(made) if goal.maximise else made


def outcome(first: str, second: str, gold: float | None, **options: Any) -> Outcome:
    example = Example("0", (first, second), gold)
    spec = AttackSpec(name="by-hand")
    (found,) = recipes.run(lambda: by_hand(**options), [example], spec=spec, task=TASK, seed=0)
    assert found.label is None and found.original_prediction is None and found.perturbed_prediction is None
    assert found.error is None, found.error
    return found


# The error must grow by 1, a fifth of the scale. Of two equal texts of five words, six words can be replaced, and each
# replacement in one of them takes a point from the score. The same replacement in the other gives the point back.
WORKED_OUT = {
    # first, second, gold, status, score after, second after, queries, words changed
    "5 to 4: the error is 1": (FIVE, FIVE, 5.0, "succeeded", 4.0, "ant bee hen dog eel", 1 + 6, 1),
    "error 0.1, then 0.9, then 1.9": (FIVE, FIVE, 4.9, "succeeded", 3.0, "ant gnu hen dog eel", 1 + 6 + 5, 2),
    "upwards, from 0 to 1": (FIVE, "pig pig pig pig yak", 0.0, "succeeded", 1.0, "pig pig pig pig dog", 1 + 4, 1),
    "error 4 before": (FIVE, FIVE, 1.0, "skipped", None, None, 1, 0),
    "error 1 before": (FIVE, FIVE, 4.0, "skipped", None, None, 1, 0),
    # error 0.999, then 0.001, 1.001 (it grew by 0.002) and 2.001
    "through the gold score": (FIVE, FIVE, 4.001, "succeeded", 2.0, "fox gnu hen dog eel", 1 + 6 + 5 + 4, 3),
    "nothing to replace": ("pig dog", "pig dog", 5.0, "failed", 5.0, "pig dog", 1, 0),
    # error 0.5 with one `ant` replaced; then the other one has to be, and the error is 0 again
    "never far enough": (LONG, LONG, 5.0, "failed", 5.0, LONG.replace("ant", "fox"), 1 + 2 + 1, 2),
}


@pytest.mark.parametrize("name", WORKED_OUT)
def test_outcome_of_a_pair_worked_out_by_hand(name: str) -> None:
    first, second, gold, status, score, changed, queries, words = WORKED_OUT[name]
    found = outcome(first, second, gold)
    assert (found.status, found.gold, found.perturbed_score) == (status, gold, score)
    assert (found.perturbed and found.perturbed[1], found.num_queries) == (changed, queries)
    assert found.num_words_changed == words
    assert found.original_score == Shared()([(first, second)]).item()
    assert found.skip_reason is None
    assert found.num_words == len(first.split()) + len(second.split())


@pytest.mark.parametrize(
    ("first", "second", "gold", "reason", "kept"),
    [
        (FIVE, " ", 5.0, "empty sentence", 5.0),
        ("", FIVE, 7.0, "empty sentence", 7.0),
        (FIVE, FIVE, 5.5, "gold outside the scale", 5.5),
        (FIVE, FIVE, -0.1, "gold outside the scale", -0.1),
        (FIVE, FIVE, None, "gold outside the scale", None),
        (FIVE, FIVE, math.nan, "gold outside the scale", None),
    ],
)
def test_a_pair_that_has_no_score_is_skipped_with_the_reason(
    first: str, second: str, gold: float | None, reason: str, kept: float | None
) -> None:
    found = outcome(first, second, gold)
    assert (found.status, found.skip_reason, found.gold, found.num_queries) == ("skipped", reason, kept, 0)
    assert found.original == (first, second) and found.original_score is None


def test_threshold_is_a_share_of_the_scale() -> None:
    assert outcome(FIVE, FIVE, 5.0, threshold=0.4).perturbed_score == 3
    # Error 1 is no longer past the threshold, 1.05. Down to the score 2, the error grows by 1.
    assert outcome(FIVE, FIVE, 4.0, threshold=0.21).status == "failed"


def test_printed_decimals_decide_and_not_their_rounding() -> None:
    goal = SimilarityGoal(SimpleNamespace(model=None), (0.0, 5.0), SimilarityGoalSpec())
    goal.original_error = 0.0
    for gold in np.arange(0, 40) / 10:
        goal.gold = float(gold)
        assert goal.succeeded(float(f"{gold + 1:.1f}"))
        assert not goal.succeeded(float(f"{gold + 0.999:.3f}"))


def test_maximise_goes_on_and_returns_the_largest_error() -> None:
    found = outcome(FIVE, FIVE, 5.0, maximise=True)
    # Of six words three can be replaced before a further one gives a point back; the search goes on to all six.
    assert (found.status, found.perturbed_score, found.num_words_changed) == ("succeeded", 2.0, 3)
    assert found.num_queries == 1 + 6 + 5 + 4 + 3 + 2 + 1
    lost = outcome(LONG, LONG, 5.0, maximise=True)
    assert (lost.status, lost.perturbed_score, lost.num_words_changed) == ("failed", 4.5, 1)
    assert outcome(FIVE, FIVE, 1.0, maximise=True).status == "skipped"


def test_the_largest_error_is_that_of_the_pair_and_not_of_one_before() -> None:
    examples = [Example(f"{i}", (text, text), 5.0) for i, text in enumerate((FIVE, LONG))]
    spec = AttackSpec(name="by-hand")
    found = {
        one.example_id: one
        for one in recipes.run(lambda: by_hand(maximise=True), examples, spec=spec, task=TASK, seed=0)
    }
    for example in examples:
        alone, together = outcome(*example.texts, 5.0, maximise=True), found[example.id]
        assert (together.perturbed, together.perturbed_score) == (alone.perturbed, alone.perturbed_score)


# --------------------------------------------------------------------------------------------- recipes and Geometry


def scorer(bert: Path, kind: str) -> EncoderScorer:
    torch.manual_seed(5)
    encoder = SentenceEncoder.open(bert, pooling="mean")
    head: CosineHead | RegressionHead = CosineHead(np.array([-1.0, 0.3, 1.0]), np.array([0.0, 1.0, 5.0]))
    if kind == "regression":
        head = RegressionHead(encoder.dim)
        torch.nn.init.normal_(head.linear.weight, std=0.4)
    return EncoderScorer(encoder, head, (0.0, 5.0), 64)


@pytest.fixture(scope="module", params=["cosine", "regression"])
def victim(bert: Path, request: pytest.FixtureRequest) -> recipes.ScorerVictim:
    return recipes.ScorerVictim(scorer(bert, request.param), "random", backend="torch")


def pairs(victim: recipes.ScorerVictim, n: int) -> list[Example]:
    """Pairs of the embedded world. Their gold scores are close to the victim's, which knows nothing."""
    rows = [(str(row["sentence1"]), str(row["sentence2"])) for row in mini.rows("mini-sts", "test")[:n]]
    golds = victim(rows).add(0.3).clamp(0, 5).tolist()
    return [Example(f"test:{i}", row, gold) for i, (row, gold) in enumerate(zip(rows, golds, strict=True))]


def attacked(
    spec: AttackSpec, victim: recipes.ScorerVictim, resources: Resources, examples: list[Example], pooled: int = 1
) -> list[dict[str, Any]]:
    path = world.ROOT / "attacks" / f"{spec.name}.py" if spec.recipe is None else None
    found = recipes.run(
        lambda: recipes.build(spec, victim, resources, MINI, path=path),
        examples,
        spec=spec,
        task=MINI,
        seed=0,
        pooled=pooled,
    )
    outcomes = sorted(found, key=lambda one: int(one.example_id.split(":")[1]))
    assert all(one.error is None for one in outcomes), next(one.error for one in outcomes if one.error)
    return [one.model_dump(exclude={"seconds"}) for one in outcomes]


@pytest.mark.parametrize(
    "name",
    [
        "pwws",
        "geometry",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("textfooler", "bertattack", "random")),
    ],
)
def test_batches_do_not_change_outcomes(name: str, bert: Path, resources: Resources) -> None:
    made = [recipes.ScorerVictim(scorer(bert, "cosine"), "random", backend="torch") for _ in range(2)]
    examples = pairs(made[0], 6)
    alone = attacked(world.spec(name, similarity={"threshold": 0.1}), made[0], resources, examples)
    together = attacked(world.spec(name, similarity={"threshold": 0.1}), made[1], resources, examples[::-1], pooled=4)
    assert alone == together
    assert {one["status"] for one in alone} & {"succeeded", "failed"}
    assert any(one["num_words_changed"] for one in alone)


@pytest.mark.parametrize("name", [pytest.param("textfooler", marks=pytest.mark.nightly), "pwws"])
def test_outcomes_are_those_of_plain_textattack(name: str, bert: Path, resources: Resources) -> None:
    benchmark = world.benchmark("advsts_equality")
    made = scorer(bert, "cosine")
    examples = pairs(recipes.ScorerVictim(made, "random", backend="torch"), 6)
    spec = world.spec(name, similarity={"threshold": 0.1})
    ours = attacked(spec, recipes.ScorerVictim(made, "random", backend="torch"), resources, examples, pooled=4)
    known = {one["example_id"]: one | {"seconds": 0.0} for one in ours}
    records = benchmark.theirs(spec, made, resources, MINI, examples, known, 0)
    assert [record for record in records if record["differs"] and not benchmark.near_tie(record)] == []
    assert {record["status"] for record in records} & {"succeeded", "failed"}


@pytest.mark.parametrize(("side", "fixed"), [("first", 1), ("second", 0)])
def test_the_other_side_stays(side: str, fixed: int, victim: recipes.ScorerVictim, resources: Resources) -> None:
    spec = world.spec("pwws", similarity={"side": side, "threshold": 0.05})
    found = [one for one in attacked(spec, victim, resources, pairs(victim, 8)) if one["perturbed"]]
    assert any(one["num_words_changed"] for one in found)
    assert all(one["original"][fixed] == one["perturbed"][fixed] for one in found)


def test_outcomes_hold_the_victims_scores(victim: recipes.ScorerVictim, resources: Resources) -> None:
    examples = pairs(victim, 5)
    for one, example in zip(
        attacked(world.spec("geometry", similarity={"threshold": 0.1}), victim, resources, examples),
        examples,
        strict=True,
    ):
        scores = victim.scorer.score_pairs([example.texts, one["perturbed"] or example.texts])
        assert one["original_score"] == pytest.approx(scores[0], abs=1e-5)
        if one["status"] != "skipped":
            assert one["perturbed_score"] == pytest.approx(scores[1], abs=1e-5)
            grown = (abs(scores[1] - example.label) - abs(scores[0] - example.label)) / 5
            assert (one["status"] == "succeeded") == (grown >= 0.1)


def test_gradients_are_those_of_the_raw_score(victim: recipes.ScorerVictim) -> None:
    (pair,) = [example.texts for example in pairs(victim, 1)]
    network = victim.scorer.encoder.model
    inputs = [victim.tokenizer(text, return_tensors="pt") for text in pair]
    embedded = [network.get_input_embeddings()(one["input_ids"]).detach().requires_grad_() for one in inputs]

    def vector(side: int) -> torch.Tensor:
        given = {name: value for name, value in inputs[side].items() if name != "input_ids"}
        return victim.scorer.vectors(inputs_embeds=embedded[side], **given)

    expected = torch.autograd.grad(victim.scorer.head.raw(vector(0), vector(1)).sum(), embedded)
    for found, wanted in zip(victim.embedding_gradients([pair]), expected, strict=True):
        torch.testing.assert_close(found, wanted[0], rtol=1e-4, atol=1e-6)
    shown = victim.get_grad(pair)
    assert len(shown["gradient"]) == len(victim._tokenize([pair])[0]) == shown["ids"].shape[1]


@pytest.mark.parametrize("word_norm", ["l2", "l1"])
def test_geometry_orders_the_words_of_both_sentences_by_the_norm_that_is_asked_for(
    word_norm: str, victim: recipes.ScorerVictim, resources: Resources
) -> None:
    (pair,) = [example.texts for example in pairs(victim, 1)]
    path = world.ROOT / "attacks" / "geometry.py"
    attack = recipes.build(world.spec("geometry", word_norm=word_norm), victim, resources, MINI, path=path)
    text = textattack.shared.AttackedText(OrderedDict(zip(MINI.columns, pair, strict=True)))
    (found,) = attack.search_method.gradients([text], norms=True).norms
    expected: list[float] = []
    for sentence, gradients in zip(pair, victim.embedding_gradients([pair]), strict=True):
        places = victim.tokenizer(sentence, return_offsets_mapping=True)["offset_mapping"]
        for word in re.finditer(r"\w+", sentence):
            rows = gradients[[word.start() <= start < end <= word.end() for start, end in places]]
            expected.append(float(rows.mean(dim=0).norm() if word_norm == "l2" else rows.abs().sum()))
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


def test_geometry_pushes_towards_the_farther_end(bert: Path, resources: Resources) -> None:
    """It does so also from a score on the near side of the gold score, where the error's own gradient points back."""
    victim = recipes.ScorerVictim(scorer(bert, "cosine"), "random", backend="torch")
    rows = [example.texts for example in pairs(victim, 12)]
    scores = victim(rows).tolist()
    examples = [
        Example(f"test:{i}", row, s - 0.1 if s > 2.5 else s + 0.1)
        for i, (row, s) in enumerate(zip(rows, scores, strict=True))
    ]
    spec = world.spec("geometry", similarity={"threshold": 1.0}, keep="positive")
    moved = [
        (one["perturbed_score"] - one["original_score"]) * (1 if one["gold"] < 2.5 else -1)
        for one in attacked(spec, victim, resources, examples)
        if one["num_words_changed"]
    ]
    assert len(moved) > 2 and np.mean(moved) > 0.1


# ---------------------------------------------------------------------------------------------------------------- keys


def key(task: TaskSpec, **options: Any) -> str:
    spec = AttackSpec(name="a", recipe="PWWSRen2019", similarity=SimilarityGoalSpec(**options))
    job = AttackJob(
        encoder="e",
        strategy=Choice(name="s"),
        task=task,
        data_fingerprint="1",
        attack=spec,
        resources=ResourceSet(name="r"),
        resource_fingerprints={},
        num_examples=1,
    )
    return Job.make(job, ("e",), {}, 0).key


def test_the_goal_enters_keys_of_sts_tasks_only_and_only_where_it_is_no_default() -> None:
    assert len({key(MINI), key(MINI, threshold=0.3), key(MINI, side="first"), key(MINI, maximise=True)}) == 4
    assert key(MINI) == key(MINI, threshold=0.2, side="both", maximise=False)
    assert key(world.PAIR) == key(world.PAIR, threshold=0.3, maximise=True)
