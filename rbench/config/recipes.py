"""Reads TextAttack's recipe classes and the resources that they need from its source files, without importing it.

`import textattack` takes seconds and loads torch. Reading the source checks a suite's recipes in milliseconds.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from pathlib import Path
from typing import NamedTuple

from rbench.schema import ResourceKind

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
    "BadCharacters2021": "its goal is left open, and rbench has no option that chooses one",
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
            if isinstance(node, ast.ClassDef) and any(_name(base) == "AttackRecipe" for base in node.bases):
                refused = _REFUSED.get(node.name, "")
                found[node.name] = Recipe(node.name, needs, _asks_for_gradients(node), refused)
    return found


def refusal(recipe: str) -> str:
    """Return why rbench cannot run the recipe of this name. Empty: it can, or there is none of this name."""
    found = recipes().get(recipe)
    return f"{recipe} cannot be run here: {found.refused}" if found is not None and found.refused else ""


def _asks_for_gradients(recipe: ast.ClassDef) -> bool:
    """Return whether a recipe ranks words by gradients (`wir_method`)."""
    ranked = (node.value for node in ast.walk(recipe) if isinstance(node, ast.keyword) and node.arg == "wir_method")
    return any(isinstance(value, ast.Constant) and value.value == "gradient" for value in ranked)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
