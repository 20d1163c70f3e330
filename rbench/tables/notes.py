"""Writes the notes below a table: n, seeds, resources, the attacks' own notes, and missing jobs.

Notes hold neither times, dates nor paths, so that a resumed run makes the same table, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import PurePath

from rbench.schema import (
    KINDS,
    RESOURCE_NAMES,
    AttackJob,
    AttackSpec,
    EncoderSpec,
    Job,
    Plan,
    ResourceKind,
    ResourceSource,
)
from rbench.store.job_status import JobStatuses
from rbench.tables import draws
from rbench.tables.aggregate import AttackCell, AttackGrid
from rbench.tables.formats import list_names

PEOPLE_INTERVAL_NOTE = "Intervals have texts and raters as levels, and seeds where there are several."
"""The note on intervals of numbers of what people said."""


def table_notes(grid: AttackGrid, tasks: Sequence[str], own_notes: Sequence[str]) -> tuple[str, ...]:
    """Return all notes of a table on `tasks`, in reading order. `own_notes` are the notes of this table alone."""
    # Reading order: what this table shows, how it was computed, with what, and what is wrong or missing last.
    shown = [job for cell in grid.cells.values() if cell.task in tasks for job in cell.jobs]
    return (
        *own_notes,
        *goal_notes(run.spec for cell in grid.cells.values() if cell.task in tasks for run in cell.runs),
        *grid.plan.suite.notes,
        *(draws.notes(grid.plan, [run.job for run in grid.runs]) or [seeds_note(run.job for run in grid.runs)]),
        *_truncation_notes(grid, tasks),
        *timeout_notes(grid, tasks),
        *_resource_notes(grid),
        *_attack_notes(grid),
        *variant_notes(grid.plan, grid.flags.jobs_behind(shown)),
        *_precision_notes(grid),
        *differing_model_notes(grid.plan),
        *selected_step_notes(grid.plan),
        *grid.flags.notes(shown),
        *unfinished_notes("attack jobs", [run.job for run in grid.runs], grid.standing),
    )


def interval_note(grid: AttackGrid, metric: str) -> str:
    """Return a note on how this metric's intervals are computed and which variation they cover."""
    if grid.metrics[metric].of_people:
        return PEOPLE_INTERVAL_NOTE
    share = grid.metrics[metric].share
    kind = "Wilson 95% intervals" if share else "Student's t 95% intervals of the mean"
    of_one = f"{kind}. They cover the choice of examples, not differences between seeds."
    several_seeds = [
        cell for cell in grid.cells.values() if len(cell.tallies) > 1 and cell.pooled_metric(metric).mean is not None
    ]
    without_levels = sum(not cell.has_seed_levels(metric) for cell in several_seeds)
    if len(several_seeds) == without_levels:
        return f"{of_one} Each example counts once, however many seeds share it." if several_seeds else of_one
    kind = "Wilson's" if share else "Student's t of the examples"
    return draws.levels_note(kind, "examples", cells=without_levels, missing="outcomes")


def denominator_note(grid: AttackGrid, metric: str, tasks: Sequence[str]) -> str:
    """Return a note with the n of each column, and its skipped, errored and (if there are any) wordless examples."""
    counts = count_by_task(grid.cells.values(), metric, tasks)
    return f"n, the denominator of a cell: {counts}. {name_excluded(grid)} are in no denominator."


def count_by_task(cells: Iterable[AttackCell], metric: str, tasks: Iterable[str]) -> str:
    """Return the n of some cells by task, and their skipped, errored and (if there are any) wordless examples."""
    parts, all_cells = [], list(cells)
    for task in tasks:
        task_cells = [cell for cell in all_cells if cell.task == task and cell.present]
        if task_cells:
            n = format_range(cell.pooled_metric(metric).n for cell in task_cells)
            skipped = format_range(cell.pooled.skipped for cell in task_cells)
            errored = format_range(cell.pooled.errored for cell in task_cells)
            wordless = format_range(cell.pooled.wordless for cell in task_cells)
            unusable = format_range(cell.pooled.unusable for cell in task_cells)
            more = f", without words {wordless}" if wordless != "0" else ""
            timed_out_range = format_range(cell.pooled.timed_out for cell in task_cells)
            errored += f", of these timed out {timed_out_range}" if timed_out_range != "0" else ""
            more += f", with an empty sentence or a score outside the scale {unusable}" if unusable != "0" else ""
            parts.append(f"{task} {n} (skipped {skipped}, errored {errored}{more})")
    return "; ".join(parts) or "nothing yet"


CEILING = 0.9
"""Rates above this, of an attack on several victims, tell the victims apart badly."""


def ceiling_notes(grid: AttackGrid, tasks: Sequence[str]) -> list[str]:
    """Return a note where an attack succeeds on nearly all texts of two victims or more; none elsewhere."""
    rates: dict[tuple[str, str], list[float]] = {}
    for (attack, *_, task), cell in grid.cells.items():
        rate = cell.sampled("asr").value if cell.present else None
        if rate is not None:
            rates.setdefault((attack, task), []).append(rate)
    at_ceiling = []
    for attack, task in product(grid.attacks, tasks):
        if sum(rate > CEILING for rate in rates.get((attack, task), [])) > 1:
            at_ceiling.append(f"{attack} on {task}")
    if not at_ceiling:
        return []
    return [
        f"At the ceiling, where more than {CEILING:.0%} of the texts of several victims fall and the rate cannot tell "
        f"these apart: {list_names(at_ceiling)}. How many words it takes can: `--metric words`, and the number "
        "words_needed of all attacks together."
    ]


def timeout_notes(grid: AttackGrid, tasks: Sequence[str]) -> list[str]:
    """Return a note on examples that --max-seconds ended; none if there are none."""
    cells = [cell for cell in grid.cells.values() if cell.task in tasks and cell.present]
    records = [run.record for cell in cells for run in cell.runs if run.tally is not None and run.tally.timed_out]
    if not records:
        return []
    count = sum(cell.pooled.timed_out for cell in cells)
    limits = {record.provenance.max_seconds for record in records if record is not None}
    known_limits = [f"{seconds:g}" for seconds in sorted(seconds for seconds in limits if seconds)]
    limit = f" ({list_names(known_limits)} s)" if known_limits else ""
    took = "1 example took" if count == 1 else f"{count} examples took"
    return [
        f"{took} longer than --max-seconds{limit} and timed out. Such examples are errored and in no denominator. They "
        "are often the longest texts, so the numbers are those of the other texts. rbench run --retry-timeouts attacks "
        "them again."
    ]


def name_excluded(grid: AttackGrid) -> str:
    """Return the name of the examples that are in no denominator, as the start of a sentence."""
    more = ["those without words to replace"] if grid.wordless else []
    more += ["pairs with an empty sentence or a score outside the scale"] if grid.unusable else []
    return ", and ".join(["Errored examples", *more]) + "," if more else "Errored examples"


def format_range(values: Iterable[int]) -> str:
    """Format numbers as `7` if they are equal, else as a range: `5 to 9`."""
    numbers = sorted(values)
    return f"{numbers[0]}" if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"


def seeds_note(jobs: Iterable[Job]) -> str:
    """Return a note with the seeds of some jobs."""
    different = list(dict.fromkeys(job.seed for job in jobs))
    names = ", ".join(map(str, different))
    return f"Seed {names}." if len(different) == 1 else f"Seeds {names}."


def _truncation_notes(grid: AttackGrid, tasks: Sequence[str]) -> list[str]:
    truncated = []
    for task in tasks:
        counts = [cell.pooled.truncated for cell in grid.cells.values() if cell.task == task and cell.present]
        if any(counts):
            truncated.append(f"{task} {format_range(counts)}")
    return [f"Examples longer than the victim reads: {'; '.join(truncated)} of a cell."] if truncated else []


def _resource_notes(grid: AttackGrid) -> list[str]:
    """Return one note per resource set, with every resource that some attack uses."""
    used_by_set: dict[str, dict[ResourceKind, str]] = {}
    for run in grid.runs:
        used = used_by_set.setdefault(run.spec.resources.name, {})
        for kind in run.spec.attack.needs:
            source = getattr(run.spec.resources, kind)
            if source is not None:
                used[kind] = _format_source(source, run.spec.resource_fingerprints.get(kind, ""))
    resource_notes = []
    for set_name, used in used_by_set.items():
        described = [f"{title} {used[kind]}" for kind, title in RESOURCE_NAMES.items() if kind in used]
        listed = "; ".join(described) or "none"
        resource_notes.append(f"Resources behind the attacks (resource set {set_name}): {listed}.")
    return resource_notes


def _format_source(source: ResourceSource, fingerprint: str) -> str:
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


def _attack_notes(grid: AttackGrid) -> list[str]:
    """Return the notes in the attacks' files (such as BERT-Attack's K), each after the attack's name."""
    stated_notes = dict.fromkeys((run.job.parts[-1], note) for run in grid.runs for note in run.spec.attack.notes)
    named_notes = []
    for attack, note in stated_notes:
        names_attack = _reduce_to_letters(note).startswith(_reduce_to_letters(attack))
        named_notes.append(note if names_attack else f"{attack}: {note}")
    return named_notes


def _reduce_to_letters(text: str) -> str:
    """Reduce `BERT-Attack: K = 8` to `bertattackk8`, to see in any spelling if a note begins with its attack's name."""
    return "".join(c for c in text.lower() if c.isalnum())


def _precision_notes(grid: AttackGrid) -> list[str]:
    jobs_by_precision: dict[str, list[str]] = {}
    for run in grid.runs:
        if run.record is not None and run.tally is not None and run.record.provenance.precision != "fp32":
            jobs_by_precision.setdefault(run.record.provenance.precision, []).append(_short_name(run.job))
    return [f"Precision {precision}, not fp32: {list_names(names)}." for precision, names in jobs_by_precision.items()]


OWN_FILES = {
    "sentence-transformers/all-MiniLM-L6-v2": 256,
    "sentence-transformers/all-MiniLM-L12-v2": 128,
    "sentence-transformers/all-mpnet-base-v2": 384,
}
"""Models whose own files say that vectors are normalised, and how many tokens of a text are read. Older RUNs ignored
these files."""


def differing_model_notes(plan: Plan) -> list[str]:
    """Return a note on each of OWN_FILES that a RUN reads otherwise: an older one, or where a suite says so."""
    notes = {}
    for job in plan.jobs:
        spec = getattr(job.spec, "encoder", None)
        if not isinstance(spec, EncoderSpec) or spec.train is not None or spec.base not in OWN_FILES:
            continue
        longest, model_longest = spec.max_length or 512, OWN_FILES[spec.base]
        if longest != model_longest or not spec.normalize:
            normalised = "" if spec.normalize else " and vectors are not normalised"
            notes[spec.name] = (
                f"{spec.name}: texts are cut at {longest} tokens{normalised}; the model's own files say "
                f"{model_longest} tokens and normalised vectors."
            )
    return [*notes.values()]


def unfinished_notes(what: str, jobs: Iterable[Job], statuses: JobStatuses) -> list[str]:
    """Return notes that count and name the jobs that failed, are damaged or are not done. `what` is the jobs' name."""
    shown_jobs = list(jobs)
    failed, damaged, waiting = statuses.unfinished(shown_jobs)
    remedy = " They count as not done; rbench verify says what is wrong, the same rbench run makes them again."
    kinds_of_unfinished = (("failed", failed, ""), ("damaged", damaged, remedy), ("not done", waiting, ""))
    return [
        f"{len(unfinished)} of {len(shown_jobs)} {what} {state}: {name_jobs(unfinished)}.{more}"
        for state, unfinished, more in kinds_of_unfinished
        if unfinished
    ]


def selected_step_notes(plan: Plan) -> list[str]:
    """Return notes on the scores that selected the training steps of encoders.

    Scores that selected a step are optimistic, so the table names them.
    """
    selected: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for job in plan.jobs:
        if job.pretraining is None:
            continue
        train = job.pretraining.encoder.train
        if train is None or not train.selection_tasks:
            continue
        names = selected.setdefault((train.selection_tasks, train.scored_splits), [])
        name = plan.draw(job.pretraining.encoder.name).encoder
        if name not in names:
            names.append(name)
    selection_notes = []
    for (tasks, splits), names in selected.items():
        mean_of = "the mean of " if len(tasks) > 1 else ""
        which_splits = f"{splits} splits" if " " in splits else f"{splits} split"  # such as "train and validation"
        selection_notes.append(
            f"Training steps selected by {mean_of}Spearman's correlation on {', '.join(tasks)} ({which_splits}): "
            f"{', '.join(names)}."
        )
    return selection_notes


def _short_name(job: Job) -> str:
    return job.name.removeprefix(f"{job.stage}/")


def name_jobs(jobs: Iterable[Job]) -> str:
    """List the first names of some jobs, and the number of the others."""
    return list_names([_short_name(job) for job in jobs])


def variant_notes(plan: Plan, behind: Iterable[Job]) -> list[str]:
    """Return a note for each variant of a method and its source, with the encoders and attacks that have it.

    Args:
        plan: the plan, which says what encoder a draw is of.
        behind: the jobs of a table and all that they stand on.
    """
    names_by_variant: dict[tuple[str, str], dict[str, None]] = {}
    for job in behind:
        entry: EncoderSpec | AttackSpec
        if job.pretraining is not None and job.pretraining.encoder.train is not None:
            entry, options = job.pretraining.encoder, job.pretraining.encoder.train.options
            name = plan.draw(entry.name).encoder
        elif job.attacking is not None:
            name, entry, options = job.parts[3], job.attacking.attack, job.attacking.attack.parameters
        else:
            continue
        if entry.variant_source is not None and "variant" in options:
            names_by_variant.setdefault((options["variant"], entry.variant_source), {})[name] = None
    return [
        f"Variant {variant}, from {source}: {', '.join(names)}."
        for (variant, source), names in names_by_variant.items()
    ]


def goal_notes(jobs: Iterable[AttackJob]) -> list[str]:
    """Return notes on when attacks succeed, kind by kind of the tasks that were attacked.

    There are none on attacks whose goal is a wrong class.
    """
    jobs_by_kind: dict[str, list[AttackJob]] = {kind: [] for kind in KINDS}
    for job in jobs:
        jobs_by_kind[job.task.kind].append(job)
    notes = []
    for kind_jobs in jobs_by_kind.values():
        if kind_jobs:
            notes += kind_jobs[0].task.of_kind.goal_notes(kind_jobs)
    return notes
