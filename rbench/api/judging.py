"""Judge RUNs: claims of suites and papers, encoders and victims compared, checks against a baseline, and limits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rbench.api.runs import results_of
from rbench.config.claims import file_of, read_claims
from rbench.config.metrics import AnyMetric, Measured, Metric, Metrics
from rbench.config.registry import Registry
from rbench.errors import ResourceError, StoreError
from rbench.gate import baseline as baselines
from rbench.gate import check as gate
from rbench.gate import fail_if, reports
from rbench.gate.baseline import Baseline
from rbench.gate.check import Checked, judged
from rbench.gate.fail_if import Condition, Conditions
from rbench.gate.rows import ANY_ATTACK
from rbench.papers import claims as on_printed
from rbench.papers import tables as printed
from rbench.papers.claims import Judged, judge
from rbench.plan.labels import unlabelled
from rbench.schema import CONTRAST, ContrastSpec, Job, MeasureJob, Plan, Prediction
from rbench.schema.unlisted import known_as
from rbench.store.job_status import standing
from rbench.store.runs import Store
from rbench.store.runs.files import make_folder_of
from rbench.store.runs.store import folder_path
from rbench.tables import Results
from rbench.tables.formats import listed, render
from rbench.tables.results import plan_of
from rbench.tasks.contrast import Bundle, open_contrast
from rbench.verdicts import claims as on_claims
from rbench.verdicts import compare as comparing
from rbench.verdicts.cells import Cells
from rbench.verdicts.claims import JudgedClaim, judge_claims
from rbench.verdicts.compare import Comparison


def claims(run: Path | str, file: Path | str | None = None, include: Sequence[Path] = ()) -> tuple[JudgedClaim, ...]:
    """Judge the claims of a RUN's suite, or of a file: each is supported, contradicted or undecided.

    Args:
        run: the RUN.
        file: a YAML file with claims under the key `claims`, or a folder that has NAME.yaml for the RUN in folder NAME;
            None: the claims with which the RUN was planned.
        include: folders with measures and metrics that the RUN's suite names.

    Raises:
        StoreError: the folder is not a RUN, its suite or the folder `file` has no claims, or outcomes are damaged.
        SuiteError: the file is no YAML, or one of its claims does not fit the RUN; with file, line and column.
    """
    results = results_of(run, include)
    cells = Cells(results)
    found = None if file is None else _claims_file(folder_path(file), results)
    asked = results.plan.suite.claims if found is None else read_claims(found, cells.ground)
    if not asked:
        raise StoreError(
            f"{results.root}: its suite {results.plan.suite.name} had no claims when the RUN was made. Write `claims:` "
            "into the suite and run it again, which repeats no finished job; or name a file: --claims FILE"
        )
    return judge_claims(asked, cells.ground, cells)


def _claims_file(given: Path, results: Results) -> Path:
    """Return the file of claims that a user names: the file itself, or that of a RUN in a folder."""
    if not given.is_dir():
        return given
    file = file_of(results.root, given)
    if not file.is_file():
        raise StoreError(f"--claims {given} has no file for this RUN: expected {file}. Write it, or name a file")
    return file


def claims_table(found: Sequence[JudgedClaim], fmt: str = "markdown") -> str:
    """Render verdicts on claims. Raises StoreError for an unknown format."""
    return render(on_claims.table(found), fmt, intervals=False)


def paper_claims(name: str) -> tuple[Judged, ...]:
    """Judge all claims on one or more printed tables.

    Args:
        name: a printed table (`robustsentembed-table1`), the suite that reproduces it (`table1`), a paper (`adcl`), or
            `all`.

    Raises:
        SuiteError: the name stands for none, or a file is wrong.
    """
    found: list[Judged] = []
    for table in printed.tables(name):
        numbers = printed.load(table)
        found += (judge(claim, table, numbers, place) for claim, place in printed.load_claims(table))
    return tuple(found)


def paper_claims_table(found: Sequence[Judged], fmt: str = "markdown") -> str:
    """Render verdicts. Raises StoreError for an unknown format."""
    return render(on_printed.table(found), fmt)


def compare(
    run: Path | str,
    other_run: Path | str | None = None,
    *,
    between: tuple[str, str] | None = None,
    metric: str = "asr",
    common: bool = False,
    include: Sequence[Path] = (),
) -> Comparison:
    """Compare two encoders, strategies or attacks in every cell that both have.

    Args:
        run: the RUN of the first, and of the second where `other_run` is None.
        other_run: the RUN of the second. None: the same.
        between: two encoders, as the suites or tables name them (by name, folder, hub id or label), two fine-tuning
            strategies or two attacks. B is compared with A; the same name twice compares two RUNs. None: the two
            encoders of a RUN that has two, the two strategies of one that has one encoder, or the one encoder of each
            of two RUNs.
        metric: a name of `rbench list metrics`, such as asr, aua, clean, queries, or any_attack: whether at least one
            of all attacks succeeded; or a number of a measure, such as sts.
        common: where the RUNs attacked other examples, compare those that both have.
        include: folders with metrics and measures of your own.

    Raises:
        SuiteError: there is no such metric.
        StoreError: a folder is not a RUN, a name is unknown, nothing is common, or the RUNs differ in more than what is
            compared.
    """
    metrics = Metrics(Registry(include))
    _ = metrics.asked(metric)  # a wrong name is told before anything is read
    if between is not None and (not isinstance(between, (list, tuple)) or [type(one) for one in between] != [str, str]):
        raise StoreError(f"between={between!r}: expected the names of two encoders, strategies or attacks")
    first = results_of(run, include)
    second = first if other_run is None else results_of(other_run, include)
    if between is None:
        one, other = _only_two(*([first] if other_run is None else [first, second]))
    else:
        one, other = _label(between[0], first.plan), _label(between[1], second.plan)
    if one == other and other_run is None:
        raise StoreError(f"{one} cannot be compared with itself in one RUN; name a second RUN or encoder")
    return comparing.compare_names((first, one), (second, other), metric, common=common)


def _encoders(plan: Plan) -> list[str]:
    """Return the labels of a plan's encoders, and of the models that it attacks as they are."""
    attacked = (plan.draw(job.parts[0]).encoder for job in plan.jobs if job.attacking is not None)
    return [*dict.fromkeys((*plan.suite.encoders, *attacked))]


def _only_two(*runs: Results) -> list[str]:
    """Return the two that can be compared where there are no others: see `compare`."""
    found = [_encoders(one.plan) for one in runs]
    attacked = (job.attacking for job in runs[0].plan.jobs)
    tuned = [*dict.fromkeys(spec.strategy.label for spec in attacked if spec is not None)]
    if len(runs) == len(found[0]) == 1 and len(tuned) == 2:
        return tuned
    if any(len(names) != 2 // len(runs) for names in found):
        has = "; ".join(f"{one.root} has {listed(names)}" for one, names in zip(runs, found, strict=True))
        raise StoreError(f"say which two are compared: --between A B ({has})")
    return [name for names in found for name in names]


def _label(encoder: str, plan: Plan) -> str:
    """Return the label that an encoder has in a plan; a text that means none of them stays as it is."""
    known = _encoders(plan)
    own = {unlabelled(name): name for name in known}  # the label of a RUN need not be said
    return known_as(encoder, known) if encoder in known else own.get(found := known_as(encoder, own), found)


def comparison_table(found: Comparison, fmt: str = "markdown") -> str:
    """Render a comparison, with intervals. Raises StoreError for an unknown format."""
    return render(comparing.table(found), fmt, intervals=True)


def write_baseline(
    runs: Sequence[Path | str], out: Path, *, metric: Sequence[str] = (), include: Sequence[Path] = ()
) -> Baseline:
    """Write what later RUNs are checked against into one file; see `rbench.gate.baseline`.

    Args:
        runs: a RUN, or several of the same suite whose encoders were trained with other seeds.
        out: a .json file; .json.gz is compressed.
        metric: keep the values of this metric too, so that checks can judge it: a share, such as one of your own, or a
            number of a measure whose units are right or wrong.
        include: folders with metrics and measures of your own.

    Raises StoreError where a RUN cannot serve; the message names it and says why. Raises SuiteError for an unknown
    metric.
    """
    if not out.name.endswith((".json", ".json.gz")):
        raise StoreError(f"{out}: a baseline is a .json or .json.gz file")
    metrics = Metrics(Registry(include))
    kept = _metrics(metric, metrics)[0] if metric else ()
    read = [Results.of(Store(Path(run)), metrics) for run in runs]
    written = baselines.baseline_of(read, [one for one in kept if not one.gate])
    baselines.write(written, out)
    return written


def baseline_notes(written: Baseline) -> list[str]:
    """Say of which cells of a baseline no check will decide: too few texts, or flags."""
    return gate.thin(written, Metrics())


def check(
    run: Path | str,
    baseline: Path | str,
    *,
    metric: str | Sequence[str] = (),
    tolerance: float | str | Mapping[str, float] = 2.0,
    alpha: float = 0.05,
    about_these_weights: bool = False,
    allow_undecided: bool = False,
    allow_unexplained: bool = False,
    encoders: Sequence[str] = (),
    include: Sequence[Path] = (),
) -> Checked:
    """Check a RUN against a baseline file.

    Args:
        run: the folder that `rbench run` wrote.
        baseline: a file that `rbench baseline` wrote.
        metric: judge this alone: aua (accuracy under attack), clean, asr, or a metric that the baseline keeps.
            any_attack: whether at least one of all attacks succeeded, in place of each attack.
        tolerance: what is worse by so many points (0..100) passes: a number, or clean=2,aua=2,asr=5, also as a mapping;
            a metric without one has 2.
        alpha: how often a check without a true change may fail, above 0 and below 0.5.
        about_these_weights: fail on weights that are worse, even if another training with the same code might not be.
        allow_undecided: what cannot be judged is a warning and no exit code.
        allow_unexplained: what is worse than one or two baseline runs with other weights, by the change or by the
            training, is a warning and no exit code.
        encoders: check this encoder alone; empty: all.
        include: folders with metrics of your own.

    Raises SuiteError where there is no such metric. Raises StoreError where a value is out of range, the file or the
    RUN cannot be read, or they differ in more than the victims.
    """
    if not 0 < alpha < 0.5:
        raise StoreError(f"alpha {alpha}: a significance level of a check lies between 0 and 0.5")
    known = Metrics(Registry(include))
    chosen, together = _metrics([metric] if isinstance(metric, str) else metric, known)
    limits = _tolerances(tolerance, tuple(dict.fromkeys((*judged(known), *chosen))))
    rules = gate.Rules(chosen, together, limits, alpha, about_these_weights, allow_undecided, allow_unexplained)
    found = baselines.read(Path(baseline))
    return gate.check(Results.of(Store(Path(run)), known), found, rules, encoders)


def _metrics(names: Sequence[str], known: Metrics) -> tuple[tuple[AnyMetric, ...], bool]:
    """Return the metrics that are asked for, in their order, and whether all attacks count together.

    Raises SuiteError where there is no such metric, and StoreError where a check cannot judge it.
    """
    usual = judged(known)
    asked = [known.asked(name) for name in dict.fromkeys(names) if name != ANY_ATTACK]
    for one in asked:
        _check_judged(one, together=ANY_ATTACK in names)
    chosen = (*(one for one in usual if one in asked), *(one for one in asked if one not in usual))
    return chosen or usual, ANY_ATTACK in names


def _check_judged(metric: AnyMetric, *, together: bool) -> None:
    """Raise StoreError where a check cannot judge a metric."""
    why = ""
    if isinstance(metric, Metric) and not metric.share and not metric.of_people:
        why = "a check judges shares of texts, text by text, and it is a mean"
    elif metric.about.best is None:
        why = "neither of its ends is good"
    elif metric.of == "all attacks" or (metric.of is not None and together and not metric.gate):
        why = "the baseline has its values for each attack alone"
    if why:
        raise StoreError(f"{metric.name} cannot be checked: {why}")


def _tolerances(given: float | str | Mapping[str, float], metrics: Sequence[AnyMetric]) -> dict[str, float]:
    """Read what `check` takes as `tolerance`. Raises StoreError for anything else."""
    names = tuple(metric.name for metric in metrics)
    form = "write one number of points, or one for each metric such as clean=2,aua=2,asr=5"
    parts: Mapping[str, object]
    if isinstance(given, Mapping):
        parts = given
    elif isinstance(given, str) and "=" in given:
        pairs = [part.partition("=") for part in given.split(",")]
        parts = {name.strip(): value for name, _, value in pairs}
        if len(parts) < len(pairs):
            raise StoreError(f"tolerance {given!r} names a metric twice; {form}")
    else:
        parts = dict.fromkeys(names, given)
    read: dict[str, float] = {}
    for name, value in parts.items():
        if name not in names:
            raise StoreError(f"tolerance {given!r}: {name!r} is not one of {', '.join(names)}; {form}")
        try:
            points = float(cast(Any, value))
        except (TypeError, ValueError):
            raise StoreError(f"tolerance {given!r}: {value!r} is not a number; {form}") from None
        if not 0 <= points <= 100:
            raise StoreError(f"tolerance {given!r}: points lie between 0 and 100")
        read[name] = points
    return read


def check_annotations(found: Checked | str) -> list[str]:
    """Return GitHub's workflow commands for the rows of a check that did not pass; or for why it could not be made."""
    return list(reports.github(found))


def write_reports(found: Checked | str, *, junit: Path | None = None, summary: Path | None = None) -> None:
    """Write a check as JUnit XML, and as markdown.

    `found` is the check, or why it could not be made. `summary` is replaced. Without it, the summary is appended to the
    file that the environment names in GITHUB_STEP_SUMMARY, where it names one.
    """
    if junit is not None:
        _write(junit, reports.junit(found))
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    text = reports.summary(found)
    if summary is not None:
        _write(summary, text)
    elif page:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(text)


def conditions(texts: Sequence[str], include: Sequence[Path] = ()) -> tuple[Condition, ...]:
    """Parse conditions such as `asr > 60`. Raises SuiteError for a wrong one."""
    if not texts:
        return ()
    metrics = Metrics(Registry(include))
    return tuple(fail_if.parse(text, metrics) for text in texts)


def met(run: Path | str, wanted: Sequence[Condition], include: Sequence[Path] = ()) -> Conditions:
    """Return the cells of a RUN that meet one of some conditions with their whole interval, and those that cannot be
    judged."""
    return fail_if.judge(results_of(run, include), wanted)


def _write(path: Path, text: str) -> None:
    make_folder_of(path)
    path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Case:
    """An edit of a contrast set that one victim gets right and the other gets wrong."""

    bundle: str
    example_id: str
    label: int
    wrong: tuple[int, ...]
    """What the victim that errs predicts, for each seed in which this is a case."""
    original: tuple[str, ...] | None = None
    """The bundle's original, in the task's columns; None where the texts are not known."""
    edit: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Cases:
    """The cases of one contrast set, those of most seeds first."""

    set: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    seeds: int
    """How many pairs of victims were compared, each with the same seeds."""
    edits: int
    """How many edits each victim classified."""
    cases: tuple[Case, ...]
    reverse: int
    """How many edits are cases the other way round, with the first victim wrong and the second right."""
    without_texts: str = ""
    """Why the texts are not known; empty where they are."""


def cases(
    run: Path, right: str, wrong: str, *, contrast_set: str | None = None, data: Sequence[Path] = ()
) -> list[Cases]:
    """Return the cases of each contrast set on which both victims were evaluated, or of one set.

    Args:
        run: the folder that `rbench run` wrote.
        right: the one that is right: ENCODER/STRATEGY, or ENCODER where the RUN has one strategy of it.
        wrong: the one that is wrong.
        contrast_set: a contrast set of the run. None: all of them.
        data: data folders, searched first to last for the texts.

    Raises:
        StoreError: `run` is not a RUN, it has no such victim or set, or the evaluations are not done.
    """
    plan = plan_of(store := Store(run))
    jobs = [job for job in plan.jobs if job.what == CONTRAST]
    if not jobs:
        raise StoreError(f"{run} has no predictions on contrast sets: its suite has no `evaluate: [contrast]`")
    there = list(dict.fromkeys(job.parts[3] for job in jobs))
    if contrast_set is not None and contrast_set not in there:
        raise StoreError(f"{run} has no contrast set {contrast_set}; it has {', '.join(there)}")
    one, other = (_victim(name, jobs, plan) for name in (right, wrong))
    if one == other:
        raise StoreError(f"{right} and {wrong} are the same victim; name two")
    done = standing(store, plan).done
    found = []
    for name in there if contrast_set is None else [contrast_set]:
        pairs = _pairs([job for job in jobs if job.parts[3] == name and job.key in done], one, other, plan)
        if pairs:
            found.append(_of_set(name, pairs, store, data))
    if not found:
        raise StoreError(
            f"{run} has no contrast set on which both {right} and {wrong} are evaluated with the same seed"
        )
    return found


def cases_of(found: Comparison, run: Path, data: Sequence[Path] = ()) -> list[tuple[str, str, Cases]]:
    """Return the cases behind a comparison of ori, rev or con in one RUN, both ways round; nothing of other metrics.

    Each is the name of the victim that is right, that of the victim that is wrong, and their cases on one set.

    Raises StoreError as `cases` does.
    """
    if not isinstance(found.metric, Measured) or found.metric.measure != CONTRAST:
        return []
    pairs = dict.fromkeys(
        (f"{found.one}/{cell.name.finetune}", f"{found.other}/{cell.name.finetune}")
        if found.axis == "encoder"
        else (f"{cell.name.encoder}/{found.one}", f"{cell.name.encoder}/{found.other}")
        for cell in found.cells
    )
    ways = [way for one, other in pairs for way in ((one, other), (other, one))]
    return [(right, wrong, of_set) for right, wrong in ways for of_set in cases(run, right, wrong, data=data)]


Victim = tuple[str, str]
"""Encoder and strategy."""


def _victim_of(job: Job, plan: Plan) -> Victim:
    return plan.draw(job.parts[0]).encoder, job.parts[2]


def _victim(name: str, jobs: Sequence[Job], plan: Plan) -> Victim:
    """Return the victim that a name means."""
    known = list(dict.fromkeys(_victim_of(job, plan) for job in jobs))
    exact = [victim for victim in known if "/".join(victim) == name]
    found = exact or [victim for victim in known if victim[0] == name]
    if len(found) == 1:
        return found[0]
    said = "no such victim" if not found else f"{len(found)} victims of that name"
    raise StoreError(f"{name}: {said}; there are {', '.join('/'.join(victim) for victim in found or known)}")


def _pairs(jobs: Sequence[Job], one: Victim, other: Victim, plan: Plan) -> list[tuple[Job, Job]]:
    """Return the jobs of both victims with the same seeds. One that rbench does not train has no training seed."""

    def alike(a: Job, b: Job) -> bool:
        seeds = {seed for job in (a, b) if (seed := plan.draw(job.parts[0]).train_seed) is not None}
        return a.seed == b.seed and len(seeds) < 2

    first, second = ([job for job in jobs if _victim_of(job, plan) == victim] for victim in (one, other))
    return [(a, b) for a in first for b in second if alike(a, b)]


def _of_set(name: str, pairs: Sequence[tuple[Job, Job]], store: Store, data: Sequence[Path]) -> Cases:
    spec = pairs[0][0].measuring
    assert spec is not None
    texts, why = _texts_of_set(spec, data)
    found: dict[str, list[Prediction]] = {}
    edits: set[str] = set()
    reverse: set[str] = set()
    for a, b in pairs:
        theirs = {one.example_id: one for one in store.predictions(b)}
        for ours in (one for one in store.predictions(a) if not one.original):
            edits.add(ours.example_id)
            first, second = (one.prediction == one.label for one in (ours, theirs[ours.example_id]))
            if first and not second:
                found.setdefault(ours.example_id, []).append(theirs[ours.example_id])
            elif second and not first:
                reverse.add(ours.example_id)
    made = [
        Case(
            bundle=those[0].bundle,
            example_id=name_of,
            label=those[0].label,
            wrong=tuple(one.prediction for one in those),
            original=texts.get((those[0].bundle, None)),
            edit=texts.get((those[0].bundle, name_of)),
        )
        for name_of, those in found.items()
    ]
    made.sort(key=lambda case: -len(case.wrong))  # a stable sort: equal ones stay in the set's order
    return Cases(name, spec.task.columns, spec.task.labels, len(pairs), len(edits), tuple(made), len(reverse), why)


def _texts_of_set(spec: MeasureJob, data: Sequence[Path]) -> tuple[dict[tuple[str, str | None], tuple[str, ...]], str]:
    """Return the texts by bundle and edit (None: the original), and why there are none."""
    assert isinstance(spec.set, ContrastSpec)
    try:
        rows = open_contrast(spec.set, spec.task, data)
    except ResourceError as error:
        return {}, f"Ids only: {error}"
    if rows.fingerprint != spec.data_fingerprint:
        return {}, f"Ids only: {spec.set.name} is no longer the set that was classified ({rows.origin})."
    return dict(_named_texts(rows.rows)), ""


def _named_texts(bundles: Sequence[Bundle]) -> Iterator[tuple[tuple[str, str | None], tuple[str, ...]]]:
    for bundle in bundles:
        yield (bundle.id, None), bundle.original.texts
        yield from (((bundle.id, edit.id), edit.texts) for edit in bundle.edits)
