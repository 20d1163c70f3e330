"""Reads a suite, finds and fingerprints everything that it names, and plans it, before any work starts."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rbench.config import LoadedSuite, versions
from rbench.errors import JobError, MissingInputs, PlanError, ResourceError, SuiteError
from rbench.plan import scripts
from rbench.plan.lineage import find_weights_source
from rbench.plan.model_metadata import complete_encoders
from rbench.plan.planner import CodeVersions, PlanInputs, make_plan
from rbench.plan.rows import RowCache
from rbench.schema import (
    COSINE,
    AdversarialSet,
    ContrastSpec,
    EncoderSpec,
    Origin,
    Plan,
    ResourceKind,
    ResourceSet,
    Suite,
    TaskSpec,
    TrainSpec,
)
from rbench.schema.jobs import split_of
from rbench.score.sts import MIN_PAIRS
from rbench.system.digests import FingerprintedPlace, FoundPlaces

if TYPE_CHECKING:
    from rbench.tasks import SetData, TaskData


@dataclass(frozen=True)
class Options:
    """A user's options besides the suite, as the command line explains them too. Paths are searched in order."""

    profile: str | None = None
    """Use this profile of the suite."""
    overrides: tuple[str, ...] = ()
    """Set a key of the suite, such as num_examples=100 or training.epochs=1."""
    only: tuple[str, ...] = ()
    """Only jobs whose name contains this (* and ? match anything), and what they need."""
    limit: int | None = None
    """Attack at most N examples a cell."""
    out: Path | None = None
    """Where results go. None: results/runs/SUITE, or SUITE-PROFILE."""
    data: tuple[Path, ...] = ()
    """A folder with TASK/SPLIT.jsonl files, before the hub; also RBENCH_DATA=DIR:DIR."""
    models: tuple[Path, ...] = ()
    """A folder with encoders, masked language models and word vectors, one folder each; also RBENCH_MODELS=DIR:DIR."""
    include: tuple[Path, ...] = ()
    """A folder of your own with suites/, attacks/, tasks/, encoders/, victims/, resources/, contrast/, objectives/,
    finetune/, measures/, metrics/, noise/, edits/, figures/, or some of them; also RBENCH_INCLUDE=DIR:DIR."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where models run; auto takes a GPU where there is one."""
    backend: Literal["auto", "torch", "onednn", "openvino"] = "auto"
    """What computes networks under attack; auto takes the one that a short measurement finds fastest here."""
    workers: int | None = 1
    """Processes that share the examples of an attack; None: as many as suit this machine."""
    pooled: int | None = None
    """Examples that a process attacks at the same time; None: as many as suit the device."""
    concurrency: int | None = None
    """Requests under way at once to each endpoint. None: `concurrency` of its file."""
    max_seconds: float | None = None
    """Give up an example after S seconds of its own time; it counts as errored by time-out."""
    retry_timeouts: bool = False
    """Attack examples again that timed out in an earlier run."""
    fresh: bool = False
    """Start over; old results are moved aside, not deleted."""
    texts: bool = True
    """Whether outcomes keep their texts. A RUN that was begun without texts stays without them in any case."""
    report_to: tuple[str, ...] = ()
    """A tracker that follows the training of encoders: tensorboard, wandb, or another that transformers knows."""
    logs: Path | None = None
    """The folder for the trackers' files; None: `logs/` in the RUN."""


@dataclass(frozen=True)
class PreparedSuite:
    """A suite whose named data, weights and resources have been found and fingerprinted."""

    loaded: LoadedSuite
    plan: Plan
    run: Path
    rows: RowCache
    """Returns what is in `data` and `sets` again, unless their files have changed."""
    data: Mapping[str, TaskData]
    sets: Mapping[str, tuple[SetData, ...]]
    """The sets that victims classify, by task, without those that the RUN makes."""
    places: FoundPlaces
    """The places of weights and resources."""
    notes: list[str]


def prepare_loaded(loaded: LoadedSuite, options: Options) -> PreparedSuite:
    """Find all data, weights and resources that a suite needs.

    Raises SuiteError for errors in a file, PlanError for what cannot be planned, and one ResourceError that names
    everything that is missing, each with a remedy.
    """
    if options.limit is not None:
        # A first look asks for the texts that it attacks and for nothing that the suite does not name.
        loaded = dataclasses.replace(loaded.without_implied(), suite=_limit_examples(loaded.suite, options.limit))
    if options.concurrency is not None:
        loaded = _with_concurrency(loaded, options.concurrency)
    # Each step below goes on after a problem, so that the user is told all that is missing at once.
    problems = _InputProblems()
    rows, sets, data = _open_rows(loaded, options, problems)
    problems += [
        *_find_small_corpora(loaded, data),
        *_find_missing_pairs(loaded, data),
        *_find_missing_training(loaded, data),
        *_find_unlearnable_labels(loaded, data),
        *_find_impossible_options(loaded, data),
    ]
    splits = _fingerprint_splits(loaded, data, problems)
    weights = _locate_weights(loaded, options, problems)
    loaded, encoder_notes = complete_encoders(loaded, weights, problems)
    _check_packages(loaded, problems)
    victims = _locate_victims(loaded, options.models, problems)
    resources, training = _locate_resources(loaded, options, problems)
    if problems:
        raise problems.error()
    set_fingerprints = {
        (task, set_data.set.name): set_data.fingerprint
        for task, sets_of_task in sets.items()
        for set_data in sets_of_task
    }
    code = {
        f"{kind}/{name}": CodeVersions(module.source, module.versions)
        for (kind, name), module in loaded.modules.items()
    }
    asked_sets = {}
    for task, entries in loaded.sets.items():
        asked_sets[task] = tuple(
            entry if entry.made else entry.with_rows(set_fingerprints[task, entry.set.name]) for entry in entries
        )
    inputs = PlanInputs(
        **loaded.named
        | {
            "sets": asked_sets,
            "tasks": {name: _name_hub_data(spec, data.get(name)) for name, spec in loaded.tasks.items()},
        },
        data={name: task_data.fingerprint for name, task_data in data.items()},
        sizes={name: task_data.sizes for name, task_data in data.items()},
        read={name: task_data.read.get("test", 0) for name, task_data in data.items()},
        weights={name: place.fingerprint for name, place in weights.items()},
        splits=splits,
        resource_weights=_fingerprints(resources),
        training={name: (profile, _fingerprints(located)) for name, (profile, located) in training.items()},
        code=code | {name: CodeVersions(versions=versions.part_versions(name)) for name in versions.PARTS},
        victim_fingerprints={victim_and_task: place.fingerprint for victim_and_task, place in victims.items()},
        attacked_only=loaded.attacked_only,
    )
    return PreparedSuite(
        loaded=loaded,
        plan=make_plan(loaded.suite, inputs),
        run=options.out or default_run(loaded.suite, options.profile),
        rows=rows,
        data=data,
        sets=sets,
        places=FoundPlaces(weights, resources, {name: located for name, (_, located) in training.items()}, victims),
        notes=[*loaded.notes, *encoder_notes, *_collect_notes(loaded, data, sets), *scripts.script_notes(loaded, data)],
    )


def default_run(suite: Suite, profile: str | None) -> Path:
    """Return the default folder of a RUN: `results/runs/<suite>[-<profile>]` under the current folder."""
    return Path("results") / "runs" / (f"{suite.name}-{profile}" if profile else suite.name)


def _limit_examples(suite: Suite, limit: int) -> Suite:
    def cut(n: int | Literal["all"]) -> int:
        return limit if n == "all" else min(limit, n)

    wanted = suite.num_examples
    limited = {k: cut(v) for k, v in wanted.items()} if isinstance(wanted, dict) else cut(wanted)
    return suite.model_copy(update={"num_examples": limited})


class _InputProblems(list[str]):
    """What is wrong with a suite's inputs, and which of them are missing."""

    def __init__(self) -> None:
        super().__init__()
        self._missing: dict[str, list[str]] = {}
        self._of_missing: set[str] = set()

    def add_missing(self, kind: str, problem: str, *names: str) -> None:
        """Add a problem that is about missing inputs."""
        self.append(problem)
        self._of_missing.add(problem)
        self._missing.setdefault(kind, []).extend(names)

    @contextmanager
    def catching(
        self, kind: str, name: str, start: str = "", look: Callable[[], object] | None = None
    ) -> Iterator[None]:
        """Add what is wrong in the block, which opens an input, and go on after it.

        Args:
            kind: of the input, for `MissingInputs`.
            name: the input's; of an error in several lines, each is about another input of this name.
            start: what is put before the message.
            look: raises ResourceError where the input is missing; None: any error says that it is.
        """
        try:
            yield
        except (ResourceError, JobError, SuiteError) as error:
            if look is not None:
                with suppress(ResourceError):
                    look()
                    self.append(f"{start}{error}")
                    return
            lines = len(str(error).splitlines())
            self.add_missing(
                kind, f"{start}{error}", *([name] if lines == 1 else [f"{name} {i}" for i in range(lines)])
            )

    def error(self) -> ResourceError:
        """Return the error that tells all problems, each once."""
        problems = [*dict.fromkeys(self)]
        if not self._missing:
            return ResourceError("\n".join(problems))
        wrong = [problem for problem in problems if problem not in self._of_missing]
        return MissingInputs(problems, self._missing, wrong)


DATA, MODELS, RESOURCES = "data sets", "models", "resources of attacks"
"""The kinds of a suite's inputs, as `MissingInputs` names them."""


def _open_rows(
    loaded: LoadedSuite, options: Options, problems: _InputProblems
) -> tuple[RowCache, dict[str, tuple[SetData, ...]], dict[str, TaskData]]:
    """Open the sets that victims classify and that the RUN does not make, by task, and the tasks."""
    rows, data = RowCache(options.data), {}
    sets: dict[str, tuple[SetData, ...]] = {}
    for task, asked_sets in loaded.sets.items():
        for asked_set in asked_sets:
            with problems.catching(DATA, asked_set.set.name, look=partial(_check_present, asked_set.set, options.data)):
                opened = () if asked_set.made else (rows.set(asked_set, loaded.tasks[task]),)
                sets[task] = (*sets.get(task, ()), *opened)
    for name, spec in loaded.tasks.items():
        with problems.catching(DATA, name, look=partial(_check_present, spec, options.data)):
            data[name] = rows.task(spec, sets.get(name, ()))
    return rows, sets, data


def _check_present(spec: TaskSpec | ContrastSpec | AdversarialSet, data: Sequence[Path]) -> None:
    """Raise ResourceError where a task or contrast set is missing. An adversarial set names its own folder."""
    if isinstance(spec, TaskSpec):
        from rbench.tasks import locate_task

        locate_task(spec, data)
    elif isinstance(spec, ContrastSpec):
        from rbench.tasks.contrast import locate_contrast

        locate_contrast(spec, data)


def _find_small_corpora(loaded: LoadedSuite, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each corpus that was found but has fewer sentences than a batch."""
    problems = []
    for name, spec in loaded.encoders.items():
        if spec.train is not None:
            from rbench.train import batches

            corpora = loaded.suite.tasks if name in loaded.in_domain else (spec.train.data,)
            present = [data[corpus] for corpus in corpora if corpus in data]
            sizes = [corpus.sizes.get("train", 0) * len(corpus.spec.columns) for corpus in present]
            messages = [
                batches.find_problem(name, spec.train, size, _open_objective(spec.train, loaded)) for size in sizes
            ]
            problems += [message for message in messages if message]
    return problems


def _locate_weights(loaded: LoadedSuite, options: Options, problems: _InputProblems) -> dict[str, FingerprintedPlace]:
    """Locate the weights of encoders, and the further models that training needs and the registry does not have."""
    from rbench.encoders.locate import locate
    from rbench.encoders.model_metadata import check_base

    weights: dict[str, FingerprintedPlace] = {}
    missing: dict[str, list[str]] = {}
    for name, spec in loaded.encoders.items():
        source = find_weights_source(name, loaded.encoders)
        if source is None:
            continue
        try:
            weights[name] = locate(source, options.models)
            if source.base is not None and spec.head is None and source.head is None:
                check_base(source.name, weights[name].where)
        except ResourceError as error:
            is_base = name != source.name and not source.unlisted
            missing.setdefault(str(error), []).extend([name] if is_base else [])
    for problem, users in missing.items():
        message = f"{problem} (It is the base of {', '.join(users)}.)" if users else problem
        problems.add_missing(MODELS, message, problem)
    for encoder, models in loaded.models.items():
        for option, name in models.items():
            if name not in loaded.encoders:
                with problems.catching(MODELS, name, f"{encoder}: train.options.{option}: "):
                    weights[name] = locate(EncoderSpec(name=name, base=name), options.models)
    return weights


def _open_objective(train: TrainSpec, loaded: LoadedSuite) -> Any:
    """Import an encoder's objective."""
    return loaded.modules["objectives", train.objective].open()


def _check_packages(loaded: LoadedSuite, problems: _InputProblems) -> None:
    for name, spec in loaded.encoders.items():
        if spec.train is not None and (said := _open_objective(spec.train, loaded).missing()):
            problems.append(f"encoder `{name}`: {said}")


def _locate_resources(
    loaded: LoadedSuite, options: Options, problems: _InputProblems
) -> tuple[
    dict[ResourceKind, FingerprintedPlace], dict[str, tuple[ResourceSet, dict[ResourceKind, FingerprintedPlace]]]
]:
    """Locate the suite's resources, and those of encoders' objectives, with their profile, by encoder."""
    from rbench.words import resources

    users: dict[Any, list[str]] = {}
    users_and_kinds = [(label, spec.needs) for label, spec in loaded.attacks.items()]
    users_and_kinds += [(label, needs.resources) for label, needs in loaded.strategies.items()]
    users_and_kinds += [(f"evaluate: {label}", needs.resources) for label, needs in loaded.measures.items()]
    for label, kinds in users_and_kinds:
        for kind in kinds:
            users.setdefault(kind, []).append(label)
    suite_places, training = {}, {}
    with problems.catching(RESOURCES, loaded.resources.name):
        suite_places = resources.locate(loaded.resources, users, options.models)
    for name, (profile, kinds) in loaded.training_resources.items():
        with problems.catching(RESOURCES, profile.name):
            training_places = resources.locate(profile, dict.fromkeys(kinds, (f"encoder {name}",)), options.models)
            training[name] = (profile, training_places)
    return suite_places, training


def _fingerprints(places: Mapping[ResourceKind, FingerprintedPlace]) -> dict[str, str]:
    return {kind: place.fingerprint for kind, place in places.items()}


def _name_hub_data(spec: TaskSpec, task_data: TaskData | None) -> TaskSpec:
    """Return the task with the data set of the hub that its test rows were read from, if they were: numbers that are
    published beside weights name it. A local copy may have other rows."""
    if spec.origin is not None or spec.hub is None or task_data is None or not task_data.origin.startswith("hub "):
        return spec
    tested = next((source for source in spec.hub.sources if "test" in source.splits), spec.hub)
    return spec.model_copy(update={"origin": Origin(id=tested.id, revision=tested.revision, config=tested.config)})


def _collect_notes(
    loaded: LoadedSuite, data: Mapping[str, TaskData], sets: Mapping[str, tuple[SetData, ...]]
) -> Iterator[str]:
    """Yield what was found of functions, of all data that the suite reads and of the sets that victims classify, and
    what its seeds can show."""
    suite = loaded.suite
    for name, spec in loaded.victims.items():
        from rbench.victims.place import hash_source

        if spec.function is not None and hash_source(spec) is None:
            yield (
                f"victim {name}: the source of {spec.function} is in no Python file, so a change of it is not noticed; "
                "write another `version` whenever it changes"
            )
    yield from _note_vector_lengths(loaded)
    for task in dict.fromkeys((*suite.tasks, *(evaluation.task for evaluation in suite.evaluations), *data)):
        task_data = data[task]
        yield f"{task}: {task_data.origin} ({', '.join(f'{split} {rows}' for split, rows in task_data.sizes.items())})"
        for split, (rows, published) in task_data.unlike_published.items():
            yield f"{task}: its {split} split has {rows:,} rows here; the published one has {published:,}"
        untaught = task_data.unlearnable if suite.encoders and task in suite.tasks else ()
        yield from (f"{task}: {message}" for message in (*task_data.left_out, *task_data.contradicted, *untaught))
    for set_data in (set_data for sets_of_task in sets.values() for set_data in sets_of_task):
        counts = set_data.counts
        sizes = f" ({counts['bundles']} bundles, {counts['edits']} edits)" if "bundles" in counts else ""
        yield f"{set_data.set.name}: {set_data.origin}{sizes}"
        yield from (f"{set_data.set.name}: {rows} rows left out: {reason}" for reason, rows in set_data.dropped.items())
    if suite.attacks and not suite.train_seeds and len(suite.seeds) == 2:
        yield "two seeds: corrected for several comparisons, they decide next to nothing; three tell far more"


def _note_vector_lengths(loaded: LoadedSuite) -> Iterator[str]:
    """Yield a note for each strategy and measure whose results depend on the lengths of vectors, where some encoders of
    the suite have vectors of unit length and others have not. Nobody knows it of an endpoint that says nothing."""
    registered = [name for name in loaded.suite.encoders if name in loaded.encoders]
    unit = [name for name in registered if loaded.encoders[name].normalize]
    others = [name for name in registered if name not in unit and loaded.encoders[name].endpoint is None]
    modules = [("finetune", strategy.name) for tuning in loaded.tuning.values() for strategy in tuning]
    modules += [("measures", needs.what.name) for needs in loaded.measures.values()]
    for module_key in dict.fromkeys(modules) if unit and others else ():
        if module_key in loaded.modules and (remark := loaded.modules[module_key].open().vector_lengths):
            yield (
                f"{module_key[1]}: vectors of {', '.join(unit)} have unit length, and those of {', '.join(others)} "
                f"have not; {remark}. To compare the encoders alone, write the same `normalize` for all"
            )


def _locate_victims(
    loaded: LoadedSuite, models_path: Sequence[Path], problems: _InputProblems
) -> dict[tuple[str, str], FingerprintedPlace]:
    """Locate the classifiers that exist, by name and task. Add a problem for each that is missing or does not fit.

    Functions and endpoints are asked a fixed probe, whose answers are their fingerprint.
    """
    places = {}
    for (name, spec), task in itertools.product(loaded.victims.items(), loaded.suite.tasks):
        from rbench.victims.place import locate

        with problems.catching(MODELS, name):
            places[name, task] = locate(spec, loaded.tasks[task], models_path)
    return places


def _with_concurrency(loaded: LoadedSuite, concurrency: int) -> LoadedSuite:
    """Return the suite with `concurrency` requests under way at once to each of its endpoints. No key depends on it.

    Raises PlanError where no classifier of the suite is an endpoint.
    """
    if not any(spec.endpoint is not None for spec in loaded.victims.values()):
        raise PlanError("--concurrency is how many requests an endpoint gets at once, and there is no endpoint here")
    changed = {
        name: spec.model_copy(
            update={"endpoint": spec.endpoint.model_copy(update={"concurrency": concurrency})} if spec.endpoint else {}
        )
        for name, spec in loaded.victims.items()
    }
    return dataclasses.replace(loaded, victims=changed)


def _find_missing_training(loaded: LoadedSuite, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each task with classes on which encoders would be fine-tuned and that has no training rows.

    A task may have test rows alone: a classifier that exists needs no others.
    """
    problems = []
    for name in loaded.tuning if loaded.suite.encoders else ():
        if name not in data or not loaded.tasks[name].of_kind.has_classes or "train" in data[name].sizes:
            continue
        local = loaded.tasks[name].local
        names_split = local is not None and local.split is not None
        remedy = (
            "leave `split: test` out, and the table is divided" if names_split else "add a train file beside the others"
        )
        problems.append(
            f"encoders are fine-tuned on the task {name}, and it has no train split ({data[name].origin}); {remedy}. A "
            "classifier that exists is attacked without one"
        )
    return problems


def _find_unlearnable_labels(loaded: LoadedSuite, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each label of a test split that encoders cannot learn, where it is more than a rare one."""
    remedy = "Write the label alike in both splits, add rows to train, or take these rows out"
    tuned = [data[name] for name in loaded.tuning if name in data] if loaded.suite.encoders else []
    return [
        f"{message}. {remedy}"
        for task_data in tuned
        if task_data.teaches_too_little
        for message in task_data.unlearnable
    ]


def _find_impossible_options(loaded: LoadedSuite, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each option of an attack's goal and of a measure that the data of a task cannot have."""
    return [
        f"{user}: {problem}"
        for user, task, options in _options_by_task(loaded)
        if task in data and data[task].collection is not None
        for problem in loaded.tasks[task].of_kind.beyond_data(task, options, data[task].collection)
    ]


def _options_by_task(loaded: LoadedSuite) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield who has options on a task, the task, and the options: those of goals, and those of measures of tasks."""
    for name, spec in loaded.attacks.items():
        for task in loaded.tuning:
            if (goal := loaded.tasks[task].of_kind.goal) is not None:
                yield f"attack {name}", task, getattr(spec, goal).model_dump()
    for label, needs in loaded.measures.items():
        for task, what in (needs.tasks or {}).items():
            yield f"evaluate: {label}", task, what.options


def _fingerprint_splits(
    loaded: LoadedSuite, data: Mapping[str, TaskData], problems: _InputProblems
) -> dict[tuple[str, str], str]:
    """Fingerprint the splits that jobs use of a task alone. Add a problem for each that is not there or too small."""
    fingerprints = {}
    for user, task, split, fewest in _users_of_splits(loaded):
        sizes = data[task].sizes if task in data else {split: fewest}  # a missing task has its problem already
        if split not in sizes:
            problems.append(f"{user}: task {task} has no {split} split here; it has {', '.join(sizes)}")
        elif sizes[split] < fewest:
            problems.append(f"{user}: the {split} split of {task} has {sizes[split]} pairs; {fewest} are needed")
        elif task in data:
            fingerprints[task, split] = data[task].split_fingerprint(split)
    return fingerprints


def _users_of_splits(loaded: LoadedSuite) -> Iterator[tuple[str, str, str, int]]:
    """Yield user, task and split, and the fewest rows that there must be: for evaluations and to select training steps,
    for measures, and for in-domain encoders, which are trained on the texts of a training split."""
    yield from (("evaluate", evaluation.task, evaluation.split, MIN_PAIRS) for evaluation in loaded.suite.evaluations)
    for name, spec in loaded.encoders.items():
        if spec.train is not None:
            for task in spec.train.selection_tasks:
                yield f"encoder {name}: select_by", task, spec.train.scored_split(task), MIN_PAIRS
    measures = [("build", needs) for needs in loaded.building.values()]
    measures += [(f"evaluate: {label}", needs) for label, needs in loaded.measures.items()]
    for user, needs in measures:
        yield from ((user, task, split, 1) for task, splits in needs.splits.items() for split in splits)
        for task, what in (needs.tasks or dict.fromkeys(loaded.suite.tasks, needs.what)).items():
            if (only_split := split_of(what)) is not None:
                yield user, task, only_split, 1
    yield from ((f"encoder {name}", task, "train", 1) for name in loaded.in_domain for task in loaded.suite.tasks)


def _find_missing_pairs(loaded: LoadedSuite, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each split of an STS task that a strategy of the suite fits or trains on and that is too
    small or not there."""
    problems = []
    for task, strategies in loaded.tuning.items():
        if task not in data or not loaded.tasks[task].of_kind.has_scores:
            continue
        sizes = data[task].sizes
        for strategy in strategies:
            for split in ("validation", *(["train"] if strategy.name != COSINE else [])):
                if sizes.get(split, 0) < MIN_PAIRS:
                    problems.append(
                        f"{strategy.name} needs {MIN_PAIRS} pairs in the {split} split of {task}, which has "
                        f"{sizes.get(split, 0)} here (its splits: {', '.join(sizes)}). Put {task}/{split}.jsonl beside "
                        "the others in a data folder"
                    )
    return problems
