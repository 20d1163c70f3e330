"""A metric against the dose of a training: the size of its perturbation, or an option of its objective.

A panel is an attack on a task, or a task where the metric is no attack's. Encoders whose trainings differ in the dose
alone are joined by a line. Encoders without a dose are controls: a line across the panel, with the band of its
interval. Bars and bands cover the choice of texts, and differences between seeds where there are several. Where an
encoder has several trainings, each of them is a small circle, at its dose or, of a control, at the right edge. The
figure is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rbench.config.metrics import HEADLINE
from rbench.config.registry import unknown_message
from rbench.errors import StoreError
from rbench.metrics import AnyMetric
from rbench.report.figures import RunFigure, style
from rbench.schema import Job, TrainSpec
from rbench.schema.claims import CellOf
from rbench.schema.common import Strict
from rbench.tables import Results
from rbench.tables.notes import format_range
from rbench.tables.results import SeedRun
from rbench.verdicts.cells import CellNumber, cells_by_name

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATIO = "delta ratio"


class Options(Strict):
    """What a suite may set."""

    x: str = RATIO
    """The dose: a number that trainings measured (the mean of its series; docs/health.md), or an option of their
    objective, such as `beta`."""
    metric: str = HEADLINE
    """A metric, or a number of a measure."""
    attack: str | None = None
    """The only attack to draw; None: all."""
    task: str | None = None
    """The only task to draw; None: all."""
    scale: Literal["linear", "log"] = "log"
    """Of the axis of doses. 0 has no place on a logarithmic axis: an encoder with this dose is drawn as a control."""


class DosedEncoder(NamedTuple):
    """An encoder whose training has a dose."""

    encoder: str
    doses: Mapping[str | None, float]
    """By task, the mean over its trainings. Where it is trained on the task's own texts, each task has its own."""
    family: str
    """What it shares with the encoders that a line joins it to."""
    options: Mapping[str, Any]
    """The options of its objective that its file or the suite sets."""


_CONTROL_EDGE = 0.985
"""Where circles of controls lie, as a share of a panel's width."""
DoseCells = Mapping[CellOf, CellNumber]


class DoseFigure(RunFigure[Options]):
    title = "Attack success rate by the dose of a training"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw from the records. Raises StoreError where nothing is done, or no training has the dose."""
        metric = results.metrics.asked(options.metric)
        all_cells = cells_by_name(results, metric)
        cells = _cells_to_draw(all_cells, options, results)
        lines = _lines_by_label(_dosed_encoders(cells, options, results))
        if cells and not lines:
            raise StoreError(_no_dose_message(cells.values(), options, results))
        on_lines = {member.encoder for members in lines.values() for member in members}
        drawn = {name.encoder for name in cells}
        controls = [name for name in _names_on_axis(all_cells, "encoder") if name not in on_lines and name in drawn]
        looks = {label: index for index, label in enumerate((*lines, *controls))}
        places = list(dict.fromkeys(name._replace(encoder="") for name in cells))
        columns = min(3, len({place.attack for place in places}))
        figure, panels = style.panels(
            [_panel_title(all_cells, place) for place in places], columns=columns, share_y=True
        )
        entries: dict[str, Artist] = {}
        for axes, place in zip(panels, places, strict=True):
            for label, members in lines.items():
                own = [(member, cells.get(place._replace(encoder=member.encoder))) for member in members]
                dosed = [
                    (member.doses[place.task], cell)
                    for member, cell in own
                    if cell is not None and place.task in member.doses
                ]
                if points := sorted(dosed, key=lambda point: point[0]):
                    entries.setdefault(label, _draw_line(axes, metric, points, looks[label], label))
            for name in controls:
                if (control := cells.get(place._replace(encoder=name))) is not None:
                    entries.setdefault(name, _draw_control(axes, metric, control, looks[name]))
            if options.scale == "log":
                style.log(axes, "x")
            axes.set_xlabel("|delta| / |x|" if options.x == RATIO else options.x)
            if style.is_leftmost(axes):
                axes.set_ylabel(style.axis(metric.about))
        style.legend(
            figure,
            [entries[label] for label in looks if label in entries],
            [label_of_look for label_of_look in looks if label_of_look in entries],
        )
        missing = sum(name._replace(encoder="") in places for name in all_cells) - len(cells)
        style.note(figure, _write_note(metric, list(cells.values()), missing))
        return figure


def _names_on_axis(cell_names: Iterable[CellOf], axis: str) -> list[str]:
    """Return the names on an axis, each once, in the order of tables."""
    return list(dict.fromkeys(name for cell_name in cell_names if (name := getattr(cell_name, axis)) is not None))


def _cells_to_draw(all_cells: DoseCells, options: Options, results: Results) -> dict[CellOf, CellNumber]:
    """Return what is to be drawn, task by task, then by strategy, attack and encoder, in the order of tables."""
    order = {axis: _names_on_axis(all_cells, axis) for axis in ("task", "finetune", "attack", "encoder")}

    def place(name: CellOf) -> list[int]:
        named = [(names, getattr(name, axis)) for axis, names in order.items()]
        return [names.index(value) for names, value in named if value is not None]

    chosen = {}
    for name in sorted(all_cells, key=place):
        asked_for = options.attack in (None, name.attack) and options.task in (None, name.task)
        shown = all_cells[name].value is not None and not results.flags.hiding(all_cells[name].cell.jobs)
        if asked_for and shown:
            chosen[name] = all_cells[name]
    return chosen


# ------------------------------------------------------------------------------------------------------------- doses


def _dosed_encoders(cells: DoseCells, options: Options, results: Results) -> list[DosedEncoder]:
    """Return the encoders whose trainings have the dose, each once."""
    jobs = {job.key: job for job in results.plan.jobs}
    encoders: dict[str, DosedEncoder] = {}
    by_task: dict[str, dict[str | None, float]] = {}
    for name, cell in cells.items():
        trainings = [job for run in cell.cell.runs if (job := _training_job(run, jobs)) is not None]
        doses = [dose for job in trainings if (dose := _dose_of(job, options.x, results)) is not None]
        # 0 has no place on a logarithmic axis: then the encoder becomes a control.
        positive = options.scale == "linear" or all(dose > 0 for dose in doses)
        if doses and positive:
            encoder_doses = by_task.setdefault(name.encoder, {})
            encoder_doses.setdefault(name.task, math.fsum(doses) / len(doses))
            train = _train_spec(trainings[0])
            encoders.setdefault(
                name.encoder, DosedEncoder(name.encoder, encoder_doses, _family_of(train, options.x), train.options)
            )
    return list(encoders.values())


def _training_job(run: SeedRun, jobs: Mapping[str, Job]) -> Job | None:
    """Return the job that trained the encoder of a number, or the nearest of its bases; None where none did."""
    victim_job = jobs.get(run.job.needs.get("victim", ""), run.job)
    return jobs.get(victim_job.needs.get("encoder", ""))


def _dose_of(training: Job, x: str, results: Results) -> float | None:
    """Return the dose of a training; None where it did not measure it and has no such option."""
    record = results.standing.records.get(training.key)
    series = record.health.series if record is not None and record.health is not None else ()
    measured = [point.values[x] for point in series if x in point.values]
    if measured:
        return math.fsum(measured) / len(measured)
    value = _train_spec(training).options.get(x)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _family_of(train: TrainSpec, x: str) -> str:
    """Return what trainings on one line share.

    Of an option it is all other settings. Of a measured number it is which numbers the options set, and all settings
    that are none: a training that sets the step of an adversary is not joined to one that sets the size of noise.
    """

    def shared_setting(key: str, value: Any) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if key == x or (number and x not in train.options) else value

    options = {key: shared_setting(key, train.options[key]) for key in sorted(train.options)}
    return train.model_copy(update={"options": options, "seed": 0}).model_dump_json()


def _train_spec(training: Job) -> TrainSpec:
    assert training.pretraining is not None and training.pretraining.encoder.train is not None
    return training.pretraining.encoder.train


def _lines_by_label(dosed: Sequence[DosedEncoder]) -> dict[str, list[DosedEncoder]]:
    """Return the members of each line by its label, from the smallest dose to the largest."""
    families: dict[str, list[DosedEncoder]] = {}
    for encoder in dosed:
        families.setdefault(encoder.family, []).append(encoder)
    ordered = [sorted(members, key=lambda encoder: min(encoder.doses.values())) for members in families.values()]
    return {_line_label(members): members for members in ordered}


def _line_label(members: Sequence[DosedEncoder]) -> str:
    """Return the encoder's own label; of several, their name and the range of what differs: `simcse[beta=1 to 3]`."""
    first, last = members[0], members[-1]
    if len(members) == 1:
        return first.encoder
    differing = [key for key in first.options if first.options[key] != last.options[key]]
    ranges = ",".join(f"{key}={first.options[key]} to {last.options[key]}" for key in differing)
    return f"{first.encoder.partition('[')[0]}[{ranges}]"


def _no_dose_message(cells: Iterable[CellNumber], options: Options, results: Results) -> str:
    """Say that no training has the dose, and which names there are."""
    jobs = {job.key: job for job in results.plan.jobs}
    trainings = {
        job.key: job for cell in cells for run in cell.cell.runs if (job := _training_job(run, jobs)) is not None
    }
    names = {name for job in trainings.values() for name in _train_spec(job).options}
    records = [results.standing.records.get(key) for key in trainings]
    healths = [record.health for record in records if record is not None and record.health is not None]
    names |= {name for health in healths for point in health.series for name in point.values}
    message = unknown_message("dose", options.x, names)
    return f"{message}{'' if message.endswith('?') else '.'} Choose one with --option x=NAME."


# ----------------------------------------------------------------------------------------------------------- drawing


def _panel_title(all_cells: DoseCells, place: CellOf) -> str:
    has_several = {axis: len(_names_on_axis(all_cells, axis)) > 1 for axis in ("task", "finetune")}
    shown = [place.attack, place.task if has_several["task"] or place.attack is None else None]
    return ", ".join(filter(None, [*shown, place.finetune if has_several["finetune"] else None]))


def _value_on_axis(metric: AnyMetric, cell: CellNumber) -> tuple[float, style.Interval]:
    """Return the metric and its 95% interval, shares in percent."""
    score = cell.cell.score(cell.number)
    assert score is not None, "only cells with a value are drawn"
    return style.on_axis(score, metric.about.percent)


def _draw_line(
    axes: Axes, metric: AnyMetric, points: Sequence[tuple[float, CellNumber]], index: int, label: str
) -> Artist:
    """Draw the encoders of one line, and return what the legend shows."""
    values, intervals = zip(*(_value_on_axis(metric, cell) for _, cell in points), strict=True)
    doses = [dose for dose, _ in points]
    single_trainings = [(dose, rate) for dose, cell in points for rate in _values_by_training(metric, cell)]
    for dose, value, (_, cell) in zip(doses, values, points, strict=True):
        if _is_flagged(cell):
            style.flag(axes, dose, value, index=index)
    _draw_circles(axes, [dose for dose, _ in single_trainings], [rate for _, rate in single_trainings], index)
    line = {"index": index, "label": label, "joined": len(points) > 1}
    return style.points(axes, doses, values, y_intervals=intervals, **line)  # type: ignore[arg-type, return-value]


def _draw_control(axes: Axes, metric: AnyMetric, cell: CellNumber, index: int) -> Artist:
    """Draw a control, and return what the legend shows."""
    value, interval = _value_on_axis(metric, cell)
    line_style = {
        key: value_of_style for key, value_of_style in style.look(index).items() if key in ("color", "linestyle")
    }
    values = _values_by_training(metric, cell)
    _draw_circles(axes, [_CONTROL_EDGE] * len(values), values, index, transform=axes.get_yaxis_transform())
    if _is_flagged(cell):
        style.flag(axes, _CONTROL_EDGE, value, index=index, xycoords=axes.get_yaxis_transform())
    if interval is not None:
        axes.axhspan(*interval, color=line_style["color"], alpha=0.1, linewidth=0)
    return axes.axhline(value, linewidth=0.9, label=cell.cell.encoder, **line_style)


def _is_flagged(cell: CellNumber) -> bool:
    number = cell.cell.number(cell.number)
    return number is not None and number.flagged


def _values_by_training(metric: AnyMetric, cell: CellNumber) -> list[float]:
    """Return the metric of each training, a mean over its fine-tuning seeds; none where there is only one."""
    draws, scale = cell.cell.draws(cell.number), 100 if metric.about.percent else 1
    return [scale * mean for _, mean in draws.means] if draws is not None and len(draws.means) > 1 else []


def _draw_circles(axes: Axes, x: Sequence[float], y: Sequence[float], index: int, **options: Any) -> None:
    """Draw single trainings."""
    if y:
        colour = style.look(index)["color"]
        axes.scatter(x, y, s=9, facecolors="white", edgecolors=colour, linewidths=0.7, zorder=5, **options)


def _write_note(metric: AnyMetric, cells: Sequence[CellNumber], missing: int) -> str:
    """Return the note below the figure: what n is, which intervals are shown, what is missing."""
    sizes = (score.n for cell in cells if (score := cell.cell.sampled(cell.number)) is not None)
    sentences = f"n {format_range(sizes)}; bars and bands are 95% intervals"
    with_levels = sum(cell.cell.has_seed_levels(cell.number) for cell in cells)
    if with_levels:
        of_which = "" if with_levels == len(cells) else f" in the {with_levels} cells that have several"
        sentences += f". They cover differences between seeds, too{of_which}"
    sentences += (
        ". Small circles are single trainings." if any(_values_by_training(metric, cell) for cell in cells) else "."
    )
    sentences += f" Not drawn, since they are not done or withheld: {missing} cells." if missing else ""
    partial = sum(cell.cell.partial for cell in cells)
    return sentences + (f" In {partial} cells some seeds are not done." if partial else "")
