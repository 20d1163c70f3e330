"""Puts a report's data, scripts and styles into one HTML file.

Templates escape whatever they insert. The page's policy allows no connection, and only the scripts whose hashes it
names. Data lies in elements that are no scripts, and page scripts insert it as text, never as markup. Styles may stand
inline, because charts set their own; they can load nothing either.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from rbench.errors import RbenchError
from rbench.report.data import Report
from rbench.system.escaping import harmless

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
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read("templates", name)),
        autoescape=True,
        finalize=shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    hashes = " ".join(f"'{one.hash}'" for one in scripts)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    return environment.get_template("report.html.j2").render(
        report=report,
        policy=policy,
        scripts=scripts,
        style=own_file("static", "report.css"),
        data=_data(report),
        examples=examples,
        home=home,
        vendored=json.loads(_read("vendor", "versions.json")),
    )


def shown(value: Any) -> Any:
    """Return a value as the page shows it. Scripts and styles, which are Markup, stay as they are."""
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _data(report: Report) -> Markup:
    """Return a report as JSON that can stand in a script element: nothing in it ends the element or begins another."""
    wanted: dict[str, Any] = report.model_dump(
        mode="json", include={"names", "metrics", "curves", "series", "quality", "pairs", "sampled", "suite"}
    )
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
