"""Loads attacks: YAML files that name a TextAttack recipe, recipes named directly, and Python files."""

from __future__ import annotations

import re
from pathlib import Path

from rbench.config.check import check
from rbench.config.code import Module, Modules
from rbench.config.files import Files
from rbench.config.positions import Positioned, shown
from rbench.config.recipes import recipes, refusal
from rbench.config.registry import nearest, unknown
from rbench.schema import AttackSpec, Variants

_ATTACK_FIELDS = ("max_words", "query_budget", "similarity")
_PARAMETER = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", re.ASCII)
_MAY_EXPORT = {
    "LICENCE": "licence",
    "PROTECT": "protect",
    "QUERIES_PER_WORD": "queries_per_word",
    "CONTROL": "control",
}


class Attacks:
    """Loads attacks into `found`, by label. `modules` opens the attacks that are Python files."""

    def __init__(self, files: Files, modules: Modules) -> None:
        self.files, self.problems, self.modules = files, files.problems, modules
        self.found: dict[str, AttackSpec] = {}

    def load(self, name: str, options: Positioned, label: str, place: str) -> None:
        """Load the attack `name` with a suite's options, under `label`. `place` is where the name stands."""
        spec = self._spec(name, options, place)
        if spec is not None:
            self.found[label] = spec

    def _spec(self, name: str, options: Positioned, place: str) -> AttackSpec | None:
        names = self.files.registry.names("attacks")
        if name in (*names, *self.files.registry.fragments("attacks")):
            path = self.files.path("attacks", name, place)
            if path is None:
                return None
            return self._module(name, path, options, place) if path.suffix == ".py" else self._recipe(name, options)
        if name in recipes():
            if refused := refusal(name):
                self.problems.add(place, refused)
                return None
            data = {"name": name, "recipe": name, "title": f"TextAttack's {name}"}
            return self._with_options(Positioned(data, {(): place}), options)
        message = unknown("attack", name, names)
        close = nearest(name, recipes())
        if close and not nearest(name, names):
            message = f'unknown attack "{name}"; did you mean the TextAttack recipe {" or ".join(close)}?'
        self.problems.add(place, message)
        return None

    def _recipe(self, name: str, options: Positioned) -> AttackSpec | None:
        located = self.files.named("attacks", name)
        if located is None:
            return None
        recipe = located.data.get("recipe")
        if recipe is None:
            self.problems.add(located.at(), "`recipe` is missing: the class name of a TextAttack recipe")
        elif recipes() and str(recipe) not in recipes():
            self.problems.add(located.at(("recipe",)), unknown("TextAttack recipe", recipe, recipes()))
        elif refused := refusal(str(recipe)):
            self.problems.add(located.at(("recipe",)), refused)
        return self._with_options(located, options)

    def _with_options(self, located: Positioned, options: Positioned) -> AttackSpec | None:
        """Return a recipe's spec, in which a suite's options replace the file's own.

        Where the file has no `needs`, they are read from the recipe's source.
        """
        recipe = recipes().get(str(located.data.get("recipe")))
        if recipe is not None and "needs" not in located.data:
            located = located.put(("needs",), Positioned(list(recipe.needs), {(): located.at()}))
        for key in options.data:
            if key in _ATTACK_FIELDS:
                located = located.put((key,), options.sub(key), options.key_at((key,)))
            elif _PARAMETER.fullmatch(key):
                located = located.put(("parameters", key), options.sub(key), options.key_at((key,)))
            else:
                written = "parameters of a recipe are written `Component.attribute`"
                message = f"{unknown('option', key, _ATTACK_FIELDS)} ({written})"
                self.problems.add(options.key_at((key,)), message)
        return check(AttackSpec, located, self.problems)

    def _module(self, name: str, path: Path, options: Positioned, place: str) -> AttackSpec | None:
        module = self.modules.open("attacks", name, place)
        if module is None:
            return None
        own = set(module.Options.model_fields)
        given = [key for key in options.data if key in own or key not in _ATTACK_FIELDS]
        made = check(module.Options, options.only(given), self.problems)
        data = {
            "name": path.stem,
            "title": module.TITLE,
            "reference": module.REFERENCE,
            "needs": list(self.modules.needs("attacks", name, made)),
            "parameters": made.model_dump(mode="json") if made is not None else {},
            "source": self.modules.found["attacks", name].source,
            "variant_source": made.variant_source if isinstance(made, Variants) else None,
            **{field: getattr(module, name) for name, field in _MAY_EXPORT.items() if hasattr(module, name)},
        }
        located = Positioned(data, {(): f"{shown(path)}:1:1"})
        for key in _ATTACK_FIELDS:
            if key in options.data and key not in own:  # else the module handles the option itself
                located = located.put((key,), options.sub(key), options.key_at((key,)))
        spec = check(AttackSpec, located, self.problems)
        return spec if made is not None else None


def asks_for_gradients(spec: AttackSpec, module: Module | None) -> bool:
    """Return whether an attack, whose Python file is `module` if it has one, asks the victim for gradients."""
    if module is not None:
        return bool(getattr(module.open(), "GRADIENTS", False))
    recipe = recipes().get(spec.recipe or "")
    return recipe is not None and recipe.gradients
