"""Hard positives and adversarial examples from an encoder that is being trained: Geometry's search, batched.

Between `rbench.substitution.search.search` (Algorithm 1 of the ADCL paper, "Self-Supervised Contrastive Learning with
Adversarial Perturbations for Robust Pretrained Language Models") and an encoder as it stands in the middle of training:
what is a word, which may be replaced, tokens, gradients, candidates, vectors. The loss comes from the caller: the
contrastive one (sections 3.2 and 3.3), or cross-entropy (adversarial fine-tuning, section 4.4).

It takes plain texts and knows neither TextAttack nor objectives. The Geometry attack (`rbench.attack.geometry`) is the
same search against a finished victim, with TextAttack's goals, constraints and count of queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError, ResourceError
from rbench.inference import Network, Row, Slope, rows_of, slopes, steady
from rbench.resources import Resources
from rbench.substitution.candidates import MaskedWords
from rbench.substitution.search import (
    Gradients,
    Projection,
    Result,
    Scores,
    Sentence,
    Slot,
    Span,
    Substitution,
    Words,
    pieces_to_words,
    search,
    word_norms,
)

VERSION = 1

Columns = tuple[str, ...]
Loss = Callable[[Tensor, list[int]], Tensor]
Project = Callable[[Tensor], Tensor]

STEP = 8
"""Texts are padded to a multiple of so many tokens: 64 texts have some 30 lengths, and batches of one or two rows take
half as long again for each row as batches of sixteen, on a CPU."""
_RUN = re.compile(r"[\w'\-*@`×˗]+")
_TRIMMED = "'-_*@"


def spans_of(columns: Sequence[str]) -> list[Span]:
    """Where the words of a text lie, in order: TextAttack's words, so that training sees what attacks see.

    A word is a run of letters, digits and the signs `_ ' - * @`, with these signs cut off at both ends. Unlike
    TextAttack, which segments Chinese with a package of its own, nothing is done for languages without spaces.
    """
    spans = []
    for column, text in enumerate(columns):
        for run in _RUN.finditer(text):
            start = run.end() - len(run[0].lstrip(_TRIMMED))
            end = run.start() + len(run[0].rstrip(_TRIMMED))
            if start < end:
                spans.append((column, start, end))
    return spans


def at_most(words: int, share: float) -> Callable[[int], int]:
    """The budget of a text of L words: min(words, share * L), rounded down, so that it is never more than either."""
    return lambda length: min(words, int(share * length + 1e-9))


@dataclass(frozen=True)
class Swapped:
    """A text after the search."""

    texts: Columns
    """Its columns, with words replaced."""
    substitutions: tuple[Substitution, ...]
    """In the order in which they were made; `index` counts the words of all columns."""
    num_words: int
    """Words of the columns that may be changed: the L of the budget."""


class Geometry:
    """The search, with a masked language model and word vectors that propose words.

    Args:
        masked_words: proposes replacements; reads all columns of a text as one, joined with a line break.
        stopwords: lower-case words that stay as they are, in whatever case they are written.
        projection, lookahead: as `rbench.substitution.search.search`.
    """

    def __init__(
        self,
        masked_words: MaskedWords,
        stopwords: frozenset[str],
        *,
        projection: Projection = "signed",
        lookahead: int = 1,
    ) -> None:
        self.masked_words, self.stopwords = masked_words, stopwords
        self.projection: Projection = projection
        self.lookahead = lookahead

    @classmethod
    def of(
        cls,
        resources: Resources,
        *,
        candidates: int,
        min_cosine: float,
        unknown: Literal["discard", "keep"] = "discard",
        projection: Projection = "signed",
    ) -> Geometry:
        """From a resource profile's masked LM, word vectors and stop words; the options are `MaskedWords`'.

        Raises ResourceError where one of the three is missing or damaged.
        """
        vectors = resources.word_vectors
        masked_words = MaskedWords(
            resources.masked_lm.padded(STEP),
            vectors.index,
            vectors.unit,
            candidates=candidates,
            min_cosine=min_cosine,
            unknown=unknown,
        )
        return cls(masked_words, resources.stopwords, projection=projection)

    def __call__(
        self,
        texts: Sequence[Columns],
        *,
        encoder: SentenceEncoder,
        loss: Loss,
        max_words: Callable[[int], int],
        max_length: int,
        project: Project | None = None,
        fixed: Collection[int] = (),
        over: Callable[[Tensor, list[int]], Sequence[bool]] | None = None,
    ) -> list[Swapped]:
        """Replace words of each text so that z moves along the gradient of its loss (Algorithm 1).

        Everything is computed in eval mode, whatever mode `encoder` and `project` are in; they, their gradients and
        torch's global generator stay as they are. A text's result depends on the others' by rounding alone: where
        the tokenizer cannot tell two candidates apart they have the same vector, and the first is taken.

        Args:
            texts: one or two columns each, encoded as the tokenizer encodes single texts or pairs.
            encoder: gives h; z = project(h). Its tokenizer need not be the masked language model's.
            loss: given z (n, dim) and the places of their texts in `texts`, one loss for each, (n,). Any increasing
                function of it whose gradients do not vanish finds the same words.
            max_words: the budget of a text, given L, the number of words in the columns that are not fixed (also those
                that truncation hides). See `at_most`.
            max_length: texts are cut there, in tokens; never beyond what the encoder reads.
            project: a module or function on vectors (n, dim), row by row (a batch normalisation runs on its running
                statistics). A function that is no module must not depend on a mode. None: z = h.
            fixed: numbers of columns in which nothing is replaced.
            over: given z (n, dim) and the places of their texts, whether the search of each is over there (the
                prediction flipped). A text for which it is over at the start stays as it is; a candidate that ends the
                search goes before all that do not. None: searches end with the budget.

        Raises:
            JobError: the encoder gives numbers that are not finite: its training has diverged.
            ResourceError: the encoder has no fast tokenizer.
        """
        if not texts:
            return []
        if len(texts[0]) not in (1, 2) or any(len(columns) != len(texts[0]) for columns in texts):
            raise ValueError("texts must all have one column or all have two")
        parts = _Parts(texts)
        with _evaluating(encoder, project):
            run = _Run(self, parts, encoder, project, loss, over, max_length)
            free = [[span[0] not in fixed for span in spans] for spans in parts.spans]
            budgets = [max_words(sum(row)) for row in free]
            start = run.scores([Sentence(row, words) for row, words in enumerate(parts.words)]) if over else None
            if start is not None and start.done is not None:
                budgets = [0 if ended else budget for ended, budget in zip(start.done, budgets, strict=True)]
            changeable = [
                [may and word.lower() not in self.stopwords for may, word in zip(row, words, strict=True)]
                for row, words in zip(free, parts.words, strict=True)
            ]
            results = self._search(run, parts.words, changeable, budgets)
        return [
            Swapped(parts.columns(row, result.words), result.substitutions, sum(free[row]))
            for row, result in enumerate(results)
        ]

    def _search(self, run: _Run, words: list[Words], changeable: list[list[bool]], budgets: list[int]) -> list[Result]:
        return search(
            words,
            changeable,
            gradients=run.gradients,
            candidates=run.candidates,
            scores=run.scores,
            max_words=budgets,
            projection=self.projection,
            lookahead=self.lookahead,
        )


class _Parts:
    """Texts taken apart into words and what stands between them, and put together with other words."""

    def __init__(self, texts: Sequence[Columns]) -> None:
        self.spans = [spans_of(columns) for columns in texts]
        self.words: list[Words] = [
            tuple(columns[c][start:end] for c, start, end in spans)
            for columns, spans in zip(texts, self.spans, strict=True)
        ]
        self._gaps = [
            [_between(text, [span for span in spans if span[0] == c]) for c, text in enumerate(columns)]
            for columns, spans in zip(texts, self.spans, strict=True)
        ]

    def columns(self, row: int, words: Words) -> Columns:
        """The columns of text `row` with `words` in the places of its own."""
        left = iter(words)
        return tuple(
            "".join([gaps[0], *(part for gap in gaps[1:] for part in (next(left), gap))]) for gaps in self._gaps[row]
        )

    def placed(self, row: int, words: Words) -> list[Span]:
        """Where `words` lie in `columns(row, words)`."""
        left, spans = iter(words), []
        for column, gaps in enumerate(self._gaps[row]):
            end = 0
            for gap in gaps[:-1]:
                start = end + len(gap)
                end = start + len(next(left))
                spans.append((column, start, end))
        return spans


def _between(text: str, spans: list[Span]) -> list[str]:
    starts = [0, *(end for _, _, end in spans)]
    ends = [*(start for _, start, _ in spans), len(text)]
    return [text[a:b] for a, b in zip(starts, ends, strict=True)]


class _Vectors(nn.Module):
    """z = project(encoder)."""

    def __init__(self, encoder: SentenceEncoder, project: Project | None) -> None:
        super().__init__()
        self.encoder, self.project = encoder, project

    def forward(self, **inputs: Tensor) -> Tensor:
        h: Tensor = self.encoder(**inputs)
        return h if self.project is None else self.project(h)


def _read(module: nn.Module, **inputs: Tensor) -> Tensor:
    z: Tensor = module(**inputs)
    return z


class _Run:
    """The three callables of the search for one batch of texts."""

    def __init__(
        self,
        geometry: Geometry,
        parts: _Parts,
        encoder: SentenceEncoder,
        project: Project | None,
        loss: Loss,
        over: Callable[[Tensor, list[int]], Sequence[bool]] | None,
        max_length: int,
    ) -> None:
        self.geometry, self.parts, self.loss, self.over = geometry, parts, loss, over
        self.tokenizer, self.device = encoder.tokenizer, encoder.device
        if not self.tokenizer.is_fast:
            raise ResourceError(
                "the Geometry search needs an encoder with a fast tokenizer: it says which pieces make a word"
            )
        self.max_length = min(max_length, encoder.max_length)
        self.pad = (self.tokenizer.pad_token_id or 0, self.tokenizer.pad_token_type_id)
        module = _Vectors(encoder, project)
        self.steady = steady(module)
        # PyTorch always: what is trained must not depend on which back-end a measurement finds fastest.
        self.network = Network(
            module, _read, pad=self.pad, name="the encoder", device=str(self.device), backend="torch", step=STEP
        )

    def gradients(self, batch: list[Sentence]) -> Gradients:
        encoded = self._tokens(batch, return_offsets_mapping=True)

        def direction(z: Tensor, places: list[int]) -> Tensor:
            leaf = z.requires_grad_()
            with torch.enable_grad():
                losses = self.loss(leaf, [batch[k].row for k in places])
                if losses.shape != (len(places),):
                    raise ValueError(f"the loss of {len(places)} texts must be as many numbers, not {losses.shape}")
                return torch.autograd.grad(losses.sum(), leaf)[0]

        table = self.steady.encoder.model.get_input_embeddings()  # type: ignore[union-attr, operator]
        found = slopes(
            self.steady, _read, table, rows_of(encoded), direction, pad=self.pad, device=self.device, step=STEP
        )
        norms = [self._norms(encoded, k, sentence, found[k]) for k, sentence in enumerate(batch)]
        vectors = torch.stack([slope.answer for slope in found])
        directions = torch.stack([slope.direction for slope in found])
        if not all(torch.isfinite(x).all() for x in (vectors, directions)) or any(n.isnan().any() for n in norms):
            raise JobError(DIVERGED)
        return Gradients(vectors, directions, norms)

    def _norms(self, encoded: Any, k: int, sentence: Sentence, slope: Slope) -> Tensor:
        spans = self.parts.placed(*sentence)
        owners = pieces_to_words(encoded["offset_mapping"][k], encoded.sequence_ids(k), spans)
        return word_norms(slope.embeddings.unsqueeze(0), [owners], [len(spans)])[0]

    def candidates(self, batch: list[Slot]) -> list[list[str]]:
        slots = []
        for row, words, place in batch:
            columns = self.parts.columns(row, words)
            column, start, end = self.parts.placed(row, words)[place]
            before = sum(len(text) + 1 for text in columns[:column])
            slots.append(("\n".join(columns), before + start, before + end))
        with torch.autocast(self.device.type, enabled=False):
            return self.geometry.masked_words(slots)

    def scores(self, batch: list[Sentence]) -> Scores:
        z = self._vectors(batch)
        if self.over is None:
            return Scores(z)
        with torch.no_grad():
            return Scores(z, self.over(z, [sentence.row for sentence in batch]))

    def _vectors(self, batch: list[Sentence]) -> Tensor:
        """z (n, dim). Texts that the tokenizer cannot tell apart are computed once: they have the same vector."""
        rows = rows_of(self._tokens(batch))
        distinct = list(dict.fromkeys(rows))
        known: dict[Row, Tensor] = dict(zip(distinct, self.network(distinct), strict=True))
        z = torch.stack([known[row] for row in rows])
        if not torch.isfinite(z).all():
            raise JobError(DIVERGED)
        return z

    def _tokens(self, batch: list[Sentence], **more: bool) -> Any:
        columns = [self.parts.columns(*sentence) for sentence in batch]
        texts = [text if len(text) > 1 else text[0] for text in columns]
        return self.tokenizer(texts, truncation=True, max_length=self.max_length, return_attention_mask=False, **more)


DIVERGED = "the encoder's vectors or gradients are no finite numbers: its training has diverged; lower learning_rate"


@contextmanager
def _evaluating(*parts: object) -> Iterator[None]:
    """These modules in eval mode, each of their parts back in its own mode afterwards."""
    modules = [module for part in parts if isinstance(part, nn.Module) for module in part.modules()]
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
