"""Hard positives and adversarial examples from an encoder that is being trained: Geometry's search, batched.

`BatchedGeometry` stands between `rbench.words.substitution.search.search` (Algorithm 1 of the ADCL paper,
"Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models") and an
encoder in the middle of its training, the `SearchTarget`. It says what is a word and which words may be replaced;
`SearchCallbacks` asks the encoder. The loss comes from the caller: the contrastive one (sections 3.2 and 3.3), or
cross-entropy (adversarial fine-tuning, section 4.4).

It takes plain texts and knows neither TextAttack nor objectives. The Geometry attack (`rbench.recipes.geometry`) is the
same search against a finished victim, with TextAttack's goals, constraints and count of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rbench.encoders.inference import Network, TokenRow, build_rows, make_steady, read_padding
from rbench.encoders.inference.input_gradients import GradientNetwork
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.words.resources import Resources
from rbench.words.substitution.candidates import ProposeWords, open_source
from rbench.words.substitution.options import CandidateOptions
from rbench.words.substitution.options import at_most as at_most
from rbench.words.substitution.search import (
    BatchText,
    CandidateScores,
    KeepRule,
    OrderRule,
    ProjectionRule,
    Substitution,
    TextGradients,
    WordSlot,
    search,
)
from rbench.words.substitution.segmentation import Columns, SegmentedTexts, span_in_joined
from rbench.words.substitution.word_gradients import WordNorm, compute_norms

VERSION = 1

PAD_STEP = 8
"""Texts are padded to a multiple of so many tokens: 64 texts have some 30 lengths, and batches of one or two rows take
half as long again for each row as batches of sixteen, on a CPU."""

DIVERGED = "the encoder's vectors or gradients are no finite numbers: its training has diverged; lower learning_rate"

LossOf = Callable[[Tensor, list[int]], Tensor]
ProjectVectors = Callable[[Tensor], Tensor]
IsOverAt = Callable[[Tensor, list[int]], Sequence[bool]]


@dataclass(frozen=True)
class SearchTarget:
    """What a search moves in training: an encoder, what is computed from its vectors, and where texts are cut.

    Args:
        encoder: gives h; z = project(h). Its tokenizer need not be the masked language model's.
        loss: given z (n, dim) and the numbers of their texts, one loss for each, (n,). Any increasing function of it
            whose gradients do not vanish finds the same words.
        max_length: texts are cut there, in tokens; never beyond what the encoder reads.
        project: a module or function on vectors (n, dim), row by row (a batch normalisation runs on its running
            statistics). A function that is no module must not depend on a mode. None: z = h.
        over: given z (n, dim) and the numbers of their texts, whether the search of each is over there (the prediction
            flipped). A candidate that ends the search goes before all that do not. None: searches end with the budget.
        leave_if_over: whether a text for which the search is over at the start stays as it is. False: nobody asks
            before a word is replaced.
    """

    encoder: SentenceEncoder
    loss: LossOf
    max_length: int
    project: ProjectVectors | None = None
    over: IsOverAt | None = None
    leave_if_over: bool = True

    @contextmanager
    def in_eval_mode(self) -> Iterator[None]:
        """Put encoder and `project` into eval mode, and each of their modules back into its own mode afterwards."""
        parts = [part for part in (self.encoder, self.project) if isinstance(part, nn.Module)]
        modules = [module for part in parts for module in part.modules()]
        modes = [module.training for module in modules]
        try:
            for module in modules:
                module.training = False
            yield
        finally:
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode


class _VectorNetwork(nn.Module):
    """Token ids to z = project(encoder), sharing the weights of both."""

    def __init__(self, encoder: SentenceEncoder, project: ProjectVectors | None) -> None:
        super().__init__()
        self.encoder, self.project = encoder, project

    def forward(self, **inputs: Tensor) -> Tensor:
        h: Tensor = self.encoder(**inputs)
        return h if self.project is None else self.project(h)


class SearchCallbacks:
    """What the search asks of an encoder in training: its three callables for one batch of texts.

    Args:
        target: what is asked; in eval mode.
        texts: the batch. The search names its texts by number.
        source: proposes replacements.
        word_norm: as `rbench.words.substitution.word_gradients`.

    Raises:
        JobError: from any of the callables: the encoder gives numbers that are not finite.
    """

    def __init__(
        self, target: SearchTarget, texts: SegmentedTexts, source: ProposeWords, word_norm: WordNorm = "l2"
    ) -> None:
        self.target, self.texts, self.source, self.word_norm = target, texts, source, word_norm
        self.tokenizer, self.device = target.encoder.tokenizer, target.encoder.device
        self.max_length = min(target.max_length, target.encoder.max_length)
        pad = read_padding(self.tokenizer)
        module = _VectorNetwork(target.encoder, target.project)
        steady_network = make_steady(module)
        embeddings = steady_network.encoder.model.get_input_embeddings()  # type: ignore[union-attr, operator]
        self.gradient_network = GradientNetwork(
            steady_network, _forward_vectors, embeddings, self.device, pad=pad, step=PAD_STEP
        )
        # PyTorch always: what is trained must not depend on which back-end a measurement finds fastest.
        self.network = Network(
            module,
            _forward_vectors,
            pad=pad,
            name="the encoder",
            device=str(self.device),
            backend="torch",
            step=PAD_STEP,
        )

    def gradients(self, batch: list[BatchText]) -> TextGradients:
        """z, the gradient of the loss at z, and a gradient norm for each word, by one forward and backward pass."""
        encoded = self._tokenize(batch, return_offsets_mapping=True)
        answers = self.gradient_network(
            build_rows(encoded), lambda z, places: self._compute_direction(z, [batch[k] for k in places])
        )
        spans = [self.texts.spans_with(*sentence) for sentence in batch]
        norms = compute_norms(encoded, [answer.embeddings for answer in answers], spans, self.word_norm)
        vectors = torch.stack([answer.answer for answer in answers])
        directions = torch.stack([answer.direction for answer in answers])
        if not all(torch.isfinite(x).all() for x in (vectors, directions)) or any(n.isnan().any() for n in norms):
            raise JobError(DIVERGED)
        return TextGradients(vectors, directions, norms)

    def directions(self, batch: list[BatchText]) -> TextGradients:
        """z and the gradient of the loss at z, by one forward pass."""
        z = self._vectors(batch)
        direction = self._compute_direction(z.clone(), batch)
        if not torch.isfinite(direction).all():
            raise JobError(DIVERGED)
        return TextGradients(z, direction)

    def _compute_direction(self, z: Tensor, batch: list[BatchText]) -> Tensor:
        leaf = z.requires_grad_()
        with torch.enable_grad():
            losses = self.target.loss(leaf, [sentence.row for sentence in batch])
            # The gradient of the sum is each text's own gradient, since no loss depends on another text's vector.
            return torch.autograd.grad(losses.sum(), leaf)[0]

    def candidates(self, batch: list[WordSlot]) -> list[list[str]]:
        """The replacements of each word. All columns of a text are read as one, joined with a line break."""
        slots = [
            span_in_joined(self.texts.columns(row, words), self.texts.spans_with(row, words)[place])
            for row, words, place in batch
        ]
        # Autocast of the training would lower the precision of the masked LM, and so change its candidates.
        with torch.autocast(self.device.type, enabled=False):
            return self.source(slots)

    def scores(self, batch: list[BatchText]) -> CandidateScores:
        """z of each text, and whether the search of the text is over there."""
        z = self._vectors(batch)
        return CandidateScores(z, None if self.target.over is None else self._over(z, batch))

    def over_at_start(self) -> list[bool]:
        """For each text whether its search is over before a word is replaced."""
        batch = [BatchText(row, words) for row, words in enumerate(self.texts.words)]
        if self.target.over is None or not self.target.leave_if_over:
            return [False] * len(batch)
        return self._over(self._vectors(batch), batch)

    def _over(self, z: Tensor, batch: list[BatchText]) -> list[bool]:
        assert self.target.over is not None
        with torch.no_grad():
            return list(self.target.over(z, [sentence.row for sentence in batch]))

    def _vectors(self, batch: list[BatchText]) -> Tensor:
        """z (n, dim). Texts of the same token ids are computed once, so that they have the same vector."""
        rows = build_rows(self._tokenize(batch))
        distinct = list(dict.fromkeys(rows))
        vector_of_row: dict[TokenRow, Tensor] = dict(zip(distinct, self.network(distinct), strict=True))
        z = torch.stack([vector_of_row[row] for row in rows])
        if not torch.isfinite(z).all():
            raise JobError(DIVERGED)
        return z

    def _tokenize(self, batch: list[BatchText], **more: bool) -> Any:
        columns = [self.texts.columns(*sentence) for sentence in batch]
        texts = [text if len(text) > 1 else text[0] for text in columns]
        return self.tokenizer(texts, truncation=True, max_length=self.max_length, return_attention_mask=False, **more)


class RandomCallbacks(SearchCallbacks):
    """What the search asks where chance decides: words in random order, and one random candidate of each.

    Args:
        chance: of each text a generator. So what a text becomes does not depend on the others in its batch.
        asked: as `SearchCallbacks`.
    """

    def __init__(self, *asked: Any, chance: Sequence[np.random.Generator]) -> None:
        super().__init__(*asked)
        self.generators = chance

    def gradients(self, batch: list[BatchText]) -> TextGradients:
        """z, no direction, and of each word that the encoder sees a random number in place of its gradient's norm."""
        encoded = self._tokenize(batch, return_offsets_mapping=True)
        spans = [self.texts.spans_with(*sentence) for sentence in batch]
        # The norms of ones are infinite for exactly those words that truncation hides from the encoder.
        ones = [torch.ones(len(ids), 1) for ids in encoded["input_ids"]]
        norms = []
        for sentence, ones_norm in zip(batch, compute_norms(encoded, ones, spans, "l1"), strict=True):
            random_norm = torch.as_tensor(self.generators[sentence.row].random(len(sentence.words)))
            norms.append(random_norm.masked_fill(ones_norm.isinf(), -torch.inf))
        return TextGradients(*self.directions(batch)[:2], norms)

    def directions(self, batch: list[BatchText]) -> TextGradients:
        """z and no direction: all candidates are equal."""
        z = self._vectors(batch)
        return TextGradients(z, torch.zeros_like(z))

    def candidates(self, batch: list[WordSlot]) -> list[list[str]]:
        """One of each word's replacements."""
        replacements = super().candidates(batch)
        return [
            [str(self.generators[slot.row].choice(choices))] if choices else []
            for slot, choices in zip(batch, replacements, strict=True)
        ]


def _forward_vectors(module: nn.Module, **inputs: Tensor) -> Tensor:
    z: Tensor = module(**inputs)
    return z


@dataclass(frozen=True)
class SubstitutedText:
    """A text after the search."""

    texts: Columns
    """The columns, with words replaced."""
    substitutions: tuple[Substitution, ...]
    """The replaced words in the order of their steps; `index` counts the words of all columns."""
    num_words: int
    """Words of the columns that may be changed: the L of the budget."""
    asked: int = 0
    """Words for which candidates were asked."""
    without: int = 0
    """Those of them that had none."""


class BatchedGeometry:
    """The search, with a source that proposes words.

    Args:
        source: proposes replacements; reads all columns of a text as one, joined with a line break.
        stopwords: lower-case words that stay as they are, in whatever case they are written.
        projection, accept_flip, order, keep, lookahead: as `rbench.words.substitution.search.search`.
        word_norm: as `rbench.words.substitution.word_gradients`.
    """

    def __init__(
        self,
        source: ProposeWords,
        stopwords: frozenset[str],
        *,
        projection: ProjectionRule = "signed",
        accept_flip: bool = True,
        order: OrderRule = "each_round",
        keep: KeepRule = "always",
        word_norm: WordNorm = "l2",
        lookahead: int = 1,
    ) -> None:
        self.source, self.stopwords = source, stopwords
        self.projection, self.word_norm = projection, word_norm
        self._search = partial(
            search, projection=projection, accept_flip=accept_flip, order=order, keep=keep, lookahead=lookahead
        )

    @classmethod
    def of(cls, resources: Resources, **options: Any) -> BatchedGeometry:
        """Make it from a resource set. `options` are those of `CandidateOptions`, and further ones of
        `BatchedGeometry`.

        Only what the source needs is opened: with `neighbours` no masked LM need exist.

        Raises:
            ResourceError: a resource that is needed is missing or damaged.
        """
        of_source = {name: options.pop(name) for name in CandidateOptions.model_fields if name in options}
        return cls(open_source(resources, step=PAD_STEP, **of_source), resources.stopwords, **options)

    def __call__(
        self,
        texts: Sequence[Columns],
        target: SearchTarget,
        *,
        max_words: Callable[[int], int],
        fixed: Collection[int] = (),
        chance: Sequence[np.random.Generator] | None = None,
    ) -> list[SubstitutedText]:
        """Replace words of each text so that z moves along the gradient of its loss (Algorithm 1).

        Everything is computed in eval mode, whatever mode the target's modules are in; they, their gradients and
        torch's global generator stay as they are. A text's result depends on the others' by rounding alone: where
        the tokenizer cannot tell two candidates apart they have the same vector, and the first is taken.

        Args:
            texts: one or two columns each, encoded as the tokenizer encodes single texts or pairs.
            target: gives z and the loss. It knows texts by their numbers in `texts`.
            max_words: the budget of a text, given L, the number of words in the columns that are not fixed (also those
                that truncation hides). See `at_most`.
            fixed: numbers of columns in which nothing is replaced.
            chance: a generator a text, which chooses words and replacements in place of the gradients (a control).
                None: the search does.

        Returns:
            One result a text, in the order of `texts`.

        Raises:
            JobError: the encoder gives numbers that are not finite: its training has diverged.
        """
        if not texts:
            return []
        segmented = SegmentedTexts(texts)
        may_change = [[column not in fixed for column, _, _ in spans] for spans in segmented.spans]
        changeable = [
            [changes and word.lower() not in self.stopwords for changes, word in zip(row, words, strict=True)]
            for row, words in zip(may_change, segmented.words, strict=True)
        ]
        with target.in_eval_mode():
            arguments = (target, segmented, self.source, self.word_norm)
            callbacks = SearchCallbacks(*arguments) if chance is None else RandomCallbacks(*arguments, chance=chance)
            budgets = [
                0 if is_over else max_words(sum(row))
                for row, is_over in zip(may_change, callbacks.over_at_start(), strict=True)
            ]
            results = self._search(
                segmented.words,
                changeable,
                gradients=callbacks.gradients,
                directions=callbacks.directions,
                candidates=callbacks.candidates,
                scores=callbacks.scores,
                max_words=budgets,
            )
        return [
            SubstitutedText(
                segmented.columns(row, result.words),
                result.substitutions,
                sum(may_change[row]),
                result.asked,
                result.without,
            )
            for row, result in enumerate(results)
        ]
