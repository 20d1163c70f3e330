"""Measures attacks on functions and endpoints: how busy an endpoint is kept, and whether outcomes stay the same.

    python benchmarks/endpoint.py --part speed
    python benchmarks/endpoint.py --part equality

speed: a local server answers each text after --latency seconds. The same attack asks it with one request at a time and
with --concurrency. The server runs in a process of its own and computes next to nothing, so what is measured is how
well rbench keeps it busy. The issue asks for a ratio of at least 12 with 50 ms and 16 requests at once.

equality: the packaged victim of the embedded world is attacked directly, through a Python function and through a local
endpoint around the same weights, by each recipe. Status, queries and texts must agree, example by example.

Prints a table; --out FILE keeps the rows of both parts as JSON, with the machine and versions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import transformers
from machine import cores, processor

from rbench import config, mini, recipes
from rbench.config.registry import Registry
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.locate import PACKAGED
from rbench.recipes.answering import AnsweringVictim, open_answering
from rbench.schema import Choice, ResourceChoice, TaskSpec, VictimSpec
from rbench.system import scratch
from rbench.tasks import Example
from rbench.words.resources import Resources
from tests.victims.server import Server

RECIPES = ("textfooler", "textbugger", "pwws", "bae", "bertattack")
VICTIM = PACKAGED / "robustsentembed-mini-victim"
WARM = 16
"""Examples attacked before timing starts."""
PACKAGES = ("textattack", "torch", "transformers", "httpx")


def main() -> int:
    """Run the parts asked for. Exits with 1 where an outcome differs."""
    args = parse()
    if args.part == "serve":
        return serve(args.latency)
    task = config.load_task("mini-sentiment", Registry())
    with scratch.temporary_folder("endpoint") as folder:
        resources = resources_with(masked_lm(folder / "lm"))
        rows = (speed if args.part == "speed" else equality)(args, task, resources, folder)
    for row in rows:
        print(json.dumps(row))
    write(args, rows)
    return int(any(row.get("different") for row in rows))


def serve(latency: float) -> int:
    """Answer until standard input closes. The first line printed is the URL."""

    def answer(body: Any) -> Any:
        time.sleep(latency)
        return [{"negative": 1 - p, "positive": p} for p in map(positive, body["inputs"])]

    server = Server(answer)
    print(server.url, flush=True)
    sys.stdin.read()
    server.close()
    return 0


def positive(text: str) -> float:
    """A probability that each word of a text moves."""
    total = sum(zlib.crc32(word.encode()) % 2001 - 1000 for word in text.lower().split())
    return float(torch.sigmoid(torch.tensor(total / 600, dtype=torch.float64)))


def speed(args: argparse.Namespace, task: TaskSpec, resources: Resources, folder: Path) -> list[dict[str, Any]]:
    """Attack the same examples with one request at a time and with several."""
    command = [sys.executable, __file__, "--part", "serve", "--latency", str(args.latency)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None and server.stdin is not None
    url = server.stdout.readline().strip()
    examples = rows_of(task, args.n, lambda text: int(positive(text) > 0.5))
    rows = []
    # What only the first examples of a process cost, such as imports, is no part of either time.
    warm = open_answering(VictimSpec(name="warm", version="1", endpoint={"url": url, "concurrency": 16}), task)
    attacked(warm, args.recipes[0], task, resources, rows_of(task, WARM, lambda text: int(positive(text) > 0.5)), WARM)
    for concurrency in (args.concurrency, 1):
        endpoint = {"url": url, "concurrency": concurrency}
        victim = open_answering(VictimSpec(name="served", version="1", endpoint=endpoint), task)
        start, cpu = time.perf_counter(), time.process_time()
        outcomes = attacked(victim, args.recipes[0], task, resources, examples, victim.pooled)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        asked = len(victim.by_text)
        rows.append(
            {
                "part": "speed",
                "attack": args.recipes[0],
                "n": len(examples),
                "concurrency": concurrency,
                "latency": args.latency,
                "pooled": victim.pooled,
                "texts_asked": asked,
                "seconds": round(seconds, 2),
                "cpu_seconds_of_rbench": round(cpu, 2),
                "texts_per_second": round(asked / seconds, 1),
                "outcomes": hash_of(outcomes),
                "load_average": round(os.getloadavg()[0], 1),
            }
        )
    server.stdin.close()
    server.wait()
    rows[0]["ratio"] = round(rows[0]["texts_per_second"] / rows[1]["texts_per_second"], 2)
    rows[0]["different"] = int(rows[0]["outcomes"] != rows[1]["outcomes"])
    return rows


def equality(args: argparse.Namespace, task: TaskSpec, resources: Resources, folder: Path) -> list[dict[str, Any]]:
    """Attack one victim directly, through a function and through an endpoint, with each recipe."""
    victim = opened()
    examples = rows_of(task, args.n, lambda text: int(victim([text]).argmax()))
    (folder / "serving.py").write_text(
        "from endpoint import opened, plainly\nvictim = opened()\n"
        "def probabilities(texts):\n    return plainly(victim, texts)\n"
    )
    os.chdir(folder)
    server = Server(lambda body: [dict(zip(task.labels, row, strict=True)) for row in plainly(victim, body["inputs"])])
    given: list[dict[str, Any]] = [
        {"function": "serving:probabilities"},
        {"endpoint": {"url": server.url, "concurrency": args.concurrency, "timeout": 300}},
    ]
    ways = [open_answering(VictimSpec(name="same", version="1", **one), task) for one in given]
    rows = []
    for recipe in args.recipes:
        direct = attacked(victim, recipe, task, resources, examples, 4)
        for way in ways:
            found = attacked(way, recipe, task, resources, examples, way.pooled)
            different = [a[0] for a, b in zip(direct, found, strict=True) if a != b]
            rows.append(
                {
                    "part": "equality",
                    "attack": recipe,
                    "through": way.network.backend,
                    "n": len(examples),
                    "different": len(different),
                    "statuses": sorted(str(one[1]) for one in direct),
                }
            )
    server.close()
    return rows


def opened() -> recipes.Victim:
    """Return the packaged victim, computed by PyTorch."""
    classifier, meta = EncoderClassifier.load(VICTIM, "cpu")
    return recipes.Victim(classifier, "direct", max_length=meta["max_length"], backend="torch")


def plainly(victim: recipes.Victim, texts: Sequence[str]) -> list[list[float]]:
    """Return the probabilities of each text alone, as its owner would compute them."""
    rows = []
    for text in texts:
        inputs = victim.tokenizer([text], truncation=True, max_length=victim.max_length, return_tensors="pt")
        with torch.no_grad():
            rows.append(victim.classifier(**inputs).logits[0].softmax(dim=0).tolist())
    return rows


def attacked(
    victim: recipes.Victim | AnsweringVictim,
    recipe: str,
    task: TaskSpec,
    resources: Resources,
    examples: list[Example],
    pooled: int,
) -> list[tuple[object, ...]]:
    """Attack the examples, and return what must agree of each outcome, by example."""
    spec = config.load_attack(Choice(name=recipe), Registry())

    def build() -> Any:
        return recipes.build(spec, victim, resources, task)

    made = recipes.run(build, examples, spec=spec, task=task, seed=0, pooled=pooled)
    return sorted((o.example_id, o.status, o.num_queries, o.perturbed, o.error) for o in made)


def rows_of(task: TaskSpec, n: int, label: Callable[[str], int]) -> list[Example]:
    """Return texts of the task, each with the label that the victim gives it, so that it is attacked."""
    texts = [str(row["text"]) for row in mini.rows(task.name, "test")[:n]]
    return [Example(f"test:{i}", (text,), label(text)) for i, text in enumerate(texts)]


def masked_lm(folder: Path) -> Path:
    """Write a masked LM with random weights. Its words are odd, and the same for all."""
    mini.tokenizer.write_tokenizer(folder)
    words = len(transformers.AutoTokenizer.from_pretrained(folder))
    config = transformers.BertConfig(
        vocab_size=words, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    torch.manual_seed(0)
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    return folder


def resources_with(lm: Path) -> Resources:
    profile = config.load_resources(ResourceChoice(set="mini"), Registry())
    assert profile.masked_lm is not None and profile.masked_lm.name is not None
    return Resources(profile, trained={profile.masked_lm.name: lm}, backend="torch")


def hash_of(outcomes: list[tuple[object, ...]]) -> str:
    return f"{zlib.crc32(repr(outcomes).encode()):08x}"


def write(args: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Write the rows of this part to --out, beside those of the other part."""
    if args.out is None:
        return
    kept = json.loads(args.out.read_text(encoding="utf-8"))["rows"] if args.out.exists() else []
    found = {
        "what": "attacks on functions and endpoints; see benchmarks/endpoint.py",
        "machine": {"processor": processor(), "cores": cores(), "platform": platform.platform()},
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "rows": [row for row in kept if row["part"] != args.part] + rows,
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["speed", "equality", "serve"], required=True)
    parser.add_argument("--n", type=int, default=None, help="examples; default: 64 for speed, 12 for equality")
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), help="speed uses the first")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds that the server waits")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    args.n = args.n or (64 if args.part == "speed" else 12)
    args.out = args.out and args.out.resolve()
    return args


if __name__ == "__main__":
    sys.exit(main())
