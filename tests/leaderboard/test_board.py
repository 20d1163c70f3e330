"""The leaderboard's rules: what stands in one column, and which ranks share a place. Ranks against scipy's tests."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from scipy import stats

from rbench.api.runs import results_of
from rbench.leaderboard.board import Board, BoardColumn, BoardNumber, BoardNumbers, BoardSetting, EncoderIdentity
from rbench.leaderboard.pareto import draw_plane
from rbench.report.data import RunPage
from rbench.schema import EncoderSpec, Meaning
from rbench.score.paired import ReportedNumber
from rbench.tables.aggregate import attack_grid
from rbench.tables.table import Number
from tests import reference
from tests.report.conftest import write_run


def boards(*runs: Path) -> list[Board]:
    found = BoardNumbers()
    for run in runs:
        page = RunPage(name=run.stem, href=run.name, title="", suite="", date="2026", jobs="", version="")
        found.add(results_of(run, ()), page)
    return found.boards()


@pytest.fixture(scope="module")
def table() -> Board:
    """The largest table of some committed RUNs, which share a setting."""
    return boards(*(reference.run(f"dose-response-part1{one}") for one in ("", "-doses")))[0]


def test_ranks_are_those_of_paired_tests_of_words_needed_with_holms_correction(table: Board) -> None:
    """Student's paired t by scipy on the fewest words of any attack, and Holm's procedure step by step."""
    fewest: dict[str, dict[str, float]] = {}
    errored: set[tuple[str, str]] = set()
    for name in ("", "-doses"):
        results = results_of(reference.run(f"dose-response-part1{name}"), ())
        for (_, encoder, _, _), cell in attack_grid(results).cells.items():
            (job,), own = cell.jobs, fewest.setdefault(encoder, {})
            for one in results.store.outcomes(job):
                if one.status in ("succeeded", "failed"):
                    words = min(max(one.num_words_changed, 1), 6) if one.status == "succeeded" else 6
                    own[one.example_id] = min(own.get(one.example_id, 6), words)
                elif one.status == "errored":
                    errored.add((encoder, one.example_id))
    assert table.columns[0].title.startswith("Words needed: ") and table.columns[1].title == "TextFooler"
    ranked = [row.who.label for row in table.rows if row.ranks]
    assert len(ranked) > 10
    found = []
    for one, other in combinations(ranked, 2):
        same = [text for text in fewest[one] if text in fewest[other] and not {(one, text), (other, text)} & errored]
        first, second = ([fewest[encoder][text] for text in same] for encoder in (one, other))
        p = float(stats.ttest_rel(first, second).pvalue) if first != second else 1.0
        up, down = (one, other) if sum(first) > sum(second) else (other, one)
        found.append((p, up, down))
    better, worse = dict.fromkeys(ranked, 0), dict.fromkeys(ranked, 0)
    for k, (p, up, down) in enumerate(sorted(found)):
        if p * (len(found) - k) >= 0.05:
            break
        better[down] += 1
        worse[up] += 1
    expected = {label: (1 + better[label], len(ranked) - worse[label]) for label in ranked}
    assert {row.who.label: row.ranks for row in table.rows if row.ranks} == expected
    assert len({*expected.values()}) > 1  # something is told apart
    assert all(row.ranks is None for row in table.rows if row.control)


def test_numbers_are_those_of_the_runs(table: Board) -> None:
    results = results_of(reference.run("dose-response-part1"), ())
    cells = {(key[0], key[1]): cell.score("aua") for key, cell in attack_grid(results).cells.items()}
    compared = 0
    for row in table.rows:
        for column, attack in zip(table.columns[1:3], ("textfooler", "pwws"), strict=True):
            if (score := cells.get((attack, row.who.label))) is not None and column in row.numbers:
                number = row.numbers[column].number
                assert (number.value, number.n, number.low, number.high) == (
                    score.value,
                    score.n,
                    score.low,
                    score.high,
                )
                compared += 1
    assert compared > 15


def test_runs_of_one_setting_share_a_table_and_others_have_their_own() -> None:
    """The noise of one RUN stands beside the attacks of another on the same victims; other trainings are apart."""
    (table,) = boards(reference.run("noise-attacked"), reference.run("noise-local"))
    assert [column.title for column in table.columns] == ["TextFooler", "Noise: typos", "Clean"]
    assert all({*table.columns} <= row.numbers.keys() for row in table.rows) and len(table.runs) == 2
    alone = boards(reference.run("noise-attacked"))[0]
    assert "Noise: typos" not in [column.title for column in alone.columns]
    titles = [one.title for one in boards(reference.run("strength-local"), reference.run("dose-response-part2"))]
    assert titles == ["MR, probe, 300 examples, seed 0"] * 2  # 6,000 rows trained the heads of one, 2,000 of the other


def test_a_run_that_does_not_say_how_victims_are_made_has_no_table(tmp_path: Path) -> None:
    assert boards(write_run(tmp_path / "a")) == []


def test_a_board_without_quality_has_no_drawing_and_others_show_their_front(table: Board) -> None:
    drawn = draw_plane(table, lambda row: row.who.label)
    assert drawn is not None
    lead, quality = table.columns[0], table.quality
    assert quality is not None
    shown = {point.row.who: point for point in drawn.points}
    for who, point in shown.items():
        x, y = point.row.numbers[quality].number.value, point.row.numbers[lead].number.value
        others = [(o.row.numbers[quality].number.value, o.row.numbers[lead].number.value) for o in drawn.points]
        beaten = any(a >= x and b >= y and (a, b) != (x, y) for a, b in others)  # type: ignore[operator]
        assert point.front == (not beaten and not point.row.control), who
        assert who.label.startswith(point.name.partition("…")[0]) and who.label.endswith(point.name.rpartition("…")[2])
        assert point.across[0] <= point.x <= point.across[1] and point.up[0] >= point.y >= point.up[1]


def test_the_order_of_runs_changes_nothing() -> None:
    def told(*names: str) -> list[object]:
        return [(one.title, [(row.who, row.ranks) for row in one.rows]) for one in boards(*map(reference.run, names))]

    # The first two share a table.
    names = ("noise-attacked", "noise-local", "dose-response-part2")
    assert told(*names) == told(*reversed(names))


def test_seconds_under_whatever_load_are_in_no_table(table: Board) -> None:
    assert not [column.title for column in table.columns if column.title.startswith("Seconds")]


def test_a_run_under_way_takes_the_place_of_none_that_is_done() -> None:
    """The newest of several readings of the same number counts, but for those of which a seed is missing."""
    older, newer = (
        RunPage(name=date, href=date, title="", suite="", date=date, jobs="", version="") for date in ("2025", "2026")
    )
    column = BoardColumn("attack", "k", "TextFooler", Meaning("Accuracy under attack", "x", "highest"))
    setting = BoardSetting("mr", "clean", "v", 500, (0, 1))

    def reading(name: str, value: float, run: RunPage, partial: bool = False) -> BoardNumber:
        number = Number(value, True, 1000, value - 0.03, value + 0.03, partial=partial)
        stated = ReportedNumber(value, 1000, value - 0.03, value + 0.03, 1, None, 2, None)
        return BoardNumber(EncoderIdentity(name, (name,)), column, setting, number, stated, None, run)

    def values(*first: BoardNumber) -> dict[str, float | None]:
        found = BoardNumbers()
        found.found = [*first, reading("b", 0.4, older)]
        found.entries = {one.who: EncoderSpec(name=one.who.label, base="base") for one in found.found}
        (board,) = found.boards()
        return {row.who.label: row.numbers[column].number.value for row in board.rows}

    done = reading("a", 0.6, older)
    assert values(done, reading("a", 0.7, newer, partial=True)) == {"a": 0.6, "b": 0.4}
    assert values(done, reading("a", 0.7, newer)) == {"a": 0.7, "b": 0.4}
