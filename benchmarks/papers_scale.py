"""Measures what attacks cost at the papers' scale: seconds, queries and memory on a network of BERT base's shape.

    python benchmarks/papers_scale.py --models DIR --data DIR        # NLTK_DATA names the NLTK data

The victim has random weights. Its head is a random direction in which half of --calibrate texts lie on each side, and
each text has the label that the victim gives it. So each text is attacked, and the attack has to search. Success rates
of such a network say nothing and are not kept. The masked LM is `widened`: BERT base's cost with a small one's words.
The sentence encoder is all-MiniLM-L6-v2, as in the profile `standard`.

Each of the ten cells (five recipes on MR and on IMDB) ends after --texts texts, or when its share of --minutes is
spent, in one process with --threads threads. A text on which the time ends counts for the rates alone. Networks are
loaded before the clock starts. --out FILE gets each cell when it ends; cells in it are not measured again. With
--device cuda networks run on the GPU, and 64 texts are under way.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import statistics
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
from equality import RECIPES, versions
from machine import cores, processor
from throughput import measured
from transformers import AutoModelForMaskedLM, AutoTokenizer
from widened import widened

from rbench import config, recipes
from rbench.config.registry import Registry, search_path
from rbench.encoders import random_weights
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.inference import Network
from rbench.recipes.engine import AttackEngine
from rbench.schema import Choice, Outcome, ResourceChoice, TaskSpec
from rbench.system import digests
from rbench.tasks import Example, open_task
from rbench.words.resources import locate

TASKS = {"mr": 128, "imdb": 512}
"""Tasks, with the tokens that the victim reads, as in `table1`."""
SCALE = 2.0
"""Standard deviation of the victim's logit."""
WHAT = (
    "No success rate of an attack is in this file: the victim is BERT base's architecture with random weights, so only "
    "time, memory and the number of questions are. See benchmarks/papers_scale.py."
)


def main() -> None:
    args = parse()
    torch.set_num_threads(args.threads)
    logging.getLogger("rbench").setLevel(logging.ERROR)
    document: dict[str, Any] = json.loads(args.out.read_text("utf-8")) if args.out.exists() else {"cells": {}}
    todo = [(task, name) for task in TASKS for name in RECIPES if f"{task}, {name}" not in document["cells"]]
    left = 60 * args.minutes
    with tempfile.TemporaryDirectory(prefix="rbench-scale-") as folder:
        networks = Networks(args, Path(folder))
        for i, (task, name) in enumerate(todo):
            found = cell(args, networks, task, name, left / (len(todo) - i))
            if found is None:
                print(
                    task,
                    name,
                    "nothing was asked in its time; the same command with more --minutes goes on",
                    flush=True,
                )
                continue
            left = max(0.0, left - found["seconds"])
            document["cells"][f"{task}, {name}"] = found
            print(task, name, json.dumps(found), flush=True)
            write(args, document)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, action="append", default=[], help="also RBENCH_MODELS")
    parser.add_argument("--data", type=Path, action="append", default=[], help="also RBENCH_DATA")
    parser.add_argument("--texts", type=int, default=10, help="most texts of a cell")
    parser.add_argument("--minutes", type=float, default=15.0, help="of all cells that are left, without loading")
    parser.add_argument("--calibrate", type=int, default=32, help="texts by which the victim's head is centred")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the drawn texts")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "papers_scale.json")
    args = parser.parse_args()
    args.models, args.data = search_path(args.models, "RBENCH_MODELS"), search_path(args.data, "RBENCH_DATA")
    return args


class Networks:
    """The networks of BERT base's shape, in a folder that goes when the script ends."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args, self.folder, self.registry = args, folder, Registry()
        self.profile = config.load_resources(ResourceChoice(set="local"), self.registry)
        small = Path(locate(self.profile, ["masked_lm"], args.models)["masked_lm"].where)
        self.tokenizer = AutoTokenizer.from_pretrained(small)
        self.masked_lm = folder / "masked-lm"
        widened(AutoModelForMaskedLM.from_pretrained(small)).save_pretrained(self.masked_lm)
        self.tokenizer.save_pretrained(self.masked_lm)

    def task(self, name: str) -> tuple[TaskSpec, list[Example], Path]:
        """Return a task, texts with the victim's answers for labels, and the victim's folder."""
        args, task, longest = self.args, config.load_task(name, self.registry), TASKS[name]
        rows = open_task(task, args.data).split("test")
        drawn = torch.randperm(len(rows), generator=torch.Generator().manual_seed(args.seed)).tolist()
        examples = [rows[i] for i in drawn[: max(args.texts, args.calibrate)]]
        spec = config.load_encoder("bert-base-random", self.registry)
        encoder = random_weights.draw_encoder(spec, self.tokenizer, args.seed)
        victim = EncoderClassifier(encoder, len(task.labels), 0.0, longest).to(args.device).eval()
        direction = torch.randn(encoder.dim, generator=torch.Generator().manual_seed(args.seed))
        with torch.inference_mode():
            texts = (
                self.tokenizer(one.texts[0], truncation=True, max_length=longest, return_tensors="pt")
                for one in examples
            )
            logits = torch.cat([victim.encoder(**text.to(args.device)).cpu() for text in texts]) @ direction
        scale, middle = SCALE / logits.std(), logits.median()
        with torch.no_grad():
            victim.head.weight.copy_(torch.stack([torch.zeros(encoder.dim), scale * direction]))
            victim.head.bias.copy_(torch.stack([torch.tensor(0.0), -scale * middle]))
        victim.save(self.folder / name, {"max_length": longest})
        labels = (logits > middle).long().tolist()
        labelled = [one._replace(label=label) for one, label in zip(examples, labels, strict=True)]
        return task, labelled[: args.texts], self.folder / name


def cell(args: argparse.Namespace, networks: Networks, name: str, recipe: str, budget: float) -> dict[str, Any] | None:
    """Attack texts until there are enough, or the seconds of `budget` are spent. None: the victim was never asked."""
    task, examples, folder = networks.task(name)
    spec = config.load_attack(Choice(name=recipe), networks.registry)
    places = locate(networks.profile, spec.needs, args.models)
    if "masked_lm" in places:
        places["masked_lm"] = digests.locate_folder(networks.masked_lm)
    todo = recipes.AttackTask(
        spec, None, task, args.seed, digests.locate_folder(folder), "BERT base", networks.profile, tuple(places.items())
    )
    on_gpu = args.device != "cpu"
    engine = AttackEngine(recipes.EngineConfig(args.device, args.backend, max_seconds=budget))
    engine._victim(todo), engine._load_resources(todo).load(spec.needs)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    rows: list[dict[str, Any]] = []
    with counted() as counts, measured(rows, len(examples), children=False):
        ends = time.perf_counter() + budget
        texts = (one for one in examples if time.perf_counter() < ends)
        outcomes = list(engine.run(todo, texts, None if on_gpu else 1))
    if "victim" not in counts:
        return None
    found = summary(outcomes, counts, rows[0]["seconds"])
    found |= {"backend": engine.backend(todo), "peak_mb": rows[0]["peak_mb"]}
    return found | ({"peak_gpu_mb": torch.cuda.max_memory_allocated() >> 20} if on_gpu else {})


@contextmanager
def counted() -> Iterator[dict[str, Counter[str]]]:
    """Count the texts and tokens that each sort of network reads inside the block, and its seconds."""
    counts: dict[str, Counter[str]] = {}
    whole = Network._whole

    def reading(network: Network, rows: Any) -> Any:
        start, answer = time.perf_counter(), whole(network, rows)
        if network.device.type != "cpu":
            torch.cuda.synchronize()
        of = counts.setdefault(network.name.split(" ")[0], Counter())
        of["calls"] += 1
        of["texts"] += len(rows)
        of["tokens"] += sum(len(ids) for ids, _ in rows)
        of["seconds"] += time.perf_counter() - start  # type: ignore[assignment]
        return answer

    Network._whole = reading  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        Network._whole = whole  # type: ignore[method-assign]


def summary(outcomes: list[Outcome], counts: dict[str, Counter[str]], seconds: float) -> dict[str, Any]:
    """Say what a cell took. Means are of texts whose attack ended; rates are of all that was done."""
    ended = [one for one in outcomes if one.status in ("succeeded", "failed")]
    strange = Counter(str(one.error).strip().splitlines()[-1] for one in outcomes if one.status == "errored")
    victim = counts.get("victim", Counter())
    queries = sum(one.num_queries for one in ended)
    whole = len(ended) == len(outcomes) and queries > 0
    return {
        "texts": len(ended),
        "cut_off": sum(one.timed_out for one in outcomes),
        **({"errors": dict(strange)} if sum(strange.values()) > sum(one.timed_out for one in outcomes) else {}),
        "words": mean([one.num_words for one in ended]),
        "seconds_per_text": mean([one.seconds for one in ended]),
        "queries_per_text": mean([one.num_queries for one in ended]),
        "words_changed_per_text": mean([one.num_words_changed or 0 for one in ended]),
        "seconds": round(seconds, 1),
        "seconds_per_query": round(seconds / max(1, queries if whole else victim["texts"]), 4),
        "forward_passes_per_second": round(victim["texts"] / seconds, 2),
        "tokens_per_second": round(victim["tokens"] / seconds, 1),
        "texts_per_call": {kind: round(of["texts"] / of["calls"], 1) for kind, of in counts.items()},
        "share_of_time": {kind: round(of["seconds"] / seconds, 3) for kind, of in counts.items()},
    }


def mean(values: list[Any]) -> float | None:
    return round(statistics.fmean(values), 2) if values else None


def write(args: argparse.Namespace, document: dict[str, Any]) -> None:
    """Write the file in one step."""
    content = {
        "what": WHAT,
        "command": f"python benchmarks/papers_scale.py --texts {args.texts} --minutes {args.minutes:g}"
        f" --calibrate {args.calibrate} --threads {args.threads} --seed {args.seed}",
        "machine": {"processor": processor(), "cores": cores(), "device": args.device},
        "threads": args.threads,
        "versions": versions() | {"python": platform.python_version()},
        **document,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    partial = args.out.with_suffix(".tmp")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    partial.replace(args.out)


if __name__ == "__main__":
    main()
