"""Tests the walk along bases: it visits each encoder once and always ends."""

from __future__ import annotations

import pytest

from rbench.schema import EncoderSpec, base_encoder, iter_bases


def encoders(**named: str) -> dict[str, EncoderSpec]:
    """Encoders by name, each with its base."""
    return {name: EncoderSpec(name=name, base=base) for name, base in named.items()}


@pytest.mark.parametrize(
    ("known", "walk"),
    [
        (encoders(a="b", b="c", c="org/model"), ["a", "b", "c"]),
        (encoders(a="b", b="b"), ["a", "b"]),  # b is named like the folder that it loads
        (encoders(a="folder"), ["a"]),
        (encoders(a="b", b="c", c="a"), ["a", "b", "c"]),
        (encoders(a="b", b="c", c="b"), ["a", "b", "c"]),
    ],
    ids=["to the hub", "named like its folder", "a folder", "a circle", "a way into a circle"],
)
def test_the_walk_goes_from_an_encoder_to_the_last_base_of_the_registry(
    known: dict[str, EncoderSpec], walk: list[str]
) -> None:
    assert [spec.name for spec in iter_bases(known["a"], known)] == walk


def test_it_passes_encoders_that_are_trained() -> None:
    train = {"objective": "mlm", "data": "corpus"}
    known = encoders(a="b", c="org/model") | {"b": EncoderSpec(name="b", base="c", train=train)}
    assert [spec.name for spec in iter_bases(known["a"], known)] == ["a", "b", "c"]


def test_a_base_is_another_encoder_of_the_registry_or_none() -> None:
    known = encoders(a="b", b="b", c="org/model")
    assert base_encoder(known["a"], known) is known["b"]
    assert base_encoder(known["b"], known) is None and base_encoder(known["c"], known) is None
    made = EncoderSpec(name="m", architecture={"hidden_size": 8}, train={"objective": "mlm", "data": "corpus"})
    assert base_encoder(made, {"m": made}) is None
