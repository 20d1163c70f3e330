"""Published shares of successes whose label people still see, by attack, with their sources: a prior and no result.

They are about other texts, victims and raters than a RUN's. So they have a table of their own, and are in no column of
judged numbers and in no product with ASR. Two studies of one attack differ by 33 points, which is how far such a prior
reaches.

Where a study published its ratings, the shares are computed of them as `valid_asr` counts: of the texts that fell
alone, each by the share of its raters who see the label. `_published_kept.json` has what that needs: `[raters, of these
who see the label, texts]`. Where it printed a share alone, that stands here with the study's own definition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rbench.measures import Measure
from rbench.schema.extension import NoOptions
from rbench.tables import Results, Table
from rbench.tables.table import Meaning, Number, TableEntry

TITLE = "Published shares of successes whose label people still see: a prior, not of this RUN"
RATES_FILE = Path(__file__).with_name("_published_kept.json")
NUMBERS = {
    "kept": "Published: label still seen",
    "of_ratings": "Of all ratings",
    "unperturbed": "Seen in originals",
}


class PublishedKept(Measure[NoOptions]):
    """Published shares of successes whose label people still see, by attack: a prior and no result."""

    title = TITLE

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table of the shares that are published for the attacks of the RUN."""
        published = json.loads(RATES_FILE.read_text(encoding="utf-8"))
        rows: list[tuple[TableEntry, ...]] = []
        cells: list[dict[str, Any]] = []
        used: list[str] = []
        attacks = dict.fromkeys(
            (job.parts[-1], job.attacking.attack.name) for job in results.plan.attacks if job.attacking
        )
        for label, attack in attacks:
            for rate in (rate for rate in published["rates"] if rate["attack"] == attack):
                used += [rate["source"]] if rate["source"] not in used else []
                shares, source = compute_shares(rate), published["sources"][rate["source"]]
                numbers = [Number(shares[name], percent=True) for name in NUMBERS]
                counts = [shares[name] if shares[name] is not None else "not stated" for name in ("texts", "ratings")]
                rows.append((label, *numbers, rate["data"], *counts, shares["raters"], used.index(rate["source"]) + 1))
                program_row = {"attack": label, "data": rate["data"], **shares, "published": True}
                cells.append({**program_row, "source": source["from"], "counted": source["counted"]})
        sources = tuple(
            f"Source {i + 1}: {published['sources'][name]['from']}. Counted: {published['sources'][name]['counted']}."
            for i, name in enumerate(used)
        )
        return Table(
            metric="published_kept",
            layout="paper",
            header=("Attack", *NUMBERS.values(), "Data", "Texts", "Ratings", "Raters a text", "Source"),
            rows=tuple(rows),
            cells=tuple(cells),
            notes=(
                "A prior: of other texts, victims and raters. What people say of this RUN is in the table --metric "
                "judged, and these shares enter none of its numbers.",
                "Texts: successes of the attack alone. Label still seen: of each text the share of its raters who see "
                "the label, mean over texts. Of all ratings: the same share of all ratings together. Seen in "
                "originals: mean over the originals of these texts, the most that can be expected.",
                *sources,
            ),
            brief=("Nothing here is about this RUN.", *sources),
            about=Meaning(
                TITLE,
                "share of a text's raters who see the label, mean over the texts that fell; else as the source counts",
                undefined="not published",
            ),
        )


def compute_shares(rate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the NUMBERS of a rate of the file, with its `texts`, `ratings` and `raters`; None where nobody says."""
    # A study that printed a share alone; its number stands as it is printed.
    if "changed" not in rate:
        not_stated = dict.fromkeys((*NUMBERS, "texts", "ratings"))
        return {**not_stated, "kept": rate["kept"], "raters": rate["raters"]}
    changed: Sequence[tuple[int, int, int]] = rate["changed"]
    ratings = sum(raters * texts for raters, _, texts in changed)
    sizes = [raters for raters, _, _ in changed]
    return {
        "kept": _mean_share(changed),
        "of_ratings": sum(num_seeing * texts for _, num_seeing, texts in changed) / ratings,
        "unperturbed": _mean_share(rate["originals"]),
        "texts": sum(texts for _, _, texts in changed),
        "ratings": ratings,
        "raters": f"{min(sizes)} to {max(sizes)}",
    }


def _mean_share(counts: Sequence[tuple[int, int, int]]) -> float:
    """Return the mean over texts of the share of a text's raters who see the label."""
    return sum(num_seeing / raters * texts for raters, num_seeing, texts in counts) / sum(
        texts for _, _, texts in counts
    )
