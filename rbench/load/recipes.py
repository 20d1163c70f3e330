"""TextAttack's recipes as its source files tell them: class names and what stands behind them, without importing it.

`import textattack` takes seconds and pulls in torch; a suite that names a recipe class is checked in milliseconds here.
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
"""Which resource a TextAttack component calls for."""


class Recipe(NamedTuple):
    """One recipe class, and every resource that its file mentions."""

    name: str
    needs: tuple[ResourceKind, ...]


@functools.cache
def recipes() -> dict[str, Recipe]:
    """All recipe classes of the installed TextAttack by name; empty where TextAttack is not installed.

    `needs` is read off the source file, so it may name more than the recipe uses, never less of what is in `_NEEDS`.
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
                found[node.name] = Recipe(node.name, needs)
    return found


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
