"""Tests the distances against loops over pairs, the choice of texts, the table and the figure."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap

from rbench.encoders.classifier import EncoderClassifier
from rbench.errors import StoreError
from rbench.measures import MeasureContext, VictimRef, space
from rbench.measures.space import SpaceDistances, VictimSpaceCell, compute_estimates, encode_rows, place_in_plane
from rbench.report.figures import space as figure
from rbench.schema import MeasuredRow, Outcome, Suite
from rbench.tables.flags import Flags
from tests.measures.builders import STRATEGIES, make_measure_job
from tests.measures.conftest import MEMBERS, results

MEASURE = space.VectorSpace()
OPTIONS = space.Options(resamples=50, points=4)


@pytest.fixture(scope="module")
def rows(context: MeasureContext) -> list[MeasuredRow]:
    """What the measure makes of the context."""
    return [*MEASURE.run(OPTIONS, context)]


def made(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    clean = rng.normal(size=(n, 3))
    return clean, clean + rng.normal(scale=0.3, size=(n, 3))


def by_hand(clean: np.ndarray, adversarial: np.ndarray) -> tuple[float, float, float]:
    """d_pos, d_neg and delta as section 4.5 has them, as a loop over pairs."""
    n = len(clean)
    pos = sum(math.dist(clean[i], adversarial[i]) for i in range(n)) / n
    neg = 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                neg += math.dist(clean[i], clean[j]) + math.dist(clean[i], adversarial[j])
    return pos, neg / (2 * (n - 1) * n), neg / (2 * (n - 1) * n) - pos


def test_distances_equal_a_loop_over_pairs() -> None:
    clean, adversarial = made(9)
    found = SpaceDistances.of(clean, adversarial).numbers(np.ones((1, 9)))[:, 0]
    d_pos, d_neg, delta = by_hand(clean, adversarial)
    np.testing.assert_allclose(found, [d_pos, d_neg, delta, d_pos / d_neg], rtol=1e-12)


def test_a_text_that_is_drawn_twice_is_no_negative_of_itself() -> None:
    clean, adversarial = made(5)
    weights = np.array([[2.0, 1, 0, 2, 0]])
    drawn = [0, 0, 1, 3, 3]
    negatives = [
        (math.dist(clean[i], clean[j]) + math.dist(clean[i], adversarial[j])) / 2
        for i in drawn
        for j in drawn
        if i != j
    ]
    d_pos = np.mean([math.dist(clean[i], adversarial[i]) for i in drawn])
    found = SpaceDistances.of(clean, adversarial).numbers(weights)[:, 0]
    np.testing.assert_allclose(found[:2], [d_pos, np.mean(negatives)], rtol=1e-12)


def test_estimates_are_those_of_scipy_and_paired() -> None:
    first, second = SpaceDistances.of(*made(12)), SpaceDistances.of(*made(12, 1))
    own, other = compute_estimates([first, second], [None, 0], 99, 7)

    def ratio(which: SpaceDistances, drawn: np.ndarray) -> float:
        return float(which.numbers(np.bincount(drawn.astype(int), minlength=12)[None].astype(float))[3, 0])

    def interval(statistic: Any) -> Any:
        places = (np.arange(12),)
        return bootstrap(
            places, statistic, vectorized=False, n_resamples=99, method="percentile", rng=np.random.default_rng(7)
        )

    alone = interval(lambda drawn: ratio(first, drawn))
    assert [len(own), len(other)] == [4, 5]
    np.testing.assert_allclose([own[3].low, own[3].high], alone.confidence_interval, rtol=1e-9)
    np.testing.assert_allclose(own[3].error, alone.standard_error, rtol=1e-9)
    less = interval(lambda drawn: ratio(second, drawn) - ratio(first, drawn))
    np.testing.assert_allclose([other[4].low, other[4].high], less.confidence_interval, rtol=1e-9)
    assert other[4].value == pytest.approx(other[3].value - own[3].value)  # type: ignore[operator]


def test_vectors_are_those_that_the_head_reads(victims: dict[VictimRef, EncoderClassifier]) -> None:
    victim = victims[MEMBERS[0]]
    texts = [("good film was a story the plot",), ("bad",), ("the film was dull",)]
    found = encode_rows(victim, texts)
    for row, (text,) in zip(found, texts, strict=True):
        with torch.inference_mode():
            logits = victim(**victim.tokenizer(text, return_tensors="pt")).logits[0]
            ours = victim.head(torch.tensor(row, dtype=torch.float32))
        torch.testing.assert_close(ours, logits, atol=1e-5, rtol=1e-4)


def test_the_plane_is_seeded_scaled_and_bounded_by_the_number_of_texts() -> None:
    points = np.random.default_rng(0).normal(size=(8, 5))
    found = place_in_plane(points, 0)
    assert np.array_equal(found, place_in_plane(points, 0))
    assert found.min(0).tolist() == [0, 0] and found.max(0).tolist() == [1, 1]
    assert place_in_plane(points[:3], 0).shape == (0, 2)


def fooled(context: MeasureContext, encoder: str) -> set[str]:
    (of,) = [of for of in context.victims if of.encoder == encoder and of.finetune == "clean"]
    return {one.example_id for one in context.outcomes[of] if one.status == "succeeded"}


def test_texts_are_those_that_fooled_either_both_or_one(context: MeasureContext) -> None:
    one, two = fooled(context, "one"), fooled(context, "two")
    assert len(one & two) == 1 and one - two and two - one
    for option, expected in {"either": one | two, "both": one & two, "one": one, "two": two}.items():
        texts = space.choose_texts(space.Options(fooled=option), context)
        assert [text.example for text in texts] == sorted(expected)
        makers = {text.made_against for text in texts}
        assert makers == {"either": {"one", "two"}, "both": {"one"}}.get(option, {option}), "by turns, the first first"
        for text in texts:
            of = VictimRef(text.made_against, text.made_against, "clean")
            (own,) = [o for o in context.outcomes[of] if o.example_id == text.example]
            assert (own.original, own.perturbed) == (text.clean, text.adversarial)


def test_victims_that_a_text_fooled_give_their_adversarial_texts_by_turns() -> None:
    members = [VictimRef(name, name, "clean") for name in ("one", "two", "three")]

    def outcome(i: int, of: VictimRef) -> Outcome:
        fooled = of.encoder != "three" or i == 4
        more = {"perturbed": (f"{i} by {of.encoder}",)} if fooled else {}
        status = "succeeded" if fooled else "failed"
        return Outcome(example_id=f"test:{i}", status=status, original=(f"{i}",), label=1, **more)

    outcomes = {of: tuple(outcome(i, of) for i in range(6)) for of in members}
    context: Any = SimpleNamespace(victims=tuple(members), outcomes=outcomes)
    made = [text.made_against for text in space.choose_texts(space.Options(), context)]
    assert made == ["one", "two", "one", "two", "two", "two"], "the fifth fooled three, and is the second one's turn"


def test_rows_equal_the_loop_in_each_victims_space(
    context: MeasureContext, victims: dict[VictimRef, EncoderClassifier], rows: list[MeasuredRow]
) -> None:
    texts = space.choose_texts(space.Options(), context)
    distances = [row for row in rows if row.names["kind"] == "distances"]
    points = [row for row in rows if row.names["kind"] == "point"]
    assert len(distances) == 4 and len(points) == 4 * OPTIONS.points
    for of, row in zip(context.victims, distances, strict=True):
        clean = encode_rows(victims[of], [text.clean for text in texts])
        expected = by_hand(clean, encode_rows(victims[of], [text.adversarial for text in texts]))
        assert row.numbers["n"] == len(texts)
        assert [row.numbers[name] for name in ("d_pos", "d_neg", "delta")] == pytest.approx(expected)
        assert ("less" in row.numbers) == (of.encoder == "two")
    ratios = {tuple(row.names.values()): row.numbers["ratio"] for row in distances}
    (adversarial,) = [r for r in distances if r.names["encoder"] == "two" and r.names["finetune"] == "adversarial"]
    less = ratios["distances", "two", "adversarial"] - ratios["distances", "one", "adversarial"]  # type: ignore[operator]
    assert adversarial.numbers["less"] == pytest.approx(less), "compared under the same fine-tuning"
    assert all(0 <= (value or 0) <= 1 for row in points for value in row.numbers.values())
    assert not any(text in row.model_dump_json() for row in rows for one in texts for text in one.clean), "no texts"


def test_too_few_texts_give_n_and_nothing_else(context: MeasureContext) -> None:
    few = {of: own[:0] for of, own in context.outcomes.items()}
    empty = type(context)(**{**context.__dict__, "outcomes": few})
    rows = MEASURE.run(space.Options(), empty)
    assert [row.numbers for row in rows] == [{"n": 0}] * 4
    shown = MEASURE.table(
        space.Options(), results([(make_measure_job("space", fooled="either"), rows)], finetune=STRATEGIES)
    )
    assert shown.cells[0]["n"] == 0 and shown.cells[0]["d_pos"] is None


def test_an_encoder_that_the_suite_lacks_is_refused() -> None:
    suite = Suite(name="s", encoders=("one",), tasks=("tiny",))
    assert MEASURE.check(space.Options(fooled="one"), suite) is None
    assert "either, both, or one of the suite's encoders (one)" in str(MEASURE.check(space.Options(fooled="x"), suite))


def stored(rows: list[MeasuredRow], *seeds: int) -> Any:
    made = [(make_measure_job("space", seed, **OPTIONS.model_dump(mode="json")), rows) for seed in seeds]
    return results(made, finetune=STRATEGIES, attacks=("swap",))


def test_the_table_shows_means_over_seeds_with_intervals_from_the_bootstraps(rows: list[MeasuredRow]) -> None:
    once = space.build_cells(stored(rows, 0), planned=False).cells.values()
    twice = space.build_cells(stored(rows, 0, 1), planned=False).cells.values()
    for one, both in zip(once, twice, strict=True):
        single, pooled = one.number("d_pos"), both.number("d_pos")
        assert both.n == 2 * one.n and pooled.value == single.value
        assert single.low == one.rows[0][1].numbers["d_pos_low"]
        half = 1.959964 * (one.rows[0][1].numbers["d_pos_error"] or 0) / math.sqrt(2)
        assert pooled.low == pytest.approx(pooled.value - half) and pooled.high == pytest.approx(pooled.value + half)  # type: ignore[operator]
    shown = MEASURE.table(space.Options(), stored(rows, 0))
    assert [(row[3], row[4]) for row in shown.rows] == [
        *(("one", "clean"), ("two", "clean")),
        *(("one", "adversarial"), ("two", "adversarial")),
    ]


def test_the_figure_joins_each_pair_in_each_space(rows: list[MeasuredRow]) -> None:
    drawn = figure.SpaceFigure().draw(figure.Options(pairs=3), stored(rows, 0))
    assert [axes.get_title() for axes in drawn.axes] == [
        *("one, clean (n=3)", "two, clean (n=3)"),
        *("one, adversarial (n=3)", "two, adversarial (n=3)"),
    ]
    assert all(len(axes.lines) == 9 for axes in drawn.axes)
    assert len(figure.SpaceFigure().draw(figure.Options(encoders=("two",)), stored(rows, 0)).axes) == 2
    for options in (figure.Options(task="nil"), figure.Options(encoders=("three",))):
        with pytest.raises(StoreError):
            figure.SpaceFigure().draw(options, stored(rows, 0))


def test_trainings_of_one_seed_share_its_texts_and_are_no_further_texts() -> None:
    """The same row three times, as of three trainings, says no more than once; of three seeds it does."""
    numbers = {"n": 40.0, "ratio": 0.8, "ratio_low": 0.7, "ratio_high": 0.9, "ratio_error": 0.051}
    trained = of_rows(numbers, {0: 3}).number("ratio")
    tuned = of_rows(numbers, {0: 1, 1: 1, 2: 1}).number("ratio")
    assert trained is not None and tuned is not None and trained.high is not None and tuned.high is not None
    assert trained.high - 0.8 == pytest.approx(1.959964 * 0.051, rel=1e-5)
    assert tuned.high - 0.8 == pytest.approx(1.959964 * 0.051 / 3**0.5, rel=1e-5)


def of_rows(numbers: dict[str, float], rows: dict[int, int]) -> VictimSpaceCell:
    """The first victim's space, of jobs with so many rows of it by seed."""
    names = {"kind": "distances", "encoder": "one", "finetune": "clean"}
    row = MeasuredRow(names=names, numbers=numbers)
    made = [(make_measure_job("space", seed, fooled="either"), [row] * n) for seed, n in rows.items()]
    (found,) = space.build_cells(results(made, finetune=STRATEGIES, attacks=("swap",)), planned=False).cells.values()
    return found


@pytest.mark.parametrize(("flagged", "withheld"), [("victim", True), ("attack", False)])
def test_a_flag_of_the_victim_withholds_its_distances_and_one_of_the_attack_does_not(
    flagged: str, withheld: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hiding(flags: Any, asked: Any, attacks: bool = True) -> tuple[str, ...]:
        return ("near chance",) if flagged == "victim" or attacks else ()

    monkeypatch.setattr(Flags, "hiding", hiding)
    ratio = of_rows({"n": 40, "ratio": 0.8, "ratio_low": 0.7, "ratio_high": 0.9}, {0: 1}).number("ratio")
    assert ratio is not None and bool(ratio.withheld) is withheld and ratio.value == (None if withheld else 0.8)
