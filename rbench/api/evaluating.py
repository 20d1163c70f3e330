"""Evaluate models: run the suites of `rbench eval`, and make a card of each model and one ranking of them all.

One suite attacks the models as classifiers (an encoder is first made one). A second one attacks their rankings, because
each attack of a suite must serve all of its tasks. Both run and resume as all suites do. `rbench.api.card` reads the
cards from their RUNs, and `rbench.verdicts.ranks` the ranking. How much is done is chosen by the time that the first
texts take (`rbench.api.choosing`), and the RUN keeps what was chosen.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbench.api import call_options, choosing
from rbench.api.card import Card, CardRun, build_card
from rbench.api.choosing import FIRST_TEXTS, Chosen
from rbench.api.composing import EXHAUSTIVE, ONE_WORD_SPACE, EvaluationPlan, label_in_suite
from rbench.api.contestants import ContestantModel, TaskGiven, choose_tasks, read_names, recognize_model, task_name
from rbench.api.filling import RankingProgress
from rbench.api.results import RunResult, run_prepared
from rbench.api.runs import build_table, results_of, table
from rbench.api.suites import prepare_run
from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.execution.cluster.scheduler import observe_run
from rbench.execution.run import check_device
from rbench.plan.prepare import Options, PreparedSuite
from rbench.schema import Choice, Job, Suite, TableSpec
from rbench.store.runs import RunStore
from rbench.system.progress import Progress, format_duration, show_progress
from rbench.tables import Results, Table
from rbench.verdicts import ranks

LOCAL_FOLDERS = (Path(), Path("data"), Path("models"))
"""Folders of the working folder in which data and models are looked for, after those that are named."""
EARLY_SHARE = 0.3
"""The share of the time after which no further attacks are timed, and similarity and rankings are left out."""


@dataclass(frozen=True)
class Evaluated:
    """An evaluation: a card of each model, or one of two that are compared, and the results of the suites behind it."""

    cards: tuple[Card, ...]
    runs: tuple[RunResult, ...]
    chosen: Chosen
    again: str
    """The command that does the same anywhere."""
    more: str
    """The command that does more."""
    figures: tuple[Path, ...] = ()
    """A figure for the column of a paper, as PDF, and its caption; none where it cannot be drawn."""

    @property
    def card(self) -> Card:
        """The card of the first model."""
        return self.cards[0]

    @property
    def ranked(self) -> bool:
        """Whether there is a ranking: there are several models, and not one that is compared with another."""
        return len(self.cards) > 1

    @property
    def ranking(self) -> ranks.ModelRanking:
        """All models, the hardest to fool first."""
        return ranks.rank_models(results_of(self.runs[0].run))

    @property
    def failed(self) -> bool:
        """Whether jobs failed, or were not run because of those that did."""
        return any(run.failed or run.skipped for run in self.runs)

    @property
    def left(self) -> bool:
        """Whether jobs are left, which other processes have."""
        return any(run.left or run.elsewhere for run in self.runs)

    @property
    def files(self) -> tuple[Path, ...]:
        """What was written for a paper: a table in LaTeX, a figure and its caption."""
        tables = (self.runs[0].run / "tables" / f"{name}.tex" for name in ("ranks", "aua"))
        return (*[path for path in tables if path.is_file()][:1], *self.figures)

    @property
    def sentence(self) -> str:
        """What a comparison shows: by the words that it takes to fool the models, then by accuracy under attack."""
        words = ranks.words_sentence(results_of(self.runs[0].run), self.ranking)
        return " ".join(filter(None, (words, self.ranking.sentence)))

    def rendered(self, fmt: str) -> str:
        """Return the card of one model, or the ranking of several, as markdown; or as JSON, with all cards.

        The first line of what compares models says which one is easier to fool, or how many texts would decide it.
        """
        if not self.ranked:
            lead = f"{self.sentence}\n\n" if fmt == "markdown" and len(self.card.models) > 1 else ""
            return lead + self.card.rendered(fmt)
        if fmt == "markdown":
            return f"{self.sentence}\n\n{table(self.runs[0].run, metric='ranks', intervals=True)}"
        content = {
            "sentence": self.sentence,
            "ranking": ranks.build_table(results_of(self.runs[0].run)).cells,
            "n": self.chosen.n,
            "attacks": self.chosen.attacks,
            "minutes": self.chosen.minutes,
            "again": self.again,
            "cards": [json.loads(card.rendered("json")) for card in self.cards],
        }
        return json.dumps(content, indent=1, ensure_ascii=False)


def evaluate(
    model: str | Sequence[str],
    options: Options | None = None,
    *,
    task: TaskGiven | Sequence[TaskGiven] | None = None,
    minutes: float | None = None,
    n: int | None = None,
    attacks: str | None = None,
    compare_to: str | None = None,
    finetune: str | None = None,
    resources: str | None = None,
    seed: int = 0,
    label_map: str | None = None,
    progress: Progress | bool = True,
    **settings: Any,
) -> Evaluated:
    """Evaluate one model, or rank several, and return a card of each. The same call resumes.

    Args:
        model: one or several: encoders by name, folder or hub id; classifiers by these, `module:function` or address;
            or a file (`models.txt`) with one on each line.
        task: tasks with classes, or tables; None: mini-sentiment for models of the embedded world, else mr.
        minutes: how long it may take. From the time of the first texts it follows how many are attacked, and by how
            many attacks of a fixed list. The RUN keeps the choice. None: 15, unless n or attacks are given.
        n: how many test texts of each task are attacked; None: as many as the time allows, and 100 with `attacks`.
        attacks: attacks, as A,B (`rbench list attacks`); exhaustive tries every change of one word. None: as many as
            the time allows, and textfooler,textbugger,exhaustive with n.
        compare_to: a second model. The differences are judged number by number, and it is the control beside which the
            card says whether a model overlooks: is fooled less, and follows fewer edits that change the label.
        finetune: how an encoder becomes a classifier: probe (frozen, with a linear head), clean, or another strategy of
            `rbench list finetune`; None: probe, and clean in the embedded world, whose small networks need it.
        resources: the set of words and models behind attacks; None: local where all of it is there, else standard.
        seed: decides fine-tuning, attacks and which texts.
        label_map: what a classifier's labels mean, such as LABEL_0=negative,LABEL_1=positive; None: by name.
        progress: as of `rbench.run`.
        settings: single fields of `Options`. `tasks`, `limit` and `output_path` are read as `task`, `n` and `out`.

    Raises:
        SuiteError: a name is wrong, or a model of English meets the embedded world or the other way round.
        ResourceError: the task's data or the attacks' resources are not here; with remedies.
    """
    task, n = settings.pop("tasks", task), settings.pop("limit", n)
    started, options = time.monotonic(), _with_local_folders(call_options.resolve_options(options, settings))
    check_device(options.device)
    chosen, registry = choosing.chosen_by_user(n, attacks, minutes), Registry(options.include)
    texts = read_names([*([model] if isinstance(model, str) else model), *([compare_to] if compare_to else [])])
    contestants = [recognize_model(text, label_map, registry, options.models) for text in texts]
    _check_options(contestants, finetune, label_map)
    task_entries = [] if task is None else [task] if isinstance(task, str | Mapping) else list(task)
    tasks = choose_tasks(contestants, task_entries, registry)
    names, most = (chosen.attacks, chosen.n) if chosen is not None else (choosing.ORDER, FIRST_TEXTS)
    plan = EvaluationPlan(
        contestants, tasks, names, most, finetune, resources, seed, options, has_control=compare_to is not None
    )
    with show_progress(progress) as shower:
        receiver, known_jobs = RankingProgress(shower), _KnownJobs()
        receiver.note("\n".join(plan.guesses))
        if chosen is None:
            chosen = _choose_by_time(plan, minutes or choosing.DEFAULT_MINUTES, receiver, started, known_jobs)
            plan = _apply_choice(plan, chosen)
        results = {part: _run_part(plan, part, receiver, known_jobs) for part in plan.suites}
    chosen = dataclasses.replace(chosen, n=max(plan.sizes.values()), attacks=plan.available_attacks)
    cards = _build_cards(plan, results, apart=compare_to is None or len(contestants) > 2)
    command = _RepeatCommand(texts, task_entries, compare_to, plan, label_map)
    figures = _figures_for_paper(results["main"], several=len(contestants) > 1)
    return Evaluated(cards, tuple(results.values()), chosen, command.again(chosen), command.more(chosen), figures)


def _figures_for_paper(result: RunResult, *, several: bool) -> tuple[Path, ...]:
    """Draw a figure for the column of a paper; return it and its caption.

    Of several models it is one panel, however many attacks and tasks there are: panels of each would fill a page."""
    from rbench.api.reporting import write_figure

    kind = "ranks" if several else "queries"
    try:
        return tuple(write_figure(result.run, kind, formats=("pdf",), width="column"))
    except StoreError:  # too few texts, or jobs that failed: what is there is shown without it
        return ()


def _build_cards(plan: EvaluationPlan, ran: Mapping[str, RunResult], *, apart: bool) -> tuple[Card, ...]:
    """Return a card of each model, which is a file beside the tables too where there are several; or one of both.

    Args:
        apart: whether each model has a card of its own.
    """
    parts = {part: CardRun(results_of(one.run), RunStore(one.run), one.report) for part, one in ran.items()}
    suite = parts["main"].results.plan.suite
    labels = tuple(label_in_suite(one, plan.models, suite) for one in plan.models)
    groups = [(label,) for label in labels] if apart else [labels]
    two_sided = _two_sided_table(parts["main"].results) if plan.is_two_sided else None
    cards = tuple(build_card(group, plan.asked, parts, plan.missing, plan.notes, two_sided) for group in groups)
    for label, card in zip(labels, cards, strict=True) if len(cards) > 1 else ():
        parts["main"].store.write_table(f"card-{label.replace('/', '-')}.md", card.rendered("markdown"))
    return cards


def _two_sided_table(results: Results) -> Table | None:
    """Return the table of two-sided robustness with its verdicts; None where its jobs failed, which the card says."""
    try:
        return build_table(results, TableSpec(metric="two_sided"))
    except StoreError:
        return None


def _with_local_folders(options: Options) -> Options:
    """Return options that look for data and models in the working folder, too, after the folders that are named."""
    here = tuple(folder for folder in LOCAL_FOLDERS if folder.is_dir())
    paths = {name: tuple(dict.fromkeys((*getattr(options, name), *here))) for name in ("data", "models")}
    return dataclasses.replace(options, **paths)  # type: ignore[arg-type]


def _check_options(models: Sequence[ContestantModel], finetune: str | None, label_map: str | None) -> None:
    """Raise SuiteError for options that would change nothing, and for models with one name."""
    kinds = {model.kind for model in models}
    if (label_map is not None and "victims" not in kinds) or (finetune is not None and "encoders" not in kinds):
        raise SuiteError("--label-map goes with a classifier that exists, and --finetune with an encoder")
    by_name: dict[str, ContestantModel] = {}
    for model in models:
        if (other := by_name.setdefault(model.name, model)) is not model:
            raise SuiteError(
                f"{other.text} and {model.text} have one name, {model.name}; leave one out, or rename its folder"
            )


class _KnownJobs:
    """The jobs that RUNs had planned, before this call and during it, whose outcomes other jobs take over."""

    def __init__(self) -> None:
        self._jobs: dict[Path, dict[str, Job]] = {}

    def pass_on(self, prepared: PreparedSuite) -> None:
        """Give the jobs of a plan what attacks of other numbers of texts have found in its RUN."""
        if observe_run(prepared.run)[0].living():
            return  # outcomes are moved only while nobody else works in the RUN
        store, jobs = RunStore(prepared.run), self._jobs.setdefault(prepared.run, {})
        with suppress(StoreError):  # the run replaces a damaged plan
            before = store.plan()
            jobs |= {job.key: job for job in before.jobs} if before is not None else {}
        choosing.carry_over(store, tuple(jobs.values()), prepared.plan.jobs)


def _run_part(plan: EvaluationPlan, part: str, receiver: RankingProgress, known: _KnownJobs) -> RunResult:
    """Run the suite of a part, from what attacks of other numbers of texts have found in its RUN."""
    options = plan.where(part)
    prepared = prepare_run(plan.suites[part], options)
    if not options.fresh:
        known.pass_on(prepared)
    ranked = part == "main" and len(plan.models) > 1
    receiver.follow_run(prepared.plan, RunStore(prepared.run) if ranked else None)
    return run_prepared(prepared, options, receiver, report=True)


def _without_fresh(options: Options) -> Options:
    """Return the options of what follows the first texts, which have begun the RUN anew where that was asked for."""
    return dataclasses.replace(options, fresh=False)


def _apply_choice(plan: EvaluationPlan, chosen: Chosen) -> EvaluationPlan:
    """Return an evaluation with what was chosen."""
    options, hurried = _without_fresh(plan.options), chosen.hurried
    numbers = dataclasses.replace(plan, n=chosen.n, attacks=chosen.attacks, minutes=chosen.minutes, hurried=hurried)
    return dataclasses.replace(numbers, options=options, missing={})


def _choose_by_time(
    plan: EvaluationPlan, minutes: float, receiver: Progress, started: float, known: _KnownJobs
) -> Chosen:
    """Attack the first texts, and choose by their time; or return what the RUN has chosen for this time before."""
    if (before := _before(plan, minutes)) is not None:
        flags = f"-n {before.n} --attacks {','.join(before.attacks)}"
        receiver.note(f"chosen before for {minutes:g} minutes: {flags} (--fresh chooses again)")
        return before
    receiver.note(f"the first {FIRST_TEXTS} texts of each model, task and attack say how many there is time for")
    plan.sizes  # noqa: B018 (missing data are told before any work)
    first, others = plan.available_attacks[:1], plan.available_attacks
    costs: dict[str, choosing.AttackSeconds] = {}
    beside, hurried, similarity = choosing.AttackSeconds(0.0, 0.0), False, 0.0
    # The first attack is timed alone: if that takes too long, the others are not timed, and their time is assumed.
    for names in dict.fromkeys((first, others)):
        if costs and time.monotonic() - started > EARLY_SHARE * 60 * minutes:
            break
        first_plan = dataclasses.replace(plan, attacks=names, missing={})
        first_round = not costs
        costs |= _attack_first(first_plan, "main", receiver, known)
        similarity = similarity or _similarity_seconds(first_plan)
        hurried = hurried or time.monotonic() - started + similarity > EARLY_SHARE * 60 * minutes
        if first_round and not hurried and "ranking" in first_plan.suites:
            beside = next(iter(_attack_first(first_plan, "ranking", receiver, known).values()), beside)
        plan = dataclasses.replace(plan, options=_without_fresh(plan.options), missing={})
    costs = choosing.assume_costs(costs, plan.queries)
    spent = time.monotonic() - started + beside.opening + costs[first[0]].opening  # noise takes about an opening
    spent += 0.0 if hurried else similarity
    most = dataclasses.replace(plan, n=choosing.LADDER[-1][0]).sizes.values()
    chosen = dataclasses.replace(choosing.choose(costs, most, minutes, spent, beside.each), hurried=hurried)
    late = "" if chosen.fits else f", which is more than the {minutes:g} minutes: it is the least"
    receiver.note(
        f"chosen for {minutes:g} minutes: -n {chosen.n} --attacks {','.join(chosen.attacks)}; about "
        f"{format_duration(chosen.seconds or 0)} more by the time of the first texts{late}"
    )
    return chosen


def _attack_first(
    plan: EvaluationPlan, part: str, receiver: Progress, known: _KnownJobs
) -> dict[str, choosing.AttackSeconds]:
    """Attack the first texts of a part; return what each takes. Tables, noise and similarity wait for the rest."""
    suite = {**plan.suites[part], "tables": [], "figures": [], "evaluate": []}
    options = plan.where(part)
    prepared = prepare_run(suite, options)
    if not options.fresh:
        known.pass_on(prepared)
    run_prepared(prepared, options, receiver)
    store, jobs = RunStore(prepared.run), prepared.plan.attacks
    names = plan.available_attacks if part == "main" else (plan.ranked_by or "",)
    labels = {name: _attack_label(name) for name in names}
    return {
        name: choosing.time_attacks(store, [job for job in jobs if job.parts[-1] == label], options)
        for name, label in labels.items()
    }


def _similarity_seconds(plan: EvaluationPlan) -> float:
    """Return about how long the pairs of the similarity task take, of all encoders; 0 where there is no such task."""
    folder = plan.folder("main")
    store = RunStore(folder) if folder is not None else None
    stored_plan = store.plan() if store is not None else None
    if store is None or stored_plan is None or plan.similarity is None:
        return 0.0
    return (
        2
        * plan.similarity[1]
        * choosing.estimate_seconds_per_text(store, (job for job in stored_plan.jobs if job.stage == "finetune"))
    )


def _attack_label(name: str) -> str:
    return Choice.model_validate(dict(ONE_WORD_SPACE)).label if name == EXHAUSTIVE else name


def _before(plan: EvaluationPlan, minutes: float) -> Chosen | None:
    """Return what the RUN has chosen for this time, these models and these tasks before; None where it has not."""
    if plan.options.fresh:
        return None
    with suppress(StoreError):
        folder = plan.folder("main")
        stored_plan = RunStore(folder).plan() if folder is not None else None
        if stored_plan is not None and _is_for(stored_plan.suite, plan, minutes):
            numbers = [job.attacking.num_examples for job in stored_plan.attacks if job.attacking is not None]
            attacks = tuple(attack.name for attack in stored_plan.suite.attacks)
            if numbers and attacks:
                # A ranking of the first texts may have been made before the time was known to be too short.
                similarity = dataclasses.replace(plan, missing={}).similarity
                measured = {measure.name for measure in stored_plan.suite.evaluate}
                hurried = similarity is not None and similarity[0] not in measured
                return Chosen(max(numbers), attacks, minutes, hurried=hurried)
    return None


def _is_for(suite: Suite, plan: EvaluationPlan, minutes: float) -> bool:
    """Return whether a suite was made for this time, these models and these tasks."""
    return (suite.minutes, suite.lineup, suite.tasks) == (minutes, plan.lineup, plan.task_names)


@dataclass(frozen=True)
class _RepeatCommand:
    """What a command said, to say it again."""

    texts: Sequence[str]
    tasks: Sequence[TaskGiven]
    compare_to: str | None
    plan: EvaluationPlan
    label_map: str | None

    def again(self, chosen: Chosen) -> str:
        """Return the command that does the same anywhere: it says what was chosen and what depends on the machine."""
        more = ["-n", str(chosen.n), "--attacks", ",".join(chosen.attacks), "--resources", self.plan.resources]
        return self._line([*more, *(["--finetune", self.plan.finetune] if self._encoders else [])])

    def more(self, chosen: Chosen) -> str:
        """Return a command that does more, with four times as many minutes or texts; empty where there are no more."""
        if chosen.minutes is not None:
            return self._line(["--minutes", f"{4 * chosen.minutes:g}"])
        every_row = dataclasses.replace(self.plan, n=choosing.LADDER[-1][0]).sizes.values()
        n = min(4 * chosen.n, max(every_row))
        return self.again(dataclasses.replace(chosen, n=n)) if n > chosen.n else ""

    @property
    def _encoders(self) -> bool:
        return any(model.kind == "encoders" for model in self.plan.models)

    def _line(self, choice: Sequence[str]) -> str:
        models = self.texts[:-1] if self.compare_to is not None else self.texts
        words = ["rbench", "eval", *models]
        for task in self.plan.tasks if self.tasks else ():
            words += ["--task", task_name(task)]
        for task in self.plan.tasks:
            described = task[task_name(task)] if isinstance(task, Mapping) else {}
            for key, value in (described or {}).items():
                if key == "labels":
                    words += ["--labels", ",".join(value)]
                elif key in ("text", "label", "kind"):
                    for entry in value if isinstance(value, list | tuple) else [value]:
                        words += [f"--{key}", entry]
        words += ["--compare-to", self.compare_to] if self.compare_to is not None else []
        words += ["--label-map", self.label_map] if self.label_map is not None else []
        words += ["--seed", str(self.plan.seed)] if self.plan.seed else []
        return shlex.join([*words, *choice])
