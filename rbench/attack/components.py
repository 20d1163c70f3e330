"""Subclasses of TextAttack's components that take words, tags and vectors from rbench's resources.

Each has the name of its TextAttack class and the same semantics. Two things differ. Words, tags and vectors come from
the resources of the `binding` in which a component is built. And nothing is computed twice: sentence vectors and tags
are remembered by text as long as the resources live, and texts too short for the similarity window are not encoded.
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
"""encoders.vectors is not listed, because only attacks with word vectors use it."""

current: ContextVar[Any] = ContextVar("current")
"""The resources for components that are built now; set by `binding`."""


# ------------------------------------------------------------------------------------------------------- word vectors


class Embedding(WordEmbedding):  # type: ignore[misc]
    """The resource's word vectors, in place of TextAttack's counter-fitted ones."""

    def __init__(self, vectors: WordVectors) -> None:
        super().__init__(vectors.matrix, vectors.index, vectors.words)
        self._vectors, self._rows = vectors, torch.from_numpy(vectors.matrix)

    def nearest_neighbours(self, index: int | str, topn: int) -> list[int]:
        """Return the indices of the `topn` nearest words, nearest first.

        TextAttack's own cache ignores `topn`, so that a second call may get the result of another `topn`. This method
        does not.
        """
        place = self._vectors.index[index] if isinstance(index, str) else int(index)
        neighbours: list[int] = self._vectors.nearest_ids(place, topn).tolist()
        return neighbours

    def get_cos_sim(self, a: int | str, b: int | str) -> float:
        """Return the cosine of two words, computed as TextAttack does, and remember it."""
        first, second = sorted(self._vectors.index[w] if isinstance(w, str) else int(w) for w in (a, b))
        known = self._cos_sim_mat[first].get(second)
        if known is None:
            known = torch.cosine_similarity(self._rows[first], self._rows[second], dim=0).item()
            self._cos_sim_mat[first][second] = known
        return float(known)


_embeddings: weakref.WeakKeyDictionary[WordVectors, Embedding] = weakref.WeakKeyDictionary()


def embedding() -> Embedding:
    """Return the bound word vectors. Components with the same vectors share one object."""
    vectors = current.get().word_vectors
    if vectors not in _embeddings:
        _embeddings[vectors] = Embedding(vectors)
    return _embeddings[vectors]


# ---------------------------------------------------------------------------------------------------------- lexical


class WordSwapWordNet(_WordSwapWordNet):  # type: ignore[misc]
    """Takes synonyms of one word from the bound resource, as TextAttack does from WordNet."""

    def __init__(self, language: str = "eng") -> None:
        if language != "eng":
            raise ResourceError(f"WordSwapWordNet: rbench has English synonyms, and the recipe asks for {language!r}")
        self.language, self._synonyms = language, current.get().synonyms
        self._known: dict[str, list[str]] = {}

    def _get_replacement_words(self, word: str, random: bool = False) -> list[str]:
        if word not in self._known:
            self._known[word] = [other for other in self._synonyms(word) if other != word and is_one_word(other)]
        return self._known[word]


LONGEST = 1000
"""Letters of the longest word of which each letter is swapped. No language has one so long; hostile texts do."""


class WordSwapHomoglyphSwap(_WordSwapHomoglyphSwap):  # type: ignore[misc]
    """TextAttack's swap, which also works if TextAttack was installed from its wheel.

    The constructor reads `shared/intentional_homoglyphs.txt` last, and the wheel of 0.3.11 lacks that file. Only the
    differential-evolution search of BadCharacters needs it; word swaps use another table.
    """

    def __init__(self, random_one: bool = False, **kwargs: Any) -> None:
        try:
            super().__init__(random_one=random_one, **kwargs)
        except FileNotFoundError:
            self.homos_intentional: dict[str, list[str]] = {}

    def _get_replacement_words(self, word: str) -> list[str]:
        """Return a word for each letter that can be swapped; none for a word of more than LONGEST letters.

        So many words, each as long as that one, would fill the memory: a megabyte of letters needs a terabyte.
        """
        return super()._get_replacement_words(word) if len(word) <= LONGEST else []


class StopwordModification(_StopwordModification):  # type: ignore[misc]
    """Uses the bound stop words, unless the recipe brings its own."""

    def __init__(self, stopwords: Sequence[str] | None = None, language: str = "english") -> None:
        if stopwords is None and language != "english":
            raise ResourceError(f"StopwordModification: rbench has English stop words, not {language!r}")
        super().__init__(stopwords=current.get().stopwords if stopwords is None else stopwords)


class PartOfSpeech(_PartOfSpeech):  # type: ignore[misc]
    """Takes tags from the bound tagger, which remembers them from example to example."""

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
                "PartOfSpeech: rbench tags with the resource pos_tagger and the universal tag set; the recipe asks for "
                f"{tagger_type}, {tagset}, {language_nltk}"
            )
        super().__init__(allow_verb_noun_swap=allow_verb_noun_swap, compare_against_original=compare_against_original)
        self._pos_tag = current.get().pos_tag

    def clear_cache(self) -> None:
        """Do nothing: the resource keeps the tags, and they do not depend on the example."""

    def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:
        # Chinese text is segmented again after a replacement, so the modified index may no longer be a word.
        modified = transformed_text.attack_attrs["newly_modified_indices"]
        if any(i >= min(transformed_text.num_words, reference_text.num_words) for i in modified):
            return False
        return bool(super()._check_constraint(transformed_text, reference_text))

    def _get_pos(self, before_ctx: list[str], word: str, after_ctx: list[str]) -> str:
        words = [*before_ctx, word, *after_ctx]
        tag: str = self._pos_tag(words, words.index(word))  # the first occurrence in the window, as TextAttack
        return tag


# ------------------------------------------------------------------------------------------------------- similarity


class _BoundSimilarity(_SentenceEncoder):  # type: ignore[misc]
    """Compares texts by the bound sentence encoder, with TextAttack's windows, metrics and thresholds."""

    def encode(self, sentences: Sequence[str]) -> torch.Tensor:
        """Return vectors (n, dim). The resource remembers them by text."""
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
    """TextAttack's USE constraint with the bound sentence encoder."""

    def __init__(self, threshold: float = 0.8, large: bool = False, metric: str = "angular", **kwargs: Any) -> None:
        _SentenceEncoder.__init__(self, threshold=threshold, metric=metric, **kwargs)
        self._sentences = current.get().sentence_encoder


class MultilingualUniversalSentenceEncoder(UniversalSentenceEncoder, _MultilingualUSE):  # type: ignore[misc]
    """TextAttack's multilingual USE constraint with the bound sentence encoder."""


class SBERT(_BoundSimilarity, _SBERT):  # type: ignore[misc]
    """TextAttack's SBERT constraint with the bound sentence encoder. The recipe's model name is ignored."""

    def __init__(self, threshold: float = 0.7, metric: str = "cosine", model_name: str = "", **kwargs: Any) -> None:
        _SentenceEncoder.__init__(self, threshold=threshold, metric=metric, **kwargs)
        self._sentences = current.get().sentence_encoder
