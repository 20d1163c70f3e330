"""Make golden values: `python -m tests.golden.make [NAME ...]` in the repository's root.

Without names all cases are computed. What has no value yet is written; so is what differs, where the VERSION of the
module, or of code that it uses, was raised since. What differs under the same VERSION is left alone and named, and the
command ends with 1: the results that are stored under today's keys would no longer be what the code gives.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch

from tests.golden.case import Case
from tests.golden.record import VALUES, Golden, differences, plain, read, write
from tests.golden.versions import raised, versions

SHOWN = 5


def make(case: Case, scratch: Path, folder: Path = VALUES) -> str:
    """Write what the case gives now, unless that is what is recorded; returns why not, or nothing."""
    now, recorded = computed(case, scratch), read(case, folder)
    if recorded is not None:
        changed = differences(recorded.value, now.value)
        if changed and not raised(now.versions, recorded.versions):
            return refusal(case, now, changed)
        if not changed and not differences(now.value, recorded.value) and other(now, recorded) is None:
            return ""
    write(case, now, folder)
    return ""


def problem(case: Case, now: Golden, recorded: Golden | None) -> str:
    """What is to be said where the case is not as recorded; nothing where it is."""
    if recorded is None:
        return f"{case.name} has no golden value: run python -m tests.golden.make"
    if (file := other(now, recorded)) is not None:
        was, is_ = (golden.versions.get(file, 1) for golden in (recorded, now))
        return f"{file} was at {was} when {case.name} was made, and is at {is_}: run python -m tests.golden.make"
    changed = differences(recorded.value, now.value)
    return refusal(case, now, changed) if changed else ""


def computed(case: Case, scratch: Path) -> Golden:
    """What the case gives now."""
    return Golden(versions(case), plain(case.compute(scratch)))


def other(now: Golden, recorded: Golden) -> str | None:
    """A file whose VERSION is another than the one recorded; None where there is none."""
    files = {**recorded.versions, **now.versions}
    return next((file for file in files if now.versions.get(file, 1) != recorded.versions.get(file, 1)), None)


def refusal(case: Case, now: Golden, changed: list[str]) -> str:
    """What is to be done where a value changed and no VERSION did."""
    own, *shared = [file for file, number in ordered(case, now) if isinstance(number, int)]
    others = f" (or in the shared code that was changed: {', '.join(shared)})" if shared else ""
    lines = [*changed[:SHOWN], *([f"... and {len(changed) - SHOWN} more"] if len(changed) > SHOWN else [])]
    return (
        f"the result of {case.name} changed: if that is meant, raise VERSION in {own}{others} "
        f"and run python -m tests.golden.make\n  " + "\n  ".join(lines)
    )


def ordered(case: Case, now: Golden) -> list[tuple[str, int | str]]:
    """The case's own file first."""
    return sorted(now.versions.items(), key=lambda item: (item[0] not in case.files, item[0]))


def main(names: Iterable[str]) -> int:
    from tests.golden.cases import CASES

    torch.set_num_threads(1)
    wanted = list(names) or list(CASES)
    if unknown := [name for name in wanted if name not in CASES]:
        print(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        refused = [said for name in wanted if (said := make(CASES[name], Path(scratch)))]
    print("\n".join(refused) or f"as recorded, or recorded now below {VALUES}, to be committed: {', '.join(wanted)}")
    return int(bool(refused))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as objectives/simcse")
    sys.exit(main(parser.parse_args().names))
