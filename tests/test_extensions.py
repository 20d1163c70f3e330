"""Modules that a user adds, from an --include folder or an installed package: found, run, and part of the key."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbench import api
from rbench.api.results import run_prepared
from rbench.api.suites import prepare_suite
from rbench.config import load_attack
from rbench.config.registry import Registry
from rbench.errors import JobError, SuiteError
from rbench.schema import PretrainJob
from rbench.store.runs import RunStore
from rbench.system.progress import SilentProgress
from tests import tiny

OBJECTIVE = '''
"""Pull everything together: a toy."""

from rbench.train.objectives import ContrastiveTraining
from rbench.train.options import Contrastive


class Options(Contrastive):
    """Those of contrastive objectives, and:"""

    strength: float = 1.0


class Toy(ContrastiveTraining[Options]):
    def losses(self, options, model, batch):
        from rbench.train.contrastive_losses import info_nce

        _, z, z_plus = model.twice(model.embed(batch), batch.mask)
        return {"loss": options.strength * info_nce(z, [z_plus], z_plus, options.temperature)}
'''


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """An --include folder with an objective."""
    folder = tmp_path / "mine"
    (folder / "objectives").mkdir(parents=True)
    (folder / "objectives" / "toy.py").write_text(OBJECTIVE)
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = [f"the {noun} was {quality}" for noun in ("film", "plot", "book") for quality in ("good", "dull", "long")]
    (tmp_path / "my.txt").write_text("\n".join(lines) + "\n")
    return tmp_path / "my.txt"


def train(mine: Path, corpus: Path, *settings: str) -> api.Trained:
    """Two steps of the toy on the smallest base."""
    return api.train(
        "toy",
        base=str(tiny.write_bert(corpus.parent / "bert")),
        data=str(corpus),
        settings=["dropout=0.1", "batch_size=4", *settings],
        steps=2,
        options=api.Options(include=(mine,), device="cpu"),
    )


def test_an_added_objective_trains_and_edited_trains_anew(mine: Path, corpus: Path) -> None:
    first = train(mine, corpus)
    assert train(mine, corpus).weights == first.weights, "nothing changed: the cache has it"
    file = mine / "objectives" / "toy.py"
    file.write_text(OBJECTIVE.replace("options.strength * info_nce", "2 * options.strength * info_nce"))
    edited = train(mine, corpus)
    assert edited.weights != first.weights
    (loss,) = (score.value for score in first.record.scores if score.name == "loss")
    (doubled,) = (score.value for score in edited.record.scores if score.name == "loss")
    assert doubled == pytest.approx(2 * loss, rel=0.05)


# -------------------------------------------------------------------------- what runs is what was planned


ATTACK = """
from rbench.attacks import AttackMethod
from rbench.schema.extension import NoOptions


class Nothing(AttackMethod[NoOptions]):
    title = "Nothing"

    def build(self, victim, resources, options, task):
        from textattack import Attack
        from textattack.goal_functions import UntargetedClassification
        from textattack.search_methods import GreedySearch
        from textattack.transformations import WordSwapRandomCharacterDeletion

        return Attack(UntargetedClassification(victim), [], WordSwapRandomCharacterDeletion(), GreedySearch())
"""
STRATEGY = "from rbench.train.finetune.probe import ProbeStrategy\n\n\nclass Own(ProbeStrategy): ...\n"
ENCODER = "base: {base}\npooling: mean\ntrain: {{objective: toy, data: {corpus}, steps: 1, batch_size: 4}}\n"
SUITE = """\
encoders: [mine]
tasks: [mini-sentiment]
finetune: [own]
attacks: [nothing]
num_examples: 2
resources: mini
training: {max_train: 40, max_validation: 20}
"""


@pytest.fixture
def suite(mine: Path, corpus: Path, tmp_path: Path) -> Path:
    """A suite of a user's objective, strategy and attack."""
    base = tiny.write_bert(tmp_path / "bert")
    for name, text in {
        "encoders/mine.yaml": ENCODER.format(base=base, corpus=corpus),
        "attacks/nothing.py": ATTACK,
        "finetune/own.py": STRATEGY,
    }.items():
        (mine / name).parent.mkdir(exist_ok=True)
        (mine / name).write_text(text)
    (tmp_path / "own.yaml").write_text(SUITE)
    return tmp_path / "own.yaml"


def options(mine: Path, **more: Any) -> api.Options:
    """One worker process: attacks of a user's own never run in the main process."""
    own = {"include": (mine,), "out": mine.parent / "run", "device": "cpu", "backend": "torch", "workers": 1}
    return api.Options(**{**own, **more})


@pytest.mark.parametrize(
    ("file", "stage"),
    [
        ("objectives/toy.py", "pretrain"),
        pytest.param("finetune/own.py", "finetune", marks=pytest.mark.nightly),
        pytest.param("attacks/nothing.py", "attack", marks=pytest.mark.nightly),
    ],
)
def test_a_job_fails_whose_module_changed_since_the_run_was_planned(
    file: str, stage: str, mine: Path, suite: Path
) -> None:
    prepared = prepare_suite(suite, options(mine))
    path = mine / file
    planned = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_text(path.read_text() + "\n# another\n")
    result = run_prepared(prepared, options(mine), SilentProgress())
    (failed,) = result.failed
    assert failed.job.stage == stage and failed.error is not None
    now = hashlib.sha256(path.read_bytes()).hexdigest()
    assert str(path) in failed.error and planned[:16] in failed.error and now[:16] in failed.error


def test_a_worker_process_opens_an_attack_only_as_it_was_planned(mine: Path, suite: Path) -> None:
    from rbench.recipes.build import build

    path = mine / "attacks" / "nothing.py"
    spec = load_attack("nothing", Registry([mine]))
    resources = SimpleNamespace(device="cpu")
    with pytest.raises(JobError) as caught:
        build(spec, None, resources, tiny.data(2, 2, 2).spec, path=path, digest="0" * 64)
    assert "nothing.py" in str(caught.value)


def test_a_key_holds_the_source_of_what_a_user_added(mine: Path, suite: Path) -> None:
    jobs = {job.stage: job.spec for job in api.plan(suite, options(mine)).jobs if job.stage != "measure"}
    sources = {stage: getattr(spec, "attack", spec).source for stage, spec in jobs.items()}
    files = {"pretrain": "objectives/toy.py", "finetune": "finetune/own.py", "attack": "attacks/nothing.py"}
    assert sources == {stage: hashlib.sha256((mine / file).read_bytes()).hexdigest() for stage, file in files.items()}


def test_a_users_strategy_that_hides_clean_makes_the_victims_of_a_suite_that_names_none(
    mine: Path, suite: Path
) -> None:
    suite.write_text(SUITE.replace("finetune: [own]\n", ""))
    before = api.plan(suite, options(mine)).plan.jobs
    (mine / "finetune" / "own.py").rename(mine / "finetune" / "clean.py")
    after = api.plan(suite, options(mine)).plan.jobs
    assert [a.key == b.key for a, b in zip(before, after, strict=True)] == [True, False, False, False]
    result = api.run(suite, options(mine, only=("finetune/",)))
    assert not result.failed
    record = RunStore(result.run).record(after[1])
    assert record is not None and "c" in {score.name for score in record.scores}, "it is the probe that ran"


def test_an_installed_package_offers_modules(
    mine: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A distribution on the path, as pip would leave it: nothing is included."""
    site = tmp_path / "site"
    shutil.copytree(mine, site / "rbench_plugin_of_a_test")
    (site / "rbench_plugin_of_a_test" / "__init__.py").write_text("")
    about = site / "rbench_plugin_of_a_test-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rbench-plugin-of-a-test\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[rbench]\nplugin = rbench_plugin_of_a_test\n")
    monkeypatch.syspath_prepend(str(site))
    listed = {one.listed.name: one.listed for one in api.objectives()}
    assert listed["toy"].origin == "package rbench-plugin-of-a-test"
    trained = api.train(
        "toy",
        base=str(tiny.write_bert(tmp_path / "bert")),
        data=str(corpus),
        settings=["dropout=0.1", "batch_size=4"],
        steps=1,
        options=api.Options(device="cpu"),
    )
    spec = trained.record.job.spec
    assert isinstance(spec, PretrainJob)
    assert spec.source == hashlib.sha256((mine / "objectives" / "toy.py").read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (OBJECTIVE.replace("[Options]):", "):\n    Options = 1"), "toy.py:14:1"),
        ("def build(): ...\n", "toy.py:1:1"),
        ("import no_such_module_x\n", "no_such_module_x"),
        (f"{OBJECTIVE}\n    resources = ('words',)", "toy.py:14:1"),
        (f"VERSION = '1.5'\n{OBJECTIVE}", "toy.py:1"),
    ],
)
def test_a_wrong_module_is_told_with_its_place(source: str, place: str, mine: Path, suite: Path) -> None:
    (mine / "objectives" / "toy.py").write_text(source)
    with pytest.raises(SuiteError) as caught:
        api.plan(suite, options(mine))
    assert place in str(caught.value)


SEEING = """
from rbench.train.finetune import Finetuned
from rbench.train.finetune.probe import ProbeStrategy


class Seeing(ProbeStrategy):
    resources = ("stopwords",)

    def run(self, options, context):
        victim, scores = super().run(options, context)
        seen = {
            "seed": context.seed,
            "rows": len(context.data.split("train")),
            "max_train": context.training.max_train,
            "penalties": len(options.c),
            "stopwords": len(context.resources.stopwords),
            "generated": context.generated is not None,
            "cpu": context.device == "cpu" == context.encoder.device.type,
        }
        context.progress(3, 5, "seen by own")
        return Finetuned(victim, scores | {name: float(value) for name, value in seen.items()})
"""


class Hearing(SilentProgress):
    """What a strategy said of its progress."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int, str]] = []

    def update(self, done: int, total: int, text: str = "") -> None:
        self.heard.append((done, total, text))


def test_a_strategy_works_with_what_the_suite_says(mine: Path, suite: Path) -> None:
    from rbench.mini import lexical, rows

    (mine / "finetune" / "own.py").write_text(SEEING)
    changed = SUITE.replace("[own]", "[own: {c: [1.0, 2.0], max_train: 30}]")
    suite.write_text(f"{changed}seeds: [0, 4]\n")
    hearing = Hearing()
    result = api.run(suite, options(mine, only=("finetune/",)), progress=hearing)
    assert not result.failed
    records = [record for record in RunStore(result.run).records() if record.job.stage == "finetune"]
    scores = [{score.name: score.value for score in record.scores} for record in records]
    assert sorted(one["seed"] for one in scores) == [0, 4]
    expected = {
        "rows": len(rows("mini-sentiment", "train")),
        "max_train": 30,
        "penalties": 2,
        "stopwords": len(lexical.stopwords()),
        "generated": 0,
        "cpu": 1,
    }
    assert all({name: one[name] for name in expected} == expected for one in scores)
    assert hearing.heard.count((3, 5, "seen by own")) == 2
    assert {record.counts["train_rows"] for record in records} == {30}


def test_a_strategy_without_a_validation_accuracy_fails_with_its_file(mine: Path, suite: Path) -> None:
    silent = (
        "\n\nclass Silent(Seeing):\n"
        "    def run(self, options, context):\n        return super().run(options, context).victim, {}\n"
    )
    (mine / "finetune" / "own.py").write_text(SEEING + silent)
    suite.write_text(SUITE)
    result = api.run(suite, options(mine, only=("finetune/",)))
    record = next(record for record in RunStore(result.run).records() if record.job.stage == "finetune")
    assert record.status == "failed" and record.error is not None
    assert "own.py: ValueError: no score validation_accuracy" in record.error


def test_a_strategy_with_an_outdated_signature_is_refused_while_the_suite_loads(mine: Path, suite: Path) -> None:
    file = mine / "finetune" / "own.py"
    file.write_text(
        "from rbench.train.finetune import FinetuneStrategy\n\n\nclass Own(FinetuneStrategy):\n"
        "    def run(self, encoder, data, training, options, *, seed, device, progress): ...\n"
    )
    with pytest.raises(SuiteError) as caught:
        api.plan(suite, options(mine))
    assert "own.py:5:1" in str(caught.value)


def test_unknown_names_are_told_with_those_of_the_included_folder(mine: Path, suite: Path) -> None:
    suite.write_text(SUITE.replace("[own]", "[onw, {clean: {epochs: 1}}]"))
    with pytest.raises(SuiteError) as caught:
        api.plan(suite, options(mine))
    assert "own.yaml:3:12" in str(caught.value)


def test_options_of_an_added_objective_are_those_of_set(mine: Path, corpus: Path) -> None:
    stronger = train(mine, corpus, "strength=3.0").record.job.spec
    assert isinstance(stronger, PretrainJob) and stronger.encoder.train is not None
    assert stronger.encoder.train.options["strength"] == 3.0
    with pytest.raises(SuiteError) as caught:
        train(mine, corpus, "strenth=3.0")
    assert "strength" in str(caught.value)


def test_a_suite_may_change_options_of_an_added_objective(mine: Path, suite: Path) -> None:
    suite.write_text(SUITE.replace("[mine]", "[{mine: {strength: 2.0}}]"))
    (job,) = (job for job in api.plan(suite, options(mine)).jobs if isinstance(job.spec, PretrainJob))
    assert job.spec.encoder.train is not None and job.spec.encoder.train.options == {"strength": 2.0}


def test_an_attack_that_ends_its_process_fails_its_job_and_the_run_goes_on(mine: Path, suite: Path) -> None:
    ends = ATTACK.replace("        from textattack import Attack\n", "        import os\n\n        os._exit(7)\n", 1)
    (mine / "attacks" / "ending.py").write_text(ends)
    suite.write_text(SUITE.replace("attacks: [nothing]", "attacks: [ending, nothing]"))
    result = api.run(suite, options(mine))
    assert [record.job.parts[-1] for record in result.failed] == ["ending"]
    assert "exit code 7" in str(result.failed[0].error) and "ending.py" in str(result.failed[0].error)
    done = {record.job.parts[-1] for record in RunStore(result.run).records() if record.status == "complete"}
    assert "nothing" in done
