"""Claims: what a suite expects of its results, in words that a reader can check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from rbench.schema.common import Checked, Positive

Axis = Literal["encoder", "task", "attack", "finetune"]
"""What tells the cells of a table apart."""


class Subject(Checked):
    """Which cells a claim speaks of. A text stands for `{encoder: TEXT}`.

    What is left out is not fixed: it is an axis of `for_each`, or is averaged.
    """

    encoder: str | None = None
    """A name or label of the suite."""
    objective: str | None = None
    """All encoders of the suite that were trained with this objective."""
    task: str | None = None
    attack: str | None = None
    finetune: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_sugar(cls, value: Any) -> Any:
        return {"encoder": value} if isinstance(value, str) else value

    def wrong(self) -> Iterator[str]:
        if not self.said:
            yield "names nothing: expected encoder, objective, task, attack or finetune"
        if self.encoder is not None and self.objective is not None:
            yield "names an encoder and an objective; one is enough"

    @property
    def said(self) -> dict[str, str]:
        """The names that it says, by their keys."""
        return {key: name for key, name in self if name is not None}

    def __str__(self) -> str:
        said = self.said
        return said["encoder"] if [*said] == ["encoder"] else ", ".join(f"{key} {name}" for key, name in said.items())


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]


class Claim(Checked):
    """A sentence on the values of a metric. Exactly one kind:

    - `lower: A, than: B` or `higher: A, than: B`; `than` may list several. With `by: 5`, by more than 5 points. With
      `times: 0.5`, lower (or higher) than half of it. With `beyond: {finetune: clean}`, by more than where these names
      stand in place of those that both sides have: the difference of two differences.
    - `of: A, at_most: 60` or `of: A, at_least: 10`, in the units of tables (percent for shares).
    - `ordering: [A, B, C]`, from the lowest value to the highest.
    - `rising: A, in: OPTION` or `falling: A, in: OPTION`: monotone in an option of A's objective, over the encoders of
      the suite that differ in this option alone. With `from` and `to`, over these values of it.

    `holds_in: 6` says in how many of the combinations of `for_each` the sentence holds at least ("the best in six of
    seven"); without it in each.

    The claim is judged once for each combination of the axes in `for_each`. Over other axes the values are averaged,
    each cell with the same weight, as the papers' own averages are.
    """

    # Stored plans have the keys of YAML files (`in`, `from`, `to`), so that they are read as these are.
    model_config = ConfigDict(serialize_by_alias=True)

    id: Name
    metric: str = "asr"
    lower: Subject | None = None
    higher: Subject | None = None
    than: tuple[Subject, ...] = ()
    by: float | None = None
    times: float | None = None
    beyond: Subject | None = None
    of: Subject | None = None
    at_most: float | None = None
    at_least: float | None = None
    ordering: tuple[Subject, ...] = ()
    rising: Subject | None = None
    falling: Subject | None = None
    option: Annotated[str | None, Field(alias="in")] = None
    start: Annotated[float | None, Field(alias="from")] = None
    end: Annotated[float | None, Field(alias="to")] = None
    for_each: tuple[Axis, ...] = ()
    holds_in: Positive | None = None
    where: dict[Axis, tuple[str, ...]] = {}
    """Only these tasks, attacks, encoders or strategies."""
    about: Literal["method", "weights"] = "method"
    """Whether it speaks of methods, which one training cannot show, or of the weights that the RUN has."""
    source: str = ""
    """Where the sentence stands, for example `RobustSentEmbed, Table 1`."""
    note: str = ""

    @model_validator(mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        value = dict(value)
        for name in ("than", "for_each"):
            if isinstance(value.get(name), str | Mapping):
                value[name] = [value[name]]
        if isinstance(where := value.get("where"), Mapping):
            value["where"] = {axis: [one] if isinstance(one, str) else one for axis, one in where.items()}
        return value

    @property
    def kind(self) -> str:
        """Which of its fields says what kind of claim it is."""
        return self._kinds()[0]

    @property
    def subjects(self) -> tuple[tuple[tuple[str | int, ...], Subject], ...]:
        """All subjects, each with its place: `("lower",)`, `("than", 0)`."""
        names = ("lower", "higher", "beyond", "of", "rising", "falling")
        single = [((name,), getattr(self, name)) for name in names]
        several = [((name, i), one) for name in ("than", "ordering") for i, one in enumerate(getattr(self, name))]
        return (*((where, one) for where, one in single if one is not None), *several)

    def __str__(self) -> str:
        """The claim in words, without the axes in `for_each`."""
        more = f" {self.times:g} times" if self.times is not None else ""
        by = f" by more than {self.by:g}" if self.by is not None else ""
        by += f" beyond the difference with {self.beyond}" if self.beyond is not None else ""
        span = "".join(f" {w} {v:g}" for w, v in (("from", self.start), ("to", self.end)) if v is not None)
        bound = f"at most {self.at_most:g}" if self.at_most is not None else f"at least {self.at_least or 0:g}"
        than = " and ".join(map(str, self.than))
        only = [f"{axis} {', '.join(names)}" for axis, names in self.where.items()]
        return {
            "lower": f"{self.metric} of {self.lower} lower than{more} {than}{by}",
            "higher": f"{self.metric} of {self.higher} higher than{more} {than}{by}",
            "of": f"{self.metric} of {self.of} {bound}",
            "ordering": f"{self.metric} rises in the order {', '.join(map(str, self.ordering))}",
            "rising": f"{self.metric} of {self.rising} rises with {self.option}{span}",
            "falling": f"{self.metric} of {self.falling} falls with {self.option}{span}",
        }[self.kind] + (f" ({'; '.join(only)})" if only else "")

    def _kinds(self) -> list[str]:
        names = ("lower", "higher", "of", "ordering", "rising", "falling")
        return [name for name in names if getattr(self, name)]

    def wrong(self) -> Iterator[str]:
        kinds = self._kinds()
        if len(kinds) != 1:
            yield "expected one of lower, higher, of, ordering, rising and falling"
            return
        (kind,), compared, monotone = kinds, kinds[0] in ("lower", "higher"), kinds[0] in ("rising", "falling")
        allowed = {"than", "by", "times", "beyond"} if compared else {"at_most", "at_least"} if kind == "of" else set()
        shown = {"option": "in", "start": "from", "end": "to"}
        others = {"than", "by", "times", "beyond", "at_most", "at_least", *shown} - ({*shown} if monotone else allowed)
        there = {name for name in others if getattr(self, name) not in (None, ())}
        if wrong := sorted(shown.get(name, name) for name in there):
            yield f"{', '.join(wrong)} cannot stand beside {kind}"
        if compared and not self.than:
            yield f"{kind} needs `than`"
        if self.holds_in is not None and not self.for_each:
            yield "holds_in counts the combinations of `for_each`, which is not there"
        if self.by is not None and self.times is not None:
            yield "by and times cannot stand together"
        if self.beyond is not None and self.times is not None:
            yield "beyond and times cannot stand together"
        if compared and self.beyond is not None:
            first = self.lower or self.higher
            for key in self.beyond.said:
                if any(key not in side.said for side in (first, *self.than) if side is not None):
                    yield f"beyond names a {key}, which {kind} and than must name, too: their own"
        if kind == "of" and (self.at_most is None) == (self.at_least is None):
            yield "of needs one of at_most and at_least"
        if kind == "ordering" and len(self.ordering) < 2:
            yield "ordering needs at least two"
        if monotone and self.option is None:
            yield f"{kind} needs `in`, the option"
