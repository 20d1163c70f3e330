"""Vector space (ADCL, section 4.5, Table 4 and Figures 3 to 6): how far adversarial texts lie from their originals.

For each victim: d_pos, d_neg, delta and the ratio d_pos / d_neg (`_distances`), and places of some texts by t-SNE.
The same texts are taken in all victims' spaces: those on which an attack fooled victims that the suite's first strategy
fine-tuned. The paper takes texts that fooled the encoder without pre-training (`fooled: NAME`). That choice is
unfavourable to this encoder, whose vectors are far apart where it was fooled. So the default is `either` (ours).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rbench.errors import JobError
from rbench.measures import Asked, MeasureContext, MeasuredRow
from rbench.spec import Count, Outcome, Positive, Strict, Suite
from rbench.tables import Results, Table

if TYPE_CHECKING:
    from rbench.measures._vectors import Array

TITLE = "Vector space: distances of texts and adversarial texts (ADCL, Table 4)"
VERSION = 1
USES = ("encoders.sentence",)
NAME = "space"
VECTORS = True
NUMBERS = ("d_pos", "d_neg", "delta", "ratio", "less")
"""Names of the numbers of a victim. `less`: its ratio less that of the first encoder with the same strategy."""


class Options(Strict):
    """Which texts, and how much is computed of them."""

    fooled: str = "either"
    """`either`: texts that fooled any encoder. `both`: texts that fooled every encoder. Otherwise an encoder's name:
    texts that fooled this one. Where several encoders were fooled, they give their adversarial texts by turns."""
    resamples: Positive = 9999
    """Resamples of the bootstrap."""
    points: Count = 50
    """How many texts t-SNE places in a plane; 0: none. (The paper does not print how many its figures show.)"""


def check(options: Options, suite: Suite) -> str | None:
    """Say what is wrong with the options in this suite."""
    if options.fooled in ("either", "both", *suite.encoders):
        return None
    return (
        f"`fooled` is either, both, or one of the suite's encoders ({', '.join(suite.encoders)}), not {options.fooled}"
    )


class Text(NamedTuple):
    """A text and the adversarial text that fooled a victim."""

    example: str
    made_against: str
    clean: tuple[str, ...]
    adversarial: tuple[str, ...]


def chosen(options: Options, context: MeasureContext) -> list[Text]:
    """Return the texts that the option `fooled` means, by example."""
    source = context.victims[0].finetune
    makers = [of for of in context.victims if of.finetune == source]
    if options.fooled not in ("either", "both"):
        makers = [of for of in makers if of.encoder == options.fooled]
    if not makers:
        raise JobError(f"there is no encoder {options.fooled} in this suite")
    made = {of: {one.example_id: one for one in context.outcomes[of] if one.status == "succeeded"} for of in makers}
    texts: list[Text] = []
    for example in sorted({example for own in made.values() for example in own}):
        there = [of for of in makers if example in made[of]]
        if options.fooled != "both" or len(there) == len(makers):
            maker = there[len(texts) % len(there)]
            texts.append(_text(maker, made[maker][example]))
    return texts


def _text(maker: Asked, one: Outcome) -> Text:
    clean = one.original or ()
    return Text(one.example_id, maker.encoder, clean, one.perturbed or clean)


def run(options: Options, context: MeasureContext) -> list[MeasuredRow]:
    """Return a row of distances for each victim, and a row for each text that is placed in its plane."""
    import numpy as np

    from rbench.measures._distances import Distances, estimates
    from rbench.measures._vectors import plane, vectors

    texts, victims = chosen(options, context), context.victims
    spaces, rows = [], []
    for done, of in enumerate(victims):
        context.progress(done, len(victims), f"{of.encoder} {of.finetune}, {len(texts)} texts")
        if len(texts) < 2:
            break
        victim = context.victim(of)
        clean, adversarial = (vectors(victim, [getattr(one, which) for one in texts]) for which in Text._fields[2:])
        spaces.append(Distances.of(clean, adversarial))
        shown = min(options.points, len(texts))
        places = plane(np.concatenate([clean[:shown], adversarial[:shown]]), context.seed)
        rows += _placed(of, texts, places)
    found = estimates(spaces, _against(victims), options.resamples, context.seed) if spaces else []
    for i, of in enumerate(victims):
        numbers: dict[str, float | None] = {"n": len(texts)}
        for name, one in zip(NUMBERS, found[i] if found else (), strict=False):
            numbers |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high, f"{name}_error": one.error}
        rows.append(MeasuredRow(names={"kind": "distances", **of.names}, numbers=numbers))
    return rows


def _against(victims: Sequence[Asked]) -> list[int | None]:
    """Return for each victim the index of the first encoder's victim with the same strategy; None for itself."""
    first = {of.finetune: i for i, of in reversed(list(enumerate(victims)))}
    return [first[of.finetune] if first[of.finetune] != i else None for i, of in enumerate(victims)]


def _placed(of: Asked, texts: Sequence[Text], places: Array) -> list[MeasuredRow]:
    """Return a row for each text that has a place: first come all texts, then all adversarial texts."""
    shown = len(places) // 2
    return [
        MeasuredRow(
            names={"kind": "point", **of.names, "example": one.example, "made_against": one.made_against},
            numbers={
                "x": round(float(places[i][0]), 4),
                "y": round(float(places[i][1]), 4),
                "adversarial_x": round(float(places[shown + i][0]), 4),
                "adversarial_y": round(float(places[shown + i][1]), 4),
            },
        )
        for i, one in enumerate(texts[:shown])
    ]


def table(options: Options, results: Results) -> Table:
    """Make one row for each task, attack, choice of texts and victim."""
    from rbench.measures._space_table import made

    return made(options, results)
