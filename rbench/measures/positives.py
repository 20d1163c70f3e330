"""Hard positives of a trained encoder: texts with words replaced so that its contrastive loss rises (ADCL, appendix G).

They are made as in training (`rbench.train.substituted`), with the encoder at the end of its training. Its heads
and its queue were not kept: heads are drawn anew, and the queue is filled with the keys of other texts of the split.
The paper does not say at which point of the training the positives of its Table 9 were made.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.measures._context import Measured, TrainedContext
from rbench.schema import Job, Outcome, Split, Strict, TableSpec
from rbench.schema.common import Positive
from rbench.system.changes import count_changed_words, iter_changes, split_tokens
from rbench.tables import Results, Table
from rbench.tables.draws import training_seed
from rbench.tables.notes import unfinished_notes, variant_notes
from rbench.tables.table import MarkedText, Meaning, Number, TableEntry

if TYPE_CHECKING:
    from rbench.tasks import Example

# Part of the key of every job that builds hard positives (config/versions.py): raising it makes them anew.
VERSION = 1
USES = ("substitution.batched", "substitution.segmentation")
"""The search replaces the words, asked by the objective, which no import shows."""

ABOUT = Meaning("Hard positives", "texts with words replaced so that the contrastive loss rises")
_CAPTION = f"{ABOUT.title}: {ABOUT.definition}"
MAX_KEYS = 512
"""The most other texts in the queue (ours): enough negatives, and quick to encode."""


class Options(Strict):
    """Which texts positives are made of."""

    split: Split = "train"
    """`train` is what an in-domain encoder was trained on."""
    num_examples: Positive = 5


def _make_positives(model: Any, texts: list[str]) -> tuple[list[str], dict[str, float]]:
    """The positives of all texts and the sums of their counts. A call takes at most as many texts as the queue."""
    all_positives, sums = [], Counter[str]()
    for start in range(0, len(texts), model.queue.size):
        new_positives, new_counts = model.positives(model, texts[start : start + model.queue.size])
        all_positives += new_positives
        sums.update(new_counts)
    return all_positives, dict(sums)


def _build_outcome(example: Example, positives: tuple[str, ...]) -> Outcome:
    """An example with the positives of its texts, as an attack's outcome has them."""
    from rbench.words.substitution.segmentation import words_of

    before, after = words_of(example.texts), words_of(positives)
    changed, num_words = count_changed_words(before, after), sum(map(len, before))
    return Outcome(
        example_id=example.id,
        status="succeeded" if changed else "failed",
        original=example.texts,
        perturbed=positives,
        label=int(example.label or 0),
        num_words=num_words,
        num_words_changed=changed,
        perturbed_share=changed / num_words if changed else None,
    )


def build_paper_table(results: Results, wanted: TableSpec) -> Table:
    """Build two rows per example. Raises StoreError where the RUN has no texts."""
    plan, jobs = results.plan, _list_jobs(results)
    flags = results.flags
    if not plan.texts:
        raise StoreError(
            f"{results.root} keeps no texts, and this table is made of them: --layout full has its numbers, and a RUN "
            "that is run without --no-texts has the texts."
        )
    rows: list[tuple[TableEntry, ...]] = []
    groups: list[int] = []
    cells: list[dict[str, Any]] = []
    for job in jobs:
        encoder, task, _ = job.parts
        if hiding := flags.hiding([job]):
            groups.append(len(rows))
            rows.append((encoder, task, "hard positive", Number(None, percent=False, withheld=hiding)))
            continue
        for outcome in results.store.outcomes(job):
            groups.append(len(rows))
            before = outcome.original or ()
            original, positive = (" / ".join(texts) for texts in (before, outcome.perturbed or before))
            original_marked, positive_marked = mark_differences(original, positive)
            rows += [(encoder, task, "original", original_marked), (encoder, task, "hard positive", positive_marked)]
            cells.append(_program_row(job, outcome, original, positive) | {"flags": flags.told([job])})
    return Table(
        metric="positives",
        header=("Encoder", "Task", "", "Text"),
        rows=tuple(rows),
        groups=frozenset(groups[1:]),
        cells=tuple(cells),
        notes=_build_notes(results, jobs),
        flags=flags.listed(jobs),
        shows=ABOUT,
        caption=_CAPTION,
    )


def build_full_table(results: Results, wanted: TableSpec) -> Table:
    """Build one row per job: mean rise of the loss, mean share of words replaced."""
    plan, jobs, statuses = results.plan, _list_jobs(results), results.standing
    flags = results.flags
    rows: list[tuple[TableEntry, ...]] = []
    cells: list[dict[str, Any]] = []
    drawn = bool(plan.draws)
    for job in jobs:
        label, task, _ = job.parts
        encoder, train_seed = (draw := plan.draw(label)).encoder, draw.train_seed
        record = statuses.records.get(job.key)
        is_complete = record is not None and record.status == "complete"
        scores = {score.name: score for score in record.scores} if record is not None and is_complete else {}
        raised, words = scores.get("loss_raised"), scores.get("words_replaced")
        rows.append(
            (
                encoder,
                task,
                *([training_seed(train_seed)] if drawn else []),
                job.seed,
                record.counts.get("texts") if record is not None and is_complete else None,
                flags.on(Number(raised.value, percent=False, digits=3), [job]) if raised is not None else None,
                flags.on(Number(words.value, percent=True), [job]) if words is not None else None,
            )
        )
        hidden = bool(flags.hiding([job]))
        values = {name: None if hidden else score.value for name, score in scores.items()}
        seed_fields = {"train_seed": train_seed} if drawn else {}
        flag_fields = {"flags": flags.told([job])}
        cells.append({"encoder": encoder, "task": task, **seed_fields, "seed": job.seed, **values, **flag_fields})
    return Table(
        metric="positives",
        layout="full",
        header=(
            *("Encoder", "Task", *(["Training seed"] if drawn else [])),
            *("Seed", "Texts", "Loss raised by", "Words replaced"),
        ),
        rows=tuple(rows),
        cells=tuple(cells),
        notes=_build_notes(results, jobs),
        flags=flags.listed(jobs),
        shows=ABOUT,
        caption=_CAPTION,
    )


def mark_differences(old: str, new: str) -> tuple[MarkedText, MarkedText]:
    """Return both texts with the words marked in which they differ."""
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for before, after in iter_changes(old, new):
        for text, pieces in ((before, left), (after, right)):
            pieces += [(word, before != after and not word.isspace()) for word in split_tokens(text)]
    return MarkedText(tuple(left), "red"), MarkedText(tuple(right), "blue")


def _list_jobs(results: Results) -> list[Job]:
    return [job for job in results.plan.jobs if job.what == "positives"]


def _program_row(job: Job, outcome: Outcome, original: str, positive: str) -> dict[str, Any]:
    return {
        "encoder": job.parts[0],
        "task": job.parts[1],
        "seed": job.seed,
        "example_id": outcome.example_id,
        "original": original,
        "hard_positive": positive,
        "num_words": outcome.num_words,
        "num_words_changed": outcome.num_words_changed,
    }


def _build_notes(results: Results, jobs: list[Job]) -> tuple[str, ...]:
    what_they_are = (
        "Hard positives: words replaced so that the encoder's contrastive loss rises; nothing looks at labels."
    )
    flag_notes = (*variant_notes(results.plan, results.flags.jobs_behind(jobs)), *results.flags.notes(jobs))
    return (what_they_are, *results.plan.suite.notes, *flag_notes, *unfinished_notes("jobs", jobs, results.standing))


class HardPositiveTexts(Measure[Options]):
    """Hard positives: texts with words replaced so that the contrastive loss rises (ADCL, appendix G)."""

    title = "Hard positives, beside the texts they were made of (ADCL, Table 9)"
    reads = "trainings"
    stores = "outcomes"
    unscaled = True
    objectives = ("adcl",)
    bold = False
    layouts = {"paper": build_paper_table, "full": build_full_table}

    def run(self, options: Options, context: TrainedContext) -> Measured:
        """Make hard positives of a seeded sample of the split. The seed draws the heads, too.

        Returns one outcome an example, `succeeded` where a word was replaced; `loss_raised` (nats) and `words_replaced`
        (share of words, 0..1) over all texts.
        """
        import numpy as np
        import transformers

        from rbench.schema import Score

        spec, module, seed = context.spec, context.objective, context.seed
        assert spec.train is not None
        examples = context.data.split(options.split)
        drawn_order = np.random.Generator(np.random.PCG64(seed)).permutation(len(examples))
        chosen = [examples[i] for i in drawn_order[: options.num_examples]]
        others = [text for i in drawn_order[options.num_examples :][:MAX_KEYS] for text in examples[i].texts]
        texts = [text for example in chosen for text in example.texts]
        # Seeded before `build`, which draws the random weights of the heads.
        transformers.set_seed(seed)
        built_objective: Any = module.build(
            module.Options(**spec.train.options), spec, context.weights, context.resources
        )
        model = built_objective.model.to(context.device)
        for start in range(0, len(others), 64):
            model.queue.push(model.z(model.key_encoder, model.key_head, others[start : start + 64]))
        positives_made, sums = _make_positives(model, texts)
        mean_counts = model.positives.scores({**sums, "positives": len(texts)})
        replaced = iter(positives_made)
        outcomes = [_build_outcome(example, tuple(next(replaced) for _ in example.texts)) for example in chosen]
        scores = tuple(Score(name=name, value=value, n=len(texts)) for name, value in mean_counts.items())
        return Measured(outcomes, scores, {"n": len(chosen), "texts": len(texts), "keys": len(others)})
