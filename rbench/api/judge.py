"""Ask people about the texts of a RUN: write sheets for raters, and take their answers back into the RUN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rbench.errors import StoreError
from rbench.schema import Plan, TaskSpec
from rbench.schema.judged import Judged, Sheet
from rbench.store import judged
from rbench.store.answers import read_answers
from rbench.store.runs import Store, files
from rbench.store.runs.files import first_error, seal, unseal
from rbench.store.runs.packed import Packed
from rbench.store.runs.reader import JUDGED
from rbench.store.runs.store import folder_path
from rbench.tables import Results

KEY, RATERS = "key.json", "raters"


@dataclass(frozen=True)
class Exported:
    """A sheet that was written."""

    folder: Path
    sheet: Sheet
    files: tuple[Path, ...]
    """What raters get."""
    closed: tuple[str, ...]
    """Tasks whose licence does not clearly allow to pass their texts on."""


@dataclass(frozen=True)
class Imported:
    """Answers that were taken into a RUN."""

    path: Path
    answers: int
    """How many are new."""
    raters: tuple[int, ...]
    """All who have answered."""
    missing: tuple[tuple[int, int], ...]
    """Raters who left items open, and how many."""


def export(run: Path | str, out: Path | str, per_cell: int = 50, raters: int = 3, seed: int = 0) -> Exported:
    """Write a sheet for each rater into a new folder, and the key that joins answers to texts.

    Args:
        run: a RUN with texts.
        out: the new folder. `raters` in it is what raters get; key.json stays with you.
        per_cell: how many successes of each attacked cell are judged.
        raters: how many people judge each text.
        seed: of what is drawn, and of the orders.

    Raises StoreError where the RUN has no success to judge, or keeps no texts; or where `out` is there.
    """
    from rbench.report import html
    from rbench.report.sheet import as_csv, closed, draw

    if per_cell < 2 or raters < 1:
        raise StoreError("a sheet has two texts of each cell, and one rater, at least: raise --per-cell or --raters")
    out = folder_path(out)
    if out.exists():
        raise StoreError(f"{out} is there already. Choose another --out.")
    drawn = draw(Results.of(Store(folder_path(run))), per_cell, raters, seed)
    made = []
    with files.growing(out) as unfinished:
        files.write(unfinished / KEY, seal(drawn.sheet.model_dump_json(indent=1)))
        for rater in range(1, raters + 1):
            for name, text in (("html", html.sheet(drawn, rater)), ("csv", as_csv(drawn, rater))):
                made.append(out / RATERS / f"rater-{rater}.{name}")
                target = unfinished / RATERS / made[-1].name
                files.make_folder_of(target)
                files.write(target, text.encode())
    return Exported(out, drawn.sheet, tuple(made), tuple(closed([*drawn.tasks.values()])))


def take(run: Path | str, answers: Sequence[Path | str]) -> Imported:
    """Take the answers of raters into a RUN: all of them, or none if anything is wrong.

    Args:
        run: the folder of the RUN that the sheet was made of.
        answers: CSV files, one or several for each rater. The key of the sheet, key.json, is beside them or in the
            folder above.

    Raises StoreError, with a line for each mistake, where answers are not to the sheet, or the sheet is not of the RUN.
    """
    store, paths = Store(folder_path(run)), [folder_path(path) for path in answers]
    plan = store.plan()
    if plan is None:
        raise StoreError(f"{store.root} is not a RUN: it has no plan.json. Name the folder that `rbench run` wrote.")
    if isinstance(store.opened(), Packed):
        remedy = f"Unpack it first: rbench pack {store.root} --unpack"
        raise StoreError(f"{store.root} is packed, and stays as it is. {remedy}")
    sheet = _key(paths)
    if said := next(judged.unlike(store, plan, sheet), None):
        raise StoreError(
            f"the key of the sheet {sheet.id} does not fit {store.root}: {said}. Name the RUN of its export."
        )
    before = judged.read(store)
    if before is not None and before.sheet.id != sheet.id:
        raise StoreError(f"{store.root / JUDGED} has answers to another sheet, {before.sheet.id}. Move it away first.")
    new = read_answers(paths, sheet, _tasks(plan))
    known = before.answers if before is not None else ()
    if both := sorted({one.rater for one in known} & {one.rater for one in new}):
        raise StoreError(
            f"{store.root / JUDGED} has the answers of rater {both[0]} already. Leave that file out, or move "
            "judged.json away and import all files together."
        )
    both_ = tuple(sorted((*known, *new), key=lambda one: (one.rater, one.item)))
    all_ = Judged(sheet=sheet, answers=both_, proxies=before.proxies if before is not None else ())
    judged.write(store, all_)
    counts = {rater: sum(one.rater == rater for one in all_.answers) for rater in all_.raters}
    open_ = tuple((rater, len(sheet.items) - n) for rater, n in counts.items() if n < len(sheet.items))
    return Imported(store.root / JUDGED, len(new), all_.raters, open_)


def _tasks(plan: Plan) -> dict[str, TaskSpec]:
    return {task.name: task for job in plan.attacks if (task := judged.classes_of(job)) is not None}


def _key(answers: Sequence[Path]) -> Sheet:
    beside = [folder / KEY for path in answers for folder in (path.parent, path.resolve().parent.parent)]
    path = next((one for one in beside if one.is_file()), None)
    if path is None:
        raise StoreError(
            f"the key of the sheet, the {KEY} that rbench judge export wrote, is neither beside the answers nor in the "
            "folder above. Copy it there."
        )
    try:
        return Sheet.model_validate_json(unseal(files.read(path) or b""))
    except ValueError as error:
        raise StoreError(f"{path} is no key of a sheet, or is damaged ({first_error(error)})") from error
