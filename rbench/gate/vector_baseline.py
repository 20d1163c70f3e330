"""Write what an encoder is checked against into one small file, and read it: the vectors of fixed texts.

    {"format": "rbench baseline of vectors", "version": 1, "check": SHA256, "content": {...}}

Every text of `watched_texts` is asked for in several rounds. The file has the vectors of the first one, with how far
those of the others were from them: the encoder's own variation.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import rbench
from rbench.errors import JobError, StoreError
from rbench.gate import baseline as files
from rbench.gate.watched_texts import build_texts, hash_texts
from rbench.schema.common import Strict
from rbench.system.own_code import failing_in

FORMAT, VERSION = "rbench baseline of vectors", 1
ROUNDS = 4
"""How often a baseline asks for each text. Where nothing changes, the distances of the later rounds and of a check from
the first round are equally likely to be the largest, so that of a check is in one case of ROUNDS, or fewer."""
ABSENT = 4.0
"""The distance of two answers of which one is no vector, or one of another width. Cosines give 2 at most."""
_SLACK = 1.001
"""Stored distances are rounded up to four digits, so that an equal distance does not seem larger."""

Vector = NDArray[np.floating]
Answers = Sequence[Vector | None]
"""For each text its vector; None where the encoder refused it."""
Values = NDArray[np.float64]


class VectorBaseline(Strict):
    """The content of a baseline file of vectors."""

    rbench: str
    """The version that wrote it."""
    encoder: str
    texts: str
    """Hash of the texts."""
    rounds: Annotated[int, Field(ge=2)]
    dim: Annotated[int, Field(ge=1)]
    directions: str
    """The vectors of the first round, each divided by its length: (texts, dim), float16 in base64."""
    lengths: tuple[Annotated[float, Field(ge=0)], ...]
    """Of the vectors of the first round; 0: the text has none."""
    turns: tuple[Annotated[float, Field(ge=0)], ...]
    """For each text, the largest `Distances.turns` of the later rounds."""
    stretches: tuple[Annotated[float, Field(ge=0)], ...]
    """The same of `Distances.stretches`."""

    def read_directions(self) -> Values:
        """Return the directions (texts, dim). Raises ValueError where their number is not that of the lengths."""
        stored = np.frombuffer(base64.b64decode(self.directions), "<f2")
        return _scale_to_one(stored.reshape(len(self.lengths), self.dim).astype(np.float64))[0]


@dataclass(frozen=True)
class Distances:
    """How far each vector of a round is from that of the first round."""

    turns: Values
    """1 - cosine; ABSENT where only one of them is a vector of the encoder's width."""
    stretches: Values
    """The logarithm of the ratio of their lengths, without its sign; 0 where either is absent."""


def measure_distances(directions: Values, lengths: Values, answers: Answers) -> Distances:
    """Compare the answers of a round with the first round."""
    before = np.array(lengths, np.float64)
    directions_now, lengths_now = split_answers(answers, directions.shape[1])
    both, one = (before > 0) & (lengths_now > 0), (before > 0) != (lengths_now > 0)
    turns = np.maximum(0.0, 1 - (directions * directions_now).sum(axis=1))
    stretches = np.abs(np.log(np.where(both, lengths_now, 1.0) / np.where(both, before, 1.0)))
    return Distances(np.where(one, ABSENT, np.where(both, turns, 0.0)), stretches)


def split_answers(answers: Answers, dim: int) -> tuple[Values, Values]:
    """Return directions (texts, dim), each of length 1 or 0, and lengths (texts,), which are 0 where there is no vector
    of this width with finite numbers."""
    rows = np.zeros((len(answers), dim))
    for row, answer in zip(rows, answers, strict=True):
        if answer is not None and len(answer) == dim and np.isfinite(answer).all():
            row[:] = answer
    return _scale_to_one(rows)


def _scale_to_one(vectors: Values) -> tuple[Values, Values]:
    """Return the directions of vectors, and their lengths. A vector of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1)
    return vectors / np.maximum(lengths, 1e-12)[:, None], lengths


def build_vector_baseline(encoder: str, rounds: Sequence[Answers]) -> VectorBaseline:
    """Put together a baseline of the answers of several rounds.

    Raises JobError where the encoder gave most texts no vector, or vectors of several widths.
    """
    widths = {len(answer) for answers in rounds for answer in answers if answer is not None}
    if len(widths) != 1:
        widths_text = " and ".join(map(str, sorted(widths))) or "no"
        raise JobError(f"{encoder} gave vectors of {widths_text} numbers, so it can be no baseline")
    dim = widths.pop()
    directions, lengths = split_answers(rounds[0], dim)
    if 2 * np.count_nonzero(lengths) < len(lengths):
        raise JobError(
            f"{encoder} gave {np.count_nonzero(lengths == 0)} of {len(lengths)} texts no vector, one with numbers that "
            "are not finite, or one of zeros, so it can be no baseline"
        )
    stored = directions.astype("<f2")
    rounded, _ = _scale_to_one(stored.astype(np.float64))  # a check has them as they are stored
    later = [measure_distances(rounded, lengths, answers) for answers in rounds[1:]]
    return VectorBaseline(
        rbench=rbench.__version__,
        encoder=encoder,
        texts=hash_texts(),
        rounds=len(rounds),
        dim=dim,
        directions=base64.b64encode(stored.tobytes()).decode(),
        lengths=tuple(float(f"{length:.7g}") for length in lengths),
        turns=_round_up(np.max([distances.turns for distances in later], axis=0)),
        stretches=_round_up(np.max([distances.stretches for distances in later], axis=0)),
    )


def _round_up(distances: Values) -> tuple[float, ...]:
    return tuple(
        float(f"{_SLACK * distance:.4g}") if 0 < distance < ABSENT else float(distance) for distance in distances
    )


def write(baseline: VectorBaseline, path: Path) -> None:
    """Write a baseline file; compressed where its name ends in `.gz`."""
    files.write_content(baseline.model_dump(mode="json"), path, FORMAT, VERSION)


def read(path: Path) -> VectorBaseline:
    """Read a baseline file of vectors.

    Raises StoreError where it is none, damaged, or of other texts than this rbench has. Raises OSError where it cannot
    be read.
    """
    content = files.read_content(path, FORMAT, VERSION)
    remedy = "Make it again: rbench watch ENCODER --out FILE"
    with failing_in(path, StoreError, remedy):
        baseline = VectorBaseline.model_validate(content)
        directions = baseline.read_directions()
    if baseline.texts != hash_texts() or len(directions) != len(build_texts()):
        raise StoreError(
            f"{path} was written by rbench {baseline.rbench}, which asks for other texts than this one. {remedy}"
        )
    return baseline
