"""Check which resources, data sets and encoders are on this machine, and say how to get the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rbench import config as loading
from rbench.api import call_options
from rbench.api.choosing import ORDER
from rbench.config.positions import Problems, read_yaml
from rbench.config.registry import Registry
from rbench.encoders.locate import locate
from rbench.errors import ResourceError
from rbench.plan.lineage import find_trained_root, find_weights_source
from rbench.plan.prepare import Options
from rbench.schema import (
    AdversarialSet,
    ContrastSpec,
    EncoderSpec,
    ResourceKind,
    ResourceSet,
    Strict,
    TaskSpec,
    VictimSpec,
)
from rbench.tasks import locate_task
from rbench.tasks.contrast import locate_contrast
from rbench.victims.place import locate as locate_victim


class Check(Strict):
    """Whether and where something is, or how to get it: a line of `rbench status --environment`.

    `ok` None: it is there, and was not verified.
    """

    kind: str
    name: str
    ok: bool | None
    where: str = ""
    remedy: str = ""


def doctor(options: Options | None = None, suite: str | Path | None = None) -> list[Check]:
    """Check what a suite names; without a suite, every resource set, data set and encoder.

    Raises SuiteError where the suite is wrong.
    """
    options = options or Options()
    registry = Registry(options.include)
    if suite is not None:
        return _check_suite(
            call_options.load_suite(suite, options), loading.find_suite(suite, registry), registry, options
        )
    sets = [loading.load_resources(name, registry) for name in registry.names("resources")]
    return [
        *(check for resource_set in sets for check in _check_resources(resource_set, None, registry, options)),
        *_check_tasks([loading.load_task(name, registry) for name in registry.names("tasks")], options.data),
        *_check_contrast([loading.load_contrast(name, registry) for name in registry.names("contrast")], options.data),
        *_check_encoders(
            {name: loading.load_encoder(name, registry) for name in registry.names("encoders")}, options.models
        ),
    ]


def fix(
    options: Options | None = None, suite: str | Path | None = None, tell: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Fetch what is missing of NLTK's data and TextAttack's word vectors: what a suite needs, or else `rbench eval`.

    Args:
        tell: is told what is fetched, before it is.

    Returns what is still missing, each with its reason or remedy. Raises SuiteError where the suite is wrong.
    """
    from rbench.words.resources.fetch import fetch

    def vectors() -> None:
        from rbench.recipes.downloads import word_vectors  # imports textattack, which takes seconds

        word_vectors()

    options = options or Options()
    registry = Registry(options.include)
    if suite is None:
        attacks = loading.load_mapping(
            {**_USUAL, "attacks": list(ORDER)}, registry=registry, origin="rbench status"
        ).attacks
        sets = [(_usual_set(registry, options), {kind for spec in attacks.values() for kind in spec.needs})]
    else:
        loaded = call_options.load_suite(suite, options)
        needs = {kind for spec in loaded.attacks.values() for kind in spec.needs}
        needs |= {kind for strategy in loaded.strategies.values() for kind in strategy.resources}
        needs |= {kind for measure in loaded.measures.values() for kind in measure.resources}
        sets = [
            (loaded.resources, needs),
            *((resource_set, set(kinds)) for resource_set, kinds in loaded.training_resources.values()),
        ]
    still_missing = [
        message for resource_set, kinds in sets for message in fetch(resource_set, kinds, options.models, vectors, tell)
    ]
    return list(dict.fromkeys(still_missing))


_USUAL = {"name": "usual", "encoders": ["minilm"], "tasks": ["mr"]}


def _usual_set(registry: Registry, options: Options) -> ResourceSet:
    """Return the resource set that `rbench eval` takes: `local` where its word vectors are, else `standard`."""
    local = loading.load_resources("local", registry)
    has_vectors = any(
        check.name == "word_vectors" and check.ok for check in _check_resources(local, None, registry, options)
    )
    return local if has_vectors else loading.load_resources("standard", registry)


def _check_suite(loaded: loading.LoadedSuite, path: Path, registry: Registry, options: Options) -> list[Check]:
    """Check what the suite in the file `path` names, with the profile and the overrides of `options`."""
    needs = {kind for spec in loaded.attacks.values() for kind in spec.needs}
    needs |= {kind for strategy in loaded.strategies.values() for kind in strategy.resources}
    resources = _check_resources(loaded.resources, needs, registry, options)
    if any(check.ok is False for check in resources):
        hint = _suggest_set(loaded, path, needs, registry, options)
        resources = [_with_hint(check, hint) for check in resources]
    for resource_set, kinds in loaded.training_resources.values():
        resources += _check_resources(resource_set, kinds, registry, options)
    models = {name: EncoderSpec(name=name, base=name) for named in loaded.models.values() for name in named.values()}
    checks = [
        *resources,
        *_check_tasks(loaded.tasks.values(), options.data),
        *_check_contrast(
            (asked_set.set for task_sets in loaded.sets.values() for asked_set in task_sets), options.data
        ),
        *_check_encoders({**models, **loaded.encoders}, options.models),
        *_check_victims(loaded.victims.values(), loaded.tasks.values(), options.models),
    ]
    return list(dict.fromkeys(checks))


def _check_resources(
    resource_set: ResourceSet, kinds: Collection[ResourceKind] | None, registry: Registry, options: Options
) -> list[Check]:
    """Check the resources of a set: all, or those of some kinds."""
    from rbench.words import resources

    checks = []
    for kind, name, ok, where, remedy in resources.checks(resource_set, options.models):
        if kinds is None or kind in kinds:
            check = Check(kind=f"resources {resource_set.name}", name=kind, ok=ok, where=where, remedy=remedy)
            known = not ok and name in registry.names("encoders")
            base = loading.load_encoder(name, registry).base if known else name
            checks.append(_with_hint(check, renaming_hint(name, base or name, options.models)))
    return checks


def _suggest_set(
    loaded: loading.LoadedSuite, path: Path, needs: Collection[ResourceKind], registry: Registry, options: Options
) -> str:
    """Name the resource sets that have all that a suite needs, and how to choose them. The embedded world's
    resources do not fit other tasks, so it is not among them."""
    complete_sets = []
    for name in registry.names("resources"):
        checks = _check_resources(loading.load_resources(name, registry), needs, registry, options)
        if (
            name not in ("mini", loaded.resources.name)
            and len(checks) == len(needs)
            and all(check.ok for check in checks)
        ):
            complete_sets.append(name)
    if not complete_sets:
        return ""
    profiles = read_yaml(path, Problems()).data.get("profiles") or {}
    profile_names = [name for name, part in profiles.items() if part.get("resources") in complete_sets]
    profile_option = "".join(f"--profile {name}, or " for name in profile_names[:1])
    return (
        " All resources that this suite needs are there in the resource set "
        f"{' and in '.join(complete_sets)}: {profile_option}--set "
        f"resources={complete_sets[0]} (of rbench attack: --resources {complete_sets[0]})."
    )


def _with_hint(check: Check, hint: str) -> Check:
    return check if check.ok is not False else check.model_copy(update={"remedy": check.remedy + hint})


def _check_tasks(specs: Iterable[TaskSpec], data: Sequence[Path]) -> list[Check]:
    return [_check_place("task", spec.name, partial(locate_task, spec, data)) for spec in specs]


def _check_contrast(specs: Iterable[ContrastSpec | AdversarialSet], data: Sequence[Path]) -> list[Check]:
    sets = (spec for spec in specs if isinstance(spec, ContrastSpec))
    return [_check_place("contrast set", spec.name, partial(locate_contrast, spec, data)) for spec in sets]


def _check_encoders(encoders: Mapping[str, EncoderSpec], models: Sequence[Path]) -> list[Check]:
    checks = []
    for name in encoders:
        source = find_weights_source(name, encoders)
        if source is None:
            where = f"trained by rbench ({find_trained_root(name, encoders)})"
            checks.append(Check(kind="encoder", name=name, ok=True, where=where))
            continue
        check = _check_place("encoder", name, partial(_locate_folder, source, models))
        base = source.base or source.tokenizer or source.name
        checks.append(_with_hint(check, renaming_hint(source.name, base, models)))
    return checks


def _check_victims(specs: Iterable[VictimSpec], tasks: Iterable[TaskSpec], models: Sequence[Path]) -> list[Check]:
    """Check classifiers that exist: that they are there, answer, and have the labels of each task."""

    def find(spec: VictimSpec, task: TaskSpec) -> str:
        return locate_victim(spec, task, models).where

    return [_check_place("classifier", spec.name, partial(find, spec, task)) for spec in specs for task in tasks]


def _locate_folder(source: EncoderSpec, models: Sequence[Path]) -> str:
    return locate(source, models).where


def _check_place(kind: str, name: str, find: Callable[[], str]) -> Check:
    try:
        return Check(kind=kind, name=name, ok=True, where=find())
    except ResourceError as error:
        return Check(kind=kind, name=name, ok=False, remedy=str(error))


def renaming_hint(name: str, base: str, models: Sequence[Path]) -> str:
    """Say which folder to rename, where a model lies on the search path under its name on the hub. Else return "".

    Args:
        name: the folder that rbench looks for.
        base: the model's hub id, `owner/model`.
    """
    _, _, short = base.rpartition("/")
    for root in models:
        for folder in (root / short, root / base.replace("/", "--"), root / base.replace("/", "_")):
            if folder != root / name and (folder / "config.json").is_file():
                return f" In {root} there is {folder.name}, which seems to be this model: rename it to {name}."
    return ""
