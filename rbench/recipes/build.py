"""Build a `textattack.Attack` from a spec, and check before anything is trained that it can be built."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import textattack.attack_recipes
from textattack import Attack
from textattack.attack_recipes import AttackRecipe
from textattack.constraints import Constraint
from textattack.constraints.pre_transformation import InputColumnModification

from rbench.config.attacks import refusal
from rbench.config.code import begins, open_source
from rbench.config.registry import load_module, nearest, unknown
from rbench.errors import SuiteError
from rbench.recipes._textattack import use_device
from rbench.recipes.attacked import attacked_kind
from rbench.recipes.binding import arguments, binding, dry_build
from rbench.recipes.cached import EnoughWordsChanged, cached, columns_of, foreseen
from rbench.recipes.observed import listen, watch
from rbench.schema import AttackSpec, ResourceKind, TaskSpec
from rbench.system.changes import words_changed

VERSION = 1
USES = ("recipes.cached",)
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
    """Return what builds the recipe: its class, or one with the constraints of `spec.limits` added.

    Raises:
        SuiteError: textattack.attack_recipes has none of a name (with the nearest ones), or rbench cannot run it.
    """
    recipe = _named(spec, spec.recipe)
    if spec.limits is None:
        return recipe
    other = _named(spec, spec.limits)

    def build(victim: Any) -> Attack:
        made, limiting = recipe.build(victim), other.build(victim)
        own = {type(one).__name__ for one in made.constraints}
        made.constraints.extend(one for one in limiting.constraints if type(one).__name__ not in own)
        return made

    return type(recipe.__name__, (), {"build": staticmethod(build)})


def _named(spec: AttackSpec, name: str | None) -> Any:
    recipes = {
        name: value
        for name, value in vars(textattack.attack_recipes).items()
        if isinstance(value, type) and issubclass(value, AttackRecipe) and value is not AttackRecipe
    }
    if name not in recipes:
        raise SuiteError(f"attack {spec.name}: " + unknown("TextAttack recipe", name or "", recipes))
    if refused := refusal(recipes[name].__name__):
        raise SuiteError(f"attack {spec.name}: {refused}")
    return recipes[name]


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

    The kind of the task says what the victim is, and whether another goal takes the place of the attack's own
    (`rbench.recipes.attacked`). Search, transformation and constraints stay.

    Args:
        path: the Python file of the attack; None for a recipe.
        digest: sha256 that the file's source must have; None: it is not checked.

    Raises:
        SuiteError: as `check`, or `protect` names a column that the task does not have, or the task has similarity
            scores and no scale, or the Python file returns no attack.
        ResourceError: a resource is missing, or the recipe needs one that rbench does not provide.
        JobError: the file's source does not have this `digest`.
    """
    use_device(resources.device)
    if spec.recipe is None:
        made = _own(spec, victim, resources, task, path, digest)
    else:
        made = _recipe(spec, victim, resources)
    kind = attacked_kind(task)
    attack = cached(kind.aimed(made, victim, task, spec))
    if hasattr(attack.search_method, "attack"):  # a search that counts words asks the attack that is run
        attack.search_method.attack = attack
    attack.pre_transformation_constraints.extend(foreseen(attack))
    # `cached` may have returned a new attack, so constraints are added only now.
    if columns := protected_columns(spec, task):
        attack.pre_transformation_constraints.append(InputColumnModification(list(task.columns), set(columns)))
    if spec.max_words is not None:
        attack.pre_transformation_constraints.append(EnoughWordsChanged(spec.max_words))
        attack.constraints.append(MaxWordsChanged(spec.max_words))
    attack.goal_function.query_budget = spec.query_budget or float("inf")
    return kind.finished(listen(watch(attack)), spec)


def _recipe(spec: AttackSpec, victim: Any, resources: Any) -> Attack:
    recipe = recipe_class(spec)
    published, asked = dry_build(spec, recipe)
    parameters = arguments(published, spec)
    resources.load(sorted(asked))  # before the binding, which refuses `from_pretrained`
    with binding(resources, parameters):
        return recipe.build(victim)


def _own(
    spec: AttackSpec, victim: Any, resources: Any, task: TaskSpec, path: Path | None, digest: str | None
) -> Attack:
    if path is None:
        raise SuiteError(f"attack {spec.name}: it names no `recipe`, and it has no Python file")
    module = load_module(path) if digest is None else open_source(path, digest)
    options = module.Options.model_validate(spec.parameters)
    accepts = inspect.signature(module.build).parameters
    more = {"task": task} if "task" in accepts else {}
    made = module.build(victim, resources, options, **more)
    if not isinstance(made, Attack):
        raise SuiteError(
            f"{path}:{begins(module.build, path)}: `build` returned {type(made).__name__}, and the build of an attack "
            "returns a textattack.Attack; see docs/guide-add-an-attack.md"
        )
    return made


# ------------------------------------------------------------------------------ constraints that a suite can add to any


class MaxWordsChanged(Constraint):  # type: ignore[misc]
    """Refuses texts in which more than `max_words` words of the original are changed."""

    def __init__(self, max_words: int) -> None:
        super().__init__(compare_against_original=True)
        self.max_words = max_words

    def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:
        return words_changed(columns_of(reference_text), columns_of(transformed_text)) <= self.max_words

    def extra_repr_keys(self) -> list[str]:
        return ["max_words"]


def protected_columns(spec: AttackSpec, task: TaskSpec) -> tuple[str, ...]:
    """Return the columns of `task` that the attack must not change. The options of the kind's goal may add some.

    Raises:
        SuiteError: the attack protects a column that the task does not have.
    """
    columns = (*spec.protect.get(task.kind, ()), *attacked_kind(task).protected_columns(task, spec))
    for column in columns:
        if column not in task.columns:
            hint = f"; did you mean {' or '.join(close)}?" if (close := nearest(column, task.columns)) else ""
            raise SuiteError(
                f"attack {spec.name} protects the column {column!r} of {task.kind} tasks, but {task.name} has the "
                f"columns {', '.join(task.columns)}{hint}"
            )
    return columns
