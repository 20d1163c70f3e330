"""Networks described by an `architecture`: the configuration of a BERT, and the embedded world's tokenizer.

Imports no torch; transformers is imported when a function is called.
"""

from __future__ import annotations

import hashlib
import tempfile
from typing import Any

from rbench.mini import tokenizer as mini_tokenizer
from rbench.schema import EncoderSpec


def problem(spec: EncoderSpec) -> str:
    """Say what is wrong with the architecture of `spec`; return the empty string if nothing is."""
    from transformers import BertConfig

    architecture = spec.architecture or {}
    known = BertConfig().to_dict()
    if unknown := sorted(architecture.keys() - known.keys()):
        return (
            f"The architecture of encoder {spec.name} has keys that a BertConfig does not know: {', '.join(unknown)}."
        )
    width, heads = (int(architecture.get(key, known[key])) for key in ("hidden_size", "num_attention_heads"))
    if width % heads:
        return (
            f"The architecture of encoder {spec.name} has a hidden_size of {width}, which its {heads} attention heads "
            "do not divide."
        )
    return ""


def embedded_vocabulary() -> str:
    """Return the hash of the vocabulary of the embedded world's tokenizer: 64 hex digits."""
    return hashlib.sha256("\n".join(mini_tokenizer.vocabulary()).encode()).hexdigest()


def embedded_tokenizer() -> Any:
    """Return the tokenizer of the embedded world."""
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as folder:
        mini_tokenizer.write(folder)
        return AutoTokenizer.from_pretrained(folder)


def config_of(spec: EncoderSpec, tokenizer: Any) -> Any:
    """Return the BertConfig of an encoder with an architecture, for the vocabulary of `tokenizer`.

    What the architecture leaves out is as in BERT base. Where the encoder reads with the embedded world's tokenizer,
    `max_position_embeddings` is as long as that tokenizer's longest input. The architecture must have no `problem`.
    """
    from transformers import BertConfig

    embedded = {} if spec.tokenizer is not None else {"max_position_embeddings": mini_tokenizer.MAX_LENGTH}
    sizes: dict[str, Any] = {"vocab_size": len(tokenizer), **embedded, **(spec.architecture or {})}
    return BertConfig(**sizes)
