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
from rbench.metrics import AnyMetric, Measured, Metric
from rbench.schema import TEST_ACCURACY, Flag, Job, Outcome, content_key
from rbench.schema.common import Count, Strict
from rbench.system import named
from rbench.tables import Results
from rbench.tables.aggregate import grid
from rbench.tables.results import Run
from rbench.verdicts.cells import OfCell, by_name
from rbench.verdicts.compare import CellKey, decisive

FORMAT, VERSION = "rbench baseline", 2
SUCCEEDED, FAILED, SKIPPED, ERRORED, NOT_SCORED = "sfw!-"
"""The letters of outcomes: the victim fell, it held, it was wrong before the attack, the attack raised an exception, or
the text can be in no denominator (it has no word to attack, or is a pair that cannot be scored)."""


Place = tuple[str, CellKey]
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
    """What a RUN must have in common with the baseline, each with a hash; see `verdicts.compare.decisive`."""
    jobs: tuple[BaselineJob, ...]

    @property
    def key(self) -> CellKey:
        return CellKey(self.encoder, self.task, self.finetune, self.attack)

    @property
    def place(self) -> Place:
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


STATUS = {
    SUCCEEDED: ("succeeded", None),
    FAILED: ("failed", None),
    SKIPPED: ("skipped", None),
    ERRORED: ("errored", None),
    NOT_SCORED: ("skipped", "no words"),
}
"""What a letter says of an outcome: its status, and why it was skipped."""


def _bits_of(results: Results, run: Run) -> dict[str, str]:
    """Return the letter of each example of a complete attack job, by the hash of its id, sorted.

    Raises StoreError where the RUN keeps no outcomes of the job.
    """
    outcomes = results.store.outcomes(run.job)
    if not outcomes and run.tally is not None and run.tally.total + run.tally.errored:
        raise StoreError(
            f"{results.root}: {run.job.name} has a record but no outcomes, and the check compares example by example. "
            "Use the RUN as `rbench run` wrote it; one without texts (`--no-texts`) will do."
        )
    return dict(sorted((hashed(outcome.example_id), letter(outcome)) for outcome in outcomes))


def _values_of(results: Results, run: Run, metric: Metric) -> dict[str, float]:
    """Return the values of a metric of a complete attack job, by the hash of the example's id.

    Raises StoreError where the RUN keeps no outcomes of the job.
    """
    found = results.values(run, metric)
    if found is None:
        raise StoreError(f"{results.root}: {run.job.name} has no outcomes, and {metric.name} is computed from them")
    return {hashed(example): value for example, value in found.items()}


def _units_of(measured: str, of: OfCell, run: Run) -> dict[str, float]:
    """Return the values of the units of a measure's job, by the hash of the unit. Raises StoreError where these are no
    0 and 1, or are not known."""
    found = of.values(run)
    if found is None or not {*found.values()} <= {0.0, 1.0}:
        why = "has no values by unit" if found is None else "has values that are not 0 or 1"
        raise StoreError(f"{of.cell.results.root}: {run.job.name} {why} of {measured}, and a check compares shares")
    return {hashed(unit): value for unit, value in found.items()}


def letter(outcome: Outcome) -> str:
    """Return the letter that stands for an outcome."""
    if outcome.status == "errored":
        return ERRORED
    if outcome.skip_reason is not None:
        return NOT_SCORED
    return {"succeeded": SUCCEEDED, "failed": FAILED, "skipped": SKIPPED}[outcome.status]


def hashed(example_id: str) -> str:
    """Return 16 hex digits that stand for an example's id, which may say more of a data set than may be passed on."""
    return hashlib.sha256(example_id.encode()).hexdigest()[:16]


def hashes(job: Job) -> dict[str, str]:
    """Return what an attack job must have in common with another, as hashes that ignore titles and notes."""
    return {what: content_key(value)[:32] for what, value in decisive(job).items()}


def places(results: Results, metrics: Sequence[AnyMetric]) -> dict[Place, OfCell]:
    """Return the cells of a RUN's attacks, and those of the numbers of measures among some metrics.

    Raises StoreError where the RUN has none of one kind, or two of one name.
    """
    measured = [metric for metric in metrics if isinstance(metric, Measured)]
    attacked = grid(results).cells.values() if results.plan.attacks or not measured else ()
    found = {("", CellKey.of(cell)): OfCell(cell, "") for cell in attacked}
    for metric in measured:
        if not (own := by_name(results, metric)):
            raise StoreError(f"{results.root} has no number of {metric.name}")
        found |= {(metric.name, CellKey.of(name)): one for name, one in own.items()}
    for name in wider(results) - {metric.name for metric in measured} if attacked else ():
        found |= {(name, key): one for key, one in _on_more_texts(results, name).items()}
    return found


def wider(results: Results) -> set[str]:
    """Return the numbers of measures that a check judges in place of metrics of attacks, because they are of more texts
    (`Metric.wider`), as far as the plan of a RUN may have them."""
    asked = {TEST_ACCURACY if job.opening is not None else job.what for job in results.plan.jobs}
    return {one.wider for one in results.metrics.all() if one.gate and one.wider in asked}


def _on_more_texts(results: Results, name: str) -> dict[CellKey, OfCell]:
    """Return the cells of a number of a measure whose values the RUN keeps, row by row, or has not computed yet."""
    try:
        found = by_name(results, results.metrics.asked(name))
    except StoreError:  # the suite asks for it twice, with several options
        return {}
    return {
        CellKey.of(cell): one
        for cell, one in found.items()
        if all(one.values(run) is not None for run in one.cell.done)
    }


def _places_of_all(runs: Sequence[Results], metrics: Sequence[AnyMetric]) -> list[dict[Place, OfCell]]:
    """Return the cells of each RUN; those on more texts, which nobody asked for, where every RUN has them."""
    every = [places(results, metrics) for results in runs]
    optional = {name for results in runs for name in wider(results)} - {metric.name for metric in metrics}
    common = set(every[0]).intersection(*every)
    return [
        {place: one for place, one in there.items() if place[0] not in optional or place in common} for there in every
    ]


def baseline_of(runs: Sequence[Results], metrics: Sequence[AnyMetric] = ()) -> Baseline:
    """Put together the baseline of one or several RUNs of a suite.

    Args:
        runs: the RUNs.
        metrics: those whose values are kept beside the letters.

    Raises:
        StoreError: a RUN is not complete, keeps no outcomes, has other cells than the first, differs from it in data,
            attacks or resources, or has the same victims as another; the message names the RUN and what is wrong.
    """
    lists: dict[tuple[str, ...], int] = {}
    cells: dict[Place, tuple[dict[str, str], list[BaselineJob]]] = {}
    wrong: list[str] = []
    for number, (results, there) in enumerate(zip(runs, _places_of_all(runs, metrics), strict=True)):
        if number and there.keys() != cells.keys():
            others = sorted(there.keys() ^ cells.keys())
            wrong += [f"{results.root}: {other} is in one of the RUNs only" for _, other in others]
            continue
        for place, one in there.items():
            key, runs_of = place[1], one.cell.runs
            first, jobs = cells.setdefault(place, (hashes(runs_of[0].job), []))
            for run in runs_of:
                unlike = [what for what, value in hashes(run.job).items() if first[what] != value]
                if number and run.job.seed not in {job.seed for job in jobs if job.run == 0}:
                    unlike.append("its fine-tuning seeds, which choose the examples")
                if unlike:
                    wrong.append(f"{results.root}: {key} differs from {runs[0].root} in {', '.join(unlike)}")
                elif not run.done:
                    why = results.standing.problems.get(run.job.key)
                    wrong.append(f"{results.root}: {run.job.name} is not complete" + (f": {why}" if why else ""))
                elif results.flags.unrecorded([run.job]):
                    lost = "is missing or damaged, so that its health is not known; run the suite again"
                    wrong.append(f"{results.root}: the record of the victim behind {run.job.name} {lost}")
                else:
                    jobs.append(job_of(place[0], one, run, number, lists, results.flags.voiding([run.job]), metrics))
    if not wrong:
        wrong = _repeated(runs, [jobs for _, jobs in cells.values()])
    if wrong:
        raise StoreError("no baseline can be made of these RUNs:\n" + "\n".join(dict.fromkeys(wrong)))
    made = tuple(
        BaselineCell(**key._asdict(), metric=metric, decisive=same, jobs=tuple(jobs))
        for (metric, key), (same, jobs) in cells.items()
    )
    found = Baseline(
        rbench=rbench.__version__,
        suite=runs[0].plan.suite.name,
        runs=len(runs),
        examples=tuple(lists),
        cells=made,
    )
    if why := _wrong(found):
        roots = ", ".join(str(results.root) for results in runs)
        raise StoreError(
            f"no baseline can be made of these RUNs ({roots}):\n{why}. Run all of them with the same seeds."
        )
    return found


def job_of(
    measured: str,
    of: OfCell,
    run: Run,
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
    results = of.cell.results
    if measured:
        own = {measured: _units_of(measured, of, run)}
        attacked = run.job.attacking is not None  # its units are examples, and which of them count may change
        bits = _bits_of(results, run) if attacked else dict.fromkeys(sorted(own[measured]), NOT_SCORED)
    else:
        bits = _bits_of(results, run)
        own = {
            one.name: _values_of(results, run, one) for one in metrics if isinstance(one, Metric) and not one.of_people
        }
        said = (told.accepted(results, run, one) for one in metrics if isinstance(one, Metric) and one.of_people)
        own |= {name: {hashed(example): x for example, x in by.items()} for one in said for name, by in one.items()}
    spec, needs = run.job.measuring, run.job.needs
    opened = run.job.key if run.job.victim is not None else None
    made_by = (needs.get("victim"), opened, needs.get("encoder"), spec and spec.encoder_fingerprint)
    return BaselineJob(
        run=number,
        train_seed=run.train_seed,
        seed=run.job.seed,
        key=run.job.key,
        victim=next(filter(None, made_by), ""),
        weights=None if unseen(results, run.job) else run.record.provenance.weights_hash,
        examples=lists.setdefault(tuple(bits), len(lists)),
        flags=flags,
        bits="".join(bits.values()),
        values={name: "".join(_bit(one.get(example)) for example in bits) for name, one in own.items()},
    )


def unseen(results: Results, job: Job) -> bool:
    """Whether nobody sees the weights behind a job: its victim is a function, or an endpoint computes it."""
    behind = [one for one in results.flags.behind([job]) if one.key == job.needs.get("victim", job.key)]
    return any(
        (one.opening is not None and one.opening.victim.origin != "model")
        or (one.tuning is not None and one.tuning.encoder.endpoint is not None)
        for one in behind
    )


def _bit(value: float | None) -> str:
    return NOT_SCORED if value is None else str(round(value))


def _repeated(runs: Sequence[Results], cells: Iterable[Sequence[BaselineJob]]) -> list[str]:
    """Name each RUN all of whose victims are in an earlier RUN: it adds nothing, and would hide how trainings vary."""
    seen: dict[int, set[tuple[str, int]]] = {}
    for jobs in cells:
        for job in jobs:
            seen.setdefault(job.run, set()).add((job.weights or job.victim, job.seed))
    found = []
    for number, victims in seen.items():
        earlier = next((n for n in range(number) if victims == seen[n]), None)
        if earlier is not None:
            found.append(
                f"{runs[number].root} has the same victims as {runs[earlier].root}, so it is no second run of the "
                "suite. Train the encoders with another seed: --set train_seeds=[1]"
            )
    return found


# ------------------------------------------------------------------------------------------------------ the file


def write(found: Baseline, path: Path) -> None:
    """Write a baseline file; compressed where its name ends in `.gz`. The same RUNs make the same bytes."""
    content = found.model_dump(mode="json")
    for part, name in [(cell, "metric") for cell in content["cells"]] + [
        (job, "values") for cell in content["cells"] for job in cell["jobs"]
    ]:
        if not part[name]:
            del part[name]
    whole = {"format": FORMAT, "version": VERSION, "check": _check(content), "content": content}
    text = json.dumps(whole, indent=None if path.suffix == ".gz" else 1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode())


def read(path: Path) -> Baseline:
    """Read a baseline file.

    Raises StoreError where there is no such file, it is no baseline, damaged, or of a version that this rbench does not
    read; the message names the file and the remedy.
    """
    try:
        whole = json.loads(named.read(path))
    except FileNotFoundError:
        raise StoreError(f"{path}: there is no such file. Make it with: rbench baseline RUN --out {path}") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}. {_REMEDY}") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise StoreError(f"{path} is not a baseline: it does not begin with the format {FORMAT!r}. {_REMEDY}")
    version = whole.get("version")
    if version != VERSION:
        raise StoreError(
            f"{path} is a baseline of version {str(version)[:20]}, and this rbench reads version {VERSION}. "
            "Check with the rbench that wrote it, or make the baseline again: rbench baseline RUN --out FILE"
        )
    if whole.keys() != {"format", "version", "check", "content"} or whole["check"] != _check(whole["content"]):
        raise _damaged(path, "its content is not that of its checksum")
    try:
        found = Baseline.model_validate(whole["content"])
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if wrong := _wrong(found):
        raise _damaged(path, wrong)
    return found


_REMEDY = "Restore it, for instance from git, or make it again: rbench baseline RUN --out FILE"


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(f"{path} is damaged, cut short or edited ({' '.join(why.split())[:200]}). {_REMEDY}")


def _check(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _wrong(found: Baseline) -> str:
    """Say which job's letters do not fit its list of examples, or which cell lacks a seed; empty where all is well."""
    for cell in found.cells:
        trainings = [(job.run, job.train_seed) for job in cell.jobs]
        if len({trainings.count(training) for training in trainings}) != 1:
            return f"{cell.key}: not the same seeds in each run"
        for job in cell.jobs:
            rows = (job.bits, *job.values.values())
            if job.examples >= len(found.examples) or {len(found.examples[job.examples])} != {*map(len, rows)}:
                return f"{cell.key} seed {job.seed}: not one letter for each example"
    return ""
