"""Read several RUNs as one, or write them into a new RUN (`rbench pack`).

Each job is taken from one of them: where it is complete, if it is anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rbench.errors import StoreError
from rbench.schema import Job, MeasuredRow, Plan, Provenance, Record, content_key
from rbench.store.job_status import JobStatuses, load_statuses
from rbench.store.runs import RunReader, RunStore, files
from rbench.store.runs.reader import JOB_FILES
from rbench.store.verify import verify
from rbench.system.below import SafeFolder

_MAX_NAMED = 3
"""How many jobs a note names."""


class LabelledRun(RunReader):
    """A RUN whose encoders have a label. Nothing can be written.

    Args:
        store: the RUN as it is stored.
        plan: its plan with the label, and `stored`, its jobs without, as of `rbench.plan.labels.relabel_plan`.
        named: puts the label to the name of an encoder.
    """

    def __init__(self, store: RunStore, plan: Plan, stored: Mapping[str, Job], named: Callable[[str], str]) -> None:
        self.root, self._store, self._plan, self._stored, self._named = store.root, store, plan, stored, named

    def plan(self) -> Plan:
        return self._plan

    def stored(self, job: Job) -> Job:
        return self._stored[job.key]

    def folder(self, job: Job) -> Path:
        return self._store.folder(self.stored(job))

    def rows(self, job: Job) -> list[MeasuredRow]:
        """Return the rows of a measure, those of one of all victims with the label at their encoders."""
        rows = super().rows(job)
        if job.measuring is None or job.measuring.of != "attacks":
            return rows
        name_columns = ("encoder", "judge", "made_against")
        labelled_names = (
            {column: self._named(value) if column in name_columns else value for column, value in row.names.items()}
            for row in rows
        )
        return [row.model_copy(update={"names": names}) for row, names in zip(rows, labelled_names, strict=True)]


@dataclass(frozen=True)
class RunPart:
    """One of the RUNs."""

    store: RunReader
    plan: Plan
    standing: JobStatuses

    @classmethod
    def of(cls, store: RunReader, plan: Plan) -> RunPart:
        return cls(store, plan, load_statuses(store, plan))

    @cached_property
    def jobs(self) -> dict[str, Job]:
        """Its jobs by key."""
        return {job.key: job for job in self.plan.jobs}


class MergedRuns(RunReader):
    """The jobs of several RUNs under one plan. There is no folder of it, and nothing can be written.

    Args:
        parts: the RUNs by name.
        plan: the plan of all of them (`rbench.plan.union`).

    Attributes:
        root: the RUNs' names, for messages; not a folder.
        source: the name of the RUN that each job is taken from, by key.
        standing: the state of all jobs.
        shared: how many jobs several RUNs have completed.
        notes: which of these have other numbers in one RUN than in another, and where they are taken from.

    Raises:
        StoreError: victims or encoders of one key have other weights in one RUN than in another, and results of both
            are there. The message lists all of them.
    """

    def __init__(self, parts: Mapping[str, RunPart], plan: Plan) -> None:
        self.root = Path(", ".join(parts))
        self.source = _choose_sources(parts, plan)
        if mismatches := _find_unlike_weights(parts, plan, self.source):
            listed = "\n".join(f"  {line}" for line in mismatches)
            raise StoreError(
                f"these RUNs do not belong into one table:\n{listed}\nTwo trainings of one job gave other weights. Let "
                "RUNs that share a victim share the cache (RBENCH_CACHE), or divide a suite by tasks and encoders, not "
                "by attacks."
            )
        if mismatches := _find_unlike_endpoints(parts):
            raise StoreError(
                "these RUNs do not belong into one table:\n" + "\n".join(f"  {line}" for line in mismatches)
            )
        self._plan, self._parts = plan, [part.store for part in parts.values()]
        self._folders, self._stores = {}, {}
        records, problems = {}, {}
        for job in plan.jobs:
            part = parts[self.source[job.key]]
            self._stores[job.key] = part.store
            self._folders[job.key] = part.store.folder(part.jobs[job.key])
            if job.key in part.standing.records:
                records[job.key] = part.standing.records[job.key]
            elif job.key in part.standing.problems:
                problems[job.key] = part.standing.problems[job.key]
        self.standing = JobStatuses(records, problems)
        self.shared, self.notes = _count_shared(parts, plan, self.source)

    @property
    def parts(self) -> Sequence[RunReader]:
        return self._parts

    def plan(self) -> Plan:
        return self._plan

    def folder(self, job: Job) -> Path:
        """Return the job's folder in its RUN."""
        return self._folders[job.key]

    def below(self, job: Job) -> SafeFolder:
        return self._stores[job.key].below(job)

    def stored(self, job: Job) -> Job:
        return self._stores[job.key].stored(job)

    def rows(self, job: Job) -> list[MeasuredRow]:
        return self._stores[job.key].rows(job)


def _choose_sources(parts: Mapping[str, RunPart], plan: Plan) -> dict[str, str]:
    """Choose the RUN of each job.

    If several have completed a job, it is that from which a job that needs it is taken, else the first. If none has,
    it is one where the job failed, else the one with the most outcomes.
    """
    sources: dict[str, str] = {}
    runs_above: dict[str, set[str]] = {job.key: set() for job in plan.jobs}  # the RUNs of the jobs that need each job
    # In reverse order the source of a job is known before those of the jobs that it needs.
    for job in reversed(plan.jobs):
        complete_in = [run for run, part in parts.items() if job.key in part.standing.done]
        if complete_in:
            # From the RUN of a job that stands on it, so that attacks and their victim come from one training.
            sources[job.key] = next((run for run in complete_in if run in runs_above[job.key]), complete_in[0])
        else:
            planned_in = [run for run, part in parts.items() if job.key in part.jobs]
            progress = {
                run: (job.key in parts[run].standing.records, len(parts[run].store.outcomes(parts[run].jobs[job.key])))
                for run in planned_in
            }
            sources[job.key] = max(planned_in, key=progress.__getitem__)
        for key in job.needs.values():
            runs_above[key].add(sources[job.key])
    return sources


def _find_unlike_weights(parts: Mapping[str, RunPart], plan: Plan, sources: Mapping[str, str]) -> list[str]:
    """Return the trainings of which results of several RUNs are there, with other weights in one than in another."""
    jobs = {job.key: job for job in plan.jobs}
    weights_by_run: dict[str, dict[str, set[str]]] = {key: {} for key, job in jobs.items() if job.trains}
    for user in plan.jobs:
        run = sources[user.key]
        standing = parts[run].standing
        if user.key not in standing.done:
            continue
        for key in weights_by_run.keys() & {user.key, *user.needs.values()}:
            weights = _weights_of(jobs[key], user, standing.records)
            if weights:
                weights_by_run[key].setdefault(run, set()).add(weights)
    lines = []
    for key, by_run in weights_by_run.items():
        first, *others = by_run or [""]
        name = jobs[key].name
        lines += [
            f"{name}: its weights in {first} and in {other} differ"
            for other in others
            if not by_run[first] & by_run[other]
        ]
    return lines


def _find_unlike_endpoints(parts: Mapping[str, RunPart]) -> list[str]:
    """Return the encoders behind endpoints that were others in one RUN than in another: the provider had put other
    weights behind the name."""
    first_seen: dict[tuple[str, str], tuple[str, Provenance]] = {}
    lines = []
    for run, part in parts.items():
        for key, record in part.standing.records.items():
            job, provenance = part.jobs[key], record.provenance
            spec = job.tuning or job.measuring
            encoder = spec.encoder if spec is not None else None
            if encoder is None or encoder.endpoint is None or not provenance.signature:
                continue
            where, earlier = first_seen.setdefault((job.parts[0], content_key(encoder.endpoint)), (run, provenance))
            if provenance.other_weights(earlier.signature, encoder.endpoint.tolerance):
                difference = f"its endpoint gave other vectors of fixed texts in {where} and in {run}"
                lines.append(f"encoder {job.parts[0]}: {difference}")
    return list(dict.fromkeys(lines))


def _weights_of(training: Job, user: Job, records: Mapping[str, Record]) -> str | None:
    """Return the hash of the weights of a training that a job used, or made. None where no record has it."""
    key = user.key if "victim" in user.needs and training.tuning is not None else training.key
    return records[key].provenance.weights_hash if key in records else None


def _count_shared(parts: Mapping[str, RunPart], plan: Plan, sources: Mapping[str, str]) -> tuple[int, tuple[str, ...]]:
    """Count the jobs that several RUNs have completed, and say which of them have other numbers in some."""
    num_shared, unlike_jobs = 0, []
    for job in plan.jobs:
        records = {run: part.standing.records[job.key] for run, part in parts.items() if job.key in part.standing.done}
        if len(records) > 1:
            num_shared += 1
            unlike_jobs += [job] if len({_comparable_numbers(record) for record in records.values()}) > 1 else []
    if not unlike_jobs:
        return num_shared, ()
    named = ", ".join(f"{job.name} from {sources[job.key]}" for job in unlike_jobs[:_MAX_NAMED])
    others_note = f", and {len(unlike_jobs) - _MAX_NAMED} more" if len(unlike_jobs) > _MAX_NAMED else ""
    return num_shared, (
        f"{len(unlike_jobs)} jobs have other numbers in one RUN than in another; taken: {named}{others_note}",
    )


def _comparable_numbers(record: Record) -> str:
    """Return what two runs of one job should have in common: all numbers but times."""
    scores = [score.model_dump() for score in record.scores if score.name != "seconds"]
    return repr((scores, sorted(record.counts.items()), record.provenance.weights_hash))


# ---------------------------------------------------------------------------------------------------------- a new RUN


def check_inputs(runs: Iterable[RunStore], done: str = "merged") -> None:
    """Read everything in some RUNs and check it, as `rbench verify` does. Raises StoreError for all that is damaged.

    Args:
        done: what is not done with a damaged RUN.
    """
    damaged = [finding.text for run in runs for finding in verify(run.root).findings if finding.damage]
    if damaged:
        listed = "\n".join(f"  {text}" for text in damaged)
        raise StoreError(f"what is damaged is not {done}:\n{listed}")


def check_texts(plans: Iterable[tuple[RunStore, Plan]]) -> None:
    """Raise StoreError where some RUNs keep texts and others do not."""
    texts_by_root = {run.root: plan.texts for run, plan in plans}
    if len({*texts_by_root.values()}) > 1:
        with_texts = [str(root) for root, texts in texts_by_root.items() if texts]
        raise StoreError(
            f"{', '.join(with_texts)} was made to keep texts and the other RUNs were not. Copy it without them first: "
            f"rbench pack {with_texts[0]} --no-texts"
        )


def check_out(out: Path, runs: Iterable[RunStore]) -> None:
    """Raise StoreError if `out` is there already, or would lie in one of the RUNs."""
    if out.exists() or out.is_symlink():
        raise StoreError(f"{out} is there already. Choose another --out.")
    for root in (run.root for run in runs if run.root.is_dir()):
        if out.resolve().is_relative_to(root.resolve()):
            raise StoreError(f"{out} lies in {root}, which is not to be changed. Choose another --out.")


def write_merged(joined: MergedRuns, out: Path) -> None:
    """Copy the plan, records, outcomes, predictions and rows of all jobs into the new folder `out`.

    Files are copied byte by byte. The folder gets its name once it is complete. Until then it lies beside, and is
    removed if anything goes wrong.

    Raises:
        StoreError: something cannot be read or written, or changed while it was copied.
    """
    plan = joined.plan()
    with files.grow_folder(out) as unfinished:
        store = RunStore(unfinished, texts=plan.texts)
        store.write_plan(plan)
        for job in plan.jobs:
            names = {*JOB_FILES, *(path.name for path in joined.part_files(job))}
            for name in sorted(names):
                if (content := joined.content(job, name)) is not None:
                    files.write(store.folder(job) / name, content, store.below(job))
        copied = load_statuses(store, plan)
        if copied.done != joined.standing.done or copied.problems.keys() != joined.standing.problems.keys():
            raise StoreError("a RUN changed while it was copied; run the same command again")
