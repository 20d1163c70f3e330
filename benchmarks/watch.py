"""How often a check of an encoder's vectors raises a false alarm, and which planted changes it sees.

The page is docs/guide-watch-an-encoder.md.

    python benchmarks/watch.py --models DIR --vectors DIR [--encoders minilm minilm-l3 simcse-mini-packaged]

DIR of --models has the folders of the models. Each service is computed once, and its vectors are kept in --vectors:
the encoder as it is, in batches, with weights and activations rounded to bfloat16 or float16, and
with each planted change. A simulated baseline draws for each round and text which replica answers, or adds noise; so
does the check. The JSON holds the share of checks that fail, for which group of texts, and what they say changed.

200 checks of a small encoder are not simulated: it is asked again, with other batches and threads.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
from machine import cores, processor

import rbench
from rbench.gate.vector_baseline import ROUNDS, build_vector_baseline
from rbench.gate.vector_check import ALPHA, TOLERANCE, check_vectors
from rbench.gate.watched_texts import build_texts, hash_texts

TEXTS = [text.text for text in build_texts()]
CHECKS, POWER_CHECKS, ASKED = 400, 50, 200
NOISE = 0.05
"""Length of the noise of a service whose answers vary, as a share of a vector's length."""
SAID = (
    *("another model", "another precision", "int8 weights", "moved alike", "another maximum length"),
    *("no longer normalised", "normalised now", "cleaned in another way", "one of several servers"),
)
"""What a check may say, by words that only this sentence has."""
SETTINGS = {
    "max length 128": "max_length=128",
    "max length 256": "max_length=256",
    "max length 512": "max_length=512",
    "normalised": "normalize=true",
    "not normalised": "normalize=false",
    "pooling mean": "pooling=mean",
    "pooling cls": "pooling=cls",
}
OTHER_MODELS = {
    "minilm": ("minilm-l3", "minilm-mlm"),
    "minilm-l3": ("minilm", "minilm-mlm"),
    "simcse-mini-packaged": ("mini-bert-packaged", "robustsentembed-mini-packaged"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--encoders", nargs="+", default=list(OTHER_MODELS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = {
        "command": "python benchmarks/watch.py --models MODELS --vectors DIR",
        "machine": {"processor": processor(), "cores": cores(), "system": platform.system()},
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "transformers", "numpy", "rbench")},
        },
        "texts": {"n": len(TEXTS), "hash": hash_texts()},
        "rounds": ROUNDS,
        "alpha": ALPHA,
        "tolerance": TOLERANCE,
        "encoders": {},
    }
    services_of = {encoder: dict(computed_services(encoder, args.models, args.vectors)) for encoder in args.encoders}
    for encoder, services in services_of.items():
        found["encoders"][encoder] = {
            "distances": distances(services),
            "false_alarms": false_alarms(services),
            "power": power(services),
        }
    if "simcse-mini-packaged" in args.encoders:
        found["asked_again"] = asked_again(args.models)
    print(json.dumps(found, indent=1))


# ------------------------------------------------------------------------------------------------------ services


def computed_services(encoder: str, models: Path, kept: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the vectors of the encoder as it is, of its replicas, and with each planted change."""
    opened: dict[str, Any] = {}

    def load(name: str) -> Any:
        if name not in opened:
            opened[name] = rbench.load_encoder(name, models=models, device="cpu", progress=False)
        return opened[name]

    def changed(network: Callable[[Any], Any]) -> np.ndarray:
        one = copy.copy(load(encoder))
        one._modules = {**one._modules, "model": network(copy.deepcopy(load(encoder).model))}
        return one.encode(TEXTS)

    makers: dict[str, Callable[[], np.ndarray]] = {
        "as it is": lambda: np.concatenate([load(encoder).encode([text]) for text in TEXTS]),
        "in batches": lambda: load(encoder).encode(TEXTS),
        "bfloat16": lambda: changed(lambda network: rounded(network, torch.bfloat16)),
        "float16": lambda: changed(lambda network: rounded(network, torch.float16)),
        "int8": lambda: changed(
            lambda network: torch.ao.quantization.quantize_dynamic(network, {torch.nn.Linear}, dtype=torch.qint8)
        ),
        "a prompt": lambda: load(encoder).encode([f"query: {text}" for text in TEXTS]),
        **{f"model {name}": lambda name=name: load(name).encode(TEXTS) for name in OTHER_MODELS[encoder]},
    }
    for change, setting in SETTINGS.items():
        makers[change] = lambda setting=setting: load(f"{encoder}[{setting}]").encode(TEXTS)
    now = load(encoder)
    same = {
        f"max length {now.max_length}",
        f"pooling {now.pooling}",
        "normalised" if now.settings.normalize else "not normalised",
    }
    longest = getattr(now.model.config, "max_position_embeddings", 512)
    for name, make in makers.items():
        too_long = name.startswith("max length") and int(name.split()[-1]) > longest
        if name in same or too_long:
            continue
        other = name.removeprefix("model ") if name.startswith("model ") else None
        path = kept / (f"{encoder} {name}.npy" if other is None else f"{other} in batches.npy")
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, np.asarray(make(), np.float32))
            print(path.name, file=sys.stderr, flush=True)
        yield name, np.load(path)


def rounded(network: Any, kind: torch.dtype) -> Any:
    """Round weights, and what each layer gives, to a narrower type, as a replica that computes in it does."""
    for module in network.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.LayerNorm | torch.nn.Embedding):
            module.register_forward_hook(lambda module, given, out: out.to(kind).float())
    return network.to(kind).float()


def distances(services: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Return the median and the largest 1 - cosine of each service to the encoder as it is, and ratios of lengths."""
    before = services["as it is"].astype(np.float64)
    lengths = np.linalg.norm(before, axis=1)
    found = {}
    for name, now in services.items():
        now_lengths = np.linalg.norm(now.astype(np.float64), axis=1)
        turns = 1 - (before * now).sum(axis=1) / lengths / now_lengths
        found[name] = {
            "median_turn": short(np.median(turns)),
            "largest_turn": short(turns.max()),
            "median_ratio_of_lengths": short(np.median(now_lengths / lengths)),
        }
    return found


def short(number: Any) -> float:
    return float(f"{float(number):.3g}")


# ----------------------------------------------------------------------------------------------------- simulation

Draw = Callable[[np.random.Generator], np.ndarray]


def per_request(*replicas: np.ndarray) -> Draw:
    """Each request goes to any replica."""
    stacked = np.stack(replicas)
    return lambda rng: stacked[rng.integers(len(stacked), size=len(TEXTS)), np.arange(len(TEXTS))]


def per_round(*replicas: np.ndarray) -> Draw:
    """All requests of a round go to one replica, as where connections stay with a server."""
    return lambda rng: replicas[rng.integers(len(replicas))]


def noisy(vectors: np.ndarray, size: float = NOISE) -> Draw:
    """Each answer has noise of its own, in all directions."""
    scale = size * np.linalg.norm(vectors, axis=1, keepdims=True) / np.sqrt(vectors.shape[1])
    return lambda rng: vectors + scale * rng.standard_normal(vectors.shape)


def simulated(before: Draw, now: Draw, checks: int, alpha: float = ALPHA) -> dict[str, Any]:
    """Return what checks say, each of a baseline of its own."""
    failed, said, rows, replaced = 0, Counter[str](), Counter[str](), []
    for number in range(checks):
        rng = np.random.default_rng(number)
        baseline = build_vector_baseline("simulated", [list(before(rng)) for _ in range(ROUNDS)])
        check = check_vectors(baseline, list(now(rng)), alpha=alpha)
        failed += check.verdict == "failed"
        said.update(word for word in SAID if any(word in change for change in check.changes))
        rows.update(row.name for row in check.rows if row.verdict == "failed")
        replaced.append(check.replaced)
    shown: dict[str, Any] = {"checks": checks, "failed": failed}
    if failed:
        shown |= {"rows": dict(rows), "said": dict(said), "replaced": short(np.mean(replaced))}
    return shown


def false_alarms(services: dict[str, np.ndarray]) -> dict[str, Any]:
    one = services["as it is"]
    replicas = [services[name] for name in ("as it is", "in batches", "bfloat16", "float16")]
    mixed = per_request(*replicas)
    narrow, coarse = (services["bfloat16"], services["int8"])
    found = {
        "in batches": simulated(per_request(one), per_request(services["in batches"]), 1),
        "float32, bfloat16 and float16 by request": simulated(mixed, mixed, CHECKS),
        "float32 and int8 by request": simulated(per_request(one, coarse), per_request(one, coarse), CHECKS),
        "noise of 5%": simulated(noisy(one), noisy(one), CHECKS),
        "noise of 5%, alpha 0.05": simulated(noisy(one), noisy(one), CHECKS, 0.05),
        "float32 and bfloat16 by round": simulated(per_round(one, narrow), per_round(one, narrow), CHECKS),
        "float32 and int8 by round": simulated(per_round(one, coarse), per_round(one, coarse), CHECKS),
    }
    for shown in found.values():
        shown.pop("said", None), shown.pop("replaced", None)
    return found


def power(services: dict[str, np.ndarray]) -> dict[str, Any]:
    one, unchanged = services["as it is"], ("as it is", "in batches")
    found = {}
    for name, changed in services.items():
        if name in unchanged:
            continue
        found[name] = {
            "exact service": simulated(per_request(one), per_request(changed), 1),
            "noise of 5%": simulated(noisy(one), noisy(changed), POWER_CHECKS),
            "half of the requests": simulated(per_request(one), per_request(one, changed), POWER_CHECKS),
        }
    return found


def asked_again(models: Path) -> dict[str, int]:
    """Ask a small encoder again, with other batches and numbers of threads."""
    encoder = rbench.load_encoder("simcse-mini-packaged", models=models, device="cpu", progress=False)

    def ask(batch: int, threads: int) -> list[np.ndarray]:
        torch.set_num_threads(threads)
        order = np.random.default_rng(batch).permutation(len(TEXTS))
        rows: list[Any] = [None] * len(TEXTS)
        for start in range(0, len(TEXTS), batch):
            places = order[start : start + batch]
            for place, row in zip(places, encoder.encode([TEXTS[i] for i in places]), strict=True):
                rows[place] = row
        torch.set_num_threads(1)
        return rows

    baseline = build_vector_baseline("simcse-mini-packaged", [ask(8, 1) for _ in range(ROUNDS)])
    checks = [check_vectors(baseline, ask(8 + number % 40, 1 + number % 2)) for number in range(ASKED)]
    return {"checks": ASKED, "failed": sum(check.verdict == "failed" for check in checks)}


if __name__ == "__main__":
    main()
