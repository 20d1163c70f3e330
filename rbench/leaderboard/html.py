"""Puts what a site shows into HTML: its index with the leaderboard, and a page for each encoder.

The index has one script, which sorts its leaderboard; encoders' pages have none, and their policy allows none. Links
are relative, so a site works from a disk and below any address.
"""

from __future__ import annotations

from typing import Any

from rbench.leaderboard.board import RANK_RULE, BoardColumn
from rbench.leaderboard.pareto import draw_plane
from rbench.leaderboard.site import EncoderPage, Site
from rbench.report.html import POLICY, PageScript, read_own_file, render_template
from rbench.tables.formats import SIGN_MEANINGS, format_entry
from rbench.tables.table import Number
from rbench.verdicts.claims import claim_sentence, summarise_claim

LEADERBOARD = "rbench.leaderboard"
"""The package of the templates, the script and the style of a site."""
TRACK = 100.0
"""What the drawn intervals of encoders reach to, from 0 on: percent, or 100 times a correlation."""


def render_index(site: Site) -> str:
    """Return the index of a site, with the script that sorts its leaderboard where it has one."""
    script = PageScript("module", read_own_file("static", "board.js", LEADERBOARD))
    values = _shared_values() | {"script": script if site.boards else None, "rule": RANK_RULE, "plane": draw_plane}
    if site.boards:
        values["policy"] = POLICY.replace("style-src", f"script-src '{script.hash}'; style-src")
    hrefs = {encoder_page.label: encoder_page.href for encoder_page in site.encoders}
    titles_by_label = {**site.board_numbers.titles, **site.titles}
    return render_template(
        "index.html.j2",
        LEADERBOARD,
        site=site,
        sentence=claim_sentence,
        brief=summarise_claim,
        text=format_entry,
        hrefs=hrefs,
        names=lambda row: titles_by_label.get(row.who.label, row.who.label),
        **values,
    )


def render_encoder_page(page: EncoderPage, home: str) -> str:
    """Return the page of an encoder.

    Args:
        page: the encoder.
        home: the way from the page to the folder of the index: `../`.
    """
    better = {"lowest": "lower", "highest": "higher"}
    return render_template(
        "encoder.html.j2",
        LEADERBOARD,
        page=page,
        home=home,
        bar=_bar_place,
        text=format_entry,
        better=better,
        signs=SIGN_MEANINGS.values(),
        **_shared_values(),
    )


def _shared_values() -> dict[str, Any]:
    style = read_own_file("static", "report.css") + read_own_file("static", "site.css", LEADERBOARD)
    return {"policy": POLICY, "style": style, "script": None, "described": _describe_column, "size": _format_size}


def _describe_column(column: BoardColumn) -> str:
    """Say what a column of a leaderboard is."""
    about = column.about
    return f"{about.title}: {about.definition}; {about.best or 'no'} is {about.good}"


def _format_size(weights: int) -> str:
    """Write a number of weights: `22.7M`."""
    billions = weights >= 1_000_000_000
    return f"{weights / (1e9 if billions else 1e6):.3g}{'B' if billions else 'M'}"


def _bar_place(entry: Number) -> dict[str, float]:
    """Return where a number and its interval stand on a track, in percent of its length."""
    scale = 100 if entry.percent else 1
    ends = {"low": entry.low, "high": entry.high, "value": entry.value}
    return {
        name: round(min(max(scale * end_value / TRACK, 0), 1) * 100, 2)
        for name, end_value in ends.items()
        if end_value is not None
    }
