"""HotFlip: write a passage, word by word, whose vector points where it is wanted (Ebrahimi et al. 2018, section 3).

A flip replaces one token of the passage. The first-order estimate of what it adds to the cosine is g (e_new - e_old),
where g is the gradient of the cosine at the embedding e_old of the token that is replaced. The places of the passage
are visited one after the other. At each, the cosine is computed exactly for the flips with the largest estimates, and
the best of them is made if it raises the cosine. Zhong et al. (2023) poison a corpus in this way, but draw the places
at random.

Only tokens that are a whole word are inserted, so that the tokenizer reads the passage back as the same tokens. The
exact cosine is always that of the text, as the encoder reads it from a corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rbench.encoders.index import Vectors, to_unit_length
from rbench.encoders.inference import TokenRow, build_rows, make_steady, read_padding
from rbench.encoders.inference.input_gradients import GradientNetwork
from rbench.errors import JobError

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

# Part of the key of every poisoning job (`USES` of measures/poisoning.py, config/versions.py): raising it makes them
# anew.
VERSION = 1
USES = ("encoders.index",)

Words = tuple[str, ...]


class FlippedPassage(NamedTuple):
    """A passage, and how it came about."""

    words: Words
    cosines: tuple[float, ...]
    """With the direction that was wanted: before the first flip, and after each."""
    places: tuple[int, ...]
    """The place of each flip."""


class HotFlip:
    """Writes passages for an encoder.

    Args:
        encoder: reads passages with its prompt for documents, in eval mode.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder.for_documents()
        twin: Any = make_steady(self.encoder)
        self._embed: nn.Module = twin.model.get_input_embeddings()
        pad = read_padding(self.encoder.tokenizer)
        self._network = GradientNetwork(twin, _read_vectors, self._embed, self.encoder.device, pad=pad)
        self._after = _count_common_end(*self._rows(["", "a"]))
        """Number of tokens that stand after the words of a text."""

    def _rows(self, texts: Sequence[str]) -> list[TokenRow]:
        return build_rows(self.encoder.tokenizer(list(texts), truncation=True, max_length=self.encoder.max_length))

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """The words that are one token each, behind another word, with the tokens' ids, in the order of the ids.

        Raises JobError where the tokenizer has none.
        """
        tokenizer = self.encoder.tokenizer
        special, ids = set(tokenizer.all_special_ids), sorted(set(tokenizer.get_vocab().values()))
        words = {i: _word(tokenizer, i) for i in ids if i not in special}
        candidates = [(i, word) for i, word in words.items() if word and not any(map(str.isspace, word))]
        (row_of_a,) = self._rows(["a"])
        rows = self._rows([f"a {word}" for _, word in candidates]) if candidates else []
        whole_words: dict[str, int] = {}
        for (i, word), row in zip(candidates, rows, strict=True):
            if len(row[0]) == len(row_of_a[0]) + 1 and row[0][len(row[0]) - self._after - 1] == i:
                whole_words.setdefault(word, i)
        if not whole_words:
            raise JobError(
                f"no token of this encoder's {type(tokenizer).__name__} is a whole word, so no passage can be written "
                "for it; leave it out of the measure"
            )
        return whole_words

    def words_of(self, text: str, n: int) -> Words:
        """Return the first n words of a text that are in the vocabulary; fewer where it has fewer."""
        known = {i: word for word, i in self.vocabulary.items()}
        row_of_a, row = self._rows(["a", text])
        start = len(row_of_a[0]) - self._after - 1  # where `a` stands: the prompt before it is not part of the text
        return tuple(known[i] for i in row[0][start:] if i in known)[:n]

    def cosines(self, passages: Sequence[Words], wanted: Vectors) -> NDArray[np.float64]:
        """Return the cosines (n,) of passages with a direction (dim,) of length 1."""
        vectors = to_unit_length(self.encoder.encode([" ".join(words) for words in passages], "fastest"))
        return np.asarray(vectors.astype(np.float64) @ wanted.astype(np.float64), dtype=np.float64)

    def gradient(self, words: Words, wanted: Vectors) -> NDArray[np.float32]:
        """Return the gradient (words, width) of the cosine at the token embeddings of a passage.

        Raises ValueError where the words are not one token each.
        """
        (row,) = self._rows([" ".join(words)])
        start = self._first_word_place(row, len(words))
        wanted_vector = torch.from_numpy(np.asarray(wanted, dtype=np.float32))

        def direction(answers: Tensor, places: list[int]) -> Tensor:
            # The gradient of cos(z, w) at z, with |w| = 1, is (w - cos(z, w) z/|z|) / |z|.
            lengths = answers.norm(dim=1, keepdim=True).clamp(min=1e-12)
            units, to = answers / lengths, wanted_vector.to(answers.device)
            across = to - (units @ to)[:, None] * units
            scaled: Tensor = across / lengths
            return scaled

        (gradients,) = self._network([row], direction)
        return np.asarray(gradients.embeddings[start : start + len(words)].float().numpy(), dtype=np.float32)

    def _first_word_place(self, row: TokenRow, words: int) -> int:
        """Return the place of the first word in a row of tokens.

        The prompt and whatever else stands before the words is as long as before the single word `a`.
        """
        (row_of_a,) = self._rows(["a"])
        assert len(row[0]) == len(row_of_a[0]) - 1 + words, "words of the passage are not one token each"
        return len(row[0]) - self._after - words

    def write(self, first: Words, wanted: Vectors, *, steps: int, candidates: int) -> FlippedPassage:
        """Change the passage `first` flip by flip, towards a direction (dim,) of length 1, and return the result.

        The search ends early once no place of the passage has a candidate that raises the cosine.

        Args:
            steps: how many places are tried, from the first to the last and then from the first again.
            candidates: for how many flips at a place the cosine is computed exactly.
        """
        words, cosines, places, idle = first, [float(self.cosines([first], wanted)[0])], [], 0
        for step in range(steps):
            place = step % len(words)
            passages = self._propose_passages(words, place, wanted, candidates)
            new_cosines = self.cosines(passages, wanted) if passages else np.array([-np.inf])
            best = int(new_cosines.argmax())
            idle = 0 if new_cosines[best] > cosines[-1] else idle + 1
            if idle == len(words):  # every place was tried since the last flip
                break
            if idle == 0:
                words = passages[best]
                places.append(place)
                cosines.append(float(new_cosines[best]))
        return FlippedPassage(words, tuple(cosines), tuple(places))

    def _propose_passages(self, words: Words, place: int, wanted: Vectors, n: int) -> list[Words]:
        """Return the passages after the n flips at a place with the largest estimates, best first.

        A flip after which words are no longer one token each is left out.
        """
        order = np.argsort(-self.estimates(words, wanted)[place], kind="stable")[:n]
        passages = [(*words[:place], new, *words[place + 1 :]) for new in np.array([*self.vocabulary])[order].tolist()]
        # In the text a new word may merge with its neighbours into other tokens; such flips are dropped.
        rows = self._rows([" ".join(passage) for passage in (words, *passages)])
        return [passage for passage, row in zip(passages, rows[1:], strict=True) if len(row[0]) == len(rows[0][0])]

    def estimates(self, words: Words, wanted: Vectors) -> NDArray[np.float32]:
        """Return to first order what each flip adds to the cosine, (words, vocabulary)."""
        gradient = self.gradient(words, wanted)
        # g (e_new - e_old) for the whole vocabulary: one product with the table, less the same for the old word.
        old = self._table[[self._place[word] for word in words]]
        return np.asarray(gradient @ self._table.T - (gradient * old).sum(axis=1, keepdims=True), dtype=np.float32)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.vocabulary)}

    @cached_property
    def _table(self) -> NDArray[np.float32]:
        """The embeddings (vocabulary, width) of the words, as the network's first layer gives them."""
        ids = torch.tensor([*self.vocabulary.values()], device=self.encoder.device)
        with torch.no_grad():
            return np.asarray(self._embed(ids[None])[0].float().cpu().numpy(), dtype=np.float32)


def _read_vectors(encoder: Any, **inputs: Tensor) -> Tensor:
    vectors: Tensor = encoder(**inputs)
    return vectors.float()


def _word(tokenizer: Any, i: int) -> str:
    """Return a token as a word, without the mark of a word's begin."""
    token = tokenizer.convert_ids_to_tokens(i)
    return str(tokenizer.convert_tokens_to_string([token])).replace("▁", " ").strip()


def _count_common_end(first: TokenRow, second: TokenRow) -> int:
    """Return how many tokens two rows have in common at their ends."""
    pairs = zip(reversed(first[0]), reversed(second[0]), strict=False)
    return next(
        (i for i, (token, other_token) in enumerate(pairs) if token != other_token), min(len(first[0]), len(second[0]))
    )
