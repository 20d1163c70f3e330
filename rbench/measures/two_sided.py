"""Two-sided robustness: hold where the meaning holds, and move where it moves.

A success rate asks only what must not move a victim, so one that reads less is fooled less. Of each attacked text this
measure asks both: does the victim hold under the attack, and does it follow an edit that changes the label? The new
label is known where people edited the text (the contrast set of the task) or where an oracle tells it (the embedded
world, for edits of the kinds in `rbench/edits`). A text without such an edit is left out for all victims alike.

A victim *overlooks* if, beside a named control, it follows fewer edits and is fooled less, both on the texts that both
get right. Both differences are tested, and corrected together (Holm, over all that the table asks). Without a control
nothing is raised, because a low success rate alone says nothing about its reason. Ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.edits import EditKind, every_edit
from rbench.errors import JobError
from rbench.measures import Measure, MeasureContext, Row, Share
from rbench.measures import _columns as columns_of
from rbench.schema import AS_IS, CONTRAST, Outcome, ResourceKind, Strict, Suite
from rbench.score.paired import DifferenceEstimate, compare, correct_by_holm
from rbench.tables import Results, Table
from rbench.tables.cells import Grid
from rbench.tables.table import TableEntry
from rbench.verdicts.pairing import pair_observations

if TYPE_CHECKING:
    from rbench.measures._context import VictimRef
    from rbench.tasks.contrast import ContrastBundle

VERSION = 1
USES = ("encoders.classify", "edits._changes", "mini.oracle")
ALPHA = 0.05
NAME = "two_sided"
Texts = tuple[str, ...]


class Options(Strict):
    """Which edits change the label, and beside what victims are judged."""

    edits: tuple[str, ...] = ()
    """Kinds of edits (`rbench list edits`), for tasks whose oracle tells the label of any text. Without them the edits
    are those of the task's contrast set, where the suite says `evaluate: [contrast]`."""
    control: str | None = None
    """The encoder, classifier or fine-tuning beside which `overlooks` is judged; None: it is not raised."""


class LabelChange(NamedTuple):
    """An edit of a text, with the label that it has afterwards."""

    texts: Texts
    label: int


class TwoSided(Measure[Options]):
    """Two-sided robustness: the share of texts that a victim gets right, holds under attack, and follows an edit of."""

    title = "Two-sided robustness: right, holds under the attack, and follows an edit that changes the label"
    contrast = True
    files: Mapping[str, str] = {"edits": "edits"}
    resources = ("synonyms", "pos_tagger")
    columns = (
        Share(
            "two_sided",
            "texts that the victim gets right, that the attack does not change its answer to, and whose label-changing "
            "edit it follows / texts that have such an edit",
            best="highest",
            title="Two-sided",
        ),
        Share("held", "texts that hold under the attack / texts that the victim gets right (1 - ASR)", best="highest"),
        Share("followed", "edits that get their new label / edits of texts that the victim gets right", best="highest"),
    )

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return what kinds of edits look up; nothing for people's edits."""
        return self.resources if options.edits else ()

    def check(self, options: Options, suite: Suite) -> str | None:
        """Refuse edits whose new label nobody knows, and a control that is not in the suite."""
        names = (*suite.lineup, *(strategy.label for strategy in suite.finetune))
        if options.control is not None and options.control not in names:
            return f"its control {options.control} is not in the suite; it has {', '.join(names)}"
        if not options.edits and not any(evaluation.name == CONTRAST for evaluation in suite.evaluate):
            return (
                f"nothing says which edits change the label: name kinds, `two_sided: {{edits: [negation]}}`, or read "
                f"the contrast set of the task, `evaluate: [{CONTRAST}, two_sided]`"
            )
        return None

    def run(self, options: Options, context: MeasureContext) -> Iterator[Row]:
        """Yield a row for each victim, whose units are the attacked texts that have an edit, the same for all victims.

        Raises JobError where no attacked text has one, or the task has neither an oracle nor a contrast set.
        """
        from rbench.encoders.classify import classify

        changes = _label_changes(options, context)
        for done, victim_ref in enumerate(context.victims):
            context.progress(done, len(context.victims), f"{victim_ref.encoder} {victim_ref.finetune} reads edits")
            outcomes = [
                outcome
                for outcome in context.outcomes[victim_ref]
                if outcome.example_id in changes and _is_counted(outcome)
            ]
            edits = [changes[outcome.example_id] for outcome in outcomes]
            labels = np.array([edit.label for edit in edits], dtype=np.int64)
            predicted = classify(context.victim(victim_ref), [edit.texts for edit in edits]).labels
            yield _build_row(victim_ref, outcomes, predicted == labels)

    def table(self, options: Options, results: Results) -> Table:
        """Make the table, and say of each victim whether it overlooks beside the control."""
        control = options.control
        options = Options(**options.model_dump(exclude={"control"}, exclude_unset=True))  # jobs are of any control
        table = columns_of.build_table(self, options, results)
        cells = columns_of.build_cells(self, results, options, columns_of.asked_jobs(self, options, results))
        if control is None:
            control = _named_control(results)
        if control is None:
            note = "Overlooks: not judged, since no control is named (`two_sided: {control: ENCODER}`)."
            program_rows = tuple({**row_fields, "overlooks": None} for row_fields in table.cells)
            return replace(table, cells=program_rows, notes=(*table.notes, note), brief=(*table.brief, note))
        verdicts = judge_overlooking(cells, control)
        entries: list[TableEntry] = [
            "control" if _is_control(cell, control) else _verdict_entry(verdicts.get(key))
            for key, cell in cells.cells.items()
        ]
        rows = tuple((*row, entry) for row, entry in zip(table.rows, entries, strict=True))
        program_rows = tuple(
            {**row_fields, "control": control, **_verdict_fields(verdicts.get(key))}
            for row_fields, key in zip(table.cells, cells.cells, strict=True)
        )
        num_tests = sum(p is not None for verdict in verdicts.values() for p in (verdict.p_followed, verdict.p_fooled))
        note = (
            f"Overlooks: beside {control} the victim follows fewer edits and is fooled less, on the texts that both "
            f"get right; Holm over {num_tests} comparisons, alpha {ALPHA}."
        )
        header, notes = (*table.header, "Overlooks"), (*table.notes, note)
        return replace(table, header=header, rows=rows, cells=program_rows, notes=notes, brief=(*table.brief, note))


# ---------------------------------------------------------------------------------------------------------- edits


def _label_changes(options: Options, context: MeasureContext) -> dict[str, LabelChange]:
    """Return an edit for each attacked text that has one, by the example's id. It is drawn by the text alone."""
    originals = {
        outcome.example_id: outcome
        for outcomes in context.outcomes.values()
        for outcome in outcomes
        if outcome.original is not None and outcome.label is not None
    }
    changes: dict[str, LabelChange] = {}
    if options.edits:
        if context.task.generator is None or not context.task.has_oracle:
            raise JobError(
                f"{context.task.name} has no oracle, so nobody knows the label of an edited text; leave `edits` out, "
                "and write `evaluate: [contrast, two_sided]` for people's edits"
            )
        assert context.file is not None
        kinds = [context.file("edits", name) for name in options.edits]
        for name, outcome in originals.items():
            change = _change_by_oracle(kinds, outcome.original or (), int(outcome.label or 0), context)
            if change is not None:
                changes[name] = change
    else:
        bundles = _bundles_by_text(context)
        for name, outcome in originals.items():
            bundle = bundles.get(_text_hash(context, outcome.original or ()))
            if bundle is not None and (change := _change_by_people(bundle, int(outcome.label or 0))) is not None:
                changes[name] = change
    if not changes:
        raise JobError(
            f"none of {len(originals)} attacked texts of {context.task.name} has an edit that changes its label; "
            "attack the texts that the contrast set edits, or name other kinds of `edits`"
        )
    return changes


def _change_by_oracle(
    kinds: Sequence[EditKind], texts: Texts, label: int, context: MeasureContext
) -> LabelChange | None:
    """Return the first edit, in a random order of kinds and columns, to which the oracle gives another label."""
    from rbench.mini import oracle

    places = [(kind, i) for kind in kinds for i in range(len(texts))]
    places.sort(key=lambda place: blake2b("\0".join((place[0].name, str(place[1]), *texts)).encode()).digest())
    for kind, i in places:
        for changed_text in every_edit(kind, texts[i], "two_sided", context.resources):
            edited = (*texts[:i], changed_text, *texts[i + 1 :])
            new_label = oracle(str(context.task.generator), edited)
            if new_label is not None and int(new_label) != label:
                return LabelChange(edited, int(new_label))
    return None


def _bundles_by_text(context: MeasureContext) -> dict[bytes, ContrastBundle]:
    """Return the bundles of the contrast set by the text of their originals; none without a set."""
    bundles = context.set.rows if context.set is not None else ()
    return {_text_hash(context, bundle.original.texts): bundle for bundle in bundles}


def _text_hash(context: MeasureContext, texts: Texts) -> bytes:
    from rbench.tasks.clean import hash_texts

    return hash_texts(context.task, texts)


def _change_by_people(bundle: ContrastBundle, label: int) -> LabelChange | None:
    """Return one of the label-changing edits of a bundle, drawn by its id; None where there is none."""
    if bundle.original.label != label:
        return None
    edits = sorted(
        (edit for edit in bundle.edits if edit.label != label), key=lambda edit: blake2b(edit.id.encode()).digest()
    )
    return LabelChange(edits[0].texts, int(edits[0].label or 0)) if edits else None


# --------------------------------------------------------------------------------------------------------- numbers


def _is_counted(outcome: Outcome) -> bool:
    """Whether an attack says something of a text: it was attacked, or the victim was wrong before."""
    return outcome.status != "errored" and outcome.skip_reason is None


def _build_row(victim_ref: VictimRef, outcomes: Sequence[Outcome], followed: NDArray[np.bool_]) -> Row:
    right = np.array([outcome.status in ("succeeded", "failed") for outcome in outcomes], dtype=bool)
    held = np.array([outcome.status == "failed" for outcome in outcomes], dtype=bool)
    values = {
        "two_sided": (right & held & followed).astype(float),
        "held": np.where(right, held, np.nan),
        "followed": np.where(right, followed, np.nan),
    }
    return Row(values, names=victim_ref.names, units=[outcome.example_id for outcome in outcomes])


# --------------------------------------------------------------------------------------------------------- verdicts


class Overlooking(NamedTuple):
    """A victim beside the control, on the texts that both get right."""

    followed: DifferenceEstimate
    """The share of edits that it follows, minus the control's."""
    fooled: DifferenceEstimate
    """Its ASR minus the control's."""
    p_followed: float | None
    """Corrected, as `p_fooled` is."""
    p_fooled: float | None

    @property
    def is_raised(self) -> bool:
        """Whether both are lower, both decided."""
        decided = all(p is not None and p < ALPHA for p in (self.p_followed, self.p_fooled))
        return decided and (self.followed.value or 0.0) < 0 and (self.fooled.value or 0.0) < 0


def judge_overlooking(cells: Grid[Any], control: str) -> dict[tuple[str, ...], Overlooking]:
    """Compare each cell with that of the control, all else being the same; return it by the cell's key.

    `control` is an encoder, or a fine-tuning. p values are corrected together, over both differences of all cells
    (Holm).
    """
    by_names = {_names_of(cell, cell.encoder, cell.finetune): cell for cell in cells.cells.values()}
    pairs: dict[tuple[str, ...], tuple[DifferenceEstimate, DifferenceEstimate]] = {}
    for key, cell in cells.cells.items():
        # The control is an encoder, a classifier as it is, or a fine-tuning.
        names = ((control, cell.finetune), (control, AS_IS), (cell.encoder, control))
        control_cell = next(filter(None, (by_names.get(_names_of(cell, *pair)) for pair in names)), None)
        if control_cell is None or _is_control(cell, control):
            continue
        pairs[key] = (
            _paired_difference(control_cell, cell, "followed"),
            _paired_difference(cell, control_cell, "held"),  # the ASR of the cell minus the control's: ASR is 1 - held
        )
    corrected = correct_by_holm([difference.p for pair in pairs.values() for difference in pair])
    return {key: Overlooking(*pair, *corrected[2 * i : 2 * i + 2]) for i, (key, pair) in enumerate(pairs.items())}


def _names_of(cell: Any, encoder: str, finetune: str) -> tuple[str, ...]:
    return cell.task, cell.attack, cell.label, encoder, finetune


def _is_control(cell: Any, control: str) -> bool:
    return control in (cell.encoder, cell.finetune)


def _paired_difference(first: Any, second: Any, name: str) -> DifferenceEstimate:
    """Return the share of the second cell minus that of the first, over the texts for which both have a value."""
    return compare(pair_observations(first.observed(name) or (), second.observed(name) or ()), shares=True)


def _named_control(results: Results) -> str | None:
    """Return the control that the suite names, under `evaluate` or for its own table; None where it names none."""
    suite = results.plan.suite
    option_sets = [choice.options for choice in suite.evaluate if choice.name == NAME]
    option_sets += [choice.options for choice in suite.tables if choice.metric == NAME]
    return next((str(choice["control"]) for choice in option_sets if choice.get("control") is not None), None)


def _verdict_entry(verdict: Overlooking | None) -> str:
    return "not judged" if verdict is None else "yes" if verdict.is_raised else "no"


def _verdict_fields(verdict: Overlooking | None) -> dict[str, Any]:
    if verdict is None:
        return {"overlooks": None}
    return {
        "overlooks": verdict.is_raised,
        "common": verdict.followed.n,
        "followed_difference": verdict.followed.value,
        "followed_p": verdict.p_followed,
        "fooled_difference": verdict.fooled.value,
        "fooled_p": verdict.p_fooled,
    }
