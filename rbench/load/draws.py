"""Loads the draws of a suite with `train_seeds`: each of its encoders once for each training seed.

A draw of `simcse-mini` is the encoder `simcse-mini[seed=1]`, which a suite without the axis writes as
`{simcse-mini: {seed: 1}}`. For the encoder's own seed it is `simcse-mini` itself. So a draw has the key that it has in
such a suite, and is found in the cache.

The seed replaces `train.seed` of one training: that of the encoder itself or, where it has none (another pooling, fewer
layers) or draws nothing at random (whitening), of the first base that does. Whatever that training starts from or uses
(its base, a generator, a masked LM) keeps its own seed: it is an input that all draws share.
"""

from __future__ import annotations

from collections.abc import Sequence

from rbench.load.choices import Chosen, choices
from rbench.load.encoders import Encoders
from rbench.load.positions import Positioned, Problems
from rbench.spec import Choice, Draw, EncoderSpec, bases


def load_draws(merged: Positioned, seeds: Sequence[int], encoders: Encoders, problems: Problems) -> dict[str, Draw]:
    """Load the draws of all encoders of a suite, and return them by label; none where `seeds` is empty.

    Labels stand in the order of encoders and, within one, of `seeds`. Add a problem where an encoder sets a seed of its
    own, and where rbench trains none of the suite's encoders.
    """
    if not seeds:
        return {}
    found: dict[str, Draw] = {}
    before = len(problems)
    for chosen in choices(merged, "encoders"):
        if chosen.label not in encoders.found:
            continue  # the problem was added when the encoder was loaded
        if "seed" in chosen.options.data:
            place = chosen.options.key_at(("seed",))
            problems.add(place, f"`train_seeds` sets the seed of {chosen.name}; remove `seed` here, or `train_seeds`")
        for seed in seeds if _chain(encoders.found[chosen.label], encoders) else ():
            found |= _draw(chosen, seed, encoders)
    if not found and len(problems) == before:
        named = ", ".join(chosen.label for chosen in choices(merged, "encoders"))
        message = f"`train_seeds`: rbench trains none of this suite's encoders ({named}) with a seed"
        problems.add(merged.at(("train_seeds",)), f"{message}; remove it, or write `train_seeds: []` in the profile")
    return found


def _chain(spec: EncoderSpec, encoders: Encoders) -> list[EncoderSpec]:
    """Return the encoder and its bases down to the first that is drawn by a seed; empty where none of them is."""
    chain = []
    for below in bases(spec, encoders.found):
        chain.append(below)
        if encoders.drawn(below):
            return chain
    return []


def _draw(chosen: Chosen, seed: int, encoders: Encoders) -> dict[str, Draw]:
    """Load one draw of an encoder. Return it and the draws of the bases through which the seed reaches it, by label."""
    chain = _chain(encoders.found[chosen.label], encoders)
    train = chain[-1].train
    assert train is not None
    if train.seed == seed:
        return {spec.name: Draw(encoder=spec.name, train_seed=seed) for spec in chain}
    labels = [_seeded(chosen.name, chosen.options, seed), *(_seeded(spec.name, None, seed) for spec in chain[1:])]
    for spec, label, base in zip(chain, labels, labels[1:], strict=False):
        encoders.copy(spec, label, {"base": base})
    encoders.copy(chain[-1], labels[-1], {"train": train.model_copy(update={"seed": seed})})
    return {label: Draw(encoder=spec.name, train_seed=seed) for spec, label in zip(chain, labels, strict=True)}


def _seeded(name: str, options: Positioned | None, seed: int) -> str:
    return Choice(name=name, options={**(options.data if options is not None else {}), "seed": seed}).label
