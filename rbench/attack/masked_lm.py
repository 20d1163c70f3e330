"""TextAttack's masked-LM word swap (BAE, BERT-Attack), asked once for each text and only for the words it needs.

Upstream pads every text to 512 tokens, computes the vocabulary's logits at every position, sorts all of them, and asks
again for a text that it has seen. For a word of several pieces BERT-Attack scores all K^n combinations, sorts them,
throws the sorted list away and returns the first K that are one word: here the search stops at those K.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from textattack.shared import utils
from textattack.transformations import WordSwapMaskedLM as _WordSwapMaskedLM

from rbench.attack.components import current
from rbench.errors import ResourceError

HEADS = {"bert": "cls", "roberta": "lm_head"}
"""Where a network keeps the layer that turns states into vocabulary logits: it then runs on the states asked for."""
CHINESE = re.compile("[\u4e00-\u9fff]")
"""TextAttack's own test for text that has to be segmented."""
MAX_PIECES = 12
"""Public copies of BERT-Attack's code look at so many pieces of a word when they bound its combinations."""


class WordSwapMaskedLM(_WordSwapMaskedLM):  # type: ignore[misc]
    """Upstream's swap over the bound masked LM, with two more parameters for the published BERT-Attack.

    Args:
        piece_candidates: for a word of several pieces, so many predictions a piece (None: `max_candidates`, and pieces
            glued together, as upstream).
        max_combinations: look at the first so many combinations only (None: until `max_candidates` are found).
    """

    def __init__(
        self, *, piece_candidates: int | None = None, max_combinations: int | None = None, **kwargs: Any
    ) -> None:
        lm = current.get().masked_lm
        super().__init__(**(kwargs | {"masked_language_model": lm.model, "tokenizer": lm.tokenizer}))
        self._type = self._language_model.config.model_type
        try:
            utils.check_if_subword("a", self._type)
        except ValueError as error:
            raise ResourceError(f"masked_lm: TextAttack cannot read the pieces of this model: {error}") from error
        wanted: int = kwargs.get("max_length", 512)
        positions = getattr(self._language_model.config, "max_position_embeddings", wanted)
        self.max_length: int = min(wanted, positions)  # upstream runs into an index error beyond that
        self.piece_candidates, self.max_combinations = piece_candidates, max_combinations
        self._memo = lm.memo
        self._words: dict[tuple[int, bool], str | None] = {}

    def _encode_text(self, text: str | list[str], width: int | None = None) -> Any:
        """Token ids padded to the longest, or to `width` tokens."""
        padding: Any = {"padding": True} if width is None else {"padding": "max_length"}
        encoding = self._lm_tokenizer(
            text, max_length=width or self.max_length, truncation=True, return_tensors="pt", **padding
        )
        return encoding.to(utils.device)

    @torch.inference_mode()
    def _logits(self, inputs: Any, rows: list[int], places: list[int]) -> torch.Tensor:
        """Vocabulary logits (n, words) at n places."""
        head = HEADS.get(self._type)
        base = getattr(self._language_model, self._language_model.base_model_prefix, None)
        if head is None or base is None or not hasattr(self._language_model, head):
            every: torch.Tensor = self._language_model(**inputs)[0]
            return every[rows, places]
        logits: torch.Tensor = getattr(self._language_model, head)(base(**inputs)[0][rows, places])
        return logits

    # ---------------------------------------------------------------------------------------------------------- BAE

    def _bae_replacement_words(self, current_text: Any, indices_to_modify: Iterable[int]) -> list[list[str]]:
        mask = self._lm_tokenizer.mask_token
        texts = [current_text.replace_word_at_index(index, mask).text for index in indices_to_modify]
        known = {text: self._memo.get(self._bae_key(text)) for text in texts}
        new = [text for text, words in known.items() if words is None]
        for start in range(0, len(new), self.batch_size):
            batch = new[start : start + self.batch_size]
            for text, words in zip(batch, self._fill(batch), strict=True):
                known[text] = words
                self._memo.put(self._bae_key(text), words)
        return [list(known[text] or ()) for text in texts]

    def _bae_key(self, text: str) -> tuple[Any, ...]:
        return "bae", self.max_candidates, self.min_confidence, self.max_length, text

    def _fill(self, texts: list[str]) -> list[list[str]]:
        inputs = self._encode_text(texts)
        ids = inputs["input_ids"].tolist()
        mask = self._lm_tokenizer.mask_token_id
        rows = [j for j, row in enumerate(ids) if mask in row]  # elsewhere truncation took the mask away
        places = [ids[j].index(mask) for j in rows]
        words: list[list[str]] = [[] for _ in texts]
        if rows:
            probabilities = torch.softmax(self._logits(inputs, rows, places), dim=1)
            for j, place, row in zip(rows, places, probabilities, strict=True):
                words[j] = self._top_words(row, place == 1)
        return words

    def _top_words(self, probabilities: torch.Tensor, starting: bool) -> list[str]:
        """The most probable words, at most `max_candidates`, down to `min_confidence`."""
        found: list[str] = []
        for ids, confident in _descending(probabilities, 2 * self.max_candidates + 64, self.min_confidence):
            for token, good in zip(ids, confident, strict=True):
                word = self._word(token, starting)
                if good and word is not None:
                    found.append(word)
                if len(found) >= self.max_candidates or not good:
                    return found
        return found

    def _word(self, token: int, starting: bool) -> str | None:
        """The word that a predicted token stands for; None where it is none. Pieces lose their marks, as upstream."""
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
        if self.method != "bert-attack":
            texts: list[Any] = super()._get_transformations(current_text, indices_to_modify)
            return texts
        transformed = []
        for index in list(indices_to_modify):
            for word in self._bert_attack_words(current_text, index):
                replacement = word.strip("Ġ")
                if replacement != current_text.words[index]:
                    transformed.append(current_text.replace_word_at_index(index, replacement))
        return transformed

    def _bert_attack_words(self, text: Any, index: int) -> list[str]:
        masked = text.replace_word_at_index(index, self._lm_tokenizer.mask_token).text
        ids = self._lm_tokenizer(masked, max_length=self.max_length, truncation=True)["input_ids"]
        if self._lm_tokenizer.mask_token_id not in ids:
            return []  # truncation took the mask away
        start = ids.index(self._lm_tokenizer.mask_token_id)
        pieces = len(self._lm_tokenizer.encode(text.words[index], add_special_tokens=False))
        places = range(start, min(start + pieces, self.max_length))
        if not places:
            return []
        top = [self._top_ids(text.text, places.stop)[place].tolist() for place in places]
        if len(top) > 1:
            return self._combined(top)
        tokens = self._lm_tokenizer.convert_ids_to_tokens(top[0])
        return [t for t in tokens if utils.is_one_word(t) and not utils.check_if_subword(t, self._type, index == 0)]

    def _top_ids(self, text: str, needed: int) -> Any:
        """The `max_candidates` most probable tokens at each place, an int32 array (places, max_candidates).

        It has `needed` rows at least: where a word has more pieces alone than in its text, the last of them may lie in
        the padding, and upstream reads the predictions for that.
        """
        key = ("bert-attack", self.max_candidates, self.max_length, text)
        known = self._memo.get(key)
        if known is None or len(known) < needed:
            inputs = self._encode_text(text)
            width = inputs["input_ids"].shape[1]
            if width < needed:
                inputs = self._encode_text(text, needed)
                width = needed
            logits = self._logits(inputs, [0] * width, list(range(width)))
            known = torch.topk(logits, self.max_candidates).indices.cpu().numpy().astype(np.int32)
            self._memo.put(key, known)
        return known

    def _combined(self, top: list[list[int]]) -> list[str]:
        """Words made of one prediction a piece, in the order of the product, at most `max_candidates`."""
        if self.piece_candidates is None and self.max_combinations is None:
            tokens = [self._lm_tokenizer.convert_ids_to_tokens(row) for row in top]
            words = _glued(tokens)
        else:
            rows = [row[: self.piece_candidates] for row in top[:MAX_PIECES]]
            tokens = [self._lm_tokenizer.convert_ids_to_tokens(row) for row in rows]
            combinations = itertools.islice(itertools.product(*tokens), self.max_combinations)
            words = (self._lm_tokenizer.convert_tokens_to_string(list(c)) for c in combinations)
        return list(itertools.islice(filter(utils.is_one_word, words), self.max_candidates))

    def extra_repr_keys(self) -> list[str]:
        bounds = [name for name in ("piece_candidates", "max_combinations") if getattr(self, name) is not None]
        return [*super().extra_repr_keys(), *bounds]


def _glued(pieces: list[list[str]], start: str = "") -> Iterator[str]:
    """One choice a piece, glued together, in the order of the product; what can no longer be one word is passed over.

    A string of several words stays one of several words whatever is appended, so a comma among the first predictions
    does not cost K^n combinations. Chinese is segmented as a whole: there nothing is passed over.
    """
    if not pieces:
        yield start.replace("##", "")
        return
    for piece in pieces[0]:
        longer = start + piece
        if CHINESE.search(longer) or len(utils.words_from_text(longer.replace("##", ""))) <= 1:
            yield from _glued(pieces[1:], longer)


def _descending(values: torch.Tensor, first: int, least: float) -> Iterator[tuple[list[int], list[bool]]]:
    """Indices by falling value, each with whether its value reaches `least`: the first few, then all others."""
    first = min(first, len(values))
    top, ids = torch.topk(values, first)
    yield ids.tolist(), (top >= least).tolist()
    if first < len(values):
        ids = torch.argsort(values, descending=True)[first:]
        yield ids.tolist(), (values[ids] >= least).tolist()
