"""The course of trainings, from the series that their records hold (docs/health.md): losses, shares, cosines, top-1.

A row is a training, a column a group of series. What chance would give is a grey line. Flags stand above the row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import field_validator

from rbench.errors import StoreError
from rbench.report.figures import RunFigure, style
from rbench.schema import Health
from rbench.schema.common import Strict
from rbench.tables import Results

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

_MOST = 40
"""The most trainings in one figure, which is then as long as six pages."""
_LEAST_WIDTH = 1.35
"""The least width of a panel on a sheet, in inches."""
_SHARE, _CHANCE = " share", " at chance"


class Options(Strict):
    """What a suite may set."""

    encoder: tuple[str, ...] = ()
    """The encoders whose trainings are drawn; none named: all that the RUN trained."""
    series: tuple[str, ...] = ()
    """Groups (`loss`, `share`, `cosine`, `top-1`), or single series as records name them, such as `delta ratio`, each
    of which becomes a group of its own. None named: all four groups, as far as the trainings have them."""

    @field_validator("encoder", "series", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


class TrainingCourse(NamedTuple):
    """A training whose record holds a series."""

    title: str
    health: Health

    @property
    def names(self) -> list[str]:
        """The names of everything that was measured, each once."""
        return list(dict.fromkeys(name for point in self.health.series for name in point.values))

    def curve(self, name: str) -> tuple[list[int], list[float]]:
        """Return steps and values of one series. A step at which it was not measured is left out."""
        measured = [(point.step, point.values[name]) for point in self.health.series if name in point.values]
        return [step for step, _ in measured], [value for _, value in measured]


GROUPS = {
    "loss": "Loss",
    "share": "Gradient's share",
    "cosine": "Cosine",
    "top-1": "Top-1",
}
"""The groups, with the labels of their axes."""


class CurvesFigure(RunFigure[Options]):
    def draw(self, options: Options, results: Results) -> Figure:
        """Draw from the records. Raises StoreError where no training, or no such series, is stored."""
        trainings = stored_trainings(options, results)
        measured = list(dict.fromkeys(name for training in trainings for name in training.names))
        columns = {group: names for group, names in group_series(options, measured).items() if names}
        figure, panels = _make_panels(len(trainings), columns)
        for column, (group, names) in enumerate(columns.items()):
            entries: dict[str, Artist] = {}
            for axes, training in zip(panels[:, column], trainings, strict=True):
                for name in (name for name in names if name in training.names):
                    chance = name.endswith(_CHANCE)
                    line_style = (
                        {"color": style.MUTED, "linestyle": "--"}
                        if chance
                        else style.look(_index_among_measured(names, name))
                    )
                    steps, values = training.curve(name)
                    (line,) = axes.plot(steps, values, label=name, **line_style)
                    entries.setdefault(name, line)
                axes.set_ylabel(GROUPS.get(group, group))
                axes.locator_params(axis="x", integer=True)
                if not axes.lines:  # this training did not measure any of them
                    axes.set_visible(False)
            style.legend_below(panels[-1, column], list(entries.values()), list(entries))
            panels[-1, column].set_xlabel("Step")
        for row, training in zip(panels, trainings, strict=True):
            style.row_title(row[0], training.title)
        style.caption("Each line is one training, so it has no interval. What chance would give is grey.")
        return figure


def _make_panels(trainings: int, columns: dict[str, list[str]]) -> tuple[Figure, Any]:
    """Return a figure and its panels, an array of trainings by columns. On a sheet a training may have several rows.

    Raises StoreError where the figure would be taller than its page.
    """
    columns_in_row, width = style.side_by_side(len(columns), len(columns), _LEAST_WIDTH)
    if columns_in_row == len(columns):
        figure = style.new(min(width, 0.9 + 2.2 * columns_in_row), 0.9 + 1.5 * trainings)
        return figure, figure.subplots(trainings, columns_in_row, squeeze=False)
    rows = math.ceil(len(columns) / columns_in_row)
    legends = [*map(len, columns.values())]  # in lines; those of a row lie side by side
    # The legends of a row lie side by side, so the longest of them decides how tall the row is.
    legend_height = 0.14 * sum(max(legends[row * columns_in_row : (row + 1) * columns_in_row]) for row in range(rows))
    figure = style.new(width, legend_height + 0.4 + 1.4 * rows * trainings)
    style.check_height(figure)
    all_panels = figure.subplots(rows * trainings, columns_in_row, squeeze=False).reshape(
        trainings, rows * columns_in_row
    )
    for axes in all_panels[:, len(columns) :].ravel():
        axes.remove()
    return figure, all_panels[:, : len(columns)]


def stored_trainings(options: Options, results: Results) -> list[TrainingCourse]:
    """Return the trainings to draw, in the plan's order. Raises StoreError where there are too many."""
    jobs = [job for job in results.plan.jobs if job.pretraining is not None]
    labels = [results.plan.draw(job.parts[0]).encoder for job in jobs]
    courses = []
    for job, label in zip(jobs, labels, strict=True):
        record = results.standing.records.get(job.key)
        health = record.health if record is not None else None
        wanted = label in options.encoder or not options.encoder
        if health is not None and health.series and wanted:
            flags = ", ".join(raised.flag for raised in health.flags)
            seed = f" seed {job.seed}" if labels.count(label) > 1 else ""
            title = "/".join([label, *job.parts[1:]]) + seed + (f" (flagged: {flags})" if flags else "")
            courses.append(TrainingCourse(title, health))
    if len(courses) > _MOST:
        raise StoreError(
            f"the figure curves would have {len(courses)} rows, one a training; name at most {_MOST} of the encoders: "
            f"--option encoder=[{courses[0].title.partition(' ')[0]}]"
        )
    return courses


def group_series(options: Options, measured: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of series by group; of a group or series that no training has, none."""
    grouped = {group: _series_of_group(group, measured) for group in GROUPS}
    columns: dict[str, list[str]] = {}
    for name in options.series or GROUPS:
        columns[name] = grouped.get(name) or [series_name for series_name in measured if series_name == name]
    return columns


def _series_of_group(group: str, measured: Sequence[str]) -> list[str]:
    """Return the series of a group, those at chance last. Terms of the loss are those with a share of the gradient."""
    terms = [name.removesuffix(_SHARE) for name in measured if name.endswith(_SHARE)]
    series_by_group: dict[str, Iterable[str]] = {
        "loss": ["loss", *terms, "contrastive loss", f"loss{_CHANCE}"],
        "share": [f"{term}{_SHARE}" for term in terms],
        "cosine": [name for name in measured if name.endswith("cosine")],
        "top-1": ["top-1", f"top-1{_CHANCE}"],
    }
    return [name for name in series_by_group[group] if name in measured]


def _index_among_measured(names: Sequence[str], name: str) -> int:
    # Lines at chance are grey, so they take no colour from the series that were measured.
    return [series_name for series_name in names if not series_name.endswith(_CHANCE)].index(name)
