"""Encoders whose weights nobody trained: an architecture with random weights, the control of tables of encoders.

An encoder that is fine-tuned on a task with enough examples classifies it to some extent whatever its weights were
before. This encoder shows how much of a table's row is due to fine-tuning alone.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import torch
from transformers import BertModel

from rbench.encoders import architecture
from rbench.errors import ResourceError
from rbench.schema import EncoderSpec, KindName

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

VERSION = 1


def draw(spec: EncoderSpec, tokenizer: Any, seed: int, kind: KindName | None = None) -> SentenceEncoder:
    """Return the encoder with weights as transformers initialises a BERT, in eval mode, in float32, on the CPU.

    Weights are drawn on the CPU, so that they do not depend on the device. The global generators are left as they were.

    Args:
        spec: an encoder with `random_weights`.
        seed: the seed of the job that uses the encoder. Each seed has other weights, and no seed draws the numbers
            that a fine-tuning with that seed draws.
        kind: as `rbench.encoders.load`.

    Raises:
        ResourceError: the architecture has keys that BertConfig does not know, values that it refuses, or fewer layers
            than `spec.layers`.
    """
    from rbench.encoders.reading import Settings
    from rbench.encoders.sentence import SentenceEncoder, keep_layers

    if wrong := architecture.problem(spec):
        raise ResourceError(wrong)
    with torch.random.fork_rng(devices=()):
        # Another seed than `seed` itself, with which a fine-tuning draws its head; in 0..2**63.
        torch.manual_seed(int.from_bytes(hashlib.sha256(f"random weights:{seed}".encode()).digest()[:8], "big") >> 1)
        try:
            model = BertModel(architecture.config_of(spec, tokenizer))
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            raise ResourceError(f"encoder `{spec.name}`: its architecture makes no BERT: {error}") from error
    if spec.layers is not None:
        keep_layers(model, spec.layers, spec.name)
    settings = Settings.of(spec, kind)
    return SentenceEncoder(model, tokenizer, spec.pooling, spec.max_length, spec.name, settings=settings).eval()


def weights_hash(encoder: SentenceEncoder) -> str:
    """Return the hash of an encoder's weights with their names: 64 hex digits. Records name a draw by it."""
    digest = hashlib.sha256()
    for name, value in sorted(encoder.model.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}\n".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
