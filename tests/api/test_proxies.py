"""Proxies: a judge's answers on all successes joined with people's on some, and never shown without its error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.errors import JobError, ResourceError, StoreError, SuiteError
from rbench.mini.oracle import oracle
from rbench.report.sheet import draw_sheet
from rbench.schema.judged import HumanJudgements
from rbench.store import judged
from rbench.store.answers import read_answers
from rbench.store.runs import RunStore
from rbench.store.runs.files import seal
from rbench.tables import Results
from rbench.tables.aggregate import attack_grid
from tests.raters import LABELS, MINI, TASK, Rater, file_of, mini_run
from tests.refusals import refusal
from tests.victims.made import write_classifier
from tests.victims.server import Reply, Server

Serve = Callable[[Callable[[Any], Any]], Server]
KEY = "sk-not-a-key-0123456789"


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    started: list[Server] = []
    monkeypatch.setattr("rbench.system.asking.FIRST_WAIT", 0.01)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)

    def start(answer: Callable[[Any], Any]) -> Server:
        started.append(Server(answer))
        monkeypatch.setenv("JUDGE_URL", started[-1].url)
        monkeypatch.setenv("JUDGE_KEY", KEY)
        return started[-1]

    yield start
    for server in started:
        server.close()


def judge(run: Path, *raters: Rater, per_cell: int = 40) -> HumanJudgements:
    """Let raters judge a RUN."""
    drawn = draw_sheet(Results.of(RunStore(run)), per_cell, len(raters), 0)
    shown = {one.item.id: one.texts for one in drawn.asked}
    paths = []
    for rater in raters:
        paths.append(run.parent / f"{rater.number}.csv")
        paths[-1].write_text(file_of(rater.answers(drawn.sheet, shown)))
    said = HumanJudgements(sheet=drawn.sheet, answers=read_answers(paths, drawn.sheet, {TASK: MINI}))
    judged.write_judgements(RunStore(run), said)
    return said


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = mini_run(tmp_path / "run", n=300)
    judge(made, Rater(1), Rater(2, 0.95), Rater(3, 0.9))
    return made


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A RUN of fewer texts, for what does not depend on the numbers: a judge is asked twice about each success."""
    made = mini_run(tmp_path / "run", n=70)
    judge(made, Rater(1), Rater(2, 0.95), Rater(3, 0.9))
    return made


def chat(body: Any) -> Any:
    """Answer as a language model might that knows nine of ten labels, in words around them."""
    (message,) = body["messages"]
    said = message["content"]
    if "Which label" in said:
        text = said.rpartition("\n\n")[2]
        true = oracle(TASK, [text])
        if hash_of(text) % 20 == 0:
            true = 1 - true if true is not None else None  # type: ignore[assignment]
        content = f" {LABELS[int(true)].title()}.\n" if true is not None else LABELS[0]
    else:
        first, second = re.findall(r"(?:First|Second) text: (.*)", said)
        content = "5" if oracle(TASK, [first]) == oracle(TASK, [second]) else "2."
    return {"choices": [{"message": {"role": "assistant", "content": content}}]}


def hash_of(text: str) -> int:
    return sum(map(ord, text))


def rows_of(run: Path) -> list[dict[str, Any]]:
    return json.loads(api.table(run, metric="powered", fmt="json"))["cells"]  # type: ignore[no-any-return]


def test_a_language_model_joins_people_with_its_error_beside_and_no_key_anywhere(run: Path, serve: Serve) -> None:
    server = serve(chat)
    found = api.ask_proxy(run, "chat")
    fell = sum(record.counts["succeeded"] for record in RunStore(run).records())
    assert (found.asked, found.unusable, found.closed) == (fell, 0, ())
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    asked = [body["messages"][0]["content"] for body in server.bodies]
    assert any("one of negative, positive" in text for text in asked)
    assert any("one of 1, 2, 3, 4, 5" in text for text in asked)
    for path in run.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert KEY.encode() not in content and server.url.encode() not in content
    row, kept = rows_of(run)
    assert (row["metric"], kept["metric"], row["proxy"]) == ("valid_asr", "valid_asr_kept", "chat")
    for one in (row, kept):  # no number with a proxy is without its error and that of people
        assert {"people_low", "people_high", "off", "bias", "auc", "judged", "weight"} <= one.keys()
        assert None not in (one["people_low"], one["off"], one["bias"])
    frame = api.table(run, metric="powered", fmt="csv", intervals=True)
    assert "people_low" in frame and "off" in frame
    with pytest.raises(SuiteError):
        api.conditions(["powered > 5"])
    assert row["judged"] == 40 and row["successes"] == fell and 0.05 < row["off"] < 0.25 and row["auc"] > 0.75
    assert row["weight"] > 0.3 and row["powered_high"] - row["powered_low"] < 0.95 * (
        row["people_high"] - row["people_low"]
    )
    (cell,) = attack_grid(Results.of(RunStore(run))).cells.values()
    valid, all_ = cell.score("oracle_asr").value, cell.score("asr").value
    assert valid is not None and all_ is not None
    truth = 0.95 * valid + 0.05 * all_ / 2  # raters know 95% of labels, and guess else
    assert row["powered_low"] < truth < row["powered_high"]
    page = api.table(run, metric="powered", intervals=True, notes="full")
    for said in ("People alone", "Off by", "Bias", "AUC", "Weight", "With the proxy", "chance"):
        assert said in page
    assert not api.verify(run).damaged


def test_a_useless_proxy_changes_nothing(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "coin.yaml"
    path.write_text("label: {function: 'tests.api.test_proxies:yes', version: '1'}\n")
    api.ask_proxy(run, str(path))
    row, kept = rows_of(run)
    assert row["proxy"] == kept["proxy"] == "coin" and row["weight"] == 0.0
    for end in ("value", "low", "high"):
        assert row[f"people_{end}"] == row[f"powered_{end}"]


def yes(texts: list[str]) -> list[list[float]]:
    """A judge to whom all texts are alike."""
    return [[0.5, 0.5]] * len(texts)


@pytest.mark.nightly
def test_seeds_widen_both_intervals_alike(tmp_path: Path, serve: Serve) -> None:
    run = mini_run(tmp_path / "run", n=120, seeds=(0, 1, 2))
    judge(run, Rater(1), Rater(2, 0.95), Rater(3, 0.9), per_cell=60)
    serve(chat)
    api.ask_proxy(run, "chat")
    row, kept = rows_of(run)
    for one in (row, kept):
        assert one["judged"] <= 60 and one["people_low"] < one["people_value"] < one["people_high"]
        assert one["powered_low"] < one["powered_value"] < one["powered_high"]
        assert abs(one["powered_value"] - one["people_value"]) < 0.1
        assert one["powered_high"] - one["powered_low"] < 1.02 * (one["people_high"] - one["people_low"])


def test_an_nli_model_judges_the_meaning(few: Path, tmp_path: Path) -> None:
    write_classifier(tmp_path / "nli", ("contradiction", "entailment", "neutral"))
    path = tmp_path / "nli.yaml"
    path.write_text(
        "meaning: {model: ./nli, classes: [entailment, neutral, contradiction], kept: [entailment]}\ntitle: NLI\n"
    )
    found = api.ask_proxy(few, str(path))
    said = judged.read_judgements(RunStore(few))
    assert said is not None and found.asked > 30
    (proxy,) = said.proxies
    values = [one.meaning for one in proxy.said[next(iter(proxy.said))]]
    assert None not in values and len({*values}) > 10
    assert {one.label for own in proxy.said.values() for one in own} == {None}
    assert api.ask_proxy(few, str(path)).asked == 0, "what was asked is not asked again"
    write_classifier(tmp_path / "nli", ("entailment", "contradiction", "neutral"))
    assert api.ask_proxy(few, str(path)).asked == found.asked, "another model is"
    assert len(rows_of(few)) == 2


def test_what_a_judge_said_before_it_failed_is_kept_and_the_next_call_goes_on(
    few: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbench.api.proxies.ROUND", 20)
    broken = [False]

    def answer(body: Any) -> Any:
        broken[0] = broken[0] or len(server.bodies) > 60
        return Reply("no", 500) if broken[0] else chat(body)

    server = serve(answer)
    with pytest.raises(JobError):
        api.ask_proxy(few, "chat")
    said = judged.read_judgements(RunStore(few))
    assert said is not None and len(said.answers) > 100
    kept = sum(map(len, said.proxies[0].said.values()))
    assert 20 <= kept < 40
    with pytest.raises(StoreError) as caught:
        api.table(few, metric="powered")
    assert "--by chat" in str(caught.value)
    server.answer = chat
    fell = sum(record.counts["succeeded"] for record in RunStore(few).records())
    assert api.ask_proxy(few, "chat").asked == fell - kept and len(rows_of(few)) == 2


def test_that_an_address_gets_texts_of_a_closed_licence_is_said_before(
    few: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[int] = []

    def answer(body: Any) -> Any:
        said.append(sum("no licence clearly allows" in record.message for record in caplog.records))
        return chat(body)

    serve(answer)
    monkeypatch.setattr("rbench.report.sheet.may_pass_on", lambda licence: False)
    with caplog.at_level("WARNING", logger="rbench"):
        assert api.ask_proxy(few, "chat").closed == (f"{TASK}: Apache-2.0",)
    assert {*said} == {1}


def test_answers_that_are_imported_while_a_proxy_is_asked_are_kept(few: Path, serve: Serve) -> None:
    whole = judged.read_judgements(RunStore(few))
    assert whole is not None
    first = whole.model_copy(update={"answers": tuple(one for one in whole.answers if one.rater == 1)})
    judged.write_judgements(RunStore(few), first)

    def answer(body: Any) -> Any:
        judged.write_judgements(RunStore(few), whole)
        return chat(body)

    serve(answer)
    api.ask_proxy(few, "chat")
    now = judged.read_judgements(RunStore(few))
    assert now is not None and now.raters == (1, 2, 3) and len(now.proxies) == 1


def test_answers_of_another_run_are_refused(few: Path, tmp_path: Path) -> None:
    said = judged.read_judgements(RunStore(few))
    assert said is not None
    other = mini_run(tmp_path / "other", attacks=("textfooler",))
    judged.write_judgements(RunStore(other), said)
    with pytest.raises(StoreError):
        api.ask_proxy(other, "chat")


def test_few_answers_that_cannot_be_read_count_a_half_and_many_are_an_error(few: Path, serve: Serve) -> None:
    def vague(every: int) -> Callable[[Any], Any]:
        def answer(body: Any) -> Any:
            text = body["messages"][0]["content"]
            unclear = hash_of(text) % every == 0
            return {"choices": [{"message": {"content": "It depends."}}]} if unclear else chat(body)

        return answer

    server = serve(vague(23))
    found = api.ask_proxy(few, "chat")
    said = judged.read_judgements(RunStore(few))
    assert said is not None
    lost = [one for own in said.proxies[0].said.values() for one in own if None in (one.label, one.meaning)]
    assert lost and found.unusable == sum(one.label is None and one.meaning is None for one in lost)
    assert len(rows_of(few)) == 2
    server.answer = vague(2)
    judged.write_judgements(RunStore(few), said.model_copy(update={"proxies": ()}))
    with pytest.raises(JobError):
        api.ask_proxy(few, "chat")


def test_proxies_survive_further_answers_pack_and_strip_and_damage_is_found(few: Path, serve: Serve) -> None:
    serve(chat)
    said = judged.read_judgements(RunStore(few))
    assert said is not None
    later = tuple(one for one in said.answers if one.rater < 3)
    judged.write_judgements(RunStore(few), said.model_copy(update={"answers": later}))
    api.ask_proxy(few, "chat")
    key = few.parent / "key.json"
    key.write_bytes(seal(said.sheet.model_dump_json(indent=1)))
    assert api.judge_import(few, [few.parent / "3.csv"]).raters == (1, 2, 3)
    after = judged.read_judgements(RunStore(few))
    assert after is not None and len(after.proxies) == 1 and len(after.answers) == len(said.answers)
    zipped = api.pack(few).path
    assert judged.read_judgements(RunStore(zipped)) == after == judged.read_judgements(RunStore(api.strip(few)))
    other = after.proxies[0].model_copy(update={"said": {"f" * 64: ()}})
    judged.write_judgements(RunStore(few), after.model_copy(update={"proxies": (other,)}))
    assert any("not on the sheet" in one.text for one in api.verify(few).findings if one.damage)
    with pytest.raises(StoreError):
        api.ask_proxy(zipped, "chat")
    with pytest.raises(StoreError):
        api.ask_proxy(f"{few}-stripped", "chat")


def test_mistakes_are_one_line_before_anything_is_asked(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusal(StoreError, "rbench judge export"):
        api.ask_proxy(mini_run(tmp_path / "new"), "chat")
    with pytest.raises(StoreError):
        api.table(few, metric="powered")
    with pytest.raises(SuiteError):
        api.ask_proxy(few, "caht")
    monkeypatch.delenv("JUDGE_URL", raising=False)
    with pytest.raises(ResourceError):
        api.ask_proxy(few, "chat")
    path = tmp_path / "mine.yaml"
    for content, named in {
        "title: nothing": "`label`",
        "meaning: {model: ./nli}": "`classes`",
        "meaning: {model: ./nli, classes: [a, b], kept: [c]}": "`kept`",
        "label: {model: ./nli, classes: [a, b]}": "`classes`",
        "label: {function: 'a:b'}": "`version`",
        "label: {modle: ./nli}": "modle",
    }.items():
        path.write_text(content)
        with pytest.raises(SuiteError) as error:
            api.ask_proxy(few, str(path))
        (line,) = str(error.value).splitlines()
        assert line.startswith(str(path)) and named in line
    with pytest.raises(SuiteError):
        api.ask_proxy(few, str(tmp_path / "none.yaml"))
    said = CliRunner().invoke(app, ["judge", "proxy", str(few), "--by", "caht"])
    assert said.exit_code == 2 and "Traceback" not in said.output


def test_a_victim_of_the_run_judges_what_fooled_the_other(tmp_path: Path) -> None:
    write_classifier(tmp_path / "one")
    write_classifier(tmp_path / "two", ("NEGATIVE", "POSITIVE"))  # says the opposite
    victims = [{"name": name, "model": str(tmp_path / name)} for name in ("one", "two")]
    victims = [{**victim, "labels": {"POSITIVE": "positive", "NEGATIVE": "negative"}} for victim in victims]
    suite = {"name": "s", "victims": victims, "tasks": ["mini-sentiment"], "attacks": ["pwws"], "num_examples": 24}
    api.run({**suite, "resources": "mini"}, out=tmp_path / "run", workers=1)
    run = tmp_path / "run"
    said = judge(run, Rater(1), per_cell=15)
    made = CliRunner().invoke(app, ["judge", "proxy", str(run), "--by", "two", "--models", str(tmp_path)])
    assert made.exit_code == 0 and "two was asked about" in made.stdout, made.output
    found = judged.read_judgements(RunStore(run))
    plan = RunStore(run).plan()
    assert found is not None and plan is not None and found.answers == said.answers
    for key, own in found.proxies[0].said.items():
        fooled = plan.job(key).parts[0]
        saw = [one.label for one in own if one.label is not None]
        assert len(saw) == len(own) > 5
        assert {label > 0.5 for label in saw} == {fooled == "one"}
    own = [row for row in rows_of(run) if row["encoder"] == "two"]
    assert own and all(0 <= row["off"] <= 1 for row in own)
    with pytest.raises(SuiteError):
        api.ask_proxy(run, "three")
