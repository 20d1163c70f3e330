"""CLINE (Wang et al. 2021): contrast a sentence with its edits, the positive x_syn and the negative x_ant.

The variant `printed` has three losses (section 3.2): masked language modelling of x_ori; detection of replaced tokens
in x_syn and x_ant (equation 4); contrast of the vector of x_ori with those of x_syn and x_ant (equations 5 and 6), with
one constructed negative. Their weights are learned (equation 7) as uncertainties: `rbench.train.triples`.
`rbench.train.edits` makes x_syn and x_ant of the whole corpus before the first step. The saved encoder keeps its
masked-LM head.

The variant `released` has the losses of the authors' public code (`VARIANTS`). Two things of that code are not here:
both variants have the same edits, and in both the detector is one linear layer, where that code has a hidden one.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from rbench.errors import JobError
from rbench.schema import EncoderSpec, ResourceChoice, Variant, Variants
from rbench.train import edits, models
from rbench.train.edits import EditOptions, SentenceEdit, mark_replaced
from rbench.train.masked import MaskedEncoding
from rbench.train.objectives import TrainingObjective
from rbench.train.options import OpenShare, Progress

if TYPE_CHECKING:
    from torch import Tensor

    from rbench.words.resources import Resources

VERSION = 1

log = logging.getLogger("rbench")
_SAMPLE_OF_EDITS = {
    **dict.fromkeys(("synonym_share", "antonym_share"), "edited_words"),
    **dict.fromkeys(("without_synonym", "without_antonym", "without_negative"), "edited_texts"),
}
_MAX_SHORTFALL = 0.02
"""A warning is logged if the share of replaced words is below the wanted share by more than this."""


class Options(Variants, EditOptions):
    """The paper prints: about 40% and 20% of tokens, exp of the dot product of [CLS], one negative, three losses.

    The rest is ours. `detection: none` and `hard_negative: false` are the paper's ablations (section 4.5).
    """

    VARIANTS: ClassVar[Mapping[str, Variant]] = {
        "printed": Variant(source="Wang et al. 2021, section 3.2, equations 2 to 7"),
        "released": Variant(
            source="the authors' public code, kandorm/CLINE, src/lecbert",
            options={
                "classes": 3,
                "contrast": "sigmoid",
                "anchor": "masked",
                "pooler": "tanh",
                "log_variance": "clamped",
            },
        ),
    }

    resources: ResourceChoice = ResourceChoice(set="standard")
    """The resource set of the thesaurus and the tagger."""
    mask: OpenShare = 0.15
    """Share of tokens that are masked, as in BERT."""
    detection: Literal["mean", "sum", "none"] = "mean"
    """Reduction of equation 4. The paper has the sum over tokens, which dominates the other losses while the learned
    weights are near 1. The default is the mean over the words of the batch's edits. `none` leaves the loss out."""
    hard_negative: bool = True
    """True: the negative is x_ant. False: it is a random other sentence of the batch, and tokens are detected in x_syn
    only."""
    anchor: Literal["clean", "masked"] = "clean"
    """The view of x_ori in equation 6: the sentence, or its masked copy. The latter saves one pass of four."""
    classes: Literal[2, 3] = 2
    """What is detected: kept or replaced (2, equation 4), or kept, replaced in x_syn, replaced in x_ant (3)."""
    contrast: Literal["softmax", "sigmoid"] = "softmax"
    """`softmax`: equation 6, which compares the dot products with x_syn and x_ant. `sigmoid`: a binary cross-entropy on
    the sigmoid of the mean product, label 1 for x_syn and 0 for x_ant."""
    pooler: Literal["none", "tanh"] = "none"
    """`tanh`: the three vectors of the contrastive term go through a dense layer with tanh, RoBERTa's pooler. It starts
    with new weights and is not saved."""
    log_variance: Literal["free", "clamped"] = "free"
    """`clamped`: the log variance that the loss adds for each weight is clamped at 0 from below."""


class MarkedTokens(NamedTuple):
    """A tokenized sentence: ids, and a mark for each token: 0 (special), 1 (kept) or 2 (replaced)."""

    ids: array[int]
    marks: bytes


class ClineObjective(MaskedEncoding):
    """Implement `Objective` and `PreparedObjective` on `base`, or on `spec.architecture` if `base` is None.

    A base without a masked-LM head gets a new one. A step costs one forward and one backward pass over four views of
    its sentences: masked, x_ori, x_syn, x_ant. The masked anchor does without x_ori, random negatives do without x_ant.

    Raises:
        ResourceError: the thesaurus has no antonyms, or a resource is missing.
        JobError: the tokenizer gives no offsets, the head of the masked LM is of an unknown kind, or the pooling is
            neither `cls` nor `mean`.
    """

    def __init__(self, options: Options, spec: EncoderSpec, base: str | Path | None, *, resources: Resources) -> None:
        from rbench.train.triples import TripleLosses

        assert spec.train is not None
        models.check_pooling(spec.name, spec.pooling, ("cls", "mean"))
        self._lexicon = edits.LexiconSource.of(resources)
        super().__init__(spec, base, options.mask)
        self._options, self._seed = options, spec.train.seed
        self._edit_options = EditOptions(**options.model_dump(include=set(EditOptions.model_fields)))
        pooling: Literal["cls", "mean"] = "cls" if spec.pooling == "cls" else "mean"
        self.model = TripleLosses(self.masked_lm, options, pooling=pooling, collator=self.collator)
        self._edits: edits.CorpusEdits | None = None

    def prepare(self, texts: Sequence[str], folder: Path, progress: Progress | None) -> None:
        """Make the edits of all texts, or read them from `folder`. JobError if no text has a replaceable word."""
        self._edits = edits.edit_corpus(texts, folder, self._lexicon, self._edit_options, self._seed, progress)
        counts = self._edits.counts
        log.info("%s: %s", self._spec.name, counts)
        if counts.without_negative == counts.texts or counts.without_synonym == counts.texts:
            raise JobError(
                f"Encoder {self._spec.name}: no sentence of its corpus has a word that can be replaced (a verb, noun, "
                f"adjective or adverb that the thesaurus of resources {self._options.resources.set} has). Is the "
                f"corpus in English? {counts}"
            )
        # Texts with many names, numbers and function words have too few replaceable words. If all of them are replaced,
        # then to detect replaced tokens in x_syn it suffices to tell which words are replaceable.
        for name in ("synonym_share", "antonym_share"):
            share, wanted = getattr(counts, name), getattr(self._options, name)
            if share < wanted - _MAX_SHORTFALL:
                log.warning(
                    "%s: %s is %.1f%%, but %.1f%% is asked for: the corpus has too few words that can be replaced, so "
                    "all of them are. A smaller %s leaves some unchanged.",
                    *(self._spec.name, name, 100 * share, 100 * wanted, name),
                )

    def features(self, text: str) -> dict[str, Any]:
        """Return `input_ids` of x_ori, and the `views` x_ori, x_syn and, with hard negatives, x_ant."""
        assert self._edits is not None, "prepare() comes first"
        views = [self._encode_view(edit) for edit in (SentenceEdit(text, ()), *self._edits[text])]
        return {"input_ids": views[0].ids, "views": views if self._options.hard_negative else views[:2]}

    def _encode_view(self, edit: SentenceEdit) -> MarkedTokens:
        encoded = self.tokenizer(
            edit.text,
            truncation=True,
            max_length=self._max_length,
            return_special_tokens_mask=True,
            return_offsets_mapping=True,
        )
        # Offsets count letters of the edited text, and so do the spans of an edit: both need the same text.
        special = encoded["special_tokens_mask"]
        replaced = mark_replaced(encoded["offset_mapping"], special, edit.spans)
        codes = (0 if is_special else 1 + mark for is_special, mark in zip(special, replaced, strict=True))
        return MarkedTokens(array("i", encoded["input_ids"]), bytes(codes))

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """Return input_ids, attention_mask, special_tokens_mask and `replaced`, each (batch, views, longest)."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        def padded(rows: Iterable[Iterable[int]], value: int) -> Tensor:
            tensors = [torch.tensor([*row]) for row in rows]
            flat = pad_sequence(tensors, batch_first=True, padding_value=value)
            return flat.view(len(batch), -1, flat.shape[1])

        views: list[MarkedTokens] = [view for row in batch for view in row["views"]]
        ids = padded((view.ids for view in views), self.tokenizer.pad_token_id)
        codes = padded((view.marks for view in views), 0)
        return {
            "input_ids": ids,
            "attention_mask": padded(([1] * len(view.ids) for view in views), 0),
            "special_tokens_mask": (codes == 0).long(),
            "replaced": (codes == 2).long(),
        }

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Return scores of held-out texts, counts of the training edits (`CorpusEdits.counts`), and the loss weights.

        Scores of held-out texts are `masked_accuracy` and `hits`: the share of texts that are nearer to x_syn than to
        x_ant by the dot product. `held_out_edited` is the number of texts behind `hits`, those whose x_syn and x_ant
        differ. The weights are `lambda_...`.
        """
        assert self._edits is not None, "prepare() comes first"
        counts = self._edits.counts
        of_training = {
            "edited_texts": float(counts.texts),
            "edited_words": float(counts.words),
            **{name: float(getattr(counts, name)) for name in _SAMPLE_OF_EDITS},
        }
        weights = {f"lambda_{name}": value for name, value in self.model.weights.lambdas.items()}
        return {**super().scores(texts), **self._hits(texts), **of_training, **weights}

    def _hits(self, texts: Sequence[str]) -> dict[str, float]:
        edit_pairs = (
            edits.generate(texts, self._lexicon, self._edit_options, self._seed, edits.EditCounts()) if texts else []
        )
        triples = [
            (text, synonymous.text, contrary.text)
            for text, (synonymous, contrary) in zip(texts, edit_pairs, strict=True)
            if synonymous.text != contrary.text
        ]
        if not triples:
            return {}
        h, h_same, h_other = (self.encode(kind) for kind in zip(*triples, strict=True))
        nearer = ((h * (h_same - h_other)).sum(1) > 0).mean()
        return {"hits": float(nearer), "held_out_edited": float(len(triples))}


class ClineTraining(TrainingObjective[Options]):
    resources = edits.NEEDS
    counted: Mapping[str, str] = {**_SAMPLE_OF_EDITS, "hits": "held_out_edited"}

    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> ClineObjective:
        """Build it on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        assert resources is not None  # it states `resources`
        return ClineObjective(options, spec, base, resources=resources)
