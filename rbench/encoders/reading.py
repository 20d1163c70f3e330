"""Prepare tokenizers: put a prompt before each text, and lowercase texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rbench.encoders.settings import Settings

VERSION = 1


class Prompted:
    """A transformers tokenizer that reads a prompt before each text, and before the first text of a pair.

    Whoever calls it gives texts without the prompt, and gets the prompt's token ids with theirs. Offsets are those in
    the texts that were given: tokens of the prompt have the offset (0, 0), as special tokens have. So code that changes
    words does not see the prompt. In all else this is the tokenizer itself, `plain`.

    Args:
        plain: the tokenizer.
        prompt: at least one character.
    """

    def __init__(self, plain: Any, prompt: str) -> None:
        self.plain, self.prompt = plain, prompt
        ids = plain(prompt)["input_ids"]
        self.prompt_tokens = len(ids) - (ids[-1] in plain.all_special_ids)
        """Number of tokens of the prompt, with the special tokens before it, counted as in sentence-transformers."""

    def __getattr__(self, name: str) -> Any:
        if name == "plain" or name.startswith("__"):  # not there yet while an object is copied
            raise AttributeError(name)
        return getattr(self.plain, name)

    def __call__(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """Tokenise one text, a list of texts, a list of pairs, or two columns, as transformers' tokenizers do."""
        one = isinstance(text, str)
        encoded = self.plain(self.before(text) if one else list(map(self.before, text)), text_pair, **options)
        if "offset_mapping" in encoded:
            rows = [encoded["offset_mapping"]] if one else encoded["offset_mapping"]
            moved = [self._moved(row, encoded.sequence_ids(i)) for i, row in enumerate(rows)]
            encoded["offset_mapping"] = moved[0] if one else moved
        return encoded

    def before(self, text: Any) -> Any:
        """Return a text, or a pair of texts, with the prompt before it."""
        return self.prompt + text if isinstance(text, str) else (self.prompt + text[0], *text[1:])

    def _moved(self, offsets: list[tuple[int, int]], columns: list[int | None]) -> list[tuple[int, int]]:
        """Return the offsets in the texts without the prompt. (0, 0) says that a token is of no text."""
        by = len(self.prompt)
        return [
            (max(0, start - by), max(0, end - by)) if column == 0 else (start, end)
            for (start, end), column in zip(offsets, columns, strict=True)
        ]


def prompt_tokens(tokenizer: Any) -> int:
    """Return the number of tokens at the start of each input that are the prompt's; 0 where there is no prompt."""
    return tokenizer.prompt_tokens if isinstance(tokenizer, Prompted) else 0


def tokens_of(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the tokens of an input. Those of a prompt are shown as padding, so that no word of a text matches them."""
    hidden = prompt_tokens(tokenizer)
    tokens: list[str] = tokenizer.convert_ids_to_tokens(list(ids))
    return [str(tokenizer.pad_token)] * min(hidden, len(tokens)) + tokens[hidden:]


def plain(tokenizer: Any) -> Any:
    """Return a tokenizer without its prompt."""
    return tokenizer.plain if isinstance(tokenizer, Prompted) else tokenizer


def prepared(tokenizer: Any, settings: Settings) -> Any:
    """Return a tokenizer that reads as `settings` say. One that has a prompt already gets that of `settings`."""
    without = plain(tokenizer)
    if settings.lowercase:
        _lowercase(without)
    return Prompted(without, settings.prompt) if settings.prompt else without


def _lowercase(tokenizer: Any) -> None:
    """Make a tokenizer lowercase its texts first, in place, as sentence-transformers does for `do_lower_case`."""
    from tokenizers import normalizers

    if not tokenizer.is_fast:
        tokenizer.do_lower_case = True
        return
    core = tokenizer.backend_tokenizer
    now = core.normalizer
    steps = list(now) if isinstance(now, normalizers.Sequence) else [] if now is None else [now]
    if not any(isinstance(step, normalizers.Lowercase) for step in steps):
        core.normalizer = normalizers.Sequence([normalizers.Lowercase(), *steps])
