"""Claims: what a suite expects of its results, in words that a reader can check.

`list_comparisons` says which cells a claim compares. Both the check of a suite and the verdicts on a RUN ask it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import ConfigDict, Field, model_validator

from rbench.schema.common import Checked, Positive
from rbench.schema.entries import TaskSpec

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
        names = self.said
        return (
            names["encoder"] if [*names] == ["encoder"] else ", ".join(f"{key} {name}" for key, name in names.items())
        )


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]


class Claim(Checked):
    """A sentence on the values of a metric. Exactly one kind:

    - `lower: A, than: B` or `higher: A, than: B`; `than` may list several. With `by: 5`, by more than 5 points; with
      `by: -5`, or else less than 5 points on the other side of it. With `times: 0.5`, lower (or higher) than half of
      it. With `beyond: {finetune: clean}`, by more than where these names stand in place of those that both sides have:
      the difference of two differences.
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
        several = [
            ((name, i), subject) for name in ("than", "ordering") for i, subject in enumerate(getattr(self, name))
        ]
        return (*((where, subject) for where, subject in single if subject is not None), *several)

    def __str__(self) -> str:
        """The claim in words, without the axes in `for_each`."""
        more = f" {self.times:g} times" if self.times is not None else ""
        by = f" by more than {self.by:g}" if self.by is not None else ""
        if self.by is not None and self.by < 0:  # a bound of what may be lost
            by = f", or {'lower' if self.kind == 'higher' else 'higher'} by less than {-self.by:g}"
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
        misplaced = {name for name in others if getattr(self, name) not in (None, ())}
        if wrong := sorted(shown.get(name, name) for name in misplaced):
            yield f"{', '.join(wrong)} cannot stand beside {kind}"
        if compared and not self.than:
            yield f"{kind} needs `than`"
        if self.holds_in is not None and not self.for_each:
            yield "holds_in counts the combinations of `for_each`, which is not there"
        if self.by is not None and self.times is not None:
            yield "by and times cannot stand together"
        if self.times is not None and self.times <= 0:
            yield "times is a factor above 0"
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


AXES: tuple[Axis, ...] = get_args(Axis)


class CellOf(NamedTuple):
    """Names a cell of a table. An axis that the table does not have is None."""

    encoder: str
    task: str | None = None
    attack: str | None = None
    finetune: str | None = None

    def __str__(self) -> str:
        return "/".join(name for name in self if name is not None)


def test_parts(task: TaskSpec | None) -> list[str]:
    """Return the parts of a task's test split, such as the rounds of ANLI; none for a task of one source."""
    return list(dict.fromkeys(part.name for part in task.parts if part.split == "test")) if task else []


class EncoderTraining(NamedTuple):
    """How an encoder was trained."""

    objective: str
    options: Mapping[str, Any]
    """All options of its objective and of its training, defaults included."""


@dataclass(frozen=True)
class ClaimScope:
    """What the claims of a suite or a RUN may speak of."""

    cells: Mapping[str, tuple[CellOf, ...]]
    """The cells that have a number of each metric; a metric that the suite does not produce has no entry."""
    trained: Mapping[str, EncoderTraining] = field(default_factory=dict)
    """By encoder; encoders that rbench does not train are not in it."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Names of all metrics that there are, each with what a suite needs to have it."""
    measured: Mapping[str, str] = field(default_factory=dict)
    """Names of all numbers of measures that there are, each with its measure."""
    objectives: tuple[str, ...] = ()
    """Names of all objectives that there are."""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The least and the largest value of metrics that have both, in the units of tables."""

    @property
    def known(self) -> frozenset[str]:
        """All that a claim may have as its metric, whether or not the suite has it."""
        return frozenset((*self.metrics, *self.measured))

    def knows(self, metric: str) -> bool:
        """Return whether a claim may have this metric: one of `known`, or a number of a measure with a label."""
        return metric in self.metrics or metric in self.measured or metric.partition(".")[0] in self.measured

    def names(self, axis: Axis, metric: str) -> tuple[str, ...]:
        """Return the names on an axis among the cells of a metric, in their order."""
        all_names = (getattr(cell, axis) for cell in self.cells.get(metric, ()))
        return tuple(dict.fromkeys(name for name in all_names if name is not None))

    def named(self, axis: Axis, name: str, metric: str) -> str | None:
        """Return the label that a name means: the same label, or the only one that is the name with options."""
        known_labels = self.names(axis, metric)
        if name in known_labels:
            return name
        labels = [label for label in known_labels if _without_options(label) == name]
        return labels[0] if len(labels) == 1 else None

    def with_objective(self, objective: str, metric: str) -> tuple[str, ...]:
        """Return the encoders that were trained with an objective and have cells of a metric."""
        encoder_names = self.names("encoder", metric)
        return tuple(
            name for name in encoder_names if name in self.trained and self.trained[name].objective == objective
        )


Side = Mapping[Axis, str]
"""The names that one side of a comparison fixes, by axis."""


class CellGroup(NamedTuple):
    """Cells of both sides that have the same names on the axes over which is averaged."""

    one: tuple[CellOf, ...]
    other: tuple[CellOf, ...] = ()


class ClaimComparison(NamedTuple):
    """One sentence to judge: that `one` is lower (or higher) than `other`, or than a number."""

    combination: tuple[tuple[Axis, str], ...]
    """The names on the axes of `for_each`."""
    one: str
    other: str
    """What it is compared with; empty for a number."""
    direction: Literal["lower", "higher"]
    groups: tuple[CellGroup, ...]
    left_out: int = 0
    """Cells of either side that have no partner on the other."""
    beyond: tuple[CellGroup, ...] = ()
    """The groups whose difference is taken off that of `groups`."""

    @property
    def cells(self) -> tuple[CellOf, ...]:
        """All of its cells, each once."""
        return tuple(dict.fromkeys(cell for group in (*self.groups, *self.beyond) for side in group for cell in side))


def list_comparisons(claim: Claim, scope: ClaimScope) -> list[ClaimComparison]:
    """Return all that a claim says, one comparison each: none where nothing matches.

    Names that the ground does not have match nothing.
    """
    cells = [cell for cell in scope.cells.get(claim.metric, ()) if _is_meant(cell, claim, scope)]
    combinations = list(dict.fromkeys(tuple(getattr(cell, axis) for axis in claim.for_each) for cell in cells))
    results: list[ClaimComparison] = []
    for first_side, second_side, direction in _list_sides(claim, scope):
        for names in combinations if first_side != second_side else ():
            combination = tuple(zip(claim.for_each, names, strict=True))
            here = [cell for cell in cells if _fits(cell, dict(combination))]
            groups, left = _group_cells(here, first_side, second_side)
            first, second = (_name_side(side, claim, scope) for side in (first_side, second_side))
            if groups and claim.beyond is not None and second_side is not None:
                results += _compare_differences(
                    ClaimComparison(combination, first, second, direction, groups, left), claim, scope, here
                )
            elif groups:
                results.append(ClaimComparison(combination, first, second, direction, groups, left))
    return results


def _compare_differences(
    given: ClaimComparison, claim: Claim, scope: ClaimScope, here: Sequence[CellOf]
) -> Iterator[ClaimComparison]:
    """Yield a comparison with the groups whose difference is taken off; nothing where there are none.

    These are the same cells but for the names of `claim.beyond`.
    """
    assert claim.beyond is not None
    for names in expand_subject(claim.beyond, claim.metric, scope):
        known_cells, other_names = set(here), {str(axis): name for axis, name in names.items()}
        one, other = f"{given.one} less {given.other}", f"the same with {claim.beyond}"
        groups = (
            CellGroup(*(tuple(cell._replace(**other_names) for cell in side) for side in group))
            for group in given.groups
        )
        comparison = given._replace(one=one, other=other, beyond=tuple(groups))
        if known_cells.issuperset(comparison.cells):
            yield comparison


def _is_meant(cell: CellOf, claim: Claim, scope: ClaimScope) -> bool:
    wanted = {axis: {scope.named(axis, name, claim.metric) for name in names} for axis, names in claim.where.items()}
    return all(getattr(cell, axis) in names - {None} for axis, names in wanted.items())


def _list_sides(claim: Claim, scope: ClaimScope) -> Iterator[tuple[Side, Side | None, Literal["lower", "higher"]]]:
    """Yield both sides of each comparison, objectives taken apart into encoders."""

    def each(subject: Subject) -> list[Side]:
        return expand_subject(subject, claim.metric, scope)

    if claim.kind == "of":
        assert claim.of is not None
        for side in each(claim.of):
            yield side, None, "lower" if claim.at_most is not None else "higher"
    elif claim.kind in ("lower", "higher"):
        first = claim.lower or claim.higher
        assert first is not None
        for first_side, than in product(each(first), claim.than):
            for second_side in each(than):
                yield first_side, second_side, "lower" if claim.lower is not None else "higher"
    elif claim.kind == "ordering":
        for low, high in pairwise(claim.ordering):
            for first_side, second_side in product(each(low), each(high)):
                yield first_side, second_side, "lower"
    else:
        for chain in option_chains(claim, scope):
            for first_side, second_side in pairwise(chain):
                yield first_side, second_side, "lower" if claim.rising is not None else "higher"


def expand_subject(subject: Subject, metric: str, scope: ClaimScope) -> list[Side]:
    """Return what a subject fixes, once for each encoder with its objective; nothing where a name is unknown."""
    fixed: dict[Axis, str] = {}
    for axis in AXES:
        if (name := getattr(subject, axis)) is not None:
            label = scope.named(axis, name, metric)
            if label is None:
                return []
            fixed[axis] = label
    if subject.objective is None:
        return [fixed]
    return [{"encoder": encoder, **fixed} for encoder in scope.with_objective(subject.objective, metric)]


def option_chains(claim: Claim, scope: ClaimScope) -> list[list[Side]]:
    """Return the encoders of a claim on an option, in the option's order, once for each choice of other options.

    Encoders are in one chain if they have the same name and differ in this option alone. A chain has at least two.
    """
    subject = claim.rising or claim.falling
    assert subject is not None and claim.option is not None
    encoder_names = scope.names("encoder", claim.metric)
    if subject.objective is not None:
        wanted = scope.with_objective(subject.objective, claim.metric)
    else:
        wanted = tuple(
            name for name in encoder_names if _without_options(name) == _without_options(subject.encoder or "")
        )
    fixed: Side = {axis: name for axis, name in subject.said.items() if axis in AXES and axis != "encoder"}
    by_others: dict[str, list[tuple[float, Side]]] = {}
    for name in wanted:
        value = scope.trained[name].options.get(claim.option) if name in scope.trained else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not _within(value, claim):
            continue
        # A chain varies this option alone: encoders with other values of another option are another chain.
        others = {key: setting for key, setting in scope.trained[name].options.items() if key != claim.option}
        key = f"{_without_options(name)} {others}"
        by_others.setdefault(key, []).append((value, {"encoder": name, **fixed}))
    if subject.encoder is not None and "[" in subject.encoder:
        by_others = {
            key: chain for key, chain in by_others.items() if any(s["encoder"] == subject.encoder for _, s in chain)
        }
    ordered = (sorted(chain, key=lambda entry: entry[0]) for chain in by_others.values())
    return [[side for _, side in chain] for chain in ordered if len(chain) > 1]


def _within(value: float, claim: Claim) -> bool:
    return (claim.start is None or value >= claim.start) and (claim.end is None or value <= claim.end)


def _group_cells(
    cells: Sequence[CellOf], first_side: Side, second_side: Side | None
) -> tuple[tuple[CellGroup, ...], int]:
    """Return the cells of both sides by their names on the axes that neither fixes, and how many have no partner."""
    free = [axis for axis in AXES if axis not in first_side and axis not in (second_side or {})]

    def by_free(side: Side) -> dict[tuple[str | None, ...], tuple[CellOf, ...]]:
        by_names: dict[tuple[str | None, ...], tuple[CellOf, ...]] = {}
        for cell in cells:
            if _fits(cell, side):
                key = tuple(getattr(cell, axis) for axis in free)
                by_names[key] = (*by_names.get(key, ()), cell)
        return by_names

    first = by_free(first_side)
    if second_side is None:
        return tuple(CellGroup((cell,)) for side_cells in first.values() for cell in side_cells), 0
    second = by_free(second_side)
    groups = tuple(CellGroup(side_cells, second[key]) for key, side_cells in first.items() if key in second)
    alone = [
        side_cells
        for side, other_side in ((first, second), (second, first))
        for key, side_cells in side.items()
        if key not in other_side
    ]
    return groups, sum(len(side_cells) for side_cells in alone)


def _fits(cell: CellOf, names: Mapping[Axis, str]) -> bool:
    return all(getattr(cell, axis) == name for axis, name in names.items())


def _name_side(side: Side | None, claim: Claim, scope: ClaimScope) -> str:
    """Name a side: its encoder alone, or what else it fixes.

    A strategy's options, which may be many, are left out where no other of its name is there.
    """
    named = {axis: name for axis, name in (side or {}).items() if axis not in claim.for_each}
    if (tuned := named.get("finetune")) is not None:
        named["finetune"] = _short_strategy(tuned, claim, scope)
    return ", ".join(named.values())


def _short_strategy(strategy: str, claim: Claim, scope: ClaimScope) -> str:
    """Return a strategy's name, without its options where no other of its name is there."""
    alone = _without_options(strategy)
    return alone if scope.named("finetune", alone, claim.metric) == strategy else strategy


def claim_in_words(claim: Claim, scope: ClaimScope) -> str:
    """Return the claim in words, its strategies named as its comparisons name them."""
    changed: dict[str, Any] = {}
    for place, subject in claim.subjects:
        name = str(place[0])
        tuned = subject.finetune
        short_subject = (
            subject if tuned is None else subject.model_copy(update={"finetune": _short_strategy(tuned, claim, scope)})
        )
        single = not isinstance(getattr(claim, name), tuple)
        changed[name] = short_subject if single else (*changed.get(name, ()), short_subject)
    tuned_by = claim.where.get("finetune")
    where = {"finetune": tuple(_short_strategy(name, claim, scope) for name in tuned_by)} if tuned_by else {}
    return str(claim.model_copy(update={**changed, "where": {**claim.where, **where}}))


def _without_options(label: str) -> str:
    """Return the name of a label, without its options."""
    return label.partition("[")[0]
