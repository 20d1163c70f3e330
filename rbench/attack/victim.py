"""The victim as TextAttack sees it: texts in, logits out, with as little arithmetic as the same answer allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from textattack.models.wrappers import ModelWrapper
from torch import Tensor

from rbench.errors import JobError
from rbench.resources.memo import Memo

Text = str | tuple[str, ...]
Row = tuple[tuple[int, ...], tuple[int, ...] | None]
"""Token ids of one input and, where the tokenizer gives them, its token type ids."""

MAX_ROWS = 64
MAX_TOKENS = 4096
CACHE_BYTES = 512 << 20


class Victim(ModelWrapper):  # type: ignore[misc]
    """A classifier under attack.

    Inputs are padded to the longest of their batch, batched by length, computed once for each distinct sequence of
    token ids (so that texts which the tokenizer cannot tell apart get the very same logits) and remembered, within a
    bound, for as long as this object lives: over examples and over attacks.

    Args:
        classifier: an `rbench.encoders.classifier.EncoderClassifier` (anything whose call gives `.logits`).
        name: for messages.
        max_length: longest input in tokens; longer ones are cut as TextAttack cuts them. None: the classifier's own.
        device: where the classifier is.
    """

    def __init__(self, classifier: Any, name: str, *, max_length: int | None = None, device: str = "cpu") -> None:
        self.classifier, self.name, self.device = classifier.eval(), name, device
        self.model, self.tokenizer = classifier, classifier.tokenizer  # the names that TextAttack knows
        self.max_length = int(max_length or classifier.max_length)
        self.num_labels: int | None = getattr(classifier, "num_labels", None)
        self.by_text: Memo[Text, Tensor] = Memo(CACHE_BYTES // 2, lambda text, row: 300 + 2 * len(str(text)))
        self.by_ids: Memo[Row, Tensor] = Memo(CACHE_BYTES // 2, lambda ids, row: 400 + 16 * len(ids[0]))
        self.forwards = 0
        """Sequences that the network has seen: less than the queries counted, thanks to the caches."""

    def __call__(self, text_input_list: Sequence[Text], **kwargs: Any) -> Tensor:
        """Logits (n, labels), float32, on the CPU, for strings or tuples of columns.

        Raises:
            JobError: the classifier gave NaN, half precision or another shape; names the victim and the text.
        """
        texts = list(text_input_list)
        rows = {text: self.by_text.get(text) for text in dict.fromkeys(texts)}
        new = [text for text, row in rows.items() if row is None]
        if new:
            for text, logits in zip(new, self._by_ids(new), strict=True):
                rows[text] = logits
                self.by_text.put(text, logits)
        return torch.stack([row for text in texts if (row := rows[text]) is not None])

    def is_truncated(self, text: Text) -> bool:
        """Whether the end of this text is cut off before the classifier sees it."""
        ids = self.tokenizer([text], truncation=False, verbose=False)["input_ids"][0]
        return len(ids) > self.max_length

    def _by_ids(self, texts: list[Text]) -> list[Tensor]:
        encoded = self.tokenizer(texts, truncation=True, max_length=self.max_length)
        types = encoded.get("token_type_ids")
        keys: list[Row] = [
            (tuple(ids), None if types is None else tuple(types[i])) for i, ids in enumerate(encoded["input_ids"])
        ]
        known = {key: self.by_ids.get(key) for key in dict.fromkeys(keys)}
        example = dict(zip(keys, texts, strict=True))
        todo = sorted((key for key, row in known.items() if row is None), key=lambda key: len(key[0]))
        for batch in _batches(todo):
            for key, row in zip(batch, self._forward(batch, [example[key] for key in batch]), strict=True):
                known[key] = row
                self.by_ids.put(key, row)
        return [row for key in keys if (row := known[key]) is not None]

    def _forward(self, batch: list[Row], texts: list[Text]) -> Tensor:
        width = max(len(ids) for ids, _ in batch)
        ids = np.full((len(batch), width), self.tokenizer.pad_token_id or 0, dtype=np.int64)
        mask = np.zeros((len(batch), width), dtype=np.int64)
        types = np.full((len(batch), width), self.tokenizer.pad_token_type_id, dtype=np.int64)
        for i, (row, kinds) in enumerate(batch):
            ids[i, : len(row)], mask[i, : len(row)] = row, 1
            if kinds is not None:
                types[i, : len(row)] = kinds
        inputs = {"input_ids": ids, "attention_mask": mask}
        if batch[0][1] is not None:
            inputs["token_type_ids"] = types
        with torch.inference_mode():
            logits = self.classifier(**{k: torch.from_numpy(v).to(self.device) for k, v in inputs.items()}).logits
        self.forwards += len(batch)
        return self._checked(logits, texts).cpu()

    def _checked(self, logits: Tensor, texts: list[Text]) -> Tensor:
        labels = self.num_labels or (logits.shape[-1] if logits.ndim else 0)
        if logits.shape != (len(texts), labels) or labels < 2:
            raise JobError(
                f"victim {self.name} gave logits of shape {tuple(logits.shape)} for {len(texts)} texts and {labels} "
                f"labels, the first of them {_shown(texts[0])}"
            )
        if logits.dtype != torch.float32:
            raise JobError(f"victim {self.name} gave {logits.dtype} logits, not float32, for {_shown(texts[0])}")
        bad = (~torch.isfinite(logits)).any(dim=1).nonzero()
        if len(bad):
            raise JobError(f"victim {self.name} gave NaN or infinite logits for {_shown(texts[int(bad[0])])}")
        return logits

    # -------------------------------------------------------------------- for recipes that look into the victim

    def get_grad(self, text_input: Text) -> dict[str, Any]:
        """Token ids and the gradient (tokens, dim) of the loss of the predicted label at the token embeddings."""
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
        return [self.tokenizer.convert_ids_to_tokens(ids) for ids in encoded["input_ids"]]


def _batches(rows: list[Row]) -> list[list[Row]]:
    """Neighbours in length together, at most MAX_ROWS rows and MAX_TOKENS tokens (one row at least) each."""
    batches: list[list[Row]] = []
    for row in rows:
        full = batches and (len(batches[-1]) == MAX_ROWS or (len(batches[-1]) + 1) * len(row[0]) > MAX_TOKENS)
        if not batches or full:
            batches.append([])
        batches[-1].append(row)
    return batches


def _shown(text: Text) -> str:
    shown = text if isinstance(text, str) else " | ".join(text)
    return repr(shown if len(shown) <= 200 else shown[:200] + "...")
