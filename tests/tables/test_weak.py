"""Flags of weak attacks: each is raised by a victim, or by outcomes, that were made for it, and not by the control."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench.recipes import _textattack
from rbench.recipes import space as spaces
from rbench.schema import (
    STRONGEST_BUDGET,
    AttackJob,
    AttackSpec,
    Choice,
    Job,
    MeasuredRow,
    MeasureJob,
    Outcome,
    Plan,
    Provenance,
    Record,
    Space,
    VictimJob,
)
from rbench.schema.victims import VictimSpec
from rbench.store.runs import RunStore
from rbench.tables.flags import Flags
from rbench.tables.weak import FEWEST_TEXTS, SEARCH_FLAGS, WeakAttacks
from tests.tables.conftest import PROFILE, TASKS, make_record, make_suite

textattack = _textattack.textattack
N = 52
WORDS = ("one", "two", "three", "four", "five", "six")


class Toy(textattack.models.wrappers.ModelWrapper):  # type: ignore[misc, name-defined]
    """A victim whose log-odds of class 1 are a function of its words, with gradients that it says it has."""

    def __init__(self, odds: Callable[[Sequence[str]], float], gradient: Callable[[str], float] = lambda word: 0.0):
        self.model, self.odds, self.gradient = None, odds, gradient

    def __call__(self, texts: list[str]) -> Any:
        odds = np.array([[self.odds(text.split())] for text in texts])
        return np.hstack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))])

    def get_grad(self, text: str) -> Any:
        return {"gradient": np.array([[self.gradient(word)] for word in text.split()])}

    def tokenize(self, texts: list[Any], strip_prefix: bool = False) -> Any:
        return [text.split() for text in texts]


class Marked:
    """Substitutions of a word: itself with a number behind it, k of them."""

    def __init__(self, k: int) -> None:
        self.k = k

    def __call__(self, columns: tuple[str, ...], protected: Any = ()) -> list[tuple[str, ...]]:
        return [tuple(f"{word}{i}" for i in range(1, self.k + 1)) for word in columns[0].split()]


def texts() -> list[str]:
    """Texts of six words, of which one is `key`, mostly among the last."""
    places = [5 - (i * i) % 7 % 6 for i in range(N)]
    return [" ".join("key" if j == place else word for j, word in enumerate(WORDS)) for place in places]


def attacked(victim: Toy, search: Any, *, k: int = 1, budget: float = float("inf")) -> list[Outcome]:
    """What a search does that may replace one word."""
    constraints = [
        textattack.constraints.pre_transformation.RepeatModification(),
        textattack.constraints.overlap.MaxWordsPerturbed(max_num_words=1),
    ]
    goal = textattack.goal_functions.UntargetedClassification(victim, query_budget=budget)
    attack = textattack.Attack(goal, constraints, spaces.WordSwapInSpace(Marked(k)), search)  # type: ignore[arg-type]
    search.attack, found = attack, []
    np.random.seed(0)
    for i, text in enumerate(texts()):
        result = attack.attack(text, 0)
        fell = isinstance(result, textattack.attack_results.SuccessfulAttackResult)
        left = getattr(search, "texts_left", None)
        found.append(outcome(i, fell, num_queries=result.num_queries, texts_left=left))
    return found


def outcome(i: int, fell: bool, **more: Any) -> Outcome:
    given = {"original": ("a",), "perturbed": ("b",), "label": 0, "original_prediction": 0, **more}
    return Outcome(example_id=f"test:{i}", status="succeeded" if fell else "failed", **given)


def fell(count: int, n: int = N, **more: Any) -> list[Outcome]:
    return [outcome(i, i < count, **more) for i in range(n)]


VICTIM = Job.make(
    VictimJob(
        victim=VictimSpec(name="theirs", function="theirs:f", version="1"),
        victim_fingerprint="v",
        task=TASKS["mr"],
        data_fingerprint="d",
    ),
    ("theirs", "mr", "as-is"),
    {},
    0,
)


def job(search: str | None, k: int = 1, encoder: str = "theirs", budget: int | None = None) -> Job:
    """An attack in a space: the complete one, or a search inside."""
    space = {"space": Space(k=k).model_dump(mode="json")}
    name, options = ("exhaustive", space) if search is None else ("inside", {**space, "search": search})
    spec = AttackJob(
        encoder=encoder,
        strategy=Choice(name="as-is"),
        task=TASKS["mr"],
        data_fingerprint="d",
        attack=AttackSpec(name=name, parameters=options, query_budget=budget),
        resources=PROFILE,
        resource_fingerprints={},
        num_examples=N,
    )
    return Job.make(spec, (encoder, "mr", "as-is", f"{name}[{search},{k},{budget}]"), {"victim": VICTIM.key}, 0)


def flags(
    path: Path, *done: tuple[Job, list[Outcome]], measured: tuple[Job, list[MeasuredRow]] | None = None
) -> list[list[str]]:
    """The flags of attacks of which a RUN holds these outcomes; and, without outcomes, only those of the counts."""
    store = RunStore(path / f"run{len(list(path.iterdir()))}")
    jobs = [VICTIM, *(one for one, _ in done), *([measured[0]] if measured else [])]
    plan = Plan(suite=make_suite(encoders=("theirs", "other"), seeds=(0,)), jobs=tuple(jobs))
    records = {}
    for one, outcomes in done:
        digest = store.write_outcomes(one, outcomes)
        records[one.key] = make_record(one, outcomes).model_copy(update={"outcomes": digest})
    if measured is not None:
        of, rows = measured
        written = store.write_rows(of, rows)
        provenance = Provenance(rbench="0")
        records[of.key] = Record(job=of, status="complete", provenance=provenance, rows=written)
    for record in records.values():
        store.write_record(record)
    found = Flags(plan, records, store)
    blind = Flags(plan, records)
    assert all(set(blind.of([one])) <= {"weak search", "few candidates"} for one, _ in done)
    return [list(found.of([one])) for one, _ in done]


def only_the_key(words: Sequence[str]) -> float:
    """A replaced key fools it; another replaced word helps a little, so that a search takes the first one it tries."""
    changed = [word for word in words if word[-1].isdigit()]
    return 1.0 if "key1" in changed else -2.0 + 0.1 * len(changed) + 0.5 * ("key" not in words)


def blind_to_deletion(words: Sequence[str]) -> float:
    """The same, but that it does not show that a word is gone."""
    return only_the_key([*words, *(["key"] if "key1" not in words else [])])


def test_an_order_of_words_that_tells_nothing_is_no_better_than_random(tmp_path: Path) -> None:
    for odds, raised in ((blind_to_deletion, ["no better than random"]), (only_the_key, [])):
        victim = Toy(odds)
        guided, by_chance = (attacked(victim, spaces.searched(order)) for order in ("deletion", "random"))
        found = flags(tmp_path, (job("deletion"), guided), (job("random"), by_chance))
        assert found == [raised, []], odds.__name__


def test_gradients_that_tell_nothing_are_masked(tmp_path: Path) -> None:
    by_chance = attacked(Toy(only_the_key), spaces.searched("random"))
    for gradient, raised in ((lambda word: 0.0, ["gradient masking"]), (lambda word: float(word == "key"), [])):
        guided = attacked(Toy(only_the_key, gradient), spaces.searched("gradient"))
        assert flags(tmp_path, (job("gradient"), guided), (job("random"), by_chance)) == [raised, []]


def test_chance_says_nothing_of_few_texts_nor_where_nearly_all_is_found(tmp_path: Path) -> None:
    few = fell(5, FEWEST_TEXTS - 1)
    assert flags(tmp_path, (job("deletion"), few), (job("random"), few)) == [[], []]
    same, most = fell(N // 2), fell(N // 2 + 2, texts_left=0)
    assert flags(tmp_path, (job("deletion"), same), (job("random"), same)) == [["no better than random"], []]
    assert flags(tmp_path, (job("deletion"), same), (job("random"), same), (job(None), most)) == [[], [], []]
    other = fell(N // 2 + 2, texts_left=9)
    (guided, *_) = flags(tmp_path, (job("deletion"), same), (job("random"), same), (job(None), other))
    assert guided == ["no better than random"], "the complete search left texts"


def test_a_budget_that_ends_the_search_is_flagged(tmp_path: Path) -> None:
    victim = Toy(only_the_key)
    for search, budget, raised in ((None, 3, ["budget hit"]), ("pwws", 3, ["budget hit"]), ("pwws", 100, [])):
        made = spaces.searched(search) if search else spaces.CompleteSearch(Space())
        found = attacked(victim, made, budget=budget)
        assert flags(tmp_path, (job(search, budget=budget), found)) == [raised], (budget, search)


def test_strongest_has_a_budget_where_none_is_set(tmp_path: Path) -> None:
    for queries, raised in ((STRONGEST_BUDGET, ["budget hit"]), (STRONGEST_BUDGET - 1, [])):
        of = job("deletion")
        assert of.attacking is not None
        attack = of.attacking.attack.model_copy(update={"name": "strongest"})
        spec = of.attacking.model_copy(update={"attack": attack})
        made = Job.make(spec, (*of.parts[:3], "strongest"), of.needs, 0)
        assert flags(tmp_path, (made, fell(10, num_queries=queries))) == [raised]


def test_candidates_are_few_where_twice_as_many_find_far_more(tmp_path: Path) -> None:
    def second(words: Sequence[str]) -> float:
        return 1.0 if "key2" in words else -2.0

    for odds, raised in ((second, ["few candidates"]), (only_the_key, [])):
        once, twice = (attacked(Toy(odds), spaces.CompleteSearch(Space()), k=k) for k in (1, 2))
        found = flags(tmp_path, (job(None, 1), once), (job(None, 2), twice))
        assert found == [raised, []], odds.__name__
    once, thrice = fell(0), fell(N)
    assert flags(tmp_path, (job("pwws", 1), once), (job("pwws", 3), thrice)) == [[], []], "only twice as many are asked"


def test_texts_made_against_another_victim_that_fool_more_are_told(tmp_path: Path) -> None:
    own = job("deletion")
    spec = MeasureJob(
        what=Choice(name="transfer"), task=TASKS["mr"], data_fingerprint="d", attack=own.parts[-1], encoders=("theirs",)
    )
    measure = Job.make(spec, ("transfer", "mr", own.parts[-1]), {"attack:0": own.key}, 0)
    for count, raised in ((40, ["transfer beats direct"]), (12, [])):
        names = {"encoder": "other", "finetune": "as-is", "judge": "theirs", "judge_finetune": "as-is"}
        rows = [
            MeasuredRow(names=names, numbers={"n": 50, "fooled": 50, "right": 45, "fooled_right": count}),
            MeasuredRow(
                names={**names, "encoder": "theirs"}, numbers=dict.fromkeys(("n", "fooled", "fooled_right"), N)
            ),
        ]
        assert flags(tmp_path, (own, fell(10)), measured=(measure, rows)) == [raised]


def test_a_function_that_answers_otherwise_is_not_deterministic(tmp_path: Path) -> None:
    def toss(calls: int) -> list[Outcome]:
        """A victim of three of whose texts every second question has another answer."""
        return [outcome(i, True, original_prediction=int(i < 3 and calls % 2)) for i in range(N)]

    for second, raised in ((1, ["not deterministic"]), (2, [])):
        found = flags(tmp_path, (job("deletion"), toss(0)), (job("pwws"), toss(second)))
        assert found == [raised, raised]


def test_they_are_found_once_however_often_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table asks for the flags of an attack in each entry, note and verdict that it stands behind."""
    asked: list[str] = []
    found = WeakAttacks._found
    monkeypatch.setattr(WeakAttacks, "_found", lambda self, of: asked.append(of.key) or found(self, of))
    assert flags(tmp_path, (job("deletion"), fell(10)), (job(None), fell(40))) == [["weak search"], []]
    # The victim and two attacks, in each of two readings of the RUN: with its outcomes, and without.
    assert len(asked) == 6


def test_they_void_verdicts_and_stand_where_flags_stand(tmp_path: Path) -> None:
    from rbench.tables.flags import ATTACK_FLAGS, MEANINGS, VOIDING_FLAGS

    assert set(SEARCH_FLAGS) <= set(ATTACK_FLAGS) <= set(VOIDING_FLAGS) and set(SEARCH_FLAGS) <= MEANINGS.keys()


@pytest.mark.parametrize("flag", SEARCH_FLAGS)
def test_each_is_explained(flag: str) -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    assert f"\n`{flag}`: " in (docs / "health.md").read_text(encoding="utf-8")
    assert f"`{flag}`" in (docs / "strength.md").read_text(encoding="utf-8")
