"""Where a task's rows come from: the hub, a data folder, or a table; and how what is not divided is divided."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from rbench.spec.common import Count, Positive, Share, Split, Strict

PART_ACCURACY, PART_ROWS = "accuracy of ", "rows of "
"""What the names of scores and counts of a task's parts begin with; the part's name follows."""
_TABLES = (".csv", ".tsv", ".json", ".parquet")


class HubSource(Strict):
    """A data set on the Hugging Face Hub. `columns` maps a column of rbench to a column of the data set."""

    id: str
    revision: str
    config: str | None = None
    columns: dict[str, str]
    label_map: dict[str, int] | None = None
    """Maps a hub label (as text) to rbench's label id; None: they are equal. Rows with other labels are dropped and
    counted."""


class HubSplit(HubSource):
    """One split of a task, from a data set of its own."""

    split: str
    """The split of that data set, or a file of its repository."""


class HubData(HubSource):
    """A task's data on the Hugging Face Hub.

    `splits` maps a split of rbench to a split of the data set, or to a file of the repository: `.txt` (one text a
    line) or `.jsonl`.
    """

    splits: dict[str, str]
    elsewhere: dict[Split, HubSplit] = {}
    """The splits of rbench that another data set has, for example because this one hides the labels of its test
    split."""

    @model_validator(mode="after")
    def _has_each_split_once(self) -> HubData:
        twice = [part for part in self.elsewhere if part in self.splits]
        if twice:
            raise ValueError(f"{', '.join(twice)} is under `splits` and under `elsewhere`; name it once")
        return self

    @property
    def sources(self) -> tuple[HubData, ...]:
        """The data sets that hold the splits, this one first. None of them names an `elsewhere`."""
        others = [
            HubData(splits={part: one.split}, **one.model_dump(exclude={"split"}))
            for part, one in self.elsewhere.items()
        ]
        return (self.model_copy(update={"elsewhere": {}}), *others)


class Part(Strict):
    """One source of a task that is made of several, such as a round of ANLI. It may be absent."""

    name: str
    """What tables call it. Each of its examples has it in its id: `dev R1:17`."""
    split: Split
    """The split of the task that its rows belong to."""
    local: tuple[str, ...] = ()
    """Sources below a data folder, `<folder>/<file stem>`. All must be there."""
    hub: HubSplit | None = None
    generator: str | None = None
    """Name of a generator in rbench.mini, whose rows of `split` are the part's."""
    rows: tuple[Count, Positive] | None = None
    """The rows of the source that are the part's, from the first, counted from 0, up to the second; None: all."""

    @model_validator(mode="after")
    def _has_an_origin(self) -> Part:
        if (self.generator is None) == (not self.local and self.hub is None):
            raise ValueError("a part has either `local` and `hub`, or one of the two, or a `generator`")
        if ":" in self.name or not self.name.strip():
            raise ValueError(f"a part's name is not empty and has no colon, unlike {self.name!r}")
        if self.rows is not None and self.rows[0] >= self.rows[1]:
            raise ValueError(f"`rows` is [first, up to], not {list(self.rows)}")
        return self


class Unsplit(Strict):
    """The seeded rule that divides a task published without splits.

    Row numbers are permuted by numpy's PCG64 with `seed`. If the file `test_rows` exists (a JSON list of zero-based
    row numbers, beside the task's folder), the test split is the rows that it lists; otherwise it is the first `test`
    share of the permutation. Of the remaining rows, the first `validation` share is validation and the rest is train.
    `without_test` leaves the test rows out, for choices that must not see them: the validation rows are attacked in
    their place, and held-out rows of train (`train[holdout]` of other tasks) are validation.
    """

    source: str
    seed: Count = 0
    validation: Share = 0.1
    test: Share = 0.1
    test_rows: str | None = None
    without_test: bool = False


class LocalData(Strict):
    """The layout of a local copy under a data folder. Each split is a list of sources, `<folder>/<file stem>`."""

    splits: dict[str, tuple[str, ...]] = {}
    unsplit: Unsplit | None = None
    file: str | None = None
    """The single file of a corpus, `.txt` (one text a line) or `.jsonl`. For tasks of other kinds a table (`.csv`,
    `.tsv`, `.json`, `.jsonl`, `.parquet`), a folder with one for each split, or a folder of `datasets.save_to_disk`. A
    path, or a name below a data folder."""
    split: Literal["test"] | None = None
    """`test`: all rows of the `file` are test rows. None: a file is divided by the rule of `Unsplit`."""
    columns: dict[str, str] = {}
    """Maps a column of rbench to a column of the file, where the names differ."""

    @model_validator(mode="after")
    def _tables_are_files(self) -> LocalData:
        named = [name for names in self.splits.values() for name in names]
        named += [self.unsplit.source] if self.unsplit is not None else []
        table = next((name for name in named if name.lower().removesuffix(".gz").endswith(_TABLES)), None)
        if table is not None:
            raise ValueError(
                f"{table}: `splits` and `unsplit` name JSON Lines. Write `file: {table.rpartition('/')[0] or table}`, "
                "a folder with one table for each split, or `file` with a single table"
            )
        if self.file is not None and (self.splits or self.unsplit is not None):
            raise ValueError("`file` stands alone; leave `splits` and `unsplit` out")
        if self.split is not None and self.file is None:
            raise ValueError("`split` goes with `file`")
        return self
