"""A metric of a user's goes through every verb that takes one, on a RUN with three seeds.

`fast` is a share, `words` is none. What is shown is compared with a loop over the outcomes that the RUN stores.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.config.metrics import MetricCatalogue
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.plan.prepare import Options
from rbench.report.numbers import collect_heat_metrics
from rbench.schema import Outcome
from rbench.store.runs import RunStore
from rbench.tables import Results, build
from rbench.tables.formats import NO_OUTCOMES
from rbench.tables.nested_means import collect_job_values, mean_interval
from rbench.verdicts.claims import summarise_claim
from tests.refusals import refusal
from tests.tables.conftest import finish, make_plan, make_suite

FAST = '''\
"""Fast successes: the share of the attacked texts that fell within 50 queries."""

import numpy as np

from rbench.metrics import Meaning, Metric


class Fast(Metric):
    about = Meaning("Fast successes", "successes within 50 queries / (succeeded + failed)", "lowest", short="Fast")
    of = "attacks"
    share = True

    def value(self, of):
        return np.where(of.attacked, of.fell & (of.num_queries <= 50), np.nan)
'''
WORDS = '''\
"""Queries of failures: how often the attack asked before it gave up."""

import numpy as np

from rbench.metrics import Meaning, Metric


class Words(Metric):
    about = Meaning("Queries of failures", "mean over the failed", "highest", percent=False, digits=2)
    of = "attacks"
    share = False

    def value(self, of):
        return np.where(of.status == "failed", of.num_queries, np.nan)
'''
RANK = '''\
"""Seconds by queries: whether texts that take more queries take more time, as the value of a set."""

import numpy as np
from scipy.stats import rankdata

from rbench.metrics import Meaning, Metric


class Rank(Metric):
    about = Meaning("Seconds by queries", "Spearman's correlation over the attacked", "lowest", percent=False, digits=2)
    of = "attacks"
    share = False
    bounds = (-1.0, 1.0)

    def units(self, of):
        return of.attacked

    def value(self, of):
        return np.corrcoef(rankdata(of.seconds), rankdata(of.num_queries))[0, 1]
'''
EVERY = ("fast", "words", "rank")
ENCODERS = ("minilm", "bert_b")
SEEDS = (0, 1, 2)
MakeRun = Callable[..., RunStore]


def fast(one: Outcome) -> float | None:
    return float(one.status == "succeeded" and one.num_queries <= 50) if one.status in ("succeeded", "failed") else None


def words(one: Outcome) -> float | None:
    return float(one.num_queries) if one.status == "failed" else None


def rank(outcomes: list[Outcome]) -> dict[str, float]:
    """What each text adds to the correlation: Tukey's pseudo-values, moved to its value."""
    of = [one for one in outcomes if one.status in ("succeeded", "failed")]

    def correlation(chosen: list[Outcome]) -> float:
        return float(spearmanr([one.seconds for one in chosen], [one.num_queries for one in chosen]).statistic)

    n, whole = len(of), correlation(of)
    pseudo = [n * whole - (n - 1) * correlation(of[:i] + of[i + 1 :]) for i in range(n)]
    return {one.example_id: own + whole - sum(pseudo) / n for one, own in zip(of, pseudo, strict=True)}


BY_HAND = {"fast": fast, "words": words}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "metrics").mkdir(parents=True)
    (folder / "metrics" / "fast.py").write_text(FAST)
    (folder / "metrics" / "words.py").write_text(WORDS)
    (folder / "metrics" / "rank.py").write_text(RANK)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    store = RunStore(tmp_path_factory.mktemp("attacked") / "run")
    plan = make_plan(make_suite(seeds=SEEDS, attacks=("pwws",)))
    store.write_plan(plan)
    for job in plan.jobs:
        finish(store, job, sealed=True)
    return store


def by_hand(store: RunStore, name: str, encoder: str, task: str = "mr", attack: str = "pwws") -> list[dict[str, float]]:
    """The values of a cell by example, for each seed in order, with a loop over stored outcomes."""
    found: dict[int, dict[str, float]] = {}
    plan = store.plan()
    assert plan is not None
    for job in plan.attacks:
        if job.parts[:2] == (encoder, task) and job.parts[3] == attack:
            outcomes = list(store.outcomes(job))
            values = rank(outcomes) if name == "rank" else {one.example_id: BY_HAND[name](one) for one in outcomes}
            found[job.seed] = {example: value for example, value in values.items() if value is not None}
    return [found[seed] for seed in SEEDS]


def spearman(store: RunStore, encoder: str, attack: str, seed: int) -> float:
    plan = store.plan()
    assert plan is not None
    (job,) = (job for job in plan.attacks if job.parts == (encoder, "mr", "clean", attack) and job.seed == seed)
    of = [one for one in store.outcomes(job) if one.status in ("succeeded", "failed")]
    return float(spearmanr([one.seconds for one in of], [one.num_queries for one in of]).statistic)


def invoke(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("name", EVERY)
def test_the_table_has_its_values_and_intervals_with_seeds_as_levels(run: RunStore, mine: Path, name: str) -> None:
    cells = json.loads(invoke("table", run.root, "--metric", name, "--format", "json", "--include", mine))["cells"]
    assert len(cells) == 4
    for cell in (cell for cell in cells if (cell["task"], cell["attack"]) == ("mr", "pwws")):
        seeds = by_hand(run, name, cell["encoder"])
        values = [value for own in seeds for value in own.values()]
        assert cell["n"] == len(values) > 10 and cell["seeds"] == 3
        assert cell["value"] == pytest.approx(sum(values) / len(values))
        wanted = mean_interval([collect_job_values(zip(SEEDS, [None] * 3, seeds, strict=True))], shares=name == "fast")
        assert (cell["low"], cell["high"]) == pytest.approx(wanted)
        assert cell["low"] < cell["value"] < cell["high"], "not the interval of a value that is always the same"
        if name == "rank":
            whole = [spearman(run, cell["encoder"], "pwws", seed) for seed in SEEDS]
            assert min(whole) <= cell["value"] <= max(whole), "the mean of the sets of the seeds"
    table = build(Results.of(run, MetricCatalogue(Registry([mine]))), name)
    assert table.header == ("Attack", "Encoder", "mr", "mini_nli", "Avg.")
    shown = cells[0]["value"] * (100 if name == "fast" else 1)
    text = invoke("table", run.root, "--metric", name, "--include", mine)
    assert f"{shown:.1f}" in text or f"{shown:.2f}" in text
    assert "bold" in text, "its entries are tested"


def test_the_layout_full_has_a_column_of_it(run: RunStore, mine: Path) -> None:
    made = json.loads(invoke("table", run.root, "--layout", "full", "--format", "json", "--include", mine))
    row = next(cell for cell in made["cells"] if (cell["encoder"], cell["task"], cell["seed"]) == ("minilm", "mr", 1))
    own = by_hand(run, "fast", "minilm", attack=row["attack"])[1].values()
    assert row["scores"]["fast"]["value"] == pytest.approx(sum(own) / len(own))
    assert row["scores"]["words"]["n"] == len(by_hand(run, "words", "minilm", attack=row["attack"])[1])
    assert row["scores"]["rank"]["value"] == pytest.approx(spearman(run, "minilm", row["attack"], 1))
    assert " Fast " in invoke("table", run.root, "--layout", "full", "--include", mine)


@pytest.mark.parametrize("name", EVERY)
def test_compare_pairs_its_values_example_by_example(run: RunStore, mine: Path, name: str) -> None:
    words = ("compare", run.root, "--between", *ENCODERS, "--metric", name, "--include", mine, "--format", "json")
    cell = next(c for c in json.loads(invoke(*words))["cells"] if (c["task"], c["attack"]) == ("mr", "pwws"))
    sides = [by_hand(run, name, encoder) for encoder in ENCODERS]
    pairs = [(a[example], b[example]) for a, b in zip(*sides, strict=True) for example in a.keys() & b.keys()]
    assert cell["n"] == len(pairs) and cell["metric"] == name
    assert cell["difference"] == pytest.approx(sum(b - a for a, b in pairs) / len(pairs))
    if name == "fast":
        assert cell["only_one"] == sum(a > b for a, b in pairs)
        text = invoke(*words[:-2], "--show", 1)
        assert "Only minilm" in text and " alone: example " in text


@pytest.mark.parametrize("name", EVERY)
def test_claims_speak_of_it(run: RunStore, mine: Path, name: str, tmp_path: Path) -> None:
    claims = tmp_path / "claims.yaml"
    where = "where: {task: mr, attack: pwws}"
    claims.write_text(f"claims:\n  - {{id: one, metric: {name}, lower: minilm, than: [bert_b], {where}}}\n")
    (judged,) = api.claims(run.root, claims, [mine])
    (found,) = judged.judged
    means = [[v for own in by_hand(run, name, e) for v in own.values()] for e in ENCODERS]
    assert found.found.one is not None and found.found.difference is not None and not found.found.unpaired
    both = [by_hand(run, name, e) for e in ENCODERS]
    shared = [a[i] for a, b in zip(*both, strict=True) for i in a.keys() & b.keys()]
    assert found.found.one == pytest.approx(sum(shared) / len(shared))
    assert len(shared) <= min(map(len, means))
    with pytest.raises(SuiteError):
        api.claims(run.root, claims)


def test_a_table_of_the_suite_says_without_the_folder_that_one_is_needed(make_run: MakeRun) -> None:
    run = make_run(make_suite(tables=[{"metric": "fast"}]), sealed=True)
    with refusal(SuiteError, "--include"):
        api.table(run.root, metric="fast")


def test_a_claim_of_the_suite_is_undecided_without_the_folder_and_says_why(make_run: MakeRun, mine: Path) -> None:
    claims = [
        {"id": "mine", "metric": "fast", "lower": "minilm", "than": "bert_b"},
        {"id": "theirs", "lower": "minilm", "than": "bert_b"},
    ]
    root = make_run(make_suite(claims=claims), sealed=True).root
    said = "fast is unknown here; name the folder that holds its file with --include DIR"
    own, other = api.claims(root)
    assert (own.verdict, own.judged, summarise_claim(own)) == ("undecided", (), said) and other.judged
    assert api.claims(root, include=[mine])[0].judged
    assert said in invoke("claims", root)
    assert said in api.report(root)[0].read_text(encoding="utf-8")


def test_a_baseline_keeps_its_values_and_a_check_judges_them(run: RunStore, mine: Path, tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    invoke("baseline", run.root, "--out", file, "--metric", "fast", "--include", mine)
    found = api.check(run.root, file, metric=["fast"], include=[mine], allow_undecided=True)
    row = next(one for one in found.rows if one.key == ("minilm", "mr", "clean", "pwws"))
    seeds = by_hand(run, "fast", "minilm")
    values = [value for own in seeds for value in own.values()]
    assert row.before == row.after == pytest.approx(sum(values) / len(values))
    assert row.judged is not None and (row.judged.rise, row.judged.n) == (0.0, len(values))
    result = CliRunner().invoke(
        app, ["check", str(run.root), "--baseline", str(file), "--metric", "fast", "--include", str(mine)]
    )
    assert "fast successes" in result.output
    api.write_baseline([run.root], tmp_path / "bare.json")
    for metric, why in (("fast", "keeps no values of fast; make it again: rbench baseline RUN --metric fast"),):
        refused = CliRunner().invoke(
            app,
            [
                *("check", str(run.root), "--baseline", str(tmp_path / "bare.json")),
                *("--metric", metric, "--include", str(mine)),
            ],
        )
        assert refused.exit_code == 2 and why in " ".join(refused.output.split())
    for mean in ("words", "rank"):
        refused = CliRunner().invoke(
            app, ["baseline", str(run.root), "--out", str(file), "--metric", mean, "--include", str(mine)]
        )
        said = f"{mean} cannot be checked: a check judges shares"
        assert refused.exit_code == 2 and said in " ".join(refused.output.split())


@pytest.mark.parametrize("name", EVERY)
def test_conditions_of_a_run_are_on_it(run: RunStore, mine: Path, name: str) -> None:
    seeds = by_hand(run, name, "minilm")
    values = [value for own in seeds for value in own.values()]
    scale = 100 if name == "fast" else 1
    limits = {"fast": "< 60", "words": "> 1", "rank": "> -1"}
    wanted = api.conditions([f"{name} {limits[name]}"], [mine])
    met = {one.cell: one for one in api.met(run.root, wanted, [mine]).met}
    assert met["minilm/mr/clean/pwws"].value == pytest.approx(sum(values) / len(values))
    assert f"{scale * sum(values) / len(values):.1f}" in str(met["minilm/mr/clean/pwws"])
    with pytest.raises(SuiteError):
        api.conditions([f"{name} > 1"])


def test_the_report_and_figures_show_it(run: RunStore, mine: Path) -> None:
    results = Results.of(run, MetricCatalogue(Registry([mine])))
    shown = {one.name: one for one in collect_heat_metrics(results)}
    assert next(iter(shown)) == "asr" and {*EVERY} <= shown.keys()
    cell = next(c for c in shown["fast"].cells if c.key == ("pwws", "minilm", "clean", "mr"))
    values = [value for own in by_hand(run, "fast", "minilm") for value in own.values()]
    assert cell.value == pytest.approx(sum(values) / len(values))
    of_set = next(c for c in shown["rank"].cells if c.key == ("pwws", "minilm", "clean", "mr"))
    added = [value for own in by_hand(run, "rank", "minilm") for value in own.values()]
    assert of_set.value == pytest.approx(sum(added) / len(added))
    options = {"robustness": "fast", "quality": "words", "task": "mr", "attack": "pwws"}
    figure = api.figure(run.root, "front", options, include=[mine])
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Fast successes (%)", "Queries of failures")
    assert "Fast pwws" in api.table(run.root, metric="quality", attacked="fast", include=[mine])


def test_rbench_lists_it_and_suites_name_it(mine: Path, tmp_path: Path) -> None:
    listed = invoke("list", "metrics", "--include", mine)
    assert "fast" in listed and "Fast successes: the share of the attacked texts" in listed
    assert "num_queries <= 50" in invoke("list", "metrics", "fast", "--include", mine)
    suite = tmp_path / "s.yaml"
    suite.write_text(
        "name: s\nencoders: [mini-bert]\ntasks: [mini-sentiment]\nattacks: [pwws]\nnum_examples: 2\nresources: mini\n"
        "tables: [fast, {metric: words, bold: best}]\n"
    )
    plan = api.plan(suite, Options(include=(mine,))).plan
    assert [table.metric for table in plan.suite.tables] == ["fast", "words"]
    without = {job.key for job in api.plan(suite, Options(include=(mine,))).plan.jobs}
    suite.write_text(suite.read_text().replace("tables: [fast, {metric: words, bold: best}]\n", ""))
    assert without == {job.key for job in api.plan(suite, Options()).plan.jobs}, "a metric enters no key"


def test_a_run_that_keeps_counts_alone_says_so_in_the_cell(make_run: MakeRun, mine: Path) -> None:
    store = make_run(name="bare")
    text = api.table(store.root, metric="fast", include=[mine])
    assert NO_OUTCOMES in text and "it is computed from outcomes, and the RUN keeps none" in " ".join(text.split())
    cells = json.loads(api.table(store.root, metric="fast", fmt="json", include=[mine]))["cells"]
    assert all(cell["value"] is None and cell["lost"] == NO_OUTCOMES for cell in cells)
    assert NO_OUTCOMES not in api.table(store.root, metric="asr", include=[mine])
    assert NO_OUTCOMES in api.table(store.root, layout="full", include=[mine])


WRONG = [
    ("about = Meaning", "abouts = Meaning"),
    ("(Metric)", ""),
    ("<= 50)", "<= fifty)"),
    ("    def value", "    def units(self, of):\n        return of.fell\n\n    def value"),
]


@pytest.mark.parametrize(("old", "new"), WRONG)
def test_a_file_that_is_wrong_is_told_in_one_line(run: RunStore, mine: Path, old: str, new: str) -> None:
    (mine / "metrics" / "fast.py").write_text(FAST.replace(old, new))
    result = CliRunner().invoke(app, ["table", str(run.root), "--metric", "fast", "--include", str(mine)])
    assert result.exit_code == 2 and "fast.py:" in result.output and "Traceback" not in result.output
