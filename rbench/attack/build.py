"""Build a `textattack.Attack` from a spec, and check before anything is trained that it can be built."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import textattack.attack_recipes
from textattack import Attack
from textattack.attack_recipes import AttackRecipe
from textattack.constraints import PreTransformationConstraint

from rbench.attack._textattack import use_device
from rbench.attack.binding import arguments, binding, dry_build
from rbench.attack.cached import cached
from rbench.attack.constraints import foreseen, suite_constraints
from rbench.attack.observed import listen, watch
from rbench.attack.similarity_goal import aim_at_similarity, remember_allowed
from rbench.errors import SuiteError
from rbench.load.code import open_source
from rbench.load.recipes import refusal
from rbench.load.registry import load_module, unknown
from rbench.spec import AttackSpec, ResourceKind, TaskSpec

VERSION = 1
USES = ("attack.constraints", "attack.cached")
"""attack.binding is not listed, because only recipes use it."""


def check(spec: AttackSpec) -> None:
    """Validate recipe, parameters and declared needs of an attack, without resources, victim or weights.

    The options of an attack that is a Python file are validated when the file is loaded.

    Raises:
        SuiteError: an unknown recipe, component or parameter (with the nearest names), a value of the wrong type or out
            of range, a recipe that rbench cannot run, or a resource that is missing from `needs`.
    """
    if spec.recipe is None:
        return
    asked = needs(spec)
    missing = sorted(set(asked) - set(spec.needs))
    if missing:
        raise SuiteError(f"attack {spec.name}: {spec.recipe} uses {', '.join(missing)}; add to its `needs`")


def needs(spec: AttackSpec) -> tuple[ResourceKind, ...]:
    """Return the resources that an attack needs.

    For a recipe they are found by building it without resources; an attack that is a Python file declares them.

    Raises:
        SuiteError: as `check`.
    """
    if spec.recipe is None:
        return spec.needs
    recipe = recipe_class(spec)
    published, _ = dry_build(spec, recipe)
    _, asked = dry_build(spec, recipe, arguments(published, spec))
    return tuple(sorted(asked))


def recipe_class(spec: AttackSpec) -> Any:
    """Return the recipe's class.

    Raises:
        SuiteError: textattack.attack_recipes has none of this name (with the nearest ones), or rbench cannot run it.
    """
    recipes = {
        name: value
        for name, value in vars(textattack.attack_recipes).items()
        if isinstance(value, type) and issubclass(value, AttackRecipe) and value is not AttackRecipe
    }
    if spec.recipe not in recipes:
        raise SuiteError(f"attack {spec.name}: " + unknown("TextAttack recipe", spec.recipe, recipes))
    if refused := refusal(recipes[spec.recipe].__name__):
        raise SuiteError(f"attack {spec.name}: {refused}")
    return recipes[spec.recipe]


def build(
    spec: AttackSpec,
    victim: Any,
    resources: Any,
    task: TaskSpec,
    *,
    path: Path | None = None,
    digest: str | None = None,
) -> Attack:
    """Build the attack of `spec` on `victim` with `resources`, for examples of `task`.

    The victim is a `ScorerVictim` where the task has similarity scores, and a `Victim` elsewhere. On such a task the
    attack's goal is replaced by `SimilarityGoal`; its search, transformation and constraints stay.

    Args:
        path: the Python file of the attack; None for a recipe.
        digest: sha256 that the file's source must have; None: it is not checked.

    Raises:
        SuiteError: as `check`, or `protect` names a column that the task does not have, or the task has similarity
            scores and no scale.
        ResourceError: a resource is missing, or the recipe needs one that rbench does not provide.
        JobError: the file's source does not have this `digest`.
    """
    use_device(resources.device)
    if task.kind == "sts" and task.scale is None:
        raise SuiteError(f"task {task.name} has no scale, and attacks need it: write `scale: [lowest, highest]`")
    if spec.recipe is None:
        made = _own(spec, victim, resources, task, _opened(spec, path, digest))
    else:
        made = _recipe(spec, victim, resources)
    if task.kind == "sts":
        made = aim_at_similarity(made, victim, task, spec.similarity)
    attack = cached(made)
    if hasattr(attack.search_method, "attack"):  # a search that counts words asks the attack that is run
        attack.search_method.attack = attack
    attack.pre_transformation_constraints.extend(foreseen(attack))
    for constraint in suite_constraints(spec, task):
        before = isinstance(constraint, PreTransformationConstraint)
        (attack.pre_transformation_constraints if before else attack.constraints).append(constraint)
    attack.goal_function.query_budget = spec.query_budget or float("inf")
    attack = listen(watch(attack))
    return remember_allowed(attack) if task.kind == "sts" and spec.similarity.maximise else attack


def _recipe(spec: AttackSpec, victim: Any, resources: Any) -> Attack:
    recipe = recipe_class(spec)
    published, asked = dry_build(spec, recipe)
    parameters = arguments(published, spec)
    resources.load(sorted(asked))  # before the binding, which refuses `from_pretrained`
    with binding(resources, parameters):
        return recipe.build(victim)


def _opened(spec: AttackSpec, path: Path | None, digest: str | None) -> ModuleType:
    if path is None:
        raise SuiteError(f"attack {spec.name}: it names no `recipe`, and it has no Python file")
    return load_module(path) if digest is None else open_source(path, digest)


def _own(spec: AttackSpec, victim: Any, resources: Any, task: TaskSpec, module: ModuleType) -> Attack:
    options = module.Options.model_validate(spec.parameters)
    accepts = inspect.signature(module.build).parameters
    more = {"task": task} if "task" in accepts else {}
    return module.build(victim, resources, options, **more)
