"""Puts a report's data, scripts and styles into one HTML file; a site's index and encoders' pages, and sheets, too.

Templates escape whatever they insert. A report's policy allows no connection, and only the scripts whose hashes it
names. Data lies in elements that are no scripts, and page scripts insert it as text, never as markup. Styles may stand
inline, because charts set their own; they can load nothing either. A site's index has one script, which sorts its
leaderboard; encoders' pages have none, and their policy allows none. Their links are relative, so a site works from a
disk and below any address.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
from markupsafe import Markup

from rbench.errors import RbenchError
from rbench.report.data import Report
from rbench.system.console import harmless
from rbench.tables.formats import SIGNS, text_of
from rbench.tables.table import Number

if TYPE_CHECKING:
    from rbench.report.board import Column
    from rbench.report.sheet import Drawn
    from rbench.report.site import EncoderPage, Site

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
TRACK = 100.0
"""What the drawn intervals of encoders reach to, from 0 on: percent, or 100 times a correlation."""
VENDORED = ("d3.min.js", "plot.umd.min.js")
SCRIPTS = (
    "base.js",
    "state.js",
    "heat.js",
    "curves.js",
    "compare.js",
    "examples.js",
    "steps.js",
    "detail.js",
    "main.js",
)
"""The page's own scripts in the order in which they run. Each is a module; they share `globalThis.report`."""


class Script(NamedTuple):
    """A script of the page. `kind` is `module`, or empty for a library that defines a global name."""

    kind: str
    source: Markup

    @property
    def hash(self) -> str:
        return "sha256-" + base64.b64encode(hashlib.sha256(self.source.encode()).digest()).decode()


def page(report: Report, examples: str = "", home: str = "") -> str:
    """Return the page.

    Args:
        examples: as `rbench.report.examples.pack` makes them; empty: there are none.
        home: the address of the index of the site to which the page belongs; empty: it stands alone.
    """
    scripts = [*(Script("", own_file("vendor", name)) for name in VENDORED)]
    scripts += [Script("module", own_file("static", name)) for name in SCRIPTS]
    hashes = " ".join(f"'{one.hash}'" for one in scripts)
    return _rendered(
        "report.html.j2",
        report=report,
        policy=POLICY.replace("style-src", f"script-src {hashes}; style-src"),
        scripts=scripts,
        style=own_file("static", "report.css"),
        data=_data(report),
        examples=examples,
        home=home,
        vendored=json.loads(_read("vendor", "versions.json")),
    )


def index(site: Site) -> str:
    """Return the index of a site, with the script that sorts its leaderboard where it has one."""
    from rbench.report.board import RULE
    from rbench.report.pareto import plane
    from rbench.verdicts.claims import brief, sentence

    script = Script("module", own_file("static", "board.js"))
    values = _of_sites() | {"script": script if site.boards else None, "rule": RULE, "plane": plane}
    if site.boards:
        values["policy"] = POLICY.replace("style-src", f"script-src '{script.hash}'; style-src")
    hrefs = {one.label: one.href for one in site.encoders}
    called = {**site.readings.titles, **site.titles}
    return _rendered(
        "index.html.j2",
        site=site,
        sentence=sentence,
        brief=brief,
        text=text_of,
        hrefs=hrefs,
        names=lambda row: called.get(row.who.label, row.who.label),
        **values,
    )


def encoder(page: EncoderPage, home: str) -> str:
    """Return the page of an encoder.

    Args:
        page: the encoder.
        home: the way from the page to the folder of the index: `../`.
    """
    better = {"lowest": "lower", "highest": "higher"}
    return _rendered(
        "encoder.html.j2",
        page=page,
        home=home,
        bar=_bar,
        text=text_of,
        better=better,
        signs=SIGNS.values(),
        **_of_sites(),
    )


def sheet(drawn: Drawn, rater: int) -> str:
    """Return the page on which a rater judges texts. It keeps answers in the rater's browser, and exports them."""
    from rbench.report.sheet import closed, page_data
    from rbench.schema.judged import SCALE

    script = Script("module", own_file("static", "sheet.js"))
    return _rendered(
        "sheet.html.j2",
        rater=rater,
        scale=SCALE,
        closed=closed([*drawn.tasks.values()]),
        policy=POLICY.replace("style-src", f"script-src '{script.hash}'; style-src"),
        script=script,
        style=own_file("static", "report.css") + own_file("static", "sheet.css"),
        data=_as_json(page_data(drawn, rater)),
    )


def _of_sites() -> dict[str, Any]:
    style = own_file("static", "report.css") + own_file("static", "site.css")
    return {"policy": POLICY, "style": style, "script": None, "described": _described, "size": _size}


def _described(column: Column) -> str:
    """Say what a column of a leaderboard is."""
    about = column.about
    return f"{about.title}: {about.definition}; {about.best or 'no'} is {about.good}"


def _size(weights: int) -> str:
    """Write a number of weights: `22.7M`."""
    billions = weights >= 1_000_000_000
    return f"{weights / (1e9 if billions else 1e6):.3g}{'B' if billions else 'M'}"


def _bar(entry: Number) -> dict[str, float]:
    """Return where a number and its interval stand on a track, in percent of its length."""
    scale = 100 if entry.percent else 1
    ends = {"low": entry.low, "high": entry.high, "value": entry.value}
    return {name: round(min(max(scale * x / TRACK, 0), 1) * 100, 2) for name, x in ends.items() if x is not None}


def _rendered(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> jinja2.Environment:
    """Return what compiles each template once, which takes as long as the page of a small RUN."""
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read("templates", name)),
        autoescape=True,
        finalize=_harmless,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _harmless(value: Any) -> Any:
    """Return a value as a page shows it. Scripts and styles, which are Markup, stay as they are."""
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _data(report: Report) -> Markup:
    """Return a report as JSON that can stand in a script element: nothing in it ends the element or begins another."""
    wanted: dict[str, Any] = report.model_dump(
        mode="json", include={"names", "metrics", "curves", "series", "quality", "pairs", "sampled", "suite"}
    )
    return _as_json(wanted)


def _as_json(wanted: dict[str, Any]) -> Markup:
    text = json.dumps(wanted, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def own_file(folder: str, name: str) -> Markup:
    """Return a file of the report's that is inserted as it is. It must not end the element in which it stands."""
    text = _read(folder, name)
    if "</script" in text.lower() or "</style" in text.lower() or "<!--" in text:
        raise RbenchError(f"{folder}/{name} would end its own element in a page")
    return Markup(text)


def _read(folder: str, name: str) -> str:
    return (files("rbench.report") / folder / name).read_text(encoding="utf-8")
