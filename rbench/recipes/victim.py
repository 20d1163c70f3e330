"""Wrap a classifier for TextAttack: texts in, logits out, each distinct text computed once; and a scorer of pairs.

For attacks that use gradients, those of its log-odds at its token embeddings are computed for many texts in one batch.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from textattack.models.wrappers import ModelWrapper
from torch import Tensor

from rbench.encoders.classify import BatchLimits, build_network
from rbench.encoders.inference import (
    BatchedModel,
    BoundedMemo,
    Network,
    RowTokenizer,
    TokenRow,
    make_steady,
    read_padding,
)
from rbench.encoders.reading import convert_to_tokens
from rbench.errors import JobError

if TYPE_CHECKING:
    from rbench.encoders.inference.input_gradients import InputGradients

VERSION = 1

Pair = tuple[str, ...]
Text = str | Pair
VectorPair = tuple[Tensor, Tensor]

CACHE_BYTES = 512 << 20


class LabelledRow(NamedTuple):
    """A text as token ids, and the label y of its log-odds."""

    row: TokenRow
    label: int


def gradient_at_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient (n, labels) of m = logsumexp(l_k, k != y) - l_y at the logits l (n, labels).

    m is the log-odds against the label y. `labels` has the shape (n, 1).
    """
    # softmax over k != y is the gradient of the logsumexp; the scatter puts -1, that of -l_y, at y.
    return logits.scatter(1, labels, -math.inf).softmax(dim=1).scatter(1, labels, -1.0)


def compute_log_odds_gradients(classifier: Any, wanted: Sequence[LabelledRow]) -> list[InputGradients]:
    """Return the logits of each text, and the gradient of m at its token embeddings.

    If `classifier` is `rbench.encoders.inference.make_steady` and on a CPU, a text's gradient does not depend on the
    other texts of its batch.
    """
    from rbench.encoders.inference.input_gradients import GradientNetwork

    labels = torch.tensor([label for _, label in wanted], device=classifier.device).unsqueeze(1)
    network = GradientNetwork(
        classifier,
        lambda module, **inputs: module(**inputs).logits,
        classifier.get_input_embeddings(),
        classifier.device,
        pad=getattr(classifier, "pad", None) or read_padding(classifier.tokenizer),
        step=getattr(classifier, "batching", BatchLimits()).step,
    )
    return network([row for row, _ in wanted], lambda logits, places: gradient_at_logits(logits, labels[places]))


class NetworkVictim(ModelWrapper):  # type: ignore[misc]
    """A network under attack, with its answers cached over examples, up to CACHE_BYTES, until `forget`.

    Token ids are computed in batches of equal length. Inside `rbench.encoders.inference.run_jobs` several attacks share
    a batch.

    Args:
        module: a `Victim`'s classifier or a `ScorerVictim`'s scorer.
        name: for messages.
        max_length: longest input in tokens; longer ones are cut as TextAttack cuts them. None: the module's own.
        device: where the module is.
        backend: what computes it, one of `rbench.encoders.inference.BACKENDS` or "auto".
    """

    def __init__(
        self, module: Any, name: str, *, max_length: int | None = None, device: str = "cpu", backend: str = "auto"
    ) -> None:
        self.name, self.device = name, device
        self.model, self.tokenizer = module.eval(), module.tokenizer  # the names that TextAttack uses
        self.row_tokenizer = RowTokenizer(self.tokenizer)
        self.max_length = int(max_length or module.max_length)
        self.pooled: int | None = getattr(module.encoder, "pooled", None) if hasattr(module, "encoder") else None
        """Examples that keep it busy at once; None: as many as the device needs."""
        self.by_text: BoundedMemo[Any, Tensor] = BoundedMemo(
            CACHE_BYTES // 2, lambda text, row: 300 + 2 * len(str(text))
        )
        self.by_ids: BatchedModel[TokenRow, Tensor] = BatchedModel(
            self._forward, BoundedMemo(CACHE_BYTES // 2, lambda ids, row: 400 + 16 * len(ids[0]) + 4 * len(row))
        )
        self.network = self._opened(name=f"victim {name}", device=device, backend=backend)

    def forget(self) -> None:
        """Forget all answers, so that what an attack costs does not depend on the attacks before it."""
        self.by_text.clear()
        if self.by_ids.memo is not None:
            self.by_ids.memo.clear()

    def check(self) -> None:
        """Say whether it is still the victim that was opened, as that of a function may not be. A network is."""

    @abstractmethod
    def _opened(self, **options: Any) -> Network:
        """Return what computes rows of token ids; `options` are those of `Network`."""

    def _forward(self, rows: list[TokenRow]) -> list[Tensor]:
        """Return what the network gives for each row, on the CPU."""
        return list(torch.stack(self.network(rows)).float().cpu())


class Victim(NetworkVictim):
    """A classifier under attack: an `rbench.encoders.classifier.EncoderClassifier`, or any module whose output has
    `.logits`.

    Each distinct sequence of token ids is computed once, so texts with the same ids get identical logits.
    """

    def _opened(self, **options: Any) -> Network:
        self.classifier = self.model
        self.num_labels: int | None = getattr(self.classifier, "num_labels", None)
        self._texts: dict[TokenRow, Text] = {}
        return build_network(self.classifier, shown=self._show_text, **options)

    @cached_property
    def log_odds_gradients(self) -> BatchedModel[LabelledRow, InputGradients]:
        """Gradients of the log-odds against a label, for attacks that use gradients."""
        steady_classifier = make_steady(self.classifier)
        return BatchedModel(lambda wanted: compute_log_odds_gradients(steady_classifier, wanted))

    def __call__(self, text_input_list: Sequence[Text], **kwargs: Any) -> Tensor:
        """Return logits (n, labels), float32, on the CPU, for texts that are strings or tuples of columns.

        Raises:
            JobError: the classifier gave NaN or infinity, half precision or another shape; names the victim and the
                text.
        """
        return torch.stack(self.by_text.filled(text_input_list, self._answered))

    def _answered(self, texts: list[Text]) -> list[Tensor]:
        keys = self.row_tokenizer(texts, self.max_length)
        self._texts.update(zip(keys, texts, strict=True))
        return self.by_ids(keys)

    def is_truncated(self, text: Text) -> bool:
        """Return whether a text is longer than `max_length` tokens, so that its end is cut off."""
        ids = self.tokenizer([text], truncation=False, verbose=False)["input_ids"][0]
        return len(ids) > self.max_length

    def _forward(self, rows: list[TokenRow]) -> list[Tensor]:
        try:
            answers = self.network(rows)
            self._check(answers, rows)
        finally:
            self._texts.clear()
        return list(torch.stack(answers).cpu())

    def _check(self, answers: list[Tensor], rows: list[TokenRow]) -> None:
        first = answers[0]
        labels = self.num_labels or (len(first) if first.ndim else 0)
        if any(answer.shape != (labels,) for answer in answers) or labels < 2:
            raise JobError(
                f"victim {self.name} gave logits of shape {tuple(first.shape)} for a text and {labels} labels, "
                f"for {self._show_text(rows[0])}"
            )
        if first.dtype != torch.float32:
            raise JobError(f"victim {self.name} gave {first.dtype} logits, not float32, for {self._show_text(rows[0])}")
        not_finite = (~torch.isfinite(torch.stack(answers))).any(dim=1).nonzero()
        if len(not_finite):
            raise JobError(
                f"victim {self.name} gave NaN or infinite logits for {self._show_text(rows[int(not_finite[0])])}"
            )

    def _show_text(self, row: TokenRow) -> str:
        text = self._texts.get(row, "")
        shown = text if isinstance(text, str) else " | ".join(text)
        return repr(shown if len(shown) <= 200 else shown[:200] + "...")

    # -------------------------------------------------------------------- for recipes that use gradients

    def get_grad(self, text_input: Text) -> dict[str, Any]:
        """Return token ids, and the gradient (tokens, dim) of the predicted label's loss at the token embeddings."""
        inputs = self.tokenizer([text_input], truncation=True, max_length=self.max_length, return_tensors="pt")
        inputs = inputs.to(self.device)
        embeddings: list[Tensor] = []

        def keep(module: Any, args: Any, output: Tensor) -> Tensor:
            embeddings.append(output.detach().requires_grad_())
            return embeddings[-1]

        handle = self.classifier.get_input_embeddings().register_forward_hook(keep)
        try:
            with torch.enable_grad():
                logits = self.classifier(**inputs).logits
                loss = torch.nn.functional.cross_entropy(logits, logits.argmax(dim=1))
                (gradient,) = torch.autograd.grad(loss, embeddings[0])
        finally:
            handle.remove()
        return {"ids": inputs["input_ids"], "gradient": gradient[0].cpu().numpy()}

    def _tokenize(self, inputs: Sequence[Text]) -> list[list[str]]:
        encoded = self.tokenizer(list(inputs), truncation=True, max_length=self.max_length)
        return [convert_to_tokens(self.tokenizer, ids) for ids in encoded["input_ids"]]


class DirectedRow(NamedTuple):
    """A sentence as token ids, and the gradient of a loss at its vector, as bytes of float32."""

    row: TokenRow
    direction: bytes


class ScorerVictim(NetworkVictim):
    """A scorer under attack: an `rbench.encoders.scorer.EncoderScorer`. `max_length` is that of a sentence.

    An attack changes one sentence at a time, so about half of the sentences of its queries are known: their vectors
    are cached. A pair's score is computed for this pair alone, in float64. So it has the same bits whatever else is
    asked, as a classifier's logits have (see `Victim`).
    """

    def _opened(self, **options: Any) -> Network:
        self.scorer = self.model
        return Network(self.scorer.encoder, encode_float32, tokenizer=self.tokenizer, **options)

    @cached_property
    def gradients(self) -> BatchedModel[DirectedRow, Tensor]:
        """Gradients (tokens, dim) at the token embeddings, on the CPU."""
        from rbench.encoders.inference.input_gradients import GradientNetwork

        steady_encoder: Any = make_steady(self.scorer.encoder)
        token_embeddings, pad = steady_encoder.model.get_input_embeddings(), read_padding(self.tokenizer)
        network = GradientNetwork(steady_encoder, encode_float32, token_embeddings, self.scorer.device, pad=pad)

        def computed(wanted: Sequence[DirectedRow]) -> list[Tensor]:
            loss = torch.from_numpy(
                np.stack([np.frombuffer(directed.direction, np.float32) for directed in wanted])
            ).clone()
            answers = network([directed.row for directed in wanted], lambda z, places: loss[places].to(z.device))
            return [directed.embeddings for directed in answers]

        return BatchedModel(computed)

    def __call__(self, text_input_list: Sequence[Pair], **kwargs: Any) -> Tensor:
        """Return scores (n,), float64, on the CPU, for pairs of sentences.

        Raises:
            JobError: the encoder gave NaN or infinity; names the victim and the pair.
        """
        return torch.stack(self.by_text.filled(text_input_list, self._scores))

    def _scores(self, pairs: list[Pair]) -> Iterator[Tensor]:
        for pair, (u, v) in zip(pairs, self.vectors(pairs), strict=True):
            with torch.no_grad():
                score = self._head.mapped(self.raw(u, v), self.scorer.scale).reshape(())
            if not torch.isfinite(score):
                raise JobError(f"victim {self.name} gave a score that is no number for {' | '.join(pair)[:200]!r}")
            yield score

    def vectors(self, pairs: Sequence[Pair]) -> list[VectorPair]:
        """Return the sentence vectors (dim,) of each pair, float32, on the CPU."""
        if not pairs:
            return []
        vectors = self.by_ids(self.rows(pairs))
        return list(zip(vectors[::2], vectors[1::2], strict=True))

    def rows(self, pairs: Sequence[Pair]) -> list[TokenRow]:
        """Return the token ids of all sentences: the first and the second of each pair in turn."""
        return self.row_tokenizer([sentence for pair in pairs for sentence in pair], self.max_length)

    def encoded(self, pairs: Sequence[Pair], **more: bool) -> Any:
        """Return the tokenizer's output for all sentences, in the order of `rows`."""
        sentences = [sentence for pair in pairs for sentence in pair]
        return self.tokenizer(sentences, truncation=True, max_length=self.max_length, **more)

    def raw(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the raw score (1,) of one pair of vectors (dim,), float64, on the CPU. Gradients pass."""
        raw: Tensor = self._head.raw(u.unsqueeze(0), v.unsqueeze(0))
        return raw

    @cached_property
    def _head(self) -> Any:
        """A copy of the head on the CPU, where vectors are cached."""
        return copy.deepcopy(self.scorer.head).cpu()

    def is_truncated(self, texts: Pair) -> bool:
        """Return whether a sentence is longer than `max_length` tokens, so that its end is cut off."""
        ids = self.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return any(len(sentence_ids) > self.max_length for sentence_ids in ids)

    # -------------------------------------------------------------------------------- for attacks that use gradients

    def raw_gradient(self, u: Tensor, v: Tensor) -> VectorPair:
        """Return the gradients (dim,) of the raw score of one pair at its vectors, float32.

        The score on the scale is an increasing function of the raw one, so its gradient has the same direction, unless
        it is zero where the map is flat.
        """
        leaves = u.detach().requires_grad_(), v.detach().requires_grad_()
        with torch.enable_grad():
            at_u, at_v = torch.autograd.grad(self.raw(*leaves).sum(), leaves)
        return at_u, at_v

    def embedding_gradients(self, pairs: Sequence[Pair]) -> list[Tensor]:
        """Return the gradients (tokens, dim) of raw scores at the token embeddings of all sentences, as in `rows`."""
        directions = [gradient for u, v in self.vectors(pairs) for gradient in self.raw_gradient(u, v)]
        return self.gradients(
            DirectedRow(row, direction.numpy().tobytes())
            for row, direction in zip(self.rows(pairs), directions, strict=True)
        )

    def get_grad(self, text_input: Pair) -> dict[str, Any]:
        """Return token ids, and the gradient (tokens, dim) of a loss at the token embeddings of both sentences.

        TextAttack means the loss of the predicted label, whose increase changes the prediction. A score can change in
        two directions. Here the loss falls towards the farther end of the scale (ours), with the raw score as its size.
        """
        low, high = self.scorer.scale
        rises = float(self([text_input])[0]) - low < (high - low) / 2
        gradient = torch.cat(self.embedding_gradients([text_input])).numpy()
        ids = [token for row, _ in self.rows([text_input]) for token in row]
        return {"ids": torch.tensor([ids]), "gradient": gradient if rises else -gradient}

    def _tokenize(self, inputs: Sequence[Pair]) -> list[list[str]]:
        ids = self.encoded(inputs)["input_ids"]
        tokens = [convert_to_tokens(self.tokenizer, sentence_ids) for sentence_ids in ids]
        return [first + second for first, second in zip(tokens[::2], tokens[1::2], strict=True)]


def encode_float32(encoder: Any, **inputs: Tensor) -> Tensor:
    vectors: Tensor = encoder(**inputs)
    return vectors.float()
