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
from rbench.api.card import Card, Part, card_of
from rbench.api.choosing import FIRST, Chosen
from rbench.api.composing import EXACT, FRONT, WHOLE, Composed
from rbench.api.contestants import Model, TaskGiven, model_of, name_of, named_in, tasks_of
from rbench.api.filling import Filling
from rbench.api.results import RunResult, run_prepared
from rbench.api.runs import results_of, table
from rbench.api.suites import prepared_run
from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.plan.prepare import Options, Prepared
from rbench.schema import Choice, Job
from rbench.store.runs import Store
from rbench.system.progress import Progress, duration, shown
from rbench.verdicts import ranks

HERE = (Path(), Path("data"), Path("models"))
"""Folders of the working folder in which data and models are looked for, after those that are named."""
EARLY = 0.3
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
    def ranking(self) -> ranks.Ranking:
        """All models, the hardest to fool first."""
        return ranks.ranking(results_of(self.runs[0].run))

    @property
    def failed(self) -> bool:
        """Whether jobs failed, or were not run because of those that did."""
        return any(one.failed or one.skipped for one in self.runs)

    @property
    def left(self) -> bool:
        """Whether jobs are left, which other processes have."""
        return any(one.left or one.elsewhere for one in self.runs)

    @property
    def files(self) -> tuple[Path, ...]:
        """What was written for a paper: a table in LaTeX, a figure and its caption."""
        tables = (self.runs[0].run / "tables" / f"{name}.tex" for name in ("ranks", "aua"))
        return (*[path for path in tables if path.is_file()][:1], *self.figures)

    def rendered(self, fmt: str) -> str:
        """Return the card of one model, or the ranking of several, as markdown; or as JSON, with all cards."""
        if not self.ranked:
            return self.card.rendered(fmt)
        if fmt == "markdown":
            return f"{self.ranking.sentence}\n\n{table(self.runs[0].run, metric='ranks', intervals=True)}"
        told = {
            "sentence": self.ranking.sentence,
            "ranking": ranks.table(results_of(self.runs[0].run)).cells,
            "n": self.chosen.n,
            "attacks": self.chosen.attacks,
            "minutes": self.chosen.minutes,
            "again": self.again,
            "cards": [json.loads(card.rendered("json")) for card in self.cards],
        }
        return json.dumps(told, indent=1, ensure_ascii=False)


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
        compare_to: a second model. The differences are judged number by number.
        finetune: how an encoder becomes a classifier: probe (frozen, with a linear head), clean, or another strategy of
            `rbench list finetune`; None: probe, and clean in the embedded world, whose small networks need it.
        resources: the set of words and models behind attacks; None: local where all of it is there, else standard.
        seed: decides fine-tuning, attacks and which texts.
        label_map: what a classifier's labels mean, such as LABEL_0=negative,LABEL_1=positive; None: by name.
        progress: as of `rbench.run`.
        settings: single fields of `Options`.

    Raises:
        SuiteError: a name is wrong, or a model of English meets the embedded world or the other way round.
        ResourceError: the task's data or the attacks' resources are not here; with remedies.
    """
    started, options = time.monotonic(), _with_here(call_options.options_of(options, settings))
    chosen, registry = choosing.given(n, attacks, minutes), Registry(options.include)
    texts = named_in([*([model] if isinstance(model, str) else model), *([compare_to] if compare_to else [])])
    several = [model_of(text, label_map, registry, options.models) for text in texts]
    _check(several, finetune, label_map)
    given = [] if task is None else [task] if isinstance(task, str | Mapping) else list(task)
    tasks = tasks_of(several, given, registry)
    names, most = (chosen.attacks, chosen.n) if chosen is not None else (choosing.ORDER, FIRST)
    plan = Composed(several, tasks, names, most, finetune, resources, seed, options)
    with shown(progress) as shower:
        receiver, known = Filling(shower), _Known()
        receiver.note("\n".join(plan.guesses))
        if chosen is None:
            chosen = _timed(plan, minutes or choosing.MINUTES, receiver, started, known)
            plan = _decided(plan, chosen)
        ran = {part: _run(plan, part, receiver, known) for part in plan.suites}
    chosen = dataclasses.replace(chosen, n=max(plan.sizes.values()), attacks=plan.available)
    cards = _cards(plan, ran, apart=compare_to is None or len(several) > 2)
    command = _Command(texts, given, compare_to, plan, label_map)
    figures = _figures_for_paper(ran["main"], several=len(several) > 1)
    return Evaluated(cards, tuple(ran.values()), chosen, command.again(chosen), command.more(chosen), figures)


def _figures_for_paper(result: RunResult, *, several: bool) -> tuple[Path, ...]:
    """Draw the figure of the suite once more, for the column of a paper; return it and its caption."""
    from rbench.api.reporting import write_figure

    kind, options = ("front", FRONT) if several else ("queries", {})
    try:
        return tuple(write_figure(result.run, kind, options, formats=("pdf",), width="column"))
    except StoreError:  # too few texts, or jobs that failed: what is there is shown without it
        return ()


def _cards(plan: Composed, ran: Mapping[str, RunResult], *, apart: bool) -> tuple[Card, ...]:
    """Return a card of each model, which is a file beside the tables too where there are several; or one of both.

    Args:
        apart: whether each model has a card of its own.
    """
    parts = {part: Part(results_of(one.run), Store(one.run), one.report) for part, one in ran.items()}
    labels = tuple(_label(one, plan.models, parts["main"]) for one in plan.models)
    groups = [(label,) for label in labels] if apart else [labels]
    cards = tuple(card_of(own, plan.asked, parts, plan.missing, plan.notes) for own in groups)
    for label, card in zip(labels, cards, strict=True) if len(cards) > 1 else ():
        parts["main"].store.write_table(f"card-{label.replace('/', '-')}.md", card.rendered("markdown"))
    return cards


def _with_here(options: Options) -> Options:
    """Return options that look for data and models in the working folder, too, after the folders that are named."""
    here = tuple(folder for folder in HERE if folder.is_dir())
    paths = {name: tuple(dict.fromkeys((*getattr(options, name), *here))) for name in ("data", "models")}
    return dataclasses.replace(options, **paths)  # type: ignore[arg-type]


def _check(models: Sequence[Model], finetune: str | None, label_map: str | None) -> None:
    """Raise SuiteError for options that would change nothing, and for models with one name."""
    if label_map is not None and not any(one.kind == "victims" for one in models):
        raise SuiteError("--label-map goes with a classifier: it says what the classifier's labels mean")
    if finetune is not None and not any(one.kind == "encoders" for one in models):
        raise SuiteError("--finetune goes with an encoder: a classifier that exists is attacked as it is")
    seen: dict[str, Model] = {}
    for one in models:
        if (other := seen.setdefault(one.name, one)) is not one:
            raise SuiteError(f"{other.text} and {one.text} have one name, {one.name}; rename the folder of one of them")


def _label(model: Model, models: Sequence[Model], part: Part) -> str:
    """Return the name that a model has in the plan of a RUN."""
    suite = part.results.plan.suite
    own = [one for one in models if one.kind == model.kind]
    return (suite.encoders if model.kind == "encoders" else suite.victims)[own.index(model)]


class _Known:
    """The jobs that RUNs had planned, before this call and during it, whose outcomes other jobs take over."""

    def __init__(self) -> None:
        self._jobs: dict[Path, dict[str, Job]] = {}

    def pass_on(self, prepared: Prepared) -> None:
        """Give the jobs of a plan what attacks of other numbers of texts have found in its RUN."""
        store, jobs = Store(prepared.run), self._jobs.setdefault(prepared.run, {})
        with suppress(StoreError):  # a damaged plan is replaced, as ever
            before = store.plan()
            jobs |= {job.key: job for job in before.jobs} if before is not None else {}
        choosing.carried(store, tuple(jobs.values()), prepared.plan.jobs)


def _run(plan: Composed, part: str, receiver: Filling, known: _Known) -> RunResult:
    """Run the suite of a part, from what attacks of other numbers of texts have found in its RUN."""
    options = plan.where(part)
    prepared = prepared_run(plan.suites[part], options)
    if not options.fresh:
        known.pass_on(prepared)
    ranked = part == "main" and len(plan.models) > 1
    receiver.fills(prepared.plan, Store(prepared.run) if ranked else None)
    return run_prepared(prepared, options, receiver, report=True)


def _resumed(options: Options) -> Options:
    """Return the options of what follows the first texts, which have begun the RUN anew where that was asked for."""
    return dataclasses.replace(options, fresh=False)


def _decided(plan: Composed, chosen: Chosen) -> Composed:
    """Return an evaluation with what was chosen."""
    options, hurried = _resumed(plan.options), chosen.hurried
    numbers = dataclasses.replace(plan, n=chosen.n, attacks=chosen.attacks, minutes=chosen.minutes, hurried=hurried)
    return dataclasses.replace(numbers, options=options, missing={})


def _timed(plan: Composed, minutes: float, receiver: Progress, started: float, known: _Known) -> Chosen:
    """Attack the first texts, and choose by their time; or return what the RUN has chosen for this time before."""
    if (before := _before(plan, minutes)) is not None:
        said = f"-n {before.n} --attacks {','.join(before.attacks)}"
        receiver.note(f"chosen before for {minutes:g} minutes: {said} (--fresh chooses again)")
        return before
    receiver.note(f"the first {FIRST} texts of each model, task and attack say how many there is time for")
    plan.sizes  # noqa: B018 (missing data are told before any work)
    first, others = plan.available[:1], plan.available
    costs: dict[str, choosing.Cost] = {}
    beside, hurried, similarity = choosing.Cost(0.0, 0.0), False, 0.0
    for names in dict.fromkeys((first, others)):
        if costs and time.monotonic() - started > EARLY * 60 * minutes:
            break
        some = dataclasses.replace(plan, attacks=names, missing={})
        first_round = not costs
        costs |= _attack_first(some, "main", receiver, known)
        similarity = similarity or _similarity_seconds(some)
        hurried = hurried or time.monotonic() - started + similarity > EARLY * 60 * minutes
        if first_round and not hurried and "ranking" in some.suites:
            beside = next(iter(_attack_first(some, "ranking", receiver, known).values()), beside)
        plan = dataclasses.replace(plan, options=_resumed(plan.options), missing={})
    costs = choosing.assumed(costs, plan.queries)
    spent = time.monotonic() - started + beside.opening + costs[first[0]].opening  # noise takes about an opening
    spent += 0.0 if hurried else similarity
    most = dataclasses.replace(plan, n=choosing.LADDER[-1][0]).sizes.values()
    chosen = dataclasses.replace(choosing.choose(costs, most, minutes, spent, beside.each), hurried=hurried)
    late = "" if chosen.fits else f", which is more than the {minutes:g} minutes: it is the least"
    receiver.note(
        f"chosen for {minutes:g} minutes: -n {chosen.n} --attacks {','.join(chosen.attacks)}; about "
        f"{duration(chosen.seconds or 0)} more by the time of the first texts{late}"
    )
    return chosen


def _attack_first(plan: Composed, part: str, receiver: Progress, known: _Known) -> dict[str, choosing.Cost]:
    """Attack the first texts of a part; return what each takes. Tables, noise and similarity wait for the rest."""
    suite = {**plan.suites[part], "tables": [], "figures": [], "evaluate": []}
    options = plan.where(part)
    prepared = prepared_run(suite, options)
    if not options.fresh:
        known.pass_on(prepared)
    run_prepared(prepared, options, receiver)
    store, jobs = Store(prepared.run), prepared.plan.attacks
    names = plan.available if part == "main" else (plan.ranked_by or "",)
    labels = {name: _attack_label(name) for name in names}
    return {
        name: choosing.timed(store, [job for job in jobs if job.parts[-1] == label], options)
        for name, label in labels.items()
    }


def _similarity_seconds(plan: Composed) -> float:
    """Return about how long the pairs of the similarity task take, of all encoders; 0 where there is no such task."""
    folder = plan.folder("main")
    store = Store(folder) if folder is not None else None
    found = store.plan() if store is not None else None
    if store is None or found is None or plan.similarity is None:
        return 0.0
    return 2 * plan.similarity[1] * choosing.encoding(store, (job for job in found.jobs if job.stage == "finetune"))


def _attack_label(name: str) -> str:
    return Choice.model_validate(dict(EXACT)).label if name == WHOLE else name


def _before(plan: Composed, minutes: float) -> Chosen | None:
    """Return what the RUN has chosen for this time before; None where it has not."""
    if plan.options.fresh:
        return None
    with suppress(StoreError):
        folder = plan.folder("main")
        found = Store(folder).plan() if folder is not None else None
        if found is not None and found.suite.minutes == minutes:
            numbers = [job.attacking.num_examples for job in found.attacks if job.attacking is not None]
            attacks = tuple(one.name for one in found.suite.attacks)
            if numbers and attacks:
                chosen = dataclasses.replace(plan, attacks=attacks, missing={}).folder("ranking")
                hurried = chosen is not None and Store(chosen).plan() is None
                return Chosen(max(numbers), attacks, minutes, hurried=hurried)
    return None


@dataclass(frozen=True)
class _Command:
    """What a command said, to say it again."""

    texts: Sequence[str]
    tasks: Sequence[TaskGiven]
    compare_to: str | None
    plan: Composed
    label_map: str | None

    def again(self, chosen: Chosen) -> str:
        """Return the command that does the same anywhere: it says what was chosen and what depends on the machine."""
        more = ["-n", str(chosen.n), "--attacks", ",".join(chosen.attacks), "--resources", self.plan.resources]
        return self._line([*more, *(["--finetune", self.plan.finetune] if self._encoders else [])])

    def more(self, chosen: Chosen) -> str:
        """Return a command that does more: with four times as many minutes, or texts."""
        if chosen.minutes is not None:
            return self._line(["--minutes", f"{4 * chosen.minutes:g}"])
        return self._line(["-n", str(4 * chosen.n), "--attacks", ",".join(chosen.attacks)])

    @property
    def _encoders(self) -> bool:
        return any(one.kind == "encoders" for one in self.plan.models)

    def _line(self, choice: Sequence[str]) -> str:
        models = self.texts[:-1] if self.compare_to is not None else self.texts
        words = ["rbench", "eval", *models]
        for task in self.plan.tasks if self.tasks else ():
            words += ["--task", name_of(task)]
        for task in self.plan.tasks:
            said = task[name_of(task)] if isinstance(task, Mapping) else {}
            for key, value in (said or {}).items():
                if key == "labels":
                    words += ["--labels", ",".join(value)]
                elif key in ("text", "label", "kind"):
                    for one in value if isinstance(value, list | tuple) else [value]:
                        words += [f"--{key}", one]
        words += ["--compare-to", self.compare_to] if self.compare_to is not None else []
        words += ["--label-map", self.label_map] if self.label_map is not None else []
        words += ["--seed", str(self.plan.seed)] if self.plan.seed else []
        return shlex.join([*words, *choice])
