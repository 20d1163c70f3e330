"""Make the WordPiece tokenizer of the embedded world: frequent words are one piece, rare words two or three.

It is lower-cased. Single letters are pieces too, so a misspelt word is split into pieces. A word with a letter of
another alphabet (a homoglyph) becomes [UNK].
"""

from __future__ import annotations

import json
import string
from collections import Counter
from functools import cache
from pathlib import Path

from rbench.mini import rows
from rbench.mini.lexicon import load
from rbench.mini.reading import words_of

VERSION = 1

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MIN_WHOLE_COUNT = 12
"""A word with at least this frequency in the corpus is one piece."""
MAX_SHORT_LETTERS = 4
"""A word with at most this number of letters is one piece."""
MAX_LENGTH = 128
"""Longest input in tokens."""
_SUFFIXES = (
    *("ingly", "edly", "fully", "ously", "ively", "ently", "antly", "ions", "ists", "ers", "ors", "ing", "ful", "ous"),
    *("ive", "ent", "ant", "ble", "ion", "ist", "ies", "ly", "ed", "er", "or", "al", "s"),
)


@cache
def build_vocabulary() -> tuple[str, ...]:
    """Return all pieces. A piece's index is its id."""
    counts = Counter(word for row in rows("mini-corpus", "train") for word in words_of(row["text"]))
    words = sorted(load().forms)
    whole_words = [word for word in words if counts[word] >= MIN_WHOLE_COUNT or len(word) <= MAX_SHORT_LETTERS]
    pieces = {piece for word in words if word not in set(whole_words) for piece in _split_word(word)}
    letters = [mark + letter for mark in ("", "##") for letter in string.ascii_lowercase + string.digits]
    other_pieces = {*SPECIAL_PIECES, *letters, *string.punctuation}
    # Sorted, so that ids are the same on every machine; a piece's place decides the weights that belong to it.
    return (*SPECIAL_PIECES, *string.punctuation, *letters, *sorted(({*whole_words} | pieces) - other_pieces))


def _split_word(word: str) -> tuple[str, str]:
    """Split a word before its longest known ending, or in the middle if it has none."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) > MAX_SHORT_LETTERS - 2:
            return word[: -len(suffix)], f"##{suffix}"
    middle = (len(word) + 1) // 2
    return word[:middle], f"##{word[middle:]}"


def write_tokenizer(folder: Path | str) -> None:
    """Write tokenizer.json, vocab.txt and their configuration into `folder`, for transformers' AutoTokenizer."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    ids = {piece: index for index, piece in enumerate(build_vocabulary())}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=40))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(list(SPECIAL_PIECES))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").write_text("\n".join(build_vocabulary()) + "\n", encoding="utf-8")
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL_PIECES, strict=True))
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": MAX_LENGTH, **names}
    for file, content in (("tokenizer_config.json", settings), ("special_tokens_map.json", names)):
        (folder / file).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
