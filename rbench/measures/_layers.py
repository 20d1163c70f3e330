"""Triplets of CLINE's section 4.6, and how alike their texts are by the hidden states of each layer.

A triplet is a text, the text with one synonym, and the text with one antonym in its place. Texts are compared by first
tokens, by means, and by BERTScore.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from rbench.encoders.reading import prompt_tokens
from rbench.encoders.sentence import masked_mean
from rbench.errors import JobError
from rbench.words.resources.thesaurus import TAGS, Thesaurus

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder
    from rbench.tasks import Example

BATCH = 16
"""Triplets that go through the network at once."""
_TOKEN = re.compile(r"\w+(?=n['’]t\b)|n['’]t\b|['’]\w+|\w+(?:-\w+)*|[^\w\s]", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{2,}(?:-[A-Za-z]+)*")
_AUXILIARIES = frozenset(
    [
        *("am", "is", "are", "was", "were", "be", "been", "being", "have", "has", "had", "having", "do", "does", "did"),
        *("doing", "done", "can", "could", "may", "might", "must", "shall", "should", "will", "would", "not"),
    ]
)
"""Words that a tagger may call verbs or adverbs, and that carry little meaning of their own."""


class Triplet(NamedTuple):
    """An example's id, its text, and the text with one word replaced by a synonym, and by an antonym."""

    example: str
    original: str
    synonym: str
    antonym: str


def triplets(
    rows: Sequence[Example], tags: Callable[[Sequence[str]], Sequence[tuple[str, str]]], look_up: Thesaurus, seed: int
) -> list[Triplet]:
    """Return a triplet for each text that has a word with both a synonym and an antonym, in the order of the rows.

    Where several words have both, the seed draws one, whatever the other rows are. Of its synonyms and antonyms the
    first is taken, which is of the most frequent sense.

    Args:
        tags: returns (word, universal tag) for each word of a text.
        look_up: synonyms and antonyms of a word with a tag.
    """
    found = []
    for one in rows:
        (text,) = one.texts
        tokens = list(_TOKEN.finditer(text))
        choices = []
        for token, (word, tag) in zip(tokens, tags([token[0] for token in tokens]), strict=True):
            if tag in TAGS and _WORD.fullmatch(word) and word.lower() not in _AUXILIARIES:
                related = look_up(word, tag)
                if related.synonyms and related.antonyms:
                    choices.append((token, related.synonyms[0], related.antonyms[0]))
        if choices:
            token, same, opposite = random.Random(f"{seed} {one.id}").choice(choices)
            found.append(Triplet(one.id, text, _put(text, token, same), _put(text, token, opposite)))
    return found


def _put(text: str, token: re.Match[str], word: str) -> str:
    """Return the text with a word in place of a token. It begins with a capital letter if the token does."""
    word = word[0].upper() + word[1:] if token[0][0].isupper() else word
    return text[: token.start()] + word + text[token.end() :]


def hits(
    encoder: SentenceEncoder, found: Sequence[Triplet], progress: Callable[[int, int], None]
) -> dict[tuple[str, int], NDArray[np.bool_]]:
    """Return by part and layer (from 1) for each triplet whether the text with the synonym is the nearer one.

    Layers are those of the network after its embeddings. A network of word vectors alone counts as one layer, and has
    no first token. Raises JobError where a hidden state is not finite.
    """
    # Sorting by length keeps the padding of each batch small.
    order = sorted(range(len(found)), key=lambda i: len(found[i].original))
    said: dict[tuple[str, int], NDArray[np.bool_]] = {}
    encoder.eval()
    for start in range(0, len(order), BATCH):
        progress(start, len(order))
        chosen = order[start : start + BATCH]
        for key, value in _alike(encoder, [found[i] for i in chosen]).items():
            if not bool(value.isfinite().all()):
                raise JobError("hidden states have numbers that are not finite (NaN or infinity); nothing is counted")
            own = said.setdefault(key, np.zeros(len(found), dtype=bool))
            own[chosen] = (value[0] > value[1]).cpu().numpy()
    return said


@torch.inference_mode()
def _alike(encoder: SentenceEncoder, batch: Sequence[Triplet]) -> dict[tuple[str, int], Tensor]:
    """Return by part and layer how alike the originals are to the texts with synonyms and antonyms, (2, batch)."""
    n = len(batch)
    texts = [getattr(one, name) for name in ("original", "synonym", "antonym") for one in batch]
    encoded: Any = encoder.tokenizer(
        texts,
        truncation=True,
        max_length=encoder.max_length,
        padding=True,
        return_tensors="pt",
        return_special_tokens_mask=True,
    ).to(encoder.device)
    special, mask = encoded.pop("special_tokens_mask"), encoded["attention_mask"]
    if not encoder.reads_token_types:
        encoded.pop("token_type_ids", None)
    outputs = encoder.model(**encoded, output_hidden_states=True, return_dict=True)
    every: Sequence[Tensor] = getattr(outputs, "hidden_states", None) or ()
    static = not every
    positions = mask.cumsum(1)
    skipped = max(prompt_tokens(encoder.tokenizer), int(getattr(encoder.model, "UNCOUNTED", 0)))
    counted = mask * (positions > skipped)
    weights = counted * (1 - special)
    first = (counted * (positions == skipped + 1)).argmax(1)
    said: dict[tuple[str, int], Tensor] = {}
    for layer, states in enumerate([outputs.last_hidden_state] if static else every[1:], start=1):
        wide = states.double()
        means = masked_mean(wide, counted)
        of = {"mean": means} if static else {"cls": wide[torch.arange(3 * n, device=mask.device), first], "mean": means}
        for part, vectors in of.items():
            said[part, layer] = torch.stack(
                [cosine_similarity(vectors[:n], vectors[k * n : (k + 1) * n], dim=1) for k in (1, 2)]
            )
        said["bertscore", layer] = torch.stack(
            [
                bertscore(wide[:n], wide[k:][:n], (counted[:n], counted[k:][:n]), (weights[:n], weights[k:][:n]))
                for k in (n, 2 * n)
            ]
        )
    return said


def bertscore(one: Tensor, other: Tensor, there: tuple[Tensor, Tensor], weights: tuple[Tensor, Tensor]) -> Tensor:
    """Return BERTScore's F1 (Zhang et al. 2020, without importance weighting) of paired texts, (batch,).

    Each token is matched with the token of the other text whose state has the largest cosine with its own. Precision
    and recall are means of these cosines over the tokens of `other` and of `one`.

    Args:
        one, other: hidden states, (batch, length, dim) each.
        there: 1 for tokens that may be matched, (batch, length) each: as in the package bert-score, special tokens too.
        weights: 1 for tokens that count in the means: as there, no special tokens.
    """
    cosines = normalize(one, dim=2) @ normalize(other, dim=2).transpose(1, 2)
    open_ = there[0].unsqueeze(2) * there[1].unsqueeze(1) > 0
    cosines = cosines.masked_fill(~open_, -1.0)
    recall, precision = (
        (cosines.amax(axis) * own).sum(1) / own.sum(1).clamp(min=1) for axis, own in ((2, weights[0]), (1, weights[1]))
    )
    both = precision + recall
    return torch.where(both.abs() > 0, 2 * precision * recall / both.where(both.abs() > 0, torch.ones_like(both)), both)
