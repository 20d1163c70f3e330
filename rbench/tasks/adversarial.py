"""Adversarial sets: test texts of a task, each with what an attack made of it, and the files that hold such a set.

A set has one row for each attacked example. Where the attack succeeded, the row's texts are the perturbed ones; else
they are the original ones, as in a benchmark that is a whole test set. Examples on which the attack errored are no
rows, because nothing is known of them.

    DIR/data/test-00000-of-00001.parquet   the rows
    DIR/README.md                          the card
    DIR/rbench.json                        what rbench needs to know of the set (`rbench.schema.SetFile`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from rbench.config.measures import ABOUT as ABOUT
from rbench.config.measures import read_about
from rbench.errors import ResourceError
from rbench.schema import KINDS, AdversarialSet, Outcome, SetFile, Status, TaskSpec
from rbench.tasks.clean import Example, Reserved, SetData, key
from rbench.tasks.data import content_hash

DATA = Path("data") / "test-00000-of-00001.parquet"
CARD = Path("README.md")
FILES = (DATA, CARD, ABOUT)
Only = Literal["all", "attacked", "successes"]
_KEPT: dict[Only, frozenset[Status]] = {
    "all": frozenset({"succeeded", "failed", "skipped"}),
    "attacked": frozenset({"succeeded", "failed"}),
    "successes": frozenset({"succeeded"}),
}
OWN = (
    *("id", "status", "label", "score", "original_prediction", "perturbed_prediction"),
    *("num_queries", "num_words", "num_words_changed"),
)
"""The columns of a set beside those of its task."""


class AdversarialRow(NamedTuple):
    """One row of a set. `label` is the label's id, or the gold score of a pair of an STS task."""

    id: str
    original: tuple[str, ...]
    texts: tuple[str, ...]
    """The perturbed texts where the attack succeeded; else the original ones."""
    label: int | float
    status: Status

    @property
    def changed(self) -> bool:
        """Whether the attack succeeded, so that the row's texts are the perturbed ones."""
        return self.status == "succeeded"


def original_column(column: str) -> str:
    """Return the column that holds the original texts of a column of the task."""
    return f"original_{column}"


def kept(outcomes: Iterable[Outcome], only: Only = "all") -> list[Outcome]:
    """Return the outcomes that are rows of a set. A pair without a gold score is none."""
    answered = (outcome for outcome in outcomes if outcome.label is not None or outcome.gold is not None)
    return [outcome for outcome in answered if outcome.status in _KEPT[only]]


def row_of(outcome: Outcome) -> AdversarialRow:
    """Return the row of an outcome that is kept. Raises ResourceError where the outcome has no texts."""
    original, perturbed = outcome.original, outcome.perturbed
    label = outcome.label if outcome.gold is None else outcome.gold
    if original is None or label is None or (outcome.status == "succeeded" and perturbed is None):
        raise ResourceError(
            f"example {outcome.example_id} has no texts: the RUN keeps none. Adversarial sets are made of the texts of "
            "a RUN that was run without --no-texts and is not a copy without texts (rbench pack --no-texts)."
        )
    texts = perturbed if outcome.status == "succeeded" and perturbed is not None else original
    return AdversarialRow(outcome.example_id, original, texts, label, outcome.status)


def counts_of(outcomes: Collection[Outcome], rows: int) -> dict[str, int]:
    """Return how many rows there are, and how many of all outcomes have which status."""
    found = Counter(outcome.status for outcome in outcomes)
    return {"rows": rows, "total": len(outcomes), **{status: found[status] for status in get_args(Status)}}


def fingerprint_of(rows: Sequence[AdversarialRow]) -> str:
    """Return the content hash of the rows: ids, texts, labels and statuses."""
    return content_hash({"test": [Example(r.id, (r.status, *r.original, *r.texts), r.label) for r in rows]})


def files_of(folder: Path) -> tuple[Path, ...]:
    """Return the files of a folder that a set is read from."""
    return folder / ABOUT, folder / DATA


def open_set(folder: Path, task: TaskSpec) -> SetData:
    """Read a set of `task`.

    Raises:
        ResourceError: the folder holds no set, its rows cannot be read, lack a column, or are not those that were
            written, or it has none.
    """
    import pyarrow
    from pyarrow import parquet

    about, path = read_about(folder), folder / DATA
    try:
        read: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise ResourceError(f"{path} cannot be read: {error}") from error
    rows = tuple(_row(values, about, f"{path} row {i}") for i, values in enumerate(read))
    if not rows:
        raise ResourceError(f"{path} has no rows: there is nothing to classify. Write the set again.")
    if fingerprint_of(rows) != about.fingerprint:
        raise ResourceError(
            f"{path} does not match {folder / ABOUT}: its rows are not those that were written. Write the set again: "
            "rbench attack --out DIR."
        )
    origin = f"set of {len(rows)} rows in {folder}"
    return set_of(about.named(folder.resolve().name), task, rows, origin, files_of(folder))


def set_of(
    named: AdversarialSet, task: TaskSpec, rows: Sequence[AdversarialRow], origin: str, files: tuple[Path, ...] = ()
) -> SetData:
    """Return rows as a set. Neither its originals nor its changed texts may be in the training of victims."""
    texts = {texts for row in rows for texts in (row.original, row.texts)}
    reserved = Reserved(named.name, frozenset(key(task, one) for one in texts))
    return SetData(named, origin, fingerprint_of(rows), tuple(rows), reserved, files)


def _row(values: dict[str, Any], about: SetFile, place: str) -> AdversarialRow:
    label = KINDS[about.kind].label_column or "label"
    originals = [original_column(column) for column in about.columns]
    for name in ("id", "status", label, *about.columns, *originals):
        if values.get(name) is None:
            raise ResourceError(f"{place} has no `{name}`. Write the set again: rbench attack --out DIR.")
    if label == "label" and not 0 <= values[label] < len(about.labels):
        raise ResourceError(f"{place}: `label` is {values[label]}, and the set has {len(about.labels)} labels")
    return AdversarialRow(
        id=values["id"],
        original=tuple(values[name] for name in originals),
        texts=tuple(values[name] for name in about.columns),
        label=values[label],
        status=values["status"],
    )
