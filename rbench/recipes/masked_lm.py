"""TextAttack's masked-LM word swap (BAE, BERT-Attack), with the same replacements and less arithmetic.

TextAttack pads every text to 512 tokens, computes and sorts the logits of the whole vocabulary at every position, and
repeats this for texts that it has seen. Here a text is read once, without padding, and logits are computed only at the
positions that are needed. For a word of n pieces TextAttack's BERT-Attack scores and sorts all K^n combinations, then
discards the order and returns the first K that are one word. Here the search stops after those K.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from textattack.shared import utils
from textattack.transformations import WordSwapMaskedLM as _WordSwapMaskedLM
from torch.nn import Module

from rbench.recipes.cached import CHINESE, split_words

if TYPE_CHECKING:
    from rbench.words.resources.masked_lm import MaskedLM, MaskQuestion, RankedTokens

VERSION = 1

current_resources: ContextVar[Any] = ContextVar("current")
"""The resources for components that are built now; set by `rbench.recipes.binding.binding`."""

MAX_PIECES = 12
"""Number of pieces of a word that are combined when `piece_candidates` or `max_combinations` is set. Public copies of
BERT-Attack's code have this limit."""


class WordSwapMaskedLM(_WordSwapMaskedLM):  # type: ignore[misc]
    """TextAttack's swap with the bound masked LM, and two more parameters for the published BERT-Attack.

    With both at None, words of several pieces are handled as TextAttack does. Otherwise only the first MAX_PIECES
    pieces are combined, and the tokenizer joins them.

    Args:
        piece_candidates: for a word of several pieces, the number of predictions for each piece; None:
            `max_candidates`.
        max_combinations: number of combinations to look at; None: as many as it takes to find `max_candidates` words.
    """

    def __init__(
        self, *, piece_candidates: int | None = None, max_combinations: int | None = None, **kwargs: Any
    ) -> None:
        from rbench.encoders.reading import find_longest_input

        lm = current_resources.get().masked_lm
        super().__init__(**(kwargs | {"masked_language_model": lm.model, "tokenizer": lm.tokenizer}))
        self._type = self._language_model.config.model_type
        utils.check_if_subword("a", self._type)  # of a model whose pieces it cannot read it says so now
        asked_length: int = kwargs.get("max_length", 512)
        # Longer inputs raise an index error in TextAttack. A dry build has no network.
        has_network = isinstance(lm.model, Module)
        self.max_length: int = find_longest_input(lm.model, lm.tokenizer, asked_length) if has_network else asked_length
        self.piece_candidates, self.max_combinations = piece_candidates, max_combinations
        self._lm: MaskedLM = lm
        self._words: dict[tuple[int, bool], str | None] = {}
        self._pieces: dict[str, int] = {}

    # ---------------------------------------------------------------------------------------------------------- BAE

    def _bae_replacement_words(self, current_text: Any, indices_to_modify: Iterable[int]) -> list[list[str]]:
        mask = self._lm_tokenizer.mask_token
        texts = [current_text.replace_word_at_index(index, mask).text for index in indices_to_modify]
        keys = [("bae", self.max_candidates, self.min_confidence, self.max_length, text) for text in texts]
        return list(map(list, self._lm.memo.filled(keys, self._bae_words)))

    def _bae_words(self, keys: list[tuple[Any, ...]]) -> list[list[str]]:
        from rbench.words.resources.masked_lm import MaskQuestion

        texts = [key[-1] for key in keys]
        mask_id = self._lm_tokenizer.mask_token_id
        rows = dict(zip(texts, self._lm.rows(texts, self.max_length), strict=True))
        places = {text: row[0].index(mask_id) for text, row in rows.items() if mask_id in row[0]}
        # Word pieces and signs are passed over, so more predictions are asked for than are kept. Where these are too
        # few after all, `_top_words` ranks the whole vocabulary.
        num_predictions = 2 * self.max_candidates + 64
        questions = [
            MaskQuestion(rows[text], place, num_predictions, "probabilities") for text, place in places.items()
        ]
        words_of_text = {
            text: self._top_words(question, best)
            for text, question, best in zip(places, questions, self._lm.ranked(questions), strict=True)
        }
        return [words_of_text.get(text, []) for text in texts]  # empty if truncation cut off the mask

    def _top_words(self, question: MaskQuestion, best: RankedTokens) -> list[str]:
        """Return the most probable words: at most `max_candidates`, each with probability `min_confidence` or more."""
        words: list[str] = []
        least = float(np.float32(self.min_confidence))  # TextAttack compares with a float32 tensor
        for token, probability in zip(best.ids, best.values, strict=True):
            confident = probability >= least
            word = self._word(token, question.place == 1)
            if confident and word is not None:
                words.append(word)
            # Predictions come in order: the first that is not probable enough ends the search for words.
            if len(words) >= self.max_candidates or not confident:
                return words
        if len(best.ids) < question.k:
            return words  # the whole vocabulary has been looked at
        wider = question._replace(k=len(self._lm_tokenizer))
        return self._top_words(wider, self._lm.ranked([wider])[0])

    def _word(self, token: int, starting: bool) -> str | None:
        """Return the word of a predicted token, or None if it is not one word. Marks of word pieces are removed."""
        key = (token, starting)
        if key not in self._words:
            word = self._lm_tokenizer.convert_ids_to_tokens(token)
            if utils.check_if_subword(word, self._type, starting):
                word = utils.strip_BPE_artifacts(word, self._type)
            usable = utils.is_one_word(word) and not utils.check_if_punctuations(word)
            self._words[key] = word if usable else None
        return self._words[key]

    # -------------------------------------------------------------------------------------------------- BERT-Attack

    def _get_transformations(self, current_text: Any, indices_to_modify: Collection[int]) -> list[Any]:
        indices = list(indices_to_modify)
        if self.method == "bae":
            words = self._bae_replacement_words(current_text, indices)
        else:
            words = [self._bert_attack_words(current_text, index) for index in indices]
        transformed = []
        for index, replacements in zip(indices, words, strict=True):
            for replacement in (word.strip("Ġ") for word in replacements):
                if replacement != current_text.words[index] and (self.method != "bae" or _is_lettered(replacement)):
                    transformed.append(current_text.replace_word_at_index(index, replacement))
        return transformed

    def _bert_attack_words(self, text: Any, index: int) -> list[str]:
        masked = text.replace_word_at_index(index, self._lm_tokenizer.mask_token).text
        ((ids, _),) = self._lm.rows([masked], self.max_length)
        if self._lm_tokenizer.mask_token_id not in ids:
            return []  # truncation cut off the mask
        start = ids.index(self._lm_tokenizer.mask_token_id)
        pieces = self._count_pieces(text.words[index])
        places = range(start, min(start + pieces, self.max_length))
        if not places:
            return []
        top = self._predict(text.text, places)
        if len(top) > 1:
            return self._combine_pieces(top)
        tokens = self._lm_tokenizer.convert_ids_to_tokens(top[0])
        return [t for t in tokens if utils.is_one_word(t) and not utils.check_if_subword(t, self._type, index == 0)]

    def _count_pieces(self, word: str) -> int:
        if word not in self._pieces:
            self._pieces[word] = len(self._lm_tokenizer.encode(word, add_special_tokens=False))
        return self._pieces[word]

    def _predict(self, text: str, places: range) -> list[list[int]]:
        """Return the `max_candidates` most probable token ids at each of the positions `places`.

        A word may have more pieces alone than in its text. Then its last positions may lie in the padding, and
        TextAttack reads the predictions there; so does this.
        """
        from rbench.words.resources.masked_lm import MaskQuestion

        (row,) = self._lm.rows([text], self.max_length)
        key = ("bert-attack", self.max_candidates, row)
        ids_by_place: dict[int, list[int]] = self._lm.memo.get(key) or {}
        # Answers are kept by place, because longer words ask again for the places of shorter ones.
        missing = [place for place in places if place not in ids_by_place]
        if missing:
            predictions = self._lm.ranked(MaskQuestion(row, place, self.max_candidates, "logits") for place in missing)
            ids_by_place = ids_by_place | {place: best.ids for place, best in zip(missing, predictions, strict=True)}
            self._lm.memo.put(key, ids_by_place)
        return [ids_by_place[place] for place in places]

    def _combine_pieces(self, top: list[list[int]]) -> list[str]:
        """Combine one prediction for each piece into words, and return at most `max_candidates` of them.

        The order is that of `itertools.product`.
        """
        if self.piece_candidates is None and self.max_combinations is None:
            tokens = [self._lm_tokenizer.convert_ids_to_tokens(row) for row in top]
            words = _join_pieces(tokens)
        else:
            rows = [row[: self.piece_candidates] for row in top[:MAX_PIECES]]
            tokens = [self._lm_tokenizer.convert_ids_to_tokens(row) for row in rows]
            combinations = itertools.islice(itertools.product(*tokens), self.max_combinations)
            words = (self._lm_tokenizer.convert_tokens_to_string(list(c)) for c in combinations)
        return list(itertools.islice(filter(utils.is_one_word, words), self.max_candidates))

    def extra_repr_keys(self) -> list[str]:
        bounds = [name for name in ("piece_candidates", "max_combinations") if getattr(self, name) is not None]
        return [*super().extra_repr_keys(), *bounds]


def _is_lettered(word: str) -> bool:
    """Return whether BAE takes a word of a token: it is one word, and has a letter of English."""
    return re.search("[a-zA-Z]", word) is not None and len(split_words(word)) == 1


def _join_pieces(pieces: list[list[str]], start: str = "") -> Iterator[str]:
    """Join one choice for each piece, in the order of `itertools.product`, and skip what cannot become one word.

    A string of several words remains several words whatever is appended, so its continuations are not tried: a comma
    among the first predictions does not cost K^n combinations. Chinese is segmented as a whole, so nothing is skipped.
    """
    if not pieces:
        yield start.replace("##", "")
        return
    for piece in pieces[0]:
        longer = start + piece
        if CHINESE.search(longer) or len(utils.words_from_text(longer.replace("##", ""))) <= 1:
            yield from _join_pieces(pieces[1:], longer)
