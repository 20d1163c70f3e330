"""Measures the cost of a training step: steps per second and peak memory of each objective, also relative to SimCSE.

    python benchmarks/training.py --steps 20

Each objective trains with its own options through `train.loop.pretrain`, in a process of its own, --rounds times in
turn, on sentences of the embedded world and a base with random weights (or --base FOLDER): speed does not depend on
what a network has learned.

The time is compared with the passes over the batch that the implemented objective needs, counted with hooks while it
trains. The weights of passes are proportional to their matrix products: a forward pass counts 1, a backward pass to the
inputs alone (the ascent of a perturbation) 1, a backward pass to inputs and weights 2. `over` is the time relative to
SimCSE divided by the passes relative to SimCSE: 1 means that only passes cost time.

Prints a table; --out FILE writes JSON with machine and versions.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import transformers
from machine import processor

from rbench import mini
from rbench.mini import tokenizer
from rbench.schema import EncoderSpec, TrainSpec
from rbench.system.processes import cores
from rbench.train import objectives
from rbench.train.loop import pretrain

OBJECTIVES = ("simcse", "consert", "atcl", "uscal", "vadvcse", "robustembed", "robustsentembed")
WARM = 3
"""Steps before the clock starts."""


def main() -> None:
    args = parse()
    if args.one is not None:
        print(json.dumps(one(args.one, args.base, args)))
        return
    with tempfile.TemporaryDirectory(prefix="rbench-training-") as folder:
        base = args.base or write_base(Path(folder) / "base", args.shape)
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in args.objectives}
        for _ in range(args.rounds):
            for name in args.objectives:
                rounds[name].append(apart(name, base, args))
    rows = [row(name, rounds) for name in args.objectives]
    for found in rows:
        print(line(found))
    if args.out is not None:
        write(args, rows)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, help="a transformers folder with a masked-LM head")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="minilm", help="shape of a base with random weights")
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", choices=OBJECTIVES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.objectives[0] != "simcse":
        args.objectives = ["simcse", *(name for name in args.objectives if name != "simcse")]
    return args


SHAPES: dict[str, dict[str, int]] = {
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "bert-base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}


def write_base(folder: Path, shape: str) -> Path:
    """Write a masked LM of this shape with random weights."""
    tokenizer.write_tokenizer(folder)
    words = len(transformers.AutoTokenizer.from_pretrained(folder))
    torch.manual_seed(0)
    transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=words, **SHAPES[shape])).save_pretrained(folder)
    return folder


def apart(name: str, base: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Run `one` in a new process, so that peak memory is that of one objective."""
    command = [sys.executable, __file__, "--one", name, "--base", str(base), "--device", args.device]
    command += ["--steps", str(args.steps), "--batch-size", str(args.batch_size), "--max-length", str(args.max_length)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def one(name: str, base: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Measure seconds of each step after the first few, peak memory, and passes per step."""
    ends: list[float] = []
    count = max(args.batch_size * 40, 4000)
    texts = [str(text["text"]) for text in mini.rows("mini-corpus", "train")[:count]]
    spec = EncoderSpec(
        name=name,
        base=str(base),
        pooling="cls",
        train=TrainSpec(
            objective=name,
            data="mini-corpus",
            steps=args.steps + WARM,
            batch_size=args.batch_size,
            max_length=args.max_length,
        ),
    )
    passes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="rbench-training-") as out, counted(passes, args.batch_size):
        pretrain(
            spec,
            base,
            texts,
            Path(out) / "made",
            seed=0,
            device=args.device,
            progress=lambda done, of, said: ends.append(time.perf_counter()),
        )
    seconds = [after - before for before, after in zip(ends[WARM - 1 :], ends[WARM:], strict=False)]
    memory = torch.cuda.max_memory_allocated() >> 20 if args.device != "cpu" else peak_rss()
    per_step = {kind: number / len(ends) for kind, number in passes.items()}
    return {"seconds": statistics.median(seconds), "peak_mb": memory, "passes": per_step}


def peak_rss() -> int:
    """Return the peak memory of this process in megabytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most >> (20 if sys.platform == "darwin" else 10)


@contextmanager
def counted(passes: Counter[str], batch_size: int) -> Iterator[None]:
    """Count passes of all networks that an objective uses: `forward`, `backward`, and `ascent` (to inputs).

    A pass over twice the batch counts twice. Hooks on transformers' encoders count passes, whatever code calls them.
    """
    from transformers.models.bert.modeling_bert import BertEncoder

    ascending = [False]
    grad, forward = torch.autograd.grad, BertEncoder.forward

    def noted_grad(*args: Any, **kwargs: Any) -> Any:
        ascending[0] = True
        try:
            return grad(*args, **kwargs)
        finally:
            ascending[0] = False

    def noted_forward(self: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        share = len(hidden_states) / batch_size
        outputs = forward(self, hidden_states, *args, **kwargs)
        passes["forward"] += share
        states = outputs.last_hidden_state
        if states.requires_grad:
            states.register_hook(lambda _: passes.update({"ascent" if ascending[0] else "backward": share}))
        return outputs

    torch.autograd.grad, BertEncoder.forward = noted_grad, noted_forward
    try:
        yield
    finally:
        torch.autograd.grad, BertEncoder.forward = grad, forward


def row(name: str, rounds: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return medians over rounds. Ratios compare values of the same round."""
    mine, simcse = rounds[name], rounds["simcse"]
    ratios = [a["seconds"] / b["seconds"] for a, b in zip(mine, simcse, strict=True)]
    units = cost(mine[0]["passes"]) / cost(simcse[0]["passes"])
    ratio = statistics.median(ratios)
    return {
        "objective": name,
        "steps_per_second": round(1 / statistics.median(r["seconds"] for r in mine), 2),
        "peak_mb": max(r["peak_mb"] for r in mine),
        "time_of_simcse": round(ratio, 3),
        "time_of_simcse_rounds": [round(r, 3) for r in ratios],
        "passes": {kind: round(number, 2) for kind, number in sorted(mine[0]["passes"].items())},
        "passes_of_simcse": round(units, 3),
        "over": round(ratio / units, 3),
    }


def cost(passes: dict[str, float]) -> float:
    """Weigh passes by their matrix products, as the module's docstring says."""
    return passes.get("forward", 0) + passes.get("ascent", 0) + 2 * passes.get("backward", 0)


def line(found: dict[str, Any]) -> str:
    passes = ", ".join(f"{kind} {number:g}" for kind, number in found["passes"].items())
    return (
        f"{found['objective']:16} {found['steps_per_second']:6.2f} steps/s  {found['peak_mb']:6d} MB  "
        f"{found['time_of_simcse']:5.2f}x simcse, {found['passes_of_simcse']:5.2f}x its passes, "
        f"over {found['over']:4.2f}  ({passes})"
    )


def write(args: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    document = {
        "what": "training steps of each objective; see benchmarks/training.py",
        "base": args.base.name if args.base else f"random weights, shape of {args.shape}",
        "batch_size": args.batch_size,
        "max_length": args.max_length,
        "steps": args.steps,
        "rounds": args.rounds,
        "machine": {"processor": processor(), "cores": cores(), "device": args.device, "platform": platform.platform()},
        "threads": torch.get_num_threads(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "rows": rows,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    assert set(OBJECTIVES) <= {path.stem for path in Path(objectives.__file__).parent.glob("*.py")}
    main()
