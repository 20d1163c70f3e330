"""Measures the questions that attacks ask of one victim: which repeat, how they are batched, what low precision saves.

    python benchmarks/questions.py --victim FOLDER --models DIR --data DIR --n 40

Six recipes attack the same texts in one process. Everything is counted, and only the last part is timed:

- *Repeats*: the share of an attack's distinct questions (token ids) that an attack before it has asked too. It is what
  answers kept across the attacks of a run could save at most.
- *Calls*: network calls for each hundred rows that a network reads, for victim and sentence encoder, by attack.
- *Certified low precision*: could candidates be scored in bf16 and only those be recomputed in fp32 that may decide?
  Every question of the attacks is answered in both formats by OpenVINO. Half of the texts give the bound: the largest
  deviation of a log-odds, times --widen. On the other half it is counted how many questions have to be recomputed: of
  a step's candidates those within twice the bound of the best, and those whose label could change; of the words that
  are ordered by their scores, those within twice the bound of a neighbour in the order. This is the least that must be
  recomputed: it counts nothing for what a step compares with the step before. With r the speed of bf16 relative to fp32
  and s this share, the victim's questions become at most 1 / (1 / r + s) times as fast.

The two formats are timed in turn, in CPU seconds, so that other load affects both. Prints the figures; --out FILE.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
from machine import processor

from rbench import config, recipes
from rbench.config.registry import Registry, search_path
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.inference import TokenRow, backends, build_rows
from rbench.encoders.inference.network import Network, build_tensors, divide_into_batches
from rbench.recipes.cached import GreedyWordSwapWIR
from rbench.schema import Choice, Outcome, ResourceChoice
from rbench.system.processes import cores
from rbench.tasks import open_task
from rbench.words.resources import Resources

RECIPES = ("textfooler", "pwws", "textbugger", "bae", "bertattack", "textfooler-adjusted")
ROUNDS = 3


class Step:
    """What an attack asked at once: texts, and whether their scores give the order of words."""

    def __init__(self, example: str, texts: list[Any], ordering: bool) -> None:
        self.example, self.texts, self.ordering = example, texts, ordering


class Recorder:
    """Listens to a victim while one example after the other is attacked."""

    def __init__(self, victim: recipes.Victim) -> None:
        self.victim, self.steps, self.example, self.ordering = victim, list[Step](), "", False

    @contextmanager
    def listening(self) -> Iterator[None]:
        kind, ask, order = type(self.victim), type(self.victim).__call__, GreedyWordSwapWIR._get_index_order
        truncated = kind.is_truncated
        recorder = self

        def asked(this: Any, texts: Any, **options: Any) -> Any:
            recorder.steps.append(Step(recorder.example, list(texts), recorder.ordering))
            recorder.ordering = False  # PWWS then asks for the candidates of each word
            return ask(this, texts, **options)

        def ordered(this: Any, *args: Any, **options: Any) -> Any:
            recorder.ordering, this.ask_ahead = True, False
            return order(this, *args, **options)

        def begins(this: Any, text: Any) -> bool:  # the first that an attack asks of an example
            recorder.example = str(text)
            return truncated(this, text)

        kind.__call__, GreedyWordSwapWIR._get_index_order, kind.is_truncated = asked, ordered, begins
        try:
            yield
        finally:
            kind.__call__, GreedyWordSwapWIR._get_index_order, kind.is_truncated = ask, order, truncated


class Calls:
    """Counts the calls of all networks, by name."""

    def __init__(self) -> None:
        self.sizes: dict[str, list[tuple[int, int]]] = defaultdict(list)

    @contextmanager
    def counting(self) -> Iterator[None]:
        whole, sizes = Network._whole, self.sizes

        def counted(this: Network, rows: list[TokenRow]) -> list[torch.Tensor]:
            sizes[this.name.partition(" ")[0]].append((len(rows), len(rows[0][0])))
            return whole(this, rows)

        Network._whole = counted  # type: ignore[method-assign]
        try:
            yield
        finally:
            Network._whole = whole  # type: ignore[method-assign]

    def shown(self) -> dict[str, Any]:
        return {
            name: {
                "calls": len(sizes),
                "rows": sum(rows for rows, _ in sizes),
                "calls_per_100_rows": round(100 * len(sizes) / sum(rows for rows, _ in sizes), 1),
                "tokens_per_call": round(statistics.mean(rows * tokens for rows, tokens in sizes), 1),
            }
            for name, sizes in self.sizes.items()
        }


class Bench:
    """The victim, the texts and the resources that all recipes share."""

    def __init__(self, args: argparse.Namespace) -> None:
        registry = Registry()
        self.args = args
        self.task = config.load_task(args.task, registry)
        self.specs = {name: config.load_attack(Choice(name=name), registry) for name in RECIPES}
        profile = config.load_resources(ResourceChoice(profile=args.resources), registry)
        rows = open_task(self.task, args.data).split("test")
        order = np.random.Generator(np.random.PCG64(args.seed)).permutation(len(rows))
        self.examples = [rows[i] for i in order[: args.n]]
        self.classifier, meta = EncoderClassifier.load(args.victim, "cpu")
        self.resources = Resources(profile, args.models, backend=args.backend)
        self.victim = recipes.Victim(self.classifier, "victim", max_length=meta.get("max_length"), backend=args.backend)

    def outcomes(self, name: str, n: int, **options: Any) -> list[Outcome]:
        """Attack the first n texts with a recipe, all caches empty."""
        self.victim.forget()
        self.resources.forget()
        spec = self.specs[name]

        def build() -> Any:
            return recipes.build(spec, self.victim, self.resources, self.task)

        return list(recipes.run(build, self.examples[:n], spec=spec, task=self.task, seed=self.args.seed, **options))

    def asked(self, name: str, before: set[TokenRow]) -> tuple[dict[str, Any], list[Step]]:
        """Return what a recipe asked, and its steps. `before` holds what earlier recipes asked; its rows are added."""
        recorder = Recorder(self.victim)
        with recorder.listening():
            outcomes = self.outcomes(name, self.args.n)
        asked = {row for step in recorder.steps for row in ids(self.victim, step.texts)}
        found = {
            "attacked": sum(one.status in ("succeeded", "failed") for one in outcomes),
            "queries": sum(one.num_queries or 0 for one in outcomes),
            "distinct": len(asked),
            "asked_before": len(asked & before),
            "share_asked_before": round(len(asked & before) / len(asked), 4),
        }
        before |= asked
        return found, recorder.steps


def main() -> None:
    args = parse()
    torch.set_num_threads(1)
    bench = Bench(args)
    before: set[TokenRow] = set()
    steps: dict[str, list[Step]] = {}
    found: dict[str, Any] = {}
    for name in RECIPES:
        found[name], steps[name] = bench.asked(name, before)
        found[name]["share_repeated_so_far"] = round(
            1 - len(before) / sum(one["distinct"] for one in found.values()), 4
        )
        for pooled in (4, 16):
            with (calls := Calls()).counting():
                bench.outcomes(name, args.few, pooled=pooled)
            found[name][f"networks_{pooled}_texts_at_once"] = calls.shown()
        print(name, json.dumps(found[name]), flush=True)
    report = {
        "what": "questions of six recipes to one victim; see benchmarks/questions.py",
        "machine": {
            "processor": processor(),
            "cores": cores(),
            "torch": torch.__version__,
            "backend": bench.victim.network.backend,
        },
        "task": bench.task.name,
        "n": args.n,
        "n_of_calls": args.few,
        "seed": args.seed,
        "victim": args.called,
        "recipes": found,
        "certified": certified(bench.victim, bench.classifier, steps, args.widen),
    }
    args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report["certified"], indent=1))


def logits(module: Any, **given: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = module(**given).logits
    return found


def ids(victim: recipes.Victim, texts: list[Any]) -> list[TokenRow]:
    return build_rows(victim.tokenizer(texts, truncation=True, max_length=victim.max_length)) if texts else []


# ------------------------------------------------------------------------------------------------------- low precision


def certified(victim: recipes.Victim, classifier: Any, steps: dict[str, list[Step]], widen: float) -> dict[str, Any]:
    """Return the speed and the deviations of bf16, and by recipe the share of questions that must be recomputed."""
    known = {name: [(step, ids(victim, step.texts)) for step in some if step.texts] for name, some in steps.items()}
    rows = list(dict.fromkeys(row for some in known.values() for _, found in some for row in found))
    exact, rough, seconds = both(victim, classifier, rows)
    ratio = statistics.median(a / b for a, b in zip(seconds["f32"], seconds["bf16"], strict=True))
    place = {row: i for i, row in enumerate(rows)}
    gaps = (exact.softmax(1) - rough.softmax(1)).abs().amax(1).numpy()
    odds = [(one[:, 1] - one[:, 0]).double().numpy() for one in (exact, rough)]
    texts = sorted({step.example for some in known.values() for step, _ in some})
    half = set(texts[::2])
    measured = {place[row] for some in known.values() for step, found in some if step.example in half for row in found}
    bound = widen * float(max(abs(odds[0][i] - odds[1][i]) for i in measured))
    shares = {
        name: round(
            share([(s, [odds[1][place[row]] for row in f]) for s, f in some if s.example not in half], bound), 4
        )
        for name, some in known.items()
    }
    outside = [abs(odds[0][i] - odds[1][i]) > bound for i in range(len(rows)) if i not in measured]
    return {
        "questions": len(rows),
        "times_as_fast": round(ratio, 2),
        "cpu_seconds": {name: [round(one, 3) for one in took] for name, took in seconds.items()},
        "largest_deviation_of_a_probability": float(f"{gaps.max():.3g}"),
        "99_percent": float(f"{np.quantile(gaps, 0.99):.3g}"),
        "median": float(f"{np.median(gaps):.3g}"),
        "predictions_changed": int((exact.argmax(1) != rough.argmax(1)).sum()),
        "bound_of_log_odds": round(bound, 4),
        "widened": widen,
        "beyond_the_bound_on_other_texts": int(sum(outside)),
        "other_questions": len(outside),
        "share_to_recompute": shares,
        "victim_at_most_times_as_fast": {name: round(1 / (1 / ratio + one), 2) for name, one in shares.items()},
    }


def both(
    victim: recipes.Victim, classifier: Any, rows: list[TokenRow]
) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Return the logits of all rows in fp32 and in bf16, and the CPU seconds of each round."""
    network = victim.network
    sample = partial(network._sample, victim.tokenizer)
    calls = {name: backends._compile_openvino(classifier, logits, sample, name) for name in ("f32", "bf16")}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    answers: dict[str, torch.Tensor] = {}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            out = torch.empty(len(rows), 2)
            took = 0.0
            for places in divide_into_batches(rows, network.max_rows, network.max_tokens, 1):
                given = build_tensors([rows[i] for i in places], network.pad, 1, network.device)
                start = time.process_time()
                out[places] = call(given).float()
                took += time.process_time() - start
            seconds[name].append(took)
            answers[name] = out
    kept = {name: took[1:] for name, took in seconds.items()}  # the first round compiles code for each shape
    return answers["f32"], answers["bf16"], kept


def share(steps: list[tuple[Step, list[float]]], bound: float) -> float:
    """Return the share of questions that decide, or may decide by the bound, of all that were asked."""
    total = needed = 0
    towards: dict[str, int] = {}
    for step, said in steps:
        odds = np.asarray(said)
        total += len(odds)
        if step.example not in towards:  # the first question says what the label is: away from it is better
            towards[step.example] = -1 if odds[0] > 0 else 1
            needed += len(odds)
        else:
            needed += deciding(towards[step.example] * odds, step.ordering, bound)
    return needed / total if total else 0.0


def deciding(odds: Any, ordering: bool, bound: float) -> int:
    """Count the scores that may decide: near the best or near a change of label; of an order, near a neighbour."""
    if ordering:
        close = np.diff(np.sort(odds)) <= 2 * bound
        return int((np.r_[False, close] | np.r_[close, False]).sum())
    return int(((odds >= odds.max() - 2 * bound) | (np.abs(odds) <= bound)).sum())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="mr")
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--few", type=int, default=10, help="how many of them for the counts of calls")
    parser.add_argument("--victim", type=Path, required=True, help="a folder that EncoderClassifier.save wrote")
    parser.add_argument("--called", default="minilm, probe", help="the victim's name in the file")
    parser.add_argument("--resources", default="local", help="a resource set")
    parser.add_argument("--models", type=Path, action="append", default=[])
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--backend", default="openvino")
    parser.add_argument("--widen", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "questions.json")
    args = parser.parse_args()
    args.models = search_path(args.models, "RBENCH_MODELS")
    args.data = search_path(args.data, "RBENCH_DATA")
    return args


if __name__ == "__main__":
    main()
