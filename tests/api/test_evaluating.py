"""`rbench eval`: one model, a card of numbers that are those of its RUNs, and a second model judged against it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, spearmanr
from typer.testing import CliRunner, Result

import rbench
from rbench import api
from rbench.api import composing, contestants, evaluating
from rbench.api.card import Card, _relevant_flags, verdict_sentence
from rbench.api.runs import results_of
from rbench.cli import app
from rbench.config import load_task
from rbench.config.registry import Registry
from rbench.encoders.locate import PACKAGED
from rbench.errors import ResourceError, SuiteError
from rbench.plan.rows import RowCache
from rbench.verdicts import ranks
from tests.victims.made import write_classifier

EXISTING = ["--n", "12", "--workers", "1", "--backend", "torch", "--quiet"]
QUICK = [*EXISTING, "--finetune", "probe"]
QUICKLY: dict[str, Any] = {"n": 12, "workers": 1, "backend": "torch", "progress": False, "finetune": "probe"}
"""The same as arguments of `api.evaluate`."""
FUNCTION = """
BAD = ("dull", "disaster", "hated", "boring", "awful", "bad", "terrible", "poor")
def predict(texts):
    return [[0.9, 0.1] if any(word in text for word in BAD) else [0.2, 0.8] for text in texts]
def always(texts):
    return [[0.9, 0.1] for _ in texts]
asked = 0
def gone(texts):
    global asked
    asked += len(texts)
    if asked > 900:
        raise ValueError("the server is gone")
    return predict(texts)
"""
ORACLES = """
from rbench.mini.oracle import oracle
def judge(texts):
    return [[0.9, 0.1] if oracle("mini-sentiment", [text]) == 0 else [0.2, 0.8] for text in texts]
def easily_fooled(texts):
    return [scores[:: -1 if sum(text.encode()) % 5 == 0 else 1] for text, scores in zip(texts, judge(texts))]
def blind(texts):
    return [[0.9, 0.1] for _ in texts]
"""
"""Classifiers that tell the labels well: of two near chance, nothing is compared."""
MAIN, RANKING = "eval-mini-bert-packaged-mini-sentiment", "eval-mini-bert-packaged-mini-ranking"


def command(*words: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder of all tests, with a function that classifies, and a cache of its own."""
    place = tmp_path_factory.mktemp("place")
    (place / "rules.py").write_text(FUNCTION, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("RBENCH_CACHE", str(place / "cache"))
        # Reports and figures take seconds, and have tests of their own.
        run_prepared = evaluating.run_prepared
        patch.setattr(evaluating, "run_prepared", lambda *given, report=False: run_prepared(*given))
        patch.setattr(evaluating, "_figures_for_paper", lambda *_, **__: ())
        patch.setattr("rbench.api.results.write_figures", lambda *_: [])
        yield place


@pytest.fixture(scope="module")
def encoder(place: Path) -> api.Evaluated:
    return api.evaluate("mini-bert-packaged", **QUICKLY)


@pytest.fixture(scope="module")
def told(encoder: api.Evaluated) -> dict[str, Any]:
    """The card of the encoder for programs."""
    found: dict[str, Any] = json.loads(encoder.rendered("json"))
    return found


@pytest.fixture(scope="module")
def function(place: Path) -> api.Evaluated:
    """A classifier of key words, beside one that always says the same."""
    how: dict[str, Any] = {"task": "mini-sentiment", "n": 40, "attacks": "textfooler,textbugger", "progress": False}
    return api.evaluate("rules:predict", compare_to="rules:always", **how)


def numbers(told: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in told["numbers"]}


def outcomes(run: str, attack: str, encoder: str = "mini-bert-packaged") -> pd.DataFrame:
    found = rbench.load_results(Path("results/runs") / run)
    return found[(found["attack"].str.startswith(attack)) & (found["encoder"] == encoder)].set_index("example_id")


def wilson(hits: int, n: int) -> tuple[float, float]:
    found = binomtest(hits, n).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def test_an_encoder_has_all_ten_numbers(told: dict[str, Any]) -> None:
    ids = ["clean", "aua-textfooler", "asr-textfooler", "aua-textbugger", "asr-textbugger", "exact"]
    ids += ["noise", "followed", "two-sided", "sts"]
    assert [one["id"] for one in told["numbers"]] == [*ids, "ndcg", "ndcg-attacked"]
    assert all(one["missing"] is None and len(one["values"]) == 1 for one in told["numbers"])
    assert told["models"] == ["mini-bert-packaged"] and told["n"] == 12


def test_models_near_chance_are_not_compared_by_words(function: api.Evaluated) -> None:
    results = results_of(function.runs[0].run, ())
    found = ranks.rank_models(results)
    assert {entry.name: entry.place for entry in found.entries} == {"predict": None, "always": None}
    assert ranks.words_sentence(results, found) == ""


def test_shares_are_those_of_the_outcomes_with_wilsons_interval(told: dict[str, Any]) -> None:
    for attack in ("textfooler", "textbugger", "exhaustive"):
        status = outcomes(MAIN, attack)["status"]
        fell, right = int((status == "succeeded").sum()), int((status != "skipped").sum())
        expected = {"clean": (right, 12), f"aua-{attack}": (right - fell, 12), f"asr-{attack}": (fell, right)}
        expected |= {"exact": (fell, right)} if attack == "exhaustive" else {}
        for name, (hits, n) in expected.items():
            if name in numbers(told):
                one = numbers(told)[name]["values"][0]
                assert (one["value"], one["n"]) == (pytest.approx(hits / n), n), name
                assert (one["low"], one["high"]) == pytest.approx(wilson(hits, n)), name


def test_every_text_with_one_word_replaced_was_asked() -> None:
    found = outcomes(MAIN, "exhaustive")
    assert (found["texts_left"].fillna(0) == 0).all()
    assert (found.loc[found["status"] == "succeeded", "num_words_changed"] == 1).all()


@pytest.mark.nightly
def test_similarity_is_spearmans_of_the_cosines(told: dict[str, Any]) -> None:
    rows = RowCache(()).task(load_task("mini-sts", Registry())).split("test")
    encoder = rbench.load_encoder("mini-bert-packaged")
    one, other = (np.asarray(encoder.encode([row.texts[i] for row in rows])) for i in (0, 1))
    cosine = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    expected = spearmanr(cosine, [row.label for row in rows]).statistic
    value = numbers(told)["sts"]["values"][0]
    assert (value["value"], value["n"]) == (pytest.approx(expected, abs=1e-4), len(rows))


def test_rankings_are_those_of_the_tables_of_their_run(told: dict[str, Any]) -> None:
    for name, metric in (("ndcg", "ndcg_before"), ("ndcg-attacked", "ndcg_after")):
        table = json.loads(rbench.table(Path("results/runs") / RANKING, metric=metric, fmt="json"))
        cells = {one["encoder"]: one["value"] for one in table["cells"]}
        assert [one["value"] for one in numbers(told)[name]["values"]] == pytest.approx([*cells.values()])
    before, after = (numbers(told)[name]["values"][0]["value"] for name in ("ndcg", "ndcg-attacked"))
    assert 0 <= after < before <= 1


def test_noise_is_that_of_the_table_of_the_run(told: dict[str, Any]) -> None:
    table = rbench.table(Path("results/runs") / MAIN, metric="noise", layout="full", fmt="json")
    cells = [one for one in json.loads(table)["cells"] if one["noise"] == "typos@0.1"]
    assert [one["value"] for one in numbers(told)["noise"]["values"]] == pytest.approx([one["value"] for one in cells])


@pytest.mark.nightly
def test_the_same_command_takes_what_is_there(told: dict[str, Any], place: Path) -> None:
    records = {path: path.stat().st_mtime_ns for path in place.glob("results/runs/*/*/record.json")}
    again = command("eval", "mini-bert-packaged", *QUICK, "--format", "json")
    assert {one["id"]: one["values"] for one in json.loads(again.stdout)["numbers"]} == {
        one["id"]: one["values"] for one in told["numbers"]
    }
    assert records == {path: path.stat().st_mtime_ns for path in records}


def test_the_card_says_what_few_texts_cannot_tell_and_which_world_it_is_of(encoder: api.Evaluated) -> None:
    card = encoder.rendered("markdown")
    low, high = wilson(6, 12)
    assert f"**12 texts tell little.** A share of them is known to within {50 * (high - low):.0f} points" in card
    assert "a small made-up language: nothing here says anything of English" in card
    assert "at most 2,000 training texts, with one seed" in card
    assert card.count("| Accuracy under ") == card.count("| Success rate of ") == 2


@pytest.mark.nightly
def test_a_classifier_says_which_numbers_are_missing_and_why(function: api.Evaluated) -> None:
    missing = {line.asked.id: line.missing for line in function.card.lines if line.missing}
    assert missing.keys() == {"sts", "ndcg", "ndcg-attacked"}
    assert all("it gives labels, and no vectors" in why for why in missing.values())
    assert "## What is missing, and why" in function.card.rendered("markdown")


def test_a_job_that_fails_is_a_reason_and_the_other_numbers_stand(place: Path) -> None:
    done = command("eval", "rules:gone", "--task", "mini-sentiment", "--format", "json", *EXISTING)
    assert done.exit_code == 1
    found = numbers(json.loads(done.stdout))
    assert "the server is gone" in found["aua-textfooler"]["missing"] and found["noise"]["missing"] is None
    assert "tries it again" in found["exact"]["missing"]


@pytest.mark.nightly
def test_a_folder_with_a_head_is_measured_as_it_is_and_a_small_encoder_is_fine_tuned(place: Path) -> None:
    write_classifier(place / "shipped")
    done = command("eval", "./shipped", "--task", "mini-sentiment", *EXISTING)
    assert done.exit_code == 0 and "shipped is a classifier: it gives labels" in done.stdout, done.output
    assert "The classifier is the encoder" not in done.stdout
    tuned = command("eval", "mini-bert-packaged", "--n", "40", "--workers", "1", "--backend", "torch", "--quiet")
    assert "fine-tuned with a linear head" in tuned.stdout and "near chance" not in tuned.stdout


def test_a_second_model_is_judged_text_by_text(function: api.Evaluated) -> None:
    """Against a classifier that always says the same, whose accuracy is chance and which no attack can change."""
    lines = {line.asked.id: line for line in function.card.lines}
    of = "eval-predict-mini-sentiment"
    one, other = (outcomes(of, "textfooler", name)["status"].isin(["failed"]) for name in ("predict", "always"))
    only, instead = int((one & ~other).sum()), int((other & ~one).sum())
    compared = lines["aua-textfooler"].compared
    assert compared is not None and compared.difference == pytest.approx((instead - only) / len(one))
    ps = [line.compared.p for line in lines.values() if line.compared is not None and line.compared.p is not None]
    assert min(only, instead) / (only + instead) >= 0 and len(ps) >= 6
    raw = binomtest(only, only + instead).pvalue
    assert compared.p is not None and raw <= compared.p <= min(1.0, raw * len(ps) + 1e-12)
    asr = lines["asr-textfooler"]
    assert asr.values[1] is not None and asr.values[1].value == 0
    assert asr.compared is not None and asr.compared.verdict in ("better", "undecided")


@pytest.fixture(scope="module")
def blind_beside_a_reader(place: Path) -> api.Evaluated:
    """A classifier that reads nothing, beside one that reads all and that one change in five fools."""
    (place / "oracles_of_edits.py").write_text(ORACLES, encoding="utf-8")
    reader, blind = "oracles_of_edits:easily_fooled", "oracles_of_edits:blind"
    given = {"task": "mini-sentiment", "n": 40, "attacks": "textfooler"}
    return api.evaluate(blind, compare_to=reader, progress=False, **given)  # type: ignore[arg-type]


@pytest.mark.nightly
def test_a_blind_model_overlooks_beside_the_model_that_it_is_compared_to(blind_beside_a_reader: api.Evaluated) -> None:
    (verdict,) = blind_beside_a_reader.card.overlooking
    assert (verdict.encoder, verdict.control, verdict.overlooks) == ("blind", "easily_fooled", True)
    of = "eval-blind-mini-sentiment"
    blind, reader = (outcomes(of, "textfooler", name)["status"] for name in ("blind", "easily_fooled"))
    both = blind.isin(["succeeded", "failed"]) & reader.isin(["succeeded", "failed"])
    assert verdict.common <= both.sum() and verdict.followed_difference == pytest.approx(-0.8, abs=0.2)
    assert verdict.fooled_difference is not None and verdict.fooled_difference < -0.7
    programs = json.loads(blind_beside_a_reader.rendered("json"))["overlooks"]
    assert programs[0]["overlooks"] is True and programs[0]["common"] == verdict.common
    told = json.loads(api.table(blind_beside_a_reader.runs[0].run, metric="two_sided", fmt="json"))
    assert "overlooks" in json.dumps(told)
    assert "**blind overlooks beside easily_fooled" in blind_beside_a_reader.rendered("markdown")


def test_a_reader_does_not_overlook_beside_a_blind_model(function: api.Evaluated) -> None:
    verdicts = function.card.overlooking
    assert {(one.encoder, one.control, one.overlooks) for one in verdicts} == {("predict", "always", False)}


@pytest.mark.parametrize(("edited", "is_two_sided"), [(6, True), (1, False)])
def test_edits_of_people_give_two_sided_numbers_where_they_are_of_most_texts(
    tmp_path: Path, edited: int, is_two_sided: bool
) -> None:
    texts = [f"a fine film of {i} hours" for i in range(8)]
    pairs = [
        {"pair_id": i, "original_text": text, "perturbed_text": f"not {text}", "original_label": 1}
        | {"perturbed_label": 0}
        for i, text in enumerate(texts[:edited])
    ]
    test = [{"text": text, "label": 1} for text in texts]
    train, validation = ([{"text": f"a {what} film", "label": 0}] for what in ("dull", "poor"))
    files = {"imdb/train": train, "imdb/validation": validation, "imdb/test": test, "contrast_imdb/test": pairs}
    for name, rows in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    model = contestants.ContestantModel("minilm", "encoders", "minilm", True)
    found = composing.EvaluationPlan(
        [model], ["imdb"], ("textfooler",), 8, None, None, 0, api.Options(data=(tmp_path,))
    )
    assert found.is_two_sided is is_two_sided
    assert ("two_sided" in found._label_changes) is is_two_sided and "sensitivity" in found._label_changes


def test_a_flagged_victim_decides_nothing(function: api.Evaluated) -> None:
    """A classifier that always says the same is near chance: that no attack changes it says nothing for it."""
    asr = next(line for line in function.card.lines if line.asked.id == "asr-textfooler")
    assert asr.compared is not None and "near chance" in asr.compared.why and asr.compared.verdict == "undecided"
    assert "near chance" in " ".join(function.card.notes)
    assert "| undecided (flagged near chance) |" in function.card.rendered("markdown")


def test_flags_of_attacks_stand_on_numbers_of_attacks_alone() -> None:
    told = ["near chance", "starved of candidates"]
    assert _relevant_flags(told, "textfooler") == tuple(told)
    assert _relevant_flags(told, None) == ("near chance",)


def test_what_breaks_it_has_the_fewest_changed_words_and_keeps_its_label(function: api.Evaluated) -> None:
    found = rbench.load_results(function.runs[0].run)
    valid = found[(found["encoder"] == "predict") & (found["status"] == "succeeded")]
    valid = valid[valid["oracle_label"] == valid["label"]]
    shown = [one for one in function.card.broken if one.model == "predict"]
    fewest = sorted(valid.groupby("example_id")["num_words_changed"].min())[: len(shown)]
    assert [one.words for one in shown] == fewest and len(shown) == 3
    assert all("[[" in one.text and one.was != one.became for one in shown)


def test_the_verdict_is_computed() -> None:
    def line(verdict: str, title: str) -> Any:
        return SimpleNamespace(compared=SimpleNamespace(verdict=verdict), asked=SimpleNamespace(title=title))

    def card(*lines: Any) -> Any:
        return Card(("A", "B"), "t", 100, lines, (), (), (), ())

    assert (
        verdict_sentence(card(line("undecided", "X"), line("undecided", "Y")))
        == "**None of the 2 numbers tells B from A.**"
    )
    assert verdict_sentence(card(line("better", "X"), line("worse", "Y"), line("undecided", "Z"))) == (
        "**B is better than A in x and worse than A in y.** In the other 1 nothing is decided."
    )


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["minilm", "--task", "mini-sentiment"], "minilm reads English"),
        (["mini-bert-packaged", "--task", "mr"], "--task mini-sentiment"),
        (["rules:predict"], "--task"),
        (["mini-bert-packaged", "--attacks", "pwws,"], "--attacks pwws,"),
        (["mini-bert-packaged", "--compare-to", "mini-bert-packaged"], "mini-bert-packaged and mini-bert-packaged"),
        (["mini-bert-packaged", "--attacks", "pwws,nothing"], "nothing"),
        (["./absent"], "absent"),
    ],
)
def test_mistakes_are_told_before_any_work(words: list[str], named: str) -> None:
    done = command("eval", *words)
    assert done.exit_code == 2 and named in " ".join(done.output.split()), done.output


def test_a_folder_is_an_encoder_or_a_classifier_by_what_it_says(place: Path) -> None:
    shutil.copytree(PACKAGED / "mini-bert-packaged", place / "mine", dirs_exist_ok=True)
    found = contestants.recognize_model("./mine", None, Registry(), ())
    assert (found.kind, found.english, found.name) == ("encoders", False, "mine")
    config = json.loads((place / "mine/config.json").read_text())
    headed = config | {"architectures": ["BertForSequenceClassification"], "vocab_size": 30522}
    (place / "mine/config.json").write_text(json.dumps(headed))
    found = contestants.recognize_model("./mine", None, Registry(), ())
    assert (found.kind, found.english) == ("victims", True)
    found = contestants.recognize_model("http://localhost:9/classify", None, Registry(), ())
    assert (found.kind, found.entry["endpoint"]) == ("victims", {"url": "http://localhost:9/classify"})


def test_data_and_resources_that_are_not_here_are_reasons(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the attacks lack their words all stops, with the remedy; a measure that lacks its data is left out."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.delenv("RBENCH_MODELS", raising=False)
    table = place / "reviews.csv"
    lines = [f"{text} {i},{label}" for i in range(40) for text, label in (("fine film", "good"), ("dull film", "bad"))]
    table.write_text("text,label\n" + "\n".join(lines) + "\n")
    with pytest.raises(ResourceError) as caught:
        api.evaluate("rules:predict", task={"reviews.csv": {}}, n=5, label_map="negative=bad", progress=False)
    assert "word_vectors" in str(caught.value)
    composed = composing.EvaluationPlan(
        [contestants.ContestantModel("minilm", "encoders", "minilm", True)],
        ["mr"],
        ("textfooler", "textbugger"),
        5,
        None,
        None,
        0,
        api.Options(),
    )
    assert composed._first("sts", ("stsb",)) is None
    assert "stsb" in composed.missing["sts"]


@pytest.mark.parametrize(
    ("model", "more"),
    [("mini-bert-packaged", {"label_map": "a=b"}), ("somewhere:function", {"finetune": "clean"})],
)
def test_options_that_would_change_nothing_are_refused(model: str, more: dict[str, str]) -> None:
    with pytest.raises(SuiteError):
        api.evaluate(model, task="mini-sentiment", **more)  # type: ignore[arg-type]


def test_a_suite_error_has_its_class() -> None:
    with pytest.raises(SuiteError):
        api.evaluate("mini-bert-packaged", n=0)
