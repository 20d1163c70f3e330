"""Reads TextAttack's recipe classes and the resources that they need from its source files, without importing it.

`import textattack` takes seconds and loads torch. Reading the source checks a suite's recipes in milliseconds.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from pathlib import Path
from typing import NamedTuple

from rbench.spec import ResourceKind

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


_GRADIENTS = ("WordSwapGradientBased",)
"""TextAttack's components that need gradients."""


class Recipe(NamedTuple):
    """One recipe class, and the kinds of resources whose components its file mentions."""

    name: str
    needs: tuple[ResourceKind, ...]
    gradients: bool = False
    """Whether it asks the victim for gradients."""


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
            if isinstance(node, ast.ClassDef) and any(_name(base) == "AttackRecipe" for base in node.bases):
                found[node.name] = Recipe(node.name, needs, _asks_for_gradients(node))
    return found


def _asks_for_gradients(recipe: ast.ClassDef) -> bool:
    """Return whether a recipe uses a component of `_GRADIENTS`, or ranks words by gradients (`wir_method`)."""
    ranked = (node.value for node in ast.walk(recipe) if isinstance(node, ast.keyword) and node.arg == "wir_method")
    return any(isinstance(node, ast.Name) and node.id in _GRADIENTS for node in ast.walk(recipe)) or any(
        isinstance(value, ast.Constant) and value.value == "gradient" for value in ranked
    )


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
