"""TextAttack's components that need a resource, as subclasses of the same names that take it from ours.

Semantics are upstream's, line by line; what differs is where words, tags and vectors come from, and that nothing is
computed twice: sentence vectors and tags are remembered by text for as long as the resources live, texts too short for
the similarity window are never encoded. The resources are those of the `binding` in which a component is built.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import torch
from textattack.constraints.grammaticality import PartOfSpeech as _PartOfSpeech
from textattack.constraints.pre_transformation import StopwordModification as _StopwordModification
from textattack.constraints.semantics.sentence_encoders import SBERT as _SBERT
from textattack.constraints.semantics.sentence_encoders import MultilingualUniversalSentenceEncoder as _MultilingualUSE
from textattack.constraints.semantics.sentence_encoders import SentenceEncoder as _SentenceEncoder
from textattack.constraints.semantics.sentence_encoders import UniversalSentenceEncoder as _USE
from textattack.shared import WordEmbedding
from textattack.shared.utils import is_one_word
from textattack.transformations import WordSwapHomoglyphSwap as _WordSwapHomoglyphSwap
from textattack.transformations import WordSwapWordNet as _WordSwapWordNet

from rbench.encoders.vectors import WordVectors
from rbench.errors import ResourceError

VERSION = 1
USES = ()
"""Word vectors are used by those attacks alone that need them."""

current: ContextVar[Any] = ContextVar("current")
"""The resources that components built now are bound to."""


# ------------------------------------------------------------------------------------------------------- word vectors


class Embedding(WordEmbedding):  # type: ignore[misc]
    """Our word vectors in the place of TextAttack's counter-fitted ones."""

    def __init__(self, vectors: WordVectors) -> None:
        super().__init__(vectors.matrix, vectors.index, vectors.words)
        self._vectors, self._rows = vectors, torch.from_numpy(vectors.matrix)

    def nearest_neighbours(self, index: int | str, topn: int) -> list[int]:
        """Nearest first; upstream's cache forgets `topn`, so that its second question may get the first's answer."""
        place = self._vectors.index[index] if isinstance(index, str) else int(index)
        neighbours: list[int] = self._vectors.nearest_ids(place, topn).tolist()
        return neighbours

    def get_cos_sim(self, a: int | str, b: int | str) -> float:
        """Cosine of two words, computed as upstream does and kept."""
        first, second = sorted(self._vectors.index[w] if isinstance(w, str) else int(w) for w in (a, b))
        known = self._cos_sim_mat[first].get(second)
        if known is None:
            known = torch.cosine_similarity(self._rows[first], self._rows[second], dim=0).item()
            self._cos_sim_mat[first][second] = known
        return float(known)


_embeddings: weakref.WeakKeyDictionary[WordVectors, Embedding] = weakref.WeakKeyDictionary()


def embedding() -> Embedding:
    """The bound word vectors, one object for all components that share them."""
    vectors = current.get().word_vectors
    if vectors not in _embeddings:
        _embeddings[vectors] = Embedding(vectors)
    return _embeddings[vectors]


# ---------------------------------------------------------------------------------------------------------- lexical


class WordSwapWordNet(_WordSwapWordNet):  # type: ignore[misc]
    """Synonyms from the bound resource: one-word ones, as upstream."""

    def __init__(self, language: str = "eng") -> None:
        if language != "eng":
            raise ResourceError(f"WordSwapWordNet: synonyms are English here, and the recipe asks for {language!r}")
        self.language, self._synonyms = language, current.get().synonyms
        self._known: dict[str, list[str]] = {}

    def _get_replacement_words(self, word: str, random: bool = False) -> list[str]:
        if word not in self._known:
            self._known[word] = [other for other in self._synonyms(word) if other != word and is_one_word(other)]
        return self._known[word]


class WordSwapHomoglyphSwap(_WordSwapHomoglyphSwap):  # type: ignore[misc]
    """Upstream's swap, also where TextAttack was installed from its wheel.

    The constructor ends by reading `shared/intentional_homoglyphs.txt`, which the wheel of 0.3.11 leaves out. Only the
    differential-evolution search of BadCharacters reads that table; word swaps use another.
    """

    def __init__(self, random_one: bool = False, **kwargs: Any) -> None:
        try:
            super().__init__(random_one=random_one, **kwargs)
        except FileNotFoundError:
            self.homos_intentional: dict[str, list[str]] = {}


class StopwordModification(_StopwordModification):  # type: ignore[misc]
    """The bound stop words, where the recipe brings none of its own."""

    def __init__(self, stopwords: Sequence[str] | None = None, language: str = "english") -> None:
        if stopwords is None and language != "english":
            raise ResourceError(f"StopwordModification: stop words are English here, not {language!r}")
        super().__init__(stopwords=current.get().stopwords if stopwords is None else stopwords)


class PartOfSpeech(_PartOfSpeech):  # type: ignore[misc]
    """Tags from the bound tagger, remembered over examples."""

    def __init__(
        self,
        tagger_type: str = "nltk",
        tagset: str = "universal",
        allow_verb_noun_swap: bool = True,
        compare_against_original: bool = True,
        language_nltk: str = "eng",
        language_stanza: str = "en",
    ) -> None:
        if (tagger_type, tagset, language_nltk) != ("nltk", "universal", "eng"):
            raise ResourceError(
                "PartOfSpeech: the tagger is the resource pos_tagger, with the universal tag set; the recipe asks for "
                f"{tagger_type}, {tagset}, {language_nltk}"
            )
        super().__init__(allow_verb_noun_swap=allow_verb_noun_swap, compare_against_original=compare_against_original)
        self._pos_tag = current.get().pos_tag

    def clear_cache(self) -> None:
        """Nothing: the resource remembers tags, and they do not depend on the example."""

    def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:
        # Chinese characters are segmented anew with what stands for a word: it may be none of the words any more.
        modified = transformed_text.attack_attrs["newly_modified_indices"]
        if any(i >= min(transformed_text.num_words, reference_text.num_words) for i in modified):
            return False
        return bool(super()._check_constraint(transformed_text, reference_text))

    def _get_pos(self, before_ctx: list[str], word: str, after_ctx: list[str]) -> str:
        words = [*before_ctx, word, *after_ctx]
        tag: str = self._pos_tag(words, words.index(word))  # upstream: the first occurrence in the window
        return tag


# ------------------------------------------------------------------------------------------------------- similarity


class _BoundSimilarity(_SentenceEncoder):  # type: ignore[misc]
    """The bound sentence encoder with upstream's windows, metrics and thresholds."""

    def encode(self, sentences: Sequence[str]) -> torch.Tensor:
        """Vectors (n, dim), remembered by text."""
        vectors: torch.Tensor = self._sentences.vectors(sentences)
        return vectors

    def _score_list(self, starting_text: Any, transformed_texts: Sequence[Any]) -> torch.Tensor:
        windows: dict[int, str] = {}
        before, after = [], []
        for text in transformed_texts:
            try:
                place = next(iter(text.attack_attrs["newly_modified_indices"]))
            except KeyError as error:
                raise KeyError("a similarity constraint needs to know which word was modified") from error
            if place not in windows:
                windows[place] = starting_text.text_window_around_index(place, self.window_size)
            before.append(windows[place])
            after.append(text.text_window_around_index(place, self.window_size))
        vectors = self.encode([*before, *after])
        scores: torch.Tensor = self.sim_metric(vectors[: len(before)], vectors[len(before) :])
        return scores

    def _check_constraint_many(self, transformed_texts: Sequence[Any], reference_text: Any) -> list[Any]:
        texts = list(transformed_texts)
        scores = torch.ones(len(texts))
        long = [i for i, text in enumerate(texts) if not self._too_short(text)]
        if long:
            scores[long] = self._score_list(reference_text, [texts[i] for i in long])
        for text, score in zip(texts, scores.tolist(), strict=True):
            text.attack_attrs["similarity_score"] = score
        return [text for text, good in zip(texts, (scores >= self.threshold).tolist(), strict=True) if good]

    def _too_short(self, text: Any) -> bool:
        return bool(self.skip_text_shorter_than_window and len(text.words) < self.window_size)


class UniversalSentenceEncoder(_BoundSimilarity, _USE):  # type: ignore[misc]
    """The bound sentence encoder behind upstream's USE constraint."""

    def __init__(self, threshold: float = 0.8, large: bool = False, metric: str = "angular", **kwargs: Any) -> None:
        _SentenceEncoder.__init__(self, threshold=threshold, metric=metric, **kwargs)
        self._sentences = current.get().sentence_encoder


class MultilingualUniversalSentenceEncoder(_BoundSimilarity, _MultilingualUSE):  # type: ignore[misc]
    """The bound sentence encoder behind upstream's multilingual USE constraint."""

    def __init__(self, threshold: float = 0.8, large: bool = False, metric: str = "angular", **kwargs: Any) -> None:
        _SentenceEncoder.__init__(self, threshold=threshold, metric=metric, **kwargs)
        self._sentences = current.get().sentence_encoder


class SBERT(_BoundSimilarity, _SBERT):  # type: ignore[misc]
    """The bound sentence encoder behind upstream's SBERT constraint; the model's name in the recipe does not count."""

    def __init__(self, threshold: float = 0.7, metric: str = "cosine", model_name: str = "", **kwargs: Any) -> None:
        _SentenceEncoder.__init__(self, threshold=threshold, metric=metric, **kwargs)
        self._sentences = current.get().sentence_encoder
