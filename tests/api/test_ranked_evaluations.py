"""`rbench eval` of several models on several tables: a ranking with verdicts, a card each, a choice that is kept."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from typer.testing import CliRunner, Result

import rbench
from rbench import api
from rbench.api import evaluating
from rbench.api.contestants import read_names
from rbench.api.runs import results_of
from rbench.cli import app
from rbench.errors import StoreError, SuiteError
from rbench.score.paired import correct_by_holm
from rbench.store.runs import RunStore
from rbench.verdicts import ranks
from tests.refusals import refusal

FUNCTIONS = """
BAD = ("dull", "boring", "awful", "terrible", "poor", "nasty", "weak", "hideous")
GOOD = ("good", "great", "excellent", "memorable", "fine", "clean", "superb", "pleasant")
def judged(bad):
    return [[0.9, 0.1] if one else [0.2, 0.8] for one in bad]
def hopeful(texts):
    return judged(any(word in text for word in BAD) for text in texts)
def careful(texts):
    return judged(not any(word in text for word in GOOD) for text in texts)
def always(texts):
    return [[0.9, 0.1] for _ in texts]
"""
MODELS = ("rules:hopeful", "rules:careful", "rules:always")
TABLES = ("--task", "films.csv", "--task", "rooms.csv")
HOW = ("--resources", "mini", "--workers", "1", "--backend", "torch", "--quiet")
EXACT = "exhaustive[space={max_words:1}]"
MAIN = Path("results/runs/eval-hopeful-films-rooms")


def command(*words: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [str(word) for word in words])


BAD = ("dull", "boring", "awful", "terrible", "poor", "nasty", "weak", "hideous")
GOOD = ("good", "great", "excellent", "memorable", "fine", "clean", "superb", "pleasant")
NOUNS = ("film", "movie", "book")


def write_table(path: Path, n: int, where: str) -> None:
    """Write `n` texts of the embedded world's words, three of five bad."""
    texts = [
        (f"The {NOUNS[i % 3]} of the {where} was {words[i // 2 % len(words)]}.", label)
        for i in range(n)
        for words, label in [(BAD, "bad") if i % 5 < 3 else (GOOD, "good")]
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "review", "sentiment"])
        writer.writerows([i, text, label] for i, (text, label) in enumerate(texts))


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder of all tests, with functions that classify and two tables of the embedded world's texts."""
    place = tmp_path_factory.mktemp("ranked")
    (place / "rules.py").write_text(FUNCTIONS, encoding="utf-8")
    write_table(place / "films.csv", 40, "author")
    write_table(place / "rooms.csv", 20, "guest")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("RBENCH_CACHE", str(place / "cache"))
        # Reports and the figures of suites take seconds, and have tests of their own.
        run_prepared = evaluating.run_prepared
        patch.setattr(evaluating, "run_prepared", lambda *given, report=False: run_prepared(*given))
        patch.setattr("rbench.api.results.write_figures", lambda *_: [])
        yield place


@pytest.fixture(scope="module")
def told(place: Path) -> dict[str, Any]:
    """What a command says for programs that gives n and the attacks, and nothing that can be guessed."""
    words = (*MODELS, *TABLES, "-n", "25", "--attacks", "textfooler,exhaustive", *HOW, "--format", "json")
    done = command("eval", *words)
    assert done.exit_code == 0, (done.output, done.exception)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def right(told: dict[str, Any]) -> pd.DataFrame:
    """Whether each text is right under each attack (rows) of each model (columns)."""
    found = rbench.load_results(MAIN)
    kept = found.assign(right=(found["status"] == "failed").astype(float))
    return kept.pivot_table(index=["task", "attack", "example_id"], columns="encoder", values="right")


def mean(right: pd.DataFrame, model: str) -> float:
    """The mean over the cells, which count alike."""
    return float(right[model].groupby(["task", "attack"]).mean().mean())


def test_all_are_ranked_by_their_mean_accuracy_under_attack(told: dict[str, Any], right: pd.DataFrame) -> None:
    ranked = {one["encoder"]: one for one in told["ranking"]}
    assert ranked.keys() == {"hopeful", "careful", "always"}
    for name in ("hopeful", "careful"):
        assert ranked[name]["value"] == pytest.approx(mean(right, name))
        assert ranked[name]["low"] <= ranked[name]["value"] <= ranked[name]["high"]
    by = right["hopeful"].groupby(["task", "attack"]).mean().unstack("attack").mean()
    assert ranked["hopeful"]["under textfooler"] == pytest.approx(by["textfooler"])
    assert ranked["hopeful"][f"under {EXACT}"] == pytest.approx(by[EXACT])
    placed = [one["value"] for one in told["ranking"] if one["place"] is not None]
    assert placed == sorted(placed, reverse=True) and told["ranking"][0]["place"] == 1


def test_every_two_are_compared_text_by_text_and_p_is_holms(told: dict[str, Any], right: pd.DataFrame) -> None:
    """Against a t test of the texts' differences, each weighed so that cells count alike."""
    (pair,) = [pair for one in told["ranking"] for pair in one["pairs"]]
    difference = right["hopeful"] - right["careful"]
    assert abs(pair["difference"]) == pytest.approx(abs(mean(right, "hopeful") - mean(right, "careful")))
    assert difference.std() > 0
    assert pair["p_holm"] == pytest.approx(correct_by_holm([pair["p"]])[0])
    assert pair["verdict"] == ("undecided" if pair["p_holm"] >= 0.05 else pair["verdict"])
    assert (pair["p"] < 0.05) == (not pair["low"] <= 0 <= pair["high"])


def test_a_pair_on_one_task_has_the_p_of_a_paired_t_test(right: pd.DataFrame) -> None:
    by_text = right.loc["films"].groupby("example_id").mean()
    (pair,) = ranks.rank_models(results_of(MAIN, only=["films"])).pairs
    assert pair.p == pytest.approx(float(ttest_rel(by_text["hopeful"], by_text["careful"]).pvalue), rel=1e-6)


def test_the_first_sentence_says_who_is_easier_to_fool_by_the_words_that_it_takes(told: dict[str, Any]) -> None:
    results = results_of(MAIN, only=["films"])
    outcomes = rbench.load_results(MAIN).query("task == 'films' and encoder != 'always'")
    words = outcomes.num_words_changed.clip(1, 6).where(outcomes.status == "succeeded", 6)
    both = outcomes.assign(words=words)[outcomes.status.isin(["succeeded", "failed"])]
    fewest = both.groupby(["encoder", "example_id"]).words.min().unstack("encoder").dropna()
    difference = float((fewest.iloc[:, 0] - fewest.iloc[:, 1]).mean())
    sentence = ranks.words_sentence(results, ranks.rank_models(results))
    assert f"{abs(difference):.2f} words a text" in sentence and "hopeful" in sentence and "careful" in sentence
    assert "is easier to fool than" in sentence or sentence.startswith("Words needed do not tell ")
    everywhere = results_of(MAIN)
    assert told["sentence"].startswith(ranks.words_sentence(everywhere, ranks.rank_models(everywhere)))


def test_a_flagged_model_has_no_place_and_is_compared_with_nobody(told: dict[str, Any]) -> None:
    always = next(one for one in told["ranking"] if one["encoder"] == "always")
    assert always["place"] is None and "near chance" in always["why"] and always["pairs"] == []
    assert not any(pair["other"] == "always" for one in told["ranking"] for pair in one["pairs"])
    assert told["ranking"][-1]["encoder"] == "always"


def test_each_model_has_a_card_with_the_numbers_of_each_task(told: dict[str, Any], right: pd.DataFrame) -> None:
    assert [card["models"] for card in told["cards"]] == [["hopeful"], ["careful"], ["always"]]
    card = told["cards"][0]
    lines = [one for one in card["numbers"] if one["id"] == "aua-textfooler"]
    assert [one["task"] for one in lines] == ["films", "rooms"]
    for one in lines:
        cell = right["hopeful"].loc[one["task"], "textfooler"]
        assert (one["values"][0]["value"], one["values"][0]["n"]) == (pytest.approx(cell.mean()), len(cell))
    noise = [one for one in card["numbers"] if one["id"] == "noise"]
    assert [one["missing"] for one in noise] == [None, None] and len({one["task"] for one in noise}) == 2
    assert all((MAIN / "tables" / f"card-{name}.md").is_file() for name in ("hopeful", "careful", "always"))


def test_a_small_table_gives_as_many_texts_as_it_has(told: dict[str, Any]) -> None:
    counts = {job.attacking.task.name: job.attacking.num_examples for job in attacks(MAIN)}
    assert counts == {"films": 25, "rooms": 20} and told["n"] == 25


def test_what_a_paper_needs_is_written_beside_the_run(told: dict[str, Any]) -> None:
    latex = (MAIN / "tables" / "ranks.tex").read_text()
    assert "\\begin{table" in latex and "careful" in latex
    assert (MAIN / "figures" / "ranks-column.pdf").is_file()
    assert (MAIN / "figures" / "ranks-column-caption.tex").is_file()
    table = json.loads(rbench.table(MAIN, metric="ranks", fmt="json"))
    assert [one["value"] for one in table["cells"]] == pytest.approx([one["value"] for one in told["ranking"]])


@pytest.mark.nightly
def test_the_pasted_line_has_the_same_keys(told: dict[str, Any]) -> None:
    words = shlex.split(told["again"])
    assert words[:2] == ["rbench", "eval"] and "--attacks" in words and "-n" in words
    done = command(*words[1:], "--out", "elsewhere", "--workers", "1", "--backend", "torch", "--quiet")
    assert done.exit_code == 0, done.output
    assert keys(Path("elsewhere")) == keys(MAIN)


def attacks(run: Path) -> list[Any]:
    plan = RunStore(run).plan()
    assert plan is not None
    return list(plan.attacks)


def keys(run: Path) -> set[str]:
    plan = RunStore(run).plan()
    assert plan is not None
    return {job.key for job in plan.jobs}


def test_more_texts_go_on_where_fewer_ended() -> None:
    how: dict[str, Any] = {"task": "films.csv", "resources": "mini", "progress": False, "out": "growing"}
    api.evaluate(MODELS[0], n=3, attacks="textfooler", **how)
    few = rbench.load_results(Path("growing")).set_index(["encoder", "example_id"])
    api.evaluate(MODELS[0], n=6, attacks="textfooler", **how)
    many = rbench.load_results(Path("growing")).set_index(["encoder", "example_id"])
    assert len(many) == 6 and len(few) == 3
    assert (many.loc[few.index, "seconds"] == few["seconds"]).all(), "they were not attacked again"
    folders = {path.parent for path in Path("growing/attack").glob("*/record.json")}
    assert folders == {RunStore(Path("growing")).folder(job) for job in attacks(Path("growing"))}


@pytest.mark.usefixtures("told")
def test_the_time_chooses_and_the_run_keeps_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"task": "films.csv", "resources": "mini", "progress": False, "out": "timed", "workers": 1}
    found = api.evaluate(MODELS[0], minutes=0.05, **how)
    assert found.chosen.minutes == 0.05 and found.chosen.attacks == api.ORDER[: len(found.chosen.attacks)]
    plan = RunStore(Path("timed")).plan()
    assert plan is not None and plan.suite.minutes == 0.05
    assert {job.attacking.num_examples for job in attacks(Path("timed"))} == {found.chosen.n}
    assert f"-n {found.chosen.n} --attacks {','.join(found.chosen.attacks)}" in found.again
    assert "--minutes 0.2" in found.more
    before = keys(Path("timed"))
    monkeypatch.setattr("rbench.api.choosing.choose", None)  # nothing is chosen twice
    api.evaluate(MODELS[0], minutes=0.05, **how)
    assert keys(Path("timed")) == before
    with refusal(StoreError, "-n", "--attacks"):  # what both have would depend on the machine's speed
        api.compare(MAIN, Path("timed"), between=("hopeful", "hopeful"))


def test_a_file_names_models(place: Path) -> None:
    (place / "models.txt").write_text("rules:hopeful  # the best\n\nrules:careful\n")
    assert read_names(["models.txt", "rules:always"]) == [*MODELS]
    (place / "empty.txt").write_text("# none\n")
    with pytest.raises(SuiteError):
        api.evaluate("empty.txt", task="films.csv", n=4)


@pytest.mark.parametrize(
    "how",
    [
        {"n": 5, "minutes": 3},
        {"attacks": "pwws", "minutes": 3},
        {"attacks": "pwws,pwws"},
        {"task": ["films.csv", "mini-sentiment"]},
    ],
)
def test_what_cannot_be_is_said_before_any_work(how: dict[str, Any]) -> None:
    with pytest.raises(SuiteError):
        api.evaluate(MODELS[0], **{"task": "films.csv", **how})


def test_a_ranking_says_how_many_texts_would_decide(told: dict[str, Any]) -> None:
    (pair,) = [pair for one in told["ranking"] for pair in one["pairs"]]
    expected = "is harder to fool than" if pair["verdict"] != "undecided" else "Nothing tells"
    assert expected in told["sentence"] and f"{100 * abs(pair['difference']):.1f} points" in told["sentence"]
    assert np.isfinite(pair["p"])
