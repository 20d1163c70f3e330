"""Tests transferability against a victim that is asked one text at a time, and the matrix made of stored counts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from rbench.encoders.classifier import EncoderClassifier
from rbench.errors import StoreError
from rbench.measures import MeasureContext, MeasuredRow, VictimRef, transfer
from rbench.report.figures import transfer as figure
from rbench.schema.extension import NoOptions
from rbench.score import wilson
from rbench.store.job_status import JobStatuses
from rbench.tables.flags import Flags
from rbench.tables.table import Number
from tests.measures.builders import STRATEGIES, make_measure_job
from tests.measures.conftest import MEMBERS, results, said
from tests.refusals import refusal
from tests.report.figures.printed import WIDTHS, print_figure

MEASURE = transfer.TransferRates()
EACH = {"encoder": "one", "finetune": "clean"}
JUDGED = {"judge": "one", "judge_finetune": "clean"}
BOTH = ("one", "two")


@pytest.fixture(scope="module")
def rows(context: MeasureContext) -> list[MeasuredRow]:
    """What the measure makes of the context."""
    return [*MEASURE.run(NoOptions(), context)]


def stored(rows: list[MeasuredRow], *seeds: int) -> Any:
    return results(
        [(make_measure_job("transfer", seed), rows) for seed in seeds], finetune=STRATEGIES, attacks=("swap",)
    )


def test_every_pair_equals_the_judge_asked_one_text_at_a_time(
    context: MeasureContext, victims: dict[VictimRef, EncoderClassifier], rows: list[MeasuredRow]
) -> None:
    assert len(rows) == len(MEMBERS) ** 2
    asked = cache(lambda judge, text: said(victims[judge], text))
    for row in rows:
        maker, judge = (
            VictimRef(row.names[one], row.names[one], row.names[two])
            for one, two in (("encoder", "finetune"), ("judge", "judge_finetune"))
        )
        made = [one for one in context.outcomes[maker] if one.status == "succeeded"]
        fooled = [asked(judge, one.perturbed[0]) != one.label for one in made if one.perturbed]
        right = [asked(judge, one.original[0]) == one.label for one in made if one.original]
        assert row.numbers == {
            "n": len(made),
            "fooled": sum(fooled),
            "right": sum(right),
            "fooled_right": sum(f and r for f, r in zip(fooled, right, strict=True)),
        }
    assert any(0 < row.numbers["fooled"] < row.numbers["n"] for row in rows), "the pairs are not all alike"
    assert any(row.numbers["right"] < row.numbers["n"] for row in rows)


def test_the_diagonal_is_all_by_definition(rows: list[MeasuredRow]) -> None:
    (matrix,) = transfer.build_matrices(stored(rows, 0))
    for of in matrix.victims:
        pair = matrix.pairs[of, of]
        assert pair.counts["n"] > 0 and pair.number("transfer").value == pair.number("right").value == 1


def test_a_judge_that_was_not_attacked_on_a_text_is_asked_for_its_original(
    context: MeasureContext, rows: list[MeasuredRow]
) -> None:
    first, second = MEMBERS[0], MEMBERS[2]
    gone = [one.model_copy(update={"original_prediction": None}) for one in context.outcomes[second]]
    unasked = type(context)(**{**context.__dict__, "outcomes": {**context.outcomes, second: tuple(gone)}})

    def judged(rows: list[MeasuredRow]) -> list[MeasuredRow]:
        return [row for row in rows if row.names["encoder"] == first.encoder and row.names["judge"] == second.encoder]

    assert judged(MEASURE.run(NoOptions(), unasked)) == judged(rows)


def test_the_table_pools_seeds_and_has_wilson_intervals(rows: list[MeasuredRow]) -> None:
    once, twice = (MEASURE.table(NoOptions(), stored(rows, *seeds)) for seeds in ((0,), (0, 1)))
    assert once.header == (
        *("Task", "Attack", "Made against", "Among", "n"),
        *("one, clean", "one, adversarial", "two, clean", "two, adversarial"),
    )
    assert [row[3] for row in once.rows] == ["all", "right"] * 4
    for one, both in zip(once.cells, twice.cells, strict=True):
        assert both["n"] == 2 * one["n"] and both["value"] == one["value"]
        count = round(both["value"] * both["n"])
        assert (both["low"], both["high"]) == wilson(count, both["n"])
    number = once.rows[0][6]
    assert isinstance(number, Number) and number.percent and number.n == once.rows[0][4]


def test_an_example_that_several_victims_share_counts_once_in_intervals() -> None:
    row = MeasuredRow(names={**EACH, **JUDGED}, numbers={"n": 10, "fooled": 5, "right": 8, "fooled_right": 4})
    found = results(
        [(make_measure_job("transfer", seed), [row]) for seed in (0, 1)], finetune=STRATEGIES, attacks=("swap",)
    )
    (pair,) = transfer.build_cells(found).cells.values()
    on = tuple(SimpleNamespace(key=str(seed), seed=seed, needs={}) for seed in (0, 1))
    number = replace(pair, attacks=on).number("transfer")
    assert number.n == 20 and (number.low, number.high) == wilson(5, 10)


def test_texts_that_the_attacks_of_all_seeds_share_count_once_in_the_matrix(
    rows: list[MeasuredRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = {
        (of.encoder, of.finetune): SimpleNamespace(key=f"the attack on {of.encoder}", seed=0, needs={})
        for of in MEMBERS
    }
    monkeypatch.setattr(transfer, "attacks_behind", lambda plan, job: behind)
    (matrix,) = transfer.build_matrices(stored(rows, 0, 1))
    for (maker, _), pair in matrix.pairs.items():
        shown = pair.number("transfer")
        assert pair.attacks == (behind[maker],) * 2, "one a seed"
        assert (shown.low, shown.high) == pytest.approx(wilson(pair.counts["fooled"] / 2, pair.counts["n"] / 2))


def test_numbers_of_which_a_seed_is_not_done_are_marked(rows: list[MeasuredRow]) -> None:
    """Seed 1 of one attack is not done. The other attack is whole."""
    asked = [(make_measure_job("transfer", seed, attack), rows) for attack in ("swap", "other") for seed in (0, 1)]
    found = results(asked, finetune=STRATEGIES, attacks=("swap", "other"))
    records = {key: record for key, record in found.standing.records.items() if key != asked[1][0].key}
    found = replace(found, standing=JobStatuses(records, {}))
    numbers: dict[str, list[Number]] = {"swap": [], "other": []}
    for row in MEASURE.table(NoOptions(), found).rows:
        numbers[str(row[1])] += [one for one in row if isinstance(one, Number)]
    assert {attack: {one.partial for one in own} for attack, own in numbers.items()} == {
        "swap": {True},
        "other": {False},
    }


def test_a_run_without_the_jobs_says_how_to_get_them() -> None:
    with refusal(StoreError, "evaluate: [transfer]"):
        MEASURE.table(NoOptions(), results([]))


def test_the_heat_map_has_a_field_for_each_pair(rows: list[MeasuredRow]) -> None:
    drawn = figure.TransferFigure().draw(figure.Options(), stored(rows, 0))
    (axes,) = drawn.axes
    assert len(axes.texts) == 16 and axes.texts[0].get_text().startswith("100.0\nn=")
    with pytest.raises(StoreError):
        figure.TransferFigure().draw(figure.Options(task="nil"), stored(rows, 0))


@pytest.mark.nightly
@pytest.mark.parametrize("width", WIDTHS)
def test_the_heat_map_is_read_at_its_width(width: str, rows: list[MeasuredRow]) -> None:
    drawn, sheet = print_figure(lambda: figure.TransferFigure().draw(figure.Options(), stored(rows, 0)), width)
    (axes,) = drawn.axes
    assert len(axes.texts) == 16 and "n the number of these texts" in sheet.caption[0]


def test_victims_are_numbered_where_their_names_leave_no_room() -> None:
    names = [f"an encoder with a long name and a number {i}" for i in range(7)]
    pair = SimpleNamespace(number=lambda name: Number(0.5, True, 100))
    victims = [(name, "clean") for name in names]
    pairs = dict.fromkeys(product(victims, victims), pair)
    matrix: Any = SimpleNamespace(victims=victims, pairs=pairs, task="mr", attack="pwws")
    ticks = {name: name for name in names}
    numbers, key = figure._fit_ticks([matrix], ticks, "transfer", 3.0)
    assert numbers == {name: str(i) for i, name in enumerate(names, 1)}
    assert f"7 {names[6]}" in key
    assert figure._fit_ticks([matrix], ticks, "transfer", 6.3) == (ticks, "")
    with pytest.raises(StoreError):
        figure._fit_ticks([matrix], ticks, "transfer", 1.5)


@pytest.mark.parametrize(
    ("flagged", "hidden"),
    [
        ("victim one", {("one", "one"), ("one", "two"), ("two", "one")}),
        ("attack on one", {("one", "one"), ("one", "two")}),
    ],
)
def test_a_flag_of_either_victim_or_of_the_attack_that_made_the_texts_withholds_a_pair(
    flagged: str, hidden: set[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [
        {"encoder": a, "finetune": "clean", "judge": b, "judge_finetune": "clean"} for a, b in product(*[BOTH] * 2)
    ]
    counts = {"n": 4, "fooled": 2, "right": 4, "fooled_right": 2}
    found = results(
        [(make_measure_job("transfer"), [MeasuredRow(names=one, numbers=counts) for one in names])], attacks=("swap",)
    )
    behind = {(name, "clean"): SimpleNamespace(key=name, seed=0, needs={}) for name in BOTH}
    monkeypatch.setattr(transfer, "attacks_behind", lambda plan, job: behind)

    def hiding(flags: Any, asked: Any, attacks: bool = True) -> tuple[str, ...]:
        on_one = any(job.key == "one" for job in asked)
        return ("near chance",) if on_one and (attacks or flagged.startswith("victim")) else ()

    monkeypatch.setattr(Flags, "hiding", hiding)
    pairs = transfer.build_cells(found).cells.values()
    shown = {(pair.encoder, pair.judge[0]): pair.number("transfer") for pair in pairs}
    assert len(shown) == 4 and {each for each, number in shown.items() if number.withheld} == hidden
    assert all((number.value is None) == (each in hidden) for each, number in shown.items())
