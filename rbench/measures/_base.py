"""The base of measures: what the class in the file of a measure may state. Importing it loads neither numpy nor torch.

A measure whose table has a row for each thing that it measures declares `columns` and yields `Row`s. Its table, its
intervals and all that other verbs ask of it follow (`_columns`). One with a table of its own form defines `table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel

from rbench.measures._rows import Column, Row
from rbench.schema import CLASSES, Family, Flag, Meaning, MeasureOf, ResourceKind, Stored
from rbench.schema.extension import Extension

if TYPE_CHECKING:
    from rbench.measures._context import Measured
    from rbench.schema import Job, MeasuredRow, Outcome, Record, Suite, TaskSpec
    from rbench.tables import Results, Table
    from rbench.tables.cells import Grid

O = TypeVar("O", bound=BaseModel)  # noqa: E741


class Measure(Extension[O]):
    """A table of a RUN, of what attacks and evaluations stored, or of what jobs of its own ask models.

    One that reads what attacks stored defines `of_attack`. One that asks models defines `run`; a suite asks for it with
    `evaluate: [NAME]`, or `build` for one of trainings. Its table is shown with `tables: [{metric: NAME}]` and `rbench
    table RUN --metric NAME`.
    """

    guide: ClassVar[str] = "docs/guide-add-a-measure.md"

    reads: MeasureOf = "attacks"
    """What `run` is given, and so how many jobs there are: `attacks` (all victims and what an attack made of their
    texts: MeasureContext), `encoders` (one that nobody fine-tuned: EncoderContext), `victims` (one: VictimContext),
    `trainings` (an encoder that rbench trains: TrainedContext), `tasks` (rows alone: MeasureContext)."""
    columns: tuple[Column, ...] = ()
    """The numbers of each row that `run` yields, or `of_attack` returns."""
    numbers: Mapping[str, Meaning] = {}
    """By name the numbers for which claims, comparisons, conditions and figures ask. With `columns` it is these."""
    stores: Stored = "rows"
    """What `run` returns and a job stores."""
    layouts: Mapping[str, Any] = {}
    """By layout, `paper` and others, what makes the table of it from results and TableSpec, in place of `table`."""
    bold: bool = True
    """Whether the tables of `layouts` may have bold entries."""
    tested: bool = False
    """Whether bold entries may be those that are significantly best."""

    serves: tuple[Family, ...] = (CLASSES,)
    """Of a measure of victims: the kinds of tasks that it is for."""
    resources: tuple[ResourceKind, ...] = ()
    """The kinds of resources of the suite's resource set that it may need. `needs` may narrow them."""
    vectors: bool = False
    """Whether it reads the vectors of encoders, which classifiers that exist do not have."""
    vector_lengths: str = ""
    """How results depend on the lengths of vectors, in which encoders with and without `normalize` differ; empty: they
    do not."""
    contrast: bool = False
    """Whether a job reads the contrast set of its task (`context.set`), where the suite says `evaluate: [contrast]`. A
    measure of victims has no job on a task without such a set; one of attacks does without it."""
    network: bool = False
    """Whether it reads gradients or the inside of a network, which an encoder behind an endpoint does not have."""
    objectives: tuple[str, ...] = ()
    """Of a measure of trainings: the objectives by which the encoder may be trained."""
    files: Mapping[str, str] = {}
    """The options that list names of files, with the kind of these: `{"kinds": "noise"}`. The content of such files is
    part of a job's key, and `context.file` opens them."""
    options_by_task: tuple[str, ...] = ()
    """The options that say something task by task, which names of jobs leave out."""
    ways: tuple[str, ...] = ()
    """What claims write in the place of the task where a measure of encoders reads one."""
    about_flags: tuple[Flag, ...] = ()
    """The flags that its numbers are about, which leave no claim on them undecided."""
    unscaled: bool = False
    """Whether the scale of a task's scores has no part in it, and none in the keys of its jobs."""
    required_scores: tuple[str, ...] = ()
    """The scores that every complete record has."""
    workload: str = ""
    """What `rbench plan` says of `examples`: `to evaluate: {:,} pairs`."""

    def run(self, options: Any, context: Any) -> Iterable[Row | MeasuredRow] | Measured:
        """Ask models, and return rows; or `Measured`, which also has scores and counts.

        Rows hold names and finite numbers, and never texts.
        """
        raise NotImplementedError

    def of_attack(self, options: Any, outcomes: Sequence[Outcome]) -> Row:
        """Of a measure without `run`: return the row of an attack on a victim, from its stored outcomes.

        Outcomes have no texts where the RUN keeps none. Where columns have a value for each outcome, in their order,
        two encoders are compared text by text.
        """
        raise NotImplementedError

    def table(self, options: Any, results: Results) -> Table:
        """Make the table. Raises StoreError, with a remedy, where the RUN has nothing to show."""
        from rbench.measures import _columns

        return _columns.build_table(self, options, results)

    def cells(self, results: Results) -> Grid[Any]:
        """Return the cells that have the `numbers`, done or not. Raises StoreError where the RUN has none."""
        from rbench.measures import _columns

        return _columns.build_cells(self, results)

    def needs(self, options: Any) -> tuple[ResourceKind, ...]:
        """Return those of `resources` that are needed with these options."""
        return self.resources

    def tasks(self, options: Any) -> Mapping[str, Any]:
        """Of a measure of encoders: return the names of the tasks that it reads, each with its options there.

        Without it, the option `task` or `tasks` names them.
        """
        task_names = getattr(options, "tasks", None) or (options.task,)
        return dict.fromkeys(task_names, options)

    def splits(self, options: Any, task: TaskSpec) -> Sequence[str]:
        """Of a measure of encoders: return the splits of a task that it cannot do without.

        Raises ValueError, with a sentence, for a task that it is not for.
        """
        return ("test",)

    def check(self, options: Any, suite: Suite) -> str | None:
        """Return what is wrong with these options in this suite, as a sentence; None where nothing is."""
        return None

    def check_task(self, options: Any, task: TaskSpec) -> str | None:
        """Of a measure of victims: return what is wrong with these options for a task; None where nothing is."""
        return None

    def spoken(self, options: Mapping[str, Any], task: str, suite: Suite) -> Sequence[str] | None:
        """Of a measure of victims: return what claims may write in the place of a task; None: its name."""
        return None

    def labels(self, options: Mapping[str, Any]) -> Sequence[str]:
        """Of a measure of victims: return the labels of its cells, which claims name by `NUMBER.LABEL`."""
        return ()

    def examples(self, prepared: Any, job: Job) -> int | None:
        """Return how many texts, pairs or rows a job reads; None where that is not known before it runs."""
        return None

    def unlike(self, record: Record, lines: Sequence[Any]) -> Iterable[str] | None:
        """Return in words which numbers of a record do not follow from what is stored beside it.

        None: rbench compares the number of rows alone.
        """
        return None

    @property
    def asks_models(self) -> bool:
        """Whether it has jobs of its own."""
        return type(self).run is not Measure.run

    @property
    def has_table(self) -> bool:
        """Whether there is a table of it. What is made of a training may have none."""
        return bool(self.columns or self.layouts) or type(self).table is not Measure.table

    @property
    def known_numbers(self) -> Mapping[str, Meaning]:
        """`numbers`, or those of `columns`."""
        return self.numbers or {column.name: column.meaning for column in self.columns}

    def computed(self, options: Any, context: Any) -> Measured:
        """Run it, and return what a job stores."""
        from rbench.measures._context import Measured

        # A measure returns rows, or Measured where it also has scores and counts of its own.
        returned = self.run(options, context)
        if isinstance(returned, Measured):
            return returned
        rows = list(returned)
        if self.columns:
            from rbench.measures import _columns

            rows = [_columns.store_row(self, row) for row in rows]
        return Measured(rows, counts={"rows": len(rows)})  # type: ignore[arg-type]
