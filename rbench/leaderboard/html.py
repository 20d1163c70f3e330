"""Puts what a site shows into HTML: its index with the leaderboard, and a page for each encoder.

The index has one script, which sorts its leaderboard; encoders' pages have none, and their policy allows none. Links
are relative, so a site works from a disk and below any address.
"""

from __future__ import annotations

from typing import Any

from rbench.leaderboard.board import RULE, Column
from rbench.leaderboard.pareto import plane
from rbench.leaderboard.site import EncoderPage, Site
from rbench.report.html import POLICY, Script, own_file, rendered
from rbench.tables.formats import SIGNS, text_of
from rbench.tables.table import Number
from rbench.verdicts.claims import brief, sentence

LEADERBOARD = "rbench.leaderboard"
"""The package of the templates, the script and the style of a site."""
TRACK = 100.0
"""What the drawn intervals of encoders reach to, from 0 on: percent, or 100 times a correlation."""


def index(site: Site) -> str:
    """Return the index of a site, with the script that sorts its leaderboard where it has one."""
    script = Script("module", own_file("static", "board.js", LEADERBOARD))
    values = _of_sites() | {"script": script if site.boards else None, "rule": RULE, "plane": plane}
    if site.boards:
        values["policy"] = POLICY.replace("style-src", f"script-src '{script.hash}'; style-src")
    hrefs = {one.label: one.href for one in site.encoders}
    called = {**site.readings.titles, **site.titles}
    return rendered(
        "index.html.j2",
        LEADERBOARD,
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
    return rendered(
        "encoder.html.j2",
        LEADERBOARD,
        page=page,
        home=home,
        bar=_bar,
        text=text_of,
        better=better,
        signs=SIGNS.values(),
        **_of_sites(),
    )


def _of_sites() -> dict[str, Any]:
    style = own_file("static", "report.css") + own_file("static", "site.css", LEADERBOARD)
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
