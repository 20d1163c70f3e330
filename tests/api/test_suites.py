"""Tests what suites refuse before any work, and what a plan reports. Whole runs are in test_resume.py."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rbench import api
from rbench.api.suites import prepare_suite
from rbench.errors import PlanError, ResourceError, StoreError, SuiteError
from rbench.execution.run import _select_todo
from rbench.plan.prepare import Options
from rbench.schema import Job, Provenance, Record
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache
from tests.store.weights.entries import fill

SUITE = """\
name: mine
encoders: [mini-bert]
tasks: [mini-sentiment]
attacks: [pwws, geometry]
num_examples: 5
resources: mini
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))

    def write(text: str = SUITE, **changes: str) -> Path:
        for key, value in changes.items():
            lines = [f"{key}: {value}" if line.startswith(f"{key}:") else line for line in text.splitlines()]
            text = "\n".join(lines) + "\n"
        file = tmp_path / "mine.yaml"
        file.write_text(text)
        return file

    return write


def test_a_plan_shows_jobs_costs_and_where_results_go(write) -> None:  # type: ignore[no-untyped-def]
    planned = api.plan(write())
    assert [job.name for job in planned.jobs] == [
        "pretrain/mini-bert/seed0",
        "finetune/mini-bert/mini-sentiment/clean/seed0",
        "measure/mini-bert/mini-sentiment/clean/test_accuracy/seed0",
        "attack/mini-bert/mini-sentiment/clean/pwws/seed0",
        "attack/mini-bert/mini-sentiment/clean/geometry/seed0",
    ]
    assert planned.run == Path("results/runs/mine")
    assert planned.done == frozenset()
    costs = [planned.estimates[job.key] for job in planned.jobs[2:]]
    assert [e.examples for e in costs] == [1000, 5, 5]
    assert costs[0].told == "to classify: {:,} rows of test splits" and all(e.queries > 5 for e in costs[1:])
    assert not Path("results").exists()  # planning writes nothing


def test_a_plan_marks_jobs_whose_weights_are_in_the_cache_and_reads_none_of_them(  # type: ignore[no-untyped-def]
    write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    before = api.plan(write())
    assert before.cached == frozenset() and not list((tmp_path / "cache").glob("weights"))
    pretrain, finetune, *_ = before.jobs
    cache = WeightCache(tmp_path / "cache")
    fill(cache, finetune)
    fill(cache, pretrain)
    (cache.place(pretrain.key) / "manifest.json").unlink()  # of a version without lists: it is made again
    cache.place(finetune.key).joinpath("model.safetensors").write_bytes(b"")  # its run will say so
    planned = api.plan(write())
    assert (planned.cached, planned.done) == (frozenset([finetune.key]), frozenset())
    store = RunStore(planned.run)
    store.write_record(Record(job=finetune, status="complete", provenance=Provenance(rbench="0", weights_hash="w")))
    finished = api.plan(write())
    assert (finished.cached, finished.done) == (frozenset(), frozenset([finetune.key]))
    assert api.plan(write(), Options(fresh=True)).cached == frozenset([finetune.key]), "--fresh keeps weights"


def test_a_folder_that_holds_a_run_of_another_suite_is_refused(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Its plan would be replaced. A damaged plan is replaced as ever, and --fresh sets the RUN aside."""
    file, out = write(), tmp_path / "run"
    other = api.plan(write(name="other"), Options(out=out)).plan
    RunStore(out).write_plan(other)
    with pytest.raises(PlanError):
        api.plan(write(), Options(out=out))
    assert api.plan(write(), Options(out=out, fresh=True)).run == out
    assert api.plan(write(name="other"), Options(out=out)).run == out
    (out / "plan.json").write_text("{")
    assert api.plan(file, Options(out=out)).run == out


def test_two_suites_of_one_name_do_not_replace_each_others_results(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    mine, theirs = write(), tmp_path / "theirs" / "mine.yaml"
    theirs.parent.mkdir()
    theirs.write_text(SUITE.replace("pwws", "textfooler"))
    run = tmp_path / "results" / "runs" / "mine"
    RunStore(run).note_suite(mine)
    with pytest.raises(StoreError):
        api.plan(theirs)
    assert api.plan(mine).jobs and api.plan(theirs, Options(fresh=True)).jobs
    assert api.plan(theirs, Options(out=run)).jobs, "who names a folder has decided"
    write(tasks="[mini-topic]")
    assert api.plan(mine).jobs, "an edited suite goes on where it was"
    theirs.write_text(mine.read_text())
    assert api.plan(theirs).jobs, "a copy is the same suite"
    theirs.write_text(SUITE)
    mine.rename(tmp_path / "gone.yaml")
    assert api.plan(theirs).jobs, "the suite was moved"


def test_requiring_healthy_ones_changes_no_key(write) -> None:  # type: ignore[no-untyped-def]
    """So the tables of a finished run can be made anew with it."""
    free, asked = (api.plan(write(SUITE + more)) for more in ("", "require: healthy\n"))
    assert [job.key for job in free.jobs] == [job.key for job in asked.jobs]


def test_limit_cuts_every_task_and_never_raises_a_number(write) -> None:  # type: ignore[no-untyped-def]
    def examples(options: Options, **changes: str) -> set[int]:
        planned = api.plan(write(**changes), options)
        return {planned.estimates[job.key].examples for job in planned.jobs if job.attacking}

    assert examples(Options(limit=2)) == {2}
    assert examples(Options(limit=50)) == {5}
    assert examples(Options(limit=3), num_examples="all") == {3}
    assert examples(Options(limit=3), num_examples="{mini-sentiment: 4}") == {3}


def test_a_limited_run_scores_no_test_rows_unless_the_suite_names_them(write) -> None:  # type: ignore[no-untyped-def]
    def scored(**changes: str) -> bool:
        return any("test_accuracy" in job.parts for job in api.plan(write(**changes), Options(limit=2)).jobs)

    assert not scored()
    assert scored(text=SUITE + "evaluate: [test_accuracy]\n")


def test_more_examples_than_there_are_is_refused_with_the_size(write) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PlanError):
        api.run(write(num_examples="100000"))
    assert not Path("results").exists()


def test_everything_missing_is_said_at_once_and_before_the_run(write) -> None:  # type: ignore[no-untyped-def]
    suite = write(encoders="[bert-base, minilm]", tasks="[mr, snli]", resources="local")
    with pytest.raises(ResourceError) as caught:
        api.run(suite)
    assert re.search("2 data sets, 2 models and [0-9]+ resources of attacks are missing", str(caught.value))
    message = str(caught.value.__cause__)  # each with its remedy, as doctor says it
    for missing in ("mr", "snli", "bert-base", "minilm", "masked_lm", "wordnet", "geometry", "pwws"):
        assert missing in message
    for remedy in ("--data", "--models", "NLTK_DATA"):
        assert remedy in message
    assert not Path("results").exists()


@pytest.mark.parametrize("verb", [api.plan, api.run])
@pytest.mark.parametrize(
    ("parameter", "named"),
    [
        ('"GreedyWordSwapWIR.wir_metod": delete', "wir_method"),
        ("WordSwapWordNet.threshold: 1", "threshold"),
        ("wir_method: delete", "wir_method"),
    ],
)
def test_wrong_parameters_of_a_recipe_are_refused_before_training(write, verb, parameter, named) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SuiteError) as caught:
        verb(write(attacks=f"[{{pwws: {{{parameter}}}}}]"))
    assert named in str(caught.value)
    assert not list(Path("results").rglob("record.json"))


def test_fingerprints_do_not_depend_on_paths(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    rows = '{"text": "a good film", "label": 1}\n{"text": "a bad film", "label": 0}\n'
    keys = []
    for name in ("one", "two"):
        for split in ("train", "validation", "test"):
            file = tmp_path / name / "sst2" / f"{split}.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(rows.replace("film", f"{split} film"))
        suite = write(tasks="[sst2]", num_examples="2")
        keys.append([job.key for job in prepare_suite(suite, Options(data=(tmp_path / name,))).plan.jobs])
    assert keys[0] == keys[1]
    changed = tmp_path / "two" / "sst2" / "test.jsonl"
    changed.write_text(changed.read_text().replace("good", "great"))
    assert [job.key for job in prepare_suite(suite, Options(data=(tmp_path / "two",))).plan.jobs] != keys[0]


def test_a_plan_says_where_rows_are_more_or_fewer_than_published(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for split in ("train", "validation", "test"):
        file = tmp_path / "sst2" / f"{split}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f'{{"text": "{split} {i}", "label": {i % 2}}}\n' for i in range(6)))
    notes = api.plan(write(tasks="[sst2]", num_examples="2"), Options(data=(tmp_path,))).notes
    assert "sst2: its train split has 6 rows here; the published one has 67,349" in notes
    assert "sst2: its test split has 6 rows here; the published one has 1,821" in notes


def test_a_corpus_smaller_than_a_batch_is_told_before_the_run(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "mine" / "encoders").mkdir(parents=True)
    (tmp_path / "few.txt").write_text("one\ntwo\nthree\n")
    train = "{objective: simcse, data: few.txt, batch_size: 4, options: {dropout: 0.1}}"
    (tmp_path / "mine" / "encoders" / "few.yaml").write_text(f"base: mini-bert\ntrain: {train}\n")
    with pytest.raises(ResourceError) as caught:
        api.run(write(encoders="[few]"), Options(include=(tmp_path / "mine",)))
    assert "few" in str(caught.value)
    assert not Path("results").exists()


def test_doctor_names_what_is_there_and_how_to_get_the_rest(write) -> None:  # type: ignore[no-untyped-def]
    checks = {(check.kind, check.name): check for check in api.doctor()}
    assert checks["task", "mini-nli"].ok
    assert checks["encoder", "mini-bert"].ok
    assert checks["resources mini", "masked_lm"].ok
    assert checks["task", "yelp"].ok is False
    assert "--data" in checks["task", "yelp"].remedy
    assert checks["resources standard-use", "sentence_encoder"].ok is False
    assert all(check.ok or check.remedy for check in checks.values())


# ------------------------------------------------------------------------------------------------- what is to be done

RUN = """\
encoders: [small]
tasks: [mini-sentiment]
attacks: [pwws]
num_examples: 3
resources: mini
training: {max_train: 32, max_validation: 16, epochs: 1}
"""
SMALL = """\
architecture: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}
train: {objective: mlm, data: mini-topic, steps: 2, batch_size: 8}
"""


def test_weights_that_are_gone_are_made_again_with_all_that_they_need(write, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine" / "encoders").mkdir(parents=True)
    (tmp_path / "mine" / "encoders" / "small.yaml").write_text(SMALL)
    options = Options(include=(tmp_path / "mine",), device="cpu", backend="torch")
    result = api.run(write(RUN), options)
    assert not result.failed and result.complete == 4
    store, jobs = RunStore(result.run), prepare_suite(write(RUN), options).plan.jobs
    pretrain, finetune, accuracy, attack = jobs
    cache = WeightCache(tmp_path / "cache")

    def todo(done: tuple[Job, ...], *gone: Job) -> list[Job]:
        """What is to be done where so many jobs are, and the weights of some are no longer in the cache."""
        moved = {job.key: cache.folder(job.key).rename(tmp_path / job.key) for job in gone}
        found = _select_todo(jobs, {job.key for job in done}, cache)
        for key, folder in moved.items():
            folder.rename(tmp_path / "cache" / "weights" / key[:2] / key)
        return found

    assert todo(jobs) == todo(jobs, pretrain, finetune) == [], "nobody needs them"
    assert todo((pretrain, finetune)) == [accuracy, attack]
    assert todo((pretrain, finetune, accuracy)) == [attack]
    assert todo((pretrain, finetune), pretrain) == [accuracy, attack], "the victim is here, and it needs no more"
    assert todo((pretrain, finetune), finetune) == [finetune, accuracy, attack]
    assert todo((pretrain, finetune), pretrain, finetune) == [pretrain, finetune, accuracy, attack]
    # And so it runs.
    before = {job.key: store.record(job) for job in (pretrain, finetune)}
    shutil.rmtree(tmp_path / "cache" / "weights")
    shutil.rmtree(store.folder(attack))
    again = api.run(write(RUN), options)
    assert not again.failed and again.complete == 4
    for job in (pretrain, finetune):
        record, old = store.record(job), before[job.key]
        assert record is not None and old is not None
        assert record.provenance != old.provenance, "it was made again"
        assert record.provenance.weights_hash == old.provenance.weights_hash
    assert store.record(attack) is not None


def test_what_rbench_offers_stays_what_it_is_whatever_is_imported() -> None:
    """A package under the name of a function would take its place once it is imported. None has such a name."""
    code = (
        "import rbench; rbench.api.Executor; import pkgutil, rbench.api; "
        "packages = {m.name for m in pkgutil.iter_modules(rbench.__path__)}; "
        "assert not packages & set(rbench.__all__); assert all(callable(getattr(rbench, n)) for n in rbench.__all__ if "
        "n != '__version__'); modules = {m.name for m in pkgutil.iter_modules(rbench.api.__path__)}; assert not "
        "modules & set(rbench.api.__all__); assert all(callable(getattr(rbench.api, n)) for n in rbench.api.__all__ if "
        "n != 'ORDER')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
