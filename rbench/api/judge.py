"""Ask people about the texts of a RUN: write sheets for raters, and take their answers back into the RUN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rbench.errors import StoreError
from rbench.schema import Plan, TaskSpec
from rbench.schema.judged import HumanJudgements, Sheet
from rbench.store import judged
from rbench.store.answers import read_answers
from rbench.store.runs import RunStore, files
from rbench.store.runs.files import seal, unseal
from rbench.store.runs.reader import JUDGED
from rbench.store.runs.store import folder_path
from rbench.system.own_code import failing_in
from rbench.tables import Results

KEY_FILE, RATERS_FOLDER = "key.json", "raters"


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

    Raises StoreError where the RUN has no success to judge, or keeps no texts; or where `out` is there and not empty.
    """
    from rbench.report import html
    from rbench.report.sheet import draw_sheet, list_closed_tasks, sheet_as_csv

    out = folder_path(out)
    drawn = draw_sheet(Results.of(RunStore(folder_path(run))), per_cell, raters, seed)
    written_files = []
    with files.grow_folder(out) as unfinished:
        files.write(unfinished / KEY_FILE, seal(drawn.sheet.model_dump_json(indent=1)))
        for rater in range(1, raters + 1):
            for name, text in (("html", html.render_sheet(drawn, rater)), ("csv", sheet_as_csv(drawn, rater))):
                written_files.append(out / RATERS_FOLDER / f"rater-{rater}.{name}")
                target = unfinished / RATERS_FOLDER / written_files[-1].name
                files.make_folder_of(target)
                files.write(target, text.encode())
    return Exported(out, drawn.sheet, tuple(written_files), tuple(list_closed_tasks([*drawn.tasks.values()])))


def take(run: Path | str, answers: Sequence[Path | str]) -> Imported:
    """Take the answers of raters into a RUN: all of them, or none if anything is wrong.

    Args:
        run: the folder of the RUN that the sheet was made of.
        answers: CSV files, one or several for each rater. The key of the sheet, key.json, is beside them or in the
            folder above.

    Raises StoreError, with a line for each mistake, where answers are not to the sheet, or the sheet is not of the RUN.
    """
    store, paths = RunStore(folder_path(run)), [folder_path(path) for path in answers]
    plan, sheet = store.existing_plan(), _read_key(paths)
    if mismatch := next(judged.find_mismatches(store, plan, sheet), None):
        raise StoreError(
            f"the key of the sheet {sheet.id} does not fit {store.root}: {mismatch}. Name the RUN of its export."
        )
    before = judged.read_judgements(store)
    if before is not None and before.sheet.id != sheet.id:
        raise StoreError(f"{store.root / JUDGED} has answers to another sheet, {before.sheet.id}. Move it away first.")
    new = read_answers(paths, sheet, _judged_tasks(plan))
    earlier_answers = before.answers if before is not None else ()
    if repeated := sorted({answer.rater for answer in earlier_answers} & {answer.rater for answer in new}):
        raise StoreError(
            f"{store.root / JUDGED} has the answers of rater {repeated[0]} already. Leave that file out, or move "
            "judged.json away and import all files together."
        )
    all_answers = tuple(sorted((*earlier_answers, *new), key=lambda answer: (answer.rater, answer.item)))
    merged = HumanJudgements(sheet=sheet, answers=all_answers, proxies=before.proxies if before is not None else ())
    judged.write_judgements(store, merged)
    counts = {rater: sum(answer.rater == rater for answer in merged.answers) for rater in merged.raters}
    unfinished = tuple((rater, len(sheet.items) - n) for rater, n in counts.items() if n < len(sheet.items))
    return Imported(store.root / JUDGED, len(new), merged.raters, unfinished)


def _judged_tasks(plan: Plan) -> dict[str, TaskSpec]:
    return {task.name: task for job in plan.attacks if (task := judged.find_classification_task(job)) is not None}


def _read_key(answers: Sequence[Path]) -> Sheet:
    beside = [folder / KEY_FILE for path in answers for folder in (path.parent, path.resolve().parent.parent)]
    path = next((candidate for candidate in beside if candidate.is_file()), None)
    if path is None:
        raise StoreError(
            f"the key of the sheet, the {KEY_FILE} that rbench judge export wrote, is neither beside the answers nor "
            "in the folder above. Copy it there."
        )
    with failing_in(path, StoreError):
        return Sheet.model_validate_json(unseal(files.read(path) or b""))
