"""What a job opens is what was planned: with an input exchanged in between it fails, and the command runs again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench import api, mini
from rbench.cache import WeightCache, default_cache
from rbench.mini import lexical
from rbench.prepare import Options, prepare
from rbench.progress import Silent
from rbench.spec import Record
from rbench.store import Store
from tests.attack import world

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
    "resources/mine.yaml": (
        "title: Folders\nword_vectors: {kind: folder, name: vectors}\nsynonyms: {kind: folder, name: words}\n"
        "masked_lm: {kind: folder, name: lm}\nsentence_encoder: {kind: mini}\npos_tagger: {kind: mini}\n"
        "stopwords: {kind: mini}\n"
    ),
}
SMALL = (
    "tasks: [mini-sentiment]\nresources: mine\nnum_examples: 10\n"
    "training: {max_train: 32, max_validation: 16, epochs: 1}\n"
)
SUITES = {
    "evaluate": "encoders: [plain]\nevaluate: [mini-sts]\n",
    "finetune": f"encoders: [plain]\n{SMALL}finetune: [clean, {{adversarial: {{clean_epochs: 0}}}}]\n",
    "train": "encoders: [ours, detecting, hardened]\nevaluate: [mini-sts]\n",
    "attack": f"encoders: [plain]\n{SMALL}attacks: [pwws, geometry, bae]\n",
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


class Exchange(Silent):
    """Puts another input where the planned one lay when a job begins."""

    def __init__(self, place: Path, originals: Path, name: str, job: str) -> None:
        self.there, self.other, self.job = place / "models" / name, originals / "1" / name, job

    def start(self, name: str, index: int, count: int) -> None:
        if name == self.job:
            self()

    def __call__(self) -> None:
        shutil.rmtree(self.there)
        shutil.copytree(self.other, self.there)


def record(run: Path, name: str) -> Record:
    (found,) = [record for record in Store(run).records() if record.job.name == name]
    return found


def planned(place: Path, suite: str, key: str) -> str:
    """A fingerprint that the plan's jobs hold: `key` is the name of a field of their specs, or of an entry of one."""
    found = set()
    for job in prepare(f"{suite}.yaml", options(place)).plan.jobs:
        spec = job.spec.model_dump()
        fields = {**spec, **spec.get("resource_fingerprints", {}), **spec.get("model_fingerprints", {})}
        found |= {fields[key]} if isinstance(fields.get(key), str) and len(fields[key]) == 64 else set()
    (one,) = found
    return str(one)


CASES = [
    ("evaluate", "org/plain", "evaluate/plain/mini-sts/seed0", "encoder_fingerprint"),
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
    only = () if suite == "attack" else (job.partition("[")[0],)
    return api.run(f"{suite}.yaml", options(place, only=only, workers=workers), progress=progress)


@pytest.mark.parametrize(("suite", "name", "job", "field"), CASES, ids=[f"{c[0]}-{c[1]}-{c[3]}" for c in CASES])
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
