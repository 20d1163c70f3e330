"""Fit the constants of `rbench plan --estimate` to the committed reference runs, and measure how far off it is.

    python benchmarks/cost_model.py --data DATA        # writes rbench/plan/costs.json

A model that is fitted without a run predicts that run: the time of its attacks from the texts' lengths alone, and that
of its trainings. The reference runs were made on machines of two kinds, most of them with other work beside, so the
error holds how unlike two machines of this sort are. DATA is the folder with TASK/SPLIT.jsonl files, for the mean
number of words of each task.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rbench.plan import cost_model
from rbench.plan.cost_model import MINILM, REFERENCE, AttackCost, Costs, attack_seconds, reading, tokens_of
from rbench.store.runs import Store
from rbench.tables.results import plan_of

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "results" / "reference"
RESULTS = ROOT / "benchmarks" / "results"
ROWS = 200
FEWEST = 10
"""Words that an attack may replace at least, if its cell is to say how many queries an attack needs."""
OTHERS = ("mpnet", "minilm-bytes-random")
"""Encoders of the reference runs whose network or whose texts in pieces are larger than MINILM's: they are left out."""
STEPLESS = ("forget", "retrofit", "whitening")
"""Objectives that take no steps."""
Errors = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Cell:
    """One attack of a reference run."""

    run: str
    attack: str
    words: tuple[float, float]
    longest: int
    n: int
    attacked: int
    queries: float
    seconds: float
    """Of one process, for an attacked example."""

    @property
    def gflop(self) -> float:
        return MINILM.gflop(tokens_of(self.words[1], self.longest))


@dataclass(frozen=True)
class Training:
    """One training or evaluation of a reference run, with the GFLOP that it needs at least."""

    run: str
    stage: str
    name: str
    """The objective, or the strategy of a fine-tuning."""
    gflop: float
    """0: it took no steps."""
    seconds: float


def words(data: Path, task: dict[str, Any]) -> tuple[float, float]:
    """Return the mean words of an example of a task: those that attacks may change, and all."""
    folder = data / task["name"]
    named = (folder / f"{split}.jsonl" for split in ("test", "all", "train"))
    file = next((path for path in named if path.exists()), None) or min(folder.glob("*.jsonl"))
    with file.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for _, line in zip(range(ROWS), lines, strict=False)]
    counts = {name: sum(len(str(row.get(name) or "").split()) for row in rows) / len(rows) for name in task["columns"]}
    free = [n for name, n in counts.items() if name != "premise"]
    return sum(free), sum(counts.values())


def read(data: Path) -> tuple[list[Cell], list[Training]]:
    """Read all records of the reference runs. A training that several runs share is that of the first."""
    cells: list[Cell] = []
    seen: set[str] = set()
    trainings: list[Training] = []
    lengths: dict[str, tuple[float, float]] = {}
    for file in sorted(RUNS.glob("*.zip")):
        store = Store(file)
        plan = plan_of(store)
        jobs = {job.key: job.model_dump(mode="json") for job in plan.jobs}
        for found in sorted(store.records(plan), key=lambda record: record.job.name):
            record = found.model_dump(mode="json")
            spec, run = record["job"]["spec"], file.stem
            task = spec.get("task")
            if task and task["name"] not in lengths and (data / task["name"]).is_dir():
                lengths[task["name"]] = words(data, task)
            if record["status"] != "complete" or (task and task["name"] not in lengths):
                continue
            if record["job"]["key"] in seen or jobs_encoder(record) in OTHERS:
                continue
            seen.add(record["job"]["key"])
            if spec["stage"] == "attack":
                cells += _cell(run, record, jobs, lengths)
            else:
                trainings += _training(run, record, lengths)
    return cells, trainings


def jobs_encoder(record: dict[str, Any]) -> str:
    """Return the name of a job's encoder without its options; an empty one where it has none."""
    encoder = record["job"]["spec"].get("encoder") or ""
    return str(encoder if isinstance(encoder, str) else encoder["name"]).partition("[")[0]


def _cell(run: str, record: dict[str, Any], jobs: dict[str, Any], lengths: dict[str, Any]) -> Iterable[Cell]:
    spec, scores = record["job"]["spec"], {score["name"]: score for score in record["scores"]}
    times, queries = scores.get("seconds"), scores["queries"]
    needs = record["job"]["needs"]  # a list in the oldest records
    tuned = [jobs[key]["spec"] for key in (needs.values() if isinstance(needs, dict) else needs) if key in jobs]
    longest = next((one["training"]["max_length"] for one in tuned if one.get("training")), 128)
    limit = spec["attack"]["max_words"] or (spec["attack"].get("parameters") or {}).get("max_words") or FEWEST
    if times and times["value"] and queries["value"] and limit >= FEWEST:
        yield Cell(
            run=run,
            attack=spec["attack"]["name"],
            words=lengths[spec["task"]["name"]],
            longest=longest,
            n=spec["num_examples"],
            attacked=queries["n"],
            queries=queries["value"],
            seconds=times["value"],
        )


def _training(run: str, record: dict[str, Any], lengths: dict[str, Any]) -> Iterable[Training]:
    spec, seconds = record["job"]["spec"], record["provenance"]["seconds"]
    stage, counts = spec["stage"], record["counts"]
    if stage == "finetune":
        how, n = spec["training"], lengths[spec["task"]["name"]][1]
        rows = min(how["max_train"] or counts["train_rows"], counts["train_rows"])
        texts = how["epochs"] * (3 * rows + counts["n"])
        yield Training(run, stage, spec["strategy"]["name"], reading(MINILM, texts, n, how["max_length"]), seconds)
    elif stage == "pretrain" and spec["encoder"]["train"]["objective"] in STEPLESS:
        yield Training(run, stage, spec["encoder"]["train"]["objective"], 0.0, seconds)
    elif stage == "pretrain" and (how := spec["encoder"]["train"])["steps"]:
        texts = 3 * how["steps"] * how["batch_size"] * how.get("gradient_accumulation", 1)
        n = lengths[how["data"]][1] if how["data"] in lengths else how["max_length"] / 2
        gflop = reading(MINILM, texts, n, how["max_length"])
        yield Training(run, stage, how["objective"], gflop, seconds)
    elif stage == "measure" and spec["what"]["name"] == "sts":
        n = lengths[spec["task"]["name"]][1] / 2
        yield Training(run, stage, "", reading(MINILM, 2 * counts["n"], n, 512), seconds)


def _slope(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope of a line through points; None if they have one place."""
    mean = sum(x for x, _ in pairs) / len(pairs), sum(y for _, y in pairs) / len(pairs)
    over = sum((x - mean[0]) ** 2 for x, _ in pairs)
    return sum((x - mean[0]) * (y - mean[1]) for x, y in pairs) / over if over > 0.1 else None


def _fixed(cells: Sequence[Cell]) -> float | None:
    """Return the share of a query's time that does not grow with the text, from runs with short and long texts."""
    found = []
    for run in {cell.run for cell in cells}:
        there = [(cell.gflop / REFERENCE, cell.seconds / cell.queries) for cell in cells if cell.run == run]
        low, high = min(there), max(there)
        if high[0] > 3 * low[0]:
            grown = high[1] / low[1]  # = ((1 - s) high + s) / ((1 - s) low + s)
            share = (high[0] - grown * low[0]) / (high[0] - grown * low[0] + grown - 1)
            found.append(min(max(share, 0.0), 0.95))
    return median(found) if found else None


def fit(cells: Sequence[Cell], trainings: Sequence[Training], rest: dict[str, float]) -> dict[str, Any]:
    """Return the constants that fit these measurements. For attacks every run counts equally, whatever its cells."""
    names = sorted({cell.attack for cell in cells})
    of = {name: [cell for cell in cells if cell.attack == name] for name in names}
    slopes = {name: _slope([(math.log(c.words[0]), math.log(c.queries)) for c in found]) for name, found in of.items()}
    fixed = {name: _fixed(found) for name, found in of.items()}
    slope = median(x for x in slopes.values() if x is not None)
    share = median(x for x in fixed.values() if x is not None)
    attacks = {}
    for name, found in of.items():
        growth, still = slopes[name], fixed[name]
        growth, still = min(growth if growth is not None else slope, 1.5), share if still is None else still
        python = rest.get(name, median(rest.values()))
        still = max(still, python)  # Python's part does not grow with the text, whatever the runs seem to say
        scale = [(c.run, c.seconds / c.queries / ((1 - still) * c.gflop / REFERENCE + still)) for c in found]
        asked = [(c.run, c.queries / c.words[0] ** growth) for c in found]
        attacks[name] = AttackCost(
            queries=_round(_by_run(asked)),
            growth=_round(growth),
            seconds=_round(_by_run(scale)),
            fixed=_round(still),
            python=_round(python),
            cells=len(found),
        )
    fields = ("queries", "growth", "seconds", "fixed", "python")
    middle = {field: median(getattr(cost, field) for cost in attacks.values()) for field in fields}
    scored = [(t.run, t.seconds / t.gflop) for t in trainings if t.stage == "measure"]
    training, tuning = (_rates(trainings, stage) for stage in ("pretrain", "finetune"))
    fitted = {t.name: [one.seconds for one in trainings if one.name == t.name] for t in trainings if not t.gflop}
    return {
        "attacks": attacks,
        "other": AttackCost(**middle),
        "attacked": _round(median(cell.attacked / cell.n for cell in cells)),
        "tuning": tuning,
        "other_tuning": _round(median(tuning.values())),
        "training": training,
        "other_training": _round(median(training.values())),
        "fitted": {name: _round(median(seconds)) for name, seconds in fitted.items()},
        "evaluation": _round(_by_run(scored)),
    }


def _rates(trainings: Sequence[Training], stage: str) -> dict[str, float]:
    """Return seconds for a GFLOP by name. Each second counts equally, since what a start takes is not in proportion."""
    of = {name: [t for t in trainings if t.stage == stage and t.name == name and t.gflop] for name in _names(trainings)}
    return {
        name: _round(sum(t.seconds for t in found) / sum(t.gflop for t in found)) for name, found in of.items() if found
    }


def _names(trainings: Sequence[Training]) -> list[str]:
    return sorted({t.name for t in trainings})


def _by_run(values: Sequence[tuple[str, float]]) -> float:
    return median(median(x for run, x in values if run == one) for one in {run for run, _ in values})


def _round(x: float) -> float:
    return float(f"{x:.3g}")


def predicted(model: Costs, cell: Cell) -> float:
    """Return the seconds that the model gives a cell, if it knows the texts and not the queries."""
    each = attack_seconds(model, cell.attack, MINILM, cell.words, cell.longest)
    return cell.n * (each.network + each.python)


def predicted_training(model: Costs, one: Training) -> float:
    """Return the seconds that the model gives a training or an evaluation."""
    if one.stage == "measure":
        return one.gflop * model.evaluation
    if not one.gflop:
        return model.fitted.get(one.name, 0.0)
    if one.stage == "finetune":
        return one.gflop * model.tuning.get(one.name, model.other_tuning)
    return one.gflop * model.training.get(one.name, model.other_training)


def left_out(cells: list[Cell], trainings: list[Training], rest: dict[str, float], more: dict[str, Any]) -> Errors:
    """Predict each run by a model without it. Return its measured hours, and predicted over measured ones."""
    errors: dict[str, dict[str, float]] = {}
    for run in sorted({cell.run for cell in cells}):
        ours, train = [c for c in cells if c.run == run], [t for t in trainings if t.run == run]
        others = [c for c in cells if c.run != run], [t for t in trainings if t.run != run]
        model = Costs(**more, **fit(*others, rest), errors={}, spread=1.0)
        truth = sum(c.attacked * c.seconds for c in ours), sum(t.seconds for t in train)
        guess = sum(predicted(model, c) for c in ours), sum(predicted_training(model, t) for t in train)
        errors[run] = {
            "hours": _round(sum(truth) / 3600),
            "attacks": _round(guess[0] / truth[0]),
            "trainings": _round(guess[1] / truth[1]) if train else 1.0,
            "all": _round(sum(guess) / sum(truth)),
        }
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=cost_model.FILE)
    given = parser.parse_args()
    profile = json.loads((RESULTS / "scaling.json").read_text())
    rest = {row["attack"]: row["share"]["rest"] for row in profile["profile"]["attacks"]}
    cells, trainings = read(given.data)
    more = {
        "what": "made by benchmarks/cost_model.py from results/reference and benchmarks/results/scaling.json",
        "machine": f"{profile['machine']['processor']}, {profile['machine']['cores']} cores",
        "gflops": profile["profile"]["gflops_matmul_one_thread"]["torch"],
        "start": _round(_start()),
        "bytes_of_outcome": _round(_bytes()),
    }
    errors = left_out(cells, trainings, rest, more)
    off = sorted(max(error["all"], 1 / error["all"]) for error in errors.values())
    spread = _round(off[math.ceil(0.8 * len(off)) - 1])
    model = Costs(**more, **fit(cells, trainings, rest), errors=errors, spread=spread)
    given.out.write_text(model.model_dump_json(indent=1) + "\n", encoding="utf-8")
    print(f"{len(cells)} cells, {len(trainings)} trainings; four of five runs within a factor of {spread}")
    for run, error in errors.items():
        print(f"{run:32} {error['hours']:6} h  predicted/measured: {error}")


def _start() -> float:
    """Measure the processor time that a process takes to import what attacks need."""
    subprocess.run([sys.executable, "-c", "import rbench.recipes, rbench.execution, textattack"], check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _bytes() -> float:
    stores = [(store, job) for store in map(Store, sorted(RUNS.glob("*.zip"))) for job in plan_of(store).attacks]
    lines = [line for store, job in stores for line in (store.content(job) or b"").splitlines()]
    return sum(map(len, lines)) / len(lines)


if __name__ == "__main__":
    main()
