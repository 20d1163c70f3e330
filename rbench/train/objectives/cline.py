"""CLINE (Wang et al. 2021): a sentence against its own edits, x_syn that says the same and x_ant that does not.

Three losses (section 3.2): masked language modelling of x_ori; detection of replaced tokens in x_syn and x_ant
(equation 4); the vector of x_ori against those of x_syn and x_ant (equations 5 and 6), with one constructed negative.
Their weights are learned (equation 7) as uncertainties: `rbench.train.weighting`. `rbench.train.edits` says how x_syn
and x_ant are made, for the whole corpus before the first step. What is kept is the encoder with its masked-LM head.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field

from rbench.errors import JobError
from rbench.spec import EncoderSpec, ResourceChoice
from rbench.train import edited
from rbench.train.edits import Edit, EditOptions, marks
from rbench.train.masked import MaskedEncoding

if TYPE_CHECKING:
    from torch import Tensor

    from rbench.resources import Resources

VERSION = 1

log = logging.getLogger("rbench")
NEEDS = edited.NEEDS
_OF_EDITS = {
    **dict.fromkeys(("synonym_share", "antonym_share"), "edited_words"),
    **dict.fromkeys(("without_synonym", "without_antonym", "without_negative"), "edited_texts"),
}
COUNTED = {**_OF_EDITS, "hits": "held_out_edited"}
_MISSED = 0.02
"""A share of replaced words that is short of the wanted one by more is warned of."""


class Options(EditOptions):
    """Printed: about 40% and 20% of tokens, exp of the dot product of [CLS], one negative, three losses. Ours: the
    rest.

    `detection: none` and `hard_negative: false` are the paper's ablations (section 4.5).
    """

    resources: ResourceChoice = ResourceChoice(profile="standard")
    """Whose thesaurus and tagger make the edits."""
    mask: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of tokens that are masked: BERT's."""
    detection: Literal["mean", "sum", "none"] = "mean"
    """Equation 4 sums over tokens; at the start, where the weights are one, such a sum would drown the other losses, so
    the default is the mean over the words of the batch's edited sentences. `none`: without replaced-token detection."""
    hard_negative: bool = True
    """Whether the negative is x_ant. Otherwise it is another sentence of the batch at random, and tokens are detected
    in x_syn alone."""
    anchor: Literal["clean", "masked"] = "clean"
    """What stands for x_ori in equation 6: the sentence, or its masked copy, which saves one pass of four."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None, *, resources: Resources) -> Cline:
    """CLINE on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`.

    A base without a masked-LM head is given a new one.

    Raises:
        ResourceError: the thesaurus lists no antonyms, or something is missing.
        JobError: the tokenizer does not say where its tokens stand, the masked LM has a head of an unknown kind, or the
            pooling is neither `cls` nor `mean`.
    """
    return Cline(options, spec, base, resources)


class View(NamedTuple):
    """A sentence in tokens: ids, and for each token 0 (special), 1 (kept) or 2 (replaced)."""

    ids: array[int]
    marks: bytes


class Cline(MaskedEncoding):
    """Implements `Objective` and `Prepared`.

    A step costs one forward and one backward pass over four views of its sentences: masked, x_ori, x_syn, x_ant; with
    the masked anchor, or without hard negatives, over three.
    """

    def __init__(self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources) -> None:
        from transformers import DataCollatorForLanguageModeling

        from rbench.encoders.sentence import longest_input
        from rbench.train import layout
        from rbench.train.origin import masked_lm
        from rbench.train.triples import Triples

        assert spec.train is not None
        layout.check(spec.name, spec.pooling)
        places = {kind: resources.located(kind) for kind in edited.NEEDS}
        self._lexicon = edited.Lexicon.of(resources.profile, places=places)
        model, tokenizer = masked_lm(spec, base)
        super().__init__(spec, model, tokenizer, min(spec.train.max_length, longest_input(model, tokenizer)))
        self._options, self._seed = options, spec.train.seed
        self._edit_options = EditOptions(**options.model_dump(include=set(EditOptions.model_fields)))
        self.model = Triples(
            model,
            pooling="cls" if spec.pooling == "cls" else "mean",
            collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=options.mask),
            detection=options.detection,
            hard_negative=options.hard_negative,
            anchor=options.anchor,
        )
        if not tokenizer.is_fast:
            raise JobError(
                f"Encoder {spec.name}: replaced tokens are found by where tokens stand in the text, which the slow "
                f"tokenizer of its base ({type(tokenizer).__name__}) does not say; take a base with a fast one."
            )
        if self.model.vocabulary is None:
            raise JobError(
                f"Encoder {spec.name}: the masked-LM head of a {type(model).__name__} is not known; take a BERT, a "
                "RoBERTa or an MPNet."
            )
        self._edits: edited.Edits | None = None

    def prepare(self, texts: Sequence[str], folder: Path, progress: Callable[[int, int, str], None] | None) -> None:
        """Make the edits of all texts, or find them in `folder`. JobError where no text has a word to replace."""
        self._edits = edited.of_corpus(texts, folder, self._lexicon, self._edit_options, self._seed, progress)
        counts = self._edits.counts
        log.info("%s: %s", self._spec.name, counts)
        if counts.without_negative == counts.texts or counts.without_synonym == counts.texts:
            raise JobError(
                f"Encoder {self._spec.name}: no sentence of its corpus has a word that can be replaced (a verb, noun, "
                f"adjective or adverb that the thesaurus of resources {self._options.resources.profile} has). Is it in "
                f"English? {counts}"
            )
        self._warn(counts)

    def _warn(self, counts: edited.Counts) -> None:
        """Say where a corpus has too little to replace: encyclopaedic text has many names, numbers and function words.

        Every word that can be replaced then is, so that in x_syn detection has only to tell which words can be.
        """
        for name in ("synonym_share", "antonym_share"):
            share, wanted = getattr(counts, name), getattr(self._options, name)
            if share < wanted - _MISSED:
                log.warning(
                    "%s: %s is %.1f%% where %.1f%% is asked for: the corpus has no more words that can be replaced, "
                    "and all of them are. A smaller %s leaves some as they are.",
                    *(self._spec.name, name, 100 * share, 100 * wanted, name),
                )

    def features(self, text: str) -> dict[str, Any]:
        """`input_ids` of x_ori, and the `views` x_ori, x_syn and, where it is used, x_ant."""
        assert self._edits is not None, "prepare() comes first"
        views = [self._view(edit) for edit in (Edit(text, ()), *self._edits[text])]
        return {"input_ids": views[0].ids, "views": views if self._options.hard_negative else views[:2]}

    def _view(self, edit: Edit) -> View:
        encoded = self.tokenizer(
            edit.text,
            truncation=True,
            max_length=self._max_length,
            return_special_tokens_mask=True,
            return_offsets_mapping=True,
        )
        special = encoded["special_tokens_mask"]
        replaced = marks(encoded["offset_mapping"], special, edit.spans)
        codes = (0 if nowhere else 1 + mark for nowhere, mark in zip(special, replaced, strict=True))
        return View(array("i", encoded["input_ids"]), bytes(codes))

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """input_ids, attention_mask, special_tokens_mask and `replaced`, (batch, views, longest of the batch) each."""
        import torch

        views: list[list[View]] = [row["views"] for row in batch]
        size = (len(views), len(views[0]), max(len(view.ids) for row in views for view in row))
        ids = torch.full(size, self.tokenizer.pad_token_id)
        codes, real = torch.zeros(size, dtype=torch.long), torch.zeros(size, dtype=torch.long)
        for i, row in enumerate(views):
            for j, view in enumerate(row):
                length = len(view.ids)
                ids[i, j, :length] = torch.tensor(view.ids)
                codes[i, j, :length] = torch.tensor(list(view.marks))
                real[i, j, :length] = 1
        return {
            "input_ids": ids,
            "attention_mask": real,
            "special_tokens_mask": (codes == 0).long(),
            "replaced": (codes == 2).long(),
        }

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """`masked_accuracy` of held-out texts, and the share of them nearer to x_syn than to x_ant by the dot product
        (`hits`, of the `held_out_edited` whose edits are not one text); what was replaced in the texts trained on
        (`Edits.counts`); the losses' weights.
        """
        assert self._edits is not None, "prepare() comes first"
        counts = self._edits.counts
        of_training = {
            "edited_texts": float(counts.texts),
            "edited_words": float(counts.words),
            **{name: float(getattr(counts, name)) for name in _OF_EDITS},
        }
        weights = {f"lambda_{name}": value for name, value in self.model.weights.lambdas.items()}
        return {**super().scores(texts), **self._hits(texts), **of_training, **weights}

    def _hits(self, texts: Sequence[str]) -> dict[str, float]:
        made = edited.generate(texts, self._lexicon, self._edit_options, self._seed, edited.Counts()) if texts else []
        triples = [
            (text, same.text, other.text)
            for text, (same, other) in zip(texts, made, strict=True)
            if same.text != other.text
        ]
        if not triples:
            return {}
        h, h_same, h_other = (self.encode(kind) for kind in zip(*triples, strict=True))
        nearer = ((h * (h_same - h_other)).sum(1) > 0).mean()
        return {"hits": float(nearer), "held_out_edited": float(len(triples))}
