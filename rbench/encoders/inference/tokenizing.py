"""Tokenise texts that share most of their words, as the candidates of an attack do.

Tokenizers like BERT's and GPT-2's split a text at its spaces before anything else. So the token ids of a text are those
of its parts between spaces, one after the other, and each part is tokenised once and remembered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

from rbench.encoders.inference.network import TokenRow, build_rows

MAX_PARTS = 1 << 18
"""Number of parts that are remembered; then all of them are forgotten."""
TWO_SPACES = re.compile(r"\s\s")


class _Segment(NamedTuple):
    """What stands in a row: a column of the text, or special tokens (`column` is None); with its token type."""

    column: int | None
    ids: tuple[int, ...]
    type: int


class RowTokenizer:
    """Maps texts, or tuples of columns, to the rows that `tokenizer` gives for them, cut at a number of tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._space = find_space(tokenizer)
        self._known: dict[str, tuple[int, ...]] = {}
        self._segments: dict[int, list[_Segment]] = {}
        self._has_types = "token_type_ids" in getattr(tokenizer, "model_input_names", ())

    def __call__(self, texts: Sequence[Any], max_length: int) -> list[TokenRow]:
        """Return the row of each text. A text is a string, or a tuple of one or two strings."""
        if self._space is None:
            return self._plain(texts, max_length)
        if len(self._known) > MAX_PARTS:
            self._known.clear()
        rows = [self._row((text,) if isinstance(text, str) else text, max_length) for text in texts]
        left = iter(self._plain([text for text, row in zip(texts, rows, strict=True) if row is None], max_length))
        return [next(left) if row is None else row for row in rows]

    def _plain(self, texts: Sequence[Any], max_length: int) -> list[TokenRow]:
        return build_rows(self.tokenizer(list(texts), truncation=True, max_length=max_length)) if texts else []

    def _parts(self, text: str) -> list[str]:
        parts = text.split(" ")
        if not self._space:
            return parts
        # A space belongs to the part after it. Of several spaces in a row GPT-2 splits off the last one only.
        return [text] if TWO_SPACES.search(text) else [parts[0], *(" " + part for part in parts[1:])]

    def _ids(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text, without special tokens."""
        parts, known = self._parts(text), self._known
        if unknown := [part for part in parts if part not in known]:
            backend = self.tokenizer.backend_tokenizer
            # What the tokenizer's last call has set; the next one sets it again.
            backend.no_truncation()
            backend.no_padding()
            # One by one, because for several texts it starts threads.
            known |= {part: tuple(backend.encode(part, add_special_tokens=False).ids) for part in unknown}
        return tuple(chain.from_iterable([known[part] for part in parts]))

    def _row(self, columns: Sequence[str], max_length: int) -> TokenRow | None:
        """Return the row of a text; None if it is too long, so that the tokenizer has to cut it."""
        ids: tuple[int, ...] = ()
        types: tuple[int, ...] = ()
        for column, special, token_type in self._segments.get(len(columns)) or self._read_segments(len(columns)):
            new = special if column is None else self._ids(columns[column])
            ids += new
            types += (token_type,) * len(new)
        if len(ids) > max_length:
            return None
        return ids, types if self._has_types else None

    def _read_segments(self, num_columns: int) -> list[_Segment]:
        """Return the segments of a row, read from that of the text `a` for each column."""
        encoding = self.tokenizer(*["a"] * num_columns)[0]
        tokens = zip(encoding.sequence_ids, encoding.ids, encoding.type_ids, strict=True)
        self._segments[num_columns] = [
            _Segment(column, tuple(token[1] for token in group), token_type)
            for (column, token_type), group in groupby(tokens, key=lambda token: (token[0], token[2]))
        ]
        return self._segments[num_columns]


def find_space(tokenizer: Any) -> str | None:
    """Return what a part of a text has before it: nothing (BERT), or the space (GPT-2); None for other tokenizers.

    One that puts a prompt before each text (`encoders.reading.PromptedTokenizer`) is another one: the parts of a text
    would be read without the prompt.
    """
    if not getattr(tokenizer, "is_fast", False) or hasattr(tokenizer, "prompt"):
        return None
    steps = json.loads(tokenizer.backend_tokenizer.to_str())
    kinds = tuple((steps[name] or {}).get("type") for name in ("normalizer", "pre_tokenizer", "model"))
    if any(" " in token["content"] or token["rstrip"] for token in steps["added_tokens"]):
        return None  # a token that reaches over a space
    if kinds == ("BertNormalizer", "BertPreTokenizer", "WordPiece"):
        return ""
    pre_tokenizer, model = steps["pre_tokenizer"] or {}, steps["model"]
    plain = not pre_tokenizer.get("add_prefix_space") and pre_tokenizer.get("use_regex") and not model.get("dropout")
    return " " if kinds == (None, "ByteLevel", "BPE") and plain else None
