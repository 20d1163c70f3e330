"""The neural resources: a masked language model that proposes words, a sentence encoder that compares texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rbench.errors import ResourceError
from rbench.resources.memo import Memo

CACHE_BYTES = 256 << 20
"""What each model may remember of its answers."""


class MaskedLM:
    """A masked language model: `model` (in eval mode, float32, on its device) with its `tokenizer`.

    `memo` is for whoever asks it the same again: answers by any key that tells questions apart.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:
        if tokenizer.mask_token_id is None:
            raise ResourceError(f"masked LM {name}: its tokenizer has no mask token")
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.memo: Memo[tuple[Any, ...], Any] = Memo(CACHE_BYTES, _bytes)

    @classmethod
    def open(cls, folder: Path, device: str) -> MaskedLM:
        """Read a transformers folder with a masked-LM head.

        Raises:
            ResourceError: it cannot be read, or has no head (a random one would propose random words).
        """
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        try:
            model, info = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except Exception as error:  # transformers, safetensors and json raise a dozen kinds for one fact
            raise ResourceError(f"masked LM {folder.name}: {folder} cannot be read: {error}") from error
        lost = sorted(set(info["missing_keys"]) - set(getattr(model, "_tied_weights_keys", None) or ()))
        if lost:
            raise ResourceError(
                f"masked LM {folder.name}: {folder} lacks the weights {', '.join(lost[:3])}"
                f"{' ...' if len(lost) > 3 else ''}; it is no masked language model"
            )
        return cls(model.float().eval().to(device), tokenizer, folder.name)


def _bytes(key: tuple[Any, ...], value: Any) -> int:
    """Roughly what a remembered answer takes: an array, or a list of words."""
    return 400 + 2 * sum(len(part) for part in key if isinstance(part, str)) + getattr(value, "nbytes", 60 * len(value))


class Sentences:
    """A sentence encoder: `encode` asks the model each time, `vectors` remembers texts and asks for each once.

    Args:
        model: texts to float32 vectors, an array or tensor of shape (n, dim).
        name: for messages.
    """

    def __init__(self, model: Callable[[list[str]], Any], name: str) -> None:
        self._model, self.name = model, name
        self.memo: Memo[str, Tensor] = Memo(CACHE_BYTES, lambda text, row: 200 + 2 * len(text) + 4 * row.numel())

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Vectors (n, dim), float32, on the CPU."""
        return torch.as_tensor(self._model(list(texts)), dtype=torch.float32).cpu()

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """The same, with every distinct text encoded once and remembered; at least one text."""
        rows = {text: self.memo.get(text) for text in dict.fromkeys(texts)}
        new = [text for text, row in rows.items() if row is None]
        if new:
            for text, row in zip(new, self.encode(new), strict=True):
                rows[text] = row
                self.memo.put(text, row.clone())
        return torch.stack([row for text in texts if (row := rows[text]) is not None])


def sentence_transformer(folder: Path, device: str) -> Sentences:
    """A sentence-transformers (or plain transformers) folder; its own pooling and normalisation hold.

    Raises:
        ResourceError: it cannot be read.
    """
    from sentence_transformers import SentenceTransformer

    try:
        model = SentenceTransformer(str(folder), device=device, local_files_only=True).float().eval()
    except Exception as error:  # a dozen kinds for one fact: the folder cannot be read
        raise ResourceError(f"sentence encoder {folder.name}: {folder} cannot be read: {error}") from error

    def encode(texts: list[str]) -> Any:
        return model.encode(texts, show_progress_bar=False, convert_to_tensor=True)

    return Sentences(encode, folder.name)


def universal_sentence_encoder(where: str) -> Sentences:
    """The Universal Sentence Encoder through TensorFlow Hub, from a folder or TensorFlow Hub's cache."""
    import tensorflow_hub

    model = tensorflow_hub.load(where)

    def encode(texts: list[str]) -> Any:
        answer = model(texts)
        return np.asarray(answer["outputs"] if isinstance(answer, dict) else answer)

    return Sentences(encode, "universal-sentence-encoder")
