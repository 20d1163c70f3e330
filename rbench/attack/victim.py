"""Wrap a classifier for TextAttack: texts in, logits out, each distinct text computed once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from textattack.models.wrappers import ModelWrapper
from torch import Tensor

from rbench.attack.gradients import Labelled, LogOddsGradients, log_odds_gradients
from rbench.encoders.classify import network_of
from rbench.encoders.reading import tokens_of
from rbench.errors import JobError
from rbench.inference import Batched, Memo, Row, rows_of, steady

VERSION = 1

Text = str | tuple[str, ...]

CACHE_BYTES = 512 << 20


class Victim(ModelWrapper):  # type: ignore[misc]
    """A classifier under attack.

    Texts are computed in batches of equal length. Each distinct sequence of token ids is computed once, so texts with
    the same ids get identical logits. Answers are cached, up to CACHE_BYTES, as long as this object lives: over
    examples and attacks. Inside `rbench.inference.run` several attacks share a batch.

    Args:
        classifier: an `rbench.encoders.classifier.EncoderClassifier`, or any module whose output has `.logits`.
        name: for messages.
        max_length: longest input in tokens; longer ones are cut as TextAttack cuts them. None: the classifier's own.
        device: where the classifier is.
        backend: what computes it, one of `rbench.inference.BACKENDS` or "auto".
    """

    def __init__(
        self,
        classifier: Any,
        name: str,
        *,
        max_length: int | None = None,
        device: str = "cpu",
        backend: str = "auto",
    ) -> None:
        self.classifier, self.name, self.device = classifier.eval(), name, device
        self.model, self.tokenizer = classifier, classifier.tokenizer  # the names that TextAttack uses
        self.max_length = int(max_length or classifier.max_length)
        self.num_labels: int | None = getattr(classifier, "num_labels", None)
        self.by_text: Memo[Text, Tensor] = Memo(CACHE_BYTES // 2, lambda text, row: 300 + 2 * len(str(text)))
        self.by_ids: Batched[Row, Tensor] = Batched(
            self._forward, Memo(CACHE_BYTES // 2, lambda ids, row: 400 + 16 * len(ids[0]))
        )
        self.network = network_of(classifier, name=f"victim {name}", shown=self._shown, device=device, backend=backend)
        self.log_odds_gradients: Batched[Labelled, LogOddsGradients] = Batched(
            lambda wanted: log_odds_gradients(self._steady, wanted)
        )
        """Gradients of the log-odds against a label, for attacks that use gradients."""
        self._texts: dict[Row, Text] = {}

    @cached_property
    def _steady(self) -> Any:
        return steady(self.classifier)

    def __call__(self, text_input_list: Sequence[Text], **kwargs: Any) -> Tensor:
        """Return logits (n, labels), float32, on the CPU, for texts that are strings or tuples of columns.

        Raises:
            JobError: the classifier gave NaN or infinity, half precision or another shape; names the victim and the
                text.
        """
        texts = list(text_input_list)
        rows = {text: self.by_text.get(text) for text in dict.fromkeys(texts)}
        new = [text for text, row in rows.items() if row is None]
        if new:
            keys = rows_of(self.tokenizer(new, truncation=True, max_length=self.max_length))
            self._texts.update(zip(keys, new, strict=True))
            for text, logits in zip(new, self.by_ids(keys), strict=True):
                rows[text] = logits
                self.by_text.put(text, logits)
        return torch.stack([row for text in texts if (row := rows[text]) is not None])

    def is_truncated(self, text: Text) -> bool:
        """Return whether a text is longer than `max_length` tokens, so that its end is cut off."""
        ids = self.tokenizer([text], truncation=False, verbose=False)["input_ids"][0]
        return len(ids) > self.max_length

    def _forward(self, rows: list[Row]) -> list[Tensor]:
        try:
            answers = self.network(rows)
            self._check(answers, rows)
        finally:
            self._texts.clear()
        return list(torch.stack(answers).cpu())

    def _check(self, answers: list[Tensor], rows: list[Row]) -> None:
        first = answers[0]
        labels = self.num_labels or (len(first) if first.ndim else 0)
        if any(answer.shape != (labels,) for answer in answers) or labels < 2:
            raise JobError(
                f"victim {self.name} gave logits of shape {tuple(first.shape)} for a text and {labels} labels, "
                f"for {self._shown(rows[0])}"
            )
        if first.dtype != torch.float32:
            raise JobError(f"victim {self.name} gave {first.dtype} logits, not float32, for {self._shown(rows[0])}")
        bad = (~torch.isfinite(torch.stack(answers))).any(dim=1).nonzero()
        if len(bad):
            raise JobError(f"victim {self.name} gave NaN or infinite logits for {self._shown(rows[int(bad[0])])}")

    def _shown(self, row: Row) -> str:
        text = self._texts.get(row, "")
        shown = text if isinstance(text, str) else " | ".join(text)
        return repr(shown if len(shown) <= 200 else shown[:200] + "...")

    # -------------------------------------------------------------------- for recipes that use gradients

    def get_grad(self, text_input: Text) -> dict[str, Any]:
        """Return token ids, and the gradient (tokens, dim) of the predicted label's loss at the token embeddings."""
        inputs = self.tokenizer([text_input], truncation=True, max_length=self.max_length, return_tensors="pt")
        inputs = inputs.to(self.device)
        kept: list[Tensor] = []

        def keep(module: Any, args: Any, output: Tensor) -> Tensor:
            kept.append(output.detach().requires_grad_())
            return kept[-1]

        handle = self.classifier.get_input_embeddings().register_forward_hook(keep)
        try:
            with torch.enable_grad():
                logits = self.classifier(**inputs).logits
                loss = torch.nn.functional.cross_entropy(logits, logits.argmax(dim=1))
                (gradient,) = torch.autograd.grad(loss, kept[0])
        finally:
            handle.remove()
        return {"ids": inputs["input_ids"], "gradient": gradient[0].cpu().numpy()}

    def _tokenize(self, inputs: Sequence[Text]) -> list[list[str]]:
        encoded = self.tokenizer(list(inputs), truncation=True, max_length=self.max_length)
        return [tokens_of(self.tokenizer, ids) for ids in encoded["input_ids"]]
