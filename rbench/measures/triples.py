"""Triples: is what means the same nearer to the original than what means something else?

For encoders without a task. A triple is an original, a text that keeps its meaning, and a text that changes it. The
kept text is nearer where its cosine to the original is the higher one; equal cosines count half. The margin is the
difference of the two cosines. An encoder that gives one vector to all texts has 50% and the margin 0. Ours.

Where triples are from depends on the task:

rows        the task has the columns `original`, `kept` and `changed`
edits       of a task's texts: kinds of noise keep the meaning, and kinds of edits change it
gold        pairs with gold scores that share a text: `kept` is the partner that people found the more similar
labels      pairs with classes that share their first text: `kept` and `changed` are partners with these labels, such
            as what a premise entails and what contradicts it, or passages for a claim and against it
rankings    a query, a passage that is relevant to it, and the same passage with an edit that says the opposite

Numbers are over originals: an original with several triples has the mean of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.edits import EditKind, edited
from rbench.errors import JobError
from rbench.measures import Column, EncoderContext, Mean, Measure, Row
from rbench.noise import NoiseKind, noised
from rbench.schema import Positive, ResourceKind, Strict, TaskSpec
from rbench.schema import Share as ShareOf

if TYPE_CHECKING:
    from rbench.tasks import Example

VERSION = 2
USES = ("encoders.sentence", "edits._changes", "noise._changes")
COLUMNS = ("original", "kept", "changed")
TIED = 1e-6
"""Cosines that differ by no more are equal: vectors are computed in single precision."""
LEAST_GAP = 1.0
"""Two partners of a text are told apart where their gold scores differ by so many points of the task."""
Array = NDArray[np.float64]


class Options(Strict):
    """Which triples."""

    task: str = "meaning_triples"
    """A task with the columns original, kept and changed; a similarity task; with `kept` and `changed` a task of pairs
    with classes; with `edits` and `noise` a task of single texts; with `edits` a ranking."""
    kept: str | None = None
    """The label of pairs whose second text keeps the meaning of the first, such as `entailment`."""
    changed: str | None = None
    """The label of pairs whose second text changes it, such as `contradiction`."""
    edits: tuple[str, ...] = ()
    """Kinds of edits that change the meaning (`rbench list edits`)."""
    noise: tuple[str, ...] = ()
    """Kinds of noise that keep it (`rbench list noise`)."""
    degree: ShareOf = 0.1
    """The share of units that noise changes."""
    max_texts: Positive | None = 1000
    """At most so many texts, the first ones; of pairs, so many originals."""


class Triple(NamedTuple):
    """An original, a text that keeps its meaning, and a text that changes it."""

    original: str
    kept: str
    changed: str


class Triples(Measure[Options]):
    """Triples: whether what means the same is nearer than what means something else."""

    title = "Triples: is what means the same nearer than what means something else?"
    reads = "encoders"
    vectors = True
    resources = ("synonyms", "pos_tagger")
    files: Mapping[str, str] = {"edits": "edits", "noise": "noise"}
    options_by_task = ("task",)
    columns = (
        Mean(
            "kept_nearer",
            "triples whose kept text is nearer to the original than the changed one, by cosine; ties count half; the "
            "mean over originals",
            best="highest",
            title="Kept is nearer",
            percent=True,
        ),
        Mean("margin", "cosine of original and kept - cosine of original and changed", best="highest", digits=3),
        Column("triples", "triples behind the numbers", digits=0),
    )

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return what kinds of edits look up; nothing for triples that are rows."""
        return self.resources if options.edits else ()

    def splits(self, options: Options, task: TaskSpec) -> tuple[str, ...]:
        """Return no split: all that there are will do. Raises ValueError for options that do not fit the task."""
        kind, columns, labels = task.of_kind, len(task.columns), (options.kept, options.changed)
        if kind.has_documents:
            if not options.edits:
                raise ValueError(f"the passages of {task.name} are edited: name kinds of `edits`")
        elif options.edits or options.noise:
            if not (options.edits and options.noise):
                raise ValueError("triples are made with `edits`, which change the meaning, and `noise`, which keeps it")
            if columns != 1:
                raise ValueError(f"task {task.name} has {columns} columns of text; triples are made of one")
        elif kind.has_classes and columns == 2:
            if unknown := [label for label in labels if label not in task.labels]:
                known = ", ".join(task.labels)
                raise ValueError(f"`kept` and `changed` are labels of {task.name} ({known}), not {unknown[0]}")
        elif not kind.has_scores and task.columns != COLUMNS:
            raise ValueError(
                f"task {task.name} has the columns {', '.join(task.columns)}, and triples {', '.join(COLUMNS)}; name "
                "such a task, or make them of its texts with `edits` and `noise`"
            )
        return ("test",) if kind.has_documents else ()

    def run(self, options: Options, context: EncoderContext) -> Iterator[Row]:
        """Yield a row over all triples; where edits make them, one over sure kinds, and one for each kind.

        Raises JobError where there is no triple, or a text has the vector 0.
        """
        examples = [example for split in context.splits for example in context.rows(split)]
        if not options.edits:
            yield _build_row(context, _first_originals(_read_triples(options, context.task, examples), options), {})
            return
        assert context.file is not None
        by_kind = {
            name: list(_make_triples(context, name, examples[: options.max_texts], options)) for name in options.edits
        }
        sure = [name for name in options.edits if context.file("edits", name).sure]
        if any(by_kind[name] for name in sure):
            yield _build_row(context, [triple for name in sure for triple in by_kind[name]], {"kind": "sure kinds"})
        for name, triples in by_kind.items():
            if triples:
                yield _build_row(context, triples, {"kind": name if name in sure else f"{name} (uncertain)"})
        if not any(by_kind.values()):
            yield _build_row(context, [], {})

    def examples(self, prepared: Any, job: Any) -> int:
        """Return how many texts a job reads, about."""
        options = Options.model_validate(job.spec.what.options)
        num_rows = sum(prepared.data[job.spec.task.name].sizes.values())
        return int(min(options.max_texts or num_rows, num_rows) * (1 + max(2, len(options.edits) + len(options.noise))))


def _read_triples(options: Options, task: TaskSpec, examples: Sequence[Example]) -> Iterator[Triple]:
    """Yield the triples that the rows of a task give by themselves, original by original."""
    if not task.of_kind.has_scores and not task.of_kind.has_classes:
        yield from (Triple(*example.texts) for example in examples)
        return
    partners: dict[str, dict[str, int | float]] = {}
    for example in examples:
        if example.label is not None:
            first, second = example.texts
            partners.setdefault(first, {})[second] = example.label
            if task.of_kind.has_scores:  # likeness goes both ways; what is entailed or said of a claim does not
                partners.setdefault(second, {})[first] = example.label
    for original, labels in partners.items():
        for kept, changed in permutations(labels, 2):
            if _is_told_apart(options, task, labels[kept], labels[changed]):
                yield Triple(original, kept, changed)


def _is_told_apart(options: Options, task: TaskSpec, kept: float, changed: float) -> bool:
    """Whether people found that of two partners of a text the first one keeps its meaning, and the other less so."""
    if task.of_kind.has_scores:
        return kept - changed >= LEAST_GAP
    return (task.labels[int(kept)], task.labels[int(changed)]) == (options.kept, options.changed)


def _first_originals(triples: Iterable[Triple], options: Options) -> list[Triple]:
    """Return the triples of the first `max_texts` originals."""
    kept = list(triples)
    originals = {*list(dict.fromkeys(triple.original for triple in kept))[: options.max_texts]}
    return [triple for triple in kept if triple.original in originals]


def _make_triples(
    context: EncoderContext, name: str, examples: Sequence[Example], options: Options
) -> Iterator[Triple]:
    """Yield the triples of one kind of edit: of each text, or of each passage that is relevant to a query."""
    assert context.file is not None
    kind: EditKind = context.file("edits", name)
    keeping: list[NoiseKind] = [context.file("noise", noise) for noise in options.noise]
    for example in examples:
        for original, kept in _kept_texts(context, example, keeping, options):
            source = kept if context.task.of_kind.has_documents else original
            changed = edited(kind, source, "triples", context.resources)
            if changed is not None:
                yield Triple(original, kept, changed)


def _kept_texts(
    context: EncoderContext, example: Example, keeping: Sequence[NoiseKind], options: Options
) -> Iterator[tuple[str, str]]:
    """Yield a text with the first noise that changes it; or a query with each passage that is relevant to it."""
    (original,) = example.texts
    if context.task.of_kind.has_documents:
        assert context.data is not None and context.data.collection is not None
        passages = context.data.collection
        for passage in sorted(passages.relevance.get(example.id, ())):
            yield original, passages.texts[passages.place[passage]]
        return
    noisy = (noised(kind, original, options.degree, f"triples {kind.name}").text for kind in keeping)
    if (kept := next((text for text in noisy if text != original), None)) is not None:
        yield original, kept


def _build_row(context: EncoderContext, triples: Sequence[Triple], names: dict[str, str]) -> Row:
    if not triples:
        raise JobError(f"{context.task.name} has no triple: no text of it has both a kept and a changed text beside it")
    originals, kept, changed = zip(*triples, strict=True)
    passages = context
    if context.task.of_kind.has_documents:  # which an encoder may read with a prompt of their own
        passages = replace(context, encoder=context.encoder.for_documents())
    margins = compute_margins(context.vectors(originals), passages.vectors(kept), passages.vectors(changed))
    if np.isnan(margins).any():
        raise JobError(f"{int(np.isnan(margins).sum())} triples of {context.task.name} have a text with the vector 0")
    places = {text: i for i, text in enumerate(dict.fromkeys(originals))}
    of_original = np.array([places[text] for text in originals])
    sizes = np.bincount(of_original)
    values = {
        "kept_nearer": np.bincount(of_original, kept_is_nearer(margins)) / sizes,
        "margin": np.bincount(of_original, margins) / sizes,
    }
    return Row({**values, "triples": len(triples)}, names=names)


def compute_margins(original: Array, kept: Array, changed: Array) -> Array:
    """Return cos(original, kept) - cos(original, changed) of each triple (n,), from vectors (n, dim); NaN for a 0."""
    return _row_cosines(original, kept) - _row_cosines(original, changed)


def kept_is_nearer(margins: Array) -> Array:
    """Return 1 where the kept text is nearer, 0 where the changed one is, and 0.5 where both are as near."""
    return np.where(np.abs(margins) <= TIED, 0.5, (margins > 0).astype(float))


def _row_cosines(first: Array, second: Array) -> Array:
    with np.errstate(invalid="ignore"):
        cosines: Array = (first * second).sum(1) / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))
    return cosines
