"""Hard positives of a trained encoder: texts with words replaced so that its contrastive loss rises (ADCL, appendix G).

They are made as in training (`rbench.train.substituted`), with the encoder at the end of its training. Its heads and
its queue of negatives were not kept. So heads are drawn anew, and the queue is filled with the keys (vectors of the key
encoder) of other texts of the split. The paper does not say at which point of the training the positives of its Table 9
were made.
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
"""Code that the objective calls to search for replacements. No import of this module shows that it is used."""

ABOUT = Meaning("Hard positives", "texts with words replaced so that the contrastive loss rises")
_CAPTION = f"{ABOUT.title}: {ABOUT.definition}"
MAX_KEYS = 512
"""The most other examples whose texts fill the queue (our choice): enough negatives, and quick to encode."""
ENCODED_AT_ONCE = 64


class Options(Strict):
    """Which texts positives are made of."""

    split: Split = "train"
    """The default is what an in-domain encoder was trained on."""
    num_examples: Positive = 5


def _make_positives(model: Any, texts: list[str]) -> tuple[list[str], dict[str, float]]:
    """Return the positives of all texts, and the sums of what the search counted."""
    all_positives, sums = [], Counter[str]()
    size = model.queue.size  # a call takes at most as many texts as the queue holds
    for start in range(0, len(texts), size):
        positives, counts = model.positives(model, texts[start : start + size])
        all_positives += positives
        sums.update(counts)
    return all_positives, dict(sums)


def _build_outcome(example: Example, positives: tuple[str, ...]) -> Outcome:
    """Return the outcome of an example: its texts as the original, their positives as the perturbed text."""
    from rbench.words.substitution.segmentation import words_of

    before, after = words_of(example.texts), words_of(positives)
    changed = count_changed_words(before, after)
    num_words = sum(len(words) for words in before)
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
    """Build two rows for each example, the original and its positive. Raises StoreError where the RUN has no texts."""
    jobs, flags = _list_jobs(results), results.flags
    if not results.plan.texts:
        raise StoreError(
            f"{results.root} keeps no texts, and this table is made of them: --layout full has its numbers, and a RUN "
            "that is run without --no-texts has the texts."
        )
    rows: list[tuple[TableEntry, ...]] = []
    group_begins: list[int] = []
    cells: list[dict[str, Any]] = []
    for job in jobs:
        encoder, task, _ = job.parts
        hiding = flags.hiding([job])
        if hiding:
            group_begins.append(len(rows))
            rows.append((encoder, task, "hard positive", Number(None, percent=False, withheld=hiding)))
            continue
        for outcome in results.store.outcomes(job):
            group_begins.append(len(rows))
            columns = outcome.original or ()
            original = " / ".join(columns)
            positive = " / ".join(outcome.perturbed or columns)
            original_marked, positive_marked = mark_differences(original, positive)
            rows.append((encoder, task, "original", original_marked))
            rows.append((encoder, task, "hard positive", positive_marked))
            cells.append(_program_row(job, outcome, original, positive) | {"flags": flags.told([job])})
    return Table(
        metric="positives",
        header=("Encoder", "Task", "", "Text"),
        rows=tuple(rows),
        groups=frozenset(group_begins[1:]),
        cells=tuple(cells),
        notes=_build_notes(results, jobs),
        flags=flags.listed(jobs),
        shows=ABOUT,
        caption=_CAPTION,
    )


def build_full_table(results: Results, wanted: TableSpec) -> Table:
    """Build one row for each job: mean rise of the loss, mean share of words replaced."""
    plan, jobs, flags = results.plan, _list_jobs(results), results.flags
    has_train_seeds = bool(plan.draws)
    rows: list[tuple[TableEntry, ...]] = []
    cells: list[dict[str, Any]] = []
    for job in jobs:
        label, task, _ = job.parts
        draw = plan.draw(label)
        record = results.standing.records.get(job.key)
        if record is not None and record.status != "complete":
            record = None
        num_texts = record.counts.get("texts") if record is not None else None
        values = {score.name: score.value for score in record.scores} if record is not None else {}
        rise = replaced = None
        if "loss_raised" in values:
            rise = flags.on(Number(values["loss_raised"], percent=False, digits=3), [job])
        if "words_replaced" in values:
            replaced = flags.on(Number(values["words_replaced"], percent=True), [job])
        seed_entry = [training_seed(draw.train_seed)] if has_train_seeds else []
        rows.append((draw.encoder, task, *seed_entry, job.seed, num_texts, rise, replaced))
        if flags.hiding([job]):
            values = dict.fromkeys(values)
        seed_field = {"train_seed": draw.train_seed} if has_train_seeds else {}
        names = {"encoder": draw.encoder, "task": task, **seed_field, "seed": job.seed}
        cells.append({**names, **values, "flags": flags.told([job])})
    seed_column = ["Training seed"] if has_train_seeds else []
    return Table(
        metric="positives",
        layout="full",
        header=("Encoder", "Task", *seed_column, "Seed", "Texts", "Loss raised by", "Words replaced"),
        rows=tuple(rows),
        cells=tuple(cells),
        notes=_build_notes(results, jobs),
        flags=flags.listed(jobs),
        shows=ABOUT,
        caption=_CAPTION,
    )


def mark_differences(original: str, changed: str) -> tuple[MarkedText, MarkedText]:
    """Return both texts with the words marked in which they differ."""
    original_pieces: list[tuple[str, bool]] = []
    changed_pieces: list[tuple[str, bool]] = []
    for before, after in iter_changes(original, changed):
        differ = before != after
        original_pieces += [(token, differ and not token.isspace()) for token in split_tokens(before)]
        changed_pieces += [(token, differ and not token.isspace()) for token in split_tokens(after)]
    return MarkedText(tuple(original_pieces), "red"), MarkedText(tuple(changed_pieces), "blue")


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

        Return an outcome for each example, `succeeded` where a word was replaced, and two scores over all texts:
        `loss_raised` (nats) and `words_replaced` (share of words, 0..1).
        """
        import numpy as np
        import transformers

        from rbench.schema import Score

        spec, module, seed = context.spec, context.objective, context.seed
        assert spec.train is not None
        examples = context.data.split(options.split)
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(examples))
        chosen = [examples[i] for i in order[: options.num_examples]]
        others = [examples[i] for i in order[options.num_examples :][:MAX_KEYS]]
        texts = [text for example in chosen for text in example.texts]
        key_texts = [text for example in others for text in example.texts]
        # Seeded before `build`, which draws the random weights of the heads.
        transformers.set_seed(seed)
        train_options = module.Options(**spec.train.options)
        objective: Any = module.build(train_options, spec, context.weights, context.resources)
        model = objective.model.to(context.device)
        for start in range(0, len(key_texts), ENCODED_AT_ONCE):
            batch = key_texts[start : start + ENCODED_AT_ONCE]
            model.queue.push(model.z(model.key_encoder, model.key_head, batch))
        positives, sums = _make_positives(model, texts)
        means = model.positives.scores({**sums, "positives": len(texts)})
        remaining = iter(positives)  # in the order of `texts`: each example takes one for each of its columns
        outcomes = [_build_outcome(example, tuple(next(remaining) for _ in example.texts)) for example in chosen]
        scores = tuple(Score(name=name, value=value, n=len(texts)) for name, value in means.items())
        return Measured(outcomes, scores, {"n": len(chosen), "texts": len(texts), "keys": len(key_texts)})
