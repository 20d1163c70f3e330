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

from rbench.config import Loaded, versions
from rbench.errors import JobError, MissingInputs, PlanError, ResourceError, SuiteError
from rbench.plan import scripts
from rbench.plan.lineage import weights_source
from rbench.plan.model_metadata import complete
from rbench.plan.planner import Code, PlanInputs, make_plan
from rbench.plan.rows import Rows
from rbench.schema import (
    COSINE,
    AdversarialSet,
    ContrastSpec,
    EncoderSpec,
    Plan,
    ResourceKind,
    ResourceSet,
    Suite,
    TaskSpec,
    TrainSpec,
)
from rbench.schema.jobs import split_of
from rbench.score.sts import FEWEST
from rbench.system.digests import Located, Places

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
    finetune/, measures/, metrics/, noise/, figures/, or some of them; also RBENCH_INCLUDE=DIR:DIR."""
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
class Prepared:
    """A suite whose named data, weights and resources have been found and fingerprinted."""

    loaded: Loaded
    plan: Plan
    run: Path
    rows: Rows
    """Returns what is in `data` and `sets` again, unless their files have changed."""
    data: Mapping[str, TaskData]
    sets: Mapping[str, tuple[SetData, ...]]
    """The sets that victims classify, by task, without those that the RUN makes."""
    places: Places
    """The places of weights and resources."""
    notes: list[str]


def prepare_loaded(loaded: Loaded, options: Options) -> Prepared:
    """Find all data, weights and resources that a suite needs.

    Raises SuiteError for errors in a file, PlanError for what cannot be planned, and one ResourceError that names
    everything that is missing, each with a remedy.
    """
    if options.limit is not None:
        # A first look asks for the texts that it attacks and for nothing that the suite does not name.
        named = {label: measure for label, measure in loaded.measures.items() if not measure.implied}
        loaded = dataclasses.replace(loaded, suite=_limited(loaded.suite, options.limit), measures=named)
    if options.concurrency is not None:
        loaded = _with_concurrency(loaded, options.concurrency)
    problems = _Problems()
    rows, sets, data = _open_rows(loaded, options, problems)
    problems += [
        *_too_small(loaded, data),
        *_without_pairs(loaded, data),
        *_without_training(loaded, data),
        *_without_teaching(loaded, data),
        *_beyond_data(loaded, data),
    ]
    splits = _splits(loaded, data, problems)
    weights = _locate_weights(loaded, options, problems)
    loaded, encoder_notes = complete(loaded, weights, problems)
    _check_packages(loaded, problems)
    victims = _locate_victims(loaded, options.models, problems)
    resources, training = _locate_resources(loaded, options, problems)
    if problems:
        raise problems.error()
    read = {(task, one.set.name): one.fingerprint for task, own in sets.items() for one in own}
    code = {f"{kind}/{name}": Code(found.source, found.versions) for (kind, name), found in loaded.modules.items()}
    asked = {
        task: tuple(one if one.made else one.with_rows(read[task, one.set.name]) for one in own)
        for task, own in loaded.sets.items()
    }
    inputs = PlanInputs(
        **loaded.named | {"sets": asked},
        data={name: found.fingerprint for name, found in data.items()},
        sizes={name: found.sizes for name, found in data.items()},
        read={name: found.read.get("test", 0) for name, found in data.items()},
        weights={name: place.fingerprint for name, place in weights.items()},
        splits=splits,
        resource_weights=_fingerprints(resources),
        training={name: (profile, _fingerprints(found)) for name, (profile, found) in training.items()},
        code=code | {name: Code(versions=versions.part(name)) for name in versions.PARTS},
        victim_fingerprints={of: place.fingerprint for of, place in victims.items()},
    )
    return Prepared(
        loaded=loaded,
        plan=make_plan(loaded.suite, inputs),
        run=options.out or default_run(loaded.suite, options.profile),
        rows=rows,
        data=data,
        sets=sets,
        places=Places(weights, resources, {name: found for name, (_, found) in training.items()}, victims),
        notes=[*loaded.notes, *encoder_notes, *_notes(loaded, data, sets), *scripts.notes(loaded, data)],
    )


def default_run(suite: Suite, profile: str | None) -> Path:
    """Return the default folder of a RUN: `results/runs/<suite>[-<profile>]` under the current folder."""
    return Path("results") / "runs" / (f"{suite.name}-{profile}" if profile else suite.name)


def _limited(suite: Suite, limit: int) -> Suite:
    def cut(n: int | Literal["all"]) -> int:
        return limit if n == "all" else min(limit, n)

    wanted = suite.num_examples
    cut_to = {k: cut(v) for k, v in wanted.items()} if isinstance(wanted, dict) else cut(wanted)
    return suite.model_copy(update={"num_examples": cut_to})


class _Problems(list[str]):
    """What is wrong with a suite's inputs, and which of them are missing."""

    def __init__(self) -> None:
        super().__init__()
        self._missing: dict[str, list[str]] = {}
        self._of_missing: set[str] = set()

    def missed(self, kind: str, problem: str, *names: str) -> None:
        """Add a problem that is about missing inputs."""
        self.append(problem)
        self._of_missing.add(problem)
        self._missing.setdefault(kind, []).extend(names)

    @contextmanager
    def noted(self, kind: str, name: str, start: str = "", look: Callable[[], object] | None = None) -> Iterator[None]:
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
            self.missed(kind, f"{start}{error}", *([name] if lines == 1 else [f"{name} {i}" for i in range(lines)]))

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
    loaded: Loaded, options: Options, problems: _Problems
) -> tuple[Rows, dict[str, tuple[SetData, ...]], dict[str, TaskData]]:
    """Open the sets that victims classify and that the RUN does not make, by task, and the tasks."""
    rows, data = Rows(options.data), {}
    sets: dict[str, tuple[SetData, ...]] = {}
    for task, asked in loaded.sets.items():
        for one in asked:
            with problems.noted(DATA, one.set.name, look=partial(_look, one.set, options.data)):
                sets[task] = (*sets.get(task, ()), *(() if one.made else (rows.set(one, loaded.tasks[task]),)))
    for name, spec in loaded.tasks.items():
        with problems.noted(DATA, name, look=partial(_look, spec, options.data)):
            data[name] = rows.task(spec, sets.get(name, ()))
    return rows, sets, data


def _look(asked: TaskSpec | ContrastSpec | AdversarialSet, data: Sequence[Path]) -> None:
    """Raise ResourceError where a task or contrast set is missing. An adversarial set names its own folder."""
    if isinstance(asked, TaskSpec):
        from rbench.tasks import locate_task

        locate_task(asked, data)
    elif isinstance(asked, ContrastSpec):
        from rbench.tasks.contrast import locate_contrast

        locate_contrast(asked, data)


def _too_small(loaded: Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each corpus that was found but has fewer sentences than a batch."""
    wrong = []
    for name, spec in loaded.encoders.items():
        if spec.train is not None:
            from rbench.train import batches

            corpora = loaded.suite.tasks if name in loaded.in_domain else (spec.train.data,)
            there = [data[corpus] for corpus in corpora if corpus in data]
            sizes = [corpus.sizes.get("train", 0) * len(corpus.spec.columns) for corpus in there]
            found = [batches.problem(name, spec.train, size, _objective(spec.train, loaded)) for size in sizes]
            wrong += [said for said in found if said]
    return wrong


def _locate_weights(loaded: Loaded, options: Options, problems: _Problems) -> dict[str, Located]:
    """Locate the weights of encoders, and the further models that training needs and the registry does not have."""
    from rbench.encoders.locate import locate
    from rbench.encoders.model_metadata import check_base

    weights: dict[str, Located] = {}
    missing: dict[str, list[str]] = {}
    for name, spec in loaded.encoders.items():
        source = weights_source(name, loaded.encoders)
        if source is None:
            continue
        try:
            weights[name] = locate(source, options.models)
            if source.base is not None and spec.head is None and source.head is None:
                check_base(source.name, weights[name].where)
        except ResourceError as error:
            its_base = name != source.name and not source.unlisted
            missing.setdefault(str(error), []).extend([name] if its_base else [])
    for problem, users in missing.items():
        told = f"{problem} (It is the base of {', '.join(users)}.)" if users else problem
        problems.missed(MODELS, told, problem)
    for encoder, models in loaded.models.items():
        for option, name in models.items():
            if name not in loaded.encoders:
                with problems.noted(MODELS, name, f"{encoder}: train.options.{option}: "):
                    weights[name] = locate(EncoderSpec(name=name, base=name), options.models)
    return weights


def _objective(train: TrainSpec, loaded: Loaded) -> Any:
    """Import the module of an encoder's objective."""
    return loaded.modules["objectives", train.objective].open()


def _check_packages(loaded: Loaded, problems: _Problems) -> None:
    for name, spec in loaded.encoders.items():
        if spec.train is not None and (said := getattr(_objective(spec.train, loaded), "missing", str)()):
            problems.append(f"encoder `{name}`: {said}")


def _locate_resources(
    loaded: Loaded, options: Options, problems: _Problems
) -> tuple[dict[ResourceKind, Located], dict[str, tuple[ResourceSet, dict[ResourceKind, Located]]]]:
    """Locate the suite's resources, and those of encoders' objectives, with their profile, by encoder."""
    from rbench.words import resources

    users: dict[Any, list[str]] = {}
    asked = [(label, spec.needs) for label, spec in loaded.attacks.items()]
    asked += [(label, needs.resources) for label, needs in loaded.strategies.items()]
    asked += [(f"evaluate: {label}", needs.resources) for label, needs in loaded.measures.items()]
    for label, kinds in asked:
        for kind in kinds:
            users.setdefault(kind, []).append(label)
    found, training = {}, {}
    with problems.noted(RESOURCES, loaded.resources.name):
        found = resources.locate(loaded.resources, users, options.models)
    for name, (profile, kinds) in loaded.training_resources.items():
        with problems.noted(RESOURCES, profile.name):
            own = resources.locate(profile, dict.fromkeys(kinds, (f"encoder {name}",)), options.models)
            training[name] = (profile, own)
    return found, training


def _fingerprints(found: Mapping[ResourceKind, Located]) -> dict[str, str]:
    return {kind: place.fingerprint for kind, place in found.items()}


def _notes(loaded: Loaded, data: Mapping[str, TaskData], sets: Mapping[str, tuple[SetData, ...]]) -> Iterator[str]:
    """Yield what was found of functions, of all data that the suite reads and of the sets that victims classify, and
    what its seeds can show."""
    suite = loaded.suite
    for name, spec in loaded.victims.items():
        from rbench.victims.place import source_of

        if spec.function is not None and source_of(spec) is None:
            yield (
                f"victim {name}: the source of {spec.function} is in no Python file, so a change of it is not noticed; "
                "write another `version` whenever it changes"
            )
    yield from _lengths(loaded)
    for task in dict.fromkeys((*suite.tasks, *(evaluation.task for evaluation in suite.evaluations), *data)):
        found = data[task]
        yield f"{task}: {found.origin} ({', '.join(f'{split} {rows}' for split, rows in found.sizes.items())})"
        for split, (rows, published) in found.unlike_published.items():
            yield f"{task}: its {split} split has {rows:,} rows here; the published one has {published:,}"
        untaught = found.unlearnable if suite.encoders and task in suite.tasks else ()
        yield from (f"{task}: {said}" for said in (*found.left_out, *found.contradicted, *untaught))
    for one in (one for own in sets.values() for one in own):
        counts = one.counts
        sizes = f" ({counts['bundles']} bundles, {counts['edits']} edits)" if "bundles" in counts else ""
        yield f"{one.set.name}: {one.origin}{sizes}"
        yield from (f"{one.set.name}: {rows} rows left out: {reason}" for reason, rows in one.dropped.items())
    if suite.attacks and not suite.train_seeds and len(suite.seeds) == 2:
        yield "two seeds: corrected for several comparisons, they decide next to nothing; three tell far more"


def _lengths(loaded: Loaded) -> Iterator[str]:
    """Yield a note for each strategy and measure whose results depend on the lengths of vectors, where some encoders of
    the suite have vectors of unit length and others have not. Nobody knows it of an endpoint that says nothing."""
    own = [name for name in loaded.suite.encoders if name in loaded.encoders]
    unit = [name for name in own if loaded.encoders[name].normalize]
    others = [name for name in own if name not in unit and loaded.encoders[name].endpoint is None]
    asked = [("finetune", one.name) for tuning in loaded.tuning.values() for one in tuning]
    asked += [("measures", needs.what.name) for needs in loaded.measures.values()]
    for of in dict.fromkeys(asked) if unit and others else ():
        if of in loaded.modules and (how := getattr(loaded.modules[of].open(), "LENGTHS", "")):
            yield (
                f"{of[1]}: vectors of {', '.join(unit)} have unit length, and those of {', '.join(others)} have not; "
                f"{how}. To compare the encoders alone, write the same `normalize` for all"
            )


def _locate_victims(loaded: Loaded, models_path: Sequence[Path], problems: _Problems) -> dict[tuple[str, str], Located]:
    """Locate the classifiers that exist, by name and task. Add a problem for each that is missing or does not fit.

    Functions and endpoints are asked a fixed probe, whose answers are their fingerprint.
    """
    found = {}
    for (name, spec), task in itertools.product(loaded.victims.items(), loaded.suite.tasks):
        from rbench.victims.place import locate

        with problems.noted(MODELS, name):
            found[name, task] = locate(spec, loaded.tasks[task], models_path)
    return found


def _with_concurrency(loaded: Loaded, concurrency: int) -> Loaded:
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


def _without_training(loaded: Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each task with classes on which encoders would be fine-tuned and that has no training rows.

    A task may have test rows alone: a classifier that exists needs no others.
    """
    wrong = []
    for name in loaded.tuning if loaded.suite.encoders else ():
        if name not in data or not loaded.tasks[name].of_kind.has_classes or "train" in data[name].sizes:
            continue
        local = loaded.tasks[name].local
        whole = local is not None and local.split is not None
        remedy = "leave `split: test` out, and the table is divided" if whole else "add a train file beside the others"
        wrong.append(
            f"encoders are fine-tuned on the task {name}, and it has no train split ({data[name].origin}); {remedy}. A "
            "classifier that exists is attacked without one"
        )
    return wrong


def _without_teaching(loaded: Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each label of a test split that encoders cannot learn, where it is more than a rare one."""
    remedy = "Write the label alike in both splits, add rows to train, or take these rows out"
    tuned = [data[name] for name in loaded.tuning if name in data] if loaded.suite.encoders else []
    return [f"{said}. {remedy}" for one in tuned if one.teaches_too_little for said in one.unlearnable]


def _beyond_data(loaded: Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each option of an attack's goal and of a measure that the data of a task cannot have."""
    return [
        f"{user}: {problem}"
        for user, task, options in _options_by_task(loaded)
        if task in data and data[task].collection is not None
        for problem in loaded.tasks[task].of_kind.beyond_data(task, options, data[task].collection)
    ]


def _options_by_task(loaded: Loaded) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield who has options on a task, the task, and the options: those of goals, and those of measures of tasks."""
    for name, spec in loaded.attacks.items():
        for task in loaded.tuning:
            if (goal := loaded.tasks[task].of_kind.goal) is not None:
                yield f"attack {name}", task, getattr(spec, goal).model_dump()
    for label, needs in loaded.measures.items():
        for task, what in (needs.tasks or {}).items():
            yield f"evaluate: {label}", task, what.options


def _splits(loaded: Loaded, data: Mapping[str, TaskData], problems: _Problems) -> dict[tuple[str, str], str]:
    """Fingerprint the splits that jobs use of a task alone. Add a problem for each that is not there or too small."""
    found = {}
    for user, task, split, fewest in _users_of_splits(loaded):
        sizes = data[task].sizes if task in data else {split: fewest}  # a missing task has its problem already
        if split not in sizes:
            problems.append(f"{user}: task {task} has no {split} split here; it has {', '.join(sizes)}")
        elif sizes[split] < fewest:
            problems.append(f"{user}: the {split} split of {task} has {sizes[split]} pairs; {fewest} are needed")
        elif task in data:
            found[task, split] = data[task].split_fingerprint(split)
    return found


def _users_of_splits(loaded: Loaded) -> Iterator[tuple[str, str, str, int]]:
    """Yield user, task and split, and the fewest rows that there must be: for evaluations and to select training steps,
    for measures, and for in-domain encoders, which are trained on the texts of a training split."""
    yield from (("evaluate", one.task, one.split, FEWEST) for one in loaded.suite.evaluations)
    for name, spec in loaded.encoders.items():
        if spec.train is not None:
            for task in spec.train.selecting:
                yield f"encoder {name}: select_by", task, spec.train.scored_split(task), FEWEST
    measures = [("build", needs) for needs in loaded.building.values()]
    measures += [(f"evaluate: {label}", needs) for label, needs in loaded.measures.items()]
    for user, needs in measures:
        yield from ((user, task, split, 1) for task, splits in needs.splits.items() for split in splits)
        for task, what in (needs.tasks or dict.fromkeys(loaded.suite.tasks, needs.what)).items():
            if (alone := split_of(what)) is not None:
                yield user, task, alone, 1
    yield from ((f"encoder {name}", task, "train", 1) for name in loaded.in_domain for task in loaded.suite.tasks)


def _without_pairs(loaded: Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each split of an STS task that a strategy of the suite fits or trains on and that is too
    small or not there."""
    wrong = []
    for task, strategies in loaded.tuning.items():
        if task not in data or not loaded.tasks[task].of_kind.has_scores:
            continue
        sizes = data[task].sizes
        for strategy in strategies:
            for split in ("validation", *(["train"] if strategy.name != COSINE else [])):
                if sizes.get(split, 0) < FEWEST:
                    wrong.append(
                        f"{strategy.name} needs {FEWEST} pairs in the {split} split of {task}, which has "
                        f"{sizes.get(split, 0)} here (its splits: {', '.join(sizes)}). Put {task}/{split}.jsonl beside "
                        "the others in a data folder"
                    )
    return wrong
