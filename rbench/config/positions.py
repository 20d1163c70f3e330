"""Parses YAML and keeps the place of every key and value, so that any later error can name file, line and column.

The result is plain data: mappings with text keys, lists, text, numbers, true, false and null. Scalars follow YAML 1.2:
`no` is text, `2e-5` is a number, a date is text. Tags, and numbers that JSON cannot hold, are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml

from rbench.errors import SuiteError

Where = tuple[str | int, ...]
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
        self._found: dict[str, None] = {}

    @property
    def lines(self) -> list[str]:
        """All problems so far, in order."""
        return [*self._found]

    def __len__(self) -> int:
        return len(self._found)

    def add(self, place: str, message: str) -> None:
        """Add a problem, as one line. Raises TooManyProblems with those so far, where they are MOST_PROBLEMS."""
        self._add(f"{place}: {message}".replace("\n", "\\n"))

    def _add(self, problem: str) -> None:
        self._found[problem] = None
        if len(self) >= MOST_PROBLEMS:
            raise TooManyProblems(self._text(f"... and {len(self) - MOST_SHOWN} more; the rest was not checked"))

    def take(self, error: SuiteError) -> None:
        """Add an error that was raised. Its message already names its place."""
        if isinstance(error, TooManyProblems):
            raise error
        self._add(str(error))

    def raise_any(self) -> None:
        """Raise SuiteError with the first problems by file and place, one per line. Without problems, do nothing."""
        if self._found:
            raise SuiteError(self._text(f"... and {len(self) - MOST_SHOWN} more"))

    def _text(self, more: str) -> str:
        """Return the first problems by file and place, and `more` where others are left out."""
        files: dict[str, int] = {}
        found = sorted(self._found, key=lambda line: _order(line, files))
        return "\n".join(found if len(found) <= MOST_SHOWN else [*found[:MOST_SHOWN], more])


def _order(line: str, files: dict[str, int]) -> tuple[int, int, int]:
    """Return the sort key of a problem: its file in order of first appearance, then line and column."""
    found = re.match(r"(.+?):(\d+):(\d+): ", line)
    file, row, column = found.groups() if found else (line.partition(":")[0], "0", "0")
    return files.setdefault(file, len(files)), int(row), int(column)


@dataclass(frozen=True)
class Positioned:
    """Plain data, the place (`file:line:column`) of its values, and the place of its keys."""

    data: Any
    values: dict[Where, str] = field(default_factory=dict)
    keys: dict[Where, str] = field(default_factory=dict)

    def at(self, where: Where = ()) -> str:
        """Return the place of the value at `where`, or of the nearest value around it."""
        while where and where not in self.values:
            where = where[:-1]
        return self.values.get(where, "")

    def key_at(self, where: Where) -> str:
        """Return the place of the key that leads to `where`, or of the nearest value around it."""
        return self.keys.get(where) or self.at(where)

    def sub(self, *where: str | int) -> Positioned:
        """Return the part at `where`, which must exist, with its places."""
        part = self
        for step in where:
            part = part._parts.get(step) or Positioned(part.data[step], {(): part.at((step,))})
        return part

    @cached_property
    def _parts(self) -> dict[str | int, Positioned]:
        """The parts that have places, by key or position. All are made at once, so reading each takes linear time."""
        values: dict[str | int, dict[Where, str]] = {}
        keys: dict[str | int, dict[Where, str]] = {}
        for where, place in self.values.items():
            if where:
                values.setdefault(where[0], {(): self.at(where[:1])})[where[1:]] = place
        for where, place in self.keys.items():
            if len(where) > 1:
                keys.setdefault(where[0], {})[where[1:]] = place
        steps = {**values, **keys}
        return {
            step: Positioned(self.data[step], values.get(step, {(): self.at((step,))}), keys.get(step, {}))
            for step in steps
        }

    def only(self, keys: Collection[str]) -> Positioned:
        """Return this mapping with only `keys`, in the order of the mapping."""
        data = {key: value for key, value in self.data.items() if key in keys}
        values = {w: place for w, place in self.values.items() if not w or w[0] in data}
        return Positioned(data, values, {w: place for w, place in self.keys.items() if w[0] in data})

    def put(self, where: Where, other: Positioned, key: str = "") -> Positioned:
        """Return a copy with `other` at `where`. Missing mappings on the way are created."""
        if not where:
            return other
        first, rest = where[0], where[1:]
        inner = self.sub(first) if first in self.data else Positioned({}, {(): other.at()})
        inner = inner.put(rest, other, key)
        values = {w: place for w, place in self.values.items() if w[:1] != (first,)}
        keys = {w: place for w, place in self.keys.items() if w[:1] != (first,)}
        values |= {(first, *w): place for w, place in inner.values.items()}
        keys |= {(first, *w): place for w, place in inner.keys.items()}
        keys[(first,)] = self.keys.get((first,)) or key or other.at()
        return Positioned({**self.data, first: inner.data}, values, keys)

    def mapped(self, change: Callable[[Where, str, bool], str]) -> Positioned:
        """Return a copy in which each text and each key is what `change` makes of it.

        `change` gets the way to it in these data, the text, and whether it is a key.
        """
        values: dict[Where, str] = {}
        keys: dict[Where, str] = {}

        def visit(data: Any, old: Where, new: Where) -> Any:
            if old in self.values:
                values[new] = self.values[old]
            if isinstance(data, list):
                return [visit(item, (*old, i), (*new, i)) for i, item in enumerate(data)]
            if not isinstance(data, dict):
                return change(old, data, False) if isinstance(data, str) else data
            made = {}
            for key, inner in data.items():
                there = (*old, key)
                renamed = change(there, key, True)
                if there in self.keys:
                    keys[*new, renamed] = self.keys[there]
                made[renamed] = visit(inner, there, (*new, renamed))
            return made

        return Positioned(visit(self.data, (), ()), values, keys)


def read(path: Path, problems: Problems) -> Positioned:
    """Read a YAML file, whose content must be a mapping.

    Raises SuiteError where it cannot be read or parsed, or is empty. Adds duplicate keys and the like to `problems`.
    """
    name = shown(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)  # not all of it: it may be any file
        if len(content) > MOST_BYTES:
            raise SuiteError(f"{name}:1:1: the file is larger than {MOST_BYTES // 1000} KB, the limit of YAML files")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SuiteError(f"{name}:1:1: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise SuiteError(f"{name}: cannot be read: {error.strerror or error}") from error
    located = parse(text, name, problems)
    if located.data is None:
        raise SuiteError(f"{name}:1:1: the file is empty; expected `key: value` lines")
    if not isinstance(located.data, dict):
        raise SuiteError(f"{located.at()}: expected `key: value` lines at the top, found {describe(located.data)}")
    return located


def parse(text: str, name: str, problems: Problems, *, fixed_place: bool = False) -> Positioned:
    """Parse one YAML document. Every place starts with `name`; with `fixed_place`, every place is just `name`.

    Raises SuiteError where the text is not YAML. Adds lesser errors to `problems`.
    """
    try:
        node = _nodes(text)
        builder = _Builder(name, fixed_place, problems)
        place = name if fixed_place else f"{name}:1:1"
        return Positioned(None, {(): place}) if node is None else builder.build(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = name if fixed_place or mark is None else f"{name}:{mark.line + 1}:{mark.column + 1}"
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        begun = error.context_mark
        apart = begun is not None and mark is not None and begun.line != mark.line
        since = f" (it begins at {begun.line + 1}:{begun.column + 1})" if begun is not None and apart else ""
        raise SuiteError(f"{place}: not valid YAML: {reason}{since}{_remedy(reason)}") from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        column = error.position - (before.rfind("\n") + 1) + 1
        place = name if fixed_place else f"{name}:{before.count(chr(10)) + 1}:{column}"
        raise SuiteError(
            f"{place}: not valid YAML: the character {chr(int(error.character))!a} is not allowed"
        ) from error
    except RecursionError as error:
        raise SuiteError(f"{name}: nested too deeply") from error


def _remedy(reason: str) -> str:
    """Return what to do about the two commonest errors in YAML; an empty text for others."""
    if r"'\t'" in reason:
        return ". Indent with spaces, not with tabs"
    if "expected <block end>" in reason:
        return ". The line is indented unlike its neighbours, or a quotation mark or bracket is not closed before it"
    return ""


def shown(path: Path) -> str:
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


class _Loader(yaml.SafeLoader):
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
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)


@lru_cache(maxsize=512)
def _nodes(text: str) -> yaml.Node | None:
    """Parse a text into PyYAML's nodes, which nobody changes. Planning reads rbench's own files again and again."""
    loader = _Loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    finally:
        loader.dispose()


class _Builder:
    """Turns YAML's node tree into data and places."""

    def __init__(self, name: str, fixed_place: bool, problems: Problems) -> None:
        self.name, self.fixed_place, self.problems = name, fixed_place, problems
        self.values: dict[Where, str] = {}
        self.keys: dict[Where, str] = {}

    def build(self, node: yaml.Node) -> Positioned:
        return Positioned(self._value(node, (), ()), self.values, self.keys)

    def _place(self, node: yaml.Node) -> str:
        mark = node.start_mark
        return self.name if self.fixed_place else f"{self.name}:{mark.line + 1}:{mark.column + 1}"

    def _value(self, node: yaml.Node, where: Where, inside: tuple[int, ...]) -> Any:
        place = self.values[where] = self._place(node)
        if len(self.values) > MOST_VALUES:
            raise SuiteError(f"{place}: more than {MOST_VALUES} values in one file")
        if len(where) >= MOST_DEPTH and not isinstance(node, yaml.ScalarNode):
            raise SuiteError(f"{place}: more than {MOST_DEPTH} lists and mappings inside each other")
        if id(node) in inside:
            raise SuiteError(f"{place}: an alias that contains itself")
        inside = (*inside, id(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, place)
        kind = "map" if isinstance(node, yaml.MappingNode) else "seq"
        if node.tag != f"tag:yaml.org,2002:{kind}":
            self.problems.add(place, f"the tag {node.tag} is not allowed; remove it")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, where, inside)
        return [self._value(item, (*where, i), inside) for i, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, where: Where, inside: tuple[int, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self._place(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.add(place, "a key must be plain text, not a list or a mapping")
                continue
            key = self._text(key_node, place)  # as written: `0:` and `no:` are the texts "0" and "no"
            if key in data:
                first = self.keys[(*where, key)]
                self.problems.add(
                    place, f"duplicate key `{key}`; it stands already at {first.removeprefix(self.name + ':')}"
                )
                continue
            self.keys[(*where, key)] = place
            data[key] = self._value(value_node, (*where, key), inside)
        return data

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
