"""Write a trained encoder as a transformers folder that is, if possible, a SentenceTransformer too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.encoders.locate import TRANSFORM
from rbench.errors import JobError
from rbench.spec import Pooling

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

_MODES = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
_MODE: dict[Pooling, str] = {"cls": "cls_token", "mean": "mean_tokens"}
EXPRESSIBLE = tuple(_MODE)


def check(name: str, pooling: Pooling) -> None:
    """Raise JobError if sentence-transformers lacks the pooling, so that the encoder could not be saved for it."""
    if pooling not in _MODE:
        raise JobError(
            f"Encoder {name} has pooling {pooling}; an encoder trained here needs {' or '.join(EXPRESSIBLE)}, which "
            "sentence-transformers can read. A head for training is added to either."
        )


def obstacle(encoder: SentenceEncoder) -> str:
    """Say why SentenceTransformer cannot read this encoder and give the same vectors; empty if it can."""
    kind = encoder.transform.KIND if encoder.transform is not None else "linear"
    if encoder.model.config.model_type == "rbench-static":
        return "it averages static word vectors, whose tokenizer and network only rbench has"
    if kind != "linear":
        return f"a {kind} follows its pooling, for which sentence-transformers has no module"
    if encoder.pooling not in _MODE:
        return f"its pooling is {encoder.pooling}, and sentence-transformers has only {' and '.join(EXPRESSIBLE)}"
    return ""


def save(folder: Path, encoder: SentenceEncoder) -> None:
    """Write `encoder` for rbench, and as a SentenceTransformer too unless there is an `obstacle`."""
    encoder.save(folder)
    if not obstacle(encoder):
        linear = encoder.transform is not None
        write(folder, pooling=encoder.pooling, dim=encoder.width, max_length=encoder.max_length, linear=linear)


def write(folder: Path, *, pooling: Pooling, dim: int, max_length: int, linear: bool = False) -> None:
    """Turn a transformers folder into a SentenceTransformer: add modules.json and the files that it names.

    Args:
        pooling: one of `EXPRESSIBLE`.
        dim: width of the pooled vectors.
        max_length: longest input in tokens.
        linear: whether the subfolder `TRANSFORM` has a linear map to apply after pooling.
    """
    kinds = {"Transformer": "", "Pooling": "1_Pooling"} | ({"Dense": TRANSFORM} if linear else {})
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(kinds.items())
    ]
    modes = {f"pooling_mode_{mode}": mode == _MODE[pooling] for mode in _MODES}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    for file, content in (
        ("modules.json", modules),
        ("sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False}),
        ("1_Pooling/config.json", {"word_embedding_dimension": dim, **modes, "include_prompt": True}),
    ):
        (folder / file).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
