"""Retrofit an encoder's word embeddings: move each word towards its near words (Faruqui et al. 2015, section 2).

The paper retrofits static word vectors to a lexicon. Here they are the input embeddings of a network. Neighbours are
synonyms of a lexicon, or the nearest words in word vectors that tell synonyms from antonyms. A substitution by a near
word then changes less of what the network reads. Nothing is trained, and the network above the embeddings stays as it
is. That this is done to harden an encoder against word substitutions is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rbench.errors import JobError
from rbench.schema import EncoderSpec, ResourceChoice, ResourceKind, Strict
from rbench.schema.common import Positive
from rbench.train.objectives import TrainingObjective
from rbench.train.objectives._shared import FittedEncoder
from rbench.train.options import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from rbench.words.resources import Resources

VERSION = 1
NEEDS: tuple[ResourceKind, ...] = ("word_vectors", "synonyms", "stopwords")
MAX_ERROR = 1e-5
"""The iteration ends when no embedding is further than this from what it tends to, as a share of their mean length."""
SPACE_SIGNS = "\u0120\u2581"
"""What stands for a space in pieces of byte-level BPE and of SentencePiece."""
ROWS_AT_ONCE = 2048
"""Words whose cosines with all others are computed at once."""

Matrix = NDArray[Any]


class Options(Strict):
    """Options of the objective. A word without a near word, one of several pieces, and a stop word stay as they are."""

    resources: ResourceChoice = ResourceChoice(set="standard")
    """The resource set of the word vectors, the synonyms and the stop words."""
    strength: Annotated[float, Field(ge=0, le=100)] = 1.0
    """The weight of the mean of a word's neighbours, where its own embedding has the weight 1. The paper has 1: alpha_i
    is 1 and beta_ij the inverse of the number of neighbours. 0: nothing moves."""
    source: Literal["vectors", "synonyms", "both"] = "vectors"
    """Where a word's neighbours come from: the nearest words in word vectors, a lexicon of synonyms as in the paper, or
    both. Only single pieces of the vocabulary are neighbours, and they are so in both directions."""
    candidates: Positive = 10
    """So many nearest words in the word vectors, of those that are a single piece."""
    min_cosine: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Least cosine of their word vectors; the bound of TextAttack's TextFooler."""
    neighbours: Literal["near", "random"] = "near"
    """`random`: a control. Words with neighbours change places with each other, so that the same words move towards as
    many others, but not towards those that mean the same. The order is always the same one."""


class RetrofitTraining(TrainingObjective[Options]):
    takes_steps = False
    draws = False
    """Nothing is drawn at random, so that a suite's `train_seeds` reach the base instead."""
    resources = NEEDS
    counted: Mapping[str, str] = {
        "cosine": "texts",
        "texts": "texts",
        **dict.fromkeys(("words_moved", "neighbours", "moved"), "words_moved"),
    }

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that these options open."""
        unused = {"vectors": "synonyms", "synonyms": "word_vectors"}.get(options.source)
        return tuple(kind for kind in NEEDS if kind != unused)

    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> RetrofitObjective:
        """Build it on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        assert resources is not None  # it states `resources`
        return RetrofitObjective(options, spec, base, resources=resources)


class RetrofitObjective(FittedEncoder):
    """Implement `Fitted`. `fit` raises ResourceError if the word vectors, synonyms or stop words are
    missing."""

    TITLE = "retrofitting"

    def __init__(self, options: Options, spec: EncoderSpec, base: str | Path | None, *, resources: Resources) -> None:
        super().__init__(spec, base)
        self._options, self._resources = options, resources

    def fit(self, texts: Sequence[str], device: str, progress: Progress | None) -> dict[str, float]:
        """Move the embeddings, on the CPU.

        Returns `words_moved`, the number of pieces of the vocabulary that moved; `neighbours`, the mean number of their
        neighbours; `moved`, the mean length of their change divided by the mean length of their embeddings; and
        `cosine`, the mean cosine of the vectors of `texts` texts before and after. JobError if no word has a neighbour.
        """
        import torch

        drift = self.start_drift(texts)
        table = self.encoder.model.get_input_embeddings().weight
        embeddings = table.detach().cpu().numpy().copy()
        num_moved, degrees, lengths, changes = 0, 0.0, 0.0, 0.0
        for ids, words in words_by_form(self.encoder.tokenizer, self._resources.stopwords):
            graph = self._link_words(words)
            linked = np.flatnonzero(graph.sum(axis=1))
            if self._options.neighbours == "random":
                order = np.arange(len(ids))
                order[linked] = np.random.default_rng(0).permutation(linked)
                graph = graph[order][:, order]
            before = embeddings[ids]
            after = solve_retrofit(before, graph, self._options.strength)
            embeddings[ids] = after
            num_moved += len(linked)
            degrees += float(graph.sum())
            lengths += float(np.linalg.norm(before[linked], axis=1).sum())
            changes += float(np.linalg.norm(after[linked] - before[linked], axis=1).sum())
        if not num_moved:
            raise JobError(
                f"Encoder {self._name}: no two words that are single pieces of its vocabulary are neighbours. Take "
                "other resources (train.options.resources) or another train.options.source, or lower "
                f"train.options.min_cosine (it is {self._options.min_cosine:g})."
            )
        with torch.no_grad():
            table.copy_(torch.from_numpy(embeddings))
        return {
            "words_moved": float(num_moved),
            "neighbours": degrees / num_moved,
            "moved": changes / lengths,
            **drift(),
        }

    def _link_words(self, words: Sequence[str]) -> csr_array:
        """Return which words are neighbours, (N, N), symmetric."""
        from scipy.sparse import csr_array

        source, total = self._options.source, len(words)
        graph = csr_array((total, total))
        if source != "synonyms":
            vectors = self._resources.word_vectors
            # in the order of the word vectors, so that the vocabulary's order changes nothing
            known = sorted((vectors.index[word], i) for i, word in enumerate(words) if word in vectors)
            rows, places = (np.array([pair[k] for pair in known], dtype=np.int64) for k in (0, 1))
            links = link_nearest(vectors.unit[rows], self._options.candidates, self._options.min_cosine).tocoo()
            graph = csr_array((links.data, (places[links.row], places[links.col])), shape=(total, total))
        if source != "vectors":
            graph = graph.maximum(link_synonyms(words, self._resources.synonyms))
        return graph


def words_by_form(tokenizer: Any, stopwords: frozenset[str]) -> list[tuple[Matrix, list[str]]]:
    """Return the pieces of a vocabulary that can be whole words: their ids and words in lower case, by form of writing.

    A form is lower case, with a capital or in capitals, after a space or not. Words move only among those of their
    form, since a substitution keeps it. Stop words and what is not all letters are left out.
    """
    ids_of_form: dict[tuple[bool, str], dict[str, int]] = {}
    special = {*tokenizer.all_special_ids}
    for token, place in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        written = token.lstrip(SPACE_SIGNS)
        word = written.lower()
        case = next((case.__name__ for case in (str.lower, str.capitalize, str.upper) if case(word) == written), None)
        if place not in special and case is not None and written.isalpha() and word not in stopwords:
            ids_of_form.setdefault((token != written, case), {}).setdefault(word, place)
    return [(np.array([*words.values()], dtype=np.int64), [*words]) for words in ids_of_form.values()]


def link_synonyms(words: Sequence[str], look_up: Callable[[str], list[str]]) -> csr_array:
    """Return which of N words are synonyms by a lexicon, in either direction, as a symmetric (N, N) array of ones."""
    index = {word: i for i, word in enumerate(words)}
    pairs = {
        (i, index[other])
        for i, word in enumerate(words)
        for other in (synonym.lower() for synonym in look_up(word))
        if other in index and other != word
    }
    links = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return _link_both_ways(links[:, 0], links[:, 1], len(words))


def _link_both_ways(rows: Matrix, columns: Matrix, total: int) -> csr_array:
    from scipy.sparse import coo_array

    one_way = coo_array((np.ones(len(rows)), (rows, columns)), shape=(total, total)).tocsr()
    return one_way.maximum(one_way.T).tocsr()


def link_nearest(unit: Matrix, count: int, least: float) -> csr_array:
    """Return which of N words are neighbours, as a symmetric (N, N) array of ones.

    Two are if one is among the `count` nearest of the other, and their cosine is at least `least`.

    Args:
        unit: (N, dim) word vectors of unit length.
    """
    from scipy.sparse import csr_array

    total = len(unit)
    if not total:
        return csr_array((0, 0))
    rows: list[Matrix] = []
    columns: list[Matrix] = []
    for start in range(0, total, ROWS_AT_ONCE):
        cosines = unit[start : start + ROWS_AT_ONCE] @ unit.T
        block_rows = np.arange(len(cosines))
        # No word is its own neighbour.
        cosines[block_rows, start + block_rows] = -np.inf
        last = min(count, total) - 1  # a sort of all would take minutes
        best = np.argpartition(-cosines, last, axis=1)[:, : last + 1]
        row, place = np.nonzero(np.take_along_axis(cosines, best, axis=1) >= least)
        rows.append(row + start)
        columns.append(best[row, place])
    return _link_both_ways(np.concatenate(rows), np.concatenate(columns), total)


def solve_retrofit(embeddings: Matrix, graph: csr_array, strength: float) -> Matrix:
    """Return Q (N, dim) with q_i = (own_i + strength * mean of q_j) / (1 + strength) for each word i with neighbours j.

    This is the fixed point of the paper's updates, which stop after ten rounds. The rounds shrink each error to
    strength / (1 + strength) of it, so they end.

    Args:
        embeddings: (N, dim), own_i.
        graph: (N, N), symmetric: 1 where two words are neighbours.
    """
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    linked = degrees > 0
    start = embeddings.astype(np.float64)
    current = start.copy()
    if not linked.any() or not strength:
        return embeddings.copy()
    tolerance = MAX_ERROR * float(np.linalg.norm(start[linked], axis=1).mean())
    share = strength / (1 + strength)
    while True:
        means = (graph @ current)[linked] / degrees[linked, None]
        new = (1 - share) * start[linked] + share * means
        change = float(np.linalg.norm(new - current[linked], axis=1).max())
        current[linked] = new
        # Each round shrinks the error to `share` of it, so the distance to the fixed point is at most
        # share / (1 - share) of the last change. (Multiplied out: a share near 1 divides by nearly nothing.)
        if change * share <= tolerance * (1 - share):
            return current.astype(embeddings.dtype)
