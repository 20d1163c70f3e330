"""Figures in a page: drawn anew, whatever lies in the RUN; as images, which run nothing."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path

from rbench import api
from rbench.errors import StoreError
from rbench.report.collect import DrawnFigure, embed_figures
from rbench.report.data import PageFact
from tests.report.conftest import SCRIPT, write_run

IMAGE = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
THEIRS = '''"""Theirs."""

from matplotlib.figure import Figure

from rbench.report.figures import RunFigure
from rbench.schema.extension import NoOptions


class Theirs(RunFigure[NoOptions]):
    def draw(self, options, results):
        return Figure()
'''


def images(file: Path) -> list[tuple[str, bytes]]:
    """The alternative text and the content of each image of a page."""
    found = re.findall(r'<img alt="(.*?)" src="data:image/svg\+xml;base64,(.*?)">', file.read_text())
    return [(html.unescape(alt), base64.b64decode(uri)) for alt, uri in found]


def test_a_figure_that_cannot_be_made_or_has_no_room_is_named() -> None:
    def fails() -> DrawnFigure:
        raise StoreError("no numbers")

    missing: list[PageFact] = []
    figures = [("a", lambda: DrawnFigure("A", b"x" * 30)), ("b", fails), ("c", lambda: DrawnFigure("C", b"x" * 30))]
    (found,) = embed_figures(figures, missing, most_bytes=120)
    assert (found.label, found.title) == ("a", "A") and "Figure a: A" in found.alt
    assert base64.b64decode(found.uri.partition(",")[2]) == b"x" * 30
    assert [one.name for one in missing] == ["figure b", "figure c"]
    assert missing[0].value == "no numbers" and "no room" in missing[1].value


def test_a_file_in_the_run_is_not_shown_and_a_figure_is_an_image_and_no_markup(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", figures=({"name": "queries"},), claims=())
    (file,) = api.report(run)
    drawn = images(file)
    (run / "figures").mkdir()
    (run / "figures" / "queries.svg").write_bytes(IMAGE)
    (file,) = api.report(run)
    assert images(file) == drawn, "a file of the RUN may have been edited"
    ((alt, content),) = drawn
    assert b"<svg" in content and "queries" in alt and "RobustSentEmbed, Figure 2" in alt
    body = file.read_text().partition('id="data"')[0]
    assert SCRIPT not in body and "<svg" not in body


def test_another_ones_figure_is_drawn_where_it_is_found_and_may_show_texts(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", figures=({"name": "queries"}, {"name": "theirs"}), claims=())
    (tmp_path / "mine" / "figures").mkdir(parents=True)
    (tmp_path / "mine" / "figures" / "theirs.py").write_text(THEIRS)
    mine = [tmp_path / "mine"]
    (file,) = api.report(run, include=mine)
    (ours, theirs) = images(file)
    assert b"<svg" in ours[1] and b"<svg" in theirs[1] and "Theirs" in theirs[0]
    (file,) = api.report(run, tmp_path / "open.html", texts=False, include=mine)
    ((alt, _),) = images(file)
    assert "queries" in alt and "figure theirs" in file.read_text() and "may show texts" in file.read_text()
    (run / "figures").mkdir()
    (run / "figures" / "theirs.svg").write_bytes(IMAGE)
    (file,) = api.report(run)
    assert len(images(file)) == 1 and "unknown figure" in html.unescape(file.read_text())


def test_a_page_without_figures_has_no_heading_for_them(page_file: Path) -> None:
    assert "Figures of the suite" not in page_file.read_text()
