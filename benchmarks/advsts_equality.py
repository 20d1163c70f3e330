"""Compares rbench's attacks on STS pairs with TextAttack's own search and the same goal function.

    python benchmarks/advsts_equality.py --encoder minilm --models DIR --data DIR --n 100 --recipes pwws textfooler

On TextAttack's side is a plain `textattack.Attack`: the recipe as it is, one example at a time, its own texts and
caches, and a victim that encodes each batch of pairs anew with PyTorch. On rbench's side is what its engine runs, with
`--pooled` examples at once. The victim is the strategy `cosine`, fitted on the validation split. The first `--n` test
pairs are attacked. For every pair, status, queries and final text must agree. Exits with 1 where an outcome differs and
the scores of the two final texts do not tie (within NEAR_TIE of the scale's width).
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import OrderedDict
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from machine import processor
from stock import stock

from rbench import config, recipes
from rbench.config.registry import Registry, search_path
from rbench.encoders.scorer import EncoderScorer
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import RbenchError
from rbench.recipes.attacked import attacked_kind
from rbench.recipes.build import recipe_class
from rbench.recipes.run import seed_all
from rbench.recipes.similarity_goal import SimilarityGoal
from rbench.schema import AttackSpec, Choice, ResourceChoice, TaskSpec
from rbench.tasks import Example, open_task
from rbench.train.finetune import FinetuneContext, cosine
from rbench.words.resources import Resources

# isort: split
from textattack import Attack
from textattack.attack_results import SkippedAttackResult, SuccessfulAttackResult
from textattack.models.wrappers import ModelWrapper

NEAR_TIE = 1e-5
FIELDS = ("status", "num_queries", "perturbed", "perturbed_score")


class PlainScorer(ModelWrapper):
    """A scorer as a TextAttack user would wrap it: pairs in, scores out, nothing remembered."""

    def __init__(self, scorer: EncoderScorer) -> None:
        self.model, self.tokenizer = scorer, scorer.tokenizer

    def __call__(self, pairs: list[tuple[str, str]]) -> torch.Tensor:
        return torch.from_numpy(self.model.score_pairs(pairs))


def main() -> int:
    """Run the comparison and write its results."""
    args = parse()
    torch.set_num_threads(args.threads)
    registry = Registry()
    task = config.load_task(args.task, registry)
    data = open_task(task, args.data)
    encoder = SentenceEncoder.open(args.encoder, pooling="mean", name=args.encoder.name)
    context = FinetuneContext(encoder, data, task.training, args.seed, "cpu", lambda done, total, text: None)
    scorer, scores = cosine.CosineStrategy().run(cosine.Options(), context)
    profile = config.load_resources(ResourceChoice(profile=args.resources), registry)
    records = []
    for name in args.recipes:
        spec = config.load_attack(Choice(name=name), registry)
        victim = recipes.ScorerVictim(scorer, args.encoder.name, backend=args.backend)
        made = Resources(profile, args.models)
        examples = data.split("test")[: args.n]
        ours = {
            outcome.example_id: outcome.model_dump()
            for outcome in recipes.run(
                lambda spec=spec, victim=victim, made=made: recipes.build(spec, victim, made, task),
                examples,
                spec=spec,
                task=task,
                seed=args.seed,
                pooled=args.pooled,
            )
        }
        print(f"{name}: rbench is done with {len(ours)} pairs", flush=True)
        records += theirs(spec, scorer, Resources(profile, args.models), task, examples, ours, args.seed)
    return write(args, records, scores, data.fingerprint)


def theirs(
    spec: AttackSpec,
    scorer: EncoderScorer,
    resources: Any,
    task: TaskSpec,
    examples: list[Example],
    ours: dict[str, dict[str, Any]],
    seed: int,
) -> list[dict[str, Any]]:
    """Attack with plain TextAttack, and compare each outcome with rbench's."""
    wrapper = PlainScorer(scorer)
    resources.load(spec.needs)
    records = []
    with stock(resources):
        recipe = recipe_class(spec).build(wrapper)
        goal = SimilarityGoal(wrapper, task.scale, spec.similarity)
        constraints = [*recipe.constraints, *recipe.pre_transformation_constraints]
        plain = Attack(goal, constraints, recipe.transformation, recipe.search_method)
        for done, example in enumerate(examples, start=1):
            seed_all(seed, spec.name, example.id)
            start = time.perf_counter()
            result = plain.attack(
                OrderedDict(zip(task.columns, example.texts, strict=True)),
                attacked_kind(task).truth(example, task).for_textattack,
            )
            found = outcome(result) | {"seconds": time.perf_counter() - start}
            records.append(compared(spec.name, example, found, ours[example.id], scorer))
            if done % 10 == 0:
                print(f"{spec.name}: {done} of {len(examples)}", flush=True)
    return records


def outcome(result: Any) -> dict[str, Any]:
    """Read the fields of an outcome off TextAttack's result."""
    if isinstance(result, SkippedAttackResult):
        return {"status": "skipped", "num_queries": result.num_queries, "perturbed": None, "perturbed_score": None}
    return {
        "status": "succeeded" if isinstance(result, SuccessfulAttackResult) else "failed",
        "num_queries": result.num_queries,
        "perturbed": result.perturbed_result.attacked_text.tokenizer_input,
        "perturbed_score": float(result.perturbed_result.output),
    }


def compared(
    name: str, example: Example, expected: dict[str, Any], found: dict[str, Any], scorer: EncoderScorer
) -> dict[str, Any]:
    """Return one record, without texts. Where outcomes differ, print both."""
    differs = [field for field in FIELDS[:3] if expected[field] != found[field]]
    low, high = scorer.scale
    record = {
        "attack": name,
        "example": example.id,
        "status": expected["status"],
        "queries": expected["num_queries"],
        "differs": differs,
        "score_gap": None,
        "seconds_textattack": round(expected["seconds"], 3),
        "seconds_rbench": found["seconds"],
    }
    if expected["perturbed_score"] is not None and found["perturbed_score"] is not None:
        record["score_gap"] = abs(expected["perturbed_score"] - found["perturbed_score"]) / (high - low)
    if differs:
        print(f"DIFFERENT {name} {example.id}: {', '.join(differs)}")
        for who, one in (("textattack", expected), ("rbench", found)):
            print(f"  {who}: {json.dumps({field: one[field] for field in FIELDS})}", flush=True)
    return record


def write(args: argparse.Namespace, records: list[dict[str, Any]], scores: dict[str, float], fingerprint: str) -> int:
    """Write the results. Return 1 where an outcome differs by more than a near-tie, else 0."""
    summary = {}
    for name in args.recipes:
        own = [record for record in records if record["attack"] == name]
        attacked = [record for record in own if record["status"] != "skipped"]
        summary[name] = {
            "n": len(own),
            "statuses": {s: sum(r["status"] == s for r in own) for s in ("succeeded", "failed", "skipped")},
            "different": sum(bool(record["differs"]) for record in own),
            "near_ties": sum(near_tie(record) for record in own),
            "largest_score_gap": max((r["score_gap"] for r in own if r["score_gap"] is not None), default=None),
            "mean_queries": round(sum(record["queries"] for record in attacked) / max(1, len(attacked)), 1),
            "seconds_textattack": round(sum(record["seconds_textattack"] for record in own), 1),
            "seconds_rbench": round(sum(record["seconds_rbench"] for record in own), 1),
        }
        print(name, json.dumps(summary[name]))
    document = {
        "what": "attacks on STS pairs: plain TextAttack with rbench's goal function against rbench's engine; score_gap "
        "is the difference of the final scores as a share of the scale; times are wall-clock on a shared machine",
        "task": args.task,
        "data": fingerprint,
        "encoder": args.encoder.name,
        "victim": scores,
        "seed": args.seed,
        "resources": args.resources,
        "pooled": args.pooled,
        "backend": args.backend,
        "machine": {"processor": processor(), "threads": args.threads, "platform": platform.platform()},
        "versions": {p: version(p) for p in ("textattack", "torch", "transformers", "scikit-learn", "nltk")},
        "summary": summary,
        "records": records,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(any(record["differs"] and not near_tie(record) for record in records))


def near_tie(record: dict[str, Any]) -> bool:
    gap = record["score_gap"]
    return bool(record["differs"]) and "status" not in record["differs"] and gap is not None and gap < NEAR_TIE


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="stsb", help="an STS task of rbench")
    parser.add_argument("--encoder", type=Path, required=True, help="a folder with a sentence encoder (mean pooling)")
    parser.add_argument("--n", type=int, default=100, help="how many test pairs, the first ones")
    parser.add_argument("--recipes", nargs="+", default=["pwws"], help="names of attacks")
    parser.add_argument("--resources", default="local", help="a resource set")
    parser.add_argument("--models", type=Path, action="append", default=[], help="model search path (RBENCH_MODELS)")
    parser.add_argument("--data", type=Path, action="append", default=[], help="data search path (RBENCH_DATA)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pooled", type=int, default=4, help="how many pairs rbench attacks at once")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backend", default="torch", help="what computes rbench's encoder")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "advsts_equality.json")
    args = parser.parse_args()
    args.models = search_path(args.models, "RBENCH_MODELS")
    args.data = search_path(args.data, "RBENCH_DATA")
    return args


if __name__ == "__main__":
    try:
        code = main()
    except RbenchError as error:
        raise SystemExit(f"error: {error}") from error
    raise SystemExit(code)
