"""Two-sided robustness against victims that are asked one text at a time; and whom the flag `overlooks` catches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from rbench.config import load_task
from rbench.config.code import find, open_checked
from rbench.config.registry import Registry
from rbench.errors import JobError
from rbench.measures import MeasureContext, VictimRef, two_sided
from rbench.mini import oracle, rows
from rbench.schema import Outcome, Suite
from rbench.score.paired import correct_by_holm
from tests.edits.mini_resources import MiniWorldResources
from tests.measures.blind_victims import BLIND, MEASURE, READER, table
from tests.measures.blind_victims import blinded as blinded
from tests.measures.conftest import said


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


def test_each_number_equals_the_victim_asked_one_text_at_a_time(blinded: MeasureContext) -> None:
    shown = {cell["encoder"]: cell for cell in table(blinded).cells}
    for of in blinded.victims:
        found = np.array([*counted(blinded, of).values()])
        right, held, followed = found.T
        cell = shown[of.encoder]
        assert cell["two_sided"] == pytest.approx((right & held & followed).mean())
        assert cell["held"] == pytest.approx(held[right].mean())
        assert cell["followed"] == pytest.approx(followed[right].mean())
        low, high = binomtest(int(followed[right].sum()), int(right.sum())).proportion_ci(method="wilson")
        assert (cell["followed_low"], cell["followed_high"]) == pytest.approx((low, high))
        assert (cell["two_sided_n"], cell["held_n"]) == (75, right.sum())


def test_a_victim_that_is_blind_by_construction_is_caught_beside_a_control(blinded: MeasureContext) -> None:
    made = table(blinded, control="one")
    control, blind = made.cells
    assert (blind["held"], blind["followed"], blind["two_sided"]) == (1.0, 0.0, 0.0)
    assert blind["overlooks"] is True and control["overlooks"] is None
    one, other = (counted(blinded, of) for of in blinded.victims)
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
    tuned = VictimRef("one", "one", "adversarial")
    asked = {READER: READER, tuned: BLIND}
    of_one_encoder = replace(
        blinded,
        victims=tuple(asked),
        outcomes={victim: blinded.outcomes[of] for victim, of in asked.items()},
        victim=lambda victim: blinded.victim(asked[victim]),
    )
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
