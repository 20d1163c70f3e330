"""Keep what people said of a RUN's texts beside its results: RUN/judged.json, with the sheet's key and no text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256

from rbench.errors import StoreError
from rbench.schema import Job, Outcome, Plan, TaskSpec
from rbench.schema.judged import SCALE, TEXTS, UNSURE, Answer, HumanJudgements, Item, Kind, Sheet
from rbench.store.runs import RunReader, RunStore, files
from rbench.store.runs.files import first_error, seal, unseal
from rbench.store.runs.reader import JUDGED

ShownTexts = tuple[tuple[str, ...], ...]
"""What an item shows: one text or two, each with its columns."""
_REMEDY = "Move it away, and import the answers again: rbench judge import"
_CHANGED = "the texts of this RUN are others than on the sheet"


def find_classification_task(job: Job) -> TaskSpec | None:
    """Return the task of an attack on a task with classes, of whose texts people can be asked; None for other jobs."""
    task = job.attacking.task if job.attacking is not None else None
    return task if task is not None and task.has_classes else None


def read_judgements(store: RunReader) -> HumanJudgements | None:
    """Return what people said of a RUN's texts; None where nobody was asked. Raises StoreError if it is damaged."""
    content = store.said()
    if content is None:
        return None
    try:
        return HumanJudgements.model_validate_json(unseal(content))
    except ValueError as error:
        raise StoreError(f"{store.root / JUDGED} is damaged ({first_error(error)}). {_REMEDY}") from error


def write_judgements(store: RunStore, judged: HumanJudgements) -> None:
    """Write what people said in one step. Raises StoreError where the RUN is packed, or cannot be written."""
    files.write(store.root / JUDGED, seal(judged.model_dump_json(indent=1)), store.opened())


def find_mistakes(store: RunStore, plan: Plan) -> Iterator[str]:
    """Say what is wrong with the answers of a RUN, each with its remedy."""
    try:
        judged = read_judgements(store)
    except StoreError as error:
        yield str(error)
        return
    if judged is not None:
        mistakes = [*find_mismatches(store, plan, judged.sheet), *_find_unfit_answers(plan, judged)]
        yield from (f"{store.root / JUDGED}: {text}. {_REMEDY}" for text in mistakes)


def find_mismatches(store: RunReader, plan: Plan, sheet: Sheet) -> Iterator[str]:
    """Say in what a sheet is not of a RUN: its jobs, its examples, and its texts where the RUN keeps them."""
    jobs = {job.key: job for job in plan.jobs}
    if hash_sheet(sheet.items, sheet.per_cell, sheet.raters, sheet.seed) != sheet.id:
        yield "its id is not that of its items"
        return
    keys = {key for item in sheet.items for key, _ in item.uses}
    if unplanned := keys - jobs.keys():
        yield f"it is of another RUN: {len(unplanned)} of its {len(keys)} attacks are not in this plan"
        return
    outcomes = {key: {outcome.example_id: outcome for outcome in store.outcomes(jobs[key])} for key in keys}
    for item in sheet.items:
        attacked = [outcomes[key].get(example) for key, example in item.uses]
        all_fell = item.kind not in ("changed", "pair") or all(
            outcome and outcome.status == "succeeded" for outcome in attacked
        )
        if not all_fell or None in attacked or not item.uses:
            yield f"item {item.id} is about an example that is not there, or that did not fall"
        elif plan.texts and hash_texts(collect_texts(item, lambda key, example: outcomes[key][example])) != item.text:
            yield f"item {item.id}: {_CHANGED}"


def _find_unfit_answers(plan: Plan, judged: HumanJudgements) -> Iterator[str]:
    jobs, answered = {job.key: job for job in plan.jobs}, set[tuple[int, str]]()
    for answer in judged.answers:
        item = judged.sheet.by_id.get(answer.item)
        task = find_classification_task(jobs[item.uses[0][0]]) if item is not None and item.uses[0][0] in jobs else None
        if item is None or task is None or not fits_question(answer, item, len(task.labels), judged.sheet.raters):
            yield f"the answer of rater {answer.rater} to {answer.item} is none to that question"
        elif (answer.rater, answer.item) in answered:
            yield f"rater {answer.rater} answers {answer.item} twice"
        answered.add((answer.rater, answer.item))
    judged_jobs = {key for item in judged.sheet.items for key, _ in item.uses}
    for proxy in judged.proxies:
        if unknown_attacks := proxy.said.keys() - judged_jobs:
            yield f"the proxy {proxy.name} speaks of {len(unknown_attacks)} attacks that are not on the sheet"


def fits_question(answer: Answer, item: Item, labels: int, raters: int) -> bool:
    """Whether an answer is one to the question of an item, on a task with so many labels."""
    label = answer.label is None or answer.label == UNSURE or 0 <= answer.label < labels
    meaning = answer.meaning is None or 1 <= answer.meaning <= SCALE
    other = answer.meaning is None if item.kind in TEXTS else (answer.label, answer.natural) == (None, None)
    return label and meaning and other and 1 <= answer.rater <= raters


def hash_sheet(items: Sequence[Item], per_cell: int, raters: int, seed: int) -> str:
    """Return the id of a sheet: 12 hex digits."""
    return _hash_items(tuple(items), per_cell, raters, seed)


# A sheet is hashed on every look at a RUN, and its items are frozen, so the last results are kept.
@lru_cache(maxsize=4)
def _hash_items(items: tuple[Item, ...], *settings: int) -> str:
    listed = "\n".join([str(settings), *(item.model_dump_json() for item in items)])
    return sha256(listed.encode()).hexdigest()[:12]


def collect_texts(item: Item, outcome: Callable[[str, str], Outcome]) -> ShownTexts:
    """Return what an item shows, with white space as one blank, so that spacing tells nothing.

    Args:
        outcome: of an attack job's key and an example's id.

    Raises StoreError where the RUN keeps no texts.
    """
    first = outcome(*item.uses[0])
    by_kind: Mapping[Kind, Sequence[tuple[str, ...] | None]] = {
        "changed": [first.perturbed],
        "original": [first.original],
        "pair": [first.original, first.perturbed],
        "other": [first.original, outcome(*item.uses[-1]).original],
    }
    # None of them may be missing: a RUN without texts has None for each.
    texts = [text for text in by_kind[item.kind] if text is not None]
    if len(texts) < len(by_kind[item.kind]):
        raise StoreError(
            "the RUN keeps no texts, and people can be shown none. Ask them about a RUN that has its texts."
        )
    return tuple(tuple(" ".join(column.split()) for column in text) for text in texts)


def hash_texts(texts: ShownTexts) -> str:
    """Return the hash of what an item shows."""
    return sha256("\x1e".join("\x1f".join(text) for text in texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
