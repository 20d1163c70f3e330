"""Puts data, scripts and styles into one HTML file: reports and sheets, and what the leaderboard shows.

Templates escape whatever they insert. A report's policy allows no connection, and only the scripts whose hashes it
names. Data lies in elements that are no scripts, and page scripts insert it as text, never as markup. Styles may stand
inline, because charts set their own; they can load nothing either.
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

from rbench.report.data import RunReport
from rbench.system.console import harmless

if TYPE_CHECKING:
    from rbench.report.sheet import DrawnSheet

REPORT = "rbench.report"
"""The package whose templates, scripts and styles a page is made of, unless it says another."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
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


class PageScript(NamedTuple):
    """A script of the page. `kind` is `module`, or empty for a library that defines a global name."""

    kind: str
    source: Markup

    @property
    def hash(self) -> str:
        return "sha256-" + base64.b64encode(hashlib.sha256(self.source.encode()).digest()).decode()


def render_page(report: RunReport, examples: str = "", home: str = "") -> str:
    """Return the page.

    Args:
        examples: as `rbench.report.examples.pack_examples` makes them; empty: there are none.
        home: the address of the index of the site to which the page belongs; empty: it stands alone.
    """
    scripts = [*(PageScript("", read_own_file("vendor", name)) for name in VENDORED)]
    scripts += [PageScript("module", read_own_file("static", name)) for name in SCRIPTS]
    # The hash of each script's text: the policy lets a browser run these and nothing else.
    hashes = " ".join(f"'{script.hash}'" for script in scripts)
    return render_template(
        "report.html.j2",
        report=report,
        policy=POLICY.replace("style-src", f"script-src {hashes}; style-src"),
        scripts=scripts,
        style=read_own_file("static", "report.css"),
        data=_report_data(report),
        examples=examples,
        home=home,
        vendored=json.loads(_read_package_file(REPORT, "vendor", "versions.json")),
    )


def render_sheet(drawn_sheet: DrawnSheet, rater: int) -> str:
    """Return the page on which a rater judges texts. It keeps answers in the rater's browser, and exports them."""
    from rbench.report.sheet import list_closed_tasks, page_data
    from rbench.schema.judged import SCALE

    script = PageScript("module", read_own_file("static", "sheet.js"))
    return render_template(
        "sheet.html.j2",
        rater=rater,
        scale=SCALE,
        closed=list_closed_tasks([*drawn_sheet.tasks.values()]),
        policy=POLICY.replace("style-src", f"script-src '{script.hash}'; style-src"),
        script=script,
        style=read_own_file("static", "report.css") + read_own_file("static", "sheet.css"),
        data=_as_json(page_data(drawn_sheet, rater)),
    )


def render_template(template: str, package: str = REPORT, **values: Any) -> str:
    """Return a page: a template of a package of rbench, filled in. It escapes all values but those that are Markup."""
    return _environment(package).get_template(template).render(**values)


@cache
def _environment(package: str) -> jinja2.Environment:
    """Return what compiles each template once, which takes as long as the page of a small RUN."""
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read_package_file(package, "templates", name)),
        autoescape=True,
        finalize=_make_harmless,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _make_harmless(value: Any) -> Any:
    """Return a value as a page shows it. Scripts and styles, which are Markup, stay as they are."""
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _report_data(report: RunReport) -> Markup:
    """Return a report as JSON that can stand in a script element: nothing in it ends the element or begins another."""
    wanted: dict[str, Any] = report.model_dump(
        mode="json", include={"names", "metrics", "curves", "series", "quality", "pairs", "sampled", "suite"}
    )
    return _as_json(wanted)


def _as_json(wanted: dict[str, Any]) -> Markup:
    text = json.dumps(wanted, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # Escapes of JSON: a script reads the same text, and HTML sees neither a tag nor an entity.
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def read_own_file(folder: str, name: str, package: str = REPORT) -> Markup:
    """Return a file of a package that is inserted as it is. It must not end the element in which it stands."""
    return Markup(_read_package_file(package, folder, name))


def _read_package_file(package: str, folder: str, name: str) -> str:
    return (files(package) / folder / name).read_text(encoding="utf-8")
