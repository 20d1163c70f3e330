"""Make the trained weights that come with rbench: rbench/packaged/NAME-packaged, one folder for each small encoder.

    python benchmarks/package_weights.py

It trains the encoders of the embedded world that the quickstart attacks, as `rbench train NAME` does (or takes them
from the cache), rounds their weights to half precision, and writes beside them `trained.json`: the key of the training,
its scores and flags, versions and machine. A test compares the keys with today's. If it fails, the code or the data
behind these encoders has changed, and this has to be run again.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from machine import cores, processor

from rbench import api
from rbench.encoders.locate import PACKAGED

ENCODERS = ("mini-bert", "simcse-mini", "robustsentembed-mini")
NOT_COPIED = ("record.json", "manifest.json", "README.md")


def main() -> None:
    for name in ENCODERS:
        trained = api.train(name)
        folder = PACKAGED / f"{name}-packaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(trained.weights, folder, ignore=shutil.ignore_patterns(*NOT_COPIED))
        halve(folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        write(folder / "config.json", {**config, "dtype": "float16"})
        record = trained.record
        about = {
            "encoder": name,
            "key": record.job.key,
            "scores": {score.name: score.value for score in record.scores},
            "flags": [raised.model_dump() for raised in record.health.flags] if record.health else [],
            "versions": record.provenance.packages,
            "machine": {"processor": processor(), "cores": cores(), "torch threads": torch.get_num_threads()},
        }
        write(folder / "trained.json", about)
        print(f"{folder.name}: {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:.1f} MB")


def halve(weights: Path) -> None:
    """Round the weights in a safetensors file to half precision."""
    with safetensors.safe_open(weights, framework="pt") as opened:
        metadata = opened.metadata()
    tensors = safetensors.torch.load_file(weights)
    halved = {
        name: tensor.to(torch.float16) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
    }
    safetensors.torch.save_file(halved, weights, metadata)
    weights.chmod(0o644)


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
