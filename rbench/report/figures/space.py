"""t-SNE plots of texts and adversarial texts (ADCL, Figures 3 to 6): circles, triangles, each pair joined.

A panel is the vector space of a victim. The places come from the job of the measure `space`, which chose the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rbench.errors import StoreError
from rbench.measures import MeasuredJob, MeasuredRow, measured
from rbench.measures._stored import attacks_behind
from rbench.report.figures import style
from rbench.schema import Count, Positive, Strict
from rbench.tables import Results
from rbench.tables.table import FLAGGED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "t-SNE of texts and adversarial texts in each victim's vector space (ADCL, Figures 3 to 6)"
REFERENCE = "meng2022selfsupervised"
COLUMNS = 4
"""Most panels side by side: the four victims of the paper."""
_LEAST = 1.2
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


def draw(options: Options, results: Results) -> Figure:
    """Draw a panel for each victim of one job. Raises StoreError where no job with these options has places."""
    one = _chosen(options, results)
    spaces: dict[tuple[str, str], list[MeasuredRow]] = {}
    for row in one.rows:
        of = (row.names["encoder"], row.names["finetune"])
        if row.names["kind"] == "point" and (not options.encoders or of[0] in options.encoders):
            spaces.setdefault(of, []).append(row)
    if not spaces:
        raise StoreError(
            f"{one.job.name} has no places to draw: too few texts fooled its victims, `points` is 0, or it has none of "
            f"the encoders {', '.join(options.encoders) or 'of the suite'}."
        )
    suite = results.plan.suite
    order = [(encoder, choice.label) for choice in suite.finetune for encoder in suite.encoders]
    shown = sorted(spaces, key=lambda of: order.index(of) if of in order else len(order))
    attacks = attacks_behind(results.plan, one.job)
    titles = []
    for victim in shown:
        flagged = results.flags.of(job for of, job in attacks.items() if of == victim)
        n = len(spaces[victim][: options.pairs])
        titles.append(f"{', '.join(victim)} (n={n}) {FLAGGED if flagged else ''}".rstrip())
    wide, width = style.side_by_side(len(shown), COLUMNS, _LEAST)
    height = width / wide + (0.1 if style.is_printed() else 0.25)
    above = titles if style.is_printed() else [""] * len(shown)
    figure, panels = style.panels(above, columns=COLUMNS, height=height, least=_LEAST)
    for axes, victim, title in zip(panels, shown, titles, strict=True):
        _panel(axes, spaces[victim][: options.pairs])
        style.panel_title(axes, title, fontsize=7)
    style.note(figure, "")
    style.caption("Circles are texts, triangles adversarial texts; a dotted line joins each pair. n is that of pairs.")
    figure.suptitle(style.named(f"{one.spec.task.name}, {one.spec.attack}, seed {one.job.seed}"), fontsize=8)
    return figure


def _chosen(options: Options, results: Results) -> MeasuredJob:
    wanted = {"task": options.task, "attack": options.attack, "fooled": options.fooled, "seed": options.seed}
    for one in measured(results, "space"):
        has = {"task": one.spec.task.name, "attack": one.spec.attack, "seed": one.job.seed}
        has["fooled"] = one.options["fooled"]
        if all(value in (None, has[name]) for name, value in wanted.items()):
            return one
    said = ", ".join(f"{name} {value}" for name, value in wanted.items() if value is not None)
    raise StoreError(
        f"{results.root} has no finished job of space with {said}; `rbench table RUN --metric space` lists them."
    )


def _panel(axes: Axes, points: Sequence[MeasuredRow]) -> None:
    """Draw the pairs: a circle and a triangle of one colour, joined by a dotted line. Axes have no unit."""
    for i, row in enumerate(points):
        x, y, adversarial_x, adversarial_y = (row.numbers[name] or 0.0 for name in _PLACES)
        colour = style.COLOURS[i % len(style.COLOURS)]
        axes.plot([x, adversarial_x], [y, adversarial_y], ":", color=colour, linewidth=0.7)
        axes.plot([x], [y], "o", color=colour, markersize=3)
        axes.plot([adversarial_x], [adversarial_y], "^", color=colour, markersize=3)
    axes.set_xlim(-0.05, 1.05)
    axes.set_ylim(-0.05, 1.05)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])


_PLACES = ("x", "y", "adversarial_x", "adversarial_y")
