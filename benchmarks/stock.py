"""Runs unmodified TextAttack with rbench's resources, for comparison: its own wrapper, constraints and caches.

Only this module sets up stock behaviour. It has none of rbench's speedups: TextAttack's constructors get rbench's word
vectors, masked LM, sentence encoder, tags and stop words, and TextAttack's code does everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import nltk
import numpy as np
import transformers

from rbench.recipes._textattack import swap_attribute
from rbench.recipes.build import find_protected_columns, recipe_class
from rbench.schema import AttackSpec, TaskSpec

# isort: split
from textattack import Attack
from textattack.constraints.pre_transformation import InputColumnModification, StopwordModification
from textattack.constraints.semantics.sentence_encoders import UniversalSentenceEncoder
from textattack.models.wrappers import HuggingFaceModelWrapper
from textattack.shared import WordEmbedding
from textattack.transformations import WordSwapHomoglyphSwap, WordSwapWordNet


class StockWrapper(HuggingFaceModelWrapper):
    """TextAttack's own wrapper (inputs padded to the tokenizer's limit), without its check of the model's class."""

    def __init__(self, classifier: Any, max_length: int) -> None:
        self.model, self.tokenizer, self.max_length = classifier.eval(), classifier.tokenizer, None
        self.tokenizer.model_max_length = max_length


class Neighbours:
    """Table of nearest neighbours as TextAttack's vectors have it: row i holds i itself, then its nearest words."""

    def __init__(self, vectors: Any) -> None:
        self.vectors = vectors

    def __getitem__(self, index: int) -> Any:
        return np.concatenate([[index], self.vectors.nearest_ids(int(index), 50)])


@contextmanager
def stock(resources: Any) -> Iterator[None]:
    """Make TextAttack's components use `resources` as their own while they are built and run inside the block."""
    with ExitStack() as stack:
        for owner, name, value in _stand_ins(resources):
            stack.enter_context(swap_attribute(owner, name, value))
        yield


def _stand_ins(resources: Any) -> Iterator[tuple[Any, str, Any]]:
    def embedding() -> WordEmbedding:
        vectors = resources.word_vectors
        return WordEmbedding(vectors.matrix, vectors.index, vectors.words, Neighbours(vectors))

    yield WordEmbedding, "counterfitted_GLOVE_embedding", staticmethod(embedding)
    yield transformers.AutoModelForMaskedLM, "from_pretrained", lambda *a, **k: resources.masked_lm.model
    yield transformers.AutoTokenizer, "from_pretrained", lambda *a, **k: resources.masked_lm.tokenizer
    yield UniversalSentenceEncoder, "encode", lambda self, texts: resources.sentence_encoder.encode(texts)
    yield nltk, "download", lambda *a, **k: True
    if resources.resource_set.synonyms is not None and resources.resource_set.synonyms.kind != "wordnet":
        yield WordSwapWordNet, "__init__", lambda self: None
        yield WordSwapWordNet, "_get_replacement_words", lambda self, word: resources.synonyms(word)
    if resources.resource_set.pos_tagger is not None and resources.resource_set.pos_tagger.kind != "nltk":
        yield nltk, "pos_tag", lambda words, tagset, lang: resources.pos_tags(words)
    if resources.resource_set.stopwords is not None and resources.resource_set.stopwords.kind != "nltk":
        original = StopwordModification.__init__
        yield (
            StopwordModification,
            "__init__",
            lambda self, stopwords=None: original(self, resources.stopwords if stopwords is None else stopwords),
        )
    homoglyphs = WordSwapHomoglyphSwap.__init__

    def without_table(self: Any, *args: Any, **kwargs: Any) -> None:
        """Replace a table that the 0.3.11 wheel lacks. The constructor reads it last, and word swaps never use it."""
        try:
            homoglyphs(self, *args, **kwargs)
        except FileNotFoundError:
            self.homos_intentional = {}

    yield WordSwapHomoglyphSwap, "__init__", without_table


def build_stock(spec: AttackSpec, classifier: Any, max_length: int, resources: Any, task: TaskSpec) -> Attack:
    """Build the recipe of `spec` as TextAttack does, and protect the same columns as rbench."""
    resources.load(spec.needs)
    with stock(resources):
        attack = recipe_class(spec).build(StockWrapper(classifier, max_length))
    columns = find_protected_columns(spec, task)
    if columns:
        attack.pre_transformation_constraints.append(InputColumnModification(list(task.columns), set(columns)))
    return attack
