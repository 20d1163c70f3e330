"""Classifiers that exist: they are attacked as they are, and nothing is fine-tuned."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from rbench.schema.common import Checked, Positive, ServerSettings
from rbench.schema.entries import Named

Origin = Literal["model", "function", "endpoint"]
AS_IS = "as-is"
"""Stands where the name of a fine-tuning strategy stands for the victims that encoders become."""


class Endpoint(ServerSettings):
    """A classifier behind HTTP. `body` and `path` decide what is asked and read; the rest says how."""

    body: Any = Field(default_factory=lambda: {"inputs": "{texts}"})
    """JSON that is sent. In its strings `{text}` is replaced by a text (for a task with two text columns, by the list
    of both), and a column's name in braces by the text of that column. There are two ways to send several texts in a
    request. A list whose only entry has such a place gets this entry once for each text:
    `{instances: [{content: "{text}"}]}`. Elsewhere, with a `batch_size` over 1, a string that is nothing but `{text}`
    or a column becomes the list of all texts. `{texts}` becomes a list even for a single text. `{{text}}` is sent as
    `{text}`."""
    path: str = ""
    """Where the answer holds the scores: keys and numbers of list entries, joined by dots, such as `predictions` or
    `data.0.scores`. A `*` stands for each entry of a list: `predictions.*.scores`. Empty: the answer itself. At this
    place stand the scores of the text, or for several texts a list of their scores. Scores are a list of numbers in the
    order of the classifier's labels (`labels` then says which they are), a mapping from label to number, a list of
    mappings with a label and a number (`{label: ..., score: ...}`), or a mapping with a list of labels and a list of
    numbers."""
    batch_size: Positive = 1
    """Most texts of one request."""

    COSMETIC = frozenset(ServerSettings.COSMETIC | {"batch_size"})


class VictimSpec(Named, Checked):
    """A classifier that exists. It has exactly one of three origins.

    `model` is a folder or a hub id of a transformers model for sequence classification. `function` is
    `module:function`, which takes a list of texts (of tuples of columns, for tasks with two) and returns a row of
    probabilities for each. `endpoint` is a server.
    """

    COSMETIC: ClassVar[frozenset[str]] = Named.COSMETIC | {
        *("model", "function", "revision", "batch_size", "tolerance")
    }
    # A job's key holds the fingerprint of the weights, or of the answers to a fixed probe and `version`.
    OPTIONAL = frozenset({"endpoint", "labels", "max_length", "version", "scores"})

    model: str | None = None
    revision: str | None = None
    function: str | None = None
    endpoint: Endpoint | None = None
    labels: dict[str, str] = {}
    """Maps the classifier's labels to the task's. The former are names, as `id2label` or the server gives them, or
    numbers from 0. Empty: they are matched by name (without regard to case), and a function's are in the task's
    order."""
    scores: Literal["probabilities", "logits", "names"] = "probabilities"
    """What a `function` or an `endpoint` gives for each label. Logits are mapped to probabilities by softmax. `names`:
    it gives the name of one label alone, as language models do; of such answers only a judge can make use."""
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.001
    """Largest difference between two probabilities that a `function` or an `endpoint` gives for the same text. Some
    texts are asked twice, and a larger difference ends the job."""
    max_length: Positive | None = None
    """Longest input of a `model` in tokens; None: the longest that it can read."""
    batch_size: Positive = 64
    """Most texts that a `function` gets at once."""
    version: str = ""
    """Names the weights behind a `function` or an `endpoint`, which must have one. It enters the keys of jobs, so
    answers of one version are never taken for those of another."""

    @field_validator("labels", mode="before")
    @classmethod
    def _numbers_are_names(cls, labels: Any) -> Any:
        """Take `{0: negative}` as `{"0": negative}`: YAML reads the former as a number."""
        if not isinstance(labels, Mapping):
            return labels
        return {str(key) if type(key) is int else key: value for key, value in labels.items()}

    JUDGES: ClassVar[bool] = False
    """Whether the classifier judges attacked texts, and is not itself attacked."""

    @property
    def origin(self) -> Origin:
        """Which of the three it has."""
        return "model" if self.model is not None else "function" if self.function is not None else "endpoint"

    def wrong(self) -> Iterator[str]:
        if sum(one is not None for one in (self.model, self.function, self.endpoint)) != 1:
            yield "a victim has exactly one of `model`, `function` and `endpoint`"
        if self.origin == "model" and self.scores != "probabilities":
            yield "`scores` is for functions and endpoints; of a `model` rbench knows what it gives"
        if self.scores == "names" and not self.JUDGES:
            yield "attacks need a number for each label, and `scores: names` has none"
        if self.origin != "model" and not self.version:
            yield (
                "write a `version` (any text): rbench cannot see the weights behind it, and takes stored answers for "
                "those of the same version"
            )


def victim_name(entry: Any, longer: bool = False) -> Any:
    """Return the name of an entry under `victims`: its `name`, or one made of its folder, hub id, function or address.

    An entry is a text or a mapping. Other values are returned as they are, for pydantic to refuse.

    Args:
        longer: whether a name that is made has one more part, such as the owner of a hub id.
    """
    if isinstance(entry, Mapping):
        if isinstance(entry.get("name"), str):
            return entry["name"]
        url = entry["endpoint"].get("url") if isinstance(entry.get("endpoint"), Mapping) else None
        entry = entry.get("model", entry.get("function", url))
        entry = entry if entry is not None else "unnamed"
    if not isinstance(entry, str):
        return entry
    if "://" in entry:
        address = urlsplit(entry)
        parts = [address.hostname or "", *address.path.split("/")]
        parts = [part for part in parts if part]
        return _safe("-".join(parts if longer else parts[:1]))
    entry = re.sub(r"\.ya?ml$", "", entry)
    parts = [part for part in re.split(r"[/:]", entry) if part not in ("", ".", "..", "~")]
    return _safe("-".join(parts[-2:] if longer else parts[-1:]))


def _safe(name: str) -> str:
    """Return a text as a name: letters, digits and `. _ + -`, beginning with a letter or digit."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-._+") or "classifier"
