"""Measures what perturbation each row of the ablation suites makes: whether its knobs act. It computes no scores.

    ln -s $(the folder that `rbench train mini-bert` prints) mini-bert
    python benchmarks/perturbation_radii.py mini-bert --profile mini --out radii.json
    python benchmarks/perturbation_radii.py minilm-mlm --pooling mean --texts sentences.txt --out radii.json

Each row of each suite perturbs the same few batches, on the weights of the given folder (a transformers folder with a
masked-LM head), without training steps. With --profile mini the rows of that profile are taken and sentences of the
embedded world. Without it the rows of full size are taken, and the folder stands for their base: measured on a small
BERT, the sizes of word vectors are BERT's, its depth is not.

For each row: the largest |delta|, the mean over sentences of |delta|/|x| (L2 norms over all words), the mean cosine of
clean and adversarial vectors (without dropout), that of two dropout views, and the share of the words whose eta is
below 1e-6. Rows that another row of their suite equals in delta to 1% are named. --out FILE adds to a JSON file, under
the folder's name, with machine, versions and command.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import transformers
from machine import processor
from torch import Tensor

from rbench import config, mini
from rbench.config.registry import Registry
from rbench.schema import EncoderSpec
from rbench.train import objectives, perturb
from rbench.train.contrastive import Batch

SUITES = (
    *(f"robustsentembed-{name}" for name in ("figure4", "figure5", "figure6", "table5", "table6")),
    "vadvcse-table5",
)
DROPOUT = 0.1
DEAD = 1e-6
SAME = 0.01


def main() -> None:
    args = parse()
    torch.manual_seed(0)
    texts = sentences(args)
    found = {suite: rows_of(suite, args, texts) for suite in args.suites}
    if args.out is not None:
        write(args, found)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path, help="a transformers folder with a masked-LM head")
    parser.add_argument("--profile", choices=["mini"], help="rows of this profile; without it, those of full size")
    parser.add_argument("--texts", type=Path, help="sentences, one a line; without it, those of the embedded world")
    parser.add_argument("--pooling", choices=["cls", "mean"], help="pooling of the base, if it is not the rows'")
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=list(SUITES))
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def sentences(args: argparse.Namespace) -> list[str]:
    count = args.batches * args.batch_size
    if args.texts is not None:
        lines = args.texts.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line.strip()][:count]
    return [str(row["text"]) for row in mini.rows("mini-corpus", "train")[:count]]


def rows_of(suite: str, args: argparse.Namespace, texts: Sequence[str]) -> list[dict[str, Any]]:
    loaded = config.load(suite, registry=Registry(), profile=args.profile)
    rows, deltas = [], []
    print(suite, flush=True)
    for label in loaded.suite.encoders:
        row, delta = measured(spec_of(loaded, label, args), args.base, texts, args.batch_size)
        same = [other["row"] for other, its in zip(rows, deltas, strict=True) if distance(delta, its) < SAME]
        rows.append({"row": label, **row, "same_delta_as": same})
        deltas.append(delta)
        print("  " + "  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{v}" for k, v in rows[-1].items()))
    return rows


def spec_of(loaded: config.LoadedSuite, label: str, args: argparse.Namespace) -> EncoderSpec:
    spec = loaded.encoders[label]
    return spec if args.pooling is None else spec.model_copy(update={"pooling": args.pooling})


def distance(a: Tensor, b: Tensor) -> float:
    """Return |a - b| as a share of the larger of |a| and |b|."""
    return float((a - b).norm() / max(float(a.norm()), float(b.norm()), 1e-30))


def measured(spec: EncoderSpec, base: Path, texts: Sequence[str], batch_size: int) -> tuple[dict[str, float], Tensor]:
    """Return what a row's perturbations are like, as means over batches, and its deltas as one vector."""
    assert spec.train is not None
    module: Any = objectives.find(spec.train.objective)
    mine = {"dropout": DROPOUT, **({"generator": None} if "generator" in module.Options.model_fields else {})}
    options = module.Options.model_validate({**spec.train.options, **mine})
    torch.manual_seed(0)
    built = module.build(options, spec, base, None)
    values: dict[str, list[float]] = {}
    deltas = []
    for start in range(0, len(texts), batch_size):
        inputs = built.collate([built.features(text) for text in texts[start : start + batch_size]])
        batch = Batch(inputs["input_ids"], inputs["attention_mask"], inputs["special_tokens_mask"])
        torch.manual_seed(start)
        built.model.train()
        with captured() as made:
            built.model(**inputs)
        deltas.append(made["delta"] * batch.words)
        for name, value in described(built, batch, deltas[-1], made.get("eta")).items():
            values.setdefault(name, []).append(value)
    means = {name: sum(all_) / len(all_) for name, all_ in values.items()}
    return {**means, "max_delta": max(values["max_delta"])}, torch.cat([delta.flatten() for delta in deltas])


@torch.no_grad()
def described(built: Any, batch: Batch, delta: Tensor, eta: Tensor | None) -> dict[str, float]:
    X = built.model.embed(batch)
    sizes = (delta.flatten(1).norm(dim=1) / (X * batch.words).flatten(1).norm(dim=1)).mean()
    one, two = (built.model.f(X, batch.mask) for _ in range(2))
    built.model.eval()
    clean, adversarial = built.model.f(X, batch.mask), built.model.f(X + delta, batch.mask)
    found = {
        "max_delta": float(delta.abs().max()),
        "delta_over_x": float(sizes),
        "cosine_adversarial": float(torch.cosine_similarity(clean, adversarial).mean()),
        "cosine_dropout": float(torch.cosine_similarity(one, two).mean()),
    }
    if eta is not None:
        lengths = eta[batch.words.squeeze(-1) > 0].norm(dim=-1)
        found["dead_tokens"] = float((lengths < DEAD).float().mean())
    return found


@contextmanager
def captured() -> Iterator[dict[str, Tensor]]:
    """Keep the perturbation that an objective makes: what `ascend` returns, or the last projected r of V-advCSE."""
    made: dict[str, Tensor] = {}
    ascend, project = perturb.ascend, perturb.project_sentence

    def ascended(*inputs: Any) -> Tensor:
        delta = ascend(*inputs)
        made["delta"] = delta
        if len(inputs) > 4:
            made["eta"] = inputs[4].eta
        return delta

    def projected(*inputs: Any) -> Tensor:
        made["delta"] = project(*inputs)
        return made["delta"]

    perturb.ascend, perturb.project_sentence = ascended, projected
    try:
        yield made
    finally:
        perturb.ascend, perturb.project_sentence = ascend, project
    made["delta"] = made["delta"].detach()


def write(args: argparse.Namespace, found: dict[str, Any]) -> None:
    """Add to the file, under the base's name, what was found."""
    before = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    texts = "" if args.texts is None else f" --texts {args.texts.name}"
    profile = "" if args.profile is None else f" --profile {args.profile}"
    profile += "" if args.pooling is None else f" --pooling {args.pooling}"
    sizes = f" --batches {args.batches} --batch-size {args.batch_size}"
    before[args.base.name] = {
        "command": f"python benchmarks/perturbation_radii.py {args.base.name}{profile}{texts}{sizes}",
        "machine": {"processor": processor(), "system": platform.system()},
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "seed": 0,
        "sentences": args.batches * args.batch_size,
        "suites": found,
    }
    args.out.write_text(json.dumps(before, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
