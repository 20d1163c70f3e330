"""Cache entries for tests: a few bytes of weights, a tokenizer, a record."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from rbench.plan.planner import make_plan
from rbench.schema import Job, Provenance, Record
from rbench.store.weights import WeightCache, weights_hash
from tests.plan.builders import make_inputs, make_suite

PLAN = make_plan(make_suite(encoders=["lm"]), make_inputs())
JOB, OTHER = (job for job in PLAN.jobs if job.stage == "finetune" and not job.seed)
PRETRAIN = next(job for job in PLAN.jobs if job.stage == "pretrain")
VOCABULARY = {"good": 5, "dull": 6}


def write(folder: Path, value: float = 1.0) -> None:
    """What a fine-tuning saves, in small."""
    save_file({"w": np.full(3, value)}, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": VOCABULARY}}))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")


def fill(cache: WeightCache, job: Job, value: float = 1.0) -> Record:
    """Make the entry of a job."""
    with cache.making(job) as entry:
        assert entry.record is None
        write(entry.folder, value)
        provenance = Provenance(rbench="0", weights_hash=weights_hash(entry.folder))
        return entry.publish(Record(job=job, status="complete", provenance=provenance))


def swap_two_words(folder: Path) -> None:
    """The tokenizer reads `dull` for `good`; the weights stay as they are, and so does the file's size."""
    file = folder / "tokenizer.json"
    swapped = dict(zip(VOCABULARY, reversed(VOCABULARY.values()), strict=True))
    file.write_text(json.dumps({"model": {"vocab": swapped}}))


def make_full_cache(root: Path) -> WeightCache:
    """A cache with one thing of each kind, but for what is in work or left."""
    cache = WeightCache(root)
    fill(cache, PRETRAIN)
    fill(cache, JOB)
    fill(cache, OTHER)
    (cache.place(OTHER.key) / "record.json").write_text("{")
    checkpoint = root / "checkpoints" / ("c" * 64) / "checkpoint-3"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"x" * 1000)
    (checkpoint.parent / "run.json").write_text(json.dumps({"name": "pretrain/adcl-mini", "key": "k"}))
    translations = root / "prepared" / "translations" / ("f" * 64)
    translations.mkdir(parents=True)
    (translations / "a.jsonl").write_bytes(b"x" * 30)
    (translations / "b.jsonl").write_bytes(b"x" * 12)
    (root / "prepared" / "edits-0123456789abcdef.jsonl").write_bytes(b"x" * 77)
    (root / "prepared" / "mini-nli-0123456789abcdef.json").write_bytes(b"x" * 99)
    (root / "backends.json").write_text("{}")
    return cache
