"""What jobs leave behind: outcomes, scores, records and where they come from."""

from __future__ import annotations

import re
from typing import Literal, Self

from rbench.spec.jobs import Job
from rbench.spec.words import SCHEMA_VERSION, Count, Share, Status, Strict

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?=:|$)")
_TRACEBACK = "Traceback (most recent call last):\n"


def error_kind(error: str) -> str:
    """The exception's type in a traceback or in `Type: message`, and nothing of its message; else `error`.

    >>> error_kind("ValueError: no word in 'a fine film'")
    'ValueError'
    """
    lines = error.rpartition(_TRACEBACK)[2].strip("\n").splitlines()
    last = next((line for line in lines if not line.startswith(" ")), "")
    found = _EXCEPTION.match(last)
    return found[0] if found else "error"


class Outcome(Strict):
    """What happened to one example under one attack. Texts are column values in the task's column order."""

    example_id: str
    status: Status
    original: tuple[str, ...] | None
    """None where the RUN keeps no texts."""
    perturbed: tuple[str, ...] | None = None
    """None, too, where nothing was changed."""
    label: int
    original_prediction: int | None = None
    perturbed_prediction: int | None = None
    num_queries: Count = 0
    """Counted as TextAttack counts: before any cache, the first look included."""
    num_words: Count = 0
    num_words_changed: Count = 0
    perturbed_share: Share | None = None
    """TextAttack's perturbed-word share of this example in 0..1 (successes only)."""
    similarity: float | None = None
    """The semantic constraint's score of the final text, where the recipe has one."""
    oracle_label: int | None = None
    """True label of the perturbed text, where the task has an oracle (the embedded world)."""
    truncated: bool = False
    seconds: float = 0.0
    """What the example took one process: its own steps, and its share of the batches that it was in."""
    error: str | None = None
    """The traceback of what the attack raised; where the RUN keeps no texts, the exception's type alone."""
    skip_reason: Literal["no words"] | None = None
    """Why an example was skipped that has nothing to attack, whatever the victim says of it; None: it was misread."""

    def without_texts(self) -> Self:
        """The same without a word of the example: a traceback may quote it."""
        error = None if self.error is None else error_kind(self.error)
        return self.model_copy(update={"original": None, "perturbed": None, "error": error})


class Prediction(Strict):
    """What a victim said of one text of an evaluation. Ids alone: many texts may not be passed on."""

    bundle: str
    """Id of the bundle that the text is in."""
    example_id: str
    original: bool
    """Whether it is the bundle's original, not an edit of it."""
    label: int
    prediction: int
    cluster: str | None = None
    """Id of the first of the bundles that this one is not independent of, where the contrast set names them."""


class Score(Strict):
    """A number with its n and its 95% interval."""

    name: str
    value: float | None
    n: Count
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    """Sample standard deviation of the values behind a mean, so that means can be pooled; None for a share."""
    units: float | None = None
    """How many independent observations say as much as the n of a share, which may come in clusters."""


class Provenance(Strict):
    """Where a record comes from: enough to repeat it and to doubt it."""

    rbench: str
    commit: str | None = None
    dirty: bool | None = None
    packages: dict[str, str] = {}
    python: str = ""
    platform: str = ""
    device: str = ""
    precision: str = "fp32"
    backend: str | None = None
    """What computed the victim of an attack: one of `rbench.inference.BACKENDS`."""
    dataset_fingerprint: str | None = None
    weights_hash: str | None = None
    resources: dict[str, str] = {}
    started: str = ""
    seconds: float = 0.0


class Digest(Strict):
    """What stands in a file of lines beside a record, so that a changed file is noticed without reading its lines."""

    n: Count
    """How many lines."""
    sha256: str
    """Of the file's bytes, 64 hex digits."""
    texts: bool
    """Whether the lines hold texts."""


class Record(Strict):
    """What a job left behind. `status` is complete or failed; a job under way has outcomes but no record."""

    schema_version: int = SCHEMA_VERSION
    job: Job
    status: Literal["complete", "failed"]
    scores: tuple[Score, ...] = ()
    counts: dict[str, int] = {}
    provenance: Provenance
    error: str | None = None
    outcomes: Digest | None = None
    """Of outcomes.jsonl; None where there is none, for a failed job, and in records of before there were digests."""
    predictions: Digest | None = None
    """Of predictions.jsonl; None as for `outcomes`."""

    def without_texts(self) -> Self:
        """The same without what a traceback may quote."""
        if self.error is None or _TRACEBACK not in self.error:
            return self
        return self.model_copy(update={"error": error_kind(self.error)})
