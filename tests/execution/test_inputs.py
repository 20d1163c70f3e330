"""Tests that a job fails if one of its inputs was replaced after planning, and that the same command runs it again."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from rbench import api, mini
from rbench.api.suites import prepare_suite
from rbench.encoders.locate import hash_model
from rbench.encoders.sentence import SentenceEncoder
from rbench.mini import lexical
from rbench.plan.prepare import Options
from rbench.schema import Record
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache, weights_hash
from rbench.system import digests
from rbench.system.progress import SilentProgress
from rbench.train import loop, models
from tests.recipes import world

FILES = {
    "encoders/plain.yaml": "base: org/plain\npooling: mean\n",
    "encoders/ours.yaml": (
        "base: org/plain\npooling: mean\ntrain: {objective: simcse, data: mini-corpus, steps: 2, batch_size: 8,\n"
        "  options: {dropout: 0.1}}\n"
    ),
    "encoders/detecting.yaml": (
        "base: org/plain\ntrain: {objective: robustsentembed, options: {generator: lm}, data: mini-corpus, steps: 1,\n"
        "  batch_size: 8}\n"
    ),
    "encoders/hardened.yaml": (
        "base: org/plain\npooling: mean\ntrain: {objective: adcl, data: mini-corpus, steps: 1, batch_size: 8,\n"
        "  options: {queue: 8, resources: mine}}\n"
    ),
    "encoders/toy.yaml": (
        "architecture: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}\n"
        "train: {objective: mlm, data: mini-topic, steps: 2, batch_size: 8}\n"
    ),
    "resources/mine.yaml": (
        "title: Folders\nword_vectors: {kind: folder, name: vectors}\nsynonyms: {kind: folder, name: words}\n"
        "masked_lm: {kind: folder, name: lm}\nsentence_encoder: {kind: mini}\npos_tagger: {kind: mini}\n"
        "stopwords: {kind: mini}\n"
    ),
}
SMALL = (
    "tasks: [mini-sentiment]\nresources: mine\nnum_examples: 4\n"
    "training: {max_train: 32, max_validation: 16, epochs: 1}\n"
)
SUITES = {
    "evaluate": "encoders: [plain]\nevaluate: [mini-sts]\n",
    "finetune": f"encoders: [plain]\n{SMALL}finetune: [clean, {{adversarial: {{clean_epochs: 0}}}}]\n",
    "train": "encoders: [ours, detecting, hardened]\nevaluate: [mini-sts]\n",
    "attack": f"encoders: [plain]\n{SMALL}attacks: [pwws, geometry, bae]\n",
    "own-lm": (f"encoders: [plain]\n{SMALL}attacks: [bae]\n").replace(
        "resources: mine", "resources: {set: mini, masked_lm: toy}"
    ),
}


def write_vectors(folder: Path, seed: int) -> None:
    """The embedded world's word vectors, turned about a little by the seed."""
    words, matrix = lexical.word_vectors()
    folder.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).normal(0, 0.01, matrix.shape)
    np.save(folder / "vectors.npy", (matrix + noise).astype(np.float32))
    (folder / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")


def write_synonyms(folder: Path, seed: int) -> None:
    """Pairs of words of the embedded world."""
    folder.mkdir(parents=True, exist_ok=True)
    words = sorted({w for row in mini.rows("mini-sentiment", "test")[:40] for w in str(row["text"]).split()})
    pairs = zip(words, np.random.default_rng(seed).permutation(words), strict=True)
    (folder / "synonyms.txt").write_text("".join(f"{a} {b}\n" for a, b in pairs), encoding="utf-8")


WRITE: dict[str, Callable[[Path, int], Any]] = {
    "org/plain": lambda folder, seed: world.write_bert(folder, seed, head=False),
    "lm": lambda folder, seed: world.write_bert(folder, seed, head=True),
    "vectors": write_vectors,
    "words": write_synonyms,
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each input twice: as it is planned (0), and another (1)."""
    root = tmp_path_factory.mktemp("originals")
    for name, write in WRITE.items():
        for seed in (0, 1):
            write(root / str(seed) / name, seed)
    return root


@pytest.fixture
def place(tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    for name, text in FILES.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(text, encoding="utf-8")
    for name, text in SUITES.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    shutil.copytree(originals / "0", tmp_path / "models")
    return tmp_path


def options(place: Path, **more: Any) -> Options:
    return Options(include=(place / "mine",), models=(place / "models",), device="cpu", backend="torch", **more)


class Exchange(SilentProgress):
    """Puts another input where the planned one lay: when a job begins, or when it has done so many of its steps."""

    def __init__(self, place: Path, originals: Path, name: str, job: str, after: int | None = None) -> None:
        self.there, self.other = place / "models" / name, originals / "1" / name
        # Progress leaves options out that tell no two jobs apart.
        self.names, self.after, self.now = {job, re.sub(r"\[[^]]*\]", "", job)}, after, ""

    def start(self, name: str, index: int, count: int) -> None:
        self.now = name
        if name in self.names and self.after is None:
            self()

    def update(self, done: int, total: int, text: str = "") -> None:
        if self.now in self.names and self.after is not None and done >= self.after:
            self.after = None
            self()

    def __call__(self) -> None:
        shutil.rmtree(self.there)
        shutil.copytree(self.other, self.there)


class WrittenOver(Exchange):
    """The same within the files that are there: what maps them, sees it."""

    def __call__(self) -> None:
        for file in self.other.rglob("*"):
            if file.is_file():
                (self.there / file.relative_to(self.other)).write_bytes(file.read_bytes())


def record(run: Path, name: str) -> Record:
    (found,) = [record for record in RunStore(run).records() if record.job.name == name]
    return found


def planned(place: Path, suite: str, key: str) -> str:
    """A fingerprint that the plan's jobs hold: `key` is the name of a field of their specs, or of an entry of one."""
    found = set()
    for job in prepare_suite(f"{suite}.yaml", options(place)).plan.jobs:
        spec = job.spec.model_dump()
        fields = {**spec, **spec.get("resource_fingerprints", {}), **spec.get("model_fingerprints", {})}
        found |= {fields[key]} if isinstance(fields.get(key), str) and len(fields[key]) == 64 else set()
    (one,) = found
    return str(one)


CASES = [
    ("evaluate", "org/plain", "measure/plain/mini-sts/seed0", "encoder_fingerprint"),
    ("finetune", "org/plain", "finetune/plain/mini-sentiment/clean/seed0", "encoder_fingerprint"),
    ("finetune", "lm", "finetune/plain/mini-sentiment/adversarial[clean_epochs=0]/seed0", "masked_lm"),
    ("train", "org/plain", "pretrain/ours/seed0", "base_fingerprint"),
    ("train", "lm", "pretrain/detecting/seed0", "generator"),
    ("train", "vectors", "pretrain/hardened/seed0", "word_vectors"),
    ("attack", "words", "attack/plain/mini-sentiment/clean/pwws/seed0", "synonyms"),
    ("attack", "vectors", "attack/plain/mini-sentiment/clean/geometry/seed0", "word_vectors"),
    ("attack", "lm", "attack/plain/mini-sentiment/clean/bae/seed0", "masked_lm"),
]


def ran(place: Path, suite: str, job: str, progress: Any = None, workers: int = 1) -> api.RunResult:
    only = job.partition("[")[0]
    return api.run(f"{suite}.yaml", options(place, only=(only,), workers=workers), progress=progress)


NIGHTLY = {
    ("finetune", "org/plain"),
    ("finetune", "lm"),
    ("train", "org/plain"),
    ("train", "vectors"),
    ("attack", "vectors"),
    ("attack", "lm"),
}
"""The stages and the inputs of these have another case each, or a test below."""


@pytest.mark.parametrize(
    ("suite", "name", "job", "field"),
    [
        pytest.param(*c, id=f"{c[0]}-{c[1]}-{c[3]}", marks=pytest.mark.nightly if c[:2] in NIGHTLY else ())
        for c in CASES
    ],
)
def test_an_input_exchanged_after_planning_fails_the_job(
    place: Path, originals: Path, suite: str, name: str, job: str, field: str
) -> None:
    before = planned(place, suite, field)
    result = ran(place, suite, job, Exchange(place, originals, name, job))
    after = planned(place, suite, field)
    failed = record(result.run, job)
    assert failed.status == "failed" and failed.error is not None
    for said in (str(place / "models" / name), before, after, "run the command again"):
        assert said in failed.error
    assert before != after
    assert not WeightCache(default_cache()).has(failed.job.key), "nothing of another input under the planned key"
    assert not list(default_cache().glob("checkpoints/*/checkpoint-*"))
    again = ran(place, suite, job)
    assert not again.failed
    assert record(again.run, job).status == "complete"


def test_an_encoder_exchanged_while_it_is_loaded_is_seen(
    place: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = "measure/plain/mini-sts/seed0"
    exchange = Exchange(place, originals, "org/plain", job)
    real = SentenceEncoder.open.__func__  # type: ignore[attr-defined]

    def late(cls: type, *args: Any, **more: Any) -> SentenceEncoder:
        opened: SentenceEncoder = real(cls, *args, **more)
        exchange()
        return opened

    monkeypatch.setattr(SentenceEncoder, "open", classmethod(late))
    monkeypatch.setattr(SentenceEncoder, "encode", None)  # it fails before it is asked anything
    failed = record(ran(place, "evaluate", job).run, job)
    assert failed.error is not None and "changed after the run was planned" in failed.error


def test_a_base_exchanged_while_it_is_loaded_leaves_no_checkpoint_of_the_other(
    place: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint is found by the job's key, and the next run would go on from it."""
    job = "pretrain/ours/seed0"
    exchange = Exchange(place, originals, "org/plain", job)
    real = models.load_encoder

    def early(*args: Any, **more: Any) -> SentenceEncoder:
        exchange()
        return real(*args, **more)

    monkeypatch.setattr(models, "load_encoder", early)
    monkeypatch.setattr(loop.ObjectiveTrainer, "run", None)
    failed = record(ran(place, "train", job).run, job)
    assert failed.error is not None and "changed after the run was planned" in failed.error


def test_a_base_exchanged_during_the_last_steps_leaves_no_checkpoint(place: Path, originals: Path) -> None:
    job = "pretrain/ours/seed0"
    failed = record(ran(place, "train", job, Exchange(place, originals, "org/plain", job, after=2)).run, job)
    assert failed.error is not None and "changed after the run was planned" in failed.error
    assert not list(default_cache().glob("checkpoints/*/checkpoint-*"))


@pytest.mark.parametrize("kind", [pytest.param(Exchange, marks=pytest.mark.nightly), WrittenOver])
def test_an_encoder_exchanged_while_it_is_scored_is_seen(place: Path, originals: Path, kind: type[Exchange]) -> None:
    job = "measure/plain/mini-sts/seed0"
    failed = record(ran(place, "evaluate", job, kind(place, originals, "org/plain", job, after=1)).run, job)
    assert failed.error is not None and "changed after the run was planned" in failed.error


def test_an_encoder_exchanged_while_it_is_fine_tuned_leaves_nothing_in_the_cache(place: Path, originals: Path) -> None:
    job = "finetune/plain/mini-sentiment/clean/seed0"
    failed = record(ran(place, "finetune", job, Exchange(place, originals, "org/plain", job, after=1)).run, job)
    assert failed.error is not None and "changed after the run was planned" in failed.error
    assert not WeightCache(default_cache()).has(failed.job.key)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_resource_exchanged_while_texts_are_attacked_leaves_no_outcome_of_the_other(
    place: Path, originals: Path, workers: int
) -> None:
    """Also where it is other processes that open it, after this one has looked at it."""
    job = "attack/plain/mini-sentiment/clean/bae/seed0"
    exchange = Exchange(place, originals, "lm", job, after=0 if workers > 1 else 3)
    result = ran(place, "attack", job, exchange, workers=workers)
    failed = record(result.run, job)
    assert failed.error is not None and "changed after the run was planned" in failed.error
    assert str(place / "models" / "lm") in failed.error
    assert len(RunStore(result.run).outcomes(failed.job)) == (0 if workers > 1 else 3)


class Spoilt(SilentProgress):
    """Changes the sign of a cached victim's head when the attack on it begins."""

    def __init__(self, job: str) -> None:
        self.job = job

    def start(self, name: str, index: int, count: int) -> None:
        if name == self.job:
            (file,) = default_cache().glob("weights/*/*/head.safetensors")
            weights = {key: -tensor.clone() for key, tensor in load_file(file).items()}
            file.unlink()
            save_file(weights, file)


def test_a_victim_that_is_not_what_its_job_recorded_is_not_attacked_and_made_again(place: Path) -> None:
    job = "attack/plain/mini-sentiment/clean/pwws/seed0"
    failed = record(ran(place, "attack", job, Spoilt(job)).run, job)
    assert failed.status == "failed" and not RunStore(place / "results/runs/attack").outcomes(failed.job)
    again = ran(place, "attack", job)
    assert not again.failed and record(again.run, job).status == "complete"


def test_records_hold_the_hashes_of_what_was_opened(place: Path) -> None:
    job = "measure/plain/mini-sts/seed0"
    opened = record(ran(place, "evaluate", job).run, job).provenance
    assert opened.weights_hash == hash_model(place / "models" / "org/plain")
    run = api.run("attack.yaml", options(place, only=("/pwws/", "/bae/"))).run
    victim = record(run, "finetune/plain/mini-sentiment/clean/seed0").provenance.weights_hash
    found = {
        name: record(run, f"attack/plain/mini-sentiment/clean/{name}/seed0").provenance for name in ("pwws", "bae")
    }
    assert {provenance.weights_hash for provenance in found.values()} == {victim}
    assert set(found["pwws"].resources) == {"synonyms", "stopwords"}
    words = place / "models" / "words" / "synonyms.txt"
    assert found["pwws"].resources["synonyms"] == digests.hash_files([words])
    assert found["bae"].resources["masked_lm"] == hash_model(place / "models" / "lm")


def test_a_masked_lm_that_a_job_made_is_what_that_job_recorded(place: Path) -> None:
    job = "attack/plain/mini-sentiment/clean/bae/seed0"
    result = api.run("own-lm.yaml", options(place))
    assert not result.failed
    made = record(result.run, "pretrain/toy/seed0").provenance.weights_hash
    attacked = record(result.run, job)
    assert attacked.provenance.resources["masked_lm"] == made
    assert attacked.provenance.resources["masked_lm"] == weights_hash(
        WeightCache(default_cache()).folder(record(result.run, "pretrain/toy/seed0").job.key)
    )
