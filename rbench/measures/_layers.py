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

from rbench.encoders.reading import count_prompt_tokens
from rbench.encoders.sentence import masked_mean
from rbench.score.finite import check_finite
from rbench.words.resources.thesaurus import TAGS, Thesaurus

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder
    from rbench.tasks import Example

BATCH = 16
"""Triplets that go through the network at once."""
_TOKEN_PATTERN = re.compile(r"\w+(?=n['’]t\b)|n['’]t\b|['’]\w+|\w+(?:-\w+)*|[^\w\s]", re.IGNORECASE)
_WORD_PATTERN = re.compile(r"[A-Za-z]{2,}(?:-[A-Za-z]+)*")
_AUXILIARIES = frozenset(
    [
        *("am", "is", "are", "was", "were", "be", "been", "being", "have", "has", "had", "having", "do", "does", "did"),
        *("doing", "done", "can", "could", "may", "might", "must", "shall", "should", "will", "would", "not"),
    ]
)
"""Words that a tagger may call verbs or adverbs, and that carry little meaning of their own."""


class SynonymTriplet(NamedTuple):
    """An example's id, its text, and the text with one word replaced by a synonym, and by an antonym."""

    example: str
    original: str
    synonym: str
    antonym: str


def make_triplets(
    rows: Sequence[Example], tags: Callable[[Sequence[str]], Sequence[tuple[str, str]]], look_up: Thesaurus, seed: int
) -> list[SynonymTriplet]:
    """Return a triplet for each text that has a word with both a synonym and an antonym, in the order of the rows.

    Where several words have both, the seed draws one, whatever the other rows are. Of its synonyms and antonyms the
    first is taken, which is of the most frequent sense.

    Args:
        tags: returns (word, universal tag) for each word of a text.
        look_up: synonyms and antonyms of a word with a tag.
    """
    made = []
    for row in rows:
        (text,) = row.texts
        tokens = list(_TOKEN_PATTERN.finditer(text))
        choices = []
        for token, (word, tag) in zip(tokens, tags([token[0] for token in tokens]), strict=True):
            if tag in TAGS and _WORD_PATTERN.fullmatch(word) and word.lower() not in _AUXILIARIES:
                related = look_up(word, tag)
                if related.synonyms and related.antonyms:
                    choices.append((token, related.synonyms[0], related.antonyms[0]))
        if choices:
            token, synonym, antonym = random.Random(f"{seed} {row.id}").choice(choices)
            made.append(
                SynonymTriplet(row.id, text, _replace_token(text, token, synonym), _replace_token(text, token, antonym))
            )
    return made


def _replace_token(text: str, token: re.Match[str], word: str) -> str:
    """Return the text with a word in place of a token. It begins with a capital letter if the token does."""
    word = word[0].upper() + word[1:] if token[0][0].isupper() else word
    return text[: token.start()] + word + text[token.end() :]


def find_hits(
    encoder: SentenceEncoder, triplets_found: Sequence[SynonymTriplet], progress: Callable[[int, int], None]
) -> dict[tuple[str, int], NDArray[np.bool_]]:
    """Return by part and layer (from 1) for each triplet whether the text with the synonym is the nearer one.

    Layers are those of the network after its embeddings. A network of word vectors alone counts as one layer, and has
    no first token. Raises JobError where a hidden state is not finite.
    """
    # Sorting by length keeps the padding of each batch small.
    order = sorted(range(len(triplets_found)), key=lambda i: len(triplets_found[i].original))
    hits_by_layer: dict[tuple[str, int], NDArray[np.bool_]] = {}
    encoder.eval()
    for start in range(0, len(order), BATCH):
        progress(start, len(order))
        batch_places = order[start : start + BATCH]
        for key, similarities in _compare_layers(encoder, [triplets_found[i] for i in batch_places]).items():
            with_synonym, with_antonym = similarities.cpu().numpy()
            check_finite(np.stack([with_synonym, with_antonym], axis=1), f"layer {key[1]}")
            layer_hits = hits_by_layer.setdefault(key, np.zeros(len(triplets_found), dtype=bool))
            layer_hits[batch_places] = with_synonym > with_antonym
    return hits_by_layer


@torch.inference_mode()
def _compare_layers(encoder: SentenceEncoder, batch: Sequence[SynonymTriplet]) -> dict[tuple[str, int], Tensor]:
    """Return by part and layer how alike the originals are to the texts with synonyms and antonyms, (2, batch)."""
    num_triplets = len(batch)
    texts = [getattr(triplet, name) for name in ("original", "synonym", "antonym") for triplet in batch]
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
    layer_states: Sequence[Tensor] = getattr(outputs, "hidden_states", None) or ()
    is_static = not layer_states
    positions = mask.cumsum(1)
    skipped = max(count_prompt_tokens(encoder.tokenizer), int(getattr(encoder.model, "UNCOUNTED", 0)))
    counted = mask * (positions > skipped)
    # As in the package bert-score: special tokens may be matched (`counted`), but do not count in means (`weights`).
    weights = counted * (1 - special)
    first = (counted * (positions == skipped + 1)).argmax(1)
    similarities: dict[tuple[str, int], Tensor] = {}
    for layer, states in enumerate([outputs.last_hidden_state] if is_static else layer_states[1:], start=1):
        states_64 = states.double()
        means = masked_mean(states_64, counted)
        vectors_by_part = (
            {"mean": means}
            if is_static
            else {"cls": states_64[torch.arange(3 * num_triplets, device=mask.device), first], "mean": means}
        )
        for part, vectors in vectors_by_part.items():
            similarities[part, layer] = torch.stack(
                [
                    cosine_similarity(
                        vectors[:num_triplets], vectors[nth_text * num_triplets : (nth_text + 1) * num_triplets], dim=1
                    )
                    for nth_text in (1, 2)
                ]
            )
        similarities["bertscore", layer] = torch.stack(
            [
                compute_bertscore(
                    states_64[:num_triplets],
                    states_64[nth_text:][:num_triplets],
                    (counted[:num_triplets], counted[nth_text:][:num_triplets]),
                    (weights[:num_triplets], weights[nth_text:][:num_triplets]),
                )
                for nth_text in (num_triplets, 2 * num_triplets)
            ]
        )
    return similarities


def compute_bertscore(
    first: Tensor, second: Tensor, matchable: tuple[Tensor, Tensor], weights: tuple[Tensor, Tensor]
) -> Tensor:
    """Return BERTScore's F1 (Zhang et al. 2020, without importance weighting) of paired texts, (batch,).

    Each token is matched with the token of the other text whose state has the largest cosine with its own. Precision
    and recall are means of these cosines over the tokens of `second` and of `first`.

    Args:
        one, other: hidden states, (batch, length, dim) each.
        matchable: 1 for tokens that may be matched, (batch, length) each: as in the package bert-score, special tokens
            too.
        weights: 1 for tokens that count in the means: as there, no special tokens.
    """
    cosines = normalize(first, dim=2) @ normalize(second, dim=2).transpose(1, 2)
    may_match = matchable[0].unsqueeze(2) * matchable[1].unsqueeze(1) > 0
    cosines = cosines.masked_fill(~may_match, -1.0)
    recall, precision = (
        (cosines.amax(axis) * token_weights).sum(1) / token_weights.sum(1).clamp(min=1)
        for axis, token_weights in ((2, weights[0]), (1, weights[1]))
    )
    sum_of_both = precision + recall
    return torch.where(
        sum_of_both.abs() > 0,
        2 * precision * recall / sum_of_both.where(sum_of_both.abs() > 0, torch.ones_like(sum_of_both)),
        sum_of_both,
    )
