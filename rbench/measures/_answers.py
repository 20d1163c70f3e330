"""What victims of each kind make of a text, as the measure `noise` stores it for each text of a sample.

| task           | stored of a text                             | the number                           |
|----------------|----------------------------------------------|--------------------------------------|
| classification | whether the label is right                   | accuracy                             |
| sts            | the score of the pair; once, its gold score  | Spearman's correlation of the two    |
| ranking        | nDCG@10 of the query (`rbench.encoders.index`) | the mean over queries              |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rbench.errors import JobError
from rbench.measures._context import VictimContext
from rbench.measures._noise import GOLD, HITS, NDCG, SCORES, K
from rbench.measures._predicted import asked
from rbench.score.packed import packed, packed_numbers
from rbench.system.progress import counting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rbench.encoders.retriever import Retriever
    from rbench.encoders.scorer import EncoderScorer
    from rbench.tasks import Example


class Answers(NamedTuple):
    """What a victim made of some texts, which are asked for by their places."""

    read: Sequence[tuple[int, ...]]
    """The token ids of each text; empty where a victim does not show them."""
    cut: NDArray[np.bool_]
    """Whether each text was cut."""
    stored: Callable[[Sequence[int]], dict[str, str]]
    """Returns what a row has of the sample, text by text, given the place of each."""
    once: dict[str, str]
    """What the row of the texts as they are has beside that."""


def answers(context: VictimContext, texts: Sequence[tuple[str, ...]], examples: Sequence[Example]) -> Answers:
    """Ask the victim for some distinct texts, each once.

    Args:
        texts: the columns of each.
        examples: the sample. The places that are asked for later are those of its changed texts, in its order.

    Raises JobError where a vector or a logit is not finite.
    """
    return _KINDS.get(context.task.kind, _classified)(context, texts, examples)


def _classified(context: VictimContext, texts: Sequence[tuple[str, ...]], examples: Sequence[Example]) -> Answers:
    found = asked(context, texts)
    labels = [example.label for example in examples]

    def stored(at: Sequence[int]) -> dict[str, str]:
        return {HITS: packed([int(found.labels[i]) == label for i, label in zip(at, labels, strict=True)])}

    return Answers(found.read if not hasattr(context.victim, "classified") else (), found.cut, stored, {})


def _scored(context: VictimContext, texts: Sequence[tuple[str, ...]], examples: Sequence[Example]) -> Answers:
    import numpy as np
    import torch

    scorer: EncoderScorer = context.victim  # type: ignore[assignment]
    read, cut, vectors = _vectors(context, scorer.encoder, [text for pair in texts for text in pair])
    with torch.no_grad():
        scores = scorer.score(vectors[::2], vectors[1::2]).cpu().numpy()

    def stored(at: Sequence[int]) -> dict[str, str]:
        return {SCORES: packed_numbers(scores[list(at)])}

    gold = packed_numbers(np.array([example.label for example in examples], dtype=np.float32))
    both = [first + second for first, second in zip(read[::2], read[1::2], strict=True)]
    return Answers(both, cut[::2] | cut[1::2], stored, {GOLD: gold})


def _ranked(context: VictimContext, texts: Sequence[tuple[str, ...]], examples: Sequence[Example]) -> Answers:
    import numpy as np

    from rbench.encoders import index

    retriever: Retriever = context.victim  # type: ignore[assignment]
    read, cut, found = _vectors(context, retriever, [text for (text,) in texts])
    vectors, ids = found.cpu().numpy(), [example.id for example in examples]
    own, step = list(map(retriever.own, ids)), max(1, index.SCORES // len(retriever.ids))

    def stored(at: Sequence[int]) -> dict[str, str]:
        values = []
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            scores = index.scores(vectors[list(at[part])], retriever.corpus, own[part], retriever.similarity)
            for i, query in enumerate(ids[part]):
                places, grades = retriever.relevant(query)
                values.append(index.ndcg(index.ranks(scores[i : i + 1], places), grades, K)[0])
        return {NDCG: packed_numbers(np.array(values))}

    return Answers(read, cut, stored, {})


def _vectors(context: VictimContext, module: Any, texts: Sequence[str]) -> tuple[list[Any], NDArray[np.bool_], Any]:
    """Return the token ids of texts, whether each was cut, and their vectors (len(texts), dim), float32."""
    import numpy as np
    import torch

    from rbench.encoders.inference import Network, rows_of

    victim: Any = context.victim
    victim.eval()
    rows = rows_of(victim.tokenizer(list(texts), truncation=True, max_length=victim.max_length))
    cut = [
        len(ids) == victim.max_length < len(victim.tokenizer(text, truncation=False, verbose=False)["input_ids"])
        for text, (ids, _) in zip(texts, rows, strict=True)
    ]
    # PyTorch always, as in `rbench.encoders.classify`.
    network = Network(
        module,
        lambda network, **inputs: network(**inputs).float(),
        tokenizer=victim.tokenizer,
        device=str(victim.device),
        backend="torch",
    )
    place = {row: i for i, row in enumerate(dict.fromkeys(rows))}  # many noisy texts have the same tokens
    found = torch.stack(network(list(place), counting(context.progress, len(place))))
    vectors = found[[place[row] for row in rows]]
    if not bool(torch.isfinite(vectors).all()):
        raise JobError("the victim's vectors are NaN or infinite: its weights are damaged, or its training diverged")
    return [ids for ids, _ in rows], np.array(cut, dtype=bool), vectors


_KINDS: dict[str, Callable[..., Answers]] = {"sts": _scored, "ranking": _ranked}
