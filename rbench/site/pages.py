"""Puts a site's index and its encoders' pages into HTML files.

Templates escape whatever they insert. The pages have no script, and their policy allows none, nor any connection.
Light and dark follow the system. Links are relative, so a site works from a disk and below any address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from rbench.report.html import own_file, shown
from rbench.site.data import EncoderPage, Point, Site

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
TRACK = (0.0, 100.0)
"""What the drawn intervals reach from and to: percent, or 100 times a correlation."""


def index(site: Site) -> str:
    """Return the index of a site."""
    return _environment().get_template("index.html.j2").render(site=site, **_shared())


def encoder(page: EncoderPage, home: str) -> str:
    """Return the page of an encoder.

    Args:
        page: the encoder.
        home: the way from the page to the folder of the index: `../`.
    """
    return _environment().get_template("encoder.html.j2").render(page=page, home=home, bar=_bar, **_shared())


def unique(names: Iterable[str]) -> list[str]:
    """Return a file name for each name, without its ending: letters, digits and `._-`, which no address must quote.

    >>> unique(["adcl[steps=20]", "adcl-steps-20", "run", "Run"])
    ['adcl-steps-20', 'adcl-steps-20-2', 'run', 'Run-2']
    """
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:100] or "unnamed"
        free, number = stem, 2
        while free.lower() in taken:  # some file systems do not tell capitals apart
            free, number = f"{stem}-{number}", number + 1
        taken.add(free.lower())
        found.append(free)
    return found


def _bar(point: Point) -> dict[str, float]:
    """Return where a number and its interval stand on a track, in percent of its length."""
    start, end = TRACK

    def at(x: float) -> float:
        return round(min(max((x - start) / (end - start), 0), 1) * 100, 2)

    ends = {"low": point.low, "high": point.high, "value": point.value}
    return {name: at(x) for name, x in ends.items() if x is not None}


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read("templates", name)),
        autoescape=True,
        finalize=shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shared() -> dict[str, Any]:
    return {"policy": POLICY, "style": own_file("static", "report.css") + Markup(_read("static", "site.css"))}


def _read(folder: str, name: str) -> str:
    return (files("rbench.site") / folder / name).read_text(encoding="utf-8")
