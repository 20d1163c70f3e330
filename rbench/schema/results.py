"""The results of jobs: outcomes with the steps of attacks, predictions, scores and records, with their provenance."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field

from rbench.schema.common import SCHEMA_VERSION, Count, Health, Share, Status, Strict
from rbench.schema.jobs import Job

SkipReason = Literal["no words", "empty sentence", "gold outside the scale"]

PROBED_TEXTS = 8
"""Number of fixed texts whose vectors make the signature of an encoder behind an endpoint."""
TIMED_OUT = "TimedOut"
"""The kind of error of an example that took longer than --max-seconds."""
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?=:|$)")
_TRACEBACK = "Traceback (most recent call last):\n"


def error_kind(error: str) -> str:
    """Return the exception's type in a traceback or in `Type: message`, without its message; else the word `error`.

    >>> error_kind("ValueError: no word in 'a fine film'")
    'ValueError'
    """
    matched = _EXCEPTION.match(error_line(error))
    return matched[0] if matched else "error"


def error_line(error: str) -> str:
    """Return the line of a traceback that names the exception, with its message; an empty text where there is none."""
    lines = error.rpartition(_TRACEBACK)[2].strip("\n").splitlines()
    return next((line for line in lines if not line.startswith(" ")), "")


class Change(Strict):
    """A stretch of a text that a step replaced. Words and the spaces between them are replaced as a whole."""

    column: Count
    """The text's column, from 0."""
    start: Count
    """Where the stretch starts in the column before the step, in characters (code points)."""
    end: Count
    """Where it ends, exclusive. Where it equals `start`, the step inserted something."""
    new: str | None
    """What stands there after the step. None if the RUN keeps no texts."""


class Step(Strict):
    """A text on the way from the original to the final text, for which the attack asked the victim."""

    score: float
    """The victim's probability of the true label, in 0..1; on STS tasks its score of the pair, on the task's scale;
    on rankings the reciprocal rank of the first relevant document. Rounded to 4 decimals."""
    prediction: int | None = None
    """The label that the victim predicts; None on STS tasks."""
    changes: tuple[Change, ...] = ()
    """What differs from the step before, in the order of columns and places. None overlaps another. The original has
    none."""

    def without_texts(self) -> Step:
        """Return the step with the places of its changes, without their words."""
        return self.model_copy(
            update={"changes": tuple(change.model_copy(update={"new": None}) for change in self.changes)}
        )


class Outcome(Strict):
    """The result of one attack on one example. Texts are column values, in the task's column order."""

    example_id: str
    status: Status
    original: tuple[str, ...] | None
    """None if the RUN keeps no texts."""
    perturbed: tuple[str, ...] | None = None
    """None if the RUN keeps no texts, or nothing was changed."""
    label: int | None = None
    """The true class; None for a pair of an STS task, which has `gold` instead. Of a query it is 1, and a prediction
    says whether a relevant document is among the first k."""
    original_prediction: int | None = None
    perturbed_prediction: int | None = None
    gold: float | None = None
    """STS tasks: the gold score, on the task's scale."""
    original_score: float | None = None
    """STS tasks: the victim's score of the original pair, on the task's scale. Rankings: nDCG@k of the query."""
    perturbed_score: float | None = None
    """STS tasks: the victim's score of the perturbed pair; rankings: nDCG@k of the perturbed query. None where nothing
    was attacked."""
    num_queries: Count = 0
    """Counted as TextAttack counts: before any cache, and with the query for the original text."""
    num_words: Count = 0
    num_words_changed: Count = 0
    perturbed_share: Share | None = None
    """`num_words_changed` / `num_words`, in 0..1; successes only. `rbench.system.changes` defines the count.
    TextAttack's own goes by position, and is higher where a word was split."""
    words_asked: Count | None = None
    """Number of words of the original that the attack asked candidates for. None: not attacked, or the attack cannot
    tell."""
    words_without_candidate: Count | None = None
    """How many of `words_asked` never had a candidate that passed the attack's constraints; None in the same cases."""
    robust_words: Count | None = None
    """A complete search of a declared space alone: no text of it with at most so many words replaced changes the
    prediction, because all of them were asked."""
    texts_left: Count | None = None
    """A complete search alone: how many texts of the space it did not ask, because its query budget was spent. 0: the
    outcome is exact."""
    similarity: float | None = None
    """The score of the final text by the recipe's semantic constraint, if it has one."""
    oracle_label: int | None = None
    """True label of the perturbed text, if the task has an oracle (the embedded world)."""
    truncated: bool = False
    """Whether the original text was cut to the victim's maximum length."""
    seconds: float = 0.0
    """Time that one process spent on the example: its own steps, and its share of the batches that it was in."""
    error: str | None = None
    """The traceback of the exception that the attack raised; if the RUN keeps no texts, only the exception's type."""
    skip_reason: SkipReason | None = None
    """`no words`: skipped because the text has no word to attack. `empty sentence`, `gold outside the scale`: a pair of
    an STS task that cannot be scored; a gold score that is missing counts as outside. None: not skipped, or the victim
    was wrong on the original."""
    steps: tuple[Step, ...] | None = None
    """The way from the original to the final text; the first is the original. None: not attacked, or the
    attack cannot tell its steps."""

    @property
    def timed_out(self) -> bool:
        """Whether it is errored because it took longer than --max-seconds."""
        return self.status == "errored" and error_kind(self.error or "") == TIMED_OUT

    def without_texts(self) -> Self:
        """Return the outcome without texts. Of the error only the type stays, because a traceback may quote a text."""
        error = None if self.error is None else error_kind(self.error)
        steps = None if self.steps is None else tuple(step.without_texts() for step in self.steps)
        return self.model_copy(update={"original": None, "perturbed": None, "error": error, "steps": steps})


class Prediction(Strict):
    """A victim's prediction for one text of an evaluation. It holds ids and no texts: many may not be passed on."""

    bundle: str
    """Id of the bundle that the text belongs to."""
    example_id: str
    original: bool
    """Whether the text is the bundle's original (True) or an edit (False)."""
    label: int
    prediction: int
    cluster: str | None = None
    """Id of the first bundle of this bundle's cluster; None if the contrast set names no clusters."""


class MeasuredRow(Strict):
    """One row of what a measure computed. It holds names and numbers, and no texts: many may not be passed on."""

    names: dict[str, str]
    numbers: dict[str, float | None]


class Score(Strict):
    """A number with its sample size `n` and its 95% interval from `low` to `high`."""

    name: str
    value: float | None
    n: Count
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    """Sample standard deviation of the values of a mean, so that means can be pooled. Of a correlation: its bootstrap
    standard error times the root of n, so that correlations can be averaged. None for a share."""
    units: float | None = None
    """Effective sample size of a share whose observations come in clusters; at most `n`."""


class Provenance(Strict):
    """Where a record comes from: software versions, machine, and fingerprints of data, weights and resources."""

    rbench: str
    commit: str | None = None
    dirty: bool | None = None
    packages: dict[str, str] = {}
    python: str = ""
    platform: str = ""
    device: str = ""
    precision: str = "fp32"
    backend: str | None = None
    """The back-end that computed the victim of an attack, one of `rbench.encoders.inference.BACKENDS`."""
    dataset_fingerprint: str | None = None
    weights_hash: str | None = None
    resources: dict[str, str] = {}
    inputs: dict[str, str] = {}
    """Hashes of the weights behind what the jobs in `Job.needs` made, by their keys: those of a training, or those that
    an attack attacked."""
    asked: dict[str, int] = {}
    """Of an encoder behind an endpoint, what the job asked of it: `requests`, `texts`, and `tokens` as the server
    counts. Vectors that were kept before are not asked for."""
    signature: tuple[float, ...] = ()
    """Of such an encoder: lengths and cosines of the vectors of fixed texts, which tell its weights from others."""
    max_seconds: float | None = None
    """The limit of --max-seconds of the process that ended an attack; None: it had none."""
    started: str = ""
    seconds: float = 0.0

    def other_weights(self, other: Sequence[float], tolerance: float = 0.001) -> bool:
        """Return whether a signature is of other weights than that of this record, if both are known.

        Args:
            tolerance: how far from 1 the cosine of two vectors of a text may be, and the ratio of their lengths.
        """
        if not self.signature or not other:
            return False
        if len(self.signature) != len(other):
            return True
        # Where two vectors turn by an angle each, their cosine moves by at most the sum of both angles.
        turned, pairs = 2 * math.sqrt(2 * tolerance) + 1e-4, list(zip(self.signature, other, strict=True))
        return any(abs(a - b) > tolerance * max(abs(a), abs(b)) + 1e-4 for a, b in pairs[:PROBED_TEXTS]) or any(
            abs(a - b) > turned for a, b in pairs[PROBED_TEXTS:]
        )


class Digest(Strict):
    """Digest of a file of lines beside a record. It shows that a file has changed without parsing its lines."""

    n: Count
    """Number of lines."""
    sha256: str
    """Hash of the file's bytes, 64 hex digits."""
    texts: bool
    """Whether the lines hold texts."""


class Record(Strict):
    """The result of a job that has ended. A job under way has outcomes but no record."""

    schema_version: int = SCHEMA_VERSION
    job: Job
    status: Literal["complete", "failed"]
    scores: tuple[Score, ...] = ()
    counts: dict[str, int] = {}
    provenance: Provenance
    error: str | None = None
    outcomes: Digest | None = None
    """Digest of outcomes.jsonl; None if the job writes no such file, or failed."""
    predictions: Digest | None = None
    """Digest of predictions.jsonl; None in the same cases as `outcomes`."""
    rows: Digest | None = None
    """Digest of rows.jsonl; None in the same cases as `outcomes`."""
    right: Annotated[str, Field(pattern=r"^[01-]*$")] | None = None
    """Of a classifier that was opened and scored on test rows: 1 for each row that it got right, 0 for others, - where
    it had no usable answer; in the order of the rows. None for other jobs, and where validation rows were scored."""
    health: Health | None = None
    """None for jobs that have none: evaluations, builds, and fine-tunings whose strategy gives no accuracy."""

    @property
    def reason(self) -> str:
        """Return why the job failed, in one line: the last one of the error."""
        return ((self.error or "").strip() or "no error was recorded").splitlines()[-1]

    def of(self, job: Job) -> Self:
        """Return the record as that of its job under other names and keys (`plan.labels`)."""
        keys = dict(zip(self.job.needs.values(), job.needs.values(), strict=True))
        inputs = {keys.get(key, key): weights for key, weights in self.provenance.inputs.items()}
        return self.model_copy(update={"job": job, "provenance": self.provenance.model_copy(update={"inputs": inputs})})

    def without_texts(self) -> Self:
        """Return the record without texts. Of a traceback only the exception's type stays, because it may quote one."""
        if self.error is None or _TRACEBACK not in self.error:
            return self
        return self.model_copy(update={"error": error_kind(self.error)})
