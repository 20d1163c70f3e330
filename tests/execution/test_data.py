"""Tests what a run reads and how often. Rows replaced after planning fail the jobs that need them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.sentence import SentenceEncoder
from rbench.plan.prepare import Options
from rbench.schema import Record
from rbench.store.runs import RunStore
from rbench.system.progress import SilentProgress
from rbench.tasks import data as reading
from rbench.tasks import lines
from tests import tiny

FILES = {
    "mine/tasks/pairs.yaml": "kind: sts\ncolumns: [sentence1, sentence2]\n",
    "mine/tasks/others.yaml": "kind: sts\ncolumns: [sentence1, sentence2]\n",
    "mine/tasks/films.yaml": "kind: single\ncolumns: [text]\nlabels: [bad, good]\n",
    "mine/encoders/toy.yaml": "base: toy\npooling: mean\n",
    "mine/encoders/first.yaml": "base: toy\npooling: cls\n",
    "sts.yaml": "encoders: [toy, first]\nevaluate: [pairs, others]\n",
    "contrast.yaml": (
        "encoders: [toy]\ntasks: [films]\nfinetune: [probe]\nresources: mini\nseeds: [0, 1]\n"
        "evaluate: [{contrast: {set: edited}}, {contrast: {set: turned}}]\n"
    ),
    "attack.yaml": (
        "encoders: [toy]\ntasks: [films]\nfinetune: [clean, freelb]\nattacks: [pwws]\n"
        "resources: mini\nnum_examples: 4\n"
    ),
}
SET = "task: films\nlocal: {}/test\noriginal: {{text: before, label: was}}\nperturbed: {{text: after, label: 'is'}}\n"
STS = ["measure/toy/pairs", "measure/toy/others", "measure/first/pairs", "measure/first/others"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    for name, text in FILES.items():
        write(tmp_path / name, text)
    tiny.write_bert(tmp_path / "models" / "toy")
    sentences = [example.texts[0] for example in tiny.data().split("test")]
    for name in ("pairs", "others"):
        rows = [
            {"sentence1": a, "sentence2": f"{b} {name}", "score": i % 6}
            for i, (a, b) in enumerate(zip(sentences[:27], sentences[27:54], strict=True))
        ]
        for i, split in enumerate(("train", "validation", "test")):
            as_lines(tmp_path / "data" / name / f"{split}.jsonl", rows[i::3])
    for split in ("train", "validation", "test"):
        examples = tiny.data(train=32, validation=16).split(split)
        rows = [{"text": example.texts[0], "label": example.label} for example in examples]
        as_lines(tmp_path / "data" / "films" / f"{split}.jsonl", rows)
    for name in ("edited", "turned"):
        write(tmp_path / f"mine/contrast/{name}.yaml", SET.format(name))
        rows = [{"before": text, "after": f"{text} {name}", "was": 0, "is": 1} for text in sentences[:6]]
        as_lines(tmp_path / "data" / name / "test.jsonl", rows)
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def as_lines(file: Path, rows: list[dict[str, Any]]) -> None:
    write(file, "".join(json.dumps(row) + "\n" for row in rows))


def ran(place: Path, suite: str, progress: SilentProgress | None = None, **more: Any) -> api.RunResult:
    folders: Any = {"include": (place / "mine",), "data": (place / "data",), "models": (place / "models",)}
    return api.run(f"{suite}.yaml", Options(**folders, **more, device="cpu", backend="torch"), progress=progress)


class Before(SilentProgress):
    """Does something once, when the job of this name begins."""

    def __init__(self, job: str, act: Callable[[], Any]) -> None:
        self.job, self.act = job, act

    def start(self, name: str, index: int, count: int) -> None:
        if name == self.job:
            self.act()


def changed(file: Path) -> None:
    """Another score or label in the last row."""
    *rows, last = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    key = next(key for key in ("score", "label", "is") if key in last)
    as_lines(file, [*rows, last | {key: 0 if last[key] else 1}])


def records(run: Path) -> dict[str, Record]:
    return {record.job.name.removesuffix("/seed0"): record for record in RunStore(run).records()}


# ------------------------------------------------------------------------------------------------------------ rows


@pytest.mark.parametrize(("suite", "folders"), [("sts", ["pairs", "others"]), ("contrast", ["films"])])
def test_a_run_reads_each_file_of_a_task_once(
    place: Path, suite: str, folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[str] = Counter()
    hashed: Counter[str] = Counter()
    real, real_hash = lines.read, reading.hash_examples

    def counting(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        read["/".join(path.parts[-2:])] += 1
        return real(path)

    def hashing(examples: Any) -> str:
        hashed[" ".join(examples)] += 1
        return real_hash(examples)

    monkeypatch.setattr(lines, "read", counting)
    monkeypatch.setattr(reading, "hash_examples", hashing)
    assert not ran(place, suite).failed
    files = [f"{folder}/{split}.jsonl" for folder in folders for split in ("train", "validation", "test")]
    assert read == dict.fromkeys([*files, *(["edited/test.jsonl", "turned/test.jsonl"] * (suite == "contrast"))], 1)
    splits = {"test": 2} if suite == "sts" else {}
    assert hashed == {"train validation test": len(folders)} | splits, "of each task once"


@pytest.mark.parametrize(
    ("suite", "file", "job"),
    [
        ("sts", "pairs/test.jsonl", "measure/toy/pairs/seed0"),
        pytest.param("contrast", "films/train.jsonl", "finetune/toy/films/probe/seed0", marks=pytest.mark.nightly),
        ("contrast", "edited/test.jsonl", "measure/toy/films/probe/edited/seed0"),
    ],
)
def test_rows_exchanged_after_planning_fail_the_job_and_the_same_command_plans_with_them(
    place: Path, suite: str, file: str, job: str
) -> None:
    first = "finetune/toy/films/probe/seed0" if suite == "contrast" else job  # which asks for all of its task's rows
    result = ran(place, suite, Before(first, lambda: changed(place / "data" / file)))
    failed = {record.job.name: record.error for record in result.failed}
    assert "changed while the run was under way; run the command again" in str(failed[job])
    again = ran(place, suite)
    assert not again.failed and not again.skipped


def test_rows_written_again_as_they_were_fail_nothing(place: Path) -> None:
    file = place / "data/pairs/test.jsonl"

    def rewrite() -> None:
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content)

    assert not ran(place, "sts", Before("measure/toy/pairs/seed0", rewrite)).failed


# -------------------------------------------------------------------------------------------------------- networks


def test_an_encoder_is_loaded_once_for_all_its_evaluations(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    real = SentenceEncoder.open.__func__  # type: ignore[attr-defined]

    def counting(cls: type, *args: Any, **more: Any) -> SentenceEncoder:
        opened.append(more["name"])
        encoder: SentenceEncoder = real(cls, *args, **more)
        return encoder

    monkeypatch.setattr(SentenceEncoder, "open", classmethod(counting))
    together = ran(place, "sts")
    assert not together.failed and opened == ["toy", "first"]
    # One at a time, in runs of their own, they score the same.
    found = {name: record.scores for name, record in records(together.run).items()}
    assert list(found) == STS
    for name in STS[1:3]:
        (RunStore(together.run).folder(records(together.run)[name].job) / "record.json").unlink()
        assert records(ran(place, "sts").run)[name].scores == found[name]
    assert opened == ["toy", "first", "toy", "first"]


def test_each_kind_of_task_is_read_with_its_own_prompt(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place / "mine/encoders/toy.yaml", "base: toy\npooling: mean\nprompt: {sts: the film, ranking: a plot}\n")
    write(place / "mine/tasks/asked.yaml", f"kind: ranking\ncolumns: [query]\nranking: {{folder: {place}/asked}}\n")
    for name, texts in (("corpus", ("good film", "dull story")), ("queries", ("a good film", "a dull story"))):
        as_lines(place / f"asked/{name}.jsonl", [{"_id": f"{name}{i}", "text": text} for i, text in enumerate(texts)])
    relevant = "".join(f"queries{i}\tcorpus{i}\t1\n" for i in range(2))
    write(place / "asked/qrels/test.tsv", f"query-id\tcorpus-id\tscore\n{relevant}")
    write(place / "kinds.yaml", "encoders: [toy]\nevaluate: [pairs, ranking: {tasks: [asked], k: 1}]\n")
    prompts: list[str] = []
    real = SentenceEncoder.encode

    def noting(self: SentenceEncoder, texts: Any, *more: Any) -> Any:
        prompts.append(self.settings.prompt)
        return real(self, texts, *more)

    monkeypatch.setattr(SentenceEncoder, "encode", noting)
    result = ran(place, "kinds")
    assert not result.failed, result.failed[0].error
    assert {"the film", "a plot"} <= {*prompts} <= {"the film", "a plot", ""}, "documents have none"


def test_a_sentence_of_several_sets_is_encoded_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = SentenceEncoder.encode

    def counting(self: SentenceEncoder, texts: Any, *more: Any) -> Any:
        asked.extend(texts)
        return real(self, texts, *more)

    monkeypatch.setattr(SentenceEncoder, "encode", counting)
    shared = (place / "data/pairs/test.jsonl").read_bytes()
    (place / "data/others/test.jsonl").write_bytes(shared)
    result = ran(place, "sts")
    texts = {row[column] for row in map(json.loads, shared.splitlines()) for column in ("sentence1", "sentence2")}
    assert not result.failed and sorted(asked) == sorted([*texts, *texts]), "once by each of two encoders"
    found = {name: record.scores for name, record in records(result.run).items()}
    assert found["measure/toy/pairs"] == found["measure/toy/others"] != found["measure/first/pairs"]


def test_a_record_counts_what_is_missing_of_each_subset_and_what_was_left_out(place: Path) -> None:
    task = "kind: sts\ncolumns: [sentence1, sentence2]\nscale: [0, 5]\nsubsets: {test: {news: 4, forum: 7, video: 3}}\n"
    write(place / "mine/tasks/pairs.yaml", task)
    file = place / "data/pairs/test.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [{**row, "subset": "news" if i < 4 else "forum"} for i, row in enumerate(rows)]
    as_lines(file, [*rows[:-1], {**rows[-1], "score": 9}])
    record = records(ran(place, "sts").run)["measure/toy/pairs"]
    assert len(rows) == 9 and record.counts == {
        "n": 8,
        "missing: forum": 3,
        "missing: video": 3,
        "left out: score outside the scale": 1,
    }
    sizes = {score.name: score.n for score in record.scores if score.name.startswith("spearman")}
    assert sizes == {"spearman": 8, "spearman:news": 4, "spearman:forum": 4}


def test_a_victim_is_loaded_once_for_all_its_contrast_sets(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    real = EncoderClassifier.load.__func__  # type: ignore[attr-defined]

    def counting(cls: type, folder: Path, *more: Any) -> Any:
        opened.append(folder)
        return real(cls, folder, *more)

    monkeypatch.setattr(EncoderClassifier, "load", classmethod(counting))
    result = ran(place, "contrast")
    assert not result.failed and result.complete == 6
    assert len(opened) == len(set(opened)) == 2, "a victim a seed, two sets each"
    # With the victims in the cache, their evaluations follow each other, and none is asked for another.
    before = RunStore(result.run).records()
    for record in before:
        if record.job.stage == "measure":
            (RunStore(result.run).folder(record.job) / "record.json").unlink()
    assert not ran(place, "contrast").failed and len(opened) == 4
    after = {record.job.key: record.provenance.weights_hash for record in RunStore(result.run).records()}
    assert after == {record.job.key: record.provenance.weights_hash for record in before}
    assert len(set(opened)) == 2


def test_weights_exchanged_before_an_evaluation_fail_it_though_the_encoder_is_in_memory(place: Path) -> None:
    exchange = Before("measure/toy/others/seed0", lambda: tiny.write_bert(place / "models" / "toy", seed=1))
    result = ran(place, "sts", exchange)
    failed = {record.job.name.removesuffix("/seed0"): str(record.error) for record in result.failed}
    assert list(failed) == STS[1:] and records(result.run)[STS[0]].status == "complete"
    assert all("models/toy" in error and "fingerprint" in error for error in failed.values())


def test_an_encoder_exchanged_while_it_was_loaded_is_not_kept_for_the_next(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next job finds the planned weights in place again, and what is in memory are others."""
    real = SentenceEncoder.open.__func__  # type: ignore[attr-defined]
    toy, opened = place / "models" / "toy", []

    def late(cls: type, *args: Any, **more: Any) -> SentenceEncoder:
        if not opened:
            tiny.write_bert(toy, seed=1)
        opened.append(more["name"])
        encoder: SentenceEncoder = real(cls, *args, **more)
        return encoder

    monkeypatch.setattr(SentenceEncoder, "open", classmethod(late))
    result = ran(place, "sts", Before("measure/toy/others/seed0", lambda: tiny.write_bert(toy)))
    assert [record.job.name for record in result.failed] == ["measure/toy/pairs/seed0"]
    assert opened == ["toy", "toy", "first"]


@pytest.mark.nightly  # tests/train/test_loop.py has a training after others, on every push
def test_victims_are_the_same_whether_or_not_others_were_attacked_before(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = ran(place, "attack")
    stages = [record.job.stage for record in RunStore(together.run).records()]
    assert not together.failed and stages == ["finetune", "measure", "attack"] * 2
    monkeypatch.setenv("RBENCH_CACHE", str(place / "another"))
    alone = ran(place, "attack", only=("finetune/toy/films/freelb",), out=place / "alone")
    name = "finetune/toy/films/freelb"
    made, again = (records(result.run)[name].provenance.weights_hash for result in (together, alone))
    assert made == again and made is not None
