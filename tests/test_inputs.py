"""What people have, by what they do with it: each verb takes an input, or refuses it in one line that names it.

Inputs are data (of the hub, of mteb, files) and models (behind an address, functions, folders, adapters). `compare` and
`check` read RUNs, so they are given the RUN that `run` made of an input, or the input itself where there is none. The
guide on evaluating models shows the same table.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import peft
import pytest
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from rbench import api, mini
from rbench.api import evaluating
from rbench.config.hub_tables import save_splits
from rbench.errors import RbenchError
from tests.mteb_rows import give_rows, make_rows
from tests.victims.made import write_classifier
from tests.victims.server import Server

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide-evaluate-one-model.md"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
RULES = '''
def predict(texts):
    """The probability of the second class follows from the number of letters."""
    joined = [text if isinstance(text, str) else " ".join(map(str, text)) for text in texts]
    shares = [0.1 + 0.8 * (len(text) % 7) / 6 for text in joined]
    return [[1 - share, share] for share in shares]
'''
FUNCTION = "rules_of_inputs:predict"
VECTORS = "vectors.yaml"
"""An encoder in a file, which does not say what language it reads."""
VERBS = ("eval", "attack", "run", "compare", "check")
EVERYDAY = {
    "eval": ("hub id of a data set", "folder of a classifier"),
    "attack": ("pair classification of mteb", "BEIR folder", "endpoint", "adapter"),
    "run": ("STS of mteb", "CSV"),
    "compare": ("CSV",),
    "check": ("CSV",),
}
"""Each kind of input once. What a verb does with the others that it takes is nightly."""
ATTACK, TEXTS = "textbugger", 2


@dataclass(frozen=True)
class Input:
    """What a user has: a task, with a model that fits it, or a model, with a task that fits."""

    named: str
    """What errors name it by."""
    task: str = "mini-sentiment"
    model: str = FUNCTION
    encoder: bool = False
    taken: str = "eval attack run compare check"
    """The verbs that take it. The others refuse it."""


INPUTS = {
    "hub id of a data set": Input("someone/reviews", f"hf:someone/reviews@{COMMIT}"),
    "hub id that is not there": Input("someone/gone", "hf:someone/gone", taken=""),
    "classification of mteb": Input("Banking77Classification", "mteb:Banking77Classification"),
    "STS of mteb": Input("STSBenchmark", "mteb:STSBenchmark", VECTORS, True, "attack run compare check"),
    "pair classification of mteb": Input("TwitterURLCorpus", "mteb:TwitterURLCorpus"),
    "retrieval of mteb": Input("NFCorpus", "mteb:NFCorpus", VECTORS, True, "attack run compare check"),
    "CSV": Input("my.csv", "my.csv"),
    "BEIR folder": Input("beir", "./beir", VECTORS, True, "attack run compare check"),
    "hub id of a model": Input("someone/model", model="someone/model", encoder=True, taken=""),
    "endpoint": Input("http", model="http"),
    "function": Input(FUNCTION),
    "folder of a classifier": Input("shipped", model="./shipped"),
    "folder of an encoder": Input("plain", model="./plain", encoder=True),
    "adapter": Input("adapter", model="./adapter"),
}


@dataclass
class Place:
    """A folder with all inputs, in which commands are given, and the RUNs there."""

    folder: Path
    url: str
    runs: dict[str, Path]

    def options(self, name: str, **more: Any) -> api.Options:
        folder = "-".join(name.split())
        return api.Options(device="cpu", workers=1, out=self.folder / "runs" / folder, **more)

    def model_of(self, given: Input) -> str:
        return self.url if given.model == "http" else given.model

    def victim_of(self, given: Input) -> Any:
        """The entry under `victims` of a suite; None for an encoder."""
        entries: Mapping[str, Any] = {
            FUNCTION: {"function": FUNCTION, "version": "1"},
            "http": {"endpoint": {"url": self.url, "body": {"inputs": "{texts}"}}, "version": "1", "name": "http"},
        }
        return None if given.encoder else entries.get(given.model, given.model)

    def run_of(self, name: str) -> Path:
        """The RUN of an input, made once."""
        if name not in self.runs:
            given, victim = INPUTS[name], self.victim_of(INPUTS[name])
            suite: dict[str, Any] = {
                "name": "inputs",
                "tasks": [given.task],
                "attacks": [ATTACK],
                "num_examples": TEXTS,
                "resources": "mini",
                "training": {"max_train": 20, "max_validation": 20},
            }
            suite |= {"victims": [victim]} if victim is not None else {"encoders": [given.model]}
            suite |= {"finetune": [strategy_of(given)]} if victim is None else {}
            result = api.run(suite, self.options(f"run {name}"))
            assert not result.failed
            self.runs[name] = result.run
        return self.runs[name]


def strategy_of(given: Input) -> str:
    """How the encoder of an input becomes a victim."""
    kind = "STS" if "STS" in given.task else "ranking" if given.task in ("mteb:NFCorpus", "./beir") else ""
    return {"STS": "cosine", "ranking": "retriever"}.get(kind, "probe")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "rules_of_inputs.py").write_text(RULES, encoding="utf-8")
    scope: dict[str, Any] = {}
    exec(RULES, scope)
    server = Server(lambda body: [label_scores(*shares) for shares in scope["predict"](body["inputs"])])
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.syspath_prepend(str(folder))
        for name, value in (("RBENCH_CACHE", "cache"), ("HF_HUB_CACHE", "hub")):
            patched.setenv(name, str(folder / value))
        patched.setenv("HF_HUB_OFFLINE", "1")
        if importlib.util.find_spec("mteb") is not None:
            give_rows(patched, make_rows())
        # Reports and figures have tests of their own.
        run_prepared = evaluating.run_prepared
        patched.setattr(evaluating, "run_prepared", lambda *given, report=False: run_prepared(*given))
        patched.setattr(evaluating, "_figures_for_paper", lambda *_, **__: ())
        write_data(folder)
        write_models(folder)
        yield Place(folder, server.url, {})
    server.close()


def label_scores(negative: float, positive: float) -> list[dict[str, Any]]:
    """One text's answer of an endpoint, as that of transformers' pipeline."""
    return [{"label": "negative", "score": negative}, {"label": "positive", "score": positive}]


def write_data(folder: Path) -> None:
    """Write the table, the folder in BEIR's layout, and what was loaded from the hub before."""
    rows = [
        {"text": row["text"], "label": ("bad", "good")[row["label"]]}
        for row in mini.rows("mini-sentiment", "test")[:40]
    ]
    with (folder / "my.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(rows)
    save_splits(
        {"test": datasets.Dataset.from_list(rows)}, folder / "cache" / "datasets" / f"someone--reviews@{COMMIT}"
    )
    (folder / "beir" / "qrels").mkdir(parents=True)
    for name, part in (("corpus", rows), ("queries", rows[:4])):
        lines = (json.dumps({"_id": f"{name[0]}{i}", "text": row["text"]}) for i, row in enumerate(part))
        (folder / "beir" / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    relevant = "".join(f"q{i}\tc{i}\t1\n" for i in range(4))
    (folder / "beir" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{relevant}", encoding="utf-8")


def write_models(folder: Path) -> None:
    """Write a classifier, an adapter of it, and its network as an encoder."""
    shipped = write_classifier(folder / "shipped")
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"])
    whole = AutoModelForSequenceClassification.from_pretrained(shipped)
    peft.get_peft_model(whole, config).save_pretrained(folder / "adapter")
    AutoModel.from_pretrained(shipped).save_pretrained(folder / "plain")
    AutoTokenizer.from_pretrained(shipped).save_pretrained(folder / "plain")
    (folder / VECTORS).write_text("base: ./plain\npooling: mean\n", encoding="utf-8")


def evaluate(name: str, place: Place) -> None:
    given = INPUTS[name]
    how: dict[str, Any] = {"task": given.task, "n": TEXTS, "attacks": ATTACK, "resources": "mini", "progress": False}
    how |= {"finetune": "probe"} if given.encoder else {}
    evaluated = api.evaluate(place.model_of(given), place.options(f"eval {name}"), **how)
    assert not evaluated.failed and f"| {TEXTS} |" in evaluated.rendered("markdown")


def attack(name: str, place: Place) -> None:
    given = INPUTS[name]
    overrides = ("resources=mini", f"finetune=[{strategy_of(given)}]") if given.encoder else ("resources=mini",)
    options = dataclasses.replace(place.options(name), out=None, overrides=overrides)
    encoder = given.model if given.encoder else None
    outcomes = list(api.attack(encoder, given.task, ATTACK, TEXTS, options, classifier=place.victim_of(given)))
    assert len(outcomes) == TEXTS and all(outcome.status != "errored" for outcome in outcomes)


def run(name: str, place: Place) -> None:
    assert api.load_results(place.run_of(name)).shape[0] == TEXTS


def compare(name: str, place: Place) -> None:
    if "run" not in INPUTS[name].taken:
        api.compare(INPUTS[name].named, INPUTS[name].named)
    run = place.run_of(name)
    (cell,) = api.compare(run, run, metric="aua").cells
    assert cell.difference is not None and cell.difference.value == 0


def check(name: str, place: Place) -> None:
    if "run" not in INPUTS[name].taken:
        api.write_baseline([INPUTS[name].named], place.folder / "baseline.json")
    baseline = place.folder / f"{'-'.join(name.split())}.json"
    api.write_baseline([place.run_of(name)], baseline)
    assert not api.check(place.run_of(name), baseline, allow_undecided=True).failed


DO: Mapping[str, Callable[[str, Place], None]] = {
    "eval": evaluate,
    "attack": attack,
    "run": run,
    "compare": compare,
    "check": check,
}


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        pytest.param(verb, name, marks=() if refused or name in EVERYDAY[verb] else pytest.mark.nightly)
        for verb in VERBS
        for name, given in INPUTS.items()
        for refused in [verb not in given.taken.split()]
    ],
)
def test_each_verb_takes_an_input_or_refuses_it_in_one_line(verb: str, name: str, place: Place) -> None:
    if INPUTS[name].task.startswith("mteb:"):
        pytest.importorskip("mteb", reason="the extra `mteb` is not installed")
    if verb in INPUTS[name].taken.split():
        DO[verb](name, place)
        return
    with pytest.raises(RbenchError) as refused:
        DO[verb](name, place)
    (line,) = str(refused.value).splitlines()
    assert INPUTS[name].named in line


def test_the_guide_has_this_table() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines()]
    shown = {row[0]: row[2:] for row in rows if row[0] in INPUTS}
    assert shown == {
        name: [*("yes" if verb in given.taken.split() else "no" for verb in ("eval", "attack", "run")), "its RUN"]
        for name, given in INPUTS.items()
        if given.taken
    }
