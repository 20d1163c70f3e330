"""Measures attacks in a declared space: which search `strongest` should have after the beam, and what exactness costs.

    python benchmarks/strength.py choose VICTIM --data DIR --models DIR --out strength_choose.json
    python benchmarks/strength.py costs VICTIM --data DIR --models DIR --out strength_costs.json

VICTIM is a folder of weights of a fine-tuned classifier in the cache (RBENCH_CACHE/weights), with the labels of SST-2.
Texts are drawn with seed 0 from the training rows of SST-2 that are in no other split and not in the test rows of MR,
so that no RUN reports them. NLTK_DATA names the tagger's data.

choose: the deletion order, PWWS's order and a beam of 8 run in a space of three words at K 10. On what they leave, the
local search, TextAttack's genetic search and its particle swarm get the same number of queries each, and nothing else
does. All three draw at random: --seeds says how often each is run.

costs: queries and CPU seconds of a text (`time.process_time` of one process with one thread, so that other work on the
machine does not count) for the complete search at one word and K 50, for searches inside that space, and for the
recipes, which may change more words. Each attack begins without answers of the others in memory.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from machine import cores, processor

from rbench import config, recipes
from rbench.config.registry import Registry
from rbench.recipes import ensemble, space
from rbench.recipes.engine import EngineConfig, open_victim
from rbench.schema import Choice, Outcome, ResourceChoice, Space
from rbench.score import wilson
from rbench.tasks import Example, open_task
from rbench.words.resources import Resources

WIDE = ("local", "genetic", "swarm")
COSTS: dict[str, dict[str, Any]] = {
    "exhaustive": {"exhaustive": {}},
    "exhaustive, K 25": {"exhaustive": {"space": {"k": 25}}},
    "deletion order": {"inside": {"search": "deletion"}},
    "random order": {"inside": {"search": "random"}},
    "gradient order": {"inside": {"search": "gradient"}},
    "TextFooler": {"textfooler": {}},
    "PWWS": {"pwws": {}},
}


class Alone(ensemble.Strongest):
    """One of the searches after the beam, with all queries."""

    def perform_search(self, initial_result: Any) -> Any:
        self.begin(initial_result)
        with suppress(ensemble._SearchOver):
            self.search_widely(initial_result, self._budget)
        return self._best


def main() -> None:
    args = parse()
    victim = open_victim(None, str(args.victim), task := loaded("sst2"), "victim", EngineConfig(backend="torch"))
    examples = drawn(args, victim)
    found = {"choose": choose, "costs": costs}[args.part](args, victim, task, examples)
    packages = {name: version(name) for name in ("textattack", "torch", "numpy")}
    about = {"n": len(examples), "processor": processor(), "cores": cores(), "python": platform.python_version()}
    text = json.dumps({**about, "packages": packages, **found}, indent=1)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("choose", "costs"))
    parser.add_argument("victim", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--n", type=int, default=60, help="so many texts, which the victim gets right")
    parser.add_argument("--queries", type=int, default=500, help="of each search after the beam")
    parser.add_argument("--seeds", type=int, default=3, help="so many runs of each of them")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def loaded(name: str) -> Any:
    return config.load_task(name, Registry())


def drawn(args: argparse.Namespace, victim: Any) -> list[Example]:
    """Texts that the victim gets right, of training rows of SST-2 that are reported nowhere."""
    sst2, mr = (open_task(loaded(name), [args.data]) for name in ("sst2", "mr"))
    reported = {
        said(one) for split in (sst2.split("test"), sst2.split("validation"), mr.split("test")) for one in split
    }
    free = [one for one in sst2.split("train") if said(one) not in reported]
    found: list[Example] = []
    for i in np.random.default_rng(0).permutation(len(free)):
        one = free[i]
        if int(victim([one.texts[0]]).argmax()) == one.label:
            found.append(one)
        if len(found) == args.n:
            break
    return found


def said(one: Example) -> str:
    return "".join(filter(str.isalnum, one.texts[0].lower()))


def resources(args: argparse.Namespace) -> Resources:
    choice = ResourceChoice(set="local", word_vectors="counterfitted-minilm", sentence_encoder="minilm")
    return Resources(config.load_resources(choice, Registry()), [args.models])


def attacked(build: Any, examples: list[Example], spec: Any, task: Any, seed: int = 0) -> list[Outcome]:
    found = list(recipes.run(build, examples, spec=spec, task=task, seed=seed, pooled=4))
    assert not [one.error for one in found if one.error], [one.error for one in found if one.error][:1]
    return found


def choose(args: argparse.Namespace, victim: Any, task: Any, examples: list[Example]) -> dict[str, Any]:
    """Run the first searches, and each of the others on what they leave."""
    declared, given = Space(k=10, max_words=3), resources(args)
    spec = config.load_attack(Choice(name="strongest", options={"space": declared.model_dump(mode="json")}), Registry())
    left, first = examples, {}
    for order in ("deletion", "pwws", "beam"):
        built = lambda order=order: space.build(victim, given, declared, space.searched(order))  # noqa: E731
        seen = {one.example_id: one for one in attacked(built, left, spec, task)}
        fell = [one for one in left if seen[one.id].status == "succeeded"]
        first[order] = {
            "attacked": len(left),
            "fell": len(fell),
            "queries": mean([one.num_queries for one in seen.values()]),
        }
        left = [one for one in left if one not in fell]
        print(order, first[order], flush=True)
    found: dict[str, Any] = {}
    for wide in WIDE:
        runs = []
        for seed in range(args.seeds):

            def built(wide: Any = wide) -> Any:
                attack = space.build(victim, given, declared, Alone(declared, wide))
                attack.goal_function.query_budget = args.queries
                return attack

            seen = attacked(built, left, spec, task, seed)
            fell = sorted(one.example_id for one in seen if one.status == "succeeded")
            queries = mean([one.num_queries for one in seen])
            runs.append({"seed": seed, "fell": len(fell), "texts": fell, "queries": queries})
            print(wide, runs[-1], flush=True)
        total = sum(run["fell"] for run in runs)
        found[wide] = {"fell": total, "of": args.seeds * len(left), "runs": runs}
    return {
        "space": declared.model_dump(mode="json"),
        "queries": args.queries,
        "first": first,
        "left": len(left),
        **found,
    }


def costs(args: argparse.Namespace, victim: Any, task: Any, examples: list[Example]) -> dict[str, Any]:
    """Run each attack on the same texts, with an empty memory."""
    found: dict[str, Any] = {}
    root = Path(__file__).resolve().parents[1] / "attacks"
    for label, choice in COSTS.items():
        ((name, options),) = choice.items()
        spec, given = config.load_attack(Choice(name=name, options=options), Registry()), resources(args)
        path = root / f"{name}.py"
        victim.forget()

        def built(spec: Any = spec, given: Any = given, path: Path = path) -> Any:
            return recipes.build(spec, victim, given, task, path=path if path.exists() else None)

        attacked(built, examples[:1], spec, task)  # opens what it needs
        victim.forget()
        began = time.process_time()
        seen = attacked(built, examples, spec, task)
        seconds, fell = time.process_time() - began, sum(one.status == "succeeded" for one in seen)
        low, high = wilson(fell, len(seen)) or (None, None)
        queries = mean([one.num_queries for one in seen])
        found[label] = {"asr": fell / len(seen), "low": low, "high": high, "queries": queries}
        found[label] |= {"cpu_seconds": seconds / len(seen)}
        print(label, found[label], flush=True)
    return {"attacks": found}


def mean(values: list[int]) -> float:
    return sum(values) / max(1, len(values))


if __name__ == "__main__":
    main()
