"""Loads attacks: YAML files that name a TextAttack recipe, recipes named directly, and Python files."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from pathlib import Path
from typing import NamedTuple

from rbench.config.check import check
from rbench.config.code import Module, Modules
from rbench.config.files import Files
from rbench.config.overrides import Chosen
from rbench.config.positions import Positioned, shown
from rbench.config.registry import nearest, unknown
from rbench.schema import KINDS, AttackSpec, ResourceKind, Variants

_ATTACK_FIELDS = ("max_words", "query_budget", *(kind.goal for kind in KINDS.values() if kind.goal is not None))
_PARAMETER = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", re.ASCII)
_MAY_EXPORT = ("licence", "protect", "queries_per_word", "control")
"""Fields of AttackSpec that a Python file sets by exports in capitals: `LICENCE` ..."""


class Attacks:
    """Loads attacks into `found`, by label. `modules` opens the attacks that are Python files."""

    def __init__(self, files: Files, modules: Modules) -> None:
        self.files, self.problems, self.modules = files, files.problems, modules
        self.found: dict[str, AttackSpec] = {}

    def load(self, choice: Chosen) -> None:
        """Load an attack with a suite's options, under its label."""
        spec = self._spec(choice.name, choice.options, choice.place)
        if spec is not None:
            self.found[choice.label] = spec

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
            return self._with_options(Positioned(data, place), options)
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
            located = located.put(("needs",), Positioned(list(recipe.needs), located.at()))
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
            "reference": [module.REFERENCE] if isinstance(module.REFERENCE, str) else list(module.REFERENCE),
            "needs": list(self.modules.needs("attacks", name, made)),
            "parameters": made.model_dump(mode="json") if made is not None else {},
            "source": self.modules.found["attacks", name].source,
            "variant_source": made.variant_source if isinstance(made, Variants) else None,
            **{field: getattr(module, field.upper()) for field in _MAY_EXPORT if hasattr(module, field.upper())},
        }
        located = Positioned(data, f"{shown(path)}:1:1")
        for key in _ATTACK_FIELDS:
            if key in options.data and key not in own:  # else the module handles the option itself
                located = located.put((key,), options.sub(key), options.key_at((key,)))
        spec = check(AttackSpec, located, self.problems)
        return spec if made is not None else None


def asks_for_gradients(spec: AttackSpec, module: Module | None) -> bool:
    """Return whether an attack, whose Python file is `module` if it has one, asks the victim for gradients."""
    if module is not None:
        says = getattr(module.open(), "GRADIENTS", False)
        return bool(says(spec.parameters) if callable(says) else says)
    recipe = recipes().get(spec.recipe or "")
    return recipe is not None and recipe.gradients


_NEEDS: dict[str, ResourceKind] = {
    "WordSwapEmbedding": "word_vectors",
    "WordEmbeddingDistance": "word_vectors",
    "WordEmbedding": "word_vectors",
    "WordSwapWordNet": "synonyms",
    "WordSwapMaskedLM": "masked_lm",
    "WordInsertionMaskedLM": "masked_lm",
    "WordMergeMaskedLM": "masked_lm",
    "UniversalSentenceEncoder": "sentence_encoder",
    "MultilingualUniversalSentenceEncoder": "sentence_encoder",
    "SBERT": "sentence_encoder",
    "BERT": "sentence_encoder",
    "ThoughtVector": "sentence_encoder",
    "InferSent": "sentence_encoder",
    "PartOfSpeech": "pos_tagger",
    "StopwordModification": "stopwords",
}
"""The resource that each TextAttack component uses."""


_LACKING = {
    "CheckList2020": "flair's tagger of names and places (ner-multi-fast)",
    "ChineseRecipe": "HowNet (OpenHowNet) and a Chinese masked LM",
    "CLARE2020": "flair's tagger of parts of speech (upos-fast), which finds the words to merge",
    "FasterGeneticAlgorithmJia2019": "TextAttack's language model learning-to-write",
    "FrenchRecipe": "a French WordNet, and flair's tagger of French names (ner-french)",
    "GeneticAlgorithmAlzantot2018": "Google's language model of a billion words, for TensorFlow",
    "Kuleshov2017": "the language model gpt2 and thought vectors",
    "PSOZang2020": "HowNet's substitutes of words (TextAttack's word_candidates_sense.pkl)",
    "SpanishRecipe": "a Spanish WordNet, and flair's tagger of names (ner-multi-fast)",
}
"""What a recipe of TextAttack 0.3.11 needs, and no kind of resource stands for."""

_REFUSED = {
    **{
        name: f"it needs {what}, and rbench has no such resource. TextAttack itself downloads it, and runs the recipe "
        "on a victim that rbench.textattack_wrapper returns"
        for name, what in _LACKING.items()
    },
    "BadCharacters2021": "it leaves its goal open; `characters` is its search with the goal of misclassification",
    "HotFlipEbrahimi2017": "TextAttack reads its gradients from TextAttack's own LSTM classifiers alone",
    "InputReductionFeng2018": "its goal is a shorter text with the same label, not misclassification",
    "MorpheusTan2020": "it attacks translation, not classification",
    "Seq2SickCheng2018BlackBox": "it attacks translation, not classification",
}
"""Why rbench cannot run a recipe, with the remedy where there is one."""


class Recipe(NamedTuple):
    """One recipe class, and the kinds of resources whose components its file mentions."""

    name: str
    needs: tuple[ResourceKind, ...]
    gradients: bool = False
    """Whether it asks the victim for gradients."""
    refused: str = ""
    """Why rbench cannot run it. Empty: it can."""


@functools.cache
def recipes() -> dict[str, Recipe]:
    """Return all recipe classes of the installed TextAttack by name. It is empty where TextAttack is not installed.

    `needs` holds the resource of every component in `_NEEDS` that the source file mentions. So it may hold more than
    the recipe uses, but never less.
    """
    spec = importlib.util.find_spec("textattack")
    if spec is None or not spec.submodule_search_locations:
        return {}
    folder = Path(spec.submodule_search_locations[0]) / "attack_recipes"
    found: dict[str, Recipe] = {}
    for path in sorted(folder.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        needs = tuple(sorted({kind for name, kind in _NEEDS.items() if name in mentioned}))
        for node in tree.body:
            named = [getattr(base, "id", getattr(base, "attr", "")) for base in getattr(node, "bases", ())]
            if isinstance(node, ast.ClassDef) and "AttackRecipe" in named:
                ranked = (
                    one.value for one in ast.walk(node) if isinstance(one, ast.keyword) and one.arg == "wir_method"
                )
                gradients = any(isinstance(one, ast.Constant) and one.value == "gradient" for one in ranked)
                refused = _REFUSED.get(node.name, "")
                found[node.name] = Recipe(node.name, needs, gradients, refused)
    return found


def refusal(recipe: str) -> str:
    """Return why rbench cannot run the recipe of this name. Empty: it can, or there is none of this name."""
    found = recipes().get(recipe)
    return f"{recipe} cannot be run here: {found.refused}" if found is not None and found.refused else ""
