"""Make the pages of the committed RUNs again: `python -m tests.pages [NAME ...]` in the repository's root.

Of each RUN (all, or those named) it makes, from its file alone:

- the block `## Tables` of results/reference/NAME.md: the tables that the page has, by their headings;
- the verdicts under `## Claims`;
- the figures NAME-*.svg beside the page.

What people wrote above stays. Then it makes the tables in tests/golden/tables, the few that hold the other formats: one
RUN's for each metric and layout. Nothing is written that is as it should be; what was, is listed.
"""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from rbench import api
from rbench.api import reporting, runs
from rbench.config.registry import Registry
from tests import reference

GOLDEN = Path(__file__).parent / "golden" / "tables"
MATPLOTLIB = "3.11"
"""The version that drew the committed figures. Raise it when they are made with another one."""
FORMATS = {"tex": "latex", "csv": "csv", "json": "json"}
"""The formats of golden tables by their endings; markdown is on the pages."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a RUN of results/reference; without any, all")
    names = parser.parse_args().names or reference.NAMES
    runs.results_of = functools.lru_cache(maxsize=1)(runs.results_of)  # a RUN is read once for all its tables
    wanted = kinds()
    for name in names:
        made = {reference.REFERENCE / f"{name}.md": page(name).encode()}
        made |= {reference.REFERENCE / file: content for file, content in figures(name).items()}
        made |= {place(*one): rendered(*one) for one in golden(wanted) if one[0] == name}
        for path, content in made.items():
            if not path.is_file() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                print(f"written: {path.relative_to(reference.REFERENCE.parents[1])}")
    for path in set(GOLDEN.glob("*/*.*")) - {place(*one) for one in golden(wanted)}:
        path.unlink()
        print(f"removed: {path.relative_to(reference.REFERENCE.parents[1])}")


def page(name: str) -> str:
    """The page of a RUN with its tables and verdicts made anew."""
    written = reference.section(name).rstrip("\n")
    run = f"results/reference/{name}.zip"
    parts = [written, "## Tables", f"As `rbench table {run}` prints them, one metric each."]
    for heading in reference.headings(name):
        parts += [f"### {heading}", reference.table(name, heading).strip("\n")]
    claims = f"results/reference/claims/{name}.yaml"
    parts += ["## Claims", f"As `rbench claims {run} --claims {claims}` prints them.", verdicts(name)]
    return "\n\n".join(parts) + "\n"


def verdicts(name: str) -> str:
    """What rbench says of the claims on a RUN."""
    found = api.claims(reference.run(name), reference.REFERENCE / "claims" / f"{name}.yaml", ())
    return api.claims_table(found, "markdown").strip("\n")


def figures(name: str) -> dict[str, bytes]:
    """The figures beside a page, by file name, drawn anew."""
    wanted = {path.name for path in shown_figures(name)}
    if not wanted:
        return {}
    drawings = reporting.list_figures(runs.results_of(reference.run(name)), Registry(), texts=False)
    by_file = {f"{name}-{_stem(label)}.svg": draw for label, draw in drawings}
    return {file: by_file[file]().content for file in sorted(wanted)}


def shown_figures(name: str) -> list[Path]:
    """The figures beside a page: those that begin with its name, and not with a longer one."""
    longer = [f"{other}-" for other in reference.NAMES if other.startswith(f"{name}-")]
    found = sorted(reference.REFERENCE.glob(f"{name}-*.svg"))
    return [path for path in found if not path.name.startswith(tuple(longer))]


def _stem(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+_]+", "-", label).strip("-")


# ------------------------------------------------------------------------------------------------- golden tables


def kinds() -> dict[str, str]:
    """The RUN of the golden tables of each metric and layout that pages have, by heading: the one that has them and
    whose file is smallest, since large tables hold nothing more."""
    by_size = sorted(reference.NAMES, key=lambda name: (reference.run(name).stat().st_size, name))
    found: dict[str, str] = {}
    for name in by_size:
        for heading in reference.headings(name):
            found.setdefault(heading, name)
    kept = {heading: path.name for path in sorted(GOLDEN.glob("*")) for heading in _headings_in(path)}
    return {heading: kept.get(heading, name) for heading, name in sorted(found.items())}


def _headings_in(folder: Path) -> set[str]:
    """What a folder of golden tables has, of the tables that the RUN's page has."""
    there = {path.stem for path in folder.iterdir()} if folder.name in reference.NAMES else set()
    return there & set(reference.headings(folder.name)) if there else set()


def golden(wanted: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the RUN, heading and ending of each golden table."""
    return ((name, heading, ending) for heading, name in wanted.items() for ending in FORMATS)


def place(name: str, heading: str, ending: str) -> Path:
    """Where a golden table is."""
    return GOLDEN / name / f"{heading}.{ending}"


def rendered(name: str, heading: str, ending: str) -> bytes:
    """A table as rbench makes it now."""
    return (reference.table(name, heading, FORMATS[ending]).rstrip("\n") + "\n").encode()


if __name__ == "__main__":
    main()
