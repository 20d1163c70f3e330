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
from rbench.system.changes import changes, tokens, words_changed
from rbench.tables import Results, Table
from rbench.tables.draws import training_seed
from rbench.tables.notes import missing, variants
from rbench.tables.table import Entry, Marked, Meaning, Number

if TYPE_CHECKING:
    from rbench.tasks import Example

VERSION = 1
USES = ("substitution.batched", "substitution.segmentation")
"""The search replaces the words, asked by the objective, which no import shows."""

ABOUT = Meaning("Hard positives", "texts with words replaced so that the contrastive loss rises")
_CAPTION = f"{ABOUT.title}: {ABOUT.definition}"
KEYS = 512
"""The most other texts in the queue (ours): enough negatives, and quick to encode."""


class Options(Strict):
    """Which texts positives are made of."""

    split: Split = "train"
    """`train` is what an in-domain encoder was trained on."""
    num_examples: Positive = 5


def _made(model: Any, texts: list[str]) -> tuple[list[str], dict[str, float]]:
    """The positives of all texts and the sums of their counts. A call takes at most as many texts as the queue."""
    made, sums = [], Counter[str]()
    for start in range(0, len(texts), model.queue.size):
        some, counted = model.positives(model, texts[start : start + model.queue.size])
        made += some
        sums.update(counted)
    return made, dict(sums)


def _outcome(example: Example, made: tuple[str, ...]) -> Outcome:
    """An example with the positives of its texts, as an attack's outcome has them."""
    from rbench.words.substitution.segmentation import words_of

    before, after = words_of(example.texts), words_of(made)
    changed, num_words = words_changed(before, after), sum(map(len, before))
    return Outcome(
        example_id=example.id,
        status="succeeded" if changed else "failed",
        original=example.texts,
        perturbed=made,
        label=int(example.label or 0),
        num_words=num_words,
        num_words_changed=changed,
        perturbed_share=changed / num_words if changed else None,
    )


def paper(results: Results, wanted: TableSpec) -> Table:
    """Build two rows per example. Raises StoreError where the plan has no hard positives, or the RUN no texts."""
    plan, jobs = results.plan, _jobs(results)
    flags = results.flags
    if not plan.texts:
        raise StoreError(
            f"{results.root} keeps no texts, and this table is made of them: --layout full has its numbers, and a RUN "
            "that is run without --no-texts has the texts."
        )
    rows: list[tuple[Entry, ...]] = []
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
            original, made = (" / ".join(texts) for texts in (before, outcome.perturbed or before))
            old, new = compared(original, made)
            rows += [(encoder, task, "original", old), (encoder, task, "hard positive", new)]
            cells.append(_described(job, outcome, original, made) | {"flags": flags.told([job])})
    return Table(
        metric="positives",
        header=("Encoder", "Task", "", "Text"),
        rows=tuple(rows),
        groups=frozenset(groups[1:]),
        cells=tuple(cells),
        notes=_notes(results, jobs),
        flags=flags.listed(jobs),
        shows=ABOUT,
        caption=_CAPTION,
    )


def full(results: Results, wanted: TableSpec) -> Table:
    """Build one row per job: mean rise of the loss, mean share of words replaced. Raises StoreError as `paper` does."""
    plan, jobs, found = results.plan, _jobs(results), results.standing
    flags = results.flags
    rows: list[tuple[Entry, ...]] = []
    cells: list[dict[str, Any]] = []
    drawn = bool(plan.draws)
    for job in jobs:
        label, task, _ = job.parts
        encoder, train_seed = (draw := plan.draw(label)).encoder, draw.train_seed
        record = found.records.get(job.key)
        there = record is not None and record.status == "complete"
        scores = {score.name: score for score in record.scores} if record is not None and there else {}
        raised, words = scores.get("loss_raised"), scores.get("words_replaced")
        rows.append(
            (
                encoder,
                task,
                *([training_seed(train_seed)] if drawn else []),
                job.seed,
                record.counts.get("texts") if record is not None and there else None,
                flags.on(Number(raised.value, percent=False, digits=3), [job]) if raised is not None else None,
                flags.on(Number(words.value, percent=True), [job]) if words is not None else None,
            )
        )
        hidden = bool(flags.hiding([job]))
        values = {name: None if hidden else score.value for name, score in scores.items()}
        more = {"train_seed": train_seed} if drawn else {}
        told = {"flags": flags.told([job])}
        cells.append({"encoder": encoder, "task": task, **more, "seed": job.seed, **values, **told})
    return Table(
        metric="positives",
        layout="full",
        header=(
            *("Encoder", "Task", *(["Training seed"] if drawn else [])),
            *("Seed", "Texts", "Loss raised by", "Words replaced"),
        ),
        rows=tuple(rows),
        cells=tuple(cells),
        notes=_notes(results, jobs),
        flags=flags.listed(jobs),
        shows=ABOUT,
        caption=_CAPTION,
    )


def compared(old: str, new: str) -> tuple[Marked, Marked]:
    """Return both texts with the words marked in which they differ."""
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for before, after in changes(old, new):
        for text, pieces in ((before, left), (after, right)):
            pieces += [(word, before != after and not word.isspace()) for word in tokens(text)]
    return Marked(tuple(left), "red"), Marked(tuple(right), "blue")


def _jobs(results: Results) -> list[Job]:
    plan = results.plan
    jobs = [job for job in plan.jobs if job.what == "positives"]
    if not jobs:
        raise StoreError(f"{results.root} has no hard positives: suite {plan.suite.name} has no `build: [positives]`.")
    return jobs


def _described(job: Job, outcome: Outcome, original: str, made: str) -> dict[str, Any]:
    return {
        "encoder": job.parts[0],
        "task": job.parts[1],
        "seed": job.seed,
        "example_id": outcome.example_id,
        "original": original,
        "hard_positive": made,
        "num_words": outcome.num_words,
        "num_words_changed": outcome.num_words_changed,
    }


def _notes(results: Results, jobs: list[Job]) -> tuple[str, ...]:
    said = "Hard positives: words replaced so that the encoder's contrastive loss rises; nothing looks at labels."
    told = (*variants(results.plan, results.flags.behind(jobs)), *results.flags.notes(jobs))
    return (said, *results.plan.suite.notes, *told, *missing("jobs", jobs, results.standing))


class Positives(Measure[Options]):
    """Hard positives: texts with words replaced so that the contrastive loss rises (ADCL, appendix G)."""

    title = "Hard positives, beside the texts they were made of (ADCL, Table 9)"
    reads = "trainings"
    stores = "outcomes"
    unscaled = True
    objectives = ("adcl",)
    bold = False
    layouts = {"paper": paper, "full": full}

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
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(examples))
        chosen = [examples[i] for i in order[: options.num_examples]]
        others = [text for i in order[options.num_examples :][:KEYS] for text in examples[i].texts]
        texts = [text for example in chosen for text in example.texts]
        transformers.set_seed(seed)
        built: Any = module.build(
            module.Options(**spec.train.options), spec, context.weights, resources=context.resources
        )
        model = built.model.to(context.device)
        for start in range(0, len(others), 64):
            model.queue.push(model.z(model.key_encoder, model.key_head, others[start : start + 64]))
        made, sums = _made(model, texts)
        found = model.positives.scores({**sums, "positives": len(texts)})
        replaced = iter(made)
        outcomes = [_outcome(example, tuple(next(replaced) for _ in example.texts)) for example in chosen]
        scores = tuple(Score(name=name, value=value, n=len(texts)) for name, value in found.items())
        return Measured(outcomes, scores, {"n": len(chosen), "texts": len(texts), "keys": len(others)})
