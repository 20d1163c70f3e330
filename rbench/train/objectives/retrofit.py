"""Retrofit an encoder's word embeddings: move each word towards its near words (Faruqui et al. 2015, section 2).

The paper retrofits static word vectors to a lexicon. Here they are the input embeddings of a network, and a word's
neighbours are the nearest words in word vectors that tell synonyms from antonyms. A substitution of a word by a near
one then changes less of what the network reads. Nothing is trained, and the network above the embeddings stays as it
is. That this is done to harden an encoder against word substitutions is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rbench.errors import JobError
from rbench.spec import EncoderSpec, ResourceChoice, ResourceKind, Strict
from rbench.spec.common import Positive

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from rbench.encoders.vectors import WordVectors
    from rbench.resources import Resources

VERSION = 1
NEEDS: tuple[ResourceKind, ...] = ("word_vectors", "stopwords")
COUNTED = {
    "cosine": "texts",
    "texts": "texts",
    **dict.fromkeys(("words_moved", "neighbours", "moved"), "words_moved"),
}
"""For each score, the score that gives its sample size."""
TOLERANCE = 1e-5
"""The iteration ends when no embedding changes by more than this, as a share of their mean length."""
ROWS = 2048
"""Words whose cosines with all others are computed at once."""

Matrix = NDArray[Any]


class Options(Strict):
    """Options of the objective. A word without a near word, one of several pieces, and a stop word stay as they are."""

    STEPS: ClassVar[bool] = False
    DRAWS: ClassVar[bool] = False
    """Nothing is drawn at random, so that a suite's `train_seeds` reach the base instead."""

    resources: ResourceChoice = ResourceChoice(profile="standard")
    """The resource profile of the word vectors and the stop words."""
    strength: Annotated[float, Field(ge=0, le=100)] = 1.0
    """The weight of the mean of a word's neighbours, where its own embedding has the weight 1. The paper has 1: alpha_i
    is 1 and beta_ij the inverse of the number of neighbours. 0: nothing moves."""
    candidates: Positive = 10
    """A word's neighbours are so many nearest words, of those that are a single piece, and all words whose neighbour it
    is."""
    min_cosine: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Least cosine of a neighbour's word vector with the word's own; the bound of TextAttack's TextFooler."""
    neighbours: Literal["near", "random"] = "near"
    """`random`: a control. The words change places in the graph of neighbours, so that as many words move towards as
    many others, but not towards those that mean the same. The order is always the same one."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None, *, resources: Resources) -> Retrofit:
    """Build the objective on `base` (a folder or hub id), or on `spec.architecture` if `base` is None.

    ResourceError if the word vectors or the stop words are missing.
    """
    return Retrofit(options, spec, base, resources.word_vectors, resources.stopwords)


class Retrofit:
    """Implement `Fitted`. JobError if `spec.train` asks for steps, epochs or a selected step."""

    def __init__(
        self,
        options: Options,
        spec: EncoderSpec,
        base: str | Path | None,
        vectors: WordVectors,
        stopwords: frozenset[str],
    ) -> None:
        from rbench.train.origin import sentence_encoder

        train = spec.train
        assert train is not None
        if said := [key for key in ("steps", "epochs", "select_by") if getattr(train, key) is not None]:
            raise JobError(f"Encoder {spec.name}: retrofitting takes no steps; leave out train.{said[0]}.")
        self._name, self._options = spec.name, options
        self._vectors, self._stopwords = vectors, stopwords
        self.encoder = sentence_encoder(spec, base)

    def fit(
        self, texts: Sequence[str], device: str, progress: Callable[[int, int, str], None] | None
    ) -> dict[str, float]:
        """Move the embeddings, on the CPU.

        Returns `words_moved`, the number of pieces of the vocabulary that moved; `neighbours`, the mean number of their
        neighbours; `moved`, the mean length of their change divided by the mean length of their embeddings; and
        `cosine`, the mean cosine of the vectors of `texts` texts before and after. JobError if no word has a neighbour.
        """
        import torch

        from rbench.train.drift import Drift

        drift = Drift(self.encoder, texts)
        table = self.encoder.model.get_input_embeddings().weight
        embeddings = table.detach().cpu().numpy().copy()
        moved, degrees, lengths, changes = 0, 0.0, 0.0, 0.0
        for ids, words in forms(self.encoder.tokenizer, self._vectors.words, self._stopwords):
            graph = near(self._vectors.unit[words], self._options.candidates, self._options.min_cosine)
            if self._options.neighbours == "random":
                order = np.random.default_rng(0).permutation(len(ids))
                graph = graph[order][:, order]
            linked = np.flatnonzero(graph.sum(axis=1))
            before = embeddings[ids]
            after = retrofitted(before, graph, self._options.strength)
            embeddings[ids] = after
            moved += len(linked)
            degrees += float(graph.sum())
            lengths += float(np.linalg.norm(before[linked], axis=1).sum())
            changes += float(np.linalg.norm(after[linked] - before[linked], axis=1).sum())
        if not moved:
            raise JobError(
                f"Encoder {self._name}: none of the {len(self._vectors.words):,} words of its word vectors is a single "
                f"piece of its vocabulary and near another one. Lower train.options.min_cosine (it is "
                f"{self._options.min_cosine:g}) or take other word vectors."
            )
        with torch.no_grad():
            table.copy_(torch.from_numpy(embeddings))
        return {
            "words_moved": float(moved),
            "neighbours": degrees / moved,
            "moved": changes / lengths,
            **drift.scores(),
        }

    def save(self, folder: Path) -> None:
        """Write the encoder as a SentenceTransformer folder."""
        from rbench.train import layout

        layout.save(folder, self.encoder)


def forms(tokenizer: Any, words: Sequence[str], stopwords: frozenset[str]) -> list[tuple[Matrix, Matrix]]:
    """Return the pieces of a vocabulary that are whole words, as (ids, indices into `words`) of each form of writing.

    The forms are lower case, with a capital, and both again without the space before. Words move only among those of
    their form. A vocabulary without case has the same pieces in all forms, so that there is one. Stop words and what is
    not all letters are left out; where several words are the same piece, the first is kept.
    """
    wanted = [i for i, word in enumerate(words) if word.isalpha() and word.lower() not in stopwords]
    taken: set[int] = set(tokenizer.all_special_ids)
    found = []
    for write in (" {}".format, "{}".format):
        for case in (str.lower, str.capitalize):
            written = [write(case(words[i])) for i in wanted]
            pieces = tokenizer(written, add_special_tokens=False)["input_ids"] if written else []
            whole: dict[int, int] = {}
            for i, ids in zip(wanted, pieces, strict=True):
                if len(ids) == 1 and ids[0] not in taken:
                    whole.setdefault(ids[0], i)
            taken.update(whole)
            if whole:
                found.append((np.array([*whole], dtype=np.int64), np.array([*whole.values()], dtype=np.int64)))
    return found


def near(unit: Matrix, count: int, least: float) -> csr_array:
    """Return which of N words are neighbours, as a symmetric (N, N) array of ones.

    Two are if one is among the `count` nearest of the other, and their cosine is at least `least`.

    Args:
        unit: (N, dim) word vectors of unit length.
    """
    from scipy.sparse import coo_array

    total = len(unit)
    rows: list[Matrix] = []
    columns: list[Matrix] = []
    for start in range(0, total, ROWS):
        cosines = unit[start : start + ROWS] @ unit.T
        here = np.arange(len(cosines))
        cosines[here, start + here] = -np.inf
        last = min(count, total) - 1  # a sort of all would take minutes
        best = np.argpartition(-cosines, last, axis=1)[:, : last + 1]
        row, place = np.nonzero(np.take_along_axis(cosines, best, axis=1) >= least)
        rows.append(row + start)
        columns.append(best[row, place])
    row, column = np.concatenate(rows), np.concatenate(columns)
    one_way = coo_array((np.ones(len(row)), (row, column)), shape=(total, total)).tocsr()
    return one_way.maximum(one_way.T).tocsr()


def retrofitted(embeddings: Matrix, graph: csr_array, strength: float) -> Matrix:
    """Return Q (N, dim) with q_i = (own_i + strength * mean of q_j) / (1 + strength) for each word i with neighbours j.

    This is the fixed point of the paper's updates, which stop after ten rounds. The rounds shrink each error to
    strength / (1 + strength) of it, so they end.

    Args:
        embeddings: (N, dim), own_i.
        graph: (N, N), symmetric: 1 where two words are neighbours.
    """
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    linked = degrees > 0
    own = embeddings.astype(np.float64)
    found = own.copy()
    if not linked.any() or not strength:
        return embeddings.copy()
    within = TOLERANCE * float(np.linalg.norm(own[linked], axis=1).mean())
    share = strength / (1 + strength)
    while True:
        means = (graph @ found)[linked] / degrees[linked, None]
        new = (1 - share) * own[linked] + share * means
        change = float(np.linalg.norm(new - found[linked], axis=1).max())
        found[linked] = new
        if change * share <= within * (
            1 - share
        ):  # the distance to the fixed point is at most this share of the change
            return found.astype(embeddings.dtype)
