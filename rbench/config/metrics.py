"""Finds the metric behind a name: `metric: asr` is rbench/metrics/asr.py, or metrics/asr.py of an --include folder.

What a metric is stands in its file alone (docs/guide-add-a-metric.md). Nothing here or above has a default for one that
it does not know: an unknown name is an error that lists the nearest names.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

from rbench.config import versions
from rbench.config.code import find, first_line, open_checked
from rbench.config.positions import shown_path
from rbench.config.registry import KINDS, Registry, read_source, unknown_message
from rbench.errors import StoreError, SuiteError
from rbench.schema import KindName, Meaning, TaskSpec
from rbench.schema.extension import Extension, NoOptions

F = TypeVar("F", bound=str)

HEADLINE = "asr"
"""The metric of a command that names none."""
MetricOf = Literal["attacks", "victims", "all attacks"]
"""What a metric has a number for: an attack on a victim; a victim before any attack; all attacks on a victim at once.
"""


class Metric(Extension[NoOptions]):
    """A number that has a value for each attacked text, or one for a set of them.

    Tables, intervals, comparisons, claims, conditions, checks and reports follow from what its class states.
    """

    guide: ClassVar[str] = "docs/guide-add-a-metric.md"

    about: Meaning
    """Title, definition, which end is good, and how tables show it."""
    share: bool
    """Whether the value of a unit is 0 or 1, so that the metric is a count over a count with Wilson's interval; else it
    is their mean, with Student's t."""
    of: MetricOf = "attacks"
    """What has a number: an attack on a victim; a victim before any attack; all attacks on a victim at once, where the
    value of a unit is that of the attack that did it the most harm (`harm`)."""
    bounds: tuple[float, float] = (0.0, math.inf)
    """The least and the largest value that there can be. Of a share it is 0 to 1 without it."""
    part_of: str = ""
    """The metric of whose hits it counts some, so that it cannot be larger; its interval ends where that one's does."""
    together: bool = False
    """Of a metric of attacks: whether tables have a row of all attacks on a victim at once, too."""
    oracle: bool = False
    """Whether only tasks with an oracle have it."""
    kind: KindName | None = None
    """The only kind of task that has it; None: every kind."""
    counts: str = "the examples that have a value with both victims"
    """The examples over which two victims are compared, in words."""
    gate: int = 0
    """Its place among the rows that a check judges if it is not told which; 0: it is judged only when it is named."""
    wider: str = ""
    """A measure whose one number says the same of more texts. A check judges these where both runs have it."""
    place: int = 100
    """Where it stands among other metrics; rbench's own are 1 to 16. Those of one place are in the order of names."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        share = vars(cls).get("share", getattr(cls, "share", False))
        if share is True and cls.bounds is Metric.bounds:
            cls.bounds = (0.0, 1.0)
        if share is True and cls.units is not Metric.units:
            raise ValueError("a metric of a set, which has `units`, is no share: write `share = False`")
        low, high = map(float, cls.bounds)
        cls.bounds = (low, high)

    @abstractmethod
    def value(self, of: Any) -> Any:
        """Return the value of each unit of some `rbench.metrics.Observations`: an array, NaN for one in no denominator.

        With `units` it returns one number for all units that it is given; NaN where it is not defined.
        """

    def harm(self, of: Any) -> Any:
        """Of a metric of all attacks at once: return for each unit a number that says which attack counts for it, the
        one with the least. Without it that is the attack which did the unit the most harm."""
        return of.harm

    def units(self, of: Any) -> Any:
        """Of a metric of a set, such as a correlation: return whether each unit is in the set."""
        raise NotImplementedError

    def influence(self, of: Any) -> Any:
        """Of a metric of a set: return what each of its units adds to the value. Else the jackknife finds that."""
        raise NotImplementedError

    def judged(self, of: Any) -> Any:
        """Of a metric of what people said: return the share of raters who accept each unit; NaN where nobody was asked.

        With `units` the metric is ASR times their mean, without it their mean. Intervals then have raters as a level.
        """
        raise NotImplementedError

    def counted(self, of: Any) -> Any:
        """Return the metric of the counts in a record (`rbench.metrics.Tally`), a `Proportion` or a `Sample`.

        Without it tables read outcomes, and show `no outcomes` for a RUN that keeps only counts.
        """
        raise NotImplementedError

    @property
    def of_set(self) -> bool:
        """Whether it is one number of a set of units."""
        return type(self).units is not Metric.units

    @property
    def has_influence(self) -> bool:
        """Whether it says what each unit adds."""
        return type(self).influence is not Metric.influence

    @property
    def of_people(self) -> bool:
        """Whether it is of what people said."""
        return type(self).judged is not Metric.judged

    @property
    def of_counts(self) -> bool:
        """Whether the counts in a record give it."""
        return type(self).counted is not Metric.counted

    def source_place(self) -> str:
        """Return the file with the line where `value` begins; the name of what has no file."""
        return f"{shown_path(self.path)}:{first_line(self.value, self.path)}" if self.path is not None else self.name

    def is_of(self, task: TaskSpec) -> bool:
        """Return whether attacks on a task have it."""
        asked = not self.of_people or task.has_classes
        return (task.has_oracle or not self.oracle) and self.kind in (None, task.kind) and asked

    def hindered(self, flags: Iterable[F]) -> list[F]:
        """Return the flags for which the number says nothing."""
        return list(flags)

    @property
    def falls(self) -> bool:
        """Whether a value of 1 means that the unit fell to the attack."""
        return self.share and self.about.best == "lowest"


class MeasureNumber(NamedTuple):
    """A number of a measure: one of the METRICS of its file, or without these the one that has the measure's name.

    `noise.typos@0.1` is the number `noise` of the cells with the label `typos@0.1`. Whether it is a share its cells
    say, one by one. Fields that a `Metric` has too mean the same here.
    """

    name: str
    measure: str
    about: Meaning
    cells: Callable[[Any], Any]
    """Returns the measure's cells in some `tables.Results`, done or not."""
    of: None = None
    falls: bool = False
    bounds: tuple[float, float] = (-math.inf, math.inf)
    counts: str = "what has a value with both encoders"
    gate: int = 0
    about_flags: tuple[str, ...] = ()
    """The flags that its measure is about (`about_flags`), which are no obstacle to a claim on it."""
    label: str = ""
    """The label of the cells that are meant; empty: all cells."""

    def of_label(self, label: str) -> MeasureNumber:
        """Return the number of the cells with a label alone, which claims name by their task.

        Its `cells` raise StoreError, with the labels that there are, where none has this one.
        """

        def cells(results: Any) -> Any:
            all_cells = self.cells(results)
            own_cells = {key: cell for key, cell in all_cells.cells.items() if cell.label == label}
            if not own_cells:
                labels = dict.fromkeys(cell.label for cell in all_cells.cells.values())
                raise StoreError(f"{results.root}: {unknown_label_message(self.name, label, labels)}")
            return replace(all_cells, cells=own_cells, spoken=lambda cell: [(cell.task, self.name)])

        title = f"{self.about.title}, {label}"
        about = replace(self.about, title=title, said=f"{self.about.words}, {label}", short="")
        return self._replace(name=f"{self.name}.{label}", about=about, cells=cells, label=label)

    def hindered(self, flags: Iterable[F]) -> list[F]:
        """Return the flags for which the number says nothing."""
        return [flag for flag in flags if flag not in self.about_flags]


def unknown_label_message(number: str, label: str, labels: Iterable[str]) -> str:
    """Word the error for a number of a label that no cell has."""
    listed = ", ".join(filter(None, labels)) or "none: its cells are told apart by encoder and task"
    return f"{number} has no label {label}; its labels are {listed}"


AnyMetric = Metric | MeasureNumber
"""What is asked for by the name of a metric: that of a file of metrics, or a number of a measure."""


class MetricCatalogue:
    """The metrics that there are. Each file is opened when its name is first asked for."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry if registry is not None else Registry()
        self._known: dict[str, Metric] = {}
        self._numbers: dict[str, Mapping[str, MeasureNumber]] = {}
        self._unread: dict[str, SuiteError] = {}
        """What is wrong with the files of measures, by their names."""
        self._sources: dict[str, bytes] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.registry.names("metrics")

    def __getitem__(self, name: str) -> Metric:
        """Return a metric. Raises SuiteError where there is none of this name, or its file is wrong."""
        if name not in self._known:
            self._known[name] = _load_metric(name, self.registry)
        return self._known[name]

    def called(self, strategy: str) -> str:
        """Return what tables call a fine-tuning strategy; an empty text for those of users."""
        known = strategy in self.registry.names("finetune") and self.registry.is_bundled("finetune", strategy)
        return versions.assigned_text(self.registry.path("finetune", strategy), "short") if known else ""

    def get(self, name: str) -> Metric | None:
        """Return a metric, or None where there is none of this name. Raises SuiteError where its file is wrong."""
        if name not in self:
            return None
        return self[name]

    def asked(self, name: str) -> AnyMetric:
        """Return what a name stands for: a metric, a number of a measure, or such a number of a label, `NUMBER.LABEL`.

        Raises SuiteError, with the nearest names, where it is nothing, or what is wrong with its file.
        """
        if name in self:
            return self[name]
        number, _, label = name.partition(".")
        if (measure_number := self.measured.get(name)) is not None:
            return measure_number
        if label and (measure_number := self.measured.get(number)) is not None:
            return measure_number.of_label(label)
        for candidate in (name, number):
            if (wrong := self._file_error(candidate)) is not None:
                raise wrong
        known = {*self.registry.names("metrics"), *self.measured}
        raise SuiteError(unknown_message(KINDS["metrics"].one, name, known, " (`rbench list metrics`)"))

    @cached_property
    def measured(self) -> Mapping[str, MeasureNumber]:
        """The numbers that measures have for cells, by name. A file that is wrong has none."""
        return _NumbersByName(self)

    @property
    def measure_of(self) -> Mapping[str, str]:
        """The measure of each number."""
        return _MeasureOf(self.measured)

    def numbers_of(self, measure: str) -> Mapping[str, MeasureNumber]:
        """Return the numbers of a measure; none where it has none for cells, or its file is wrong."""
        if measure not in self._numbers:
            self._numbers[measure] = self._read_numbers(measure)
        return self._numbers[measure]

    def _read_numbers(self, name: str) -> Mapping[str, MeasureNumber]:
        try:
            file = find("measures", name, self.registry)
            measure: Any = file.open() if file.bundled else open_checked(file)
        except SuiteError as error:
            self._unread[name] = error
            return {}
        flags = tuple(measure.about_flags)
        return {
            number: MeasureNumber(number, name, about, measure.cells, about_flags=flags)
            for number, about in measure.known_numbers.items()
        }

    def _file_error(self, number: str) -> SuiteError | None:
        """Return what is wrong with a number's file: one of its name, or with its name as a text. None: nothing is."""
        if number in self._unread:
            return self._unread[number]
        return next((error for name, error in self._unread.items() if self.mentions(name, number)), None)

    def mentions(self, measure: str, number: str) -> bool:
        """Return whether the source of a measure has a name as a text."""
        if measure not in self._sources:
            self._sources[measure] = b""
            with suppress(SuiteError):  # two files have its name, which whoever asks for it hears
                self._sources[measure] = read_source(self.registry.path("measures", measure))
        source = self._sources[measure]
        return f'"{number}"'.encode() in source or f"'{number}'".encode() in source

    def opened(self, kind: str, name: str) -> Any:
        """Return the module of a file of another kind, such as noise, from the same folders.

        Raises SuiteError where it is not found, or wrong.
        """
        return find(kind, name, self.registry).open()

    def measure(self, name: str) -> Any:
        """Return a measure (`rbench.measures.Measure`) that has a table.

        Raises SuiteError where there is none, with the nearest names, or where the file is wrong.
        """
        known = self.registry.names("measures")
        if name not in known:
            raise SuiteError(unknown_message("metric", name, {*self.registry.names("metrics"), *known}))
        measure = open_checked(find("measures", name, self.registry))
        if not measure.has_table:
            raise SuiteError(f"{name} has no table: what it makes is in the RUN, beside its records")
        return measure

    def all(self, *of: MetricOf, kinds: Collection[KindName] | None = None) -> list[Metric]:
        """Return metrics in the order of their places. Raises SuiteError where a file is wrong.

        A file that says by literals that its metric is another one is not opened.

        Args:
            of: the conditions that they are of; without any, all.
            kinds: of tasks, of which at least one has them; None: all.
        """
        opened = [self[name] for name in self.registry.names("metrics") if self._needs_opening(name, of, kinds)]
        wanted = (metric for metric in opened if not of or metric.of in of)
        wanted = (metric for metric in wanted if kinds is None or metric.kind is None or metric.kind in kinds)
        return sorted(wanted, key=lambda metric: (metric.place, metric.name))

    def _needs_opening(self, name: str, of: Collection[str], kinds: Collection[str] | None) -> bool:
        """Return whether a file need be opened. One whose literals are wrong is, so that its user hears of them."""
        path = self.registry.path("metrics", name)
        others = {*get_args(MetricOf)} - {*of} if of else set()
        unasked = {*get_args(KindName)} - {*kinds} if kinds is not None else set()
        return versions.assigned_text(path, "of") not in others and versions.assigned_text(path, "kind") not in unasked


class _NumbersByName(Mapping[str, MeasureNumber]):
    """The numbers of all measures, by name. A measure is opened when one of its numbers is asked for.

    A number is looked for in the file of its name, then in those whose source has its name as a text, then in all.
    """

    def __init__(self, metrics: MetricCatalogue) -> None:
        self._metrics = metrics
        self._found: dict[str, MeasureNumber | None] = {}

    def __getitem__(self, number: str) -> MeasureNumber:
        if number not in self._found:
            self._found[number] = self._find(number)
        if (measure_number := self._found[number]) is None:
            raise KeyError(number)
        return measure_number

    def _find(self, number: str) -> MeasureNumber | None:
        if "." in number:  # a number with a label
            return None
        numbers = (self._metrics.numbers_of(measure).get(number) for measure in self._likely(number))
        return next((measure_number for measure_number in numbers if measure_number is not None), None)

    def _likely(self, number: str) -> Iterator[str]:
        names = self._metrics.registry.names("measures")
        yield from (name for name in names if name == number)
        # Sources are searched as bytes before any file is opened: opening a measure may import torch.
        yield from (name for name in names if self._metrics.mentions(name, number))
        yield from names

    def __iter__(self) -> Iterator[str]:
        names = self._metrics.registry.names("measures")
        return iter(dict.fromkeys(number for name in names for number in self._metrics.numbers_of(name)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _MeasureOf(Mapping[str, str]):
    """By number its measure."""

    def __init__(self, numbers: Mapping[str, MeasureNumber]) -> None:
        self._numbers = numbers

    def __getitem__(self, number: str) -> str:
        return self._numbers[number].measure

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def _load_metric(name: str, registry: Registry) -> Metric:
    if name not in registry.names("metrics"):
        raise SuiteError(
            unknown_message(KINDS["metrics"].one, name, registry.names("metrics"), " (`rbench list metrics`)")
        )
    metric: Metric = open_checked(find("metrics", name, registry))
    return metric
