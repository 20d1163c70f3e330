"""Open the model that training starts from: an architecture with fresh weights, or the weights of a base."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.encoders import architecture
from rbench.encoders.foreign import check_model, reading
from rbench.encoders.load import fetch
from rbench.encoders.load import load as load_encoder
from rbench.encoders.locate import is_vectors, transform_folders, transformer_folder
from rbench.errors import JobError, ResourceError
from rbench.spec import EncoderSpec

if TYPE_CHECKING:
    from torch import nn

    from rbench.encoders.sentence import SentenceEncoder

log = logging.getLogger("rbench")
_TRANSFORMED = (
    "Encoder {}: a {} transform follows the pooling of its base, and what is trained below it would no longer fit it. "
    "Train the base's own base, then fit the transform on the result."
)


def masked_lm(spec: EncoderSpec, base: str | Path | None) -> tuple[Any, Any]:
    """Return (masked LM, tokenizer) for training.

    A base without a masked-LM head gets a new one, which is logged. An architecture gets the tokenizer of the embedded
    world.

    JobError if the base is static word vectors, or an architecture has keys that BertConfig does not know.
    """
    from transformers import BertForMaskedLM

    if base is None:
        config, tokenizer = _architecture(spec)
        return keep_layers(BertForMaskedLM(config), spec.layers), tokenizer
    if is_vectors(str(base)):
        raise JobError(f"Encoder {spec.name}: a masked LM cannot be trained from static word vectors.")
    folder = _folder(spec, base)
    with reading(f"encoder `{spec.name}`: {folder} cannot be read"):
        model, tokenizer, headless = _read_masked_lm(spec, folder)
    if headless:
        log.info("%s: its base has no masked-LM head; a new one is trained with it", spec.name)
    return keep_layers(model, spec.layers), tokenizer


def generator(spec: EncoderSpec, name: str | Path) -> tuple[Any, Any]:
    """Return (masked LM, tokenizer) with all layers. JobError if the weights at `name` have no masked-LM head."""
    try:
        model, tokenizer, headless = _read_masked_lm(spec, _folder(spec, name))
    except ValueError as error:
        raise JobError(f"Encoder {spec.name}: {name} is no masked LM ({error}).") from error
    if headless:
        raise JobError(
            f"Encoder {spec.name}: {name} has no masked-LM head, which replaced-token detection needs for its "
            "generator. Name a masked LM with the same vocabulary: train.options.generator."
        )
    return model, tokenizer


def _read_masked_lm(spec: EncoderSpec, folder: Path) -> tuple[Any, Any, bool]:
    """Return the masked LM in a folder, its tokenizer, and whether the folder lacks a masked-LM head."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    check_model(folder)
    trust = {"trust_remote_code": spec.trust_remote_code}
    model, info = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True, **trust)
    return model, AutoTokenizer.from_pretrained(folder, **trust), bool(info["missing_keys"])


def sentence_encoder(spec: EncoderSpec, base: str | Path | None) -> SentenceEncoder:
    """Return the encoder to train, in float32 on the CPU.

    ResourceError if the base cannot be read. JobError if an architecture has keys that BertConfig does not know, or if
    the base has a transform after its pooling.
    """
    if base is not None:
        encoder = load_encoder(spec, base, kind="unlabelled")
        if encoder.transform is not None:
            raise JobError(_TRANSFORMED.format(spec.name, encoder.transform.KIND))
        return encoder
    from transformers import BertModel

    from rbench.encoders.reading import Settings
    from rbench.encoders.sentence import SentenceEncoder

    config, tokenizer = _architecture(spec)
    model = keep_layers(BertModel(config), spec.layers)
    settings = Settings.of(spec, "unlabelled")
    return SentenceEncoder(model, tokenizer, spec.pooling, spec.max_length, spec.name, settings=settings)


def pooler(spec: EncoderSpec, base: str | Path | None, width: int) -> nn.Linear:
    """Return the dense layer of BERT's pooler, (width, width), with the base's weights.

    A base without a pooler, or an architecture, gets one with random weights, which is logged.
    """
    from torch import nn

    if base is not None:
        try:
            network: Any = load_encoder(spec.model_copy(update={"pooling": "cls+mlp"}), base).model
        except ResourceError:  # the base is readable: it was opened without its pooler
            pass
        else:
            dense: nn.Linear = network.pooler.dense
            return dense
    log.info("%s: its base has no pooler; the heads get a new one", spec.name)
    return nn.Linear(width, width)


def with_dropout(network: Any, dropout: float) -> Any:
    """Return a copy of `network`, a transformers network without a pooler, with every dropout probability `dropout`.

    The copy is built from the config, because layers copy some of the probabilities when they are built.
    """
    config = copy.deepcopy(network.config)
    config.update(dict.fromkeys(dropout_of(config), dropout))
    fresh = type(network)(config)
    if getattr(fresh, "pooler", None) is not None:
        fresh.pooler = None
    fresh.load_state_dict(network.state_dict())
    return fresh


def dropout_of(config: Any) -> dict[str, float]:
    """Return the dropout probabilities of a transformers config by name, without those of classifiers."""
    return {
        name: float(value)
        for name, value in sorted(config.to_dict().items())
        if "dropout" in name and "classif" not in name and isinstance(value, int | float)
    }


def _folder(spec: EncoderSpec, where: str | Path) -> Path:
    """Return the transformers folder of a folder, an `id@commit` or a hub id. JobError if it has a transform."""
    folder = fetch(str(where), trust_remote_code=spec.trust_remote_code, revision=spec.revision)
    if transform_folders(folder):
        raise JobError(_TRANSFORMED.format(spec.name, "fitted"))
    return transformer_folder(folder)


def _architecture(spec: EncoderSpec) -> tuple[Any, Any]:
    """Return (BertConfig, tokenizer of the embedded world)."""
    if wrong := architecture.problem(spec):
        raise JobError(wrong)
    tokenizer = architecture.embedded_tokenizer()
    return architecture.config_of(spec, tokenizer), tokenizer


def keep_layers(model: Any, layers: int | None) -> Any:
    """Cut the model to its first `layers` transformer layers and return it. JobError if it has fewer."""
    if layers is None:
        return model
    stack = model.base_model.encoder
    if layers > len(stack.layer):
        raise JobError(f"Asked for {layers} layers of a model that has {len(stack.layer)}.")
    stack.layer = stack.layer[:layers]
    model.config.num_hidden_layers = layers
    return model
