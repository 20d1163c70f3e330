"""The sentence encoder with which attacks compare texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rbench.encoders.foreign import read_modules
from rbench.encoders.inference import BatchedModel, BoundedMemo, Network, RowTokenizer, TokenRow
from rbench.system.own_code import failing_in

VERSION = 1

Vector = NDArray[np.float32]

CACHE_BYTES = 256 << 20
"""Size limit of each model's caches."""


class CachedSentenceEncoder:
    """A sentence encoder. `encode` always runs the model; `vectors` runs it once for each text and caches the vectors.

    Args:
        model: maps texts to vectors, an array or tensor of shape (n, dim).
        name: for messages.
        tokenize: maps texts to rows of token ids. Given together with `network`, or None.
        network: maps rows to their vectors. If given, `vectors` uses it, in batches of equal length that several
            attacks share.
    """

    def __init__(
        self,
        model: Callable[[list[str]], Any],
        name: str,
        *,
        tokenize: Callable[[list[str]], list[TokenRow]] | None = None,
        network: Network | None = None,
    ) -> None:
        self._model, self.name, self.network = model, name, network
        self.memo: BoundedMemo[str, Vector] = BoundedMemo(
            CACHE_BYTES // 2, lambda text, row: 200 + 2 * len(text) + row.nbytes
        )
        self._tokenize = tokenize
        self._by_text: BatchedModel[str, Vector] = BatchedModel(lambda texts: list(self.encode(texts).numpy()))
        self._by_ids: BatchedModel[TokenRow, Vector] = BatchedModel(
            self._forward, BoundedMemo(CACHE_BYTES // 2, lambda ids, row: 300 + 8 * len(ids[0]) + row.nbytes)
        )

    def forget(self) -> None:
        """Forget all vectors."""
        self.memo.clear()
        if self._by_ids.memo is not None:
            self._by_ids.memo.clear()

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Return vectors (n, dim), float32, on the CPU."""
        return torch.as_tensor(self._model(list(texts)), dtype=torch.float32).cpu()

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """Return the same as `encode`, but encode every distinct text once and cache it. Needs at least one text."""
        return torch.from_numpy(np.stack(self.memo.filled(texts, self._compute)))

    def _compute(self, texts: list[str]) -> list[Vector]:
        vectors = self._by_text(texts) if self._tokenize is None else self._by_ids(self._tokenize(texts))
        return [vector.copy() for vector in vectors]  # a view would keep the whole batch in memory

    def _forward(self, rows: list[TokenRow]) -> list[Vector]:
        assert self.network is not None
        return list(torch.stack(self.network(rows)).float().cpu().numpy())


def sentence_transformer(folder: Path, device: str, backend: str = "auto") -> CachedSentenceEncoder:
    """Load a sentence-transformers (or plain transformers) folder, with its own pooling and normalisation.

    Raises:
        ResourceError: it cannot be read, or its modules.json lists a module that rbench does not know.
    """
    from sentence_transformers import SentenceTransformer

    read_modules(folder)  # refuses unknown modules, which sentence-transformers would import from the folder
    with failing_in(f"sentence encoder {folder.name}: {folder}"):
        model = SentenceTransformer(str(folder), device=device, local_files_only=True, trust_remote_code=False)
        model = model.float().eval()

    def encode(texts: list[str]) -> Any:
        return model.encode(texts, show_progress_bar=False, convert_to_tensor=True)

    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(tokenizer, PreTrainedTokenizerBase) or not hasattr(model[0], "auto_model"):
        return CachedSentenceEncoder(encode, folder.name)  # for example averaged word vectors
    changes_texts = model.default_prompt_name is not None or getattr(model[0], "do_lower_case", False)
    if changes_texts or model.truncate_dim is not None:
        return CachedSentenceEncoder(encode, folder.name)  # what the network gives is not what the model does

    row_tokenizer = RowTokenizer(tokenizer)

    def tokenize(texts: list[str]) -> list[TokenRow]:
        # Texts are stripped as sentence-transformers does before it tokenises, so that both ways give equal vectors.
        return row_tokenizer([text.strip() for text in texts], model.max_seq_length)

    network = Network(
        model,
        _sentence_embedding,
        tokenizer=tokenizer,
        name=f"sentence encoder {folder.name}",
        device=device,
        backend=backend,
    )
    return CachedSentenceEncoder(encode, folder.name, tokenize=tokenize, network=network)


def _sentence_embedding(model: Any, **inputs: Tensor) -> Tensor:
    return model(dict(inputs))["sentence_embedding"]  # type: ignore[no-any-return]


def universal_sentence_encoder(where: str) -> CachedSentenceEncoder:
    """Load the Universal Sentence Encoder with TensorFlow Hub, from the folder or handle `where`."""
    import tensorflow_hub

    model = tensorflow_hub.load(where)

    def encode(texts: list[str]) -> Any:
        answer = model(texts)
        return np.asarray(answer["outputs"] if isinstance(answer, dict) else answer)

    return CachedSentenceEncoder(encode, "universal-sentence-encoder")
