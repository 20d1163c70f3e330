"""Are sensitivity and triples what raw texts and weights give? rbench beside sentence-transformers and numpy.

    python benchmarks/two_sided.py --models MODELS --data DATA --originals 30

Of each encoder the measure `triples` runs on benchmarks/triples, and `sensitivity` on the first originals of
contrast_snli and contrast_imdb_cad with victims that rbench fine-tunes. Then every text is encoded again: vectors of
triples by sentence-transformers, logits by transformers' own tokenizer and network, with the pooling and the head
written out in numpy. Decisions must be equal, and margins differ by less than 1e-5. The result is written to
benchmarks/results/two_sided.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import cores, processor
from rbench import api
from rbench.schema import Job
from rbench.score.packed import unpack_numbers
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache

HERE = Path(__file__).parent
SETS = {"snli": ("contrast_snli", ("premise", "hypothesis")), "imdb": ("contrast_imdb_cad", ("text",))}
LENGTH = 128


def main() -> None:
    """Run both, compare, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoders", nargs="+", default=["minilm", "minilm-l3", "minilm-mlm"])
    parser.add_argument("--finetune", nargs="+", default=["probe", "clean"])
    parser.add_argument("--tasks", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--originals", type=int, default=30)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        cut(asked.data, data, asked.originals)
        result = api.run(write_suite(Path(scratch), asked), options(asked, data, Path(scratch)))
        assert not result.failed, result
        store = RunStore(result.run)
        plan = store.plan()
        assert plan is not None
        found = [compared(store, job, asked, data) for job in plan.jobs if job.what in ("triples", "sensitivity")]
    report = {"processor": processor(), "cores": cores(), "length": LENGTH, "originals": asked.originals, "rows": found}
    (HERE / "results" / "two_sided.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    assert all(row["other_decisions"] == 0 and row.get("widest_margin", 0.0) < 1e-5 for row in found)


def cut(source: Path, data: Path, originals: int) -> None:
    """Write the first originals of each set with their edits, and the rows that the task needs, to a data folder."""
    for task, (name, columns) in SETS.items():
        for split, most in (("train", 200), ("validation", 60), ("test", 60)):
            copy_lines(source / task / f"{split}.jsonl", data / task / f"{split}.jsonl", most)
        rows = [json.loads(line) for line in (source / name / "test.jsonl").read_text(encoding="utf-8").splitlines()]
        known: dict[tuple[str, ...], None] = {}
        kept = []
        for row in rows:
            original = tuple(row[f"original_{column}"] for column in columns)
            if original in known or len(known) < originals:
                known.setdefault(original)
                kept.append(row)
        target = data / name / "test.jsonl"
        target.parent.mkdir(parents=True)
        target.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    copy_lines(HERE / "triples" / "test.jsonl", data / "triples" / "test.jsonl", 10**6)


def copy_lines(source: Path, target: Path, most: int) -> None:
    """Copy so many lines of a file, from its whole length: some files have one label first, and then the other."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = source.read_text(encoding="utf-8").splitlines()
    lines = lines[:: max(1, len(lines) // most)][:most]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_suite(folder: Path, asked: argparse.Namespace) -> Path:
    """Write the suite, and return its file."""
    suite: dict[str, Any] = {
        "name": "two-sided-check",
        "title": "Sensitivity and triples",
        "encoders": asked.encoders,
        "evaluate": ["triples"],
        "training": {"max_train": 120, "max_validation": 40, "max_length": LENGTH, "epochs": 1},
        "resources": "local",
    }
    if asked.tasks:
        suite |= {"tasks": asked.tasks, "finetune": asked.finetune}
        contrast = [{"contrast": {"set": SETS[task][0]}} for task in asked.tasks]
        suite["evaluate"] = ["triples", *contrast, "sensitivity"]
    path = folder / "suite.yaml"
    path.write_text(json.dumps(suite), encoding="utf-8")
    return path


def options(asked: argparse.Namespace, data: Path, folder: Path) -> api.Options:
    """Return the options of the run."""
    return api.Options(data=(data,), models=(asked.models,), out=folder / "RUN", device="cpu", backend="torch")


def compared(store: RunStore, job: Job, asked: argparse.Namespace, data: Path) -> dict[str, Any]:
    """Return how far a job's stored values are from those of raw texts and weights."""
    (row,) = store.rows(job)
    if job.what == "triples":
        ours = stored(row, "margin")
        theirs = margins(asked.models / job.parts[0], data)
        decisions = stored(row, "kept_nearer") != np.where(np.abs(theirs) <= 1e-6, 0.5, theirs > 0)
        return {
            "measure": "triples",
            "encoder": job.parts[0],
            "n": len(ours),
            "kept_nearer": row.numbers["kept_nearer"],
            "margin": row.numbers["margin"],
            "other_decisions": int(decisions.sum()),
            "widest_margin": float(np.abs(ours - theirs).max()),
        }
    encoder, task, strategy, _ = job.parts
    ours, theirs = stored(row, "sensitivity"), sensitivity(job, task, data)
    return {
        "measure": "sensitivity",
        "encoder": encoder,
        "task": task,
        "finetune": strategy,
        "originals": len(ours),
        "right": int((~np.isnan(ours)).sum()),
        "sensitivity": row.numbers["sensitivity"],
        "other_decisions": int((np.abs(np.nan_to_num(ours, nan=-1) - np.nan_to_num(theirs, nan=-1)) > 1e-6).sum()),
    }


def stored(row: Any, column: str) -> np.ndarray[Any, Any]:
    """Return the values of a column of a row."""
    return unpack_numbers(row.names[column], int(row.numbers[f"{column}_n"])).astype(float)


def margins(folder: Path, data: Path) -> np.ndarray[Any, Any]:
    """Return the margins of the triples by sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": "float32"})
    rows = [json.loads(line) for line in (data / "triples" / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    original, kept, changed = (
        model.encode([row[name] for row in rows], normalize_embeddings=True).astype(float)
        for name in ("original", "kept", "changed")
    )
    return (original * kept).sum(1) - (original * changed).sum(1)


def sensitivity(job: Job, task: str, data: Path) -> np.ndarray[Any, Any]:
    """Return the share of edits that a victim follows, original by original, NaN where it is wrong."""
    name, columns = SETS[task]
    rows = [json.loads(line) for line in (data / name / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = [tuple(row[f"{side}_{column}"] for column in columns) for row in rows for side in ("original", "perturbed")]
    said = dict(zip(texts, predicted(job, texts), strict=True))
    bundles: dict[tuple[str, ...], list[bool]] = {}
    for row in rows:
        original, edit = (tuple(row[f"{side}_{column}"] for column in columns) for side in ("original", "perturbed"))
        followed = bundles.setdefault(original, [])
        if said[original] == row["original_label"] != row["perturbed_label"]:
            followed.append(said[edit] == row["perturbed_label"])
    return np.array([np.mean(followed) if followed else np.nan for followed in bundles.values()])


def predicted(job: Job, texts: list[tuple[str, ...]]) -> list[int]:
    """Return the classes of texts, from the victim's files: transformers' network, pooling and head in numpy."""
    import torch
    from safetensors.numpy import load_file
    from transformers import AutoModel, AutoTokenizer

    folder = WeightCache(default_cache()).folder(job.needs["victim"])
    network, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    head = load_file(folder / "head.safetensors")
    about = json.loads((folder / "rbench.json").read_text(encoding="utf-8"))
    classes = []
    for text in texts:
        given = tokenizer(*text, truncation=True, max_length=LENGTH, return_tensors="pt")
        with torch.inference_mode():
            states = network(**given).last_hidden_state[0].numpy()
        vector = states.mean(0)
        if "normalize" in json.dumps(about) and '"normalize": true' in json.dumps(about):
            vector = vector / np.linalg.norm(vector)
        classes.append(int((head["weight"] @ vector + head["bias"]).argmax()))
    return classes


if __name__ == "__main__":
    main()
