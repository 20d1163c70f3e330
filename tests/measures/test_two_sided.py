"""Two-sided robustness against victims that are asked one text at a time; and whom the flag `overlooks` catches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest

from rbench.config import load_task
from rbench.config.code import find, open_checked
from rbench.config.registry import Registry
from rbench.errors import JobError
from rbench.gate.baseline import build_baseline
from rbench.gate.check import CheckRules, check
from rbench.measures import MeasureContext, VictimRef, two_sided
from rbench.metrics import MetricCatalogue
from rbench.mini import oracle, rows
from rbench.schema import AS_IS, AttackJob, AttackSpec, Choice, Draw, Job, MeasureJob, Outcome, ResourceSet, Suite
from rbench.schema.claims import CellOf
from rbench.score.paired import correct_by_holm
from rbench.tables import Results
from rbench.verdicts.cells import RunCells
from tests import tiny
from tests.edits.mini_resources import MiniWorldResources
from tests.measures.blind_victims import BLIND, MEASURE, READER, TUNED, stored, table
from tests.measures.blind_victims import blinded as blinded
from tests.measures.conftest import results, said


def edits(context: MeasureContext) -> dict[str, tuple[str, int]]:
    """By text its edit, where that changes the label."""
    assert context.set is not None
    return {
        bundle.original.texts[0]: (bundle.edits[0].texts[0], int(bundle.edits[0].label or 0))
        for bundle in context.set.rows
        if bundle.edits[0].label != bundle.original.label
    }


def counted(context: MeasureContext, of: VictimRef) -> dict[str, tuple[bool, bool, bool]]:
    """Of each text with an edit: whether it is right, holds, and is followed, asked one after the other."""
    found = {}
    for one in context.outcomes[of]:
        assert one.original is not None
        if (edit := edits(context).get(one.original[0])) is not None:
            right = said(context.victim(of), one.original[0]) == one.label
            held = one.perturbed is not None and said(context.victim(of), one.perturbed[0]) == one.label
            found[one.example_id] = (right, held, said(context.victim(of), edit[0]) == edit[1])
    return found


@pytest.fixture(scope="module")
def by_hand(blinded: MeasureContext) -> dict[VictimRef, dict[str, tuple[bool, bool, bool]]]:
    """What each victim says of each text with an edit."""
    return {of: counted(blinded, of) for of in blinded.victims}


def renamed(context: MeasureContext, victims: dict[VictimRef, VictimRef]) -> MeasureContext:
    """The same with other names: `victims` has the old one of each."""
    outcomes = {new: context.outcomes[old] for new, old in victims.items()}
    return replace(context, victims=tuple(victims), outcomes=outcomes, victim=lambda new: context.victim(victims[new]))


def test_each_number_equals_the_victim_asked_one_text_at_a_time(
    blinded: MeasureContext, by_hand: dict[VictimRef, dict[str, tuple[bool, bool, bool]]]
) -> None:
    shown = {cell["encoder"]: cell for cell in table(blinded).cells}
    for of in blinded.victims:
        found = np.array([*by_hand[of].values()])
        right, held, followed = found.T
        cell = shown[of.encoder]
        assert cell["two_sided"] == pytest.approx((right & held & followed).mean())
        assert cell["held"] == pytest.approx(held[right].mean())
        assert cell["followed"] == pytest.approx(followed[right].mean())
        low, high = binomtest(int(followed[right].sum()), int(right.sum())).proportion_ci(method="wilson")
        assert (cell["followed_low"], cell["followed_high"]) == pytest.approx((low, high))
        assert (cell["two_sided_n"], cell["held_n"]) == (75, right.sum())


def test_a_victim_that_is_blind_by_construction_is_caught_beside_a_control(
    blinded: MeasureContext, by_hand: dict[VictimRef, dict[str, tuple[bool, bool, bool]]]
) -> None:
    made = table(blinded, control="one")
    control, blind = made.cells
    assert (blind["held"], blind["followed"], blind["two_sided"]) == (1.0, 0.0, 0.0)
    assert blind["overlooks"] is True and control["overlooks"] is None
    one, other = (by_hand[of] for of in blinded.victims)
    common = [name for name in one if one[name][0] and other[name][0]]
    followed = [(one[name][2], other[name][2]) for name in common]
    fooled = [(not one[name][1], not other[name][1]) for name in common]
    ps = []
    for pairs in (followed, fooled):
        only = [sum(a > b for a, b in pairs), sum(b > a for a, b in pairs)]
        ps.append(binomtest(only[0], sum(only)).pvalue)
    assert blind["common"] == len(common)
    assert [blind["followed_p"], blind["fooled_p"]] == pytest.approx(correct_by_holm(ps))
    assert blind["followed_difference"] == pytest.approx(np.mean([b - a for a, b in np.array(followed, int)]))
    assert made.header[-1] == "Overlooks" and [row[-1] for row in made.rows] == ["control", "yes"]


def test_a_reader_beside_a_blind_control_is_not_flagged(blinded: MeasureContext) -> None:
    assert [cell["overlooks"] for cell in table(blinded, control="two").cells] == [False, None]


def test_a_fine_tuning_is_the_control_of_another_one_of_the_same_encoder(blinded: MeasureContext) -> None:
    of_one_encoder = renamed(blinded, {READER: READER, VictimRef("one", "one", "adversarial"): BLIND})
    control, blind = table(of_one_encoder, control="clean").cells
    beside_encoder = table(blinded, control="one").cells[1]
    assert (control["finetune"], blind["finetune"], blind["overlooks"]) == ("clean", "adversarial", True)
    for name in ("common", "followed_difference", "followed_p", "fooled_difference", "fooled_p"):
        assert blind[name] == beside_encoder[name]


def test_without_a_control_nothing_is_raised_and_that_is_said(blinded: MeasureContext) -> None:
    made = table(blinded)
    assert [cell["overlooks"] for cell in made.cells] == [None, None]
    assert "Overlooks" not in made.header and any("no control is named" in note for note in made.notes)


def test_one_difference_alone_does_not_raise_it(blinded: MeasureContext) -> None:
    """A victim that is fooled less and follows as many edits is robust, and does not overlook."""
    attacked = tuple(
        one.model_copy(update={"status": "failed"}) if one.status == "succeeded" else one
        for one in blinded.outcomes[READER]
    )
    robust = replace(
        blinded,
        outcomes={READER: blinded.outcomes[READER], BLIND: attacked},
        victim=lambda of: blinded.victim(READER),
    )
    cell = table(robust, control="one").cells[1]
    assert cell["fooled_p"] < 0.001 and cell["fooled_difference"] < -0.3 and cell["overlooks"] is False


def test_texts_without_an_edit_leave_nothing_to_say(blinded: MeasureContext) -> None:
    strange = Outcome(example_id="x", status="failed", original=("never seen",), label=0, original_prediction=0)
    with pytest.raises(JobError):
        list(MEASURE.run(two_sided.Options(), replace(blinded, outcomes={READER: (strange,)}, victims=(READER,))))
    with pytest.raises(JobError):
        list(MEASURE.run(two_sided.Options(edits=("negation",)), blinded))


def test_of_the_embedded_world_the_oracle_gives_each_edit_another_label(blinded: MeasureContext) -> None:
    test = rows("mini-sentiment", "test")[:40]
    attacked = tuple(
        Outcome(example_id=f"test:{i}", status="failed", original=(str(row["text"]),), label=int(row["label"]))
        for i, row in enumerate(test)
    )
    world = replace(
        blinded,
        task=load_task("mini-sentiment", registry=Registry()),
        outcomes={READER: attacked},
        file=lambda kind, name: open_checked(find(kind, name)),
        resources=MiniWorldResources(),  # type: ignore[arg-type]
    )
    options = two_sided.Options(edits=("negation", "antonym"))
    found = two_sided._label_changes(options, world)
    assert len(found) > 25
    for one in attacked:
        if one.example_id in found:
            change = found[one.example_id]
            assert change.texts != one.original
            assert oracle("mini-sentiment", change.texts) == change.label == 1 - int(one.label or 0)


def test_a_suite_says_which_edits_and_a_control_that_it_has() -> None:
    suite = Suite(name="s", encoders=("one",), tasks=("tiny",))
    assert "which edits change the label" in str(MEASURE.check(two_sided.Options(), suite))
    assert "not in the suite" in str(MEASURE.check(two_sided.Options(edits=("negation",), control="no"), suite))
    for control in ("one", "clean"):
        assert MEASURE.check(two_sided.Options(edits=("negation",), control=control), suite) is None


def attack_on(label: str) -> Job:
    spec = AttackJob(
        encoder=label.partition("[")[0],
        strategy=TUNED[0],
        task=tiny.data(2, 2, 2).spec,
        data_fingerprint="d",
        attack=AttackSpec(name="swap", recipe="PWWSRen2019"),
        resources=ResourceSet(name="mini"),
        resource_fingerprints={},
        num_examples=100,
    )
    return Job.make(spec, (label, "tiny", "clean", "swap"), {"victim": label}, 0)


def run_of(context: MeasureContext, rounds: Sequence[tuple[str, str]], seeds: Sequence[int] = (0,)) -> Results:
    """The RUN in which each round, a training of each encoder, and each seed has a job of the measure."""
    lines, jobs = list(MEASURE.computed(two_sided.Options(), context).lines), []
    attacks = {label: attack_on(label) for labels in rounds for label in labels}
    for seed, labels in product(seeds, rounds):
        needs = {f"attack:{i}": attacks[label].key for i, label in enumerate(labels)}
        spec = stored(context).plan.jobs[0].spec
        jobs.append((Job.make(spec, ("two_sided", "tiny", "swap"), needs, seed), lines))
    given = results([*((job, []) for job in attacks.values()), *jobs], finetune=TUNED, attacks=("swap",))
    draws = {
        label: Draw(encoder=label.partition("[")[0], train_seed=int(label[-2])) for label in attacks if "[" in label
    }
    return Results(given.store, given.plan.model_copy(update={"draws": draws}), given.standing, MetricCatalogue())


def test_each_victim_has_its_own_interval_over_seeds(blinded: MeasureContext) -> None:
    shown = MEASURE.table(two_sided.Options(), run_of(blinded, [("one", "two")], seeds=(0, 1))).cells
    alone = [
        MEASURE.table(two_sided.Options(), run_of(replace(blinded, victims=(of,)), [(of.encoder,)], (0, 1))).cells[0]
        for of in blinded.victims
    ]
    for name in ("held", "followed", "two_sided"):
        for cell, expected in zip(shown, alone, strict=True):
            assert [cell[f"{name}{end}"] for end in ("_low", "_high")] == [
                expected[f"{name}{end}"] for end in ("_low", "_high")
            ]


def test_trainings_with_equal_outcomes_say_hardly_more_than_one(blinded: MeasureContext) -> None:
    options = two_sided.Options(control="one")
    control_once, once = MEASURE.table(options, run_of(blinded, [("one", "two")])).cells
    rounds = [("one", f"two[seed={seed}]") for seed in range(3)]
    control, blind = MEASURE.table(options, run_of(blinded, rounds)).cells
    # An encoder that is not trained was attacked once, though it stands in each round.
    assert (control["held_n"], control["held"]) == (control_once["held_n"], control_once["held"])
    assert (blind["held_n"], blind["common"]) == (3 * once["held_n"], 3 * once["common"])
    assert (blind["followed_low"], blind["followed_high"]) == (once["followed_low"], once["followed_high"])
    assert blind["followed_p"] > once["followed_p"] / 10, "and not the p of three times as many texts"


def test_a_classifier_that_is_not_fine_tuned_is_a_control(blinded: MeasureContext) -> None:
    made = table(renamed(blinded, {VictimRef("one", "one", AS_IS): READER, BLIND: BLIND}), control="one")
    assert {cell["encoder"]: cell["overlooks"] for cell in made.cells} == {"one": None, "two": True}
    assert [row[-1] for row in made.rows] == ["control" if cell["encoder"] == "one" else "yes" for cell in made.cells]


@pytest.mark.parametrize("numbers", [("held", "followed", "two_sided"), ("two_sided", "followed", "held")])
def test_numbers_of_a_label_are_their_own_whichever_is_asked_first(
    blinded: MeasureContext, numbers: Sequence[str]
) -> None:
    lines, spec = list(MEASURE.computed(two_sided.Options(), blinded).lines), stored(blinded).plan.jobs[0].spec
    assert isinstance(spec, MeasureJob)
    jobs = []
    for kind in ("negation", "antonym"):
        what = Choice(name="two_sided", options=two_sided.Options(edits=(kind,)).model_dump(mode="json"))
        jobs.append((Job.make(spec.model_copy(update={"what": what}), ("two_sided", kind, "swap"), {}, 0), lines))
    cells = RunCells(results(jobs, finetune=TUNED, attacks=("swap",)))
    shown = {cell["encoder"]: cell for cell in table(blinded).cells}["one"]
    label = jobs[0][0].measuring.what.label
    for number in numbers:
        (observed,) = cells.observed(CellOf("one", "tiny", "swap", "clean"), f"{number}.{label}") or ()
        assert np.mean([*observed.values.values()]) == pytest.approx(shown[number])


@pytest.mark.parametrize("name", ["held", "followed", "two_sided"])
def test_a_check_takes_texts_that_the_new_victim_gets_wrong(blinded: MeasureContext, name: str) -> None:
    right = next(i for i, one in enumerate(blinded.outcomes[READER]) if one.status == "failed")
    attacked = [*blinded.outcomes[READER]]
    attacked[right] = attacked[right].model_copy(update={"status": "skipped", "perturbed": None})
    before = stored(blinded)
    now = stored(replace(blinded, outcomes={**blinded.outcomes, READER: tuple(attacked)}))
    metric = before.metrics.asked(name)
    found = check(now, build_baseline([before], [metric]), CheckRules(metrics=(metric,)))
    assert found.verdict == "passed" and len(found.rows) == 2
