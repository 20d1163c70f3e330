"""Tests what all figures share: colours, markers and lines; legends and bars; files that can be compared."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from rbench.errors import StoreError
from rbench.report.figures import style

NAME = "a<b> & $c$_1"
SCRIPT = """
import sys
from tests.report.figures.test_style import digests
sys.stdout.write(str(digests()))
assert "matplotlib.pyplot" not in sys.modules
"""


def drawn() -> Figure:
    with style.applied():
        figure, (left, _, _) = style.panels([NAME, "two", "three"])
        handles = [
            style.points(left, [1, 2], [i, i + 1], index=i, label=f"s{i}", y_intervals=[(i - 1, i + 1), None])
            for i in range(3)
        ]
        style.band(left, [1, 2], [0, 1], [2, 3], index=1)
        style.legend(figure, handles, [NAME, "pwws", "minilm"])
        style.note(figure, "n is 10. " * 20)
    return figure


def written(fmt: str) -> bytes:
    buffer = io.BytesIO()
    style.save(drawn(), buffer, fmt)
    return buffer.getvalue()


@cache
def first_written(fmt: str) -> bytes:
    """What is written first, with the settings that this process has from the start."""
    return written(fmt)


def digests() -> dict[str, str]:
    return {fmt: hashlib.sha256(first_written(fmt)).hexdigest() for fmt in style.FORMATS}


def test_series_differ_in_colour_marker_and_line() -> None:
    for channel in ("color", "marker", "linestyle"):
        assert len({style.look(i)[channel] for i in range(6)}) == 6
    points = {(look["color"], look["marker"], look["fillstyle"]) for look in map(style.look, range(42))}
    lines = {(look["color"], look["linestyle"]) for look in map(style.look, range(42))}
    assert len(points) == len(lines) == 42


def test_colours_are_told_apart_without_red_or_green_cones() -> None:
    """Viénot, Brettel and Mollon (1999) for dichromats; the distance is CIE 1976 in L*a*b*. 10 is plain to see."""
    to_lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    blind = {
        "protan": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
        "deutan": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
    }
    colours = np.array([[int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)] for code in style.COLOURS])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    for matrix in (np.eye(3), *blind.values()):
        seen = np.clip(linear @ (np.linalg.inv(to_lms) @ matrix @ to_lms).T, 0, 1)
        labs = _lab(seen)
        for i, j in zip(*np.triu_indices(len(labs), 1), strict=True):
            assert np.linalg.norm(labs[i] - labs[j]) > 10, (style.COLOURS[i], style.COLOURS[j])


def _lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.maximum(linear @ to_xyz.T / (to_xyz @ np.ones(3)), 0.008856)).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def test_a_figure_without_panels_is_refused() -> None:
    with style.applied(), pytest.raises(StoreError):
        style.panels([])


def test_bars_end_where_the_intervals_end() -> None:
    with style.applied():
        _, (axes,) = style.panels([""])
        intervals = [(0.5, 4.0), None, (2.0, 3.5)]
        made = style.points(axes, [1, 2, 3], [2, 5, 3], index=0, label="s", y_intervals=intervals)
    assert made.has_yerr and not made.has_xerr
    (bars,) = made[2]
    ends = [tuple(segment[:, 1]) for segment in map(np.asarray, bars.get_segments()) if len(segment)]
    assert ends == [(0.5, 4.0), (2.0, 3.5)], "a point without an interval has no bar"


@pytest.mark.parametrize("labels", [["a", "b"], [f"robustsentembed-minilm-mlm-{i}" for i in range(14)]])
def test_the_legend_hides_no_panel_and_takes_none_of_its_height(labels: list[str]) -> None:
    with style.applied():
        figure, (axes,) = style.panels(["title"])
        handles = [axes.plot([1, 2], [i, i], **style.look(i))[0] for i, _ in enumerate(labels)]
        legend = style.legend(figure, handles, labels)
        style.note(figure, "n is 10. " * 30)
        figure.draw_without_rendering()
        box = legend.get_window_extent()
        assert not box.overlaps(axes.get_tightbbox())
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and axes.get_window_extent().height > 0.9 * figure.dpi
        (note,) = (text for text in figure.texts if text.get_text().startswith("n is"))
        assert not note.get_window_extent().overlaps(axes.get_tightbbox())


def test_panels_without_a_title_to_show_are_not_there() -> None:
    figure, panels = style.panels(["one", "two", "three"], columns=2)
    assert [axes.get_title() for axes in panels] == ["one", "two", "three"] and figure.axes == panels


@pytest.mark.parametrize("fmt", ["svg", "pdf", pytest.param("png", marks=pytest.mark.nightly)])
def test_the_same_figure_makes_the_same_bytes_whatever_the_users_settings(fmt: str) -> None:
    first = first_written(fmt)
    with matplotlib.rc_context({"font.size": 20, "svg.fonttype": "path", "text.parse_math": True, "savefig.dpi": 50}):
        assert written(fmt) == first
        assert matplotlib.rcParams["font.size"] == 20, "the user's settings come back"


@pytest.mark.nightly
def test_other_processes_make_the_same_bytes_without_pyplot() -> None:
    other = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert other.stdout == str(digests()), other.stderr


def test_files_open_and_say_no_date() -> None:
    svg = first_written("svg").decode()
    texts = [
        "".join(node.itertext()).strip() for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("text")
    ]
    assert texts.count(NAME) == 2, "the title and the legend, as text with its < and $"
    assert "<dc:date>" not in svg
    assert imread(io.BytesIO(first_written("png"))).shape[1] == round(style.PAGE * 300)
    pdf = first_written("pdf")
    assert pdf.startswith(b"%PDF-") and pdf.rstrip().endswith(b"%%EOF") and b"CreationDate" not in pdf
    assert not re.search(rb"/Subtype /Type3\b", pdf), "fonts are embedded as TrueType"


@pytest.mark.parametrize(
    ("values", "shown"), [((20, 3000), {"100", "1000"}), ((20, 2e6), {"1000000"}), ((0.19, 0.36), {"0.2", "0.3"})]
)
def test_numbers_of_a_logarithmic_axis_are_plain(values: tuple[float, float], shown: set[str]) -> None:
    with style.applied():
        figure, (axes,) = style.panels([""])
        axes.plot([1, 2], values)
        style.log(axes)
        figure.draw_without_rendering()
        said = {label.get_text() for minor in (False, True) for label in axes.get_yticklabels(minor=minor)}
    assert shown <= said and not any(letter in text for text in said for letter in "$e")


def test_titles_of_panels_do_not_run_into_each_other() -> None:
    with style.applied():
        figure, panels = style.panels(
            ["short", "adcl-minilm[batch_size=32,steps=25], adversarial[candidates=10] (n=43)"] * 2, columns=4
        )
        figure.draw_without_rendering()
        boxes = [axes.title.get_window_extent() for axes in panels]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert panels[0].get_title() == "short" and "".join(panels[1].get_title().split("\n")).endswith("(n=43)")


def test_titles_stand_for_names_and_not_for_parts_of_them() -> None:
    known = {"minilm": "all-MiniLM", "minilm-mlm": "MLM", "a[b=1]": "A [b=1]", "inside": "A search", "sst2": "SST-2"}
    with style.applied(known):
        assert style.named("minilm, sst2") == "all-MiniLM, SST-2"
        assert style.named("simcse-minilm, minilm-mlm, a[b=1]") == "simcse-minilm, MLM, A [b=1]"
        assert style.named("inside sst2", sentence=True) == "inside SST-2"
    assert style.named("minilm") == "minilm"


def test_long_names_are_broken_between_their_options() -> None:
    broken = style.lines("adcl-minilm[batch_size=32,steps=25]", 20)
    assert broken.split("\n") == ["adcl-minilm[", "batch_size=32,", "steps=25]"]
    assert style.lines("two words", 20) == "two words"
