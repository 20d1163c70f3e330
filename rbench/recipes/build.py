"""Build a `textattack.Attack` from a spec, and check before anything is trained that it can be built."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import textattack.attack_recipes
from textattack import Attack
from textattack.attack_recipes import AttackRecipe
from textattack.constraints import Constraint
from textattack.constraints.pre_transformation import InputColumnModification

from rbench.attacks import AttackMethod
from rbench.config.attacks import refusal_reason
from rbench.config.code import ModuleFile
from rbench.config.registry import nearest_names, read_source, unknown_message
from rbench.errors import SuiteError
from rbench.recipes._textattack import use_device
from rbench.recipes.attacked import attacked_kind
from rbench.recipes.binding import binding, dry_build, group_parameters
from rbench.recipes.cached import EnoughWordsChanged, foresee_constraints, make_cached, words_by_column
from rbench.recipes.observed import count_candidates, keep_answers
from rbench.recipes.putting_back import putting_back
from rbench.schema import AttackSpec, ResourceKind, TaskSpec
from rbench.system.changes import count_changed_words

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
    used_kinds = needs(spec)
    missing = sorted(set(used_kinds) - set(spec.needs))
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
    _, used_kinds = dry_build(spec, recipe, group_parameters(published, spec))
    return tuple(sorted(used_kinds))


def recipe_class(spec: AttackSpec) -> Any:
    """Return what builds the recipe: its class, or one with the constraints of `spec.limits` added.

    Raises:
        SuiteError: textattack.attack_recipes has none of a name (with the nearest ones), or rbench cannot run it.
    """
    recipe = _find_recipe(spec, spec.recipe)
    if spec.limits is None:
        return recipe
    limiting_recipe = _find_recipe(spec, spec.limits)

    def build(victim: Any) -> Attack:
        attack, limiting_attack = recipe.build(victim), limiting_recipe.build(victim)
        names = {type(constraint).__name__ for constraint in attack.constraints}
        attack.constraints.extend(
            constraint for constraint in limiting_attack.constraints if type(constraint).__name__ not in names
        )
        return attack

    return type(recipe.__name__, (), {"build": staticmethod(build)})


def _find_recipe(spec: AttackSpec, name: str | None) -> Any:
    recipes = {
        name: value
        for name, value in vars(textattack.attack_recipes).items()
        if isinstance(value, type) and issubclass(value, AttackRecipe) and value is not AttackRecipe
    }
    if name not in recipes:
        raise SuiteError(f"attack {spec.name}: " + unknown_message("TextAttack recipe", name or "", recipes))
    if reason := refusal_reason(recipes[name].__name__):
        raise SuiteError(f"attack {spec.name}: {reason}")
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
        SuiteError: as `check`, or `protect` names a column that the task does not have.
        ResourceError: a resource is missing, or the recipe needs one that rbench does not provide.
        JobError: the file's source does not have this `digest`.
    """
    use_device(resources.device)
    if spec.recipe is None:
        published_attack = _build_from_file(spec, victim, resources, task, path, digest)
    else:
        published_attack = _build_recipe(spec, victim, resources)
    kind = attacked_kind(task)
    attack = make_cached(kind.aim_attack(published_attack, victim, task, spec))
    if hasattr(attack.search_method, "attack"):  # a search that counts words asks the attack that is run
        attack.search_method.attack = attack
    attack.pre_transformation_constraints.extend(foresee_constraints(attack))
    # `cached` may have returned a new attack, so constraints are added only now.
    if columns := find_protected_columns(spec, task):
        attack.pre_transformation_constraints.append(InputColumnModification(list(task.columns), set(columns)))
    # A pre-transformation constraint saves making texts that `MaxWordsChanged` would refuse; the latter decides.
    if spec.max_words is not None:
        attack.pre_transformation_constraints.append(EnoughWordsChanged(spec.max_words))
        attack.constraints.append(MaxWordsChanged(spec.max_words))
    attack.goal_function.query_budget = spec.query_budget or float("inf")
    if spec.put_back:
        attack = putting_back(attack)
    # `watch` comes before `listen`, and both last: they wrap the methods that the goal of the kind has replaced.
    return kind.finish_attack(keep_answers(count_candidates(attack)), spec)


def _build_recipe(spec: AttackSpec, victim: Any, resources: Any) -> Attack:
    recipe = recipe_class(spec)
    published, used_kinds = dry_build(spec, recipe)
    parameters = group_parameters(published, spec)
    resources.load(sorted(used_kinds))  # before the binding, which refuses `from_pretrained`
    with binding(resources, parameters):
        return recipe.build(victim)


def _build_from_file(
    spec: AttackSpec, victim: Any, resources: Any, task: TaskSpec, path: Path | None, digest: str | None
) -> Attack:
    assert path is not None, "an attack without a recipe is a Python file"
    digest = digest or hashlib.sha256(read_source(path)).hexdigest()
    method: AttackMethod[Any] = ModuleFile("attacks", path.stem, path, digest, bundled=False).open()
    attack: Attack = method.build(victim, resources, method.Options.model_validate(spec.parameters), task)
    return attack


# ------------------------------------------------------------------------------ constraints that a suite can add to any


class MaxWordsChanged(Constraint):  # type: ignore[misc]
    """Refuses texts in which more than `max_words` words of the original are changed."""

    def __init__(self, max_words: int) -> None:
        super().__init__(compare_against_original=True)
        self.max_words = max_words

    def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:
        return count_changed_words(words_by_column(reference_text), words_by_column(transformed_text)) <= self.max_words

    def extra_repr_keys(self) -> list[str]:
        return ["max_words"]


def find_protected_columns(spec: AttackSpec, task: TaskSpec) -> tuple[str, ...]:
    """Return the columns of `task` that the attack must not change. The options of the kind's goal may add some.

    Raises:
        SuiteError: the attack protects a column that the task does not have.
    """
    columns = (*spec.protect.get(task.kind, ()), *attacked_kind(task).protected_columns(task, spec))
    for column in columns:
        if column not in task.columns:
            hint = f"; did you mean {' or '.join(close)}?" if (close := nearest_names(column, task.columns)) else ""
            raise SuiteError(
                f"attack {spec.name} protects the column {column!r} of {task.kind} tasks, but {task.name} has the "
                f"columns {', '.join(task.columns)}{hint}"
            )
    return columns
