"""Measures the Python of attacks: CPU seconds a query outside all networks, by recipe and by cause.

    python benchmarks/engine.py --models DIR --data DIR --n 100 --before CHECKOUT

Recipes attack test texts in one process with one thread. The victim costs almost nothing: the log-odds of a text are
the sum of a normal number for each of its lower-case words, which is a hash of the word. It is no network, so its texts
are not tokenised. The label of each text is the victim's own answer, so that no text is skipped. Attacks ask the
sentence encoder and the masked LM of the resource set as always.

All seconds are CPU seconds of this process, since other work on the machine must not count. The seconds in networks
(`Network._call`, and the head of the masked LM with its choice of the best tokens) and in the victim are measured
around each call. The rest is Python; what resources cost at the start is apart. The tagger is no network
here: it is Python, and stays where it is when networks move to a GPU.

The rest is divided by cause in the same run: every millisecond of CPU time the stack is looked at, and the innermost
function that CAUSES names gets the time since the last look. The search of the nearest words among all word vectors is
a matrix product, and a cause of its own: the published vectors come with a table of neighbours, those of the resource
set `local` do not.

With --before each recipe runs in turn with the code of that checkout and with this one, and the file has both, the
number of outcomes that differ, and how much faster the Python became. Each runs in a process of its own, forked from
one that has imported the libraries.

--cheap is for machines on which arithmetic takes long: the sentence encoder is replaced by the normalised sum of a
random vector for each token. What is asked differs a little, and the arithmetic of what is left in networks with it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import NormalDist
from types import FrameType, SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import processor

RECIPES = ("textfooler", "textbugger", "bae", "bertattack", "pwws")
SAMPLE_SECONDS = 0.001

CAUSES = {
    "nearest words among all word vectors": ("class WordVectors",),
    "synonyms, neighbours and cosines of words": (
        "nltk/corpus",
        "def wordnet_synonyms",
        "word_swap_wordnet.py",
        "word_swap_embedding.py",
        "word_embedding",
        "encoders/vectors.py",
        "class BoundEmbedding",
        "class WordEmbeddingDistance",
        "def swaps_by_place",
    ),
    "tokenising": (
        "inference/tokenizing.py",
        "transformers/tokenization",
        "transformers/utils",
        "def build_rows",
        "def rows",
        "def tokenize",
    ),
    "batches and their answers": ("inference/network.py", "inference/pool.py", "inference/backends.py"),
    "tagging": (
        "def tags_tried",
        "resources/lexical.py",
        "/nltk/",
        "part_of_speech.py",
        "def pos_tag",
        "class PartOfSpeech",
    ),
    "windows and vectors of sentences": ("resources/sentences.py", "class _BoundSimilarity", "sentence_encoder.py"),
    "words of the masked LM": ("recipes/masked_lm.py", "resources/masked_lm.py"),
    "candidates as texts": ("recipes/cached.py", "attacked_text.py", "shared/utils/strings.py"),
    "building attacks": ("recipes/build.py", "recipes/binding.py"),
    "what outcomes say of an attack": ("recipes/observed.py", "recipes/run.py", "system/changes.py", "/pydantic/"),
    "search, goal and constraints": ("/textattack/",),
}
"""By cause: parts of file names, and `def NAME` for functions. The first cause that fits names a function."""


def main() -> None:
    args = parse()
    import rbench.recipes.engine  # with the libraries that it needs
    import rbench.words.resources.masked_lm
    import rbench.words.resources.sentences  # noqa: F401

    checkouts = {"before": args.before, "after": Path(__file__).resolve().parents[1]}
    for recipe in args.recipes:
        row: dict[str, Any] = {"recipe": recipe}
        for name, checkout in checkouts.items():
            if checkout is not None:
                row[name] = run_in(checkout.resolve(), args, recipe)
        if args.before:
            old, new = row["before"], row["after"]
            row["outcomes_that_differ"] = sum(a != b for a, b in zip(old["outcomes"], new["outcomes"], strict=True))
            row["times_as_fast_outside_networks"] = round(old["ms_a_query"]["rest"] / new["ms_a_query"]["rest"], 2)
        for name in checkouts:
            row.get(name, {}).pop("outcomes", None)
        write(args, row)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    parser.add_argument("--task", default="mr")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--before", type=Path, help="a checkout with which this one is compared")
    parser.add_argument("--resources", default="local", help="a resource set")
    parser.add_argument("--models", type=Path, action="append", default=[])
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--backend", default="onednn", help="what computes networks; fixed, so that both use the same")
    parser.add_argument("--cheap", action="store_true", help="a sentence encoder that costs almost nothing")
    parser.add_argument("--pooled", type=int, default=4, help="texts attacked at once; 4 is the default on a CPU")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "engine.json")
    return parser.parse_args()


def run_in(checkout: Path, args: argparse.Namespace, recipe: str) -> dict[str, Any]:
    """Measure a recipe with the code of a checkout, in a process of its own."""
    reading, writing = os.pipe()
    if not (process := os.fork()):
        for name in [name for name in sys.modules if name.partition(".")[0] == "rbench"]:
            del sys.modules[name]
        sys.path.insert(0, str(checkout))
        try:
            found = json.dumps(measure(args, recipe))
            with os.fdopen(writing, "w") as pipe:
                pipe.write(found)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(process, 0)
    return json.loads(said)  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------------------------- one process


def measure(args: argparse.Namespace, recipe: str) -> dict[str, Any]:
    """Attack the texts with the code that Python finds, and return what it cost."""
    import torch

    with suppress(ModuleNotFoundError):  # as in workers; earlier checkouts lack it
        import rbench.recipes.preload  # noqa: F401

    from rbench import config, recipes
    from rbench.config.registry import Registry, search_path
    from rbench.schema import Choice, ResourceChoice
    from rbench.tasks import open_task
    from rbench.words.resources import Resources

    torch.set_num_threads(1)
    start = time.process_time()
    registry = Registry()
    task = config.load_task(args.task, registry)
    spec = config.load_attack(Choice(name=recipe), registry)
    resource_set = config.load_resources(ResourceChoice(profile=args.resources), registry)
    resources = Resources(resource_set, search_path(args.models, "RBENCH_MODELS"), backend=args.backend)
    examples = open_task(task, search_path(args.data, "RBENCH_DATA")).split("test")
    victim = make_word_victim(len(task.labels))
    chosen = [example._replace(label=int(victim([text_of(example)])[0].argmax())) for example in examples[: args.n]]
    # The first text opens networks and fills tables, which a long run does once.
    options: dict[str, Any] = {"spec": spec, "task": task, "seed": args.seed, "pooled": args.pooled}

    def build() -> Any:
        return recipes.build(spec, victim, resources, task)

    list(recipes.run(build, examples[args.n : args.n + 2], **options))
    for memo in (victim, resources):
        memo.forget()
    opened = time.process_time()
    if args.cheap and "sentence_encoder" in spec.needs:
        resources.sentence_encoder.network._call = make_cheap_encoder()
        resources.forget()
    clocks = Clocks(victim)
    with clocks.running(), sampled_causes(clocks) as causes:
        begin = time.process_time()
        outcomes = list(recipes.run(build, chosen, **options))
        lines = [outcome.model_dump_json() for outcome in outcomes]
        seconds = time.process_time() - begin
    queries = sum(outcome.num_queries for outcome in outcomes)
    rest = seconds - clocks.total
    scale = rest / sum(causes.values())
    ordered = sorted(outcomes, key=lambda outcome: outcome.example_id)
    return {
        "n": len(outcomes),
        "queries": queries,
        "succeeded": sum(outcome.status == "succeeded" for outcome in outcomes),
        "bytes_of_json": sum(map(len, lines)),
        "cpu_seconds": {
            "resources_networks_and_first_texts": round(opened - start, 2),
            "attacks": round(seconds, 2),
        },
        "networks": {
            name: {"calls": clocks.calls[name], "rows": clocks.rows[name], "seconds": round(spent, 2)}
            for name, spent in clocks.seconds.items()
        },
        "ms_a_query": {
            "networks": round(1000 * (seconds - rest - clocks.seconds["victim"]) / queries, 4),
            "victim": round(1000 * clocks.seconds["victim"] / queries, 4),
            "rest": round(1000 * rest / queries, 4),
        },
        "ms_a_query_of_the_rest": {
            cause: round(1000 * spent * scale / queries, 4) for cause, spent in causes.most_common()
        },
        "outcomes": [
            outcome.model_dump(mode="json", exclude={"seconds"}) | {"example_id": outcome.example_id}
            for outcome in ordered
        ],
    }


def text_of(example: Any) -> Any:
    return example.texts[0] if len(example.texts) == 1 else example.texts


def make_word_victim(num_labels: int) -> Any:
    """Return a victim whose log-odds are a sum over words, in TextAttack's form."""
    import torch
    from textattack.models.wrappers import ModelWrapper

    normal = NormalDist()
    values: dict[str, tuple[float, ...]] = {}

    def value(word: str) -> tuple[float, ...]:
        hashed = (zlib.crc32(f"{label} {word}".encode()) for label in range(num_labels))
        return tuple(normal.inv_cdf((number + 0.5) / 2**32) for number in hashed)

    class WordVictim(ModelWrapper):  # type: ignore[misc]
        name, pooled, max_length, model, tokenizer = "words", None, None, None, None
        network = SimpleNamespace(backend="none")

        def __call__(self, texts: Sequence[Any], **kwargs: Any) -> Any:
            logits = []
            for text in texts:
                words = (text if isinstance(text, str) else " ".join(text)).lower().split()
                for word in words:
                    if word not in values:
                        values[word] = value(word)
                logits.append([sum(column) for column in zip(*(values[word] for word in words), strict=True)])
            return torch.tensor(logits)

        def is_truncated(self, text: Any) -> bool:
            return False

        def forget(self) -> None:
            pass

    return WordVictim()


def make_cheap_encoder() -> Any:
    """Return what maps a batch of token ids to vectors: the normalised sum of a random vector for each token."""
    import torch
    from torch.nn import functional

    table = torch.randn(1 << 16, 384, generator=torch.Generator().manual_seed(0))
    return lambda inputs: functional.normalize(functional.embedding_bag(inputs["input_ids"], table, mode="sum"))


class Clocks:
    """CPU seconds, calls and rows of networks and of the victim."""

    def __init__(self, victim: Any) -> None:
        self.victim = type(victim)
        self.seconds: Counter[str] = Counter(victim=0.0)
        self.calls: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.inside = False

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def timed(self, name: str, rows: int, call: Any, *given: Any) -> Any:
        start, self.inside = time.process_time(), True
        answer = call(*given)
        self.seconds[name] += time.process_time() - start
        self.inside = False
        self.calls[name] += 1
        self.rows[name] += rows
        return answer

    @contextmanager
    def running(self) -> Iterator[None]:
        from rbench.encoders.inference.network import Network
        from rbench.words.resources.masked_lm import MaskedLM

        clocks, whole, rank, ask = self, Network._whole, MaskedLM._rank_states, self.victim.__call__

        def timed_batch(network: Any, rows: Any) -> Any:
            call, name = network._call, network.name.rpartition(" ")[0]
            network._call = lambda inputs: clocks.timed(name, len(rows), call, inputs)
            try:
                return whole(network, rows)
            finally:
                network._call = call

        def timed_head(lm: Any, states: Any, *given: Any) -> Any:
            return clocks.timed("masked LM's head", len(states), rank, lm, states, *given)

        def timed_victim(victim: Any, texts: Any) -> Any:
            return clocks.timed("victim", len(texts), ask, victim, texts)

        Network._whole, MaskedLM._rank_states = timed_batch, timed_head  # type: ignore[method-assign]
        self.victim.__call__ = timed_victim
        try:
            yield
        finally:
            Network._whole, MaskedLM._rank_states = whole, rank  # type: ignore[method-assign]
            self.victim.__call__ = ask


@contextmanager
def sampled_causes(clocks: Clocks) -> Iterator[Counter[str]]:
    """Divide the CPU seconds of the block that `clocks` do not count among CAUSES and `others`, by samples."""
    seconds: Counter[str] = Counter()
    known: dict[Any, str | None] = {}
    last = time.process_time() - clocks.total

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if clocks.inside:
            return
        now = time.process_time() - clocks.total
        while frame is not None:
            code = frame.f_code
            if code not in known:
                known[code] = find_cause(code.co_filename, code.co_qualname)
            if known[code]:
                break
            frame = frame.f_back
        cause = "others" if frame is None else known[frame.f_code]
        seconds[str(cause)] += now - last
        last = now

    previous = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    try:
        yield seconds
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def find_cause(file: str, name: str) -> str | None:
    where = f"{file} class {name} def {name.rpartition('.')[2]}|"
    for cause, marks in CAUSES.items():
        if any((f"{mark}|" if mark.startswith("def ") else mark) in where for mark in marks):
            return cause
    return None


# -------------------------------------------------------------------------------------------------------- the figures


def write(args: argparse.Namespace, row: dict[str, Any]) -> None:
    from importlib.metadata import version

    rows = json.loads(args.out.read_text(encoding="utf-8"))["rows"] if args.out.exists() else []
    packages = ("textattack", "torch", "transformers", "tokenizers", "nltk")
    document = {
        "what": "CPU seconds of attacks in networks and outside; see benchmarks/engine.py",
        "machine": {"processor": processor(), "platform": platform.platform(), "threads": 1},
        "versions": {package: version(package) for package in packages} | {"python": platform.python_version()},
        "command": f"python benchmarks/engine.py --n {args.n} --task {args.task} --resources {args.resources} "
        f"--backend {args.backend} --pooled {args.pooled} --models DIR --data DIR"
        + " --cheap" * args.cheap
        + " --before CHECKOUT" * bool(args.before),
        "rows": [*(old for old in rows if old["recipe"] != row["recipe"]), row],
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for name in ("before", "after"):
        if name in row:
            print(f"{row['recipe']:11} {name:6} {json.dumps(row[name]['ms_a_query'])}")
            print(f"{'':18} {json.dumps(row[name]['ms_a_query_of_the_rest'])}", flush=True)
    if "outcomes_that_differ" in row:
        print(f"{'':18} {row['outcomes_that_differ']} outcomes differ, {row['times_as_fast_outside_networks']}x")


if __name__ == "__main__":
    main()
