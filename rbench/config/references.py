"""Cites works: `reference: gao2021simcse` in a file names an entry of references.bib, and a list names several.

A work that references.bib does not have is cited by a free text, which has a space or a slash. `format_references`
writes a line for people; BibTeX is copied from references.bib as it stands there (`bib_entries`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from rbench.config.overrides import iter_items
from rbench.config.positions import PositionedData, Problems
from rbench.config.registry import unknown_message

BIB_FILE = Path(__file__).resolve().parents[1] / "references.bib"
MOST_NAMED = 6
"""A line for people names the first author alone where there are more."""


@cache
def bib_entries() -> dict[str, str]:
    """Return the text of each entry of references.bib by its key. Empty lines separate entries."""
    texts = BIB_FILE.read_text(encoding="utf-8").strip().split("\n\n")
    return {text.partition("{")[2].partition(",")[0]: text for text in texts}


def check_references(located: PositionedData, problems: Problems) -> None:
    """Add a problem for each reference of a file that has the form of a key and is none."""
    for item in iter_items(located, "reference"):
        key = item.data
        if isinstance(key, str) and key and key not in bib_entries() and not {" ", "/", "\n"} & set(key):
            free = "leave `reference` out where there is none, or write a free text of several words"
            problems.add(item.at(), f"{unknown_message('key of references.bib', key, bib_entries())} ({free})")


def format_references(references: Iterable[str]) -> str:
    """Return references as people read them: `Gao, Yao and Chen (2021): SimCSE: ... EMNLP. arXiv:2104.08821`.

    What is no key of references.bib is a free text, and is returned as it is. Semicolons separate several.
    """
    return "; ".join(map(_format_reference, references))


@cache
def _format_reference(reference: str) -> str:
    if reference not in bib_entries():
        return " ".join(reference.split())
    from pybtex.database import parse_string

    entry = parse_string(bib_entries()[reference], "bibtex").entries[reference]
    names = [" ".join([*person.prelast_names, *person.last_names]) for person in entry.persons["author"]]
    if names[-1] == "others" or len(names) > MOST_NAMED:
        authors = f"{names[0]} et al."
    else:
        authors = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    venue = entry.fields.get("booktitle") or entry.fields.get("journal", "")
    short = venue.rpartition("(")[2].removesuffix(")")  # "Proceedings of ... (EMNLP)"
    arxiv = f"arXiv:{entry.fields['eprint']}" if "eprint" in entry.fields else ""
    title = entry.fields["title"].replace("{", "").replace("}", "")
    return ". ".join(filter(None, (f"{authors} ({entry.fields['year']}): {title}", short, arxiv)))
