"""Compare classifiers that exist with encoders' victims in speed, and with stock TextAttack example by example.

    python benchmarks/victims.py --part ratio --task mr --models DIR --data DIR
    python benchmarks/victims.py --part equality --task mr --n 60 --models DIR --data DIR

Both make a classifier with transformers from the network of `--encoder`: its head is fitted on training texts and saved
with `save_pretrained`. `ratio` attacks the same texts through an encoder's victim with the same network and through
the classifier, in turns in one process, and writes the ratio of processor times. `equality` attacks through rbench and
through TextAttack's own HuggingFaceModelWrapper, and compares status, queries and final text of each example.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from equality import StockAttack, compare, timed
from machine import cores, processor
from sklearn.linear_model import LogisticRegression
from stock import build_stock, stock
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from rbench import config, encoders
from rbench.config.registry import Registry, search_path
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.sentence import SentenceEncoder
from rbench.execution.attacks import sample
from rbench.recipes.build import build
from rbench.recipes.victim import Victim
from rbench.schema import TaskSpec, VictimSpec
from rbench.tasks import Example, open_task
from rbench.victims.model import open_model
from rbench.words.resources import Resources
from rbench.words.resources import locate as locate_resources

RECIPES = ("textfooler", "pwws", "textbugger", "bae", "bertattack")
LENGTH = 128
FITTED = 2000
"""Training texts on which the head is fitted."""


def main() -> None:
    args = parse()
    registry = Registry()
    task = config.load_task(args.task, registry)
    data = open_task(task, args.data)
    examples = sample(data.split("test"), args.n, 0, task.name)
    profile = config.load_resources(args.resources, registry)
    specs = {name: config.load_attack(name, registry) for name in args.recipes}
    users = {kind: [name] for name, spec in specs.items() for kind in spec.needs}
    places = locate_resources(profile, users, args.models)
    resources = {side: Resources(profile, places=places) for side in ("rbench", "stock")}
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "classifier"
        accuracy = make(args, task, sample(data.split("train"), FITTED, 0, task.name), examples, folder)
        measured = (ratio if args.part == "ratio" else equality)(args, task, examples, specs, resources, folder)
    about = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {"processor": processor(), "cores": cores(), "python": platform.python_version()},
        "versions": {name: version(name) for name in ("torch", "transformers", "textattack")},
        "task": args.task,
        "encoder": args.encoder,
        "resources": args.resources,
        "texts": len(examples),
        "accuracy": accuracy,
    }
    kept = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    args.out.write_text(json.dumps({**kept, args.part: {**about, **measured}}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: value for name, value in measured.items() if name != "records"}, indent=1))


def make(args: argparse.Namespace, task: TaskSpec, train: list[Example], test: list[Example], folder: Path) -> float:
    """Save a transformers classifier of the encoder's network with a fitted head. Return its accuracy on `test`."""
    spec = config.load_encoder(args.encoder, Registry())
    source = Path(encoders.locate(spec, args.models).where)
    labels = dict(enumerate(task.labels))
    model = (
        AutoModelForSequenceClassification.from_pretrained(
            source, id2label=labels, label2id={label: i for i, label in labels.items()}
        )
        .float()
        .eval()
    )
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.model_max_length = LENGTH
    read: list[torch.Tensor] = []
    handle = model.classifier.register_forward_hook(lambda module, given, answer: read.append(given[0].detach()))
    logits(model, tokenizer, train)
    handle.remove()
    fitted = LogisticRegression(max_iter=1000).fit(torch.cat(read).numpy(), [int(one.label or 0) for one in train])
    rows, bias = torch.tensor(fitted.coef_), torch.tensor(fitted.intercept_)
    if len(rows) == 1:
        rows, bias = torch.cat([-rows, rows]) / 2, torch.cat([-bias, bias]) / 2
    model.classifier.weight.data, model.classifier.bias.data = rows.float(), bias.float()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    said = logits(model, tokenizer, test).argmax(dim=1)
    return sum(int(label) == one.label for label, one in zip(said, test, strict=True)) / len(test)


def logits(model: Any, tokenizer: Any, rows: list[Example]) -> torch.Tensor:
    answers = []
    with torch.inference_mode():
        for start in range(0, len(rows), 32):
            columns = [list(column) for column in zip(*(row.texts for row in rows[start : start + 32]), strict=True)]
            inputs = tokenizer(*columns, padding=True, truncation=True, return_tensors="pt")
            answers.append(model(**inputs).logits)
    return torch.cat(answers)


def existing(args: argparse.Namespace, task: TaskSpec, folder: Path) -> Victim:
    spec = VictimSpec(name="existing", model=str(folder))
    return Victim(open_model(spec, folder, task), "existing", backend=args.backend)


def ratio(
    args: argparse.Namespace, task: TaskSpec, examples: list[Example], specs: Any, resources: Any, folder: Path
) -> dict[str, Any]:
    """Return processor seconds of each round and the ratio of their medians. Every round has new, empty caches."""
    name, spec = next(iter(specs.items()))
    seconds: dict[str, list[float]] = {"encoder": [], "existing": []}
    queries: dict[str, int] = {}
    for i in range(args.rounds + 1):  # the first warms up resources and compiles kernels
        for side in ("encoder", "existing") if i % 2 else ("existing", "encoder"):
            victim = existing(args, task, folder) if side == "existing" else same_shape(args, task, folder)
            attacked = build(spec, victim, resources["rbench"], task)
            found = [timed(attacked, one, spec, task, 0) for one in examples]
            queries[side] = sum(one.num_queries for one, _ in found)
            if i:
                seconds[side].append(sum(cpu for _, cpu in found) / max(1, queries[side]))
            print(f"round {i} {side}: {queries[side]} queries, {sum(cpu for _, cpu in found):.1f} s", flush=True)
    middle = {side: statistics.median(values) for side, values in seconds.items()}
    return {
        "attack": name,
        "backend": args.backend,
        "seconds_a_query": seconds,
        "queries": queries,
        "ratio": round(middle["existing"] / middle["encoder"], 4),
    }


def same_shape(args: argparse.Namespace, task: TaskSpec, folder: Path) -> Victim:
    """Return an encoder's victim with the classifier's network, pooling and head."""
    encoder = SentenceEncoder.open(folder, pooling="cls+mlp")
    victim = EncoderClassifier(encoder, len(task.labels), max_length=LENGTH)
    head = open_model(VictimSpec(name="existing", model=str(folder)), folder, task).head
    assert head is not None
    victim.head.load_state_dict(head.state_dict())
    return Victim(victim, "encoder", backend=args.backend)


def equality(
    args: argparse.Namespace, task: TaskSpec, examples: list[Example], specs: Any, resources: Any, folder: Path
) -> dict[str, Any]:
    """Return a record of each example and recipe, and how many differ."""
    victim = existing(args, task, folder)
    plain = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    plain.tokenizer = AutoTokenizer.from_pretrained(folder)
    args.victim = folder
    records = []
    for name, spec in specs.items():
        theirs = StockAttack(build_stock(spec, plain, LENGTH, resources["stock"], task))
        ours = build(spec, victim, resources["rbench"], task)
        for one in examples:
            with stock(resources["stock"]):
                expected, _ = timed(theirs, one, spec, task, 0)
            records.append(
                {"example": one.id, **compare(args, name, expected, timed(ours, one, spec, task, 0)[0], victim)}
            )
        print(f"{name}: {sum(bool(one['differs']) for one in records)} of {len(records)} differ so far", flush=True)
    return {"compared": len(records), "different": sum(bool(one["differs"]) for one in records), "records": records}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("ratio", "equality"), required=True)
    parser.add_argument("--task", default="mr")
    parser.add_argument("--encoder", default="minilm", help="whose network the classifier has")
    parser.add_argument("--n", type=int, default=60, help="how many test texts")
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), help="`ratio` takes the first")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--resources", default="local", help="a resource set")
    parser.add_argument("--backend", default="torch")
    parser.add_argument("--models", type=Path, action="append", default=[])
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "victims.json")
    args = parser.parse_args()
    args.models, args.data = search_path(args.models, "RBENCH_MODELS"), search_path(args.data, "RBENCH_DATA")
    return args


if __name__ == "__main__":
    main()
