"""Measure `rbench audit`: how often it finds fault with honest logs, and how often it misses a planted fault.

    python benchmarks/audit.py --models DIR --data DIR

Honest logs are those of stock TextAttack's CSV logger, 100 texts each, on the victims and with the recipes of `CASES`:
classifiers of the embedded world (one text, pairs, and one whose answers vary), and MiniLM-L3 with a fitted head on MR.
Each kind of fault of `FAULTS` is planted into each honest log that has lines for it, in at most `FEW` lines where it is
one of lines. `--seeds` draw texts, faults and lines. Those of `BUILT_WITH` were looked at while the checks were built,
and their rates are not written.

A fault is `found` if the check that is to find it does, and `noticed` if only others do. A false alarm is a check that
finds a fault in an honest log.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import json
import platform
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
from machine import cores, processor
from stock import StockWrapper, build_stock, stock
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from victims import make

import rbench
from rbench import config
from rbench.config.registry import Registry, search_path
from rbench.execution.attacks import sample
from rbench.tasks import Example, open_task
from rbench.words.resources import Resources
from rbench.words.resources import locate as locate_resources

# isort: split
from textattack import AttackArgs, Attacker
from textattack.datasets import Dataset
from textattack.models.wrappers import ModelWrapper

BUILT_WITH = (0, 1, 2)
TEXTS, LENGTH, FITTED, FEW = 100, 48, 2000, 3
EPOCHS, LEARNING_RATE = 4, 1e-3
NOISE = 0.3
"""Standard deviation of what the varying victim adds to its logits."""
Rows = list[dict[str, str]]


@dataclass(frozen=True)
class Case:
    """A victim with its task, the resources of attacks on it, and the recipes that attack it."""

    name: str
    task: str
    encoder: str
    resources: str
    recipes: tuple[str, ...]
    noise: float = 0.0


CASES = (
    Case("mini", "mini-sentiment", "mini-bert-packaged", "mini", ("pwws", "DeepWordBugGao2018")),
    Case("mini pairs", "mini-nli", "mini-bert-packaged", "mini", ("textfooler",)),
    Case("mini varying", "mini-sentiment", "mini-bert-packaged", "mini", ("DeepWordBugGao2018",), NOISE),
    Case("MiniLM-L3 on MR", "mr", "minilm-l3", "local", ("DeepWordBugGao2018",)),
)


class VaryingWrapper(ModelWrapper):
    """A classifier that adds noise to its logits."""

    def __init__(self, inner: StockWrapper, seed: int) -> None:
        self.inner, self.model, self.random = inner, inner.model, np.random.default_rng(seed)

    def __call__(self, texts: list[Any]) -> torch.Tensor:
        logits = torch.as_tensor(self.inner(texts))
        return logits + NOISE * torch.from_numpy(self.random.normal(size=tuple(logits.shape))).float()


# ------------------------------------------------------------------------------------------------------- honest logs


def drawn(case: Case, seed: int, args: argparse.Namespace) -> list[Example]:
    """Return the texts of a log. They are distinct: the embedded world says the same twice."""
    task = config.load_task(case.task, Registry())
    examples = sample(open_task(task, args.data).split("test"), 4 * TEXTS, seed, task.name)
    return list({example.texts: example for example in examples}.values())[:TEXTS]


def trained(case: Case, args: argparse.Namespace, folder: Path) -> Any:
    """Save a classifier of the case's encoder in a folder, and return it.

    MiniLM gets a fitted head. The networks of the embedded world, which knew no classes, are fine-tuned.
    """
    task = config.load_task(case.task, Registry())
    data = open_task(task, args.data)
    train = sample(data.split("train"), FITTED, 0, task.name)
    about = SimpleNamespace(encoder=case.encoder, models=args.models)
    partial = folder.with_suffix(".partial")
    make(about, task, train, train[:100], partial)  # type: ignore[arg-type]
    model = opened(partial)
    model.tokenizer.model_max_length = LENGTH  # what the attack reads of a text, the audit must read
    model.tokenizer.save_pretrained(partial)
    if case.resources == "mini":
        torch.manual_seed(0)
        optimizer = torch.optim.AdamW(model.train().parameters(), lr=LEARNING_RATE)
        for _ in range(EPOCHS):
            order = torch.randperm(len(train)).tolist()
            for start in range(0, len(train), 32):
                batch = [train[i] for i in order[start : start + 32]]
                columns = [list(column) for column in zip(*(one.texts for one in batch), strict=True)]
                inputs = model.tokenizer(*columns, padding=True, truncation=True, return_tensors="pt")
                loss = model(**inputs, labels=torch.tensor([one.label for one in batch])).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        model.save_pretrained(partial)
    partial.rename(folder)
    return model.eval()


def opened(folder: Path) -> Any:
    model = AutoModelForSequenceClassification.from_pretrained(folder).float().eval()
    model.tokenizer = AutoTokenizer.from_pretrained(folder)
    return model


def honest(case: Case, recipe: str, seed: int, model: Any, args: argparse.Namespace, path: Path) -> Path:
    """Let stock TextAttack attack 100 texts, and write its CSV log, unless it is there."""
    if path.exists():
        return path
    registry = Registry()
    task, spec = config.load_task(case.task, registry), config.load_attack(recipe, registry)
    resource_set = config.load_resources(case.resources, registry)
    places = locate_resources(resource_set, {kind: [recipe] for kind in spec.needs}, args.models)
    resources = Resources(resource_set, places=places)
    attack = build_stock(spec, model, LENGTH, resources, task)
    if case.noise:
        attack.goal_function.model = VaryingWrapper(attack.goal_function.model, seed)
    rows = [(one.texts[0] if len(one.texts) == 1 else one.texts, one.label) for one in drawn(case, seed, args)]
    dataset = Dataset(rows, input_columns=list(task.columns))
    settings = AttackArgs(
        num_examples=len(rows), log_to_csv=str(path), disable_stdout=True, silent=True, random_seed=seed
    )
    with stock(resources), redirect_stdout(io.StringIO()):
        Attacker(attack, dataset, settings).attack_dataset()
    return path


# ---------------------------------------------------------------------------------------------------- planted faults


def read(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def written(rows: Rows, path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows(rows)
    return path


class Unfit(Exception):
    """The log has no lines for a fault of this kind."""


def some(
    rows: Rows, draw: random.Random, *kinds: str, fits: Callable[[dict[str, str]], bool] = lambda row: True
) -> Rows:
    """Draw lines of these result types."""
    fitting = [row for row in rows if row["result_type"] in kinds and fits(row)]
    if not fitting:
        raise Unfit
    return draw.sample(fitting, min(FEW, len(fitting)))


def other_label(label: str) -> str:
    return str((int(float(label)) + 1) % 2)


def retyped(old: str, new: str, *, outputs: bool = True) -> Callable[..., Rows]:
    """Return a fault that gives lines another result, and with `outputs` outputs that fit it."""

    def plant(rows: Rows, draw: random.Random) -> Rows:
        for row in some(rows, draw, old):
            row["result_type"] = new
            if outputs:
                truth = row["ground_truth_output"]
                row["original_output"] = other_label(truth) if new == "Skipped" else truth
                row["perturbed_output"] = truth if new == "Failed" else other_label(truth)
        return rows

    return plant


def exchanged_labels(rows: Rows, draw: random.Random) -> Rows:
    for row in rows:
        for name in ("ground_truth_output", "original_output", "perturbed_output"):
            row[name] = other_label(row[name])
    return rows


def wrong_labels(rows: Rows, draw: random.Random) -> Rows:
    for row in some(rows, draw, "Successful", "Failed"):
        for name in ("ground_truth_output", "original_output", "perturbed_output"):
            row[name] = other_label(row[name])
    return rows


def repeated(rows: Rows, draw: random.Random) -> Rows:
    return [*rows, *map(dict, some(rows, draw, "Successful"))]


def repeated_in_capitals(rows: Rows, draw: random.Random) -> Rows:
    copies = [dict(row) for row in some(rows, draw, "Successful")]
    for row in copies:
        row["original_text"] = recased(row["original_text"]).replace(" ", "  ")
    return [*rows, *copies]


MARK = re.compile(r"(?<!\[)\[\[([^\[\]]*)\]\](?!\])")
"""A marked word, and not the name of a column."""


def unmark(text: str, count: int = 0) -> str:
    return MARK.sub(r"\1", text, count=count)


def recased(text: str) -> str:
    """Return a text in another case, with the names of its columns as they are."""
    parts = re.split(r"(<SPLIT>|\[\[\[\[\w+\]\]\]\])", text)
    return "".join(part if re.match(r"<SPLIT>|\[\[\[\[", part) else part.swapcase() for part in parts)


def unchanged(change: Callable[[str], str]) -> Callable[..., Rows]:
    """Return a fault that puts the original, or one with other case or spaces, in the place of successes."""

    def plant(rows: Rows, draw: random.Random) -> Rows:
        for row in some(rows, draw, "Successful"):
            row["original_text"] = unmark(row["original_text"])
            row["perturbed_text"] = change(row["original_text"])
        return rows

    return plant


def changed_premises(rows: Rows, draw: random.Random) -> Rows:
    for row in some(rows, draw, "Successful", "Failed", fits=lambda row: "[[[[Premise]]]]" in row["original_text"]):
        head, tail = row["perturbed_text"].split("<SPLIT>", 1)
        row["perturbed_text"] = f"{head} [[indeed]]<SPLIT>{tail}"
    return rows


def marks_lost(rows: Rows, draw: random.Random) -> Rows:
    """Leave the first mark out, so that a word less seems to be changed."""
    for row in some(rows, draw, "Successful", fits=lambda row: unmark(row["original_text"]) != row["original_text"]):
        for name in ("original_text", "perturbed_text"):
            row[name] = unmark(row[name], count=1)
    return rows


def edited_after(rows: Rows, draw: random.Random) -> Rows:
    """Change a word that the attack left alone."""
    for row in some(rows, draw, "Successful", "Failed"):
        row["perturbed_text"] += " truly"
    return rows


def exchanged_texts(rows: Rows, draw: random.Random) -> Rows:
    """Exchange the perturbed texts of lines, as a wrong join of two files does."""
    lines = some(rows, draw, "Successful")
    texts = [row["perturbed_text"] for row in lines]
    if len(lines) < 2:
        raise Unfit
    for row, text in zip(lines, [*texts[1:], texts[0]], strict=True):
        row["perturbed_text"] = text
    return rows


def cut(rows: Rows, draw: random.Random) -> Rows:
    """Cut perturbed texts in half, as a database column that is too short does."""
    for row in some(rows, draw, "Successful", "Failed"):
        text = unmark(row["perturbed_text"])
        row["perturbed_text"] = text[: len(text) * 3 // 4].rsplit(" ", 1)[0]
    return rows


def other_scores(rows: Rows, draw: random.Random) -> Rows:
    for row in some(rows, draw, "Successful", "Failed"):
        row["original_score"] = str(round(float(row["original_score"]) / 2, 6) + 0.25)
    return rows


def contradicting(rows: Rows, draw: random.Random) -> Rows:
    for row in some(rows, draw, "Successful"):
        row["perturbed_output"] = row["ground_truth_output"]
    return rows


def as_they_are(rows: Rows, draw: random.Random) -> Rows:
    return rows


@dataclass(frozen=True)
class Fault:
    """A kind of fault: how it is planted, and which check is to find it."""

    name: str
    expected: str
    plant: Callable[..., Rows] = as_they_are
    victim: str = ""
    """`other`: the log is audited with another victim than it was made with; `head`: with another head; `random`."""
    rate: str = ""
    """A rate that is stated with the log: `all` texts in the denominator, or `more` than the log's by two points."""


FAULTS = (
    Fault("failures called successes", "successes", retyped("Failed", "Successful")),
    Fault("successes called failures", "failures", retyped("Successful", "Failed")),
    Fault("skipped texts called successes", "skipped", retyped("Skipped", "Successful")),
    Fault("skipped texts called failures", "skipped", retyped("Skipped", "Failed")),
    Fault("failures hidden as skipped", "skipped", retyped("Failed", "Skipped")),
    Fault("all labels exchanged", "labels", exchanged_labels),
    Fault("some labels wrong", "skipped", wrong_labels),
    Fault("lines repeated", "duplicates", repeated),
    Fault("lines repeated with other case and spaces", "duplicates", repeated_in_capitals),
    Fault("originals as successes", "empty changes", unchanged(lambda text: text)),
    Fault("changes of case as successes", "empty changes", unchanged(recased)),
    Fault("changes of spaces as successes", "empty changes", unchanged(lambda text: text.replace(" ", "  "))),
    Fault("premises changed", "premises", changed_premises),
    Fault("marks lost", "words changed", marks_lost),
    Fault("texts edited after the attack", "words changed", edited_after),
    Fault("perturbed texts exchanged", "words changed", exchanged_texts),
    Fault("perturbed texts cut", "words changed", cut),
    Fault("scores changed", "scores", other_scores),
    Fault("outputs contradict results", "own outputs", contradicting),
    Fault("results without their outputs", "own outputs", retyped("Failed", "Successful", outputs=False)),
    Fault("skipped texts in the stated rate", "stated rate", rate="all"),
    Fault("stated rate two points too high", "stated rate", rate="more"),
    Fault("another head", "scores", victim="head"),
    Fault("a victim near chance", "near chance", victim="random"),
)


def stated(rows: Rows, how: str) -> float | None:
    """Return the rate that is stated with a log, in percent."""
    succeeded, failed = (sum(row["result_type"] == kind for row in rows) for kind in ("Successful", "Failed"))
    if how == "all" and succeeded + failed == len(rows):
        raise Unfit
    n = len(rows) if how == "all" else succeeded + failed
    return round(100 * succeeded / n + (2 if how == "more" else 0), 1) if how else None


# -------------------------------------------------------------------------------------------------------- the audits


class Asked:
    """A classifier as a function, which computes each text once: hundreds of audits ask for the same texts.

    With `noise` each answer is another one.
    """

    def __init__(self, model: Any, noise: float, seed: int) -> None:
        self.model, self.noise, self.random = model, noise, np.random.default_rng(10_000 + seed)
        self.known: dict[Any, Any] = {}

    def logits(self, texts: list[Any]) -> Any:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        for start in range(0, len(new), 64):
            part = new[start : start + 64]
            columns = [list(column) for column in zip(*((t,) if isinstance(t, str) else t for t in part), strict=True)]
            inputs = self.model.tokenizer(
                *columns, padding=True, truncation=True, max_length=LENGTH, return_tensors="pt"
            )
            with torch.inference_mode():
                self.known.update(zip(part, self.model(**inputs).logits.double().numpy(), strict=True))
        return np.stack([self.known[text] for text in texts])

    def __call__(self, texts: list[Any]) -> Any:
        rows = self.logits(texts)
        rows = rows + self.noise * self.random.normal(size=rows.shape)
        rows = np.exp(rows - rows.max(axis=1, keepdims=True))
        return (rows / rows.sum(axis=1, keepdims=True)).tolist()


def other_head(folder: Path, seed: int) -> Any:
    """Return the classifier with a head that differs a little, as another training's does."""
    model = opened(folder)
    weight = model.classifier.weight
    noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
    weight.data += 0.25 * noise * weight.norm() / noise.norm()
    return model


def random_head(folder: Path, seed: int, texts: list[Any]) -> Any:
    """Return the classifier with a random head that gives each label as often as the others."""
    model = opened(folder)
    weight, bias = model.classifier.weight, model.classifier.bias
    weight.data = torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
    bias.data.zero_()
    bias.data -= torch.from_numpy(np.median(Asked(model, 0.0, 0).logits(texts), axis=0)).float()
    return model


def audited(victim: Any, labels: tuple[str, ...], log: Path, rate: float | None) -> Any:
    return rbench.audit_log(log, victim, label_names=labels, stated_rate=rate, progress=False)


def measured(args: argparse.Namespace, seeds: tuple[int, ...], folder: Path) -> dict[str, Any]:
    """Make all logs, audit them as they are and with each fault, and count."""
    logs: list[dict[str, Any]] = []
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    details: list[dict[str, Any]] = []
    for case in CASES:
        labels = config.load_task(case.task, Registry()).labels
        place = folder / case.task
        model = opened(place) if place.exists() else trained(case, args, place)
        for seed in seeds:
            texts = [one.texts[0] if len(one.texts) == 1 else one.texts for one in drawn(case, seed, args)]
            victims = {"": model, "head": other_head(place, seed), "random": random_head(place, seed, texts)}
            asked = {name: Asked(victim, case.noise, seed) for name, victim in victims.items()}
            near_chance = folder / f"{case.name}-random-{seed}.csv"
            if case.resources == "mini":  # on MR it would cost more than it tells
                honest(case, case.recipes[-1], seed, victims["random"], args, near_chance)
            for recipe in case.recipes:
                started = time.monotonic()
                log = honest(case, recipe, seed, model, args, folder / f"{case.name}-{recipe}-{seed}.csv")
                report = audited(asked[""] if case.noise else str(place), labels, log, None)
                entry = {"case": case.name, "recipe": recipe, "seed": seed}
                counts = Counter(row["result_type"] for row in read(log))
                logs.append(
                    entry
                    | {"results": dict(counts), "seconds": round(time.monotonic() - started, 1)}
                    | {"false_alarms": {check.name: check.summary for check in report.faults}}
                    | {"not_checkable": [check.name for check in report.checks if check.verdict == "not checkable"]}
                )
                print(json.dumps(logs[-1]), flush=True)
                clean = {check.name for check in report.faults}
                for fault in FAULTS:
                    draw = random.Random(f"{seed}/{case.name}/{recipe}/{fault.name}")
                    try:
                        if fault.victim == "random" and not near_chance.exists():
                            raise Unfit
                        rows = read(near_chance if fault.victim == "random" else log)
                        rate = stated(rows, fault.rate)
                        planted = written(fault.plant(rows, draw), folder / "planted.csv")
                    except Unfit:
                        outcomes[fault.name]["no lines for it"] += 1
                        continue
                    faults = {check.name for check in audited(asked[fault.victim], labels, planted, rate).faults}
                    outcome = "found" if fault.expected in faults else "noticed" if faults - clean else "missed"
                    outcomes[fault.name][outcome] += 1
                    if outcome != "found":
                        details.append(entry | {"fault": fault.name, "outcome": outcome, "by": sorted(faults - clean)})
                        print(json.dumps(details[-1]), flush=True)
    alarms = Counter(name for log in logs for name in log["false_alarms"])
    total = Counter[str]()
    for counts in outcomes.values():
        total.update(counts)
    return {
        "honest_logs": len(logs),
        "honest_logs_with_a_false_alarm": sum(bool(log["false_alarms"]) for log in logs),
        "false_alarms_by_check": dict(alarms),
        "planted": sum(total[name] for name in ("found", "noticed", "missed")),
        "outcomes": dict(total),
        "faults": {fault.name: {"expected": fault.expected, **outcomes[fault.name]} for fault in FAULTS},
        "not_found": details,
        "logs": logs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4], help="draw texts and faults")
    parser.add_argument("--models", type=Path, action="append", default=[], help="model search path (RBENCH_MODELS)")
    parser.add_argument("--data", type=Path, action="append", default=[], help="data search path (RBENCH_DATA)")
    parser.add_argument("--logs", type=Path, help="keep classifiers and honest logs here, and go on with those there")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "audit.json")
    args = parser.parse_args()
    args.models, args.data = search_path(args.models, "RBENCH_MODELS"), search_path(args.data, "RBENCH_DATA")
    torch.set_num_threads(1)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.logs or Path(scratch)
        folder.mkdir(exist_ok=True)
        kept = len([*folder.glob("*.csv")])
        found = measured(args, tuple(args.seeds), folder)
    document = {
        "what": "rbench audit on logs of stock TextAttack: false alarms on honest logs, and faults planted into them",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {"processor": processor(), "cores": cores(), "python": platform.python_version()},
        "versions": {name: version(name) for name in ("torch", "transformers", "textattack")},
        "cpu_seconds": round(time.process_time() - started),
        "logs_of_an_earlier_process": kept,
        "seeds": args.seeds,
        "built_with_seeds": BUILT_WITH,
        "texts_a_log": TEXTS,
        "lines_at_most": FEW,
        **found,
    }
    print(json.dumps({name: value for name, value in document.items() if name not in ("logs", "not_found")}, indent=1))
    if not set(args.seeds) & set(BUILT_WITH):
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
