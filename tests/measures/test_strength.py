"""What attacks missed in a declared space, counted again from outcomes made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.measures.strength import AttackStrength, build_cells
from rbench.schema import Outcome, Space
from rbench.schema.extension import NoOptions as Options
from rbench.score import wilson
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.tables.formats import render
from tests.tables import conftest as made
from tests.tables.conftest import make_run as make_run

table = AttackStrength().table

SPACE = {"max_words": 2}
LABELS = ("exhaustive[space={max_words:2}]", "inside[search=pwws,space={max_words:2}]", "inside[search=greedy]")
FELL = {  # per attack: the number of words of each success, 0 where it failed, by example
    LABELS[0]: (1, 1, 2, 2, 0, 0, 0, 1),
    LABELS[1]: (1, 0, 2, 0, 0, 0, 0, 0),
    LABELS[2]: (1, 1, 0, 0, 0, 0, 1, 0),  # in another space
}
LEFT = (0, 0, 0, 0, 7, 0, 5, 0)
UNITS = 8


WORSE = {  # another encoder
    LABELS[0]: (1, 1, 2, 2, 1, 1, 0, 1),
    LABELS[1]: (1, 0, 0, 0, 1, 1, 0, 0),
    LABELS[2]: (1, 1, 1, 1, 1, 1, 1, 1),
}


def outcomes(attack: str, fell: dict[str, tuple[int, ...]] | None = None) -> list[Outcome]:
    rows = []
    for i, words in enumerate((fell or FELL)[attack]):
        complete = attack == LABELS[0]
        more: dict[str, Any] = {}
        if complete:
            robust = words - 1 if words else 2 if not LEFT[i] else 1
            more = {"robust_words": robust, "texts_left": LEFT[i]}
        rows.append(
            Outcome(
                example_id=f"test:{i}",
                status="succeeded" if words else "failed",
                original=("a text",),
                perturbed=("another",),
                label=0,
                original_prediction=0,
                perturbed_prediction=int(bool(words)),
                num_queries=10 + i,
                num_words=5,
                num_words_changed=words,
                perturbed_share=words / 5 if words else None,
                seconds=0.5,
                **more,
            )
        )
    return rows


Make = Callable[..., RunStore]


@pytest.fixture
def made_run(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return what makes a RUN: `encoders`, each with its outcomes by attack, and the name of its folder."""

    def make(name: str = "run", **encoders: dict[str, tuple[int, ...]]) -> RunStore:
        attacks = dict.fromkeys(LABELS)
        for label in LABELS:
            attack, space = label.partition("[")[0], Space(**SPACE if "max_words" in label else {})
            attacks[label] = made.AttackSpec(name=attack, parameters={"space": space.model_dump(mode="json")})
        monkeypatch.setattr(made, "ATTACKS", attacks)
        monkeypatch.setattr(made, "make_outcomes", lambda job, n=20: outcomes(job.parts[-1], encoders[job.parts[0]]))
        choices = (
            {"exhaustive": {"space": SPACE}},
            {"inside": {"space": SPACE, "search": "pwws"}},
            {"inside": {"search": "greedy"}},
        )
        suite = made.make_suite(attacks=choices, encoders=tuple(encoders), tasks=("mr",), seeds=(0,))
        found: RunStore = make_run(suite, sealed=True, name=name)
        return found

    return make


@pytest.fixture
def store(made_run: Make) -> RunStore:
    return made_run(minilm=FELL)


def test_missed_is_of_what_exists_in_the_same_space(store: RunStore) -> None:
    found = table(Options(), Results.of(store))
    exact, pwws, greedy = found.cells
    assert (exact["asr"], exact["missed"]) == (5 / 8, 0.0)
    assert (exact["exact_asr"], exact["within_2"], exact["open"]) == (3 / 8, 5 / 8, 2)
    assert [one["best_known"] for one in (exact, pwws, greedy)] == [5 / 8, 5 / 8, 3 / 8]
    assert (pwws["missed"], pwws["missed_n"]) == (3 / 5, 5), "the complete search found five texts"
    assert (pwws["missed_low"], pwws["missed_high"]) == pytest.approx(wilson(3, 5))
    assert (greedy["missed"], greedy["missed_n"]) == (0.0, 3), "its space is another: nothing else searched it"
    assert pwws["exact_asr"] is None and exact["space"] == pwws["space"] != greedy["space"]
    assert exact["queries"] == sum(range(10, 18)) / 8
    for fmt in ("markdown", "latex", "csv", "json"):
        assert render(found, fmt)


def test_the_exact_column_needs_all_texts_with_one_word(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results.of(store)
    read = results.observations

    def cut(job: Any) -> Any:
        of = read(job)
        of.columns["robust_words"] = of.robust_words * 0  # type: ignore[index]
        return of

    monkeypatch.setattr(type(results), "observations", lambda self, job: cut(job))
    assert table(Options(), results).cells[0]["exact_asr"] is None


def test_each_number_has_its_name_and_its_units(store: RunStore) -> None:
    found = build_cells(Results.of(store)).cells.values()
    missed = {cell.attack: cell.values(cell.done[0], "missed") for cell in found}
    assert missed[LABELS[1]] == {"test:0": 0, "test:1": 1, "test:2": 0, "test:3": 1, "test:7": 1}
    exact, pwws, _ = found
    assert exact.values(exact.done[0], "exact_asr") == {f"test:{i}": float(FELL[LABELS[0]][i] == 1) for i in range(8)}
    assert exact.values(exact.done[0], "at_least_asr") == {f"test:{i}": float(i in (0, 1, 2, 3, 7)) for i in range(8)}
    assert not pwws.values(pwws.done[0], "exact_asr") and pwws.sampled("at_least_asr").n == 0


def test_claims_comparisons_conditions_and_checks_take_them(made_run: Make, tmp_path: Path) -> None:
    both = made_run(minilm=FELL, bert_b=WORSE).root
    found = api.compare(both, between=("minilm", "bert_b"), metric="exact_asr")
    told = {cell.name.attack: cell.difference for cell in found.cells}
    assert told[LABELS[0]].value == pytest.approx(2 / 8) and told[LABELS[1]].n == 0
    (file := tmp_path / "claims.yaml").write_text(
        "claims:\n"
        f"  - {{id: a, metric: missed, of: {{encoder: minilm, attack: '{LABELS[1]}'}}, at_least: 10, about: weights}}\n"
        f"  - {{id: b, metric: missed, lower: {{attack: exhaustive}},"
        f" than: {{attack: '{LABELS[1]}'}}, about: weights}}\n"
        "  - {id: c, metric: at_least_asr, lower: minilm, than: bert_b, where: {attack: exhaustive}, about: weights}\n"
    )
    a, b, c = (judged.judged for judged in api.claims(both, file))
    assert (a[0].found.one, a[0].found.unpaired) == (pytest.approx(0.6), False)
    assert b[0].difference is not None and c[0].difference is not None
    assert c[0].difference.value == pytest.approx(-2 / 8)
    met = api.met(both, api.conditions(["missed > 5"])).met
    assert {one.cell for one in met} == {f"{e}/mr/clean/{LABELS[1]}" for e in ("minilm", "bert_b")}
    before, after = made_run("a", minilm=FELL).root, made_run("b", minilm=WORSE).root
    api.write_baseline([before], out := tmp_path / "base.json", metric=["missed", "exact_asr"])
    judged = api.check(after, out, metric=["exact_asr"], about_these_weights=True)
    assert (judged.rows[0].before, judged.rows[0].after) == (3 / 8, 5 / 8)


def test_a_suite_without_a_space_has_no_rows(make_run: Any) -> None:
    assert table(Options(), Results.of(make_run(sealed=True))).rows == ()


def test_a_search_that_a_complete_one_beats_by_far_is_flagged_weak(made_run: Make, tmp_path: Path) -> None:
    blind = {LABELS[0]: (1,) * 8, LABELS[1]: (0,) * 8, LABELS[2]: (0,) * 8}
    results = Results.of(made_run("weak", minilm=blind))
    raised = {job.parts[-1]: results.flags.of([job]) for job in results.plan.attacks}
    assert raised == {LABELS[0]: (), LABELS[1]: ("weak search",), LABELS[2]: ()}, "the last one is in another space"
    assert "0 of 8 texts, and the complete search of its space on 8" in " ".join(
        results.flags.notes(results.plan.attacks)
    )
    (file := tmp_path / "claims.yaml").write_text(
        "claims:\n"
        f"  - {{id: a, of: {{attack: '{LABELS[1]}'}}, at_most: 50, about: weights}}\n"
        f"  - {{id: b, metric: missed, of: {{attack: '{LABELS[1]}'}}, at_least: 5, about: weights}}\n"
    )
    a, b = api.claims(tmp_path / "weak", file)
    assert (a.verdict, b.verdict) == ("undecided", "supported")
    near = {LABELS[0]: (1, 1, 1, 0, 0, 0, 0, 0), LABELS[1]: (1, 1, 0, 0, 0, 0, 0, 0), LABELS[2]: (0,) * 8}
    some = Results.of(made_run("some", minilm=near))
    raised = [some.flags.of([job]) for job in some.plan.attacks]
    assert raised == [("budget hit",), (), ()], "of one text in 8 the interval begins at 2 points"


@pytest.mark.nightly
def test_the_mini_profile_shows_that_searches_miss(tmp_path: Path) -> None:
    api.run("strength", api.Options(profile="mini", out=tmp_path / "run"))
    cells = table(Options(), Results.of(RunStore(tmp_path / "run"))).cells
    assert cells[0]["open"] == 0 and cells[0]["missed"] == 0
    assert max(float(str(cell["missed"])) for cell in cells) > 0.05
