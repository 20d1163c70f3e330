"""An encoder behind an endpoint. It stays as it is: it has no weights here, no layers and no gradients.

`TextNumbers` stands in the place of a tokenizer: a text is one token. So whatever batches rows of token ids serves such
an encoder as well. A victim that is saved names its endpoint by a hash alone. It is asked only if the user's own suite
named the endpoint in this process, because a folder of somebody else's must not choose where a key is sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BatchEncoding

from rbench.encoders import asked_vectors
from rbench.encoders.asked_vectors import EndpointAsker, VectorServer, open_server
from rbench.encoders.cached_vectors import Vectors
from rbench.encoders.locate import ENDPOINT
from rbench.encoders.reading import ReadingSettings
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import AnswerError, JobError, ResourceError
from rbench.schema import EncoderSpec
from rbench.system.below import SafeFolder

VERSION = 1

LEAST_POOLED = 64
"""Texts that are attacked at once, at least, so that requests are full."""


class TextNumbers:
    """Stands in the place of a tokenizer: each text is one token, whose number stands for the text in this process."""

    is_fast: ClassVar[bool] = False
    model_max_length: ClassVar[int] = 1 << 20
    pad_token_id: ClassVar[int] = 0
    pad_token_type_id: ClassVar[int] = 0

    def __init__(self, settings: ReadingSettings) -> None:
        self._prompt, self._lowercase = settings.prompt, settings.lowercase
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = [""]  # number 0 is padding

    def read(self, text: Any) -> str:
        """Return what is sent for a text: with the prompt before it, and in lower case where that is asked for."""
        prompted: str = self._prompt + text
        return prompted.lower() if self._lowercase else prompted

    def __call__(self, text: Any, text_pair: Any = None, *, return_tensors: str | None = None, **options: Any) -> Any:
        """Return the number of a text, or those of several, as a tokenizer does. Nothing is cut."""
        if text_pair is not None:
            self.read(None)
        ids = [self._number(text)] if isinstance(text, str) else [[self._number(item)] for item in text]
        mask = [1] if isinstance(text, str) else [[1] for _ in ids]
        encoding = {"input_ids": ids, "attention_mask": mask}
        return BatchEncoding(encoding, tensor_type=return_tensors, prepend_batch_axis=isinstance(text, str))

    def pad(self, rows: Sequence[Mapping[str, Any]], return_tensors: str = "pt") -> Any:
        """Return rows as one batch. All have one token, so nothing is padded."""
        encoding = {name: [row[name] for row in rows] for name in ("input_ids", "attention_mask")}
        return BatchEncoding(encoding, tensor_type=return_tensors)

    def _number(self, text: Any) -> int:
        prompted = self.read(text)
        number = self._numbers.get(prompted)
        if number is None:
            number = self._numbers[prompted] = len(self.texts)
            self.texts.append(prompted)
        return number


def ask_afresh(spec: EncoderSpec, texts: Sequence[str]) -> list[Vectors | None]:
    """Return what an encoder behind an endpoint gives for each text now; None where the endpoint refuses it.

    Each text has a request of its own. Nothing comes from the cache, and nothing is kept.

    Raises:
        ResourceError: an environment variable is not set.
        JobError: it is not available, or its answers cannot be used.
    """
    assert spec.endpoint is not None
    settings = ReadingSettings.of(spec, None)
    reader = TextNumbers(settings)
    answers = EndpointAsker(spec.name, spec.endpoint).ask_singly([reader.read(text) for text in texts])
    return [
        None if answer is None else _finish(torch.from_numpy(answer)[None], settings)[0].numpy() for answer in answers
    ]


def _finish(vectors: Tensor, settings: ReadingSettings) -> Tensor:
    """Return vectors (batch, dim) as the settings want them."""
    if settings.normalize:
        vectors = nn.functional.normalize(vectors, dim=1)
    return vectors[:, : settings.truncate_dim] if settings.truncate_dim else vectors


class _RemoteNetwork(nn.Module):
    """The network of an encoder behind an endpoint: asks for the texts of token ids."""

    def __init__(self, server: VectorServer, texts: TextNumbers) -> None:
        super().__init__()
        self.server, self.texts = server, texts
        self.config = SimpleNamespace(hidden_size=server.dim)
        self.nothing = nn.Parameter(torch.zeros(1), requires_grad=False)  # says on which device vectors are wanted

    def forward(self, input_ids: Tensor, **more: Tensor) -> Tensor:
        """Return vectors (batch, dim) of token ids (batch, 1)."""
        texts = [self.texts.texts[number] for number in input_ids[:, 0].tolist()]
        return torch.from_numpy(self.server.vectors(texts)).to(input_ids.device)


class RemoteEncoder(SentenceEncoder):
    """An encoder behind an endpoint. It has the methods of a `SentenceEncoder`, and no weights, layers or gradients.

    Args:
        server: asks for vectors.
        settings: what is done to texts before and to vectors after.
    """

    REMOTE = True
    """Whether texts are sent elsewhere: back-ends are not measured, and only one process asks."""

    def __init__(self, server: VectorServer, settings: ReadingSettings) -> None:
        nn.Module.__init__(self)
        assert server.dim is not None
        self.server, self.settings, self.width, self.transform = server, settings, server.dim, None
        self.tokenizer = TextNumbers(settings)
        self.model = _RemoteNetwork(server, self.tokenizer)
        self.pooling, self.max_length, self.reads_token_types = "mean", TextNumbers.model_max_length, False
        self.pooled = max(LEAST_POOLED, 4 * server.endpoint.concurrency)
        self.most = server.endpoint.batch_size * server.endpoint.concurrency

    @classmethod
    def of(cls, spec: EncoderSpec, settings: ReadingSettings) -> Self:
        """Open an encoder that a suite names."""
        assert spec.endpoint is not None
        try:
            return cls(open_server(spec.name, spec.endpoint), settings).eval()
        except AnswerError as error:
            raise ResourceError(str(error)) from None

    @classmethod
    def restored(cls, folder: Path, settings: ReadingSettings) -> Self:
        """Open the encoder of a victim that `save` wrote. Raises ResourceError where nobody named its endpoint here."""
        about = SafeFolder(folder).read_json(folder / ENDPOINT) or {}
        if (endpoint := asked_vectors.named.get(str(about.get("digits")))) is None:
            raise ResourceError(
                f"{folder}: its encoder is behind an endpoint ({str(about.get('model'))[:100]!r}), which is asked only "
                "where a suite, or the command, names that encoder itself"
            )
        return cls(open_server(*endpoint), settings).eval()

    def save(self, folder: Path, *, transform: bool = True) -> None:
        """Write which endpoint it is, for `restored`. There are no weights, and no key is written."""
        fields = {"digits": self.server.digits, "model": self.server.endpoint.model, "dim": self.width}
        (folder / ENDPOINT).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")

    def for_documents(self) -> Self:
        return type(self)(self.server, self.settings.for_documents()).eval()

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return vectors (batch, dim) for what `TextNumbers` gives. No gradient passes."""
        return _finish(self.model(**inputs), self.settings)

    def encode(
        self, texts: Sequence[str], backend: str = "torch", progress: Callable[[int], object] | None = None
    ) -> Vectors:
        if isinstance(texts, str):
            raise TypeError("texts is a single text; give a list")
        if not len(texts):
            return np.zeros((0, self.dim), np.float32)
        try:
            # Asks for all of them, in full requests. The batches below then find every vector in the cache.
            self.server.vectors([self.tokenizer.read(text) for text in texts], progress)
        except AnswerError as error:
            raise JobError(str(error)) from None
        return self(**self.tokenizer(list(texts), return_tensors="pt")).numpy()  # type: ignore[no-any-return]

    def told(self) -> str:
        """Return what decides the vectors of texts, for the names of files."""
        return f"{self.server.digits} {self.settings!r}"
