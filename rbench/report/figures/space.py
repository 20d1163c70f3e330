"""t-SNE plots of texts and adversarial texts (ADCL, Figures 3 to 6): circles, triangles, each pair joined.

A panel is the vector space of a victim. The places come from the job of the measure `space`, which chose the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rbench.errors import StoreError
from rbench.measures import MeasuredJob, MeasuredRow, measured
from rbench.measures._stored import attacks_behind
from rbench.report.figures import RunFigure, style
from rbench.schema import Count, Positive, Strict
from rbench.tables import Results
from rbench.tables.table import FLAGGED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COLUMNS = 4
"""Most panels side by side: the four victims of the paper."""
_LEAST_WIDTH = 1.2
"""The least width of a panel, which has no numbers beside it, in inches."""


class Options(Strict):
    """What is drawn. A choice that is left out is the first of the suite that is done."""

    task: str | None = None
    attack: str | None = None
    """The attack's label."""
    fooled: str | None = None
    """The texts: the option `fooled` of the measure."""
    seed: Count | None = None
    """The seed of fine-tuning: each seed has victims, and so vector spaces, of its own."""
    encoders: tuple[str, ...] = ()
    """Encoders to show; empty: all."""
    pairs: Positive = 50
    """Most pairs to draw."""


class SpaceFigure(RunFigure[Options]):
    title = "t-SNE of texts and adversarial texts in each victim's vector space (ADCL, Figures 3 to 6)"
    reference = "meng2022selfsupervised"

    def draw(self, options: Options, results: Results) -> Figure:
        """Draw a panel for each victim of one job. Raises StoreError where no job with these options has places."""
        measured_job = _find_job(options, results)
        spaces: dict[tuple[str, str], list[MeasuredRow]] = {}
        for row in measured_job.rows:
            victim_of_row = (row.names["encoder"], row.names["finetune"])
            if row.names["kind"] == "point" and (not options.encoders or victim_of_row[0] in options.encoders):
                spaces.setdefault(victim_of_row, []).append(row)
        suite = results.plan.suite
        order = [(encoder, choice.label) for choice in suite.finetune for encoder in suite.encoders]
        victims = sorted(
            spaces, key=lambda victim_of_row: order.index(victim_of_row) if victim_of_row in order else len(order)
        )
        attacks = attacks_behind(results.plan, measured_job.job)
        titles = []
        for victim in victims:
            flagged = results.flags.of(job for victim_of_row, job in attacks.items() if victim_of_row == victim)
            pair_count = len(spaces[victim][: options.pairs])
            titles.append(f"{', '.join(victim)} (n={pair_count}) {FLAGGED if flagged else ''}".rstrip())
        columns, width = style.side_by_side(len(victims), MOST_COLUMNS, _LEAST_WIDTH)
        height = width / columns + (0.1 if style.is_printed() else 0.25)
        panel_titles = titles if style.is_printed() else [""] * len(victims)
        figure, panels = style.panels(panel_titles, columns=MOST_COLUMNS, height=height, least=_LEAST_WIDTH)
        for axes, victim, title in zip(panels, victims, titles, strict=True):
            _draw_pairs(axes, spaces[victim][: options.pairs])
            style.panel_title(axes, title, fontsize=7)
        style.note(figure, "")
        style.caption(
            "Circles are texts, triangles adversarial texts; a dotted line joins each pair. n is that of pairs."
        )
        figure.suptitle(
            style.named(f"{measured_job.spec.task.name}, {measured_job.spec.attack}, seed {measured_job.job.seed}"),
            fontsize=8,
        )
        return figure


def _find_job(options: Options, results: Results) -> MeasuredJob:
    wanted = {"task": options.task, "attack": options.attack, "fooled": options.fooled, "seed": options.seed}
    for measured_job in measured(results, "space"):
        of_job = {
            "task": measured_job.spec.task.name,
            "attack": measured_job.spec.attack,
            "seed": measured_job.job.seed,
        }
        of_job["fooled"] = measured_job.options["fooled"]
        if all(value in (None, of_job[name]) for name, value in wanted.items()):
            return measured_job
    description = ", ".join(f"{name} {value}" for name, value in wanted.items() if value is not None)
    raise StoreError(
        f"{results.root} has no finished job of space with {description}; `rbench table RUN --metric space` lists them."
    )


def _draw_pairs(axes: Axes, points: Sequence[MeasuredRow]) -> None:
    """Draw the pairs: a circle and a triangle of one colour, joined by a dotted line. Axes have no unit."""
    for i, row in enumerate(points):
        x, y, adversarial_x, adversarial_y = (row.numbers[name] or 0.0 for name in _COORDINATES)
        colour = style.COLOURS[i % len(style.COLOURS)]
        axes.plot([x, adversarial_x], [y, adversarial_y], ":", color=colour, linewidth=0.7)
        axes.plot([x], [y], "o", color=colour, markersize=3)
        axes.plot([adversarial_x], [adversarial_y], "^", color=colour, markersize=3)
    axes.set_xlim(-0.05, 1.05)
    axes.set_ylim(-0.05, 1.05)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])


_COORDINATES = ("x", "y", "adversarial_x", "adversarial_y")
