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

from rbench.config.measures import ABOUT_FILE as ABOUT_FILE
from rbench.config.measures import read_about
from rbench.errors import ResourceError
from rbench.schema import KINDS, AdversarialSet, Outcome, SetFile, Status, TaskSpec
from rbench.system.own_code import failing_in
from rbench.tasks.clean import Example, ReservedTexts, SetData, hash_texts
from rbench.tasks.data import hash_examples

DATA = Path("data") / "test-00000-of-00001.parquet"
CARD = Path("README.md")
FILES = (DATA, CARD, ABOUT_FILE)
Only = Literal["all", "attacked", "successes"]
_STATUSES_OF: dict[Only, frozenset[Status]] = {
    "all": frozenset({"succeeded", "failed", "skipped"}),
    "attacked": frozenset({"succeeded", "failed"}),
    "successes": frozenset({"succeeded"}),
}
SET_COLUMNS = (
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


def select_outcomes(outcomes: Iterable[Outcome], only: Only = "all") -> list[Outcome]:
    """Return the outcomes that are rows of a set. A pair without a gold score is none."""
    answered = (outcome for outcome in outcomes if outcome.label is not None or outcome.gold is not None)
    return [outcome for outcome in answered if outcome.status in _STATUSES_OF[only]]


def build_row(outcome: Outcome) -> AdversarialRow:
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


def count_statuses(outcomes: Collection[Outcome], rows: int) -> dict[str, int]:
    """Return how many rows there are, and how many of all outcomes have which status."""
    by_status = Counter(outcome.status for outcome in outcomes)
    return {"rows": rows, "total": len(outcomes), **{status: by_status[status] for status in get_args(Status)}}


def hash_rows(rows: Sequence[AdversarialRow]) -> str:
    """Return the content hash of the rows: ids, texts, labels and statuses."""
    return hash_examples(
        {"test": [Example(row.id, (row.status, *row.original, *row.texts), row.label) for row in rows]}
    )


def set_files(folder: Path) -> tuple[Path, ...]:
    """Return the files of a folder that a set is read from."""
    return folder / ABOUT_FILE, folder / DATA


def open_set(folder: Path, task: TaskSpec) -> SetData:
    """Read a set of `task`.

    Raises:
        ResourceError: the folder holds no set, its rows cannot be read, or they are not those that were
            written.
    """
    from pyarrow import parquet

    set_file, path = read_about(folder), folder / DATA
    with failing_in(path, remedy="Write the set again: rbench attack --out DIR"):
        rows = tuple(_read_row(values, set_file) for values in parquet.read_table(path).to_pylist())
        fingerprint = hash_rows(rows)
    if fingerprint != set_file.fingerprint:
        raise ResourceError(
            f"{path} does not match {folder / ABOUT_FILE}: its rows are not those that were written. Write the set "
            "again: rbench attack --out DIR."
        )
    origin = f"set of {len(rows)} rows in {folder}"
    return build_set(set_file.named(folder.resolve().name), task, rows, origin, set_files(folder))


def build_set(
    named: AdversarialSet, task: TaskSpec, rows: Sequence[AdversarialRow], origin: str, files: tuple[Path, ...] = ()
) -> SetData:
    """Return rows as a set. Neither its originals nor its changed texts may be in the training of victims."""
    texts = {texts for row in rows for texts in (row.original, row.texts)}
    # Both texts: a victim that was trained on an original has seen the changed text, too.
    reserved = ReservedTexts(named.name, frozenset(hash_texts(task, row_texts) for row_texts in texts))
    return SetData(named, origin, hash_rows(rows), tuple(rows), reserved, files)


def _read_row(values: dict[str, Any], set_file: SetFile) -> AdversarialRow:
    label = KINDS[set_file.kind].label_column or "label"
    originals = [original_column(column) for column in set_file.columns]
    return AdversarialRow(
        id=values["id"],
        original=tuple(values[name] for name in originals),
        texts=tuple(values[name] for name in set_file.columns),
        label=values[label],
        status=values["status"],
    )
