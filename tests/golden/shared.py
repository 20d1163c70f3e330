"""Code that several modules share: search for words, candidates, encoders, scores, samples, and what builds things."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from rbench.encoders import architecture
from rbench.encoders.random_weights import draw_encoder
from rbench.encoders.sentence import SentenceEncoder
from rbench.execution.attacks import sample
from rbench.measures import TrainedContext, positives
from rbench.schema import EncoderSpec, Outcome, Score
from rbench.score.contrast import BundleResult, adversarial_scores, contrast_scores
from rbench.score.sts import StsPairs
from rbench.score.subsets import set_scores
from rbench.tasks import Example, TaskData
from rbench.train import objectives
from rbench.train.finetune import sample_split
from rbench.train.loop import pretrain
from rbench.words.substitution.batched import BatchedGeometry, SearchTarget, at_most
from rbench.words.substitution.candidates import MaskedWords, NeighbourWords
from rbench.words.substitution.options import RELEASED_SOURCE
from rbench.words.substitution.search import BatchText, CandidateScores, TextGradients, WordSlot, search
from tests.golden import formula, world
from tests.golden.case import Case, Value
from tests.golden.world import PAIRS, SENTENCES


def scored(scores: tuple[Score, ...]) -> Value:
    return {score.name: [score.value, score.n, score.low, score.high, score.units] for score in scores}


# ------------------------------------------------------------------------------------------------ words and searches


def masked_words(folder: Path) -> Value:
    """Candidates of each word of a text of two columns, in their order."""
    resources = world.resources(folder)
    vectors, text = resources.word_vectors, "\n".join(PAIRS[0]).replace("chatty", "CHATTY")
    slots, end = [], 0
    for word in text.replace(".", " ").split():
        start = text.index(word, end)
        end = start + len(word)
        slots.append((text, start, end))
    found = {}
    for name, options in {
        "plain": {},
        "near": {"candidates": 300, "min_cosine": 0.3},
        "unknown": {"candidates": 4, "min_cosine": 0.9, "unknown": "keep"},
    }.items():
        offered: Any = MaskedWords(resources.masked_lm, vectors, **options)  # type: ignore[arg-type]
        found[name] = {text[a:b]: words for (_, a, b), words in zip(slots, offered(slots), strict=True)}
    return found


def neighbours(folder: Path) -> Value:
    """The nearest words of each word of a text."""
    words = [word for pair in PAIRS for text in pair for word in text.rstrip(".").split()]
    found = {}
    for name, options in {"plain": {}, "far": {"candidates": 6, "min_cosine": None}}.items():
        source: Any = NeighbourWords(world.resources(folder).word_vectors, **options)  # type: ignore[arg-type]
        found[name] = {word: source([(word, 0, len(word))])[0] for word in words}
    return found


def wordswap(folder: Path) -> Value:
    """The search over vectors, directions, norms and candidates by formula; a text is over where one says so."""

    def vectors(batch: list[BatchText], kind: str) -> torch.Tensor:
        return torch.stack([formula.tensor(f"{kind} {' '.join(one.words)}", 3) for one in batch])

    def gradients(batch: list[BatchText]) -> TextGradients:
        norms = [formula.tensor(f"norm {one.row} {' '.join(one.words)}", len(one.words)).abs() for one in batch]
        return TextGradients(vectors(batch, "at"), vectors(batch, "towards"), norms)

    def candidates(batch: list[WordSlot]) -> list[list[str]]:
        drawn = (formula.numbers(f"{one.words[one.place]} {one.place}", 5) for one in batch)
        return [[f"w{int(100 * x)}" for x in numbers if x < 0.6] for numbers in drawn]

    def scores(batch: list[BatchText]) -> CandidateScores:
        return CandidateScores(
            vectors(batch, "at"), [float(formula.numbers(" ".join(s.words), 1)[0]) < 0.1 for s in batch]
        )

    texts = [text.rstrip(".").split() for text in SENTENCES]
    free = [[word.islower() for word in text] for text in texts]
    found = {}
    for name, options in {
        "plain": {},
        "absolute": {"projection": "absolute"},
        "largest alone": {"accept_flip": False},
        "lookahead": {"lookahead": 3},
        "once": {"order": "once", "keep": "positive", "accept_flip": False},
    }.items():
        more: Any = options
        results = search(texts, free, gradients=gradients, candidates=candidates, scores=scores, max_words=4, **more)
        found[name] = [[" ".join(one.words), one.done] for one in results]
    return found


def geometry(folder: Path) -> Value:
    """The search on an encoder in training, for single texts and for pairs whose first column is fixed."""
    encoder, resources = world.encoder(folder).train(), world.resources(folder)
    made = BatchedGeometry.of(resources, candidates=200, min_cosine=0.2)

    def loss(z: torch.Tensor, rows: list[int]) -> torch.Tensor:
        keys = formula.tensor("keys", 8, z.shape[1]).to(z.dtype)
        similar = z @ keys.T
        return similar.logsumexp(dim=1) - similar[torch.arange(len(rows)), rows]

    def run(
        texts: list[tuple[str, ...]], *, by: BatchedGeometry = made, fixed: tuple[int, ...] = (), **more: Any
    ) -> Value:
        target = SearchTarget(encoder, loss, max_length=24, **more)
        swapped = by(texts, target, max_words=at_most(3, 0.5), fixed=fixed)
        return [[list(one.texts), [step.index for step in one.substitutions], one.num_words] for one in swapped]

    head = torch.nn.Linear(16, 16)
    formula.fill(head)
    released = BatchedGeometry.of(
        resources, **RELEASED_SOURCE, order="once", keep="positive", word_norm="l1", accept_flip=False
    )
    return {
        "released": run([(text,) for text in SENTENCES], by=released),
        "single": run([(text,) for text in SENTENCES]),
        "pairs": run(PAIRS, fixed=(0,)),
        "projected": run([(text,) for text in SENTENCES], project=head),
        "over": run([(text,) for text in SENTENCES], over=lambda z, rows: (z[:, 0] > 0.5).tolist()),
    }


def edits(folder: Path) -> Value:
    """x_syn and x_ant of the sentences."""
    from rbench.mini.lexical import pos_tags
    from rbench.train.edits import EditOptions, SentenceEditor, count_types, tag_text
    from rbench.words.resources.thesaurus import mini_thesaurus

    texts = [*SENTENCES, *(" ".join(pair) for pair in PAIRS)]
    places = [tag_text(text, pos_tags) for text in texts]
    counts, look_up = count_types(texts, places), mini_thesaurus()
    table = {kind: look_up(*kind) for kind in counts}
    editor = SentenceEditor(EditOptions(), 5, table, counts, texts, places)
    made = [editor.edit(text, where) for text, where in zip(texts, places, strict=True)]
    return {
        "defaults": EditOptions().model_dump(mode="json"),
        "edits": [[[edit.text, [list(span) for span in edit.spans], edit.antonyms] for edit in pair] for pair in made],
        "rates": [editor.synonym_rate, editor.antonym_rate],
    }


# --------------------------------------------------------------------------------------------------------- encoders


def random_weights(folder: Path) -> Value:
    """Vectors of an encoder that keeps random weights, by seed. It reads with the embedded world's tokenizer."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    spec = EncoderSpec.model_validate({"name": "drawn", "architecture": sizes, "pooling": "mean"})
    tokenizer = architecture.build_embedded_tokenizer()
    drawn = {seed: draw_encoder(spec, tokenizer, seed) for seed in (0, 1)}
    return {f"seed {seed}": encoder.encode(SENTENCES[:2]).tolist() for seed, encoder in drawn.items()}


def encoders(folder: Path) -> Value:
    """Vectors with each pooling, with one layer of two, and cut at 8 tokens."""
    where = world.network(folder)
    settings: dict[str, dict[str, Any]] = {
        "cls": {"pooling": "cls"},
        "mean": {"pooling": "mean"},
        "first-last-mean": {"pooling": "first-last-mean"},
        "one layer": {"pooling": "mean", "layers": 1},
        "cut": {"pooling": "mean", "max_length": 8},
    }
    found = {
        name: [formula.digest(row) for row in SentenceEncoder.open(where, **given).encode(SENTENCES[:3])]
        for name, given in settings.items()
    }
    return found | {"classifier": world.logits(world.victim(folder, world.PAIR).classifier, SENTENCES).tolist()}


def loop(folder: Path) -> Value:
    """A training of six steps with warm-up, weight decay and accumulated gradients: the encoder that it leaves."""
    spec = world.spec(
        "simcse",
        world.network(folder),
        steps=6,
        learning_rate=5e-3,
        warmup=0.3,
        weight_decay=0.1,
        gradient_accumulation=2,
        max_length=12,
    )
    texts = [*SENTENCES, *(text for pair in PAIRS for text in pair), *(text.upper() for text in SENTENCES)]
    assert spec.base is not None
    with formula.portable_dropout():
        scores = pretrain(spec, spec.base, texts, folder / "trained", seed=4)
    encoder = SentenceEncoder.open(folder / "trained", pooling="cls")
    return {"scores": scores, "vectors": [formula.digest(row) for row in encoder.encode(SENTENCES)]}


# -------------------------------------------------------------------------------------------------- scores, samples


def sts(folder: Path) -> Value:
    """Scores of fixed vectors, of fewer pairs, and of vectors that are all alike."""
    texts = [*SENTENCES, *(text for pair in PAIRS for text in pair)]
    gold = [round(5 * x, 1) for x in formula.numbers("gold", 8)]
    pairs = StsPairs(tuple(texts[:8]), tuple(texts[8:]), tuple(gold))

    def encode(asked: list[str]) -> np.ndarray:
        return np.stack([formula.tensor(text, 5).numpy() + 0.3 for text in asked])

    few = StsPairs(pairs.first[:3], pairs.second[:3], pairs.gold[:3])
    alike = pairs.scores(lambda asked: np.ones((len(asked), 3)))
    return {"eight": scored(pairs.scores(encode)), "three": scored(few.scores(encode)), "alike": scored(alike)}


def subsets(folder: Path) -> Value:
    """Correlations of a set in two subsets, with what averages need."""
    found, gold = formula.numbers("cosines", 24), [round(5 * x, 1) for x in formula.numbers("gold", 24)]
    scores = set_scores(found, gold, ["news"] * 10 + ["forum"] * 14)
    return {score.name: [score.value, score.n, score.low, score.high, score.sd] for score in scores}


def contrast(folder: Path) -> Value:
    """Scores of 40 bundles of up to three edits, in clusters and without."""
    drawn = formula.numbers("bundles", 400).reshape(40, 10)
    bundles = [
        BundleResult(
            row[0] < 0.8,
            tuple((row[2 + 2 * k] < 0.7, row[3 + 2 * k] < 0.6) for k in range(1 + int(3 * row[1]))),
            f"cluster {int(12 * row[9])}",
        )
        for row in drawn.tolist()
    ]
    alone = [BundleResult(bundle.original, bundle.edits) for bundle in bundles]
    return {"clusters": scored(contrast_scores(bundles)), "alone": scored(contrast_scores(alone))}


def adversarial(folder: Path) -> Value:
    """Scores of 40 rows, some of them changed; and of rows of which none is."""
    drawn = formula.numbers("rows", 120).reshape(40, 3)
    rows = [BundleResult(row[0] < 0.8, ((row[1] < 0.4, False),) if row[2] < 0.6 else ()) for row in drawn.tolist()]
    unchanged = [BundleResult(row.original, ()) for row in rows]
    return {"changed": scored(adversarial_scores(rows)), "unchanged": scored(adversarial_scores(unchanged))}


def samples(folder: Path) -> Value:
    """Which examples are attacked and which are trained on, by seed."""
    rows = [Example(str(i), (f"text {i}",), i % 2) for i in range(50)]
    data = TaskData(world.SINGLE, "memory", "f", {}, {}, {}, {"train": rows})
    return {
        "attacked": {
            f"{seed} {task}": [one.id for one in sample(rows, 12, seed, task)] for seed in (0, 1) for task in ("a", "b")
        },
        "trained on": {str(seed): [one.id for one in sample_split(data, "train", 12, seed)] for seed in (0, 1)},
        "all": hashlib.sha256(" ".join(one.id for one in sample(rows, 50, 3, "a")).encode()).hexdigest()[:16],
    }


# ------------------------------------------------------------------------------------------------- things to build


def built(folder: Path) -> Value:
    """Hard positives of four texts, with an encoder by formula."""
    rows = [Example(f"train:{i}", (text,), 0) for i, text in enumerate([*SENTENCES, *(p for p, _ in PAIRS)])]
    data = TaskData(world.SINGLE, "memory", "f", {}, {}, {}, {"train": rows})
    weights = world.network(folder)
    spec = world.spec("adcl", weights, options={"queue": 16, "min_cosine": 0.2, "candidates": 200})
    assert spec.train is not None
    of: dict[str, Any] = {"spec": spec, "weights": weights, "objective": objectives.find(spec.train.objective)}
    resources: Any = world.resources(folder)
    of |= {"rows": data.split, "splits": ("train",), "progress": lambda *at: None}
    context = TrainedContext(task=data.spec, seed=2, data=data, device="cpu", resources=resources, **of)
    found = positives.HardPositiveTexts().run(positives.Options(num_examples=4), context)
    outcomes = [
        [one.example_id, one.status, list(one.perturbed or ()), one.num_words, one.num_words_changed]
        for one in cast(list[Outcome], found.lines)
    ]
    return {
        "defaults": positives.Options().model_dump(mode="json"),
        "outcomes": outcomes,
        "scores": scored(found.scores),
        "counts": found.counts,
    }


def cases() -> list[Case]:
    return [
        Case("measures/positives", ("rbench/measures/positives.py", "rbench/train/objectives/adcl.py"), built),
        Case("shared/masked_words", ("rbench/words/substitution/candidates.py",), masked_words),
        Case("shared/neighbours", ("rbench/words/substitution/candidates.py",), neighbours),
        Case("shared/wordswap", ("rbench/words/substitution/search.py",), wordswap),
        Case("shared/geometry", ("rbench/words/substitution/batched.py",), geometry),
        Case("shared/edits", ("rbench/train/edits.py",), edits),
        Case("shared/encoders", ("rbench/encoders/sentence.py", "rbench/encoders/classifier.py"), encoders),
        Case("shared/random_weights", ("rbench/encoders/random_weights.py",), random_weights),
        Case("shared/loop", ("rbench/train/loop.py", "rbench/train/objectives/simcse.py"), loop),
        Case("shared/sts", ("rbench/score/sts.py",), sts),
        Case("shared/subsets", ("rbench/score/subsets.py",), subsets),
        Case("shared/contrast", ("rbench/score/contrast.py",), contrast),
        Case("shared/adversarial", ("rbench/score/contrast.py",), adversarial),
        Case("shared/samples", ("rbench/execution/attacks.py", "rbench/train/finetune/_data.py"), samples),
    ]
