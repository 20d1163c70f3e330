"""The one reader of stored outcomes: their columns, each with its declared type, and lines that are checked for them.

A RUN may come from somebody else, who can give a changed file a new digest. So every verb reads outcomes through
`read_line`, and what it returns has the types of COLUMNS.

COLUMNS is the schema of a table with a row for each outcome: flat columns whose types have the names of Apache Arrow's,
so that the same schema can be written as Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic_core import CoreConfig, CoreSchema, SchemaValidator
from pydantic_core import core_schema as cs

from rbench.schema import Outcome
from rbench.schema.common import Status
from rbench.schema.results import SkipReason

ColumnType = Literal["string", "int64", "double", "bool", "list<string>", "list<struct>"]

REQUIRED: Any = ...
"""The default of a column that each line has."""


@dataclass(frozen=True)
class OutcomeColumn:
    """A column of outcomes. Its values may be missing (None) if `nullable`."""

    type: ColumnType
    nullable: bool = False
    default: Any = None
    """What lines have that are older than the column; REQUIRED: none are."""
    values: tuple[str, ...] = ()
    """All values that a text may have; empty: any."""
    low: float | None = None
    high: float | None = None
    """Ends of the range, both included; None: what the type can hold."""
    fields: Mapping[str, OutcomeColumn] | None = None
    """Of a list of objects, the fields of each."""


def _count_column(default: Any = 0, *, nullable: bool = False) -> OutcomeColumn:
    return OutcomeColumn("int64", nullable, None if nullable else default, low=0)


CHANGES = {
    "column": _count_column(REQUIRED),
    "start": _count_column(REQUIRED),
    "end": _count_column(REQUIRED),
    "new": OutcomeColumn("string", nullable=True, default=REQUIRED),
}
STEPS = {
    "score": OutcomeColumn("double", default=REQUIRED),
    "prediction": OutcomeColumn("int64", nullable=True),
    "changes": OutcomeColumn("list<struct>", default=(), fields=CHANGES),
}
# A new column needs a default, or lines of stored RUNs are refused. Packed RUNs must have all columns in this order
# (`parquet._check_schema`).
COLUMNS: Mapping[str, OutcomeColumn] = {
    "example_id": OutcomeColumn("string", default=REQUIRED),
    "status": OutcomeColumn("string", default=REQUIRED, values=get_args(Status)),
    "original": OutcomeColumn("list<string>", nullable=True, default=REQUIRED),
    "perturbed": OutcomeColumn("list<string>", nullable=True),
    "label": OutcomeColumn("int64", nullable=True),
    "original_prediction": OutcomeColumn("int64", nullable=True),
    "perturbed_prediction": OutcomeColumn("int64", nullable=True),
    "gold": OutcomeColumn("double", nullable=True),
    "original_score": OutcomeColumn("double", nullable=True),
    "perturbed_score": OutcomeColumn("double", nullable=True),
    "num_queries": _count_column(),
    "num_words": _count_column(),
    "num_words_changed": _count_column(),
    "perturbed_share": OutcomeColumn("double", nullable=True, low=0, high=1),
    "words_asked": _count_column(nullable=True),
    "words_without_candidate": _count_column(nullable=True),
    "robust_words": _count_column(nullable=True),
    "texts_left": _count_column(nullable=True),
    "similarity": OutcomeColumn("double", nullable=True),
    "oracle_label": OutcomeColumn("int64", nullable=True),
    "truncated": OutcomeColumn("bool", default=False),
    "seconds": OutcomeColumn("double", default=0.0),
    "error": OutcomeColumn("string", nullable=True),
    "skip_reason": OutcomeColumn("string", nullable=True, values=get_args(SkipReason)),
    "steps": OutcomeColumn("list<struct>", nullable=True, fields=STEPS),
}
"""The columns of outcomes, in the order of the fields of `Outcome`, which says what they mean."""


@dataclass(frozen=True, slots=True)
class TypedLine:
    """One line of outcomes.jsonl."""

    job: str
    """The key of its job."""
    check: str
    """Its checksum, which is not compared here."""
    outcome: dict[str, Any]
    """A value for each of COLUMNS. Lists of texts, steps and changes are lists."""

    @property
    def model(self) -> Outcome:
        """The outcome as its model."""
        return Outcome.model_validate(self.outcome)


def read_line(line: bytes) -> TypedLine:
    """Return a line of outcomes.jsonl with the types of COLUMNS. Raises ValueError where it is none."""
    return TypedLine(**_LINE_VALIDATOR.validate_json(line, strict=True))


_INT64 = 2**63


def _type_schema(column: OutcomeColumn) -> CoreSchema:
    if column.type == "string":
        return cs.literal_schema([*column.values]) if column.values else cs.str_schema()
    if column.type == "int64":
        low = -_INT64 if column.low is None else int(column.low)
        return cs.int_schema(ge=low, le=_INT64 - 1 if column.high is None else int(column.high))
    if column.type == "double":
        return cs.float_schema(ge=column.low, le=column.high, allow_inf_nan=False)
    if column.type == "bool":
        return cs.bool_schema()
    if column.type == "list<string>":
        return cs.list_schema(cs.str_schema())
    assert column.fields is not None
    return cs.list_schema(_object_schema(column.fields))


def _object_schema(columns: Mapping[str, OutcomeColumn]) -> CoreSchema:
    return cs.typed_dict_schema(
        {name: _field_schema(column) for name, column in columns.items()}, extra_behavior="forbid"
    )


def _field_schema(column: OutcomeColumn) -> cs.TypedDictField:
    schema = _type_schema(column)
    if column.nullable:
        schema = cs.nullable_schema(schema)
    if column.default is REQUIRED:
        return cs.typed_dict_field(schema)
    return cs.typed_dict_field(cs.with_default_schema(schema, default=column.default), required=False)


_LINE_VALIDATOR = SchemaValidator(
    cs.typed_dict_schema(
        {
            "job": cs.typed_dict_field(cs.str_schema()),
            "check": cs.typed_dict_field(cs.str_schema()),
            "outcome": cs.typed_dict_field(_object_schema(COLUMNS)),
        },
        extra_behavior="forbid",
    ),
    config=CoreConfig(cache_strings="keys"),
)
