"""DeCLUTR (Giorgi et al. 2021): contrast spans of a document with spans around them, beside masked language modelling.

From each of the N documents of a batch come A anchors, and from around each anchor P positives. With f the masked LM's
encoder and the mean over tokens (or [CLS]), e_i = f(anchor_i), and e_{i+AN} is the mean of f over anchor i's positives.
The contrastive term is the NT-Xent loss (`contrastive_losses.nt_xent`) of these 2AN vectors: each against its partner,
with 2AN - 2 negatives, those of the same document among them. The loss is its sum with the masked-LM loss of the
anchors, whose vectors are those of the masked text.

    length of a span   l_min + floor(b (l_max - l_min)),  b ~ Beta(4, 2) for an anchor, Beta(2, 4) for a positive
    start of an anchor   uniform inside a block of l_max tokens; no two blocks of one document touch
    start of a positive  uniform from anchor's start - length of the positive up to anchor's end, inside the document

Anchors are long and positives short, so that a positive may overlap its anchor, lie next to it or inside it.

All of this is as the authors' public code (JohnGiorgi/DeCLUTR) has it (the paper was not at hand). Ours: spans are of
the encoder's own tokens in place of words between spaces; blocks are drawn uniformly from all that do not touch; and a
document of fewer than 2A l_max tokens, which the authors leave out, has a smaller l_max: 1 / (2A) of its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rbench.errors import JobError
from rbench.schema import EncoderSpec, Strict, TrainSpec
from rbench.schema.common import Positive, Rate
from rbench.train import models
from rbench.train.masked import MaskedEncoding
from rbench.train.objectives import TrainingObjective
from rbench.train.options import OpenShare, Progress

if TYPE_CHECKING:
    from torch import Tensor

    from rbench.words.resources import Resources

VERSION = 1

Sampling = Literal["any", "adjacent", "subsumed"]


class Options(Strict):
    """The defaults are those of the authors' public code. l_max is `train.max_length`, special tokens included."""

    anchors: Positive = 2
    """A: anchors of each document."""
    positives: Positive = 2
    """P: positives of each anchor."""
    min_span: Positive = 32
    """l_min, in tokens; a document with a smaller l_max has that."""
    sampling: Sampling = "any"
    """Where a positive lies: anywhere around its anchor, directly before or behind it, or inside it (options of that
    code). Where a document has no room on either side of the anchor, an adjacent positive lies anywhere."""
    temperature: Rate = 0.05
    """tau of the contrastive term."""
    mask: OpenShare = 0.15
    """Share of an anchor's tokens that are masked, as in BERT."""
    mlm: bool = True
    """False: the contrastive term alone, on anchors that are not masked (an option of that code)."""

    def problem(self, train: TrainSpec) -> str | None:
        """Say why `train` does not fit these options; None if it fits."""
        if self.min_span < train.max_length:
            return None
        return (
            f"spans have at most {train.max_length} tokens and at least {self.min_span}; take a larger "
            "train.max_length or a smaller train.options.min_span."
        )


class DeclutrObjective(MaskedEncoding):
    """Implement `PreparedObjective` and `ProbedObjective` on `base`, or on `spec.architecture` if `base` is None.

    A base without a masked-LM head gets a new one. A step costs one forward and one backward pass over A (1 + P) spans
    of each document.

    Raises:
        JobError: the pooling is neither `mean` nor `cls`, or the head of the masked LM is of an unknown kind.
    """

    grouped = False

    def __init__(self, options: Options, spec: EncoderSpec, base: str | Path | None) -> None:
        from rbench.train.spans import SpanContrast

        assert spec.train is not None
        models.check_pooling(spec.name, spec.pooling, ("cls", "mean"))
        super().__init__(spec, base, options.mask)
        self._options = options
        pooling: Literal["cls", "mean"] = "cls" if spec.pooling == "cls" else "mean"
        self.model = SpanContrast(self.masked_lm, self.tokenizer, options, self._max_length, pooling, self.collator)

    def prepare(self, texts: Sequence[str], folder: Path, progress: Progress | None) -> None:
        """Look for documents. JobError if no text has room for the shortest spans."""
        room = 2 * self._options.anchors * self._options.min_span
        if not any(len(self.features(text)["input_ids"]) >= room for text in texts):
            raise JobError(
                f"Encoder {self._spec.name}: DeCLUTR takes spans of documents, and no text of its corpus has the "
                f"{room} tokens that {self._options.anchors} anchors of {self._options.min_span} tokens need. Name a "
                "corpus with a document in each row (train.data), or take a smaller train.options.min_span."
            )

    def features(self, text: str) -> dict[str, Any]:
        """Return `input_ids`: all tokens of the document, without special ones."""
        ids = self.tokenizer(text, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]
        return {"input_ids": ids}

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """Return `input_ids`, (batch, longest), and `lengths`, (batch,). Spans are drawn in the model, on the CPU."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        rows = [torch.tensor(row["input_ids"], dtype=torch.long) for row in batch]
        ids = pad_sequence(rows, batch_first=True, padding_value=self.tokenizer.pad_token_id)
        return {"input_ids": ids, "lengths": torch.tensor([len(row) for row in rows])}

    def probe(self, batch: dict[str, Any]) -> dict[str, float]:
        """Implement `ProbedObjective` for the views that are contrasted: anchors and the means of their positives."""
        import torch

        from rbench.train import health
        from rbench.train.contrastive_losses import info_nce_each

        with torch.no_grad():
            z, z_plus, _ = self.model.views(**batch)
            losses = info_nce_each(z, [z_plus], z_plus, self._options.temperature)
            return health.measure_views(losses, z, z_plus, torch.arange(len(z), device=z.device))

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Return `masked_accuracy`, and `top_1`, 0..1: the share of held-out documents whose first anchor is nearer to
        its own positives than to those of 63 other documents or fewer.
        """
        import torch

        from rbench.train.contrastive_losses import find_top_1

        if len(texts) < 2:
            return super().scores(texts)
        self.model.eval()
        with torch.inference_mode(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same spans whatever the training drew
            batch = self.collate([self.features(text) for text in texts[:64]])
            z, z_plus, _ = self.model.views(batch["input_ids"].to(self.masked_lm.device), batch["lengths"])
        # One anchor of each document: the others of the same document would be negatives that are nearly positives.
        anchors, positives = z[:: self._options.anchors], z_plus[:: self._options.anchors]
        hits = find_top_1(anchors, positives, torch.arange(len(anchors), device=anchors.device))
        return {"top_1": float(hits.double().mean()), **super().scores(texts)}


class DeclutrTraining(TrainingObjective[Options]):
    full_batches = True
    """Every batch is full: negatives are in-batch."""

    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> DeclutrObjective:
        """Build it on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        return DeclutrObjective(options, spec, base)
