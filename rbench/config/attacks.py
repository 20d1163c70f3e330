"""Loads attacks: YAML files that name a TextAttack recipe, recipes named directly, and Python files."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from pathlib import Path
from typing import Any, NamedTuple

from rbench.attacks import AttackMethod
from rbench.config.check import validate
from rbench.config.code import ModuleFile, ModuleLoader
from rbench.config.files import RegistryFiles
from rbench.config.overrides import PlacedChoice
from rbench.config.positions import PositionedData, shown_path
from rbench.config.registry import nearest_names, unknown_message
from rbench.schema import KINDS, AttackSpec, ResourceKind, Variants

_ATTACK_FIELDS = (
    "max_words",
    "query_budget",
    "put_back",
    *(kind.goal for kind in KINDS.values() if kind.goal is not None),
)
_PARAMETER = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", re.ASCII)
_MAY_STATE = ("licence", "protect", "queries_per_word", "control")
"""Fields of AttackSpec that the class in a Python file may state."""


class AttackLoader:
    """Loads attacks into `found`, by label. `modules` opens the attacks that are Python files."""

    def __init__(self, files: RegistryFiles, modules: ModuleLoader) -> None:
        self.files, self.problems, self.modules = files, files.problems, modules
        self.found: dict[str, AttackSpec] = {}

    def load(self, choice: PlacedChoice) -> None:
        """Load an attack with a suite's options, under its label."""
        spec = self._find_spec(choice.name, choice.options, choice.place)
        if spec is not None:
            self.found[choice.label] = spec

    def _find_spec(self, name: str, options: PositionedData, place: str) -> AttackSpec | None:
        names = self.files.registry.names("attacks")
        if name in (*names, *self.files.registry.fragments("attacks")):
            path = self.files.path("attacks", name, place)
            if path is None:
                return None
            return (
                self._load_module(name, path, options, place)
                if path.suffix == ".py"
                else self._load_recipe(name, options)
            )
        if name in list_recipes():
            if refused := refusal_reason(name):
                self.problems.add(place, refused)
                return None
            data = {"name": name, "recipe": name, "title": f"TextAttack's {name}"}
            return self._with_options(PositionedData(data, place), options)
        message = unknown_message("attack", name, names)
        close = nearest_names(name, list_recipes())
        if close and not nearest_names(name, names):
            message = f'unknown attack "{name}"; did you mean the TextAttack recipe {" or ".join(close)}?'
        self.problems.add(place, message)
        return None

    def _load_recipe(self, name: str, options: PositionedData) -> AttackSpec | None:
        located = self.files.named("attacks", name)
        if located is None:
            return None
        recipe = located.data.get("recipe")
        if recipe is None:
            self.problems.add(located.at(), "`recipe` is missing: the class name of a TextAttack recipe")
        elif list_recipes() and str(recipe) not in list_recipes():
            self.problems.add(located.at(("recipe",)), unknown_message("TextAttack recipe", recipe, list_recipes()))
        elif refused := refusal_reason(str(recipe)):
            self.problems.add(located.at(("recipe",)), refused)
        return self._with_options(located, options)

    def _with_options(self, located: PositionedData, options: PositionedData) -> AttackSpec | None:
        """Return a recipe's spec, in which a suite's options replace the file's own.

        Where the file has no `needs`, they are read from the recipe's source.
        """
        recipe = list_recipes().get(str(located.data.get("recipe")))
        if recipe is not None and "needs" not in located.data:
            located = located.put(("needs",), PositionedData(list(recipe.needs), located.at()))
        for key in options.data:
            if key in _ATTACK_FIELDS:
                located = located.put((key,), options.sub(key), options.key_at((key,)))
            elif _PARAMETER.fullmatch(key):
                located = located.put(("parameters", key), options.sub(key), options.key_at((key,)))
            else:
                written = "parameters of a recipe are written `Component.attribute`"
                message = f"{unknown_message('option', key, _ATTACK_FIELDS)} ({written})"
                self.problems.add(options.key_at((key,)), message)
        return validate(AttackSpec, located, self.problems)

    def _load_module(self, name: str, path: Path, options: PositionedData, place: str) -> AttackSpec | None:
        method: AttackMethod[Any] | None = self.modules.open("attacks", name, place)
        if method is None:
            return None
        own_options = set(method.Options.model_fields)
        given = [key for key in options.data if key in own_options or key not in _ATTACK_FIELDS]
        checked_options = validate(method.Options, options.only(given), self.problems)
        data = {
            "name": path.stem,
            "title": method.said()["title"],
            "reference": [method.reference] if isinstance(method.reference, str) else list(method.reference),
            "needs": list(self.modules.needs("attacks", name, checked_options)),
            "parameters": checked_options.model_dump(mode="json") if checked_options is not None else {},
            "source": self.modules.found["attacks", name].source,
            "variant_source": checked_options.variant_source if isinstance(checked_options, Variants) else None,
            **{field: stated for field in _MAY_STATE if (stated := getattr(method, field))},
        }
        located = PositionedData(data, f"{shown_path(path)}:1:1")
        for key in _ATTACK_FIELDS:
            if key in options.data and key not in own_options:  # else the module handles the option itself
                located = located.put((key,), options.sub(key), options.key_at((key,)))
        spec = validate(AttackSpec, located, self.problems)
        return spec if checked_options is not None else None


def asks_for_gradients(spec: AttackSpec, module: ModuleFile | None) -> bool:
    """Return whether an attack, whose Python file is `module` if it has one, asks the victim for gradients."""
    if module is not None:
        method: AttackMethod[Any] = module.open()
        return method.uses_gradients(method.Options.model_validate(spec.parameters))
    recipe = list_recipes().get(spec.recipe or "")
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


class TextAttackRecipe(NamedTuple):
    """One recipe class, and the kinds of resources whose components its file mentions."""

    name: str
    needs: tuple[ResourceKind, ...]
    gradients: bool = False
    """Whether it asks the victim for gradients."""
    refused: str = ""
    """Why rbench cannot run it. Empty: it can."""


@functools.cache
def list_recipes() -> dict[str, TextAttackRecipe]:
    """Return all recipe classes of the installed TextAttack by name. It is empty where TextAttack is not installed.

    `needs` holds the resource of every component in `_NEEDS` that the source file mentions. So it may hold more than
    the recipe uses, but never less.
    """
    spec = importlib.util.find_spec("textattack")
    if spec is None or not spec.submodule_search_locations:
        return {}
    folder = Path(spec.submodule_search_locations[0]) / "attack_recipes"
    by_name: dict[str, TextAttackRecipe] = {}
    for path in sorted(folder.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        needs = tuple(sorted({kind for name, kind in _NEEDS.items() if name in mentioned}))
        for node in tree.body:
            named = [getattr(base, "id", getattr(base, "attr", "")) for base in getattr(node, "bases", ())]
            if isinstance(node, ast.ClassDef) and "AttackRecipe" in named:
                ranking_methods = (
                    part.value for part in ast.walk(node) if isinstance(part, ast.keyword) and part.arg == "wir_method"
                )
                gradients = any(isinstance(part, ast.Constant) and part.value == "gradient" for part in ranking_methods)
                refused = _REFUSED.get(node.name, "")
                by_name[node.name] = TextAttackRecipe(node.name, needs, gradients, refused)
    return by_name


def refusal_reason(recipe: str) -> str:
    """Return why rbench cannot run the recipe of this name. Empty: it can, or there is none of this name."""
    known_recipe = list_recipes().get(recipe)
    return (
        f"{recipe} cannot be run here: {known_recipe.refused}"
        if known_recipe is not None and known_recipe.refused
        else ""
    )
