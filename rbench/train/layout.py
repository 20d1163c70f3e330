"""Write a trained encoder as a transformers folder that is, if possible, a SentenceTransformer too."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.encoders.described import FLAGS, MODES, OVERALL
from rbench.encoders.locate import TRANSFORM
from rbench.errors import JobError
from rbench.spec import Pooling

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder
    from rbench.encoders.transform import Transform

_MODE: dict[Pooling, str] = {pooling: mode for mode, pooling in MODES.items()}
EXPRESSIBLE = tuple(_MODE)
"""The poolings that sentence-transformers has too."""
KINDS = {"linear": "Dense", "dense": "Dense", "layer-norm": "LayerNorm", "normalize": "Normalize"}
"""Maps a transform's kind to the module of sentence-transformers that computes the same."""


def check(name: str, pooling: Pooling, among: Collection[Pooling] = EXPRESSIBLE) -> None:
    """Raise JobError if an encoder cannot be trained with the pooling, or not be saved for sentence-transformers."""
    if pooling not in among:
        raise JobError(
            f"Encoder {name} has pooling {pooling}; an encoder trained here needs {' or '.join(among)}, which "
            "sentence-transformers can read. A head for training is added to it."
        )


def obstacle(encoder: SentenceEncoder) -> str:
    """Say why SentenceTransformer cannot read this encoder and give the same vectors; empty if it can."""
    kind = encoder.transform.KIND if encoder.transform is not None else "linear"
    if encoder.model.config.model_type == "rbench-static":
        return "it averages static word vectors, whose tokenizer and network only rbench has"
    if kind not in ("linear", "chain"):
        return f"a {kind} follows its pooling, for which sentence-transformers has no module"
    if encoder.pooling not in _MODE:
        return f"its pooling is {encoder.pooling}, and sentence-transformers has only {', '.join(EXPRESSIBLE)}"
    if encoder.settings.dtype != "float32":
        return (
            f"it computes in {encoder.settings.dtype}, and the folder would be computed in float32; leave out `dtype`"
        )
    return ""


def save(folder: Path, encoder: SentenceEncoder, prompts: Mapping[str, str] | None = None) -> None:
    """Write `encoder` for rbench, and as a SentenceTransformer too unless there is an `obstacle`.

    Args:
        prompts: further prompts by name, which a user of sentence-transformers may ask for.
    """
    if obstacle(encoder):
        encoder.save(folder)
        return
    chain = encoder.transform is not None and encoder.transform.KIND == "chain"
    encoder.save(folder, transform=not chain)
    write(folder, encoder, prompts)


def write(folder: Path, encoder: SentenceEncoder, prompts: Mapping[str, str] | None = None) -> None:
    """Turn a transformers folder into a SentenceTransformer: add modules.json and the files that it names.

    Args:
        encoder: has no `obstacle`. A linear transform of it is in the subfolder `TRANSFORM` already.
        prompts: as for `save`.
    """
    settings = encoder.settings
    parts: list[tuple[str, str]] = [("Transformer", ""), ("Pooling", "1_Pooling"), *_after(folder, encoder.transform)]
    if settings.normalize:
        parts.append(("Normalize", f"{len(parts)}_Normalize"))
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(parts)
    ]
    modes = {flag: mode == _MODE[encoder.pooling] for flag, mode in FLAGS.items()}
    _write(folder / "modules.json", modules)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": encoder.max_length, "do_lower_case": False})
    include = {"include_prompt": settings.include_prompt}
    _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": encoder.width, **modes, **include})
    own = {"default": settings.prompt} if settings.prompt else {}
    if own or prompts or settings.truncate_dim:
        named = {"prompts": {**(prompts or {}), **own}, "default_prompt_name": "default" if own else None}
        _write(folder / OVERALL, named | {"truncate_dim": settings.truncate_dim})


def _after(folder: Path, transform: Transform | None) -> list[tuple[str, str]]:
    """Write the modules that follow the pooling. Return kind and path of each."""
    from rbench.encoders.transform import Chain

    if not isinstance(transform, Chain):
        return [] if transform is None else [("Dense", TRANSFORM)]
    parts = []
    for i, step in enumerate(transform.parts, start=2):
        kind = KINDS[step.KIND]
        parts.append((kind, f"{i}_{kind}"))
        step.save_module(folder / f"{i}_{kind}")
    return parts


def _write(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
