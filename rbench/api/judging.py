"""Judge RUNs: claims of suites and papers, encoders and victims compared, checks against a baseline, and limits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rbench.api.call_options import check_alpha
from rbench.api.runs import results_of
from rbench.config.claims import claims_file_of, read_claims
from rbench.config.metrics import AnyMetric, MeasureNumber, Metric, MetricCatalogue
from rbench.config.registry import Registry
from rbench.errors import ResourceError, StoreError
from rbench.gate import baseline as baselines
from rbench.gate import check as gate
from rbench.gate import fail_if, reports
from rbench.gate.baseline import Baseline
from rbench.gate.check import CheckResult, default_metrics
from rbench.gate.fail_if import ConditionResults, FailCondition
from rbench.gate.rows import ANY_ATTACK_METRIC
from rbench.gate.vector_check import VectorCheck
from rbench.papers import claims as on_printed
from rbench.papers import tables as printed
from rbench.papers.claims import PrintedClaimVerdict, judge_printed_claim
from rbench.plan.labels import remove_label
from rbench.schema import CONTRAST, ContrastSpec, Job, MeasureJob, Plan, Prediction
from rbench.schema.unlisted import label_meant
from rbench.store.job_status import load_statuses
from rbench.store.runs import RunStore
from rbench.store.runs.files import make_folder_of
from rbench.store.runs.store import folder_path
from rbench.system.own_code import failing_in
from rbench.tables import Results
from rbench.tables.formats import list_names, render
from rbench.tables.results import load_plan
from rbench.tasks.contrast import ContrastBundle, open_contrast
from rbench.verdicts import claims as on_claims
from rbench.verdicts import compare as comparing
from rbench.verdicts.cells import RunCells
from rbench.verdicts.claims import JudgedClaim, judge_claims
from rbench.verdicts.compare import CellwiseComparison


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
    cells = RunCells(results)
    claims_path = None if file is None else _find_claims_file(folder_path(file), results)
    asked_claims = results.plan.suite.claims if claims_path is None else read_claims(claims_path, cells.claim_scope)
    if not asked_claims:
        raise StoreError(
            f"{results.root}: its suite {results.plan.suite.name} had no claims when the RUN was made. Write `claims:` "
            "into the suite and run it again, which repeats no finished job; or name a file: --claims FILE"
        )
    return judge_claims(asked_claims, cells.claim_scope, cells)


def _find_claims_file(given: Path, results: Results) -> Path:
    """Return the file of claims that a user names: the file itself, or that of a RUN in a folder."""
    return claims_file_of(results.root, given) if given.is_dir() else given


def claims_table(judged_claims: Sequence[JudgedClaim], fmt: str = "markdown") -> str:
    """Render verdicts on claims. Raises StoreError for an unknown format."""
    return render(on_claims.build_table(judged_claims), fmt, intervals=False)


def paper_claims(name: str) -> tuple[PrintedClaimVerdict, ...]:
    """Judge all claims on one or more printed tables.

    Args:
        name: a printed table (`robustsentembed-table1`), the suite that reproduces it (`table1`), a paper (`adcl`), or
            `all`.

    Raises:
        SuiteError: the name stands for none, or a file is wrong.
    """
    judgements: list[PrintedClaimVerdict] = []
    for table in printed.find_tables(name):
        numbers = printed.load_printed_table(table)
        judgements += (judge_printed_claim(claim, table, numbers, place) for claim, place in printed.load_claims(table))
    return tuple(judgements)


def paper_claims_table(judgements: Sequence[PrintedClaimVerdict], fmt: str = "markdown") -> str:
    """Render verdicts. Raises StoreError for an unknown format."""
    return render(on_printed.build_claims_table(judgements), fmt)


def compare(
    run: Path | str,
    other_run: Path | str | None = None,
    *,
    between: tuple[str, str] | None = None,
    metric: str = "asr",
    common: bool = False,
    include: Sequence[Path] = (),
) -> CellwiseComparison:
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
    metrics = MetricCatalogue(Registry(include))
    _ = metrics.asked(metric)  # a wrong name is told before anything is read
    first = results_of(run, include)
    second = first if other_run is None else results_of(other_run, include)
    if between is None:
        one, other = _two_to_compare(*([first] if other_run is None else [first, second]))
    else:
        one, other = _label_in_plan(between[0], first.plan), _label_in_plan(between[1], second.plan)
    if one == other and other_run is None:
        raise StoreError(f"{one} cannot be compared with itself in one RUN; name a second RUN or encoder")
    return comparing.compare_names((first, one), (second, other), metric, common=common)


def _encoder_labels(plan: Plan) -> list[str]:
    """Return the labels of a plan's encoders, and of the models that it attacks as they are."""
    attacked = (plan.draw(job.parts[0]).encoder for job in plan.jobs if job.attacking is not None)
    return [*dict.fromkeys((*plan.suite.encoders, *attacked))]


def _two_to_compare(*runs: Results) -> list[str]:
    """Return the two that can be compared where there are no others: see `compare`."""
    labels = [_encoder_labels(results.plan) for results in runs]
    attacked = (job.attacking for job in runs[0].plan.jobs)
    tuned = [*dict.fromkeys(spec.strategy.label for spec in attacked if spec is not None)]
    if len(runs) == len(labels[0]) == 1 and len(tuned) == 2:
        return tuned
    if any(len(names) != 2 // len(runs) for names in labels):
        has = "; ".join(f"{results.root} has {list_names(names)}" for results, names in zip(runs, labels, strict=True))
        raise StoreError(f"say which two are compared: --between A B ({has})")
    return [name for names in labels for name in names]


def _label_in_plan(encoder: str, plan: Plan) -> str:
    """Return the label that an encoder has in a plan; a text that means none of them stays as it is."""
    known = _encoder_labels(plan)
    if encoder in known:
        return label_meant(encoder, known)
    without_label = {remove_label(name): name for name in known}  # the label of a RUN need not be said
    name_meant = label_meant(encoder, without_label)
    return without_label.get(name_meant, name_meant)


def comparison_table(comparison: CellwiseComparison, fmt: str = "markdown") -> str:
    """Render a comparison, with intervals. Raises StoreError for an unknown format."""
    return render(comparing.build_table(comparison), fmt, intervals=True)


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
    metrics = MetricCatalogue(Registry(include))
    kept_metrics = _chosen_metrics(metric, metrics)[0] if metric else ()
    run_results = [Results.of(RunStore(Path(run)), metrics) for run in runs]
    made_baseline = baselines.build_baseline(
        run_results, [kept_metric for kept_metric in kept_metrics if not kept_metric.gate]
    )
    baselines.write(made_baseline, out)
    return made_baseline


def baseline_notes(written: Baseline) -> list[str]:
    """Say of which cells of a baseline no check will decide: too few texts, or flags."""
    return gate.undecidable_rows(written, MetricCatalogue())


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
) -> CheckResult:
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
    check_alpha(alpha)
    known = MetricCatalogue(Registry(include))
    chosen, all_together = _chosen_metrics([metric] if isinstance(metric, str) else metric, known)
    limits = _parse_tolerances(tolerance, tuple(dict.fromkeys((*default_metrics(known), *chosen))))
    rules = gate.CheckRules(
        chosen, all_together, limits, alpha, about_these_weights, allow_undecided, allow_unexplained
    )
    stored_baseline = baselines.read_baseline(Path(baseline))
    return gate.check(Results.of(RunStore(Path(run)), known), stored_baseline, rules, encoders)


def _chosen_metrics(names: Sequence[str], known: MetricCatalogue) -> tuple[tuple[AnyMetric, ...], bool]:
    """Return the metrics that are asked for, in their order, and whether all attacks count together.

    Raises SuiteError where there is no such metric, and StoreError where a check cannot judge it.
    """
    usual = default_metrics(known)
    asked_metrics = [known.asked(name) for name in dict.fromkeys(names) if name != ANY_ATTACK_METRIC]
    for metric in asked_metrics:
        _check_judgeable(metric, together=ANY_ATTACK_METRIC in names)
    chosen = (
        *(metric for metric in usual if metric in asked_metrics),
        *(metric for metric in asked_metrics if metric not in usual),
    )
    return chosen or usual, ANY_ATTACK_METRIC in names


def _check_judgeable(metric: AnyMetric, *, together: bool) -> None:
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


def _parse_tolerances(given: float | str | Mapping[str, float], metrics: Sequence[AnyMetric]) -> dict[str, float]:
    """Read what `check` takes as `tolerance`. Raises StoreError for anything else."""
    names = tuple(metric.name for metric in metrics)
    form = "Write one number of points, or one for each metric, such as clean=2,aua=2,asr=5"
    parts: Mapping[str, object]
    if isinstance(given, Mapping):
        parts = given
    elif isinstance(given, str) and "=" in given:
        pairs = [part.partition("=") for part in given.split(",")]
        parts = {name.strip(): value for name, _, value in pairs}
    else:
        parts = dict.fromkeys(names, given)
    read: dict[str, float] = {}
    for name, value in parts.items():
        if name not in names:
            raise StoreError(f"tolerance {given!r}: {name!r} is not one of {', '.join(names)}. {form}")
        with failing_in(f"tolerance {given!r}", StoreError, form):
            read[name] = float(cast(Any, value))
        if not 0 <= read[name] <= 100:  # nothing is below nan, and nothing fails a tolerance above 100
            raise StoreError(f"tolerance {given!r}: points lie between 0 and 100")
    return read


def check_annotations(check_result: CheckResult | VectorCheck | str) -> list[str]:
    """Return GitHub's workflow commands for the rows of a check that did not pass; or for why it could not be made."""
    return list(reports.list_github_commands(check_result))


def write_reports(
    check_result: CheckResult | VectorCheck | str, *, junit: Path | None = None, summary: Path | None = None
) -> None:
    """Write a check as JUnit XML, and as markdown.

    `check_result` is the check, or why it could not be made. `summary` is replaced. Without it, the summary is appended
    to the file that the environment names in GITHUB_STEP_SUMMARY, where it names one.
    """
    if junit is not None:
        _write_page(junit, reports.as_junit(check_result))
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    text = reports.as_summary(check_result)
    if summary is not None:
        _write_page(summary, text)
    elif page:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(text)


def conditions(texts: Sequence[str], include: Sequence[Path] = ()) -> tuple[FailCondition, ...]:
    """Parse conditions such as `asr > 60`. Raises SuiteError for a wrong one."""
    if not texts:
        return ()
    metrics = MetricCatalogue(Registry(include))
    return tuple(fail_if.parse_condition(text, metrics) for text in texts)


def met(run: Path | str, wanted: Sequence[FailCondition], include: Sequence[Path] = ()) -> ConditionResults:
    """Return the cells of a RUN that meet one of some conditions with their whole interval, and those that cannot be
    judged."""
    return fail_if.judge_conditions(results_of(run, include), wanted)


def _write_page(path: Path, text: str) -> None:
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
    plan = load_plan(store := RunStore(run))
    jobs = [job for job in plan.jobs if job.what == CONTRAST]
    sets = list(dict.fromkeys(job.parts[3] for job in jobs))
    right_victim, wrong_victim = (_find_victim(name, jobs, plan) for name in (right, wrong))
    done = load_statuses(store, plan).done
    found_cases = []
    for name in sets if contrast_set is None else [contrast_set]:
        pairs = _pair_jobs(
            [job for job in jobs if job.parts[3] == name and job.key in done], right_victim, wrong_victim, plan
        )
        if pairs:
            found_cases.append(_cases_of_set(name, pairs, store, data))
    if not found_cases:
        raise StoreError(
            f"{run} has no contrast set on which both {right} and {wrong} are evaluated with the same seed; it has the "
            f"sets {', '.join(sets)}"
        )
    return found_cases


def cases_of(comparison: CellwiseComparison, run: Path, data: Sequence[Path] = ()) -> list[tuple[str, str, Cases]]:
    """Return the cases behind a comparison of ori, rev or con in one RUN, both ways round; nothing of other metrics.

    Each is the name of the victim that is right, that of the victim that is wrong, and their cases on one set.

    Raises StoreError as `cases` does.
    """
    if not isinstance(comparison.metric, MeasureNumber) or comparison.metric.measure != CONTRAST:
        return []
    pairs = dict.fromkeys(
        (f"{comparison.one}/{cell.name.finetune}", f"{comparison.other}/{cell.name.finetune}")
        if comparison.axis == "encoder"
        else (f"{cell.name.encoder}/{comparison.one}", f"{cell.name.encoder}/{comparison.other}")
        for cell in comparison.cells
    )
    directions = [direction for one, other in pairs for direction in ((one, other), (other, one))]
    return [(right, wrong, of_set) for right, wrong in directions for of_set in cases(run, right, wrong, data=data)]


VictimKey = tuple[str, str]
"""Encoder and strategy."""


def _victim_key(job: Job, plan: Plan) -> VictimKey:
    return plan.draw(job.parts[0]).encoder, job.parts[2]


def _find_victim(name: str, jobs: Sequence[Job], plan: Plan) -> VictimKey:
    """Return the victim that a name means."""
    known = list(dict.fromkeys(_victim_key(job, plan) for job in jobs))
    exact = [victim for victim in known if "/".join(victim) == name]
    matches = exact or [victim for victim in known if victim[0] == name]
    if len(matches) == 1:
        return matches[0]
    problem = "no such victim" if not matches else f"{len(matches)} victims of that name"
    raise StoreError(f"{name}: {problem}; there are {', '.join('/'.join(victim) for victim in matches or known)}")


def _pair_jobs(
    jobs: Sequence[Job], right_victim: VictimKey, wrong_victim: VictimKey, plan: Plan
) -> list[tuple[Job, Job]]:
    """Return the jobs of both victims with the same seeds. One that rbench does not train has no training seed."""

    def same_seeds(a: Job, b: Job) -> bool:
        seeds = {seed for job in (a, b) if (seed := plan.draw(job.parts[0]).train_seed) is not None}
        return a.seed == b.seed and len(seeds) < 2

    first, second = (
        [job for job in jobs if _victim_key(job, plan) == victim] for victim in (right_victim, wrong_victim)
    )
    return [(a, b) for a in first for b in second if same_seeds(a, b)]


def _cases_of_set(name: str, pairs: Sequence[tuple[Job, Job]], store: RunStore, data: Sequence[Path]) -> Cases:
    spec = pairs[0][0].measuring
    assert spec is not None
    texts, why = _load_texts(spec, data)
    wrong_by_edit: dict[str, list[Prediction]] = {}
    edits: set[str] = set()
    reverse: set[str] = set()
    # Counted over all pairs: an edit is a case once for each pair in which one victim is right and the other wrong.
    for a, b in pairs:
        theirs = {prediction.example_id: prediction for prediction in store.predictions(b)}
        for ours in (prediction for prediction in store.predictions(a) if not prediction.original):
            edits.add(ours.example_id)
            first, second = (
                prediction.prediction == prediction.label for prediction in (ours, theirs[ours.example_id])
            )
            if first and not second:
                wrong_by_edit.setdefault(ours.example_id, []).append(theirs[ours.example_id])
            elif second and not first:
                reverse.add(ours.example_id)
    set_cases = [
        Case(
            bundle=predictions[0].bundle,
            example_id=edit_id,
            label=predictions[0].label,
            wrong=tuple(prediction.prediction for prediction in predictions),
            original=texts.get((predictions[0].bundle, None)),
            edit=texts.get((predictions[0].bundle, edit_id)),
        )
        for edit_id, predictions in wrong_by_edit.items()
    ]
    set_cases.sort(key=lambda case: -len(case.wrong))  # a stable sort: equal ones stay in the set's order
    return Cases(name, spec.task.columns, spec.task.labels, len(pairs), len(edits), tuple(set_cases), len(reverse), why)


def _load_texts(spec: MeasureJob, data: Sequence[Path]) -> tuple[dict[tuple[str, str | None], tuple[str, ...]], str]:
    """Return the texts by bundle and edit (None: the original), and why there are none."""
    assert isinstance(spec.set, ContrastSpec)
    try:
        rows = open_contrast(spec.set, spec.task, data)
    except ResourceError as error:
        return {}, f"Ids only: {error}"
    if rows.fingerprint != spec.data_fingerprint:
        return {}, f"Ids only: {spec.set.name} is no longer the set that was classified ({rows.origin})."
    return dict(_named_texts(rows.rows)), ""


def _named_texts(bundles: Sequence[ContrastBundle]) -> Iterator[tuple[tuple[str, str | None], tuple[str, ...]]]:
    for bundle in bundles:
        yield (bundle.id, None), bundle.original.texts
        yield from (((bundle.id, edit.id), edit.texts) for edit in bundle.edits)
