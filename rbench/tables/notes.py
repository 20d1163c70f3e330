"""Writes the notes below a table: n, seeds, resources, the attacks' own notes, and missing jobs.

Notes hold neither times, dates nor paths, so that a resumed run makes the same table, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from rbench.schema import KINDS, RESOURCE_NAMES, AttackJob, AttackSpec, EncoderSpec, Job, Plan, ResourceKind, Source
from rbench.store.job_status import Standing
from rbench.tables import draws
from rbench.tables.aggregate import Cell, Grid
from rbench.tables.formats import listed

OF_PEOPLE = "Intervals have texts and raters as levels, and seeds where there are several."
"""The note on intervals of numbers of what people said."""


def notes(grid: Grid, tasks: Sequence[str], first: Sequence[str]) -> tuple[str, ...]:
    """Return all notes of a table on `tasks`, in reading order. `first` are the notes of this table alone."""
    shown = [job for cell in grid.cells.values() if cell.task in tasks for job in cell.jobs]
    return (
        *first,
        *rules(run.spec for cell in grid.cells.values() if cell.task in tasks for run in cell.runs),
        *grid.plan.suite.notes,
        *(draws.notes(grid.plan, [run.job for run in grid.runs]) or [seeds(run.job for run in grid.runs)]),
        *_truncated(grid, tasks),
        *timed_out(grid, tasks),
        *_resources(grid),
        *_attacks(grid),
        *variants(grid.plan, grid.flags.behind(shown)),
        *_precision(grid),
        *as_read(grid.plan),
        *selected_steps(grid.plan),
        *grid.flags.notes(shown),
        *missing("attack jobs", [run.job for run in grid.runs], grid.standing),
    )


def interval_note(grid: Grid, metric: str) -> str:
    """Return a note on how this metric's intervals are computed and which variation they cover."""
    if grid.metrics[metric].of_people:
        return OF_PEOPLE
    share = grid.metrics[metric].share
    kind = "Wilson 95% intervals" if share else "Student's t 95% intervals of the mean"
    of_one = f"{kind}. They cover the choice of examples, not differences between seeds."
    several = [
        cell for cell in grid.cells.values() if len(cell.tallies) > 1 and cell.pooled_as(metric).mean is not None
    ]
    bare = sum(not cell.levelled(metric) for cell in several)
    if len(several) == bare:
        return f"{of_one} Each example counts once, however many seeds share it." if several else of_one
    kind = "Wilson's" if share else "Student's t of the examples"
    return draws.levels_note(kind, "examples", cells=bare, missing="outcomes")


def sizes(grid: Grid, metric: str, tasks: Sequence[str]) -> str:
    """Return a note with the n of each column, and its skipped, errored and (if there are any) wordless examples."""
    counts = counted(grid.cells.values(), metric, tasks)
    return f"n, the denominator of a cell: {counts}. {outside(grid)} are in no denominator."


def counted(cells: Iterable[Cell], metric: str, tasks: Iterable[str]) -> str:
    """Return the n of some cells by task, and their skipped, errored and (if there are any) wordless examples."""
    parts, among = [], list(cells)
    for task in tasks:
        there = [cell for cell in among if cell.task == task and cell.present]
        if there:
            n = spanned(cell.pooled_as(metric).n for cell in there)
            skipped = spanned(cell.pooled.skipped for cell in there)
            errored = spanned(cell.pooled.errored for cell in there)
            wordless = spanned(cell.pooled.wordless for cell in there)
            unusable = spanned(cell.pooled.unusable for cell in there)
            more = f", without words {wordless}" if wordless != "0" else ""
            late = spanned(cell.pooled.timed_out for cell in there)
            errored += f", of these timed out {late}" if late != "0" else ""
            more += f", with an empty sentence or a score outside the scale {unusable}" if unusable != "0" else ""
            parts.append(f"{task} {n} (skipped {skipped}, errored {errored}{more})")
    return "; ".join(parts) or "nothing yet"


def timed_out(grid: Grid, tasks: Sequence[str]) -> list[str]:
    """Return a note on examples that --max-seconds ended; none if there are none."""
    cells = [cell for cell in grid.cells.values() if cell.task in tasks and cell.present]
    records = [run.record for cell in cells for run in cell.runs if run.tally is not None and run.tally.timed_out]
    if not records:
        return []
    n = sum(cell.pooled.timed_out for cell in cells)
    limits = {one.provenance.max_seconds or 0.0 for one in records if one is not None} - {0.0}
    limit = f" ({listed([f'{seconds:g}' for seconds in sorted(limits)])} s)" if limits else ""
    took = "1 example took" if n == 1 else f"{n} examples took"
    return [
        f"{took} longer than --max-seconds{limit} and timed out. Such examples are errored and in no denominator. They "
        "are often the longest texts, so the numbers are those of the other texts. rbench run --retry-timeouts attacks "
        "them again."
    ]


def outside(grid: Grid) -> str:
    """Return the name of the examples that are in no denominator."""
    words = ["those without words to replace"] if grid.wordless else []
    pairs = ["pairs with an empty sentence or a score outside the scale"] if grid.unusable else []
    return ", and ".join(["Errored examples", *words, *pairs]) + ("," if words or pairs else "")


def spanned(values: Iterable[int]) -> str:
    """Format numbers as `7` if they are equal, else as a range: `5 to 9`."""
    numbers = sorted(values)
    return f"{numbers[0]}" if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"


def seeds(jobs: Iterable[Job]) -> str:
    """Return a note with the seeds of some jobs."""
    found = list(dict.fromkeys(job.seed for job in jobs))
    names = ", ".join(map(str, found))
    return f"Seed {names}." if len(found) == 1 else f"Seeds {names}."


def _truncated(grid: Grid, tasks: Sequence[str]) -> list[str]:
    def counts(cells: Iterable[Cell]) -> str:
        return spanned(cell.pooled.truncated for cell in cells)

    found = {task: [cell for cell in grid.cells.values() if cell.task == task and cell.present] for task in tasks}
    cut = [f"{task} {counts(cells)}" for task, cells in found.items() if any(c.pooled.truncated for c in cells)]
    return [f"Examples longer than the victim reads: {'; '.join(cut)} of a cell."] if cut else []


def _resources(grid: Grid) -> list[str]:
    """Return one note per resource set, with every resource that some attack uses."""
    sets: dict[str, dict[ResourceKind, str]] = {}
    for run in grid.runs:
        used = sets.setdefault(run.spec.resources.name, {})
        for kind in run.spec.attack.needs:
            source = getattr(run.spec.resources, kind)
            if source is not None:
                used[kind] = _source(source, run.spec.resource_fingerprints.get(kind, ""))
    return [
        f"Resources behind the attacks (resource set {name}): "
        + ("; ".join(f"{RESOURCE_NAMES[kind]} {used[kind]}" for kind in RESOURCE_NAMES if kind in used) or "none")
        + "."
        for name, used in sets.items()
    ]


def _source(source: Source, fingerprint: str) -> str:
    """Format a source as `bert-base-uncased (hub)`. Only the last part of a path is kept: it is the same everywhere.

    A local folder takes precedence over the hub, so a model that a set names for the hub may come from a folder of
    that name. Its fingerprint is then a hash of files (64 digits) instead of a commit (40 digits).
    """
    kind = "folder" if source.kind == "hub" and len(fingerprint) == 64 else source.kind
    about = ", ".join(part for part in (kind, source.revision) if part)
    if source.name is None:
        return about
    path = PurePath(source.name)
    return f"{path.name if path.is_absolute() else source.name} ({about})"


def _attacks(grid: Grid) -> list[str]:
    """Return the notes in the attacks' files (such as BERT-Attack's K), each after the attack's name."""
    said = {(run.job.parts[-1], note): None for run in grid.runs for note in run.spec.attack.notes}
    return [note if _letters(note).startswith(_letters(attack)) else f"{attack}: {note}" for attack, note in said]


def _letters(text: str) -> str:
    """Reduce `BERT-Attack: K = 8` to `bertattackk8`, to see in any spelling if a note begins with its attack's name."""
    return "".join(c for c in text.lower() if c.isalnum())


def _precision(grid: Grid) -> list[str]:
    found: dict[str, list[str]] = {}
    for run in grid.runs:
        if run.record is not None and run.tally is not None and run.record.provenance.precision != "fp32":
            found.setdefault(run.record.provenance.precision, []).append(_name(run.job))
    return [f"Precision {precision}, not fp32: {listed(names)}." for precision, names in found.items()]


OWN_FILES = {
    "sentence-transformers/all-MiniLM-L6-v2": 256,
    "sentence-transformers/all-MiniLM-L12-v2": 128,
    "sentence-transformers/all-mpnet-base-v2": 384,
}
"""The longest text, in tokens, by the own files of models that normalise their vectors, and that rbench read otherwise
until encoders were completed by their models' own files."""


def as_read(plan: Plan) -> list[str]:
    """Return a note on each of OWN_FILES that a RUN reads otherwise: an older one, or where a suite says so."""
    notes = {}
    for job in plan.jobs:
        spec = getattr(job.spec, "encoder", None)
        if not isinstance(spec, EncoderSpec) or spec.train is not None or spec.base not in OWN_FILES:
            continue
        longest, own = spec.max_length or 512, OWN_FILES[spec.base]
        if longest != own or not spec.normalize:
            how = "" if spec.normalize else " and vectors are not normalised"
            notes[spec.name] = (
                f"{spec.name}: texts are cut at {longest} tokens{how}; the model's own files say {own} tokens and "
                "normalised vectors."
            )
    return [*notes.values()]


def missing(what: str, jobs: Iterable[Job], found: Standing) -> list[str]:
    """Return notes that count and name the jobs that failed, are damaged or are not done. `what` is the jobs' name."""
    asked = list(jobs)
    failed, damaged, waiting = found.unfinished(asked)
    remedy = " They count as not done; rbench verify says what is wrong, the same rbench run makes them again."
    told = (("failed", failed, ""), ("damaged", damaged, remedy), ("not done", waiting, ""))
    return [f"{len(those)} of {len(asked)} {what} {how}: {named(those)}.{more}" for how, those, more in told if those]


def selected_steps(plan: Plan) -> list[str]:
    """Return notes on the scores that selected the training steps of encoders.

    Scores that selected a step are optimistic, so the table names them.
    """
    selected: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for job in plan.jobs:
        if job.pretraining is not None and (train := job.pretraining.encoder.train) and train.selecting:
            names = selected.setdefault((train.selecting, train.scored_splits), [])
            names += [name] if (name := plan.draw(job.pretraining.encoder.name).encoder) not in names else []
    return [
        f"Training steps selected by {'the mean of ' if len(tasks) > 1 else ''}Spearman's correlation on "
        f"{', '.join(tasks)} ({split} {'splits' if ' ' in split else 'split'}): {', '.join(names)}."
        for (tasks, split), names in selected.items()
    ]


def _name(job: Job) -> str:
    return job.name.removeprefix(f"{job.stage}/")


def named(jobs: Iterable[Job]) -> str:
    """List the first names of some jobs, and the number of the others."""
    return listed([_name(job) for job in jobs])


def variants(plan: Plan, behind: Iterable[Job]) -> list[str]:
    """Return a note for each variant of a method and its source, with the encoders and attacks that have it.

    Args:
        plan: the plan, which says what encoder a draw is of.
        behind: the jobs of a table and all that they stand on.
    """
    found: dict[tuple[str, str], dict[str, None]] = {}
    for job in behind:
        of: EncoderSpec | AttackSpec
        if job.pretraining is not None and (train := job.pretraining.encoder.train) is not None:
            of, options = job.pretraining.encoder, train.options
            name = plan.draw(of.name).encoder
        elif job.attacking is not None:
            name, of, options = job.parts[3], job.attacking.attack, job.attacking.attack.parameters
        else:
            continue
        if of.variant_source is not None and "variant" in options:
            found.setdefault((options["variant"], of.variant_source), {})[name] = None
    return [f"Variant {variant}, from {source}: {', '.join(names)}." for (variant, source), names in found.items()]


def rules(jobs: Iterable[AttackJob]) -> list[str]:
    """Return notes on when attacks succeed, kind by kind of the tasks that were attacked. Of attacks whose goal is a
    wrong class there are none."""
    attacks = list(jobs)
    by_kind = [[job for job in attacks if job.task.kind == kind] for kind in KINDS]
    return [note for own in by_kind if own for note in own[0].task.of_kind.goal_notes(own)]
