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
from rbench.schema import EncoderSpec, KindName
from rbench.system.own_code import failing_in

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

# Part of the key of every job on an encoder with random weights (config/versions.py): raising it draws all of them
# anew.
VERSION = 1


def draw_encoder(spec: EncoderSpec, tokenizer: Any, seed: int, kind: KindName | None = None) -> SentenceEncoder:
    """Return the encoder with weights as transformers initialises a BERT, in eval mode, in float32, on the CPU.

    Weights are drawn on the CPU, so that they do not depend on the device. The global generators are left as they were.

    Args:
        spec: an encoder with `random_weights`.
        seed: the seed of the job that uses the encoder. Each seed has other weights, and no seed draws the numbers
            that a fine-tuning with that seed draws.
        kind: as `rbench.encoders.load`.

    Raises:
        ResourceError: the architecture has values that BertConfig refuses, or fewer layers than `spec.layers`.
    """
    from rbench.encoders.reading import ReadingSettings
    from rbench.encoders.sentence import SentenceEncoder, keep_layers

    with torch.random.fork_rng(devices=()):
        # Another seed than `seed` itself, with which a fine-tuning draws its head; in 0..2**63.
        torch.manual_seed(int.from_bytes(hashlib.sha256(f"random weights:{seed}".encode()).digest()[:8], "big") >> 1)
        with failing_in(f"encoder `{spec.name}`: its architecture makes no BERT"):
            model = BertModel(architecture.build_config(spec, tokenizer))
    if spec.layers is not None:
        keep_layers(model, spec.layers, spec.name)
    settings = ReadingSettings.of(spec, kind)
    return SentenceEncoder(model, tokenizer, spec.pooling, spec.max_length, spec.name, settings=settings).eval()


def hash_encoder_weights(encoder: SentenceEncoder) -> str:
    """Return the hash of an encoder's weights with their names: 64 hex digits. Records name a draw by it."""
    digest = hashlib.sha256()
    for name, value in sorted(encoder.model.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}\n".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
