"""Checks plain data against a pydantic model, and says what is wrong in plain words, each time with its place."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from rbench.config.positions import DataPath, PositionedData, Problems, describe
from rbench.config.references import check_references
from rbench.config.registry import unknown_message
from rbench.schema import Named

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], located: PositionedData, problems: Problems) -> Model | None:
    """Return the model made from `located`, or None where something is wrong and was added to `problems`."""
    before = len(problems)
    # Before pydantic, which reads `true` as 1 and so would never report it.
    _refuse_booleans(model, located, problems)
    if issubclass(model, Named) and isinstance(located.data, Mapping):
        check_references(located, problems)
    try:
        validated = model.model_validate(located.data)
    except ValidationError as error:
        _explain(model, located, error.errors(include_url=False), problems)
        return None
    return validated if len(problems) == before else None


def _fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return a model's fields by the keys that data has for them: the alias of a field, or else its name."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _explain(model: type[BaseModel], located: PositionedData, errors: list[ErrorDetails], problems: Problems) -> None:
    by_place: dict[DataPath, list[ErrorDetails]] = {}
    for error in errors:
        by_place.setdefault(_path_in_data(located.data, error["loc"]), []).append(error)
    around = {where[:n] for where in by_place for n in range(len(where))}
    for where, group in by_place.items():
        # Where one branch of a union has an error in a part, the other branches have one in the whole: keep the part's.
        if where in around:
            group = [e for e in group if e["type"] in ("missing", "extra_forbidden", "value_error")]
        for place, message in _messages_of(model, located, where, group):
            problems.add(place, message)


def _messages_of(
    model: type[BaseModel], located: PositionedData, where: DataPath, group: list[ErrorDetails]
) -> list[tuple[str, str]]:
    """Return place and message of all errors at one place. Alternatives of a union become one sentence."""
    messages: list[tuple[str, str]] = []
    expected: list[str] = []
    for error in group:
        last = str(error["loc"][-1]) if error["loc"] else ""
        if error["type"] == "missing":
            messages.append((located.at(where), f"{_format_path((*where, last))} is missing"))
        elif error["type"] == "extra_forbidden":
            around = [kind for kind in _types_at(model, where[:-1]) if _is_model(kind)]
            valid = {key for kind in around for key in _fields_by_key(kind) if key not in getattr(kind, "FOUND", ())}
            messages.append((located.key_at(where), unknown_message("key", last, valid)))
        elif error["type"] == "value_error":
            messages.append((located.at(where), str(error["msg"]).removeprefix("Value error, ")))
        elif error["type"] != "too_short" or not error["input"]:  # else some entries are wrong, which has its own error
            expected.append(_describe_expected(error))
    if expected:
        value, name = group[0]["input"], f"{_format_path(where)}: " if where else ""
        quoted = any(e["type"] == "string_type" for e in group) and isinstance(value, int | float)
        found_value = f"found {describe(value)}{'; put it in quotes' if quoted else ''}"
        messages.append((located.at(where), f"{name}expected {' or '.join(dict.fromkeys(expected))}, {found_value}"))
    return messages


_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "mapping": "a mapping",
}


def _describe_expected(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    limits = {
        "greater_than_equal": "a number of at least {ge}",
        "greater_than": "a number above {gt}",
        "less_than_equal": "a number of at most {le}",
        "less_than": "a number below {lt}",
        "too_short": "at least {min_length} of them",
        "too_long": "at most {max_length} of them",
        "string_pattern_mismatch": "text that matches {pattern}",
        "literal_error": "{expected}",
        "int_from_float": "a whole number",
    }
    if kind in limits:
        return limits[kind].format(**context).replace("'", '"')
    return _EXPECTED.get(kind.split("_")[0], str(error["msg"]).removeprefix("Input should be "))


def _path_in_data(data: Any, loc: tuple[int | str, ...]) -> DataPath:
    """Return pydantic's `loc` without the steps that are not in the data: names of union branches and missing keys."""
    steps: list[int | str] = []
    for step in loc:
        if isinstance(data, Mapping):
            inside = step in data
        else:
            inside = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if inside:
            data = data[step]
            steps.append(step)
    return tuple(steps)


def _format_path(where: DataPath) -> str:
    """Write a path as messages show it, in backticks: `attacks[2].max_words`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where)
    return f"`{text.removeprefix('.')}`"


def _refuse_booleans(model: type[BaseModel], located: PositionedData, problems: Problems) -> None:
    """Add a problem for each true or false that stands in place of a number: pydantic would read `true` as 1."""
    for where, part in located.walk():
        if not part.place or not isinstance(part.data, bool):
            continue
        kinds = _types_at(model, where)
        numbers = [kind for kind in kinds if kind in (int, float)]
        if numbers and bool not in kinds:
            what = "a whole number" if int in numbers else "a number"
            problems.add(part.place, f"{_format_path(where)}: expected {what}, found {describe(part.data)}")


def _types_at(kind: Any, where: DataPath) -> list[Any]:
    """Return the plain types that a model allows at `where`, with unions, Annotated and containers taken apart."""
    kinds = _flatten_types(kind)
    for step in where:
        inner: list[Any] = []
        for plain_type in kinds:
            if _is_model(plain_type):
                field = _fields_by_key(plain_type).get(str(step))
                inner += _flatten_types(field.annotation) if field is not None else []
            elif get_origin(plain_type) is dict:
                inner += _flatten_types(get_args(plain_type)[1])
            elif get_origin(plain_type) in (list, tuple, frozenset, set):
                inner += _flatten_types(get_args(plain_type)[0])
        kinds = inner
    return kinds


def _flatten_types(kind: Any) -> list[Any]:
    if get_origin(kind) is Annotated:
        return _flatten_types(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return [inner for part in get_args(kind) for inner in _flatten_types(part)]
    if get_origin(kind) is Literal:
        return [Literal]
    return [kind]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
