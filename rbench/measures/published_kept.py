"""Published shares of successes whose label people still see, by attack, with their sources: a prior and no result.

They are about other texts, victims and raters than a RUN's. So they have a table of their own, and are in no column of
judged numbers and in no product with ASR. Two studies of one attack differ by 17 points, which is how far such a prior
reaches.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rbench.errors import StoreError
from rbench.measures._context import Plain
from rbench.tables import Results, Table
from rbench.tables.table import Entry, Meaning, Number

TITLE = "Published shares of successes whose label people still see: a prior, not of this RUN"
FILE = Path(__file__).with_name("_published_kept.json")

Options = Plain


def table(options: Plain, results: Results) -> Table:
    """Make the table. Raises StoreError where nothing is published for the attacks of the RUN."""
    published = json.loads(FILE.read_text(encoding="utf-8"))
    rows: list[tuple[Entry, ...]] = []
    cells: list[dict[str, Any]] = []
    used = []
    attacks = dict.fromkeys((job.parts[-1], job.attacking.attack.name) for job in results.plan.attacks if job.attacking)
    for label, attack in attacks:
        for one in (rate for rate in published["rates"] if rate["attack"] == attack):
            used += [one["source"]] if one["source"] not in used else []
            numbers = [Number(one[name], percent=True) for name in ("kept", "unperturbed")]
            rows.append((label, *numbers, one["texts"], one["raters"], used.index(one["source"]) + 1))
            cells.append({**one, "attack": label, "published": True, "source": published["sources"][one["source"]]})
    if not rows:
        raise StoreError(
            f"{results.root}: no published share is known here for its attacks. Ask people: rbench judge export"
        )
    sources = tuple(f"Source {i + 1}: {published['sources'][name]}." for i, name in enumerate(used))
    return Table(
        metric="published_kept",
        layout="paper",
        header=("Attack", "Published: label still seen", "Of originals", "Texts", "Raters", "Source"),
        rows=tuple(rows),
        cells=tuple(cells),
        notes=(
            "A prior: of other texts, victims and raters. What people say of this RUN is in the table --metric judged, "
            "and these shares enter none of its numbers.",
            *sources,
        ),
        brief=("Nothing here is about this RUN.", *sources),
        about=Meaning(TITLE, "share of raters who see the label in a text that fell", undefined="not published"),
    )
