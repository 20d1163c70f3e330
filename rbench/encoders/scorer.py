"""A scorer: an encoder that scores how similar two sentences are. It is the victim of attacks on STS tasks.

Both sentences are encoded alone. One of two heads turns their vectors u and v into a number, the *raw* score, and maps
that to the task's gold scale, always increasing:

- `CosineHead`: the cosine of u and v, or what else the encoder is compared by (`EncoderSpec.similarity`), mapped by a
  piecewise linear function that is fitted to gold scores.
- `RegressionHead`: a linear layer on (u, v, |u - v|, u * v), mapped by a sigmoid (ours; SBERT's features of a pair,
  Reimers and Gurevych 2019, section 3, and the product).

An attack succeeds if the score moves far enough on the gold scale. A raw cosine would not do. Many encoders use a
narrow part of -1..1: their cosines of unlike sentences lie at 0.6, say, and those of like ones at 0.9. Such an encoder
would look robust, because no attack could move its cosine by much. So every encoder has a fit of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from rbench.encoders.classifier import OnEncoder
from rbench.encoders.sentence import SentenceEncoder
from rbench.schema import Similarity

# Part of the key of every job on an STS task (config/versions.py): raising it fits and attacks all scorers anew.
VERSION = 1
USES = ("encoders.classifier", "encoders.sentence")

Scale = tuple[float, float]
"""The lowest and the highest gold score."""


class CosineHead(nn.Module):
    """The similarity of two vectors, mapped to the scale by straight lines between knots.

    Args:
        cosines: the knots' similarities, of cosines in -1..1, strictly increasing, at least two, float64.
        scores: the knots' scores on the scale, not decreasing. Beyond the outer knots the score is constant.
        similarity: how vectors are compared.
    """

    kind: ClassVar[Literal["cosine"]] = "cosine"
    cosines: Tensor
    scores: Tensor

    def __init__(
        self, cosines: NDArray[np.float64], scores: NDArray[np.float64], similarity: Similarity = "cosine"
    ) -> None:
        super().__init__()
        self.similarity = similarity
        self.register_buffer("cosines", torch.tensor(cosines, dtype=torch.float64))
        self.register_buffer("scores", torch.tensor(scores, dtype=torch.float64))

    def raw(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the similarities (n,), float64, of vectors (n, dim): cosines, or what the encoder is compared by."""
        u, v = u.double(), v.double()
        if self.similarity == "dot":
            products: Tensor = (u * v).sum(dim=1)
            return products
        if self.similarity != "cosine":
            distances: Tensor = torch.linalg.vector_norm(u - v, ord=1 if self.similarity == "manhattan" else 2, dim=1)
            return -distances
        lengths = u.norm(dim=1) * v.norm(dim=1)
        cosines: Tensor = (u * v).sum(dim=1) / lengths.clamp(min=1e-12)
        return cosines

    def mapped(self, raw: Tensor, scale: Scale) -> Tensor:
        """Return scores (n,), float64, of cosines (n,). No gradient passes."""
        # np.interp is constant beyond the outer knots, which keeps a score on the scale.
        mapped_scores = np.interp(raw.detach().cpu().numpy(), self.cosines.cpu().numpy(), self.scores.cpu().numpy())
        return torch.from_numpy(mapped_scores).clamp(*scale).to(raw.device)


class RegressionHead(nn.Module):
    """A linear layer on (u, v, |u - v|, u * v) and a sigmoid.

    Args:
        dim: length of the vectors.
    """

    kind: ClassVar[Literal["regression"]] = "regression"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(4 * dim, 1)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def raw(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the log-odds (n,), float64, for vectors (n, dim)."""
        u, v = u.double(), v.double()
        features = torch.cat([u, v, (u - v).abs(), u * v], dim=1)
        return (features * self.linear.weight.double()).sum(dim=1) + self.linear.bias.double()

    def mapped(self, raw: Tensor, scale: Scale) -> Tensor:
        """Return scores (n,), float64, of log-odds (n,)."""
        low, high = scale
        return low + (high - low) * raw.sigmoid()


class EncoderScorer(OnEncoder):
    """`encoder` and a head that scores pairs of its vectors.

    Args:
        encoder: computes the vectors; shared, not copied.
        head: turns two vectors into a score.
        scale: the lowest and the highest gold score of the task.
        max_length: longest sentence in tokens; None, or more than the encoder's: the encoder's.
    """

    KIND = "scorer"

    def __init__(
        self,
        encoder: SentenceEncoder,
        head: CosineHead | RegressionHead,
        scale: Scale,
        max_length: int | None = None,
    ) -> None:
        super().__init__(encoder, max_length)
        self.head = head.to(encoder.device)
        self.scale: Scale = (float(scale[0]), float(scale[1]))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        second_input_ids: Tensor,
        second_attention_mask: Tensor,
        labels: Tensor | None = None,
        **types: Tensor,
    ) -> SequenceClassifierOutput:
        """Return scores (batch,) on the scale as `logits`, float32, and the loss where there are gold scores `labels`.

        The inputs are a tokenizer's output for the first and, with `second_` before each name, the second sentences.
        The loss is the mean squared error as a share of the scale's width. Gradients pass with a `RegressionHead` only.
        """
        first = {"input_ids": input_ids, "attention_mask": attention_mask}
        second = {"input_ids": second_input_ids, "attention_mask": second_attention_mask}
        if "token_type_ids" in types:
            first["token_type_ids"], second["token_type_ids"] = types["token_type_ids"], types["second_token_type_ids"]
        scores = self.score(self.vectors(**first), self.vectors(**second)).float()
        width = self.scale[1] - self.scale[0]
        loss = None if labels is None else ((scores - labels) / width).square().mean()
        return SequenceClassifierOutput(loss=loss, logits=scores)

    def vectors(self, **inputs: Tensor) -> Tensor:
        """Return the sentence vectors (n, dim), float32, of a tokenizer's output (n, length)."""
        vectors: Tensor = self.encoder(**inputs)
        return vectors.float()

    def raw(self, u: Tensor, v: Tensor) -> Tensor:
        """Return raw scores (n,), float64, of vectors (n, dim): cosines or log-odds. Gradients pass."""
        return self.head.raw(u, v)

    def score(self, u: Tensor, v: Tensor) -> Tensor:
        """Return scores (n,), float64, on the task's scale, of vectors (n, dim)."""
        return self.head.mapped(self.raw(u, v), self.scale)

    @torch.no_grad()
    def encode(self, texts: Sequence[str], batch_size: int = 64) -> Tensor:
        """Return the vectors (len(texts), dim), float32, on the CPU. Texts are cut at `max_length` tokens."""
        # Longest first, so that texts of a batch are of similar length and need little padding.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = torch.zeros(len(texts), self.encoder.dim)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            padded = self.tokenizer(
                [texts[i] for i in batch],
                padding=True,
                truncation=True,
                max_length=self.max_length,
                return_tensors="pt",
            )
            vectors[batch] = self.vectors(**padded.to(self.device)).cpu()
        return vectors

    @torch.no_grad()
    def score_pairs(self, pairs: Sequence[tuple[str, ...]], batch_size: int = 64) -> NDArray[np.float64]:
        """Return the scores (len(pairs),) of pairs of sentences, in eval mode or as the caller has set it."""
        vectors = self.encode([text for pair in pairs for text in pair], batch_size).to(self.device)
        return np.asarray(self.score(vectors[::2], vectors[1::2]).cpu().numpy(), dtype=np.float64)

    def save(self, folder: Path, meta: dict[str, Any]) -> None:
        """Write config, tokenizer, weights, head and `meta` (JSON values of the caller) to `folder`, for `load`."""
        about = {"kind": self.KIND, "head": self.head.kind, "scale": list(self.scale), "meta": meta}
        self.write(folder, self.head, about)

    @classmethod
    def restored(cls, encoder: SentenceEncoder, about: dict[str, Any], head: dict[str, Tensor]) -> Self:
        low, high = about["scale"]
        return cls(encoder, _build_head(about["head"], head, encoder), (low, high), about["max_length"])


def _build_head(kind: str, state: dict[str, Tensor], encoder: SentenceEncoder) -> CosineHead | RegressionHead:
    if kind == CosineHead.kind:
        return CosineHead(state["cosines"].numpy(), state["scores"].numpy(), encoder.settings.similarity)
    head = RegressionHead(encoder.dim)
    head.load_state_dict(state)
    return head


VICTIM = EncoderScorer
"""The victims of this module, for `rbench.encoders.load_victim`."""
