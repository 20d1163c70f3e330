"""Parses YAML and keeps the place of every key and value, so that any later error can name file, line and column.

The result is plain data: mappings with text keys, lists, text, numbers, true, false and null. Scalars follow YAML 1.2:
`no` is text, `2e-5` is a number, a date is text. Tags, and numbers that JSON cannot hold, are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from rbench.errors import Problem, SuiteError
from rbench.system import named
from rbench.system.own_code import error_message, failing_in

DataPath = tuple[str | int, ...]
"""The way to a value from the top of its document: keys and list positions."""

MOST_VALUES = 100_000
"""The limit of values in one document. Through aliases, a small file can stand for very many values."""

MOST_BYTES = 1_000_000
"""The limit of one YAML file. The parser reads about 100 KB in a second."""

MOST_DEPTH = 50
"""The limit of lists and mappings inside each other."""

MOST_PROBLEMS, MOST_SHOWN = 200, 10
"""Checking ends at so many problems, because the nearest names take time to find. An error shows so many."""


class TooManyProblems(SuiteError):
    """Checking ended early, because more problems than a user reads were found."""


class Problems:
    """Collects problems in order, each once, so that a user sees them together."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Problem, ...]] = {}
        """What the user reads of each error or problem, and the problems that it is made of."""
        self.about: set[str] = set()
        """What the problems are about: the place of each and, where its finder says so, the entry that is wrong."""

    @property
    def placed(self) -> list[Problem]:
        """All problems so far that have a place, in order."""
        return [problem for problems in self._found.values() for problem in problems]

    def __len__(self) -> int:
        return len(self._found)

    def add(self, place: str, message: str, entry: str = "") -> None:
        """Add a problem, as one line. Raises TooManyProblems with those so far, where they are MOST_PROBLEMS.

        Args:
            entry: a name for the entry that is wrong, where the place is no sure sign of it: two entries that share an
                alias have the same places.
        """
        self.about.add(entry or place)
        problem = Problem(place, message)
        self._add(str(problem), [problem])

    def _add(self, text: str, problems: Sequence[Problem]) -> None:
        self._found[text] = tuple(problems) or self._found.get(text, ())
        if len(self) >= MOST_PROBLEMS:
            raise self._error(TooManyProblems, "; the rest was not checked")

    def take(self, error: SuiteError) -> None:
        """Add an error that was raised. Its message already names its place."""
        if isinstance(error, TooManyProblems):
            raise error
        self._add(str(error), error.problems)

    def raise_any(self) -> None:
        """Raise SuiteError with the first problems by file and place, one per line. Without problems, do nothing."""
        if self._found:
            raise self._error(SuiteError)

    def _error(self, kind: type[SuiteError], end: str = "") -> SuiteError:
        """Return an error with all problems, whose message has the first by file and place and says how many it leaves
        out."""
        files: dict[str, int] = {}
        ordered = sorted(self._found, key=lambda text: _sort_key(text, files))
        more = [f"... and {len(self) - MOST_SHOWN} more{end}"] if len(ordered) > MOST_SHOWN else []
        shown = ordered[:MOST_SHOWN] if more else ordered
        return kind("\n".join([*shown, *more])).with_problems(
            problem for text in ordered for problem in self._found[text]
        )


def _sort_key(line: str, files: dict[str, int]) -> tuple[int, int, int]:
    """Return the sort key of a problem: its file in order of first appearance, then line and column."""
    matched = re.match(r"(.+?):(\d+):(\d+): ", line)
    file, row, column = matched.groups() if matched else (line.partition(":")[0], "0", "0")
    return files.setdefault(file, len(files)), int(row), int(column)


@dataclass(frozen=True)
class PositionedData:
    """Plain data with places (`file:line:column`). A place that is missing is that of the nearest value around it."""

    data: Any
    place: str = ""
    """Where the value stands."""
    key: str = ""
    """Where the key stands that leads to it."""
    parts: Mapping[str | int, PositionedData] = field(default_factory=dict)
    """What lies inside and has places of its own, by key or position."""

    def at(self, where: DataPath = ()) -> str:
        """Return the place of the value at `where`, or of the nearest value around it."""
        here, place = self, self.place
        for step in where:
            if step not in here.parts:
                break
            here = here.parts[step]
            place = here.place or place
        return place

    def key_at(self, where: DataPath) -> str:
        """Return the place of the key that leads to `where`, or of the nearest value around it."""
        here: PositionedData | None = self
        for step in where:
            here = here.parts.get(step) if here is not None else None
        return (here.key if here is not None and where else "") or self.at(where)

    def sub(self, *where: str | int) -> PositionedData:
        """Return the part at `where`, which must exist, with its places."""
        part = self
        for step in where:
            below = part._part(step)
            part = below if below.place else replace(below, place=part.place)
        return part

    def _part(self, step: str | int) -> PositionedData:
        return self.parts.get(step) or PositionedData(self.data[step])

    def walk(self) -> Iterator[tuple[DataPath, PositionedData]]:
        """Yield all values that have places, this one first, each with the way to it."""
        yield (), self
        for step, part in self.parts.items():
            yield from (((step, *where), inner) for where, inner in part.walk())

    def only(self, keys: Collection[str]) -> PositionedData:
        """Return this mapping with only `keys`, in the order of the mapping."""
        kept = {key: value for key, value in self.data.items() if key in keys}
        return replace(self, data=kept, parts={key: part for key, part in self.parts.items() if key in kept})

    def put(self, where: DataPath, other: PositionedData, key: str = "") -> PositionedData:
        """Return a copy with `other` at `where`. Missing mappings on the way are created."""
        if not where:
            return other
        first, before = where[0], self.parts.get(where[0])
        inner = self.sub(first) if first in self.data else PositionedData({}, other.place)
        inner = inner.put(where[1:], other, key)
        # A key keeps its first place: an error about the key names the suite's line, one about the value the profile's.
        part = replace(inner, key=(before.key if before is not None else "") or key or other.place)
        return replace(self, data={**self.data, first: part.data}, parts={**self.parts, first: part})

    def mapped(self, change: Callable[[DataPath, str, bool], str], above: DataPath = ()) -> PositionedData:
        """Return a copy in which each text and each key is what `change` makes of it.

        `change` gets the way to it in these data, the text, and whether it is a key. `above` is the way to these data.
        """
        if isinstance(self.data, str):
            return replace(self, data=change(above, self.data, False))
        if isinstance(self.data, list):
            mapped_entries = [self._part(i).mapped(change, (*above, i)) for i in range(len(self.data))]
            return replace(as_list(mapped_entries, self.place), key=self.key)
        if not isinstance(self.data, dict):
            return self
        parts: dict[str | int, PositionedData] = {
            change((*above, key), key, True): self._part(key).mapped(change, (*above, key)) for key in self.data
        }
        return replace(self, data={key: part.data for key, part in parts.items()}, parts=parts)


def as_list(entries: Sequence[PositionedData], place: str) -> PositionedData:
    """Return entries as one list that stands at `place`."""
    return PositionedData([entry.data for entry in entries], place, parts=dict(enumerate(entries)))


def read_yaml(path: Path, problems: Problems) -> PositionedData:
    """Read a YAML file, whose content must be a mapping.

    Raises SuiteError where it cannot be read or parsed, or is empty. Adds duplicate keys and the like to `problems`.
    """
    name = shown_path(path)
    with failing_in(f"{name}:1:1", SuiteError), named.open_file(path, None, packed=False) as file:
        content = file.read(MOST_BYTES + 1)  # no more: a wrong path may be a file of any size
        if len(content) > MOST_BYTES:
            too_large = f"the file is larger than {MOST_BYTES // 1000} KB, the limit of YAML files"
            raise SuiteError.at(f"{name}:1:1", too_large)
        text = content.decode("utf-8-sig")
    located = parse_yaml(text, name, problems)
    if not isinstance(located.data, dict):
        raise SuiteError.at(located.at(), f"expected `key: value` lines at the top, found {describe(located.data)}")
    return located


def parse_yaml(text: str, name: str, problems: Problems, *, fixed_place: bool = False) -> PositionedData:
    """Parse one YAML document. Every place starts with `name`; with `fixed_place`, every place is just `name`.

    Raises SuiteError where the text is not YAML. Adds lesser errors to `problems`.
    """
    try:
        node = _parse_nodes(text)
        if node is None:
            return PositionedData(None, name if fixed_place else f"{name}:1:1")
        return _DataBuilder(name, fixed_place, problems).value(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = name if fixed_place or mark is None else f"{name}:{mark.line + 1}:{mark.column + 1}"
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        begun = error.context_mark
        apart = begun is not None and mark is not None and begun.line != mark.line
        since = f" (it begins at {begun.line + 1}:{begun.column + 1})" if begun is not None and apart else ""
        raise SuiteError.at(place, f"not valid YAML: {reason}{since}{_remedy(reason)}") from error
    except (yaml.reader.ReaderError, RecursionError) as error:  # a control character, or thousands of brackets
        place = name if fixed_place else f"{name}:1:1"
        raise SuiteError.at(place, f"not valid YAML: {error_message(error)}") from error


def _remedy(reason: str) -> str:
    """Return what to do about the two commonest errors in YAML; an empty text for others."""
    if r"'\t'" in reason:
        return ". Indent with spaces, not with tabs"
    if "expected <block end>" in reason:
        return ". The line is indented unlike its neighbours, or a quotation mark or bracket is not closed before it"
    return ""


def shown_path(path: Path) -> str:
    """Write a path as messages show it: relative where it lies below the current folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def describe(value: object) -> str:
    """Describe a value in a few words, for messages."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f'"{text}"' if isinstance(value, str) else text


class _Yaml12Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with the implicit types of YAML 1.2 in place of those of YAML 1.1."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (the name is PyYAML's)


_INT = r"[-+]?[0-9]+"
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", _INT, list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
):
    _Yaml12Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)


@lru_cache(maxsize=512)
def _parse_nodes(text: str) -> yaml.Node | None:
    """Parse a text into PyYAML's nodes, which nobody changes. Planning reads rbench's own files again and again."""
    loader = _Yaml12Loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    finally:
        loader.dispose()


class _DataBuilder:
    """Turns YAML's node tree into data with places."""

    def __init__(self, name: str, fixed_place: bool, problems: Problems) -> None:
        self.name, self.fixed_place, self.problems = name, fixed_place, problems
        self.count = 0

    def _place(self, node: yaml.Node) -> str:
        mark = node.start_mark
        return self.name if self.fixed_place else f"{self.name}:{mark.line + 1}:{mark.column + 1}"

    def value(self, node: yaml.Node, inside: tuple[int, ...] = ()) -> PositionedData:
        place = self._place(node)
        self.count += 1
        if self.count > MOST_VALUES:
            raise SuiteError.at(place, f"more than {MOST_VALUES} values in one file")
        if len(inside) >= MOST_DEPTH and not isinstance(node, yaml.ScalarNode):
            raise SuiteError.at(place, f"more than {MOST_DEPTH} lists and mappings inside each other")
        inside = (*inside, id(node))
        if isinstance(node, yaml.ScalarNode):
            return PositionedData(self._scalar(node, place), place)
        kind = "map" if isinstance(node, yaml.MappingNode) else "seq"
        if node.tag != f"tag:yaml.org,2002:{kind}":
            self.problems.add(place, f"the tag {node.tag} is not allowed; remove it")
        if isinstance(node, yaml.MappingNode):
            entries = self._mapping(node, inside)
            return PositionedData({key: part.data for key, part in entries.items()}, place, parts=entries)
        return as_list([self.value(item, inside) for item in node.value], place)

    def _mapping(self, node: yaml.MappingNode, inside: tuple[int, ...]) -> dict[str | int, PositionedData]:
        entries: dict[str | int, PositionedData] = {}
        for key_node, value_node in node.value:
            place = self._place(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.add(place, "a key must be plain text, not a list or a mapping")
                continue
            key = self._text(key_node, place)  # as written: `0:` and `no:` are the texts "0" and "no"
            if key in entries:
                first = entries[key].key.removeprefix(self.name + ":")
                self.problems.add(place, f"duplicate key `{key}`; it stands already at {first}")
                continue
            entries[key] = replace(self.value(value_node, inside), key=place)
        return entries

    def _text(self, node: yaml.ScalarNode, place: str) -> str:
        """Return a scalar's text. Two surrogate escapes for one character, as JSON writes them, are joined."""
        text: str = node.value
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.problems.add(place, "half a character (a lone surrogate), which is not valid Unicode")
            return ""

    def _scalar(self, node: yaml.ScalarNode, place: str) -> Any:
        text, kind = self._text(node, place), node.tag.removeprefix("tag:yaml.org,2002:")
        if kind == "null":
            return None
        if kind == "str":
            return text
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind == "int" and re.fullmatch(_INT, text):
            if len(text) <= 20 and abs(int(text)) < 2**63:
                return int(text)
            self.problems.add(place, f"{describe(text)} is too large a number; quote it if it is a name")
        elif kind == "float" and re.fullmatch(_FLOAT, text):
            number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
            if math.isfinite(number):
                return number
            self.problems.add(place, f"{describe(text)} is not a finite number; quote it if it is a name")
        else:
            self.problems.add(place, f"the tag {node.tag} is not allowed; remove it")
        return text
