"""Where training starts: an architecture with fresh weights, or the weights of a base."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from rbench.errors import JobError
from rbench.mini import tokenizer as mini_tokenizer
from rbench.spec import EncoderSpec


def masked_lm(spec: EncoderSpec, base: str | Path | None) -> tuple[Any, Any]:
    """(masked LM, tokenizer). An architecture of our own speaks the embedded world's language and gets its tokenizer.

    JobError where the architecture's keys are not those of a BertConfig.
    """
    from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM

    if base is not None:
        origin: dict[str, Any] = {"trust_remote_code": spec.trust_remote_code}
        if spec.revision is not None:
            origin["revision"] = spec.revision
        model = AutoModelForMaskedLM.from_pretrained(str(base), **origin)
        return keep_layers(model, spec.layers), AutoTokenizer.from_pretrained(str(base), **origin)
    with tempfile.TemporaryDirectory() as folder:
        mini_tokenizer.write(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    architecture = dict(spec.architecture or {})
    known = BertConfig().to_dict().keys()
    if unknown := sorted(architecture.keys() - known):
        raise JobError(
            f"The architecture of encoder {spec.name} has keys that a BertConfig does not know: {', '.join(unknown)}."
        )
    config = BertConfig(
        **{"max_position_embeddings": mini_tokenizer.MAX_LENGTH, **architecture}, vocab_size=len(tokenizer)
    )
    return keep_layers(BertForMaskedLM(config), spec.layers), tokenizer


def keep_layers(model: Any, layers: int | None) -> Any:
    """The model with only its first `layers` transformer layers; JobError where it has fewer."""
    if layers is None:
        return model
    stack = model.base_model.encoder
    if layers > len(stack.layer):
        raise JobError(f"Asked for {layers} layers of a model that has {len(stack.layer)}.")
    stack.layer = stack.layer[:layers]
    model.config.num_hidden_layers = layers
    return model
