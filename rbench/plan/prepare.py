"""Reads a suite, finds and fingerprints everything that it names, and plans it, before any work starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rbench import load as loading
from rbench.errors import ResourceError
from rbench.load import versions
from rbench.load.measures import needs_of
from rbench.load.registry import Registry
from rbench.plan.described import complete
from rbench.plan.inputs import Code, PlanInputs, SetInput
from rbench.plan.lineage import weights_source
from rbench.plan.notes import all_notes
from rbench.plan.planner import make_plan
from rbench.plan.rows import Rows
from rbench.plan.splits import read_alone, scored, trained_on, without_measured, without_pairs, without_training
from rbench.plan.victims import locate_victims, unseen_sources, with_concurrency
from rbench.spec import (
    ADVERSARIAL,
    CONTRAST,
    Choice,
    EncoderSpec,
    Plan,
    ResourceKind,
    ResourceProfile,
    Suite,
    TaskSpec,
    TrainSpec,
)
from rbench.system.located import Located, Places

if TYPE_CHECKING:
    from rbench.tasks import ContrastData, TaskData
    from rbench.tasks.adversarial import AdversarialData


@dataclass(frozen=True)
class Options:
    """A user's options besides the suite. Paths in `data`, `models` and `include` are searched in order."""

    profile: str | None = None
    overrides: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    """Patterns of job names. The jobs that match one of them run, with what they need. Empty: all jobs."""
    limit: int | None = None
    out: Path | None = None
    data: tuple[Path, ...] = ()
    models: tuple[Path, ...] = ()
    include: tuple[Path, ...] = ()
    device: Literal["auto", "cpu", "cuda"] = "auto"
    backend: str = "auto"
    """What computes the network during attacks: one of `rbench.inference.BACKENDS`, or `auto` for the fastest."""
    workers: int | None = 1
    """Processes for attacks; None: as many as suit this machine. More than one needs a script that is guarded by
    `if __name__ == "__main__"`, as multiprocessing always does."""
    pooled: int | None = None
    """Examples that a process attacks at the same time; None: as many as suit the device."""
    concurrency: int | None = None
    """Requests under way at once, to each endpoint of the suite; None: as many as its `concurrency` says."""
    max_seconds: float | None = None
    """An example that takes longer is errored by time-out; None: no limit."""
    retry_timeouts: bool = False
    """Whether examples that timed out in earlier runs are attacked again."""
    fresh: bool = False
    texts: bool = True
    """Whether outcomes keep their texts. A RUN that was begun without texts stays without them in any case."""
    report_to: tuple[str, ...] = ()
    """Trackers that follow the training of encoders: `tensorboard`, `wandb`, whatever transformers knows."""
    logs: Path | None = None
    """The folder for the trackers' files; None: `logs/` in the RUN."""


@dataclass(frozen=True)
class Prepared:
    """A suite whose named data, weights and resources have been found and fingerprinted."""

    loaded: loading.Loaded
    plan: Plan
    run: Path
    rows: Rows
    """Returns what is in `data` and `contrast` again, unless their files have changed."""
    data: Mapping[str, TaskData]
    contrast: Mapping[str, tuple[ContrastData, ...]]
    """The contrast sets that victims are evaluated on, by task."""
    adversarial: Mapping[Path, AdversarialData]
    """The adversarial sets in folders that victims are evaluated on, by folder."""
    places: Places
    """The places of weights and resources."""
    notes: list[str]


def prepare(suite: str | Path, options: Options) -> Prepared:
    """Read the suite and find all data, weights and resources that it needs.

    Raises SuiteError for errors in a file, PlanError for what cannot be planned, and one ResourceError that names
    everything that is missing, each with a remedy.
    """
    registry = Registry(options.include)
    return prepare_loaded(
        loading.load(suite, registry=registry, profile=options.profile, overrides=options.overrides), options
    )


def prepare_loaded(loaded: loading.Loaded, options: Options) -> Prepared:
    """Prepare a suite that is already loaded. Raises PlanError and ResourceError as `prepare` does."""
    if options.limit is not None:
        loaded = dataclasses.replace(loaded, suite=_limited(loaded.suite, options.limit))
    if options.concurrency is not None:
        loaded = with_concurrency(loaded, options.concurrency)
    problems: list[str] = []
    rows = Rows(options.data)
    contrast = _open_contrast(loaded, rows, problems)
    adversarial = _open_sets(loaded, rows, problems)
    data = _open_tasks(loaded.tasks, contrast, adversarial, rows, problems)
    problems += _too_small(loaded, data)
    problems += [*without_pairs(loaded, data), *without_training(loaded, data), *without_measured(loaded, data)]
    splits = scored(loaded, data, problems) | trained_on(loaded, data) | read_alone(loaded, data, problems)
    weights = _locate_weights(loaded.encoders, options, problems) | _locate_models(loaded, options, problems)
    loaded, encoder_notes = complete(loaded, weights, problems)
    _check_packages(loaded, problems)
    victims = locate_victims(loaded, options.models, problems)
    resources = _locate_resources(loaded, options, problems)
    training = _locate_training(loaded, options, problems)
    if problems:
        raise ResourceError("\n".join(dict.fromkeys(problems)))
    inputs = PlanInputs(
        encoders=loaded.encoders,
        tasks=loaded.tasks,
        attacks=loaded.attacks,
        resources=loaded.resources,
        data={name: found.fingerprint for name, found in data.items()},
        sizes={name: found.sizes for name, found in data.items()},
        weights={name: place.fingerprint for name, place in weights.items()},
        models=loaded.models,
        splits=splits,
        resource_weights=_fingerprints(resources),
        training={name: (profile, _fingerprints(found)) for name, (profile, found) in training.items()},
        strategies=loaded.strategies,
        tuning=loaded.tuning,
        building=loaded.building,
        measures=loaded.measures,
        code=_code(loaded),
        victims=loaded.victims,
        victim_fingerprints={of: place.fingerprint for of, place in victims.items()},
        draws=loaded.draws,
        sets=_set_inputs(loaded, contrast, adversarial),
    )
    return Prepared(
        loaded=loaded,
        plan=make_plan(loaded.suite, inputs),
        run=options.out or default_run(loaded.suite, options.profile),
        rows=rows,
        data=data,
        contrast=contrast,
        adversarial=adversarial,
        places=Places(weights, resources, {name: found for name, (_, found) in training.items()}, victims),
        notes=[
            *(*loaded.notes, *encoder_notes, *unseen_sources(loaded)),
            *all_notes(loaded.suite, data, contrast, adversarial.values()),
        ],
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


def _open_contrast(loaded: loading.Loaded, rows: Rows, problems: list[str]) -> dict[str, tuple[ContrastData, ...]]:
    """Open the contrast sets that victims are evaluated on, by task."""
    found: dict[str, tuple[ContrastData, ...]] = {}
    for task, sets in loaded.contrast.items():
        for spec in sets:
            try:
                made = rows.contrast(spec, loaded.tasks[task])
            except ResourceError as error:
                problems.append(str(error))
                continue
            found[task] = (*found.get(task, ()), made)
    return found


def _open_sets(loaded: loading.Loaded, rows: Rows, problems: list[str]) -> dict[Path, AdversarialData]:
    """Open the adversarial sets in folders, by folder."""
    found = {}
    for task, sets in loaded.adversarial.items():
        for asked in sets:
            if asked.folder is not None:
                try:
                    found[asked.folder] = rows.adversarial(asked.folder, loaded.tasks[task])
                except ResourceError as error:
                    problems.append(str(error))
    return found


def _set_inputs(
    loaded: loading.Loaded,
    contrast: Mapping[str, tuple[ContrastData, ...]],
    opened: Mapping[Path, AdversarialData],
) -> dict[str, tuple[SetInput, ...]]:
    """Return the sets that victims classify, by task: its contrast sets, then its adversarial sets."""
    found: dict[str, tuple[SetInput, ...]] = {}
    for task, sets in contrast.items():
        needs = needs_of(loaded.modules["measures", CONTRAST].open(), Choice(name=CONTRAST))
        found[task] = tuple(SetInput(needs, one.spec, one.fingerprint) for one in sets)
    for task, asked in loaded.adversarial.items():
        needs = needs_of(loaded.modules["measures", ADVERSARIAL].open(), Choice(name=ADVERSARIAL))
        found[task] = found.get(task, ()) + tuple(
            SetInput(needs, one.set, None if one.folder is None else opened[one.folder].fingerprint, one.strategy)
            for one in asked
        )
    return found


def _open_tasks(
    tasks: Mapping[str, TaskSpec],
    contrast: Mapping[str, tuple[ContrastData, ...]],
    adversarial: Mapping[Path, AdversarialData],
    rows: Rows,
    problems: list[str],
) -> dict[str, TaskData]:
    data = {}
    for name, spec in tasks.items():
        try:
            own = [one for one in adversarial.values() if one.about.task == name]
            data[name] = rows.task(spec, contrast.get(name, ()), own)
        except ResourceError as error:
            problems.append(str(error))
    return data


def _locate_models(loaded: loading.Loaded, options: Options, problems: list[str]) -> dict[str, Located]:
    """Locate the further models that training needs, by name. `_locate_weights` locates those in the registry."""
    from rbench.encoders.locate import locate

    found = {}
    for encoder, models in loaded.models.items():
        for option, name in models.items():
            if name in loaded.encoders:
                continue
            try:
                found[name] = locate(EncoderSpec(name=name, base=name), options.models)
            except ResourceError as error:
                problems.append(f"{encoder}: train.options.{option}: {error}")
    return found


def _too_small(loaded: loading.Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each corpus that was found but has fewer sentences than a batch."""
    from rbench.train import batches

    wrong = []
    for name, spec in loaded.encoders.items():
        if spec.train is not None:
            corpora = loaded.suite.tasks if name in loaded.in_domain else (spec.train.data,)
            sizes = [_texts(data[corpus]) for corpus in corpora if corpus in data]
            found = [batches.problem(name, spec.train, size, _objective(spec.train, loaded)) for size in sizes]
            wrong += [said for said in found if said]
    return wrong


def _texts(corpus: TaskData) -> int:
    return corpus.sizes.get("train", 0) * len(corpus.spec.columns)


def _locate_weights(encoders: Mapping[str, EncoderSpec], options: Options, problems: list[str]) -> dict[str, Located]:
    from rbench.encoders.heads import check_base
    from rbench.encoders.locate import locate

    weights = {}
    missing: dict[str, list[str]] = {}
    for name in encoders:
        source = weights_source(name, encoders)
        if source is None:
            continue
        try:
            weights[name] = locate(source, options.models)
            if source.base is not None and all(spec.head is None for spec in (encoders[name], source)):
                check_base(source.name, weights[name].where)
        except ResourceError as error:
            its_base = name != source.name and not source.unlisted
            missing.setdefault(str(error), []).extend([name] if its_base else [])
    for problem, users in missing.items():
        problems.append(f"{problem} (It is the base of {', '.join(users)}.)" if users else problem)
    return weights


def _code(loaded: loading.Loaded) -> dict[str, Code]:
    """Return the code behind the suite's modules and behind all jobs."""
    named = {f"{kind}/{name}": Code(found.source, found.versions) for (kind, name), found in loaded.modules.items()}
    return {**named, **{name: Code(versions=versions.part(name)) for name in versions.PARTS}}


def _objective(train: TrainSpec, loaded: loading.Loaded) -> Any:
    """Import the module of an encoder's objective."""
    return loaded.modules["objectives", train.objective].open()


def _check_packages(loaded: loading.Loaded, problems: list[str]) -> None:
    from rbench.train.objectives import missing

    for name, spec in loaded.encoders.items():
        if spec.train is not None and (said := missing(_objective(spec.train, loaded))):
            problems.append(f"encoder `{name}`: {said}")


def _locate_resources(loaded: loading.Loaded, options: Options, problems: list[str]) -> dict[ResourceKind, Located]:
    from rbench import resources

    users: dict[Any, list[str]] = {}
    asked = [(label, spec.needs) for label, spec in loaded.attacks.items()]
    asked += [(label, needs.resources) for label, needs in loaded.strategies.items()]
    asked += [(f"evaluate: {label}", needs.resources) for label, needs in loaded.measures.items()]
    for label, kinds in asked:
        for kind in kinds:
            users.setdefault(kind, []).append(label)
    try:
        return resources.locate(loaded.resources, users, options.models)
    except ResourceError as error:
        problems.append(str(error))
        return {}


def _locate_training(
    loaded: loading.Loaded, options: Options, problems: list[str]
) -> dict[str, tuple[ResourceProfile, dict[ResourceKind, Located]]]:
    """Locate the resources of encoders' objectives. Return profile and places by encoder."""
    from rbench import resources

    asked = {}
    for name, (profile, needs) in loaded.training_resources.items():
        try:
            found = resources.locate(profile, dict.fromkeys(needs, (f"encoder {name}",)), options.models)
        except ResourceError as error:
            problems.append(str(error))
            continue
        asked[name] = (profile, found)
    return asked


def _fingerprints(found: Mapping[ResourceKind, Located]) -> dict[str, str]:
    return {kind: place.fingerprint for kind, place in found.items()}
