"""Write what a later RUN is checked against into one small file, and read it: `rbench baseline`.

    {"format": "rbench baseline", "version": 2, "check": SHA256, "content": {...}}

The content holds a letter for each attacked example and no text. Examples are named by a hash of their id. `check` is
the hash of the content, so a file that was cut short or edited is refused. A file of another version is refused too.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

import rbench
from rbench.errors import StoreError
from rbench.gate import told
from rbench.metrics import AnyMetric, MeasureNumber, Metric
from rbench.schema import TEST_ACCURACY, Flag, Job, Outcome, content_key
from rbench.schema.common import Count, Strict
from rbench.system import named
from rbench.system.own_code import failing_in
from rbench.tables import Results
from rbench.tables.aggregate import attack_grid
from rbench.tables.results import SeedRun
from rbench.verdicts.cells import CellNumber, cells_by_name
from rbench.verdicts.compare import CellName, comparable_fields

# A larger VERSION makes this rbench refuse every baseline that users have committed. Raise it only where an older
# file would be read wrongly.
FORMAT, VERSION = "rbench baseline", 2
SUCCEEDED, FAILED, SKIPPED, ERRORED, NOT_SCORED = "sfw!-"
"""The letters of outcomes: the victim fell, it held, it was wrong before the attack, the attack raised an exception, or
the text can be in no denominator (it has no word to attack, or is a pair that cannot be scored)."""


BaselinePlace = tuple[str, CellName]
"""Names a cell of a baseline: the number of a measure, or an empty text for cells of attacks; and the cell."""


class BaselineJob(Strict):
    """What one job of a baseline RUN stored: an attack, or one of a measure, whose units are its examples."""

    run: Count
    """Which of the RUNs."""
    train_seed: Count | None
    """The training seed of the encoder; None where the suite has no `train_seeds`."""
    seed: Count
    """The fine-tuning seed, which also chose the examples."""
    key: str
    victim: str
    """Key of the job that made the victim."""
    weights: str | None
    """Hash of the victim's weights; None where nobody sees them: of a function, of what an endpoint serves, and in
    records that do not have it. Then `victim` says which it is: its key has the version that the user states."""
    examples: Count
    """Which of the lists of examples."""
    flags: tuple[Flag, ...]
    """Those of the victim and the attack with which a gate's numbers say nothing."""
    bits: Annotated[str, Field(pattern=r"^[sfw!-]*$")]
    """A letter for each example of the list."""
    values: dict[str, Annotated[str, Field(pattern=r"^[01-]*$")]] = Field(default_factory=dict)
    """By metric beside those that letters give: 1 or 0 for each example of the list, - for one that does not count. Of
    what people said by metric and rater (`gate.told`): whether this rater accepts the example."""


class BaselineCell(Strict):
    """All baseline runs of one cell."""

    encoder: str
    task: str
    finetune: str
    attack: str
    metric: str = ""
    """Of the cells of a number of a measure its name; empty for those of attacks."""
    decisive: dict[str, str]
    """What a RUN must have in common with the baseline, each with a hash; see `verdicts.compare.comparable_fields`."""
    jobs: tuple[BaselineJob, ...]

    @property
    def key(self) -> CellName:
        return CellName(self.encoder, self.task, self.finetune, self.attack)

    @property
    def place(self) -> BaselinePlace:
        return self.metric, self.key


class Baseline(Strict):
    """The content of a baseline file."""

    rbench: str
    """The version that wrote it."""
    suite: str
    runs: Annotated[int, Field(ge=1)]
    """Number of RUNs."""
    examples: tuple[tuple[str, ...], ...]
    """Lists of hashed example ids; jobs that attacked the same examples share a list."""
    cells: tuple[BaselineCell, ...]


# ------------------------------------------------------------------------------------------------------ from RUNs


STATUS_OF_LETTER = {
    SUCCEEDED: ("succeeded", None),
    FAILED: ("failed", None),
    SKIPPED: ("skipped", None),
    ERRORED: ("errored", None),
    NOT_SCORED: ("skipped", "no words"),
}
"""What a letter says of an outcome: its status, and why it was skipped."""


def _letters_by_example(results: Results, run: SeedRun) -> dict[str, str]:
    """Return the letter of each example of a complete attack job, by the hash of its id, sorted.

    Raises StoreError where the RUN keeps no outcomes of the job.
    """
    outcomes = results.store.outcomes(run.job)
    if not outcomes and run.tally is not None and run.tally.total + run.tally.errored:
        raise StoreError(
            f"{results.root}: {run.job.name} has a record but no outcomes, and the check compares example by example. "
            "Use the RUN as `rbench run` wrote it; one without texts (`--no-texts`) will do."
        )
    return dict(sorted((hash_example(outcome.example_id), encode_outcome(outcome)) for outcome in outcomes))


def _values_by_example(results: Results, run: SeedRun, metric: Metric) -> dict[str, float]:
    """Return the values of a metric of a complete attack job, by the hash of the example's id."""
    values = results.values(run, metric) or {}  # None without outcomes, which `_letters_by_example` refuses
    return {hash_example(example): value for example, value in values.items()}


def _values_by_unit(measured: str, cell: CellNumber, run: SeedRun) -> dict[str, float]:
    """Return the values of the units of a measure's job, by the hash of the unit. Raises StoreError where these are no
    0 and 1, or are not known."""
    values = cell.values(run)
    if values is None or not {*values.values()} <= {0.0, 1.0}:
        why = "has no values by unit" if values is None else "has values that are not 0 or 1"
        raise StoreError(f"{cell.cell.results.root}: {run.job.name} {why} of {measured}, and a check compares shares")
    return {hash_example(unit): value for unit, value in values.items()}


def encode_outcome(outcome: Outcome) -> str:
    """Return the letter that stands for an outcome."""
    if outcome.status == "errored":
        return ERRORED
    if outcome.skip_reason is not None:
        return NOT_SCORED
    return {"succeeded": SUCCEEDED, "failed": FAILED, "skipped": SKIPPED}[outcome.status]


def hash_example(example_id: str) -> str:
    """Return 16 hex digits that stand for an example's id, which may say more of a data set than may be passed on."""
    return hashlib.sha256(example_id.encode()).hexdigest()[:16]


def hash_decisive(job: Job) -> dict[str, str]:
    """Return what an attack job must have in common with another, as hashes that ignore titles and notes."""
    return {what: content_key(value)[:32] for what, value in comparable_fields(job).items()}


def collect_cells(results: Results, metrics: Sequence[AnyMetric]) -> dict[BaselinePlace, CellNumber]:
    """Return the cells of a RUN's attacks, and those of the numbers of measures among some metrics.

    Raises StoreError where the RUN has none of one kind, or two of one name.
    """
    measured = [metric for metric in metrics if isinstance(metric, MeasureNumber)]
    attacked = attack_grid(results).cells.values() if results.plan.attacks or not measured else ()
    cells_by_place = {("", CellName.of(cell)): CellNumber(cell, "") for cell in attacked}
    for metric in measured:
        measure_cells = cells_by_name(results, metric)
        if not measure_cells:
            raise StoreError(f"{results.root} has no number of {metric.name}")
        cells_by_place |= {
            (metric.name, CellName.of(name)): measure_cell for name, measure_cell in measure_cells.items()
        }
    for name in wider_numbers(results) - {metric.name for metric in measured} if attacked else ():
        cells_by_place |= {(name, key): measure_cell for key, measure_cell in _on_more_texts(results, name).items()}
    return cells_by_place


def wider_numbers(results: Results) -> set[str]:
    """Return the numbers of measures that a check judges in place of metrics of attacks, because they are of more texts
    (`Metric.wider`), as far as the plan of a RUN may have them."""
    planned = {TEST_ACCURACY if job.opening is not None else job.what for job in results.plan.jobs}
    return {
        gate_metric.wider for gate_metric in results.metrics.all() if gate_metric.gate and gate_metric.wider in planned
    }


def _on_more_texts(results: Results, name: str) -> dict[CellName, CellNumber]:
    """Return the cells of a number of a measure whose values the RUN keeps, row by row, or has not computed yet."""
    try:
        cells = cells_by_name(results, results.metrics.asked(name))
    except StoreError:  # the suite asks for it twice, with several options
        return {}
    return {
        CellName.of(cell): measure_cell
        for cell, measure_cell in cells.items()
        if all(measure_cell.values(run) is not None for run in measure_cell.cell.done)
    }


def _collect_cells_of_all(
    runs: Sequence[Results], metrics: Sequence[AnyMetric]
) -> list[dict[BaselinePlace, CellNumber]]:
    """Return the cells of each RUN; those on more texts, which nobody asked for, where every RUN has them."""
    all_cells = [collect_cells(results, metrics) for results in runs]
    optional = {name for results in runs for name in wider_numbers(results)} - {metric.name for metric in metrics}
    common = set(all_cells[0]).intersection(*all_cells)
    return [
        {place: cell for place, cell in run_cells.items() if place[0] not in optional or place in common}
        for run_cells in all_cells
    ]


def build_baseline(runs: Sequence[Results], metrics: Sequence[AnyMetric] = ()) -> Baseline:
    """Put together the baseline of one or several RUNs of a suite.

    Args:
        runs: the RUNs.
        metrics: those whose values are kept beside the letters.

    Raises:
        StoreError: a RUN is not complete, keeps no outcomes, has other cells than the first, differs from it in data,
            attacks or resources, or has the same victims as another; the message names the RUN and what is wrong.
    """
    lists: dict[tuple[str, ...], int] = {}
    cells: dict[BaselinePlace, tuple[dict[str, str], list[BaselineJob]]] = {}
    # All problems are collected first, so that one command names every RUN and job that is wrong.
    problems: list[str] = []
    for number, (results, run_cells) in enumerate(zip(runs, _collect_cells_of_all(runs, metrics), strict=True)):
        if number and run_cells.keys() != cells.keys():
            others = sorted(run_cells.keys() ^ cells.keys())
            problems += [f"{results.root}: {other} is in one of the RUNs only" for _, other in others]
            continue
        for place, cell in run_cells.items():
            key, cell_runs = place[1], cell.cell.runs
            first_hashes, jobs = cells.setdefault(place, (hash_decisive(cell_runs[0].job), []))
            for run in cell_runs:
                differences = [what for what, value in hash_decisive(run.job).items() if first_hashes[what] != value]
                if number and run.job.seed not in {job.seed for job in jobs if job.run == 0}:
                    differences.append("its fine-tuning seeds, which choose the examples")
                if differences:
                    problems.append(f"{results.root}: {key} differs from {runs[0].root} in {', '.join(differences)}")
                elif not run.done:
                    why = results.standing.problems.get(run.job.key)
                    problems.append(f"{results.root}: {run.job.name} is not complete" + (f": {why}" if why else ""))
                elif results.flags.unrecorded([run.job]):
                    why_unknown = "is missing or damaged, so that its health is not known; run the suite again"
                    problems.append(f"{results.root}: the record of the victim behind {run.job.name} {why_unknown}")
                else:
                    jobs.append(
                        build_baseline_job(
                            place[0], cell, run, number, lists, results.flags.voiding_flags([run.job]), metrics
                        )
                    )
    if not problems:
        problems = _name_repeated_runs(runs, [jobs for _, jobs in cells.values()])
    if problems:
        raise StoreError("no baseline can be made of these RUNs:\n" + "\n".join(dict.fromkeys(problems)))
    baseline_cells = tuple(
        BaselineCell(**key._asdict(), metric=metric, decisive=decisive_hashes, jobs=tuple(jobs))
        for (metric, key), (decisive_hashes, jobs) in cells.items()
    )
    baseline = Baseline(
        rbench=rbench.__version__,
        suite=runs[0].plan.suite.name,
        runs=len(runs),
        examples=tuple(lists),
        cells=baseline_cells,
    )
    if why := _find_inconsistency(baseline):
        roots = ", ".join(str(results.root) for results in runs)
        raise StoreError(
            f"no baseline can be made of these RUNs ({roots}):\n{why}. Run all of them with the same seeds."
        )
    return baseline


def build_baseline_job(
    measured: str,
    cell: CellNumber,
    run: SeedRun,
    number: int,
    lists: dict[tuple[str, ...], int],
    flags: tuple[Flag, ...],
    metrics: Sequence[AnyMetric],
) -> BaselineJob:
    """Return what a complete job stored, and add its list of examples to `lists`.

    Args:
        measured: of a cell of a measure, the name of its number; empty for one of attacks.

    Raises StoreError where the RUN keeps no outcomes of it, or a number of a measure is no share of units.
    """
    assert run.record is not None
    results = cell.cell.results
    if measured:
        values_by_name = {measured: _values_by_unit(measured, cell, run)}
        attacked = run.job.attacking is not None  # its units are examples, and which of them count may change
        bits = (
            _letters_by_example(results, run)
            if attacked
            else dict.fromkeys(sorted(values_by_name[measured]), NOT_SCORED)
        )
    else:
        bits = _letters_by_example(results, run)
        shown = [metric for metric in metrics if isinstance(metric, Metric)]
        values_by_name = {
            metric.name: _values_by_example(results, run, metric) for metric in shown if not metric.of_people
        }
        for metric in shown:
            if metric.of_people:
                for name, accepted in told.accepted_by_rater(results, run, metric).items():
                    values_by_name[name] = {hash_example(example): value for example, value in accepted.items()}
    spec, needs = run.job.measuring, run.job.needs
    opened = run.job.key if run.job.victim is not None else None
    # The job that made the victim; an existing classifier is opened by its own job, an encoder made by none.
    made_by = (needs.get("victim"), opened, needs.get("encoder"), spec and spec.encoder_fingerprint)
    return BaselineJob(
        run=number,
        train_seed=run.train_seed,
        seed=run.job.seed,
        key=run.job.key,
        victim=next(filter(None, made_by), ""),
        weights=None if has_unseen_weights(results, run.job) else run.record.provenance.weights_hash,
        examples=lists.setdefault(tuple(bits), len(lists)),
        flags=flags,
        bits="".join(bits.values()),
        values={
            name: "".join(_bit_letter(values.get(example)) for example in bits)
            for name, values in values_by_name.items()
        },
    )


def has_unseen_weights(results: Results, job: Job) -> bool:
    """Whether nobody sees the weights behind a job: its victim is a function, or an endpoint computes it."""
    victim_jobs = [
        victim_job
        for victim_job in results.flags.jobs_behind([job])
        if victim_job.key == job.needs.get("victim", job.key)
    ]
    return any(
        (victim_job.opening is not None and victim_job.opening.victim.origin != "model")
        or (victim_job.tuning is not None and victim_job.tuning.encoder.endpoint is not None)
        for victim_job in victim_jobs
    )


def _bit_letter(value: float | None) -> str:
    return NOT_SCORED if value is None else str(round(value))


def _name_repeated_runs(runs: Sequence[Results], cells: Iterable[Sequence[BaselineJob]]) -> list[str]:
    """Name each RUN all of whose victims are in an earlier RUN: it adds nothing, and would hide how trainings vary."""
    victims_by_run: dict[int, set[tuple[str, int]]] = {}
    for jobs in cells:
        for job in jobs:
            victims_by_run.setdefault(job.run, set()).add((job.weights or job.victim, job.seed))
    messages = []
    for number, victims in victims_by_run.items():
        earlier = next((candidate for candidate in range(number) if victims == victims_by_run[candidate]), None)
        if earlier is not None:
            messages.append(
                f"{runs[number].root} has the same victims as {runs[earlier].root}, so it is no second run of the "
                "suite. Train the encoders with another seed: --set train_seeds=[1]"
            )
    return messages


# ------------------------------------------------------------------------------------------------------ the file


def write(baseline: Baseline, path: Path) -> None:
    """Write a baseline file; compressed where its name ends in `.gz`. The same RUNs make the same bytes."""
    content = baseline.model_dump(mode="json")
    # Most baselines have neither field, so an empty one is left out.
    for cell in content["cells"]:
        if not cell["metric"]:
            del cell["metric"]
        for job in cell["jobs"]:
            if not job["values"]:
                del job["values"]
    write_content(content, path, FORMAT, VERSION)


def write_content(content: object, path: Path, file_format: str, version: int) -> None:
    """Write the content of a baseline file with its format, version and checksum."""
    envelope = {"format": file_format, "version": version, "check": _checksum(content), "content": content}
    text = json.dumps(envelope, indent=None if path.suffix == ".gz" else 1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    # `mtime=0`: gzip would store the time, and the same RUNs must make the same bytes.
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode())


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file.

    Raises StoreError where it is no baseline, damaged, or of a version that this rbench does not read; the message
    names the file and the remedy. Raises OSError where it cannot be read.
    """
    content = read_content(path, FORMAT, VERSION)
    with failing_in(path, StoreError, _REMEDY):
        baseline = Baseline.model_validate(content)
    if problem := _find_inconsistency(baseline):
        raise _damage_error(path, problem)
    return baseline


def read_format(path: Path) -> str:
    """Return the format that a baseline file states; empty where it states none. Raises as `read_baseline`."""
    with failing_in(path, StoreError, _REMEDY):
        envelope = json.loads(named.read(path))
    return str(envelope.get("format", "")) if isinstance(envelope, dict) else ""


def read_content(path: Path, file_format: str, known_version: int) -> object:
    """Return the content of a baseline file of this format and version. Raises as `read_baseline`."""
    with failing_in(path, StoreError, _REMEDY):
        envelope = json.loads(named.read(path))
    if not isinstance(envelope, dict) or envelope.get("format") != file_format:
        raise StoreError(f"{path} is not a baseline: it does not begin with the format {file_format!r}. {_REMEDY}")
    version = envelope.get("version")
    if version != known_version:
        raise StoreError(
            f"{path} is a baseline of version {str(version)[:20]}, and this rbench reads version {known_version}. "
            "Check with the rbench that wrote it, or make the baseline again: rbench baseline RUN --out FILE"
        )
    if envelope.keys() != {"format", "version", "check", "content"} or envelope["check"] != _checksum(
        envelope["content"]
    ):
        raise _damage_error(path, "its content is not that of its checksum")
    return envelope["content"]


_REMEDY = "Restore it, for instance from git, or make it again: rbench baseline RUN --out FILE"


def _damage_error(path: Path, why: str) -> StoreError:
    return StoreError(f"{path} is damaged, cut short or edited ({' '.join(why.split())[:200]}). {_REMEDY}")


def _checksum(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _find_inconsistency(baseline: Baseline) -> str:
    """Say which job's letters do not fit its list of examples, or which cell lacks a seed; empty where all is well."""
    for cell in baseline.cells:
        trainings = [(job.run, job.train_seed) for job in cell.jobs]
        if len({trainings.count(training) for training in trainings}) != 1:
            return f"{cell.key}: not the same seeds in each run"
        for job in cell.jobs:
            rows = (job.bits, *job.values.values())
            if job.examples >= len(baseline.examples) or {len(baseline.examples[job.examples])} != {*map(len, rows)}:
                return f"{cell.key} seed {job.seed}: not one letter for each example"
    return ""
