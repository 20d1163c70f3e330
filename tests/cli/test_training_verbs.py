"""`rbench train`, which also exports, with the real API on encoders of a few thousand weights."""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from rbench import encoders
from rbench.api.suites import prepare_suite
from rbench.execution.publish.encoder import CARD
from rbench.plan.lineage import as_loaded
from rbench.plan.prepare import Options
from rbench.schema import EncoderSpec
from rbench.store.weights import WeightCache, default_cache
from tests import tiny
from tests.cli.conftest import Shell
from tests.refusals import nearest, unknown
from tests.train.bases import TEXTS, masked_roberta

TOY = """\
title: Toy
licence: MIT
architecture:
  {hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 16, hidden_dropout_prob: 0.0,
   attention_probs_dropout_prob: 0.0}
train: {objective: mlm, data: mini-topic, steps: 3, batch_size: 8, max_length: 16}
"""
QUERIES = ["The dog slept.", "a", "Anna bought a red car in Paris, and nobody knew why. " * 20]


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An include folder with a toy encoder and what is made of it, and models for the search path."""
    mine = tmp_path_factory.mktemp("mine")
    (mine / "encoders").mkdir()
    models = mine / "models"
    masked_roberta(models / "tiny-roberta")
    tiny.write_bert(models / "tiny-bert")
    files = {
        "toy": TOY,
        "toy-mean": "base: toy\npooling: mean\nlayers: 1\nmax_length: 12\n",
        "toy-average": "base: toy\npooling: first-last-mean\n",
        "plain": "title: Plain\nbase: tiny-roberta\npooling: mean\nlicence: a licence of its own\n",
        "pooled": "base: tiny-bert\npooling: cls+mlp\n",
        "coded": "base: tiny-bert\ntrust_remote_code: true\n",
    }
    for name, text in files.items():
        (mine / "encoders" / f"{name}.yaml").write_text(text)
    return mine


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    file = tmp_path / "my texts.txt"
    file.write_text("\n".join(f"{text} {i}" for i, text in enumerate(TEXTS)) + "\n\n")
    return file


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def said(result: Any, label: str) -> str:
    """What stands behind `label: ` on standard output."""
    found = re.search(rf"^{label}: (.*)$", result.stdout, re.MULTILINE)
    assert found is not None, result.output
    return found.group(1)


# ---------------------------------------------------------------------------------------------------------- train


def test_an_encoder_is_trained_once_by_the_job_that_a_suite_has(shell: Shell, mine: Path, tmp_path: Path) -> None:
    result = shell("train", "toy", "--include", mine, "--device", "cpu")
    assert result.exit_code == 0, result.output
    weights = Path(said(result, "weights"))
    assert {"model.safetensors", "config.json", "modules.json", CARD} <= {path.name for path in weights.iterdir()}
    assert "in a suite: encoders: [toy]" in result.stdout and "rbench train toy --out DIR" in result.stdout
    assert re.search(r"^toy: loss [\d.]+, masked_accuracy", result.stdout, re.MULTILINE)

    suite = tmp_path / "s.yaml"
    suite.write_text("name: s\nencoders: [toy]\ntasks: [mini-topic]\nresources: mini\n")
    (job, *_) = prepare_suite(suite, Options(include=(mine,))).plan.jobs
    assert job.stage == "pretrain" and WeightCache(default_cache()).folder(job.key) == weights

    again = shell("train", "toy-mean", "--include", mine, "--device", "cpu")
    assert "its weights were in the cache" in again.stderr
    assert "toy-mean (made from toy): loss" in again.stdout and said(again, "weights") == str(weights)


def test_an_objective_a_base_and_a_file_make_an_encoder(shell: Shell, mine: Path, texts: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    command = ["train", "simcse", "--base", "toy", "--set", "dropout=0.1", "--set", "batch_size=8", "--steps", "2"]
    shared = ["--include", mine, "--device", "cpu"]
    result = shell(*command, "--data", texts, "--out", tmp_path / "out", *shared)
    assert result.exit_code == 0, result.output
    assert SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(QUERIES).shape == (3, 16)

    entry = yaml.safe_load(result.stdout.partition("cache:\n\n")[2])
    assert entry["name"] == "simcse-toy-my-texts" and entry["pooling"] == "cls"
    assert entry["train"]["options"] == {"dropout": 0.1} and entry["train"]["steps"] == 2
    EncoderSpec.model_validate(entry)

    # The file that was printed names the same job, wherever the corpus lies.
    moved = tmp_path / "elsewhere" / texts.name
    moved.parent.mkdir()
    texts.rename(moved)
    entry["train"]["data"] = str(moved)
    folder = tmp_path / "own" / "encoders"
    folder.mkdir(parents=True)
    (folder / "simcse-toy-my-texts.yaml").write_text(yaml.safe_dump(entry))
    again = shell("train", "simcse-toy-my-texts", "--include", tmp_path / "own", *shared)
    assert again.exit_code == 0, again.output
    assert said(again, "weights") == said(result, "weights")
    assert again.stderr.count("were in the cache") == 1, "and toy is not asked for"

    moved.write_text(moved.read_text() + "One sentence more.\n")
    other = shell("train", "simcse-toy-my-texts", "--include", tmp_path / "own", *shared)
    assert said(other, "weights") != said(result, "weights"), "the corpus's content decides"


@pytest.mark.nightly
def test_a_base_may_be_a_folder_and_data_may_lie_under_a_data_folder(shell: Shell, mine: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    rows = (json.dumps({"text": text}) for text in TEXTS)
    (tmp_path / "corpus" / "some.jsonl").write_text("\n".join(rows))
    common = ["--set", "batch_size=8", "--steps", "1", "--device", "cpu", "--quiet", "--data", tmp_path]
    base = ["--base", "tiny-roberta", "--models", mine / "models"]
    named = shell("train", "uscal", *base, "--data", "corpus", "--name", "mine", *common)
    assert named.exit_code == 0 and named.stderr == "", named.output
    assert yaml.safe_load(named.stdout.partition("cache:\n\n")[2])["base"] == "tiny-roberta"
    by_file = shell("train", "uscal", *base, "--data", "corpus/some.jsonl", "--set", "pooling=mean", *common)
    assert by_file.exit_code == 0, by_file.output
    assert by_file.stdout.startswith("uscal-tiny-roberta-some: ")
    by_path = shell("train", "uscal", "--base", mine / "models" / "tiny-roberta", "--data", "corpus", *common)
    assert by_path.exit_code == 0, by_path.output


def test_ctrl_c_keeps_what_was_done(shell: Shell, mine: Path, texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    stop_at = 7

    class Watcher:
        def start(self, name: str, index: int, count: int) -> None: ...
        def finish(self, status: str) -> None: ...
        def note(self, text: str) -> None: ...
        def update(self, done: int, total: int, text: str = "") -> None:
            steps.append(done)
            if done == stop_at:
                raise KeyboardInterrupt

    @contextlib.contextmanager
    def watching(quiet: bool) -> Iterator[Watcher]:
        yield Watcher()

    assert shell("train", "toy", "--include", mine, "--device", "cpu").exit_code == 0
    monkeypatch.setattr("rbench.system.progress.watching", watching)
    command = ["train", "consert", "--base", "toy", "--data", texts, "--set", "batch_size=8", "--steps", "10"]
    result = shell(*command, "--include", mine, "--device", "cpu")
    assert result.exit_code == 130
    assert "Interrupted. The last checkpoint is kept: the same command continues" in result.stderr
    assert steps == list(range(1, 8))
    stop_at = 0
    assert shell(*command, "--include", mine, "--device", "cpu").exit_code == 0
    assert steps[7:] == [7, 8, 9, 10], "it went on from the checkpoint at step 6"


AD_HOC = ["--base", "mini-bert", "--data", "mini-corpus"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["simsce-mini"], nearest("simcse-mini")),
        (["simcse"], "--base and --data"),
        (["simcse", "--data", "mini-corpus"], "--base"),
        (["simcse-mini", "--steps", "4"], "rbench train simcse --base mini-bert --data mini-corpus"),
        (["minilm", "--steps", "4"], "rbench train OBJECTIVE --base minilm"),
        (["simcse-mini", "--set", "K=1", "--seed", "3"], "--seed, --set"),
        (["simcse", *AD_HOC, "--set", "batch_sise=1"], nearest("batch_size")),
        (["simcse", *AD_HOC, "--set", "temperature=warm"], "--set temperature=warm"),
        (["simcse", *AD_HOC, "--set", "temperature"], "--set temperature"),
        (["simcse", *AD_HOC, "--steps", "3", "--epochs", "2"], "--steps"),
        (["simcse", *AD_HOC, "--name", "minilm"], "minilm"),
        (["simcse", *AD_HOC, "--name", "../x"], "../x"),
        (["simcse", "--base", "mini-bert", "--data", "mini-corpsu"], nearest("mini-corpus")),
        (["simcse", "--base", "mini-bert", "--data", "no/such.txt"], "no/such.txt"),
        (["simcse", "--base", "mini-brt", "--data", "mini-corpus"], "mini-bert"),
        (["simcse", *AD_HOC, "--data", "corpus"], "mini-corpus and corpus"),
        (["bert-base", "--models", "MODELS"], "google-bert/"),
    ],
)
def test_wrong_input_is_told_before_any_work(
    shell: Shell, mine: Path, arguments: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("work has begun")

    monkeypatch.setattr(importlib.import_module("rbench.api.training"), "ran", never)
    tiny.write_bert(tmp_path / "bert-base")
    result = shell("train", *(str(tmp_path) if word == "MODELS" else word for word in arguments))
    assert result.exit_code == 2, result.output
    assert named in re.sub(r"[\s│]+", " ", result.stderr)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "\n \n", "it has no rows"),
        ("a.txt", "one\ntwo\n", "has 2 sentences to train on, fewer than a batch of 64"),
        ("a.jsonl", "one\n", "a.jsonl:1: not JSON"),
        ("a.txt", "caf\udce9\n", "a.txt:1: not UTF-8"),
        ("a.csv", "text\none\n", "a corpus file ends in .txt"),
    ],
)
def test_a_corpus_that_will_not_do_is_told_before_any_work(
    shell: Shell, mine: Path, name: str, content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("rbench.api.training"), "ran", None)
    (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    result = shell("train", "simcse", "--base", "toy", "--data", tmp_path / name, "--include", mine)
    assert result.exit_code == 2, result.output
    assert message in result.stderr


def test_a_training_that_fails_says_why_and_ends_with_1(shell: Shell, mine: Path, texts: Path) -> None:
    command = ["train", "simcse", "--base", "toy", "--data", texts, "--set", "batch_size=8", "--steps", "1"]
    result = shell(*command, "--include", mine, "--device", "cpu")
    assert result.exit_code == 1
    assert "failed: Encoder simcse-toy-my-texts: objective simcse makes its positive pairs by dropout" in result.stderr


def test_objectives_are_listed_with_their_options(shell: Shell) -> None:
    result = shell("list", "objectives")
    assert result.exit_code == 0
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("robustsentembed\t"))
    assert "Asl et al. 2024" in line and "K=5" in line and "generator=null" in line


# --------------------------------------------------------------------------------------------------------- export


@pytest.mark.parametrize("name", [pytest.param("toy", marks=pytest.mark.nightly), "toy-mean", "plain"])
def test_an_export_gives_the_same_vectors_in_sentence_transformers(
    shell: Shell, mine: Path, name: str, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    out = tmp_path / "out"
    result = shell("train", name, "--out", out, "--include", mine, "--models", mine / "models", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert f"{name} is in {out}" in result.stdout
    theirs = SentenceTransformer(str(out), device="cpu").encode(QUERIES)

    suite = tmp_path / "s.yaml"
    suite.write_text(f"name: s\nencoders: [{name}]\ntasks: [mini-topic]\nresources: mini\n")
    prepared = prepare_suite(suite, Options(include=(mine,), models=(mine / "models",)))
    first = prepared.plan.jobs[0]
    ours_at = (
        WeightCache(default_cache()).folder(first.key) if first.stage == "pretrain" else mine / "models/tiny-roberta"
    )
    ours = encoders.load(as_loaded(name, prepared.loaded.encoders), ours_at).encode(QUERIES)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)

    files = [path for path in out.rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix in (".bin", ".pt", ".pkl", ".pth")]
    for path in files:
        if path.suffix in (".json", ".md"):
            assert str(tmp_path.parent.parent) not in path.read_text(), f"{path} names a path of this machine"


def test_a_draw_of_a_training_is_exported_by_its_label(shell: Shell, mine: Path, tmp_path: Path) -> None:
    shared = ["--include", mine, "--models", mine / "models", "--device", "cpu", "--quiet"]
    trained = shell("train", "toy[seed=1]", *shared)
    assert trained.exit_code == 0, trained.output
    assert "in a suite: encoders: [{toy: {seed: 1}}]" in trained.stdout
    assert "rbench train 'toy[seed=1]' --out DIR" in trained.stdout
    # The seed of another pooling is that of the training below it.
    assert shell("train", "toy-mean[seed=1]", "--out", tmp_path / "out", *shared).exit_code == 0
    listed = shell("cache").stdout
    assert listed.count("pretrain/toy[seed=1]") == 1 and "toy-mean" not in listed
    other = shell("train", "toy", *shared)
    folders = (said(trained, "weights"), said(other, "weights"), tmp_path / "out")
    found = (load_file(Path(folder) / "model.safetensors") for folder in folders)
    own, first, mean = (
        next(rows for name, rows in one.items() if name.endswith("word_embeddings.weight")) for one in found
    )
    assert torch.equal(own, mean) and not torch.equal(own, first)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("toi[seed=1]", unknown("encoder or objective", "toi", "toy")),
        ("toy[sead=1]", unknown("option of toy", "sead", "seed")),
        ("toy[seed:1]", "toy[seed:1]: "),
        ("plain[seed=1]", "(plain)"),
    ],
)
def test_a_label_that_names_no_encoder_is_refused(shell: Shell, mine: Path, name: str, message: str) -> None:
    result = shell("train", name, "--out", "out", "--include", mine, "--models", mine / "models")
    assert result.exit_code == 2 and message in result.stderr


def test_an_export_replaces_nothing_unless_told_to_and_encoders_only(shell: Shell, mine: Path, tmp_path: Path) -> None:
    shared = ["--include", mine, "--device", "cpu", "--quiet"]
    out = tmp_path / "out"
    out.mkdir()
    assert shell("train", "toy", "--out", out, *shared).exit_code == 0
    (out / "pytorch_model.bin").write_text("old")
    taken = shell("train", "toy-mean", "--out", out, *shared)
    assert taken.exit_code == 2 and "--force" in taken.stderr
    assert shell("train", "toy-mean", "--out", out, "--force", *shared).exit_code == 0
    assert not (out / "pytorch_model.bin").exists()
    assert json.loads((out / "1_Pooling/config.json").read_text())["pooling_mode_mean_tokens"] is True
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("years of work")
    refused = shell("train", "toy", "--out", home, "--force", *shared)
    assert refused.exit_code == 2 and "thesis.tex" in refused.stderr
    (home / "config.json").write_text('{"theme": "dark"}')
    assert shell("train", "toy", "--out", home, "--force", *shared).exit_code == 2
    (out / "src").mkdir()
    mixed = shell("train", "toy", "--out", out, "--force", *shared)
    assert mixed.exit_code == 2 and "(src)" in mixed.stderr and (out / "src").is_dir()
    assert (home / "thesis.tex").read_text() == "years of work"
    assert shell("train", "toy", "--out", home / "thesis.tex", *shared).exit_code == 2
    nowhere = shell("train", "toy", "--out", home / "thesis.tex" / "deep" / "er", *shared)
    assert nowhere.exit_code == 2
    assert {path.name for path in tmp_path.iterdir()} == {"out", "home"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("toy-average", "pooling first-last-mean, and a SentenceTransformer can have cls or"),
        ("pooled", "pooling cls+mlp"),
        ("coded", "needs its own Python code"),
        ("toi", unknown("encoder or objective", "toi", "toy")),
    ],
)
def test_what_cannot_be_exported_is_refused_with_the_reason(
    shell: Shell, mine: Path, name: str, message: str, tmp_path: Path
) -> None:
    result = shell("train", name, "--out", tmp_path / "out", "--include", mine, "--models", mine / "models")
    assert result.exit_code == 2
    assert message in result.stderr and not (tmp_path / "out").exists()


def test_other_vectors_are_not_exported(
    shell: Shell, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rbench.train import models

    assert shell("train", "toy", "--include", mine, "--device", "cpu").exit_code == 0
    written = models.write

    def wrong(folder: Path, encoder: Any, prompts: Any = None) -> None:
        other = copy.copy(encoder)
        other.pooling = "mean"
        written(folder, other, prompts)

    monkeypatch.setattr(models, "write", wrong)
    out = tmp_path / "out"
    result = shell("train", "plain", "--out", out, "--include", mine, "--models", mine / "models")
    assert result.exit_code == 0, "mean it is"
    result = shell("train", "toy", "--out", tmp_path / "other", "--include", mine, "--device", "cpu")
    assert result.exit_code == 2 and "gives other vectors" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


# ----------------------------------------------------------------------------------------------------------- trackers


@pytest.mark.nightly
def test_a_tracker_follows_the_training_and_one_that_is_unknown_is_refused(
    shell: Shell, mine: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["train", "simcse", "--base", "toy", "--data", texts, "--set", "dropout=0.1", "--set", "batch_size=8"]
    # No other test has this seed, so that none has left the weights in the cache.
    command += ["--steps", "2", "--seed", "1117", "--include", mine, "--device", "cpu", "--report-to"]
    result = shell(*command, "tensorbord")
    assert result.exit_code == 2 and unknown("tracker", "tensorbord", "tensorboard") in result.stderr
    result = shell(*command, "tensorboard")
    assert result.exit_code == 0, result.output
    assert "reports to tensorboard; files, where it has any, in results/logs/simcse-toy-" in result.stderr
    assert list((tmp_path / "results/logs").glob("simcse-toy-*/events.out.tfevents.*"))
    again = shell(*command, "tensorboard")
    assert again.exit_code == 0 and "in the cache, so there is no training for tensorboard to follow" in again.stderr


# ----------------------------------------------------------------------------------------------------------- card


def test_the_card_says_what_is_behind_an_encoder(shell: Shell, mine: Path, texts: Path, tmp_path: Path) -> None:
    command = ["train", "robustembed", "--base", "toy", "--data", texts, "--set", "dropout=0.1", "--set", "K=1"]
    command += ["--set", "batch_size=8", "--steps", "2", "--seed", "7", "--include", mine, "--device", "cpu"]
    result = shell(*command, "--set", "precision=bf16", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    weights = Path(said(result, "weights"))
    record = json.loads((weights / "record.json").read_text())
    for folder in (weights, tmp_path / "out"):
        text = (folder / CARD).read_text()
        front = yaml.safe_load(text.split("---\n")[1])
        assert front["library_name"] == "sentence-transformers" and front["license"] == "mit"
        assert {"sentence-transformers", "robustembed"} <= set(front["tags"]) and "base_model" not in front
        for part in (
            "robustembed: RobustEmbed (Asl et al. 2023)",
            "toy (Toy; trained by rbench; licence: MIT)",
            "my texts.txt (a file of texts), 80 sentences",
            record["job"]["spec"]["data_fingerprint"],
            "2 planned, 8 sentences each",
            "| seed | 7 |",
            "| precision | bf16 |",
            "| K | **1** | 5 |",
            "| T | 5 | 5 |",
            f"| loss | {record['scores'][0]['value']:.4f} | 16 |",  # 2 steps of 8
            f"rbench {record['provenance']['rbench']}",
            "vectors of 16 numbers",
            'SentenceTransformer("FOLDER")',
        ):
            assert part in text, part
        assert str(tmp_path) not in text and str(Path.home()) not in text
