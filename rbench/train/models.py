"""Open the model that training starts from, and write the encoder that it ends with.

It starts from an architecture with fresh weights, or from the weights of a base. What is written is a transformers
folder that is, if possible, a SentenceTransformer too.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.encoders import architecture, fetch_folder
from rbench.encoders import load as load_encoder
from rbench.encoders.foreign import as_resource_error, check_model, check_size
from rbench.encoders.locate import STATIC_TYPE, TRANSFORM, find_transform_folders, find_transformer_folder
from rbench.encoders.model_metadata import MODE_OF_FLAG, OVERALL_FILE, POOLING_OF_MODE
from rbench.encoders.reading import ReadingSettings
from rbench.errors import JobError, ResourceError
from rbench.schema import EncoderSpec, Pooling
from rbench.system.own_code import failing_in

if TYPE_CHECKING:
    from torch import nn

    from rbench.encoders.sentence import SentenceEncoder
    from rbench.encoders.transform import Transform

log = logging.getLogger("rbench")
_MODE_OF_POOLING: dict[Pooling, str] = {pooling: mode for mode, pooling in POOLING_OF_MODE.items()}
SAVABLE_POOLINGS = tuple(_MODE_OF_POOLING)
"""The poolings that sentence-transformers has too."""
_MODULE_OF_TRANSFORM = {"linear": "Dense", "dense": "Dense", "layer-norm": "LayerNorm", "normalize": "Normalize"}
"""Maps a transform's kind to the module of sentence-transformers that computes the same."""
_TRANSFORMED = (
    "Encoder {}: a {} transform follows the pooling of its base, and what is trained below it would no longer fit it. "
    "Train the base's own base, then fit the transform on the result."
)


def open_masked_lm(spec: EncoderSpec, base: str | Path | None) -> tuple[Any, Any]:
    """Return (masked LM, tokenizer) for training.

    A base without a masked-LM head gets a new one, which is logged. An architecture gets the tokenizer of the embedded
    world.
    """
    from transformers import BertForMaskedLM

    if base is None:
        config, tokenizer = _build_architecture(spec)
        return _keep_layers(BertForMaskedLM(config), spec), tokenizer
    folder = _find_folder(spec, base)
    with as_resource_error(f"encoder `{spec.name}`: {folder} cannot be read"):
        model, tokenizer, headless = _read_masked_lm(spec, folder)
    if headless:
        log.info("%s: its base has no masked-LM head; a new one is trained with it", spec.name)
    return _keep_layers(model, spec), tokenizer


def open_generator(spec: EncoderSpec, name: str | Path) -> tuple[Any, Any]:
    """Return (masked LM, tokenizer) with all layers. JobError if the weights at `name` have no masked-LM head."""
    with failing_in(f"encoder `{spec.name}`: {name} is no masked LM", JobError):
        model, tokenizer, headless = _read_masked_lm(spec, _find_folder(spec, name))
    if headless:
        raise JobError(
            f"Encoder {spec.name}: {name} has no masked-LM head, which replaced-token detection needs for its "
            "generator. Name a masked LM with the same vocabulary: train.options.generator."
        )
    return model, tokenizer


def _read_masked_lm(spec: EncoderSpec, folder: Path) -> tuple[Any, Any, bool]:
    """Return the masked LM in a folder in float32, its tokenizer, and whether the folder lacks a masked-LM head."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    check_model(folder)
    trust = {"trust_remote_code": spec.trust_remote_code}
    if not spec.trust_remote_code:
        check_size(folder, AutoModelForMaskedLM)
    model, loading = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True, **trust)
    return model.float(), AutoTokenizer.from_pretrained(folder, **trust), bool(loading["missing_keys"])


def open_encoder(spec: EncoderSpec, base: str | Path | None) -> SentenceEncoder:
    """Return the encoder to train, in float32 on the CPU.

    ResourceError if the base cannot be read, JobError if it has a transform after its pooling.
    """
    if base is not None:
        encoder = load_encoder(spec, base, kind="unlabelled")
        if encoder.transform is not None:
            raise JobError(_TRANSFORMED.format(spec.name, encoder.transform.KIND))
        return encoder
    from transformers import BertModel

    from rbench.encoders.sentence import SentenceEncoder

    config, tokenizer = _build_architecture(spec)
    model = _keep_layers(BertModel(config), spec)
    settings = ReadingSettings.of(spec, "unlabelled")
    return SentenceEncoder(model, tokenizer, spec.pooling, spec.max_length, spec.name, settings=settings)


def open_pooler(spec: EncoderSpec, base: str | Path | None, width: int) -> nn.Linear:
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
    from rbench.encoders.sentence import store_once

    config = copy.deepcopy(network.config)
    config.update(dict.fromkeys(dropout_rates(config), dropout))
    fresh: Any = store_once(type(network)(config))
    if getattr(fresh, "pooler", None) is not None:
        fresh.pooler = None
    fresh.load_state_dict(network.state_dict())
    return fresh


def dropout_rates(config: Any) -> dict[str, float]:
    """Return the dropout probabilities of a transformers config by name, without those of heads."""
    return {
        name: float(value)
        for name, value in sorted(config.to_dict().items())
        if ("dropout" in name or name.endswith("pdrop")) and isinstance(value, int | float)
        if not any(head in name for head in ("classif", "summary_", "qa_"))
    }


def _find_folder(spec: EncoderSpec, where: str | Path) -> Path:
    """Return the transformers folder of a folder, an `id@commit` or a hub id. JobError if it has a transform."""
    folder = fetch_folder(str(where), trust_remote_code=spec.trust_remote_code, revision=spec.revision)
    if find_transform_folders(folder):
        raise JobError(_TRANSFORMED.format(spec.name, "fitted"))
    return find_transformer_folder(folder)


def _build_architecture(spec: EncoderSpec) -> tuple[Any, Any]:
    """Return (BertConfig, tokenizer of the embedded world)."""
    tokenizer = architecture.build_embedded_tokenizer()
    return architecture.build_config(spec, tokenizer), tokenizer


def _keep_layers(model: Any, spec: EncoderSpec) -> Any:
    """Return the model with as many of its first layers as `spec` keeps. ResourceError if it has fewer."""
    from rbench.encoders.sentence import keep_layers

    if spec.layers is not None:
        keep_layers(model, spec.layers, spec.name)
    return model


# ---------------------------------------------------------------------------------------------------------- to write


def check_pooling(name: str, pooling: Pooling, among: Collection[Pooling] = SAVABLE_POOLINGS) -> None:
    """Raise JobError if an encoder cannot be trained with the pooling, or not be saved for sentence-transformers."""
    if pooling not in among:
        raise JobError(
            f"Encoder {name} has pooling {pooling}; an encoder trained here needs {' or '.join(among)}, which "
            "sentence-transformers can read. A head for training is added to it."
        )


def find_obstacle(encoder: SentenceEncoder) -> str:
    """Say why SentenceTransformer cannot read this encoder and give the same vectors; empty if it can."""
    kind = encoder.transform.KIND if encoder.transform is not None else "linear"
    if encoder.model.config.model_type == STATIC_TYPE:
        return "it averages static word vectors, whose tokenizer and network only rbench has"
    if kind not in ("linear", "chain"):
        return f"a {kind} follows its pooling, for which sentence-transformers has no module"
    if encoder.pooling not in _MODE_OF_POOLING:
        return f"its pooling is {encoder.pooling}, and sentence-transformers has only {', '.join(SAVABLE_POOLINGS)}"
    if encoder.settings.dtype != "float32":
        return (
            f"it computes in {encoder.settings.dtype}, and the folder would be computed in float32; leave out `dtype`"
        )
    return ""


def save_encoder(folder: Path, encoder: SentenceEncoder, prompts: Mapping[str, str] | None = None) -> None:
    """Write `encoder` for rbench, and as a SentenceTransformer too unless there is an `find_obstacle`.

    Args:
        prompts: further prompts by name, which a user of sentence-transformers may ask for.
    """
    if find_obstacle(encoder):
        encoder.save(folder)
        return
    # A chain is written as modules (`_write_transform`), not as one transform that only rbench could read.
    chain = encoder.transform is not None and encoder.transform.KIND == "chain"
    encoder.save(folder, transform=not chain)
    write(folder, encoder, prompts)


def write(folder: Path, encoder: SentenceEncoder, prompts: Mapping[str, str] | None = None) -> None:
    """Turn a transformers folder into a SentenceTransformer: add modules.json and the files that it names.

    Args:
        encoder: has no `find_obstacle`. A linear transform of it is in the subfolder `TRANSFORM` already.
        prompts: as for `save_encoder`.
    """
    settings = encoder.settings
    parts: list[tuple[str, str]] = [
        ("Transformer", ""),
        ("Pooling", "1_Pooling"),
        *_write_transform(folder, encoder.transform),
    ]
    if settings.normalize:
        parts.append(("Normalize", f"{len(parts)}_Normalize"))
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(parts)
    ]
    modes = {flag: mode == _MODE_OF_POOLING[encoder.pooling] for flag, mode in MODE_OF_FLAG.items()}
    _write_json(folder / "modules.json", modules)
    # The saved tokenizer may not say it: transformers 5 reads that of BERT with the normalizer of its class.
    reading = {"max_seq_length": encoder.max_length, "do_lower_case": settings.lowercase}
    _write_json(folder / "sentence_bert_config.json", reading)
    include = {"include_prompt": settings.include_prompt}
    _write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": encoder.width, **modes, **include})
    prompt = {"default": settings.prompt} if settings.prompt else {}
    if prompt or prompts or settings.truncate_dim or settings.similarity != "cosine":
        settings_file = {
            "prompts": {**(prompts or {}), **prompt},
            "default_prompt_name": "default" if prompt else None,
            "truncate_dim": settings.truncate_dim,
            "similarity_fn_name": settings.similarity,
        }
        _write_json(folder / OVERALL_FILE, settings_file)


def _write_transform(folder: Path, transform: Transform | None) -> list[tuple[str, str]]:
    """Write the modules that follow the pooling. Return kind and path of each."""
    from rbench.encoders.transform import TransformChain

    if not isinstance(transform, TransformChain):
        return [] if transform is None else [("Dense", TRANSFORM)]
    parts = []
    # Two entries of a chain may be of one kind, so folders carry their number, as sentence-transformers names them.
    for i, step in enumerate(transform.parts, start=2):
        kind = _MODULE_OF_TRANSFORM[step.KIND]
        parts.append((kind, f"{i}_{kind}"))
        step.save_module(folder / f"{i}_{kind}")
    return parts


def _write_json(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
