"""Loads tasks, on which encoders are fine-tuned, trained and scored, and contrast sets of tasks.

A suite may name a table by its path in place of a task: `tasks: [./my.csv, {./other.csv: {text: review}}]`. What the
suite does not say of it is guessed from the table: columns by their names, the labels from the label column, the kind
from the number of texts. Each guess is a note, which the user reads before any work. What cannot be guessed is an error
that names the columns.

Labels that are not given are the different values of the label column: numbers by size, other texts by alphabet. If the
file states names for numbers (a ClassLabel of the datasets library), these are the labels.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from rbench.config.check import validate
from rbench.config.files import RegistryFiles
from rbench.config.hub_tables import HubTable, SavedTable, is_hub_table, ranking_content, read_name
from rbench.config.mteb_tables import MtebTable, is_mteb_table, read_mteb_name
from rbench.config.overrides import iter_items, iter_names, list_profiles
from rbench.config.positions import PositionedData, Problems, as_list
from rbench.config.registry import NAME, Registry, nearest_names, unknown_message
from rbench.config.tabular import TablePlace, check_unicode, is_table, open_place, text_of_label
from rbench.errors import ResourceError, SuiteError
from rbench.schema import KINDS, ContrastSpec, KindName, LocalData, Strict, TaskKind, TaskSpec, is_text_file
from rbench.system.own_code import error_message

TEXT_COLUMNS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("question1", "question2"),
    ("text1", "text2"), ("text_a", "text_b"), ("question", "passage"), ("question", "sentence"),
    ("text",), ("sentence",), ("review",), ("content",), ("comment",), ("tweet",), ("document",), ("body",),
)  # fmt: skip
"""Names of text columns that are guessed, in any case."""
LABEL_COLUMNS = (
    "label",
    "labels",
    "gold_label",
    "class",
    "category",
    "sentiment",
    "target",
    "stars",
    "rating",
    "score",
)
"""Names of label columns that are guessed, in any case. The first that is there counts."""
_NAME_TEXT = "Name it: --text NAME on the command line, `text: NAME` in a suite (two texts: --text A --text B)"
_NAME_LABEL = "Name it: --label NAME on the command line, `label: NAME` in a suite"
OTHER_FILES = (".xlsx", ".xls", ".ods", ".txt", ".zip", ".pkl", ".arrow", ".gz")
"""Endings of files that are no tables for rbench, and no names of tasks either."""
MOST_LABELS = 200
"""The most different values that a column of labels may have; a column with more is something else."""


class TableOptions(Strict):
    """What a suite says of a table; all of it may be left out."""

    text: tuple[str, ...] = ()
    """The text columns, one or two."""
    label: str | None = None
    """The column of the label, or of the score (kind `sts`)."""
    labels: tuple[str, ...] = ()
    """The labels in the order of their ids."""
    kind: KindName | None = None
    name: Annotated[str, Field(pattern=NAME.pattern)] | None = None
    """The task's name in tables and keys; None: the file's, without its suffix."""
    scale: tuple[float, float] | None = None
    """The lowest and the highest score (kind `sts`)."""
    split: Literal["test", "quarters"] | None = None
    """`test`: all rows of the file are test rows. `quarters`: see `LocalData`."""

    @field_validator("text", "labels", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else [f"{v}" if type(v) is int else v for v in value or ()]


@dataclass(frozen=True)
class NamedTable:
    """A table as a suite names it: its place on disk, what the suite says of it, and where that stands."""

    path: Path
    options: PositionedData
    place: str
    elsewhere: HubTable | MtebTable | None = None
    """The data set of the hub, or the task of mteb, that is meant. Loading it finds its place in the cache."""


def is_path(name: str) -> bool:
    """Whether a name under `tasks` is a table: a path, which has a separator, begins with `.` or `~`, or ends as files
    do; or a data set of the hub, or a task of mteb."""
    as_file = is_table(name) or name.lower().endswith(OTHER_FILES)
    return (
        is_hub_table(name)
        or is_mteb_table(name)
        or os.sep in name
        or "/" in name
        or name.startswith((".", "~"))
        or as_file
    )


def elsewhere_of(written: str) -> HubTable | MtebTable | None:
    """Return the data set of the hub, or the task of mteb, that a text names; None where it names none.

    Raises ResourceError where it begins like one and goes on in another form.
    """
    if is_hub_table(written):
        return read_name(written)
    return read_mteb_name(written) if is_mteb_table(written) else None


class _TableName(str):
    """The name that stands in place of a table's path, and the table. A profile may name one with other options."""

    table: NamedTable

    @classmethod
    def of(cls, name: str, table: NamedTable) -> _TableName:
        made = cls(name)
        made.table = table
        return made


class TableTasks:
    """Gives names to the tables of one suite, and makes tasks of them."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self.registry, self.problems = registry, problems
        self.named: dict[str, NamedTable] = {}
        """The tables of the suite as it will run, by name."""
        self.notes: list[str] = []

    def rename_tables(self, located: PositionedData, base: Path) -> PositionedData:
        """Return a suite with a name in place of each path under `tasks`, in its profiles too.

        The tables of its own `tasks` are those of the suite from now on.

        Args:
            base: the folder from which relative paths lead.
        """
        located = self._rename_in(located, base)
        self.named = {
            item.data: item.data.table for item in iter_items(located, "tasks") if isinstance(item.data, _TableName)
        }
        for name in located.data.get("profiles") or {} if list_profiles(located) else ():
            part = located.sub("profiles", name)
            if isinstance(part.data, dict) and "tasks" in part.data:
                located = located.put(("profiles", name), self._rename_in(part, base))
        return located

    def _rename_in(self, located: PositionedData, base: Path) -> PositionedData:
        entries = list(iter_items(located, "tasks"))
        if not any(_written_path(item.data) for item in entries):
            return located
        names: list[PositionedData] = []
        tables: dict[str, Path] = {}
        for item in entries:
            written = _written_path(item.data)
            name = self._name(written, item, base) if written is not None else item.data
            names.append(PositionedData(name, item.place))
            if isinstance(name, _TableName) and (other := tables.setdefault(name, name.table.path)) != name.table.path:
                two = f"two tables are named {name}: {other} and {name.table.path}"
                self.problems.add(item.at(), f"{two}; give one a name: {{{written}: {{name: ...}}}}")
        return located.put(("tasks",), as_list(names, located.at(("tasks",))))

    def _name(self, written: str, item: PositionedData, base: Path) -> str:
        """Return the name of a table, with what it stands for."""
        online = None
        try:
            online = elsewhere_of(written)
            path = base / Path(written).expanduser()
            path.resolve(), path.exists()
        except ResourceError as error:
            self.problems.add(item.at(), str(error))
            return "table"
        except (OSError, ValueError, RuntimeError) as error:  # too long, a null character, an unknown user's home
            self.problems.add(item.at(), f"{written[:60]!r} is not a path: {error}")
            return "table"
        options = item.sub(written) if isinstance(item.data, dict) else PositionedData({}, item.at())
        options = options if options.data is not None else PositionedData({}, item.at())
        given = options.data.get("name") if isinstance(options.data, dict) else None
        name = given if isinstance(given, str) else _table_name_of(path) if online is None else online.name
        if not isinstance(given, str) and name in self.registry.names("tasks"):
            note = f"{name}-table: named so because {name} is a task of rbench; to choose: {{{written}: {{name: ...}}}}"
            self.notes += [note] if note not in self.notes else []
            name += "-table"
        return _TableName.of(name, NamedTable(path, options, item.at(), online))

    def add(self, written: str, place: str) -> str:
        """Return the name of a data set of the hub, or a task of mteb, that an option of a measure names."""
        name = self._name(written, PositionedData(written, place), Path())
        if isinstance(name, _TableName):
            self.named.setdefault(name, name.table)
        return name

    def load(self, name: str) -> TaskSpec | None:
        """Return the task of a table. Where something is wrong, add a problem and return None."""
        named_table = self.named[name]
        options = validate(TableOptions, named_table.options, self.problems)
        if options is None:
            return None
        try:
            place = (
                _user_table(_existing(named_table.path))
                if named_table.elsewhere is None
                else named_table.elsewhere.saved()
            )
            self.notes += [f"{name}: {guess}" for guess in place.notes]
            origin = {} if place.origin is None else {"origin": place.origin.model_dump()}
            if place.content.get("kind") == "ranking":
                content = {"name": name, **place.content, **origin}
                return validate(TaskSpec, PositionedData(content, named_table.place), self.problems)
            given = options.model_dump(exclude_unset=True)
            guesses = _TableGuesses(open_place(place.folder), TableOptions.model_validate({**place.content, **given}))
            content = {"name": name, **guesses.task(), **origin}
        except (ResourceError, OSError) as error:
            self.problems.add(
                named_table.place, str(error) if isinstance(error, ResourceError) else error_message(error)
            )
            return None
        self.notes += [f"{name}: {guess}" for guess in guesses.said]
        return validate(TaskSpec, PositionedData(content, named_table.place), self.problems)


def _written_path(data: Any) -> str | None:
    """Return the path that an entry of `tasks` names, or None where it names a task."""
    name = next(iter(data)) if isinstance(data, dict) and len(data) == 1 else data
    return name if isinstance(name, str) and (is_path(name) or isinstance(data, dict)) else None


def _table_name_of(path: Path) -> str:
    """Return the task's name for a path: `my` for `my.csv` and `my.jsonl.gz`."""
    text = path.resolve().name
    text = re.sub(r"\.gz$", "", text, flags=re.IGNORECASE)
    text = Path(text).stem if is_table(text) else text
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-._+") or "table"


def _existing(path: Path) -> Path:
    """Return the path. Raises ResourceError where nothing is there, with files of similar names."""
    if path.exists():
        return path
    folder = path.parent
    there = folder.iterdir() if folder.is_dir() else ()
    close = nearest_names(path.name, [one.name for one in there if one.is_dir() or is_table(one.name)])
    hint = (
        f"; did you mean {' or '.join(close)}?" if close else f", and no folder {folder}" if not folder.is_dir() else ""
    )
    hub = "" if is_table(path.name) else f". A data set of the hub is written hf:{path.parent.name}/{path.name}"
    raise ResourceError(f"{path}: there is no such file or folder{hint}{hub}")


def _user_table(path: Path) -> SavedTable:
    """Return a table of the user's, or a ranking: a folder in BEIR's layout."""
    if not all((path / name).is_file() for name in ("corpus.jsonl", "queries.jsonl")):
        return SavedTable(path, ())
    note = f"{path} has documents and queries, so the kind is ranking"
    return SavedTable(path, (note,), content=ranking_content(path.absolute()))


class _TableGuesses:
    """Completes what a user says of a table, and tells in `said` what was guessed."""

    def __init__(self, place: TablePlace, options: TableOptions) -> None:
        self.place, self.options = place, options
        self.columns = [column for column in place.tables[0].columns if column]
        self.said: list[str] = []
        if place.left_out:
            self.said.append(f"its splits {', '.join(place.left_out)} are not used")

    def task(self) -> dict[str, Any]:
        """Return the content of a task file. Raises ResourceError where something is wrong or cannot be guessed."""
        given = self.options
        for column in (*given.text, *((given.label,) if given.label is not None else ())):
            if column not in self.columns:
                raise ResourceError(f"{self.place.path}: {unknown_message('column', column, self.columns)}")
        label = given.label or self._guessed_label()
        texts = given.text or self._guessed_texts(label)
        if label in texts:
            raise ResourceError(f"{self.place.path}: `{label}` is the label and a text; name another column")
        kind = given.kind or self._guessed_kind(texts)
        names, columns = self._columns(kind, texts, label)
        local = LocalData(file=str(self.place.path), columns=columns, split=given.split)
        made: dict[str, Any] = {"kind": kind, "columns": names, "local": local.model_dump(mode="json")}
        if KINDS[kind].has_scores:
            return made | {"metric": "spearman"} | ({"scale": list(given.scale)} if given.scale is not None else {})
        if given.labels:
            self._name_absent(given.labels, label)
        return made | {"labels": list(given.labels or self._guessed_labels(label))}

    def _guessed_label(self) -> str:
        left = [column for column in self.columns if column not in self.options.text]
        by_name = _columns_by_name(left)
        guessed = next((by_name[name] for name in LABEL_COLUMNS if name in by_name), None)
        if guessed is None and self.options.text and len(left) == 1:
            guessed = left[0]
        if guessed is None:
            raise ResourceError(self._ask("the label", _NAME_LABEL))
        self.said.append(f"the label is the column `{guessed}` (guessed; say `label` to choose)")
        return guessed

    def _guessed_texts(self, label: str) -> tuple[str, ...]:
        left = [column for column in self.columns if column != label]
        by_name = _columns_by_name(left)
        groups = [group for group in TEXT_COLUMNS if all(name in by_name for name in group)]
        pairs, singles = [g for g in groups if len(g) == 2], [g for g in groups if len(g) == 1]
        if "text" in by_name and not pairs:
            singles = [("text",)]
        if len(fitting := pairs or singles) == 1:
            texts = tuple(by_name[name] for name in fitting[0])
        elif not fitting and len(left) == 1:
            texts = tuple(left)
        else:
            raise ResourceError(self._ask("the text", _NAME_TEXT))
        columns = " and ".join(f"`{text}`" for text in texts)
        self.said.append(f"the text is {columns} (guessed; say `text` to choose)")
        return texts

    def _ask(self, what: str, remedy: str) -> str:
        if not self.columns:
            return f"{self.place.path}: it has no rows"
        return f"{self.place.path}: cannot tell which column is {what}; there are {', '.join(self.columns)}. {remedy}"

    def _guessed_kind(self, texts: Sequence[str]) -> str:
        if len(texts) == 1:
            return "single"
        named = [kind.name for kind in KINDS.values() if kind.names_columns == tuple(text.lower() for text in texts)]
        kind = named[0] if named else "pair"
        self.said.append(f"the kind is {kind} (guessed from two texts; say `kind` to choose nli, pair or paraphrase)")
        return kind

    def _columns(self, kind: str, texts: Sequence[str], label: str) -> tuple[list[str], dict[str, str]]:
        """Return rbench's names of the text columns, and the file's names where they differ."""
        of_kind = KINDS[kind]
        if len(texts) != of_kind.texts or of_kind.label_column is None:
            valid = "`text` names one column" if len(texts) == 2 else "`text` names two columns"
            raise ResourceError(f"{self.place.path}: the kind {kind} does not fit {len(texts)} texts; {valid}")
        names, of_label = list(of_kind.names_columns or texts), of_kind.label_column
        if of_label in names:
            raise ResourceError(f"{self.place.path}: rename the text column `{of_label}`; rbench calls another so")
        pairs = (*zip(names, texts, strict=True), (of_label, label))
        return names, {ours: theirs for ours, theirs in pairs if ours != theirs}

    def _name_absent(self, labels: Sequence[str], label: str) -> None:
        """Say which of the labels that were given no row has: they may be misspelt. Rows may hold numbers of labels."""
        values = {value.casefold() for value in self._values(label)}
        absent = [name for name in labels if name.casefold() not in values]
        if 0 < len(absent) < len(labels):
            self.said.append(f"no row has the label{'s' if len(absent) > 1 else ''} {', '.join(absent)}")

    def _guessed_labels(self, label: str) -> list[str]:
        stated = next((table.names[label] for table in self.place.tables if label in table.names), None)
        counts = Counter(self._values(label))
        if stated is None:
            counts.pop("", None)
            most = min(MOST_LABELS, counts.total() // 2)
            if not 2 <= len(counts) <= most:
                raise ResourceError(
                    f"{self.place.path}: the column `{label}` has {len(counts)} different values in {counts.total()} "
                    f"rows, which are no labels (expected 2 to {most}). There are {', '.join(self.columns)}. "
                    f"{_NAME_LABEL}, or give the labels: --labels A,B or `labels: [A, B]`"
                )
        labels = list(stated or sorted(counts, key=_label_order))
        self._check_alike(labels, label)
        for name in labels:
            check_unicode(name, f"{self.place.path}: a label in the column `{label}`")
        shown = ", ".join(name if stated else f"{name} ({counts[name]:,} rows)" for name in labels[:20])
        more = ", ..." if len(labels) > 20 else ""
        self.said.append(f"the labels are {shown}{more} (as the file has them; say `labels` to choose)")
        return labels

    def _check_alike(self, labels: Sequence[str], label: str) -> None:
        """Refuse labels that are lists, and say which differ in case alone."""
        if lists := [name for name in labels if name[:1] + name[-1:] in ("[]", "{}")]:
            raise ResourceError(
                f"{self.place.path}: the column `{label}` holds lists such as {lists[0][:60]}, and a row has one "
                "label. Write each label alone, or name the column that holds it: `label`"
            )
        alike: dict[str, list[str]] = {}
        for name in labels:
            alike.setdefault(name.casefold(), []).append(name)
        for same in (same for same in alike.values() if len(same) > 1):
            self.said.append(f"the labels {' and '.join(same)} differ in case alone; if they are one, write them alike")

    def _values(self, label: str) -> Iterator[str]:
        return (text_of_label(row.values.get(label)) for table in self.place.tables for row in table.rows)


def _columns_by_name(columns: Iterable[str]) -> dict[str, str]:
    """Return columns by their names in lower case. Of some that differ only in case, the one in lower case counts."""
    alike: dict[str, list[str]] = {}
    for column in columns:
        alike.setdefault(column.lower(), []).append(column)
    clear = ((name, variants) for name, variants in alike.items() if name in variants or len(variants) == 1)
    return {name: name if name in variants else variants[0] for name, variants in clear}


def _label_order(label: str) -> tuple[bool, float, str]:
    """Sort numbers by size, before texts by alphabet."""
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label


class TaskLoader:
    """Loads tasks into `found`, by name. `place` is always where the name stands."""

    def __init__(self, files: RegistryFiles) -> None:
        self.files = files
        self.found: dict[str, TaskSpec] = {}
        self.tables = TableTasks(files.registry, files.problems)

    def load(self, name: str, place: str) -> TaskSpec | None:
        """Return the task with this name, or None where something is wrong.

        A data set of the hub, or a task of mteb, gets its name here.
        """
        if is_hub_table(name) or is_mteb_table(name):
            name = self.tables.add(name, place)
        if name in self.tables.named:
            spec = self.tables.load(name) if self.files.first("tasks", name) else None
            if spec is not None:
                self.found[name] = spec
        elif name not in self.files.registry.names("tasks") and os.path.isdir(name):  # noqa: PTH112 (false for names that are too long)
            known = self.files.registry.names("tasks")
            self.files.problems.add(
                place, f"{unknown_message('task', name, known)}. The folder of this name is written ./{name}"
            )
        elif (loaded := self.files.entry(TaskSpec, "tasks", name, place)) is not None:
            self.found[name] = loaded[0]
            self._check_labels(*loaded)
        return self.found.get(name)

    def of(self, suite: PositionedData) -> list[tuple[str, TaskSpec]]:
        """Return the tasks of a suite that were loaded, each with the place of its name."""
        return [(place, self.found[name]) for place, name in iter_names(suite, "tasks") if name in self.found]

    def _check_labels(self, spec: TaskSpec, located: PositionedData) -> None:
        """Add a problem where a row's number could be a label's name and its id: on the hub, and in parts."""
        sources = spec.hub.sources if spec.hub is not None else ()
        if not spec.has_numbers_as_labels or not (spec.parts or any(source.label_map is None for source in sources)):
            return
        in_parts = "In a task of parts, give the labels names that are no numbers"
        on_hub = (
            "Say under `hub` what they mean: `label_map: {NUMBER: ID, ...}`, with ids from 0 in the order of labels"
        )
        message = f"labels are numbers ({', '.join(spec.labels)}), and rows may hold numbers that are ids"
        self.files.problems.add(located.at(("labels",)), f"{message}. {in_parts if spec.parts else on_hub}")

    def corpus(self, name: str, place: str) -> None:
        """Load a training corpus: a task, or a file of texts, which needs no YAML file."""
        if is_text_file(name):
            self.found[name] = TaskSpec(
                name=name, kind="unlabelled", columns=("text",), local=LocalData(file=name), title="a file of texts"
            )
        else:
            self.load(name, place)

    def load_scored(self, name: str, place: str, what: str = "evaluation") -> None:
        """Load an STS task, on which encoders are scored. `what` names it in the error for an unknown task."""
        if name not in self.files.registry.names("tasks"):
            others = self.files.registry.names("measures") if what == "evaluation" else []
            known = [*self.names_with_scores(), *others]
            self.files.problems.add(place, unknown_message(what, name, known))
            return
        task = self.load(name, place)
        if task is not None and not task.of_kind.has_scores:
            valid = ", ".join(self.names_with_scores())
            message = f"task {name} (its kind is {task.kind}) has no similarity scores; {valid} have them"
            self.files.problems.add(place, message)

    def names_with_contrast(self) -> list[str]:
        """Return the names of tasks that name a contrast set. Files with errors are skipped."""
        return self._names_where(lambda data: data.get("contrast") is not None)

    def names_with_scores(self) -> list[str]:
        """Return the names of tasks that have similarity scores.

        Files with errors are skipped: they fail where they are used.
        """
        return self._names_where(lambda data: (kind := _kind_of_content(data)) is not None and kind.has_scores)

    def stated_kind(self, name: str) -> TaskKind | None:
        """Return the kind that a task's file states, or that a table has. None where there is no such file, or it has
        errors."""
        if name in self.tables.named and name in self.found:
            return self.found[name].of_kind
        known = name in self.files.registry.names("tasks")
        return _kind_of_content(self._read_quietly(name) or {}) if known else None

    def _names_where(self, condition: Callable[[Mapping[str, Any]], bool]) -> list[str]:
        contents = ((name, self._read_quietly(name)) for name in self.files.registry.names("tasks"))
        return [name for name, data in contents if data is not None and condition(data)]

    def _read_quietly(self, name: str) -> Mapping[str, Any] | None:
        """Return what a task's file says, or None where it has errors. They are told where the task is used."""
        try:
            content: Mapping[str, Any] = RegistryFiles(self.files.registry, Problems()).content("tasks", name).data
        except SuiteError:
            return None
        return content


def _kind_of_content(content: Mapping[str, Any]) -> TaskKind | None:
    """Return the kind that the content of a task's file states; None where it states none that there is."""
    return KINDS.get(str(content.get("kind")))


class ContrastLoader:
    """Loads contrast sets into `found`, by name, and their tasks into `tasks`."""

    def __init__(self, files: RegistryFiles, tasks: TaskLoader) -> None:
        self.files, self.tasks = files, tasks
        self.found: dict[str, ContrastSpec] = {}

    def load(self, name: str, place: str) -> ContrastSpec | None:
        """Return the contrast set with this name; None where it or its task is wrong. The name stands at `place`."""
        if (loaded := self.files.entry(ContrastSpec, "contrast", name, place)) is not None:
            spec, located = loaded
            task = self.tasks.load(spec.task, located.at(("task",)))
            if task is not None and self._fits(spec, task, located):
                self.found[name] = spec
        return self.found.get(name)

    def _fits(self, spec: ContrastSpec, task: TaskSpec, located: PositionedData) -> bool:
        """Check that a contrast set has the columns of its task, and add a problem for each that differs."""
        problems = self.files.problems
        before = len(problems)
        wanted = {*task.columns, "label"}
        for side in ("original", "perturbed"):
            given: dict[str, str] = getattr(spec, side)
            for missing in sorted(wanted - set(given)):
                message = f"`{side}` does not say which column is the task's `{missing}`"
                problems.add(located.at((side,)), message)
            for key in sorted(set(given) - wanted):
                problems.add(located.key_at((side, key)), unknown_message(f"column of {task.name}", key, wanted))
        for key in sorted(set(spec.shares) - set(task.columns)):
            problems.add(located.key_at(("shares", key)), unknown_message(f"column of {task.name}", key, task.columns))
        return len(problems) == before
