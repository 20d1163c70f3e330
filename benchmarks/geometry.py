"""Measures hard positives per second, for batches and for single texts, and the search's share of an ADCL step.

    python benchmarks/geometry.py --models DIR --data DIR --out benchmarks/results/geometry.json

speed    hard positives per second in three ways, on the same texts, --rounds times in turn. All are warmed up, and no
         caches are kept from one to the next:
         batched  `rbench.words.substitution.batched`, --batch texts a call
         alone    `rbench.words.substitution.batched`, one text a call
         plain    Algorithm 1 as printed in the paper, one text, one word and one candidate at a time, with unmodified
                  models of transformers and torch.autograd: the baseline without this code
         `alone` and `plain` do the first --some texts. Also counts how many texts of theirs end with the same words.
profile  seconds of processor time of `batched` by kind of work, and the number of calls of each network
bound    the speed on this machine if only matrix products took time: floating-point operations of the network calls
         that the search makes for --some texts, over the rate of the largest product of a MiniLM layer
share    the search's share of the time of an ADCL training step, on the same texts

Texts have --words words each and come from a corpus in a data folder. The loss is equation 1 with random keys. The
resource set `local` gives the candidates. The encoder is its masked LM's network, of MiniLM's shape, with the [CLS]
vector and an untrained head. Prints results; --out FILE writes them as JSON with machine and versions.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import transformers
from algorithm1 import Plain
from machine import processor
from scaling import matmul
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from rbench import config
from rbench.config.registry import Registry, search_path
from rbench.encoders.sentence import SentenceEncoder
from rbench.schema import EncoderSpec, ResourceChoice, TrainSpec
from rbench.system.processes import cores
from rbench.train.loop import pretrain
from rbench.words.resources import Resources
from rbench.words.substitution.batched import BatchedGeometry, SearchCallbacks, SearchTarget, SubstitutedText, at_most
from rbench.words.substitution.candidates import MaskedWords
from rbench.words.substitution.segmentation import find_words

MIN_COSINE = 0.5
DIM, KEYS = 128, 4096
"""Of the head's output, and in the queue."""


def main() -> None:
    args = parse()
    profile = config.load_resources(ResourceChoice(profile=args.resources), Registry())
    args.found = Resources(profile, args.models, device=args.device)
    args.found.load(("masked_lm", "word_vectors", "stopwords"))
    args.base = args.base or folder_of(args.found.masked_lm.name, args.models)
    args.texts = texts_of(args)
    parts: dict[str, Callable[[argparse.Namespace], Any]] = {
        "speed": speed,
        "profile": profiled,
        "bound": bound,
        "share": share,
    }
    document: dict[str, Any] = json.loads(args.out.read_text()) if args.out is not None and args.out.exists() else {}
    document |= {
        "what": "the batched Geometry search; see benchmarks/geometry.py",
        "base": args.base.name,
        "texts": {"corpus": args.corpus, "n": len(args.texts), "words": args.words},
        "options": {
            "batch": args.batch,
            "max_words": args.max_words,
            "share": args.share,
            "candidates": args.candidates,
        },
        "machine": {"processor": processor(), "cores": cores(), "device": args.device, "platform": platform.platform()},
        "threads": torch.get_num_threads(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    for name in args.parts:
        document[name] = parts[name](args)
        print(name, json.dumps(document[name], indent=1), flush=True)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ("speed", "profile", "bound", "share")
    parser.add_argument("--parts", nargs="+", choices=every, default=list(every))
    parser.add_argument("--models", type=Path, action="append", help="also RBENCH_MODELS")
    parser.add_argument("--data", type=Path, action="append", help="also RBENCH_DATA")
    parser.add_argument("--resources", default="local", help="a resource set")
    parser.add_argument("--base", type=Path, help="the encoder's folder (default: the profile's masked LM)")
    parser.add_argument("--corpus", default="wikipedia_en", help="corpus/NAME.jsonl in a data folder")
    parser.add_argument("--words", type=int, default=44, help="words per text; the default is the mean of AG News")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--some", type=int, default=16, help="texts for `alone` and `plain`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="ADCL training steps")
    parser.add_argument("--max-words", type=int, default=10)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--candidates", type=int, default=25)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    args.models = search_path(tuple(args.models or ()), "RBENCH_MODELS")
    args.data = search_path(tuple(args.data or ()), "RBENCH_DATA")
    return args


def folder_of(name: str, models: Sequence[Path]) -> Path:
    return next(folder / name for folder in models if (folder / name).is_dir())


def texts_of(args: argparse.Namespace) -> list[str]:
    """Return the first texts of the corpus with --words words, enough for all batches and for all steps of ADCL."""
    file = next(found for folder in args.data if (found := folder / "corpus" / f"{args.corpus}.jsonl").is_file())
    wanted = args.batch * max(args.batches, args.steps + 2 if "share" in args.parts else 0)
    with file.open(encoding="utf-8") as lines:
        rows = (str(json.loads(line)["text"]) for line in lines)
        texts = [text for text in dict.fromkeys(rows) if len(find_words((text,))) == args.words][:wanted]
    if len(texts) < args.batch:
        raise SystemExit(f"{file} has {len(texts)} texts of {args.words} words, fewer than a batch")
    return texts


class Task:
    """Encoder, head and contrastive loss that the search maximizes in training."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.encoder = SentenceEncoder.open(args.base, pooling="cls").to(args.device)
        torch.manual_seed(0)
        width = self.encoder.dim
        self.head = nn.Sequential(nn.Linear(width, width), nn.Sigmoid(), nn.Linear(width, DIM), nn.Tanh())
        self.head.to(args.device)
        self.keys = nn.functional.normalize(torch.randn(KEYS + len(args.texts), DIM), dim=1).to(args.device)

    def loss(self, z: Tensor, rows: list[int]) -> Tensor:
        """Compute equation 1 for each text. A text's positive key has the same index as the text."""
        similar = z @ self.keys.T
        own = torch.tensor(rows, device=z.device)
        return similar.logsumexp(dim=1) - similar.gather(1, own.unsqueeze(1)).squeeze(1)

    def geometry(self) -> BatchedGeometry:
        """Build the search with empty caches."""
        return BatchedGeometry.of(self.args.found, candidates=self.args.candidates, min_cosine=MIN_COSINE)

    def search(self, found: BatchedGeometry, first: int, size: int) -> list[SubstitutedText]:
        """Run the search on texts number `first`, ..., `first + size - 1` in one call."""
        return found(
            [(text,) for text in self.args.texts[first : first + size]],
            SearchTarget(
                self.encoder,
                lambda z, rows: self.loss(z, [first + row for row in rows]),
                self.args.max_length,
                project=self.head,
            ),
            max_words=at_most(self.args.max_words, self.args.share),
        )


# ------------------------------------------------------------------------------------------------------------- speed


def speed(args: argparse.Namespace) -> dict[str, Any]:
    """Measure hard positives per second of each way, by round, and their ratios within a round."""
    task = Task(args)
    size, some = args.batch * args.batches, args.some

    def batched() -> list[str]:
        found = task.geometry()
        return [s.texts[0] for start in range(0, size, args.batch) for s in task.search(found, start, args.batch)]

    def alone() -> list[str]:
        found = task.geometry()
        return [task.search(found, row, 1)[0].texts[0] for row in range(some)]

    def plain() -> list[str]:
        found = Plain(task, MIN_COSINE)
        return [found(row) for row in range(some)]

    ways = {"batched": (batched, size), "alone": (alone, some), "plain": (plain, some)}
    task.search(task.geometry(), 0, 2)
    Plain(task, MIN_COSINE)(0)
    rates: dict[str, list[float]] = {name: [] for name in ways}
    ends: dict[str, list[str]] = {}
    for _ in range(args.rounds):
        for name, (way, n) in ways.items():
            start = time.perf_counter()
            ends[name] = way()
            rates[name].append(n / (time.perf_counter() - start))
    found: dict[str, Any] = {}
    for name, (_, n) in ways.items():
        ratios = [a / b for a, b in zip(rates["batched"], rates[name], strict=True)]
        same = sum(a == b for a, b in zip(ends["batched"], ends[name], strict=False))
        found[name] = {
            "texts": n,
            "positives_per_second": round(statistics.median(rates[name]), 3),
            "rounds": [round(rate, 3) for rate in rates[name]],
            "batched_is_faster": round(statistics.median(ratios), 2),
            "same_as_batched": f"{same} of {n}",
        }
    return found


# ----------------------------------------------------------------------------------------------------------- profile


def profiled(args: argparse.Namespace) -> dict[str, Any]:
    """Measure processor seconds of one batch by kind of work. They add up to `all`."""
    task = Task(args)
    task.search(task.geometry(), 0, 2)
    found = task.geometry()
    seconds, counts = Counter[str](), Counter[str]()
    assert isinstance(found.source, MaskedWords)
    network = found.source.language_model.network
    before = network.rows_read
    with watched(seconds, counts):
        start = time.process_time()
        made = task.search(found, 0, args.batch)
        seconds["all"] = time.process_time() - start
    seconds["else"] = seconds["all"] - sum(seconds[name] for name in ("gradients", "candidates", "scores"))
    counts["masked_lm_rows"] = network.rows_read - before
    counts["replaced"] = sum(len(one.substitutions) for one in made)
    return {"texts": len(made), "processor_seconds": {k: round(v, 2) for k, v in seconds.items()}, "counts": counts}


@contextmanager
def watched(seconds: Counter[str], counts: Counter[str]) -> Iterator[None]:
    """Count calls of the search's three callables and measure their time."""
    originals = {name: getattr(SearchCallbacks, name) for name in ("gradients", "candidates", "scores")}

    def noted(name: str) -> Callable[[Any, list[Any]], Any]:
        def call(self: Any, batch: list[Any]) -> Any:
            start = time.process_time()
            answer = originals[name](self, batch)
            seconds[name] += time.process_time() - start
            counts[name] += len(batch)
            counts[f"{name}_calls"] += 1
            if name == "candidates":
                counts["words_without"] += sum(not words for words in answer)
            return answer

        return call

    for name in originals:
        setattr(SearchCallbacks, name, noted(name))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(SearchCallbacks, name, original)


# ------------------------------------------------------------------------------------------------------------- bound


def bound(args: argparse.Namespace) -> dict[str, Any]:
    """Compute hard positives per second if only the networks' products took time, all at the rate of their largest.

    Runs the networks on one text at a time, so that no text is padded, and in PyTorch, which can count operations.
    """
    if args.device != "cpu":
        raise SystemExit("bound measures the products of a CPU")
    profile = config.load_resources(ResourceChoice(profile=args.resources), Registry())
    plain = Resources(profile, args.models, backend="torch")
    plain.load(("masked_lm", "word_vectors", "stopwords"))
    task = Task(args)
    found = BatchedGeometry.of(plain, candidates=args.candidates, min_cosine=MIN_COSINE)
    with FlopCounterMode(display=False) as counter:
        for row in range(args.some):
            task.search(found, row, 1)
    each = counter.get_total_flops() / args.some / 1e9
    rates = {name: matmul(name) for name in ("torch", "onednn")}
    return {
        "texts": args.some,
        "gflop_per_positive": round(each, 2),
        "gflops_matmul": rates,
        "positives_per_second_at_most": round(max(rates.values()) / each, 2),
    }


# ------------------------------------------------------------------------------------------------------------- share


def share(args: argparse.Namespace) -> dict[str, Any]:
    """Measure seconds of an ADCL step and of the search in it, without the first step."""
    searches: list[float] = []
    ends: list[tuple[float, int]] = []
    call = BatchedGeometry.__call__

    def timed(self: BatchedGeometry, texts: Any, **given: Any) -> list[SubstitutedText]:
        start = time.perf_counter()
        made = call(self, texts, **given)
        searches.append(time.perf_counter() - start)
        return made

    train = TrainSpec(
        objective="adcl",
        options={"queue": KEYS, "candidates": args.candidates, "max_words": args.max_words, "share": args.share},
        data="texts",
        steps=args.steps + 1,
        batch_size=args.batch,
        max_length=args.max_length,
    )
    spec = EncoderSpec(name="adcl", base=str(args.base), pooling="cls", train=train)
    BatchedGeometry.__call__ = timed  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory(prefix="rbench-geometry-") as folder:
            pretrain(
                spec,
                args.base,
                args.texts,
                Path(folder) / "made",
                seed=0,
                device=args.device,
                progress=lambda done, of, said: ends.append((time.perf_counter(), len(searches))),
                resources=args.found,
            )
    finally:
        BatchedGeometry.__call__ = call  # type: ignore[method-assign]
    steps = [after[0] - before[0] for before, after in pairwise(ends)]
    within = [sum(searches[before[1] : after[1]]) for before, after in pairwise(ends)]
    return {
        "steps": len(steps),
        "seconds_per_step": round(statistics.median(steps), 3),
        "search_seconds_per_step": round(statistics.median(within), 3),
        "share": round(sum(within) / sum(steps), 3),
    }


if __name__ == "__main__":
    main()
