"""Measures rbench on a GPU: equal outcomes, speed of attacks and trainings, and precisions.

    python benchmarks/gpu.py --models DIR --data DIR --work DIR        # NLTK_DATA names the NLTK data

Stages, in their order (--stages chooses some):

machine    the GPU, driver and versions, and the rate of a large matrix product in each precision
tune       fine-tuning of BERT base's shape on MR and IMDB, and of MiniLM on MR, which makes the trained victims
equality   the five recipes and Geometry on --equal-texts texts of MR against the fine-tuned MiniLM, on the CPU and
           the GPU of this machine, and on the GPU with 8 in place of 64 texts at once. Differences are kept with both
           final texts and the victim's probabilities of them
train      steps of training objectives at BERT base's shape, with the batch and length of `table1`
attacks    the five recipes on MR and IMDB, on the trained victims and on random weights: in one process, in several on
           the same GPU, and on the CPU of the machine
stock      stock TextAttack on the GPU, beside rbench in one process, on the same few texts of MR
precision  the trained victims in other number formats than fp32, on changed texts that TextFooler asked (`precisions`)

No pretrained BERT base is at hand. The trained networks of its shape begin as the masked LM of the profile `local`,
widened (`benchmarks/widened.py`) without a change of what it computes, and are fine-tuned whole. They know what a
network of MiniLM's size knows, so their numbers of questions are not BERT's. The victims with random weights are those
of `benchmarks/papers_scale.py`; so is the masked LM of the attacks.

--out FILE gets each cell when it ends, and cells in it are not measured again. --work DIR keeps networks and outcomes.
--small tries everything at a size for a CPU. --seconds ends the script before a cell that would begin later.

On an NVIDIA H200 with 16 cores results/gpu.json took 29 minutes. All 600 outcomes were the same on the CPU and on the
GPU. Python, not the GPU, was the limit on short texts. docs/scaling.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from equality import RECIPES, StockAttack, versions
from machine import cores, processor
from papers_scale import Networks, counted, summary
from precisions import precisions, rate, synchronized
from stock import build_stock, stock
from throughput import differences

from rbench import config, encoders, recipes
from rbench.config import code
from rbench.config.registry import search_path
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.classify import classify
from rbench.recipes.engine import AttackEngine
from rbench.schema import Choice, EncoderSpec, Outcome, TrainSpec
from rbench.system import digests
from rbench.tasks import Example, open_task
from rbench.train.finetune import FinetuneContext, strategy
from rbench.train.loop import pretrain
from rbench.words.resources import Resources, locate

ATTACKS = (*RECIPES, "geometry")
LENGTHS = {"mr": 128, "imdb": 512}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "simcse": {},
    "uscal": {},
    "robustembed": {"batch_size": 128},
    "robustsentembed": {"batch_size": 128},
    "adcl": {"max_length": 128, "options": {"max_words": 10, "share": 0.2, "candidates": 25, "queue": 4096}},
}
"""Objectives with what differs from a batch of 64 and 32 tokens. ADCL's paper has batches of 1,024."""
WARM_STEPS = 5


def main() -> None:
    args = parse()
    logging.getLogger("rbench").setLevel(logging.ERROR)
    document: dict[str, Any] = json.loads(args.out.read_text("utf-8")) if args.out.exists() else {}
    bench = Bench(args, document)
    for stage in args.stages:
        print(f"== {stage}, {time.perf_counter() - args.began:.0f} s", flush=True)
        MEASURES[stage](bench)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", nargs="+", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument("--models", type=Path, action="append", default=[], help="also RBENCH_MODELS")
    parser.add_argument("--data", type=Path, action="append", default=[], help="also RBENCH_DATA")
    parser.add_argument("--work", type=Path, required=True, help="a folder for networks and outcomes")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--equal-texts", type=int, default=100)
    parser.add_argument("--texts", type=int, default=256, help="texts of a cell on MR; of IMDB an eighth")
    parser.add_argument("--stock-texts", type=int, default=8)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4, 8], help="worker processes on the GPU")
    parser.add_argument("--pooled", type=int, help="texts under way at once in each of several processes")
    parser.add_argument("--budget", type=float, default=30, help="seconds after which a cell begins no further text")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no cell after so many")
    parser.add_argument("--cells", help="only cells whose name contains this")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "gpu.json")
    args = parser.parse_args()
    args.began = time.perf_counter()
    args.models, args.data = search_path(args.models, "RBENCH_MODELS"), search_path(args.data, "RBENCH_DATA")
    args.texts = 8 if args.small else args.texts
    args.calibrate = 8 if args.small else 32
    return args


class Bench:
    """The document with what was measured, and the networks."""

    def __init__(self, args: argparse.Namespace, document: dict[str, Any]) -> None:
        self.args, self.document = args, document
        self._networks: Networks | None = None

    @property
    def networks(self) -> Networks:
        """The networks of BERT base's shape; made on first use."""
        if self._networks is None:
            self.args.work.mkdir(parents=True, exist_ok=True)
            self._networks = Networks(self.args, self.args.work)
        return self._networks

    def cell(self, stage: str, name: str, measure: Callable[[], Any]) -> Any:
        """Measure a cell unless the document has it, and write the document."""
        cells = self.document.setdefault(stage, {})
        if not self.wants(stage, name):
            return cells.get(name)
        cells[name] = found = measure()
        short = {key: value for key, value in found.items() if key != "records"} if isinstance(found, dict) else found
        print(f"{time.perf_counter() - self.args.began:.0f} s", stage, name, json.dumps(short), flush=True)
        write(self.args.out, self.document)
        return found

    def wants(self, stage: str, name: str) -> bool:
        """Whether a cell is still to be measured, and may begin now."""
        chosen = name not in self.document.get(stage, {}) and (self.args.cells is None or self.args.cells in name)
        return chosen and time.perf_counter() - self.args.began <= self.args.seconds

    def task(self, name: str) -> tuple[Any, list[Example]]:
        """Return a task and its test texts in the order of the seed."""
        task = config.load_task(name, self.networks.registry)
        rows = open_task(task, self.args.data).split("test")
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(self.args.seed)).tolist()
        return task, [rows[i] for i in order]

    def attack_task(self, recipe: str, task: Any, folder: Path, *, wide: bool = True) -> recipes.AttackTask:
        """Return an attack on the victim in a folder; `wide`: with the masked LM of BERT base's shape."""
        networks = self.networks
        spec = config.load_attack(Choice(name=recipe), networks.registry)
        path = None if spec.recipe else code.find("attacks", recipe, networks.registry).path
        places = locate(networks.profile, spec.needs, self.args.models)
        if wide and "masked_lm" in places:
            places["masked_lm"] = digests.locate_folder(networks.masked_lm)
        return recipes.AttackTask(
            spec,
            path,
            task,
            self.args.seed,
            digests.locate_folder(folder),
            folder.name,
            networks.profile,
            tuple(places.items()),
        )


def write(out: Path, document: dict[str, Any]) -> None:
    """Write the file in one step."""
    content = {"what": "rbench on a GPU; see benchmarks/gpu.py, which says what each part can show"} | document
    out.with_suffix(".tmp").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    out.with_suffix(".tmp").replace(out)


def machine(bench: Bench) -> None:
    def measure() -> dict[str, Any]:
        on_gpu = bench.args.device != "cpu"
        found: dict[str, Any] = {"processor": processor(), "cores": cores(), "platform": platform.platform()}
        found["versions"] = versions() | {"python": platform.python_version(), "cuda": torch.version.cuda}
        if on_gpu:
            asked = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
            found["gpu"] = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
            found["capability"] = list(torch.cuda.get_device_capability())
        found["tflops"] = {
            kind: rate(bench.args.device, kind, 8192 if on_gpu else 512) for kind in ("fp32", "tf32", "bf16", "fp16")
        }
        said = (argument if "/" not in argument else "PATH" for argument in sys.argv[1:])
        found["command"] = " ".join(["python benchmarks/gpu.py", *said])
        return found

    bench.cell("machine", bench.args.device, measure)


# ---------------------------------------------------------------------------------------------------------- equality


def equality(bench: Bench) -> None:
    args = bench.args
    task, rows = bench.task("mr")
    examples = rows[: 4 if args.small else args.equal_texts]
    with recipes.Workers(min(8, cores()), recipes.EngineConfig("cpu")) as workers:
        for name in ATTACKS:
            todo = bench.attack_task(name, task, args.work / "minilm-mr", wide=False)
            bench.cell("equality", f"mr, {name}", partial(compared, bench, todo, name, examples, workers))


def compared(
    bench: Bench, todo: recipes.AttackTask, name: str, examples: list[Example], workers: recipes.Workers
) -> dict[str, Any]:
    """Attack the same texts on the CPU, on the GPU, and on the GPU in other batches."""
    args = bench.args
    sides: dict[str, dict[str, Outcome]] = {}
    seconds: dict[str, float] = {}
    for side, pooled in (("cpu", None), ("gpu", 64), ("gpu in other batches", 8)):
        start = synchronized(args.device)
        engine = AttackEngine(recipes.EngineConfig(args.device, pooled=pooled))
        outcomes = engine.run(todo, examples) if pooled else workers.run(todo, examples)
        sides[side] = {one.example_id: one for one in outcomes}
        seconds[side] = round(synchronized(args.device) - start, 2)
        with (args.work / "outcomes.jsonl").open("a", encoding="utf-8") as file:
            for one in sides[side].values():
                file.write(json.dumps({"attack": name, "side": side} | one.model_dump(mode="json")) + "\n")
    found: dict[str, Any] = {
        "n": len(examples),
        "statuses": statuses(sides["cpu"].values()),
        "queries": {side: sum(one.num_queries for one in outcomes.values()) for side, outcomes in sides.items()},
        "seconds_with_loading": seconds,
    }
    for side, other in (("cpu", "gpu"), ("gpu", "gpu in other batches")):
        records = [
            difference(args, sides[side][one.id], sides[other][one.id])
            for one in examples
            if any(getattr(sides[side][one.id], f) != getattr(sides[other][one.id], f) for f in COMPARED)
        ]
        found[f"{side} and {other}"] = {"different": len(records), "records": records}
    return found


COMPARED = ("status", "num_queries", "perturbed")


def statuses(outcomes: Any) -> dict[str, int]:
    return dict(Counter(one.status for one in outcomes))


def difference(args: argparse.Namespace, one: Outcome, other: Outcome) -> dict[str, Any]:
    """Return what differs, and the victim's probability of the true label of both texts on both devices."""
    texts = [list(map(str, t)) for t in (one.perturbed or one.original, other.perturbed or other.original)]
    scores = {}
    for device in dict.fromkeys(("cpu", args.device)):
        classifier, _ = EncoderClassifier.load(args.work / "minilm-mr", device)
        scores[device] = [probability(classifier, text, one.label) for text in texts]
        scores[f"{device}, float64"] = [probability(classifier.double(), text, one.label) for text in texts]
    return {
        "example": one.example_id,
        "differs": [f for f in COMPARED if getattr(one, f) != getattr(other, f)],
        "status": [one.status, other.status],
        "queries": [one.num_queries, other.num_queries],
        "original": list(map(str, one.original)),
        "texts": texts,
        "probability_of_label": scores,
    }


def probability(classifier: Any, text: list[str], label: Any) -> float:
    inputs = classifier.tokenizer(
        *[[t] for t in text], truncation=True, max_length=classifier.max_length, return_tensors="pt"
    )
    with torch.inference_mode():
        return float(classifier(**inputs.to(classifier.device)).logits.softmax(dim=1)[0, int(label)])


# ------------------------------------------------------------------------------------------------ trainings and tuning


def tune(bench: Bench) -> None:
    for base, name, settings in TUNED:
        bench.cell("tune", f"{base}, {name}", partial(tuned, bench, base, name, settings))


TUNED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("minilm", "mr", {"epochs": 2, "learning_rate": 5e-5}),
    ("trained", "mr", {"epochs": 3, "learning_rate": 3e-5}),
    ("trained", "imdb", {"epochs": 3, "learning_rate": 5e-5}),
)
"""Victims: what they begin as (`trained`: the widened masked LM), their task, and settings of their fine-tuning."""


def tuned(bench: Bench, base: str, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Fine-tune a network on a task, keep the victim, and return its speed and its accuracy."""
    args, networks = bench.args, bench.networks
    task = config.load_task(name, networks.registry)
    data = open_task(task, args.data)
    small = {"epochs": 1, "max_train": 64, "max_validation": 16, "batch_size": 8} if args.small else {}
    training = task.training.model_copy(update={"max_length": LENGTHS[name], **settings, **small})
    spec = config.load_encoder("minilm" if base == "minilm" else "minilm-mlm", networks.registry)
    place = encoders.locate(spec, args.models).where if base == "minilm" else networks.masked_lm
    encoder = encoders.load(spec, place, device=args.device, seed=args.seed, kind=task.kind)
    steps = Steps(args.device)
    module: Any = strategy("clean")
    context = FinetuneContext(encoder, data, training, args.seed, args.device, steps)
    before = synchronized(args.device)
    victim, scores = module.run(module.Options(), context)
    seconds = synchronized(args.device) - before
    victim.save(args.work / f"{base}-{name}", {"max_length": LENGTHS[name]})
    test = bench.task(name)[1][: 16 if args.small else 1000]
    said = classify(victim, [one.texts for one in test])
    per_epoch = steps.of // training.epochs
    return {
        "rows": len(context.sample("train")),
        "settings": {k: getattr(training, k) for k in ("epochs", "batch_size", "learning_rate", "max_length")},
        "mean_tokens": round(statistics.fmean(len(ids) for ids in said.read), 1),
        "steps_per_second": steps.rate(per_epoch),
        "seconds_in_all": round(seconds, 1),
        "test_rows": len(test),
        "test_accuracy": round(
            sum(int(s) == one.label for s, one in zip(said.labels, test, strict=True)) / len(test), 4
        ),
        **peak(args.device),
    } | {name: round(value, 4) for name, value in scores.items()}


class Steps:
    """Notes when steps of a training end, with the GPU's work done."""

    def __init__(self, device: str) -> None:
        self.device, self.ends, self.of = device, dict[int, float](), 0
        if device != "cpu":
            torch.cuda.reset_peak_memory_stats()

    def __call__(self, done: int, of: int, said: str) -> None:
        self.of = of
        if done in (WARM_STEPS, of) or not done % 25:
            self.ends.setdefault(done, synchronized(self.device))

    def rate(self, until: int) -> float:
        """Return steps a second from the warm steps to the last one before `until`, without evaluations."""
        last = max((done for done in self.ends if done <= until), default=0)
        first = min(self.ends)
        return round((last - first) / (self.ends[last] - self.ends[first]), 3) if last > first else 0.0


def peak(device: str) -> dict[str, int]:
    return {} if device == "cpu" else {"peak_gpu_mb": torch.cuda.max_memory_allocated() >> 20}


def train(bench: Bench) -> None:
    file = next(path / "corpus" / "wikipedia_en.jsonl" for path in bench.args.data if (path / "corpus").is_dir())
    texts = [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()]
    for name, settings in OBJECTIVES.items():
        bench.cell("train", name, partial(trained, bench, name, texts, settings))


def trained(bench: Bench, name: str, texts: list[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Take steps of an objective on sentences of Wikipedia, on the widened masked LM."""
    args, networks = bench.args, bench.networks
    steps, length = (WARM_STEPS + 1 if args.small else 100), settings.get("max_length", 32)
    batch = 8 if args.small else settings.get("batch_size", 64)
    steps = min(steps, 10) if name == "adcl" else steps
    options = settings.get("options", {})
    how = TrainSpec(objective=name, data="texts", steps=steps, batch_size=batch, max_length=length, options=options)
    spec = EncoderSpec(name=name, base=str(networks.masked_lm), pooling="cls", train=how)
    places = locate(networks.profile, ("masked_lm", "word_vectors", "stopwords"), args.models)
    places["masked_lm"] = digests.locate_folder(networks.masked_lm)
    resources = Resources(networks.profile, places=places, device=args.device)
    noted = Steps(args.device)
    out = args.work / f"made-{name}"
    pretrain(
        spec, networks.masked_lm, texts, out, seed=args.seed, device=args.device, progress=noted, resources=resources
    )
    per_second = noted.rate(noted.of)
    return {
        "steps": steps,
        "batch_size": batch,
        "max_length": length,
        "precision": "fp32" if args.device == "cpu" else "bf16",
        "steps_per_second": per_second,
        "texts_per_second": round(per_second * batch, 1),
        **peak(args.device),
    }


# ------------------------------------------------------------------------------------------------------------ attacks


def attacks(bench: Bench) -> None:
    """Measure on both sorts of victims; on trained ones in several processes and on the CPU too."""
    args = bench.args
    several = args.processes[1:]
    plan = [("trained", "mr", 1), *(("trained", "mr", n) for n in several), ("trained", "imdb", 1), ("random", "mr", 1)]
    plan += [("trained", "mr", 0), ("random", "imdb", 1), *(("trained", "imdb", n) for n in several[:1])]
    for kind, name, processes in plan:
        where = "CPU" if not processes else f"{processes} process{'es' if processes > 1 else ''}"
        names = {recipe: f"{kind} weights, {name}, {where}, {recipe}" for recipe in RECIPES}
        if not any(bench.wants("attacks", full) for full in names.values()):
            continue
        task, rows, folder = victim(bench, kind, name)
        if processes == 1:
            for recipe, full in names.items():
                todo = bench.attack_task(recipe, task, folder)
                bench.cell("attacks", full, partial(alone, bench, todo, rows))
            continue
        device, count = (args.device, processes) if processes else ("cpu", min(8, cores()))
        config = recipes.EngineConfig(device, "auto", args.pooled or (64 if processes else None))
        with recipes.Workers(count, config) as workers:
            for recipe, full in names.items():
                todo = bench.attack_task(recipe, task, folder)
                bench.cell("attacks", full, partial(shared, bench, todo, rows, workers, device))


def victim(bench: Bench, kind: str, name: str) -> tuple[Any, list[Example], Path]:
    """Return a task, the texts to attack, and the victim's folder."""
    args, n = bench.args, bench.args.texts if name == "mr" else max(4, bench.args.texts // 8)
    if kind == "trained":
        task, rows = bench.task(name)
        return task, rows[: n + WARM_TEXTS], args.work / f"trained-{name}"
    wanted, args.texts = args.texts, n + WARM_TEXTS
    try:
        return bench.networks.task(name)
    finally:
        args.texts = wanted


WARM_TEXTS = 16
"""Texts at the end of those drawn that are attacked first, so that the clock does not count what starts once."""


def while_time(examples: Sequence[Example], seconds: float) -> Iterator[Example]:
    ends = time.perf_counter() + seconds
    return (one for one in examples if time.perf_counter() < ends)


def alone(bench: Bench, todo: recipes.AttackTask, rows: list[Example]) -> dict[str, Any]:
    """Attack in this process, and count what networks read."""
    args = bench.args
    engine = AttackEngine(recipes.EngineConfig(args.device))
    list(engine.run(todo, rows[-WARM_TEXTS:][: 2 if args.small else 8]))
    if args.device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    with counted() as counts, watched(args.device) as used:
        start = synchronized(args.device)
        outcomes = list(engine.run(todo, while_time(rows[:-WARM_TEXTS], args.budget)))
        seconds = synchronized(args.device) - start
    return rates(outcomes, seconds) | {"networks": summary(outcomes, counts, seconds), **used, **peak(args.device)}


def shared(
    bench: Bench, todo: recipes.AttackTask, rows: list[Example], workers: recipes.Workers, device: str
) -> dict[str, Any]:
    """Attack in several processes."""
    some = rows[:-WARM_TEXTS] if device != "cpu" else rows[: max(16, len(rows) // 8)]
    list(workers.run(todo, rows[-WARM_TEXTS:]))
    with watched(bench.args.device if device != "cpu" else "cpu") as used:
        start = time.perf_counter()
        outcomes = list(workers.run(todo, while_time(some, bench.args.budget), len(some)))
        seconds = time.perf_counter() - start
    return rates(outcomes, seconds) | {"processes": workers.count, "backend": workers.backend(todo), **used}


def rates(outcomes: list[Outcome], seconds: float) -> dict[str, Any]:
    """Return speeds; skipped texts count for none."""
    attacked = [one for one in outcomes if one.status in ("succeeded", "failed")]
    queries = sum(one.num_queries for one in attacked)
    return {
        "texts": len(attacked),
        "statuses": statuses(outcomes),
        "seconds": round(seconds, 2),
        "seconds_per_text": round(seconds / max(1, len(attacked)), 4),
        "queries_per_text": round(queries / max(1, len(attacked)), 1),
        "queries_per_second": round(queries / seconds, 1),
    }


@contextmanager
def watched(device: str) -> Iterator[dict[str, Any]]:
    """Note how busy the GPU is and what memory is used on it, by all processes, five times a second."""
    used: dict[str, Any] = {}
    if device == "cpu":
        yield used
        return
    over, busy, memory = threading.Event(), list[int](), list[int]()

    def watch() -> None:
        with suppress(Exception):  # the machine may have no library that says so
            while not over.wait(0.2):
                memory.append((lambda free, whole: whole - free)(*torch.cuda.mem_get_info()) >> 20)
                busy.append(torch.cuda.utilization())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield used
    finally:
        over.set()
        watcher.join()
        used |= {"gpu_busy_percent": round(statistics.fmean(busy))} if busy else {}
        used |= {"gpu_memory_mb_in_all": max(memory)} if memory else {}


def beside_stock(bench: Bench) -> None:
    args = bench.args
    (task, rows), folder = bench.task("mr"), args.work / "trained-mr"
    classifier, _ = EncoderClassifier.load(folder, args.device)
    for recipe in RECIPES:
        todo = bench.attack_task(recipe, task, folder)
        bench.cell("stock", f"trained weights, mr, {recipe}", partial(against, bench, todo, rows, classifier))


def against(bench: Bench, todo: recipes.AttackTask, rows: list[Example], classifier: Any) -> dict[str, Any]:
    """Attack the same texts with stock TextAttack and with rbench in one process. Warm both with another text."""
    args = bench.args
    resources = Resources(todo.resources, places=dict(todo.places), device=args.device)
    theirs = build_stock(todo.spec, classifier, LENGTHS["mr"], resources, todo.task)
    chosen, warm = rows[: 2 if args.small else args.stock_texts], rows[-1:]

    def one(examples: Any) -> list[Outcome]:
        with stock(resources):
            return list(
                recipes.run(lambda: StockAttack(theirs), examples, spec=todo.spec, task=todo.task, seed=args.seed)
            )

    one(warm)
    start = synchronized(args.device)
    expected = one(while_time(chosen, args.budget))
    stock_seconds = synchronized(args.device) - start
    engine = AttackEngine(recipes.EngineConfig(args.device))
    list(engine.run(todo, warm))
    start = synchronized(args.device)
    found = list(engine.run(todo, islice(chosen, len(expected))))
    seconds = synchronized(args.device) - start
    return {
        "n": len(expected),
        "stock": rates(expected, stock_seconds),
        "rbench": rates(found, seconds),
        "ratio": round(stock_seconds / seconds, 2),
        "different": differences(todo.spec.name, expected, found),
    }


# ---------------------------------------------------------------------------------------------------------- precision


def precision(bench: Bench) -> None:
    for name in ("minilm-mr", "trained-mr"):
        bench.cell("precision", name, partial(on_changed_texts, bench, bench.args.work / name))


def on_changed_texts(bench: Bench, folder: Path) -> dict[str, Any]:
    """Compare probabilities of changed texts in each precision with those in fp32, and the time they take."""
    args, device = bench.args, bench.args.device
    task, rows = bench.task("mr")
    todo = bench.attack_task("textfooler", task, folder)
    engine = AttackEngine(recipes.EngineConfig(device))
    list(engine.run(todo, rows[: 4 if args.small else 128]))
    asked: Any = engine._victim(todo)[0]
    before = {one.texts[0] for one in rows}
    texts = [text for text in asked.by_text._entries if text not in before][: 200 if args.small else 8192]
    classifier, _ = EncoderClassifier.load(folder, device)
    return precisions(classifier, texts, device)


MEASURES: dict[str, Callable[[Bench], None]] = {
    "machine": machine,
    "tune": tune,
    "equality": equality,
    "train": train,
    "attacks": attacks,
    "stock": beside_stock,
    "precision": precision,
}

if __name__ == "__main__":
    main()
