"""Networks described by an `architecture`: the configuration of a BERT, and the embedded world's tokenizer.

Imports no torch; transformers is imported when a function is called.
"""

from __future__ import annotations

import hashlib
import tempfile
from typing import Any

from rbench.errors import ResourceError
from rbench.mini import tokenizer as mini_tokenizer
from rbench.schema import EncoderSpec


def check_keys(spec: EncoderSpec) -> None:
    """Raise ResourceError for keys of an architecture that BertConfig does not know: it takes any, and ignores them."""
    from transformers import BertConfig

    if unknown := sorted((spec.architecture or {}).keys() - BertConfig().to_dict().keys()):
        raise ResourceError(
            f"the architecture of encoder {spec.name} has keys that a BertConfig does not know: {', '.join(unknown)}"
        )


def hash_embedded_vocabulary() -> str:
    """Return the hash of the vocabulary of the embedded world's tokenizer: 64 hex digits."""
    return hashlib.sha256("\n".join(mini_tokenizer.build_vocabulary()).encode()).hexdigest()


def build_embedded_tokenizer() -> Any:
    """Return the tokenizer of the embedded world."""
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as folder:
        mini_tokenizer.write_tokenizer(folder)
        return AutoTokenizer.from_pretrained(folder)


def build_config(spec: EncoderSpec, tokenizer: Any) -> Any:
    """Return the BertConfig of an encoder with an architecture, for the vocabulary of `tokenizer`.

    What the architecture leaves out is as in BERT base. Where the encoder reads with the embedded world's tokenizer,
    `max_position_embeddings` is as long as that tokenizer's longest input.
    """
    from transformers import BertConfig

    embedded = {} if spec.tokenizer is not None else {"max_position_embeddings": mini_tokenizer.MAX_LENGTH}
    sizes: dict[str, Any] = {"vocab_size": len(tokenizer), **embedded, **(spec.architecture or {})}
    return BertConfig(**sizes)
