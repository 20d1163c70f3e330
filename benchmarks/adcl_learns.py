"""Measures whether ADCL learns: loss and top-1 on texts that it is not trained on, beside what chance gives.

    python benchmarks/adcl_learns.py --models DIR --data DIR --out benchmarks/results/adcl_learns.json

Each row is a training with other settings, from the same weights, on the same texts, with the same --seeds:

before          as encoder files had it in version 1 of `adcl`: momentum 0.999 (0.99 on adcl-mini), a queue of 2,048
                (512), and heads with the encoder's learning rate
after           as encoder files have it now: `momentum: auto`, `head_learning_rate: auto`, a queue that is full within
                the first tenth of the steps
slow heads      as `after`, but heads with the encoder's learning rate
slow keys       as `after`, but the momentum of `before`
frozen, before  as `before`, with an encoder that does not learn: only the heads can
frozen, after   as `after`, with an encoder that does not learn
untrained       no step at all: the heads as they are drawn

The settings of `after` follow from `rbench.train.moco`. No setting was chosen by what is measured here.

Measured on --texts texts of the task's test split, without dropout: each text has the hard positive that the objective
makes of it, and is to find that one's key among the keys of all these texts. `loss` is equation 1 over these keys; at
chance it is the logarithm of their number. `top_1` is the share of texts whose own key is the nearest; at chance it is
one over their number.

--part mini trains adcl-mini on mini-sentiment, all of its steps. --part minilm trains adcl-minilm on MR with --steps
steps of 16 texts. To save time, it replaces one word a text by one of 8 candidates from word vectors; its test texts
are 1,000 rows of MR that it is not trained on. Prints rows; --out FILE writes each into a JSON with machine and
versions, and keeps what else the file has.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import transformers
from machine import cores, processor

from rbench import config, mini
from rbench.config.registry import Registry, search_path
from rbench.schema import EncoderSpec, ResourceChoice
from rbench.score.statistics import wilson
from rbench.train import batches, moco
from rbench.train.loop import pretrain
from rbench.train.moco import MoCo, MoCoObjective, QueueState
from rbench.train.objectives import adcl
from rbench.words.resources import Resources

SLOW = {"head_learning_rate": None}
FROZEN = 1e-12
"""A learning rate at which no weight changes."""


def main() -> None:
    args = parse()
    torch.set_num_threads(args.threads)
    registry = Registry()
    with tempfile.TemporaryDirectory(prefix="rbench-adcl-") as folder:
        measured(args, of_mini(args, registry, Path(folder)) if args.part == "mini" else of_minilm(args, registry))


class Part(NamedTuple):
    """What is trained, on what, and what is measured."""

    spec: EncoderSpec
    base: Path
    texts: list[str]
    """Trained on, the held-out ones included."""
    test: list[str]
    resources: Resources
    old: dict[str, Any]
    """Momentum and queue of `before`."""


def of_mini(args: argparse.Namespace, registry: Registry, folder: Path) -> Part:
    """adcl-mini on the training texts of mini-sentiment; mini-bert is trained first."""
    bert = config.load_encoder("mini-bert", registry)
    corpus = [str(row["text"]) for row in mini.rows("mini-corpus", "train")]
    where = args.base or folder / "mini-bert"
    if args.base is None:
        pretrain(bert, None, corpus, where, seed=0)
    spec = config.load_encoder("adcl-mini", registry)
    texts, test = ([str(row["text"]) for row in mini.rows("mini-sentiment", split)] for split in ("train", "test"))
    resources = Resources(config.load_resources("mini", registry), trained={"mini-bert": where})
    return Part(spec, where, texts, test[: args.texts], resources, {"momentum": 0.99, "queue": 512})


def of_minilm(args: argparse.Namespace, registry: Registry) -> Part:
    """adcl-minilm on training texts of MR: few steps, small batches, candidates from word vectors."""
    spec = config.load_encoder("adcl-minilm", registry)
    rows = [json.loads(line) for line in (args.data / "mr" / "all.jsonl").read_text("utf-8").splitlines()]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).tolist()
    texts = [str(rows[i]["text"]) for i in order]
    choice = ResourceChoice(set="local", word_vectors="counterfitted-minilm")
    models = search_path(args.models, "RBENCH_MODELS")
    resources = Resources(config.load_resources(choice, registry), models)
    small = {"steps": args.steps, "batch_size": 16, "epochs": None}
    settings = {"source": "neighbours", "candidates": 8, "max_words": 1, "queue": 16 * max(1, args.steps // 10)}
    assert spec.train is not None
    train = spec.train.model_copy(update={**small, "options": {**spec.train.options, **settings}})
    spec = spec.model_copy(update={"train": train})
    base = next(path for root in models if (path := root / "minilm").exists())
    old = {"momentum": 0.999, "queue": 2048}
    return Part(spec, base, texts[1000:], texts[:1000][: args.texts], resources, old)


def measured(args: argparse.Namespace, part: Part) -> None:
    """All rows of a part; each is printed and written when it is there."""
    spec, texts, test, old = part.spec, part.texts, part.test, part.old
    assert spec.train is not None
    steps = batches.count_steps(spec.train, len(texts) - batches.count_held_out(len(texts)), False)
    rate, dim = spec.train.learning_rate, 96 if args.part == "mini" else 384
    slow_keys = {"momentum": old["momentum"]}
    rows: dict[str, tuple[dict[str, Any], float | None]] = {
        "untrained": ({}, None),
        "before": ({**old, **SLOW}, rate),
        "after": ({}, rate),
        "slow heads": (SLOW, rate),
        "slow keys": (slow_keys, rate),
        "frozen, before": ({**old, "head_learning_rate": rate}, FROZEN),
        "frozen, after": ({"head_learning_rate": moco.fit_head_rate(rate, steps, dim)}, FROZEN),
    }
    about = {
        "encoder": spec.name,
        "train": spec.train.model_dump(mode="json"),
        "texts": len(texts),
        "steps": steps,
        "momentum of `auto`": moco.fit_momentum(steps),
        "head_learning_rate of `auto`": moco.fit_head_rate(rate, steps, dim),
        "at chance": {"loss": math.log(len(test)), "top_1": 1 / len(test), "n": len(test)},
    }
    for name in args.rows or rows:
        found = [row(part, *rows[name], seed) for seed in args.seeds]
        print(name, json.dumps(found), flush=True)
        if args.out is not None:
            write(args, about, name, {"options": rows[name][0], "learning_rate": rows[name][1], "seeds": found})


def row(part: Part, options: dict[str, Any], rate: float | None, seed: int) -> dict[str, Any]:
    """Train with these options and this learning rate (None: not at all), and measure."""
    spec, base, resources = part.spec, part.base, part.resources
    assert spec.train is not None
    given = {**spec.train.options, **options, "stop_at_chance": False}
    train = spec.train.model_copy(update={"options": given, "learning_rate": rate or FROZEN})
    spec = spec.model_copy(update={"train": train})
    kept: list[MoCoObjective] = []

    class KeptTraining(adcl.AdclTraining):
        def build(self, *arguments: Any) -> MoCoObjective:
            kept.append(super().build(*arguments))
            return kept[-1]

    begun = time.perf_counter()
    scores: dict[str, float] = {}
    if rate is None:
        transformers.set_seed(seed)
        KeptTraining().build(adcl.Options(**given), spec, base, resources)
    else:
        with tempfile.TemporaryDirectory() as out:
            scores = pretrain(spec, base, part.texts, Path(out), seed=seed, module=KeptTraining(), resources=resources)
    seconds = time.perf_counter() - begun
    return {"seed": seed, **on_test(kept[0].model, part.test), "training": scores, "seconds": round(seconds, 1)}


@torch.no_grad()
def on_test(model: MoCo, texts: Sequence[str]) -> dict[str, Any]:
    """Loss and top-1 of hard positives of texts that were not trained on, among the keys of all of them."""
    positives: list[str] = []
    for start in range(0, len(texts), 16):
        positives += model.positives(model, texts[start : start + 16])[0]
    z = torch.cat([model.z(model.encoder, model.head, texts[k : k + 64]) for k in range(0, len(texts), 64)])
    keys = torch.cat([model.z(model.key_encoder, model.key_head, positives[k : k + 64]) for k in range(0, len(z), 64)])
    own = torch.arange(len(texts))
    hits = int(((z @ keys.T).argmax(dim=1) == own).sum())
    loss = model.losses(z, QueueState(keys, own)).mean()
    spread = wilson(hits, len(texts))
    assert spread is not None
    return {
        "loss": round(float(loss), 4),
        "top_1": round(hits / len(texts), 4),
        "top_1_interval": [round(end, 4) for end in spread],
        "changed": sum(ours != theirs for ours, theirs in zip(texts, positives, strict=True)),
    }


def write(args: argparse.Namespace, about: dict[str, Any], name: str, found: dict[str, Any]) -> None:
    """Put a row into the file, with machine and versions."""
    content = json.loads(args.out.read_text("utf-8")) if args.out.exists() else {}
    rows = content.get(args.part, {}).get("rows", {})
    content |= {
        "machine": {"processor": processor(), "cores": cores(), "system": platform.system()},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        args.part: {
            "command": f"python benchmarks/adcl_learns.py {shown(args)}",
            **about,
            "rows": rows | {name: found},
        },
    }
    args.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def shown(args: argparse.Namespace) -> str:
    """The arguments that decide numbers, without places."""
    seeds = " ".join(map(str, args.seeds))
    steps = f" --steps {args.steps}" if args.part == "minilm" else ""
    return f"--part {args.part} --texts {args.texts}{steps} --threads {args.threads} --seeds {seeds}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("mini", "minilm"), default="mini")
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--base", type=Path, help="a folder with mini-bert as trained, to save its training")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--rows", nargs="*", help="only these")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
