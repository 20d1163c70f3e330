"""What jobs leave behind: outcomes, scores, records and where they come from."""

from __future__ import annotations

from typing import Literal

from rbench.spec.jobs import Job
from rbench.spec.words import SCHEMA_VERSION, Count, Share, Status, Strict


class Outcome(Strict):
    """What happened to one example under one attack. Texts are column values in the task's column order."""

    example_id: str
    status: Status
    original: tuple[str, ...]
    perturbed: tuple[str, ...] | None = None
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
    skip_reason: Literal["no words"] | None = None
    """Why an example was skipped that has nothing to attack, whatever the victim says of it; None: it was misread."""


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


class Record(Strict):
    """What a job left behind. `status` is complete or failed; a job under way has outcomes but no record."""

    schema_version: int = SCHEMA_VERSION
    job: Job
    status: Literal["complete", "failed"]
    scores: tuple[Score, ...] = ()
    counts: dict[str, int] = {}
    provenance: Provenance
    error: str | None = None
