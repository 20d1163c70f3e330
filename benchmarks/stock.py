"""TextAttack as it is: its own victim wrapper, constraints, transformations and caches, over the same resources.

The one place where stock behaviour is set up for comparison. Nothing of rbench's waste removal is in here; TextAttack's
constructors are handed our word vectors, masked LM, sentence encoder, tags and stop words, and its code does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import nltk
import numpy as np
import transformers

from rbench.attack._textattack import swapped
from rbench.attack.build import recipe_class
from rbench.attack.constraints import protected_columns
from rbench.spec import AttackSpec, TaskSpec

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
    """The table of nearest neighbours that TextAttack's vectors come with: row i is i itself, then the nearest."""

    def __init__(self, vectors: Any) -> None:
        self.vectors = vectors

    def __getitem__(self, index: int) -> Any:
        return np.concatenate([[index], self.vectors.nearest_ids(int(index), 50)])


@contextmanager
def stock(resources: Any) -> Iterator[None]:
    """Inside, TextAttack's components, built and run, find `resources` where they look for their own."""
    with ExitStack() as stack:
        for owner, name, value in _stand_ins(resources):
            stack.enter_context(swapped(owner, name, value))
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
    if resources.profile.synonyms is not None and resources.profile.synonyms.kind != "wordnet":
        yield WordSwapWordNet, "__init__", lambda self: None
        yield WordSwapWordNet, "_get_replacement_words", lambda self, word: resources.synonyms(word)
    if resources.profile.pos_tagger is not None and resources.profile.pos_tagger.kind != "nltk":
        yield nltk, "pos_tag", lambda words, tagset, lang: resources.pos_tags(words)
    if resources.profile.stopwords is not None and resources.profile.stopwords.kind != "nltk":
        original = StopwordModification.__init__
        yield (
            StopwordModification,
            "__init__",
            lambda self, stopwords=None: original(self, resources.stopwords if stopwords is None else stopwords),
        )
    homoglyphs = WordSwapHomoglyphSwap.__init__

    def without_table(self: Any, *args: Any, **kwargs: Any) -> None:
        """The wheel of 0.3.11 leaves out a table that the constructor reads last and word swaps never use."""
        try:
            homoglyphs(self, *args, **kwargs)
        except FileNotFoundError:
            self.homos_intentional = {}

    yield WordSwapHomoglyphSwap, "__init__", without_table


def build_stock(spec: AttackSpec, classifier: Any, max_length: int, resources: Any, task: TaskSpec) -> Attack:
    """The recipe of `spec` as TextAttack builds it, with the columns protected that rbench protects."""
    resources.load(spec.needs)
    with stock(resources):
        attack = recipe_class(spec).build(StockWrapper(classifier, max_length))
    columns = protected_columns(spec, task)
    if columns:
        attack.pre_transformation_constraints.append(InputColumnModification(list(task.columns), set(columns)))
    return attack
