"""Shows hard positives with the texts they were made from and marks the changes, as in Table 9 of the ADCL paper."""

from __future__ import annotations

from typing import Any

from rbench.errors import StoreError
from rbench.spec import Job, Outcome
from rbench.system.changes import changes, tokens
from rbench.tables import variants
from rbench.tables.draws import training_seed
from rbench.tables.notes import missing
from rbench.tables.results import Results
from rbench.tables.table import Entry, Marked, Meaning, Number, Table

ABOUT = Meaning("Hard positives", "texts with words replaced so that the contrastive loss rises", "highest")
_CAPTION = f"{ABOUT.title}: {ABOUT.definition}"


def paper(results: Results) -> Table:
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
        layout="paper",
        header=("Encoder", "Task", "", "Text"),
        rows=tuple(rows),
        groups=frozenset(groups[1:]),
        cells=tuple(cells),
        notes=_notes(results, jobs),
        interval="",
        flags=flags.listed(jobs),
        shows=ABOUT,
        caption=_CAPTION,
    )


def full(results: Results) -> Table:
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
        hiding = flags.hiding([job])
        rows.append(
            (
                encoder,
                task,
                *([training_seed(train_seed)] if drawn else []),
                job.seed,
                record.counts.get("texts") if record is not None and there else None,
                Number(raised.value, percent=False, digits=3).hidden(hiding) if raised is not None else None,
                Number(words.value, percent=True).hidden(hiding) if words is not None else None,
            )
        )
        values = {name: None if hiding else score.value for name, score in scores.items()}
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
        groups=frozenset(),
        cells=tuple(cells),
        notes=_notes(results, jobs),
        interval="",
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
    told = (*variants.notes(results.plan, results.flags.behind(jobs)), *results.flags.notes(jobs))
    return (said, *results.plan.suite.notes, *told, *missing("jobs", jobs, results.standing))
