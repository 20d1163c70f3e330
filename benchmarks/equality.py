"""Compares outcomes of stock TextAttack 0.3.11 and rbench on the same victim, resources and per-example seeds.

    python benchmarks/equality.py --task mr --victim FOLDER --models DIR --data DIR --n 20

For every example, status, number of queries and final text must agree. Differences are printed with both texts and the
gap between the victim's scores of them. The number of changed words is not compared, because TextAttack counts by
position and rbench does not (`rbench.system.changes`): each record has both counts of stock's text, and the summary
says on how many examples they differ (`words_differ`). The results are one JSON file with one record per example and
recipe. Examples in it are not run again, so the script can be stopped, resumed and sharded (--shard I/N).

Stock TextAttack takes an hour for what rbench does in minutes. --stock FILE keeps its outcomes (one line each, under a
key of versions, victim and example), so that a changed engine can be compared without running stock again.
--stock-only makes them. Without --stock both sides run in turn in this process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from machine import processor
from stock import build_stock, stock

from rbench import config, recipes
from rbench.config.registry import Registry, search_path
from rbench.encoders.classifier import EncoderClassifier
from rbench.errors import RbenchError
from rbench.recipes.cached import split_words
from rbench.schema import Choice, Outcome, ResourceChoice
from rbench.store.weights import weights_hash
from rbench.tasks import Example, open_task
from rbench.words.resources import Resources

RECIPES = ("textfooler", "textbugger", "pwws", "bae", "bertattack")
NEAR_TIE = 1e-5


def main() -> int:
    """Run the comparison. Exits with 1 where an outcome differs by more than a near-tie."""
    args = parse()
    registry = Registry()
    task = config.load_task(args.task, registry)
    examples = chosen(open_task(task, args.data).split("test"), args)
    profile = config.load_resources(ResourceChoice(profile=args.resources), registry)
    classifier, meta = EncoderClassifier.load(args.victim, args.device)
    max_length = int(meta.get("max_length") or classifier.max_length)
    resources = {
        who: Resources(profile, args.models, device=args.device, backend=args.backend) for who in ("stock", "rbench")
    }
    victim = recipes.Victim(
        classifier, args.victim.name, max_length=max_length, device=args.device, backend=args.backend
    )
    weights = weights_hash(args.victim)[:16]
    records, kept = read(args.out), stored(args)
    for name in args.recipes:
        spec = config.load_attack(Choice(name=name), registry)
        todo = [e for e in examples if args.stock_only or key(args, name, e.id) not in records]
        print(f"{name}: {len(examples) - len(todo)} known, {len(todo)} to run", flush=True)
        if not todo:
            continue
        theirs = build_stock(spec, classifier, max_length, resources["stock"], task)
        ours = recipes.build(spec, victim, resources["rbench"], task)
        for example in todo:
            where = "/".join((key(args, name, example.id), f"length{max_length}", weights, *versions().values()))
            if where not in kept:
                with stock(resources["stock"]):
                    kept[where] = timed(StockAttack(theirs), example, spec, task, args.seed)
                keep(args, where, *kept[where])
            expected, theirs_cpu = kept[where]
            if args.stock_only:
                continue
            found, our_cpu = timed(ours, example, spec, task, args.seed)
            record = compare(args, name, expected, found, victim)
            record |= {"cpu_stock": theirs_cpu, "cpu_rbench": our_cpu, "max_length": max_length}
            record |= {"backend": victim.network.backend, "stock_kept": args.stock is not None}
            records[key(args, name, example.id)] = record
            write(args, records)
    return report(args, records)


def stored(args: argparse.Namespace) -> dict[str, tuple[Outcome, float]]:
    """Read stock's outcomes of an earlier run, by key. The last line may be incomplete."""
    kept = {}
    if args.stock is not None and args.stock.exists():
        for line in args.stock.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            kept[row["key"]] = Outcome.model_validate(row["outcome"]), row["cpu"]
    return kept


def keep(args: argparse.Namespace, where: str, outcome: Outcome, cpu: float) -> None:
    if args.stock is not None:
        with args.stock.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": where, "outcome": outcome.model_dump(mode="json"), "cpu": cpu}) + "\n")


def versions() -> dict[str, str]:
    return {p: version(p) for p in ("textattack", "torch", "transformers", "sentence-transformers", "nltk")}


def timed(attacked: Any, example: Example, spec: Any, task: Any, seed: int) -> tuple[Outcome, float]:
    """Return the outcome and its processor seconds, which depend less on other processes than wall time."""
    start = time.process_time()
    (outcome,) = recipes.run(lambda: attacked, [example], spec=spec, task=task, seed=seed)
    return outcome, round(time.process_time() - start, 4)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="mr", help="a task of rbench")
    parser.add_argument("--n", type=int, default=20, help="how many test examples, the first ones")
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), help="names of attacks")
    parser.add_argument("--victim", type=Path, required=True, help="a folder that EncoderClassifier.save wrote")
    parser.add_argument("--resources", default="local", help="a resource set")
    parser.add_argument("--models", type=Path, action="append", default=[], help="model search path (RBENCH_MODELS)")
    parser.add_argument("--data", type=Path, action="append", default=[], help="data search path (RBENCH_DATA)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th example from the I-th")
    parser.add_argument("--stock", type=Path, help="keep stock's outcomes in this file and take them from it")
    parser.add_argument("--stock-only", action="store_true", help="run stock alone; rbench compares later")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default="auto", help="what computes rbench's networks")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "equality.json")
    args = parser.parse_args()
    args.models = search_path(args.models, "RBENCH_MODELS")
    args.data = search_path(args.data, "RBENCH_DATA")
    return args


def chosen(examples: list[Example], args: argparse.Namespace) -> list[Example]:
    part, parts = map(int, args.shard.split("/"))
    return examples[: args.n][part::parts]


class StockAttack:
    """A stock attack with the one method that rbench's runner calls on its own victim."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.attack, self.clear_cache = inner, inner.attack, inner.clear_cache
        self.goal_function = self
        self.model = self

    def is_truncated(self, text: Any) -> bool:
        return False


def key(args: argparse.Namespace, recipe: str, example: str) -> str:
    return "/".join((args.task, args.victim.name, args.resources, recipe, f"seed{args.seed}", example))


def compare(args: argparse.Namespace, recipe: str, expected: Outcome, found: Outcome, victim: Any) -> dict[str, Any]:
    """Return one record. Where the outcomes differ, it has both texts and the gap between the victim's scores."""
    what = [f for f in ("status", "num_queries", "perturbed") if getattr(expected, f) != getattr(found, f)]
    record: dict[str, Any] = {
        "task": args.task,
        "attack": recipe,
        "status": expected.status,
        "queries": expected.num_queries,
        "seconds_stock": expected.seconds,
        "seconds_rbench": found.seconds,
        "differs": what,
        "words_changed": expected.num_words_changed,
        "words_changed_by_position": by_position(expected),
    }
    if what:
        record |= {"stock": brief(expected), "rbench": brief(found), "score_gap": gap(expected, found, victim)}
        print(f"DIFFERENT {recipe} {expected.example_id}: {', '.join(what)}")
        print(f"  stock : {json.dumps(record['stock'], ensure_ascii=False)}")
        print(f"  rbench: {json.dumps(record['rbench'], ensure_ascii=False)}")
        print(f"  score gap: {record['score_gap']}", flush=True)
    return record


def by_position(outcome: Outcome) -> int:
    """Return the number of changed words as TextAttack counts them: `all_words_diff` of the columns in one text."""
    before, after = (
        split_words("\n".join(texts or ())) for texts in (outcome.original, outcome.perturbed or outcome.original)
    )
    return sum(old != new for old, new in zip(before, after, strict=False))


def brief(outcome: Outcome) -> dict[str, Any]:
    fields = ("status", "num_queries", "perturbed", "error")
    return {name: value for name in fields if (value := getattr(outcome, name)) is not None}


def gap(expected: Outcome, found: Outcome, victim: Any) -> float | None:
    """Return the difference of the victim's probability of the true label between the two final texts."""
    if expected.perturbed is None or found.perturbed is None:
        return None
    texts = [t[0] if len(t) == 1 else t for t in (expected.perturbed, found.perturbed)]
    scores = torch.softmax(victim(texts), dim=1)[:, expected.label]
    return abs(float(scores[0] - scores[1]))


def read(path: Path) -> dict[str, dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["records"] if path.exists() else {}


def write(args: argparse.Namespace, records: dict[str, dict[str, Any]]) -> None:
    """Merge the records into the file, which another shard may have written in the meantime."""
    records |= {k: v for k, v in read(args.out).items() if k not in records}
    summary = {name: summarise([r for r in records.values() if label(r) == name]) for name in labels(records)}
    document = {
        "what": "stock TextAttack against rbench: status, queries counted and final text of each example; "
        "stock pads every input to the victim's limit, max_length tokens; where stock_kept, stock ran in an earlier "
        "process of this script on the same machine (--stock)",
        "machine": {"processor": processor(), "threads": torch.get_num_threads(), "platform": platform.platform()},
        "versions": versions(),
        "summary": summary,
        "records": dict(sorted(records.items())),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    partial = args.out.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(args.out)


def label(record: dict[str, Any]) -> str:
    return f"{record['task']}/{record['attack']}"


def labels(records: dict[str, dict[str, Any]]) -> list[str]:
    return sorted({label(record) for record in records.values()})


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Count agreements, including skipped examples. Times are of attacked examples; `ratio` is of processor seconds."""
    attacked = [r for r in records if r["status"] != "skipped"] or records
    seconds = {who: sum(r[f"seconds_{who}"] for r in attacked) for who in ("stock", "rbench")}
    cpu = {who: sum(r[f"cpu_{who}"] for r in attacked) for who in ("stock", "rbench")}
    return {
        "n": len(records),
        "attacked": len(attacked),
        "different": sum(bool(r["differs"]) for r in records),
        "near_ties": sum(bool(r["differs"]) and near_tie(r) for r in records),
        "words_differ": sum(r.get("words_changed") != r.get("words_changed_by_position") for r in records),
        "mean_queries": round(statistics.fmean(r["queries"] for r in attacked), 1),
        "examples_per_second": {who: round(len(attacked) / s, 3) for who, s in seconds.items() if s},
        "cpu_seconds_per_example": {who: round(s / len(attacked), 3) for who, s in cpu.items()},
        "ratio": round(cpu["stock"] / cpu["rbench"], 2) if cpu["rbench"] else None,
    }


def near_tie(record: dict[str, Any]) -> bool:
    return record.get("score_gap") is not None and record["score_gap"] < NEAR_TIE and "status" not in record["differs"]


def report(args: argparse.Namespace, records: dict[str, dict[str, Any]]) -> int:
    if args.out.exists():
        for name, line in json.loads(args.out.read_text(encoding="utf-8"))["summary"].items():
            print(name, json.dumps(line))
    mine = [r for k, r in records.items() if k.startswith(f"{args.task}/") and r["attack"] in args.recipes]
    return int(any(r["differs"] and not near_tie(r) for r in mine))


if __name__ == "__main__":
    started = time.time()
    try:
        code = main()
    except RbenchError as error:
        raise SystemExit(f"error: {error}") from error
    print(f"{time.time() - started:.0f} s", file=sys.stderr)
    raise SystemExit(code)
