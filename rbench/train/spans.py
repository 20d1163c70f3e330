"""Draw spans of documents, and compute DeCLUTR's loss over them (Giorgi et al. 2021): `objectives.declutr`."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from rbench.encoders.lengths import compute_in_groups, count_linear_weights
from rbench.encoders.sentence import masked_mean
from rbench.train.contrastive_losses import nt_xent
from rbench.train.heads import masked, masked_loss, vocabulary_head

VERSION = 1


class Span(NamedTuple):
    """Tokens start, ..., end - 1 of a document."""

    start: int
    end: int


class SpanContrast(nn.Module):
    """A masked LM whose loss contrasts spans of documents.

    Args:
        masked_lm: a transformers masked LM with a head that `vocabulary_head` knows.
        options: those of `objectives.declutr`.
        max_length: tokens of a span at most, special ones included.
        pooling: the vector of a span is the `mean` over its tokens, as in the authors' code, or that of `cls`.
        collator: transformers' collator for masked LMs.
    """

    def __init__(
        self,
        masked_lm: Any,
        tokenizer: Any,
        options: Any,
        max_length: int,
        pooling: Literal["cls", "mean"],
        collator: Any,
    ) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        self.vocabulary = vocabulary_head(masked_lm)
        encoded = tokenizer("a", return_special_tokens_mask=True)
        ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
        # Before and behind the only real token stand the special tokens, which each span gets anew.
        first_real = special.index(0)
        end_of_real = len(special) - special[::-1].index(0)
        self._before, self._behind = ids[:first_real], ids[end_of_real:]
        self.longest = max_length - len(self._before) - len(self._behind)
        self._pad, self._options, self._pooling, self._collator = tokenizer.pad_token_id, options, pooling, collator

    def forward(self, input_ids: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        """Return `loss` and its terms, `contrastive` and `mlm`, of the documents in `input_ids`, (batch, longest)."""
        z, z_plus, mlm = self.views(input_ids, lengths)
        contrastive = nt_xent(z, z_plus, self._options.temperature)
        if mlm is None:
            return {"loss": contrastive, "contrastive": contrastive}
        return {"loss": contrastive + mlm, "contrastive": contrastive, "mlm": mlm}

    def views(self, input_ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the vectors of the anchors and the mean vectors of their positives, (batch * A, dim) each, and the
        masked-LM loss of the anchors. Rows are in the order of documents, then of anchors.
        """
        anchors: list[Tensor] = []
        positives: list[Tensor] = []
        for document, length in zip(input_ids.cpu(), lengths.tolist(), strict=True):
            for anchor, positive_spans in draw(length, self.longest, self._options):
                anchors.append(self._cut(document, anchor))
                positives += [self._cut(document, span) for span in positive_spans]
        padded = pad_sequence([*anchors, *positives], batch_first=True, padding_value=self._pad)
        attention = pad_sequence([torch.ones_like(span) for span in (*anchors, *positives)], batch_first=True)
        n, labels = len(anchors), None
        if self._options.mlm:
            not_maskable = attention.clone()  # 1 at special tokens and padding
            for row, span in enumerate((*anchors, *positives)):
                not_maskable[row, len(self._before) : len(span) - len(self._behind)] = 0
            not_maskable[attention == 0] = 1
            # Positives are read unmasked, as in the authors' code; only the anchors train the masked LM.
            masked_ids, labels = masked(self._collator, padded[:n], not_maskable[:n])
            padded = torch.cat([masked_ids, padded[n:]])
        device = self.masked_lm.device
        inputs = {"input_ids": padded.to(device), "attention_mask": attention.to(device)}
        states = compute_in_groups(self._compute_states, inputs, count_linear_weights(self.masked_lm.base_model))
        h = states[:, 0] if self._pooling == "cls" else masked_mean(states, inputs["attention_mask"])
        mlm = None
        if labels is not None:
            assert self.vocabulary is not None
            mlm = masked_loss(self.vocabulary, states[:n], labels.to(device))
        return h[:n], h[n:].view(n, self._options.positives, -1).mean(1), mlm

    def _cut(self, document: Tensor, span: Span) -> Tensor:
        before, behind = (document.new_tensor(ids) for ids in (self._before, self._behind))
        return torch.cat([before, document[span.start : span.end], behind])

    def _compute_states(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.masked_lm.base_model(**inputs).last_hidden_state  # type: ignore[no-any-return]


def draw(tokens: int, longest: int, options: Any) -> list[tuple[Span, list[Span]]]:
    """Draw A anchors of a document with P positives each, with torch's global generator.

    Args:
        tokens: the document's length.
        longest: l_max.
        options: those of `objectives.declutr`.
    """
    A: int = options.anchors
    # Two blocks of l_max for each anchor: then there is always a block to leave out between two that are taken.
    longest = min(longest, tokens // (2 * A))
    if longest == 0:  # fewer than 2A tokens: all spans are the document
        document = Span(0, tokens)
        return [(document, [document] * options.positives)] * A
    shortest = min(options.min_span, longest)
    blocks = tokens // longest
    # A sorted draw from `blocks - A + 1` numbers, spread by its ranks, is uniform among the draws without neighbours.
    chosen_blocks = torch.randperm(blocks - A + 1)[:A].sort().values + torch.arange(A)
    spans = []
    for block in chosen_blocks.tolist():
        length = _draw_length(shortest, longest, rank=4)
        start = block * longest + _draw_number(longest - length)
        anchor = Span(start, start + length)
        spans.append(
            (anchor, [_draw_positive(anchor, tokens, shortest, longest, options) for _ in range(options.positives)])
        )
    return spans


def _draw_positive(anchor: Span, tokens: int, shortest: int, longest: int, options: Any) -> Span:
    if options.sampling == "subsumed":
        length = _draw_length(shortest, anchor.end - anchor.start, rank=2)
        start = anchor.start + _draw_number(anchor.end - anchor.start - length)
        return Span(start, start + length)
    length = _draw_length(shortest, longest, rank=2)
    if options.sampling == "adjacent":
        starts = [candidate for candidate in (anchor.start - length, anchor.end) if 0 <= candidate <= tokens - length]
        if starts:
            start = starts[_draw_number(len(starts) - 1)]
            return Span(start, start + length)
    # A positive may lie anywhere from directly before the anchor to directly behind it.
    first, last = max(0, anchor.start - length), min(anchor.end, tokens - length)
    start = first + _draw_number(last - first)
    return Span(start, start + length)


def _draw_length(shortest: int, longest: int, *, rank: int) -> int:
    """Return a length from `shortest` to `longest`, by Beta(rank, 6 - rank): the rank-th smallest of five uniforms."""
    share = float(torch.rand(5).sort().values[rank - 1])
    return shortest + int(share * (longest - shortest))


def _draw_number(last: int) -> int:
    """Draw from 0, ..., last."""
    return int(torch.randint(last + 1, ()))
