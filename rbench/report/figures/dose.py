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
from rbench.config.registry import unknown
from rbench.errors import StoreError
from rbench.metrics import AnyMetric
from rbench.report.figures import style
from rbench.schema import Job, TrainSpec
from rbench.schema.claims import CellOf
from rbench.schema.common import Strict
from rbench.tables import Results
from rbench.tables.notes import spanned
from rbench.tables.results import Run
from rbench.verdicts.cells import OfCell, by_name

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Attack success rate by the dose of a training"
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


class Dosed(NamedTuple):
    """An encoder whose training has a dose."""

    encoder: str
    doses: Mapping[str | None, float]
    """By task, the mean over its trainings. Where it is trained on the task's own texts, each task has its own."""
    family: str
    """What it shares with the encoders that a line joins it to."""
    options: Mapping[str, Any]
    """The options of its objective that its file or the suite sets."""


_EDGE = 0.985
"""Where circles of controls lie, as a share of a panel's width."""
Drawn = Mapping[CellOf, OfCell]


def draw(options: Options, results: Results) -> Figure:
    """Draw from the records. StoreError where nothing is done, a name is unknown, or no training has the dose."""
    metric = results.metrics.asked(options.metric)
    there = by_name(results, metric)
    cells = _cells(there, options, results)
    lines = _lines(_dosed(cells, options, results))
    if not lines:
        raise StoreError(_no_dose(cells.values(), options, results))
    on_lines = {one.encoder for members in lines.values() for one in members}
    drawn = {name.encoder for name in cells}
    controls = [name for name in _names(there, "encoder") if name not in on_lines and name in drawn]
    looks = {label: index for index, label in enumerate((*lines, *controls))}
    places = list(dict.fromkeys(name._replace(encoder="") for name in cells))
    columns = min(3, len({place.attack for place in places}))
    figure, panels = style.panels([_title(there, place) for place in places], columns=columns, share_y=True)
    entries: dict[str, Artist] = {}
    for axes, place in zip(panels, places, strict=True):
        for label, members in lines.items():
            own = [(one, cells.get(place._replace(encoder=one.encoder))) for one in members]
            dosed = [(one.doses[place.task], of) for one, of in own if of is not None and place.task in one.doses]
            if points := sorted(dosed, key=lambda point: point[0]):
                entries.setdefault(label, _line(axes, metric, points, looks[label], label))
        for name in controls:
            if (control := cells.get(place._replace(encoder=name))) is not None:
                entries.setdefault(name, _across(axes, metric, control, looks[name]))
        if options.scale == "log":
            style.log(axes, "x")
        axes.set_xlabel("|delta| / |x|" if options.x == RATIO else options.x)
        if style.is_leftmost(axes):
            axes.set_ylabel(style.axis(metric.about))
    style.legend(figure, [entries[label] for label in looks if label in entries], [n for n in looks if n in entries])
    missing = sum(name._replace(encoder="") in places for name in there) - len(cells)
    style.note(figure, _note(metric, list(cells.values()), missing))
    return figure


def _names(there: Iterable[CellOf], axis: str) -> list[str]:
    """Return the names on an axis, each once, in the order of tables."""
    return list(dict.fromkeys(name for one in there if (name := getattr(one, axis)) is not None))


def _cells(there: Drawn, options: Options, results: Results) -> dict[CellOf, OfCell]:
    """Return what is to be drawn, task by task, then by strategy, attack and encoder, in the order of tables.

    Raises StoreError where a name is unknown, or nothing is done.
    """
    order = {axis: _names(there, axis) for axis in ("task", "finetune", "attack", "encoder")}
    for kind, asked in (("attack", options.attack), ("task", options.task)):
        if asked is not None and asked not in order[kind]:
            raise StoreError(unknown(kind, asked, set(order[kind])))

    def place(name: CellOf) -> list[int]:
        return [own.index(one) for axis, own in order.items() if (one := getattr(name, axis)) is not None]

    found = {
        name: there[name]
        for name in sorted(there, key=place)
        if options.attack in (None, name.attack)
        and options.task in (None, name.task)
        and there[name].value is not None
        and not results.flags.hiding(there[name].cell.jobs)
    }
    if not found:
        raise StoreError(
            "the figure dose has nothing to draw: no such attack is done, or all are withheld for their flags. Run the "
            "suite again, and draw it then."
        )
    return found


# ------------------------------------------------------------------------------------------------------------- doses


def _dosed(cells: Drawn, options: Options, results: Results) -> list[Dosed]:
    """Return the encoders whose trainings have the dose, each once."""
    jobs = {job.key: job for job in results.plan.jobs}
    found: dict[str, Dosed] = {}
    by_task: dict[str, dict[str | None, float]] = {}
    for name, one in cells.items():
        trainings = [job for run in one.cell.runs if (job := _training(run, jobs)) is not None]
        doses = [dose for job in trainings if (dose := _dose(job, options.x, results)) is not None]
        positive = options.scale == "linear" or all(dose > 0 for dose in doses)
        if doses and positive:
            own = by_task.setdefault(name.encoder, {})
            own.setdefault(name.task, math.fsum(doses) / len(doses))
            train = _train(trainings[0])
            found.setdefault(name.encoder, Dosed(name.encoder, own, _family(train, options.x), train.options))
    return list(found.values())


def _training(run: Run, jobs: Mapping[str, Job]) -> Job | None:
    """Return the job that trained the encoder of a number, or the nearest of its bases; None where none did."""
    below = jobs.get(run.job.needs.get("victim", ""), run.job)
    return jobs.get(below.needs.get("encoder", ""))


def _dose(training: Job, x: str, results: Results) -> float | None:
    """Return the dose of a training; None where it did not measure it and has no such option."""
    record = results.standing.records.get(training.key)
    series = record.health.series if record is not None and record.health is not None else ()
    measured = [point.values[x] for point in series if x in point.values]
    if measured:
        return math.fsum(measured) / len(measured)
    value = _train(training).options.get(x)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _family(train: TrainSpec, x: str) -> str:
    """Return what trainings on one line share.

    Of an option it is all other settings. Of a measured number it is which numbers the options set, and all settings
    that are none: a training that sets the step of an adversary is not joined to one that sets the size of noise.
    """

    def kept(key: str, value: Any) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if key == x or (number and x not in train.options) else value

    options = {key: kept(key, train.options[key]) for key in sorted(train.options)}
    return train.model_copy(update={"options": options, "seed": 0}).model_dump_json()


def _train(training: Job) -> TrainSpec:
    assert training.pretraining is not None and training.pretraining.encoder.train is not None
    return training.pretraining.encoder.train


def _lines(dosed: Sequence[Dosed]) -> dict[str, list[Dosed]]:
    """Return the members of each line by its label, from the smallest dose to the largest."""
    families: dict[str, list[Dosed]] = {}
    for one in dosed:
        families.setdefault(one.family, []).append(one)
    ordered = [sorted(members, key=lambda one: min(one.doses.values())) for members in families.values()]
    return {_label(members): members for members in ordered}


def _label(members: Sequence[Dosed]) -> str:
    """Return the encoder's own label; of several, their name and the range of what differs: `simcse[beta=1 to 3]`."""
    first, last = members[0], members[-1]
    if len(members) == 1:
        return first.encoder
    differing = [key for key in first.options if first.options[key] != last.options[key]]
    ranges = ",".join(f"{key}={first.options[key]} to {last.options[key]}" for key in differing)
    return f"{first.encoder.partition('[')[0]}[{ranges}]"


def _no_dose(cells: Iterable[OfCell], options: Options, results: Results) -> str:
    """Say that no training has the dose, and which names there are."""
    jobs = {job.key: job for job in results.plan.jobs}
    trainings = {job.key: job for one in cells for run in one.cell.runs if (job := _training(run, jobs)) is not None}
    if not trainings:
        return f"the figure dose shows trainings of encoders, and suite {results.plan.suite.name} trains none."
    names = {name for job in trainings.values() for name in _train(job).options}
    records = [results.standing.records.get(key) for key in trainings]
    healths = [record.health for record in records if record is not None and record.health is not None]
    names |= {name for health in healths for point in health.series for name in point.values}
    said = unknown("dose", options.x, names)
    return f"{said}{'' if said.endswith('?') else '.'} Choose one with --option x=NAME."


# ----------------------------------------------------------------------------------------------------------- drawing


def _title(there: Drawn, place: CellOf) -> str:
    several = {axis: len(_names(there, axis)) > 1 for axis in ("task", "finetune")}
    shown = [place.attack, place.task if several["task"] or place.attack is None else None]
    return ", ".join(filter(None, [*shown, place.finetune if several["finetune"] else None]))


def _value(metric: AnyMetric, of: OfCell) -> tuple[float, style.Interval]:
    """Return the metric and its 95% interval, shares in percent."""
    score = of.cell.score(of.number)
    assert score is not None, "only cells with a value are drawn"
    return style.on_axis(score, metric.about.percent)


def _line(axes: Axes, metric: AnyMetric, points: Sequence[tuple[float, OfCell]], index: int, label: str) -> Artist:
    """Draw the encoders of one line, and return what the legend shows."""
    values, intervals = zip(*(_value(metric, of) for _, of in points), strict=True)
    doses = [dose for dose, _ in points]
    single = [(dose, rate) for dose, of in points for rate in _trainings(metric, of)]
    for dose, value, (_, of) in zip(doses, values, points, strict=True):
        if _flagged(of):
            style.flag(axes, dose, value, index=index)
    _circles(axes, [dose for dose, _ in single], [rate for _, rate in single], index)
    line = {"index": index, "label": label, "joined": len(points) > 1}
    return style.points(axes, doses, values, y_intervals=intervals, **line)  # type: ignore[arg-type, return-value]


def _across(axes: Axes, metric: AnyMetric, of: OfCell, index: int) -> Artist:
    """Draw a control, and return what the legend shows."""
    value, interval = _value(metric, of)
    own = {key: look for key, look in style.look(index).items() if key in ("color", "linestyle")}
    single = _trainings(metric, of)
    _circles(axes, [_EDGE] * len(single), single, index, transform=axes.get_yaxis_transform())
    if _flagged(of):
        style.flag(axes, _EDGE, value, index=index, xycoords=axes.get_yaxis_transform())
    if interval is not None:
        axes.axhspan(*interval, color=own["color"], alpha=0.1, linewidth=0)
    return axes.axhline(value, linewidth=0.9, label=of.cell.encoder, **own)


def _flagged(of: OfCell) -> bool:
    number = of.cell.number(of.number)
    return number is not None and number.flagged


def _trainings(metric: AnyMetric, of: OfCell) -> list[float]:
    """Return the metric of each training, a mean over its fine-tuning seeds; none where there is only one."""
    draws, scale = of.cell.draws(of.number), 100 if metric.about.percent else 1
    return [scale * mean for _, mean in draws.means] if draws is not None and len(draws.means) > 1 else []


def _circles(axes: Axes, x: Sequence[float], y: Sequence[float], index: int, **how: Any) -> None:
    """Draw single trainings."""
    if y:
        colour = style.look(index)["color"]
        axes.scatter(x, y, s=9, facecolors="white", edgecolors=colour, linewidths=0.7, zorder=5, **how)


def _note(metric: AnyMetric, cells: Sequence[OfCell], missing: int) -> str:
    """Return the note below the figure: what n is, which intervals are shown, what is missing."""
    sizes = (score.n for of in cells if (score := of.cell.sampled(of.number)) is not None)
    said = f"n {spanned(sizes)}; bars and bands are 95% intervals"
    several = sum(of.cell.levelled(of.number) for of in cells)
    if several:
        which = "" if several == len(cells) else f" in the {several} cells that have several"
        said += f". They cover differences between seeds, too{which}"
    said += ". Small circles are single trainings." if any(_trainings(metric, of) for of in cells) else "."
    said += f" Not drawn, since they are not done or withheld: {missing} cells." if missing else ""
    partial = sum(of.cell.partial for of in cells)
    return said + (f" In {partial} cells some seeds are not done." if partial else "")
