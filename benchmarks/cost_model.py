"""Compare the estimates of `rbench plan --estimate` with the seconds of the committed reference runs.

    python benchmarks/cost_model.py --data DATA        # prints a table; docs/scaling.md has some of its columns

Most of these runs had other work beside them. DATA is the folder with TASK/SPLIT.jsonl files, for the mean number of
words of each task. All networks count as MiniLM's, so jobs of larger ones are left out.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from rbench.config import load_attack
from rbench.config.registry import Registry
from rbench.execution.forecast import ACCURACY_FACTOR
from rbench.plan.work import (
    JOB_SECONDS,
    MEASURE_SECONDS,
    MINILM,
    NETWORK_RESOURCES,
    SAMPLE,
    TEXTS_A_QUERY,
    MachineSpeed,
)
from rbench.schema import AttackJob, FinetuneJob, PretrainJob, TaskSpec
from rbench.schema.results import Record
from rbench.store.runs import RunStore
from rbench.tables.results import load_plan

RUNS = Path(__file__).resolve().parent.parent / "results" / "reference"
GFLOPS = {"AMD": 101.8, "Intel": 160.0}
"""What `rbench.system.speed` measured on machines of the two kinds that `Provenance.platform` names, of two cores."""
LARGER = ("mpnet", "minilm-bytes-random")


def words(data: Path, task: TaskSpec) -> tuple[float, float]:
    """Return the mean words of an example of a task: those that attacks may change, and all."""
    named = (data / task.name / f"{split}.jsonl" for split in ("test", "all", "train"))
    file = next((path for path in named if path.exists()), None) or min((data / task.name).glob("*.jsonl"))
    with file.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for _, line in zip(range(SAMPLE), lines, strict=False)]
    counts = {name: sum(len(str(row.get(name) or "").split()) for row in rows) / len(rows) for name in task.columns}
    return sum(n for name, n in counts.items() if name != "premise"), sum(counts.values())


def estimated(record: Record, lengths: dict[str, tuple[float, float]], longest: int) -> float | None:
    """Return the seconds that a job is estimated to take on the machine of its record; None if nothing is known."""
    spec, seconds = record.job.spec, record.provenance.seconds
    scores = {score.name: score for score in record.scores}
    rate = next(rate for maker, rate in GFLOPS.items() if maker in record.provenance.platform)
    machine = MachineSpeed(rate, cores=2, workers=1)
    if isinstance(spec, AttackJob):
        busy = scores.get("seconds")
        if busy is None or not busy.value or not busy.n:
            return None
        attack = load_attack(spec.attack.name, Registry())  # records have what its file said at that time
        known = spec.attack.model_copy(update={"queries_per_word": attack.queries_per_word})
        aside = TEXTS_A_QUERY * sum(kind in spec.attack.needs for kind in NETWORK_RESOURCES)
        free, every = lengths[spec.task.name]
        gflop = MINILM.reading(1, every, longest) + aside * MINILM.reading(1, every)
        machine = MachineSpeed(rate, cores=2, workers=max(1, round(busy.value * busy.n / seconds)))
        return JOB_SECONDS + machine.attacks(spec.model_copy(update={"attack": known}), (free, every), gflop)
    if isinstance(spec, FinetuneJob):
        rows, scored = spec.training.train_rows(record.counts["train_rows"]), record.counts["n"]
        return JOB_SECONDS + machine.finetuning_seconds(spec, rows, scored, lengths[spec.task.name][1], MINILM)
    if isinstance(spec, PretrainJob):
        how = spec.encoder.train
        if how is None or (not how.steps and how.epochs):
            return None  # the number of texts is not in the record
        texts = (how.steps or 0) * how.batch_size * how.gradient_accumulation
        return JOB_SECONDS + machine.trains(how, texts, how.max_length / 2, MINILM)
    if record.job.what == "sts" and spec.task.name in lengths:
        return JOB_SECONDS + machine.reads(MINILM.reading(2 * record.counts["n"], lengths[spec.task.name][1] / 2))
    return JOB_SECONDS + MEASURE_SECONDS if record.job.what != "sts" else None


def compared(data: Path) -> Iterator[tuple[str, str, float, float]]:
    """Yield the run, the kind of job, and the estimated and measured seconds of the complete jobs, each once."""
    lengths: dict[str, tuple[float, float]] = {}
    seen: set[str] = set()
    for file in sorted(RUNS.glob("*.zip")):
        store = RunStore(file)
        plan = load_plan(store)
        tuned = {job.key: job.tuning.training.max_length for job in plan.jobs if job.tuning is not None}
        for record in sorted(store.records(plan), key=lambda one: one.job.name):
            job, task = record.job, getattr(record.job.spec, "task", None)
            if record.status != "complete" or job.key in seen:
                continue
            seen.add(job.key)
            if task is not None and task.name not in lengths and (data / task.name).is_dir():
                lengths[task.name] = words(data, task)
            known = task is None or task.name in lengths
            if not known or record.provenance.seconds < 1 or job.parts[0].partition("[")[0] in LARGER:
                continue
            longest = next((tuned[key] for key in job.needs.values() if key in tuned), 128)
            if (seconds := estimated(record, lengths, longest)) is not None:
                kind = f"attack {job.parts[-1]}" if job.attacking is not None else job.what or str(job.stage)
                yield file.stem, kind, seconds, record.provenance.seconds


def row(name: str, found: list[tuple[float, float]]) -> str:
    """Format how many jobs of a kind, their hours, the median ratio, the share within the factor, and the sum's."""
    ratios = [guess / truth for guess, truth in found]
    share = sum(1 / ACCURACY_FACTOR <= ratio <= ACCURACY_FACTOR for ratio in ratios) / len(ratios)
    total = sum(guess for guess, _ in found) / sum(truth for _, truth in found)
    hours = sum(truth for _, truth in found) / 3600
    return f"| {name} | {len(found)} | {hours:.2g} | {median(ratios):.2f} | {100 * share:.0f}% | {total:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    kinds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    runs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for run, kind, guess, truth in compared(parser.parse_args().data):
        for name in (kind, kind.partition(" ")[0] if " " in kind else "", "all"):
            if name:
                kinds["attacks" if name == "attack" else name].append((guess, truth))
        runs[run].append((guess, truth))
    print("| jobs | number | hours | median of estimate / measured | within a factor of 2 | sum / sum |")
    print("|---|---:|---:|---:|---:|---:|")
    print("\n".join(row(name, kinds[name]) for name in sorted(kinds)))
    print("\n".join(row(name, found) for name, found in runs.items()))
    sums = [sum(guess for guess, _ in found) / sum(truth for _, truth in found) for found in runs.values()]
    print(
        f"{sum(1 / ACCURACY_FACTOR <= ratio <= ACCURACY_FACTOR for ratio in sums)} of {len(sums)} runs are "
        "within the factor"
    )


if __name__ == "__main__":
    main()
