"""Prints results: colours and rich tables on a terminal, and elsewhere plain lines without colours or wrapping."""

from __future__ import annotations

import datetime
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from rbench.config.registry import KINDS
from rbench.errors import RbenchError
from rbench.schema import TIMED_OUT, Outcome
from rbench.system.changes import iter_changes, mark_changes
from rbench.system.console import console, harmless, is_terminal, silence, tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rbench.api import Check, ListedObjective, Planned, RunResult
    from rbench.config import ListedFile
    from rbench.config.attacks import TextAttackRecipe
    from rbench.config.code import ListedOption
    from rbench.schema import Job


__all__ = ["console", "harmless", "is_terminal", "log_to_stderr", "print_table", "say", "silence", "tell"]


def say(text: str = "") -> None:
    """Print a line of results to standard output.

    Where the reader has closed the pipe (`| head`), nothing more is printed, and the work continues.

    Raises:
        RbenchError: standard output cannot be written, for instance because a disk is full.
    """
    try:
        print(harmless(text), flush=True)
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        raise RbenchError(f"standard output cannot be written: {error.strerror}") from error


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], *, tabs: bool = False) -> None:
    """Print a table that fits the terminal; elsewhere one unbroken line per row, with columns two spaces apart.

    Args:
        tabs: elsewhere a tab stands between columns, for `cut` and for cells of very different length.
    """
    if is_terminal():
        table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
        for i, column in enumerate(columns):
            table.add_column(column, no_wrap=i == 0, overflow="fold")
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else Text(harmless(cell)) for cell in row))
        console().print(table)
        return
    cells = [[" ".join(str(cell).split()) for cell in row] for row in (columns, *rows)]
    if tabs:
        for row in cells:
            say("\t".join(row))
        return
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


class StderrHandler(logging.Handler):
    """Logs to the current `sys.stderr`, which a progress display replaces while it is shown."""

    timed = False
    """Whether lines begin with the time of day."""

    def emit(self, record: logging.LogRecord) -> None:
        time = datetime.datetime.fromtimestamp(record.created).strftime("%H:%M:%S ") if self.timed else ""
        tell(f"{time}{record.levelname.lower()}: {record.getMessage()}")


def log_to_stderr(quiet: bool, verbose: bool = False) -> None:
    """Show rbench's own log: warnings and worse. Only errors where `quiet`; everything, with times, where `verbose`."""
    log = logging.getLogger("rbench")
    log.disabled = False  # TextAttack disables all loggers, where a user's module imports it first
    if quiet:
        log.setLevel(logging.ERROR)
    else:
        log.setLevel(logging.DEBUG if verbose else logging.WARNING)
    if not any(isinstance(handler, StderrHandler) for handler in log.handlers):
        log.addHandler(StderrHandler())
        log.propagate = False
    for handler in log.handlers:
        if isinstance(handler, StderrHandler):
            handler.timed = verbose


def plan(planned: Planned) -> None:
    """Print jobs grouped over seeds, what is done, and what the remaining jobs cost."""
    groups: dict[str, list[Job]] = {}
    for job in planned.jobs:
        label, *rest = job.parts
        groups.setdefault("/".join((job.stage, planned.plan.draw(label).encoder, *rest)), []).append(job)
    has_training_seeds = planned.plan.draws
    rows = [
        [
            name,
            *([_format_trainings(jobs, planned)] if has_training_seeds else []),
            _format_range({job.seed for job in jobs}),
            *_cost_columns(jobs, planned),
        ]
        for name, jobs in groups.items()
    ]
    print_table(
        ["job", *(["training seeds"] if has_training_seeds else []), "seeds", "done", "examples", "queries (about)"],
        rows,
    )
    say()
    done = sum(job.key in planned.done for job in planned.jobs)
    remaining = [job for job in planned.jobs if job.key not in planned.done]
    say(f"{len(planned.jobs)} jobs, {done} done; to do: {_count_remaining(remaining, planned)}")
    costs = [planned.estimates[job.key] for job in remaining if job.key in planned.estimates]
    for hint in dict.fromkeys(cost.told for cost in costs if cost.told):
        say(hint.format(sum(cost.examples for cost in costs if cost.told == hint)))
    attacks = [planned.estimates[job.key] for job in remaining if job.attacking and job.key in planned.estimates]
    if examples := sum(cost.examples for cost in attacks):
        say(
            f"to attack: {examples:,} examples, about "
            f"{_format_estimate(sum(cost.queries for cost in attacks))} model queries"
        )
    for note in planned.notes:
        say(f"note: {note}")
    say(f"results go to {planned.run}")


def _count_remaining(remaining_jobs: Sequence[Job], planned: Planned) -> str:
    """Count the remaining jobs of each stage: `3 pretrain (2 in the cache), 6 finetune`."""
    stages: dict[str, list[Job]] = {}
    for job in remaining_jobs:
        stages.setdefault(job.stage, []).append(job)
    counts = [
        f"{len(jobs)} {stage}{_format_cached(jobs, planned, ' ({} in the cache)')}" for stage, jobs in stages.items()
    ]
    return ", ".join(counts) or "nothing"


def _format_cached(jobs: Sequence[Job], planned: Planned, text: str) -> str:
    """Format `text` with the number of jobs whose weights are in the cache. Returns an empty string where it is 0."""
    count = sum(job.key in planned.cached for job in jobs)
    return text.format(count) if count else ""


def _format_trainings(jobs: Sequence[Job], planned: Planned) -> str:
    """Format the training seeds of some jobs; empty for an encoder that rbench does not train."""
    train_seeds = (planned.plan.draw(job.parts[0]).train_seed for job in jobs)
    return _format_range(seed for seed in train_seeds if seed is not None)


def _format_range(values: Iterable[int]) -> str:
    seeds = sorted({*values})
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))


def _cost_columns(jobs: Sequence[Job], planned: Planned) -> list[str]:
    done = f"{sum(job.key in planned.done for job in jobs)}/{len(jobs)}{_format_cached(jobs, planned, ', {} cached')}"
    estimates = [planned.estimates[job.key] for job in jobs if job.key in planned.estimates]
    if not estimates:
        return [done, "", ""]
    queries = sum(estimate.queries for estimate in estimates)
    return [done, f"{sum(estimate.examples for estimate in estimates):,}", _format_estimate(queries) if queries else ""]


def _format_estimate(n: int) -> str:
    """Format an estimate with two significant digits."""
    return f"{round(n, 2 - len(str(n))):,}" if n >= 100 else str(n)


def print_result(run: RunResult, *, quiet: bool = False) -> None:
    """Print the suite's tables to standard output, then failures and remedies to standard error.

    Args:
        quiet: do not say where the results are if all is well.
    """
    try:
        for table in run.tables:
            say(table.rstrip("\n") + "\n")
        for line in run.claims:
            say(line)
    finally:
        # Printed in `finally`: where standard output cannot be written, what failed is still said.
        if not quiet:
            tell(f"{run.complete} jobs complete; results are in {run.run}")
            if run.figures:
                tell(f"figures: {', '.join(map(str, run.figures))}")
            if run.report is not None:
                tell(f"report: {run.report}")
        print_trouble(run)


def print_trouble(run: RunResult) -> None:
    """Print to standard error what is not done, what failed, errored or is flagged, and the remedies."""
    for line in run.describe_unfinished():
        tell(line)
    for record in run.failed:
        tell(f"failed: {record.job.name}: {record.reason}")
    for line in run.describe_skipped():
        tell(line)
    if run.errored:
        kinds = ", ".join(f"{n} {kind}" for kind, n in run.errored.items())
        tell(f"errored: {sum(run.errored.values())} examples ({kinds}); they are in no denominator, see outcomes.jsonl")
    if late := run.errored.get(TIMED_OUT):
        tell(f"{late} of them took longer than --max-seconds; only --retry-timeouts attacks them again")
    for note in run.flags:
        tell(note)
    if run.failed:
        first = run.run / run.failed[0].job.folder / "record.json"
        which = "The full error is in" if len(run.failed) == 1 else "The full error of each is in its record, such as"
        tell(f"{which} {first}. The same command tries failed jobs again.")


def print_entries(entries: Sequence[ListedFile]) -> None:
    """Print names with titles, references, licences and origins; of attacks also with what they need."""
    needs = any(entry.needs is not None for entry in entries)
    rows: list[list[str | Text]] = [
        [
            Text(entry.name, style="bold"),
            entry.title,
            *([", ".join(entry.needs) if entry.needs is not None else ""] if needs else []),
            entry.reference,
            entry.licence,
            entry.origin,
        ]
        for entry in entries
    ]
    print_table(["name", "title", *(["needs"] if needs else []), "reference", "licence", "from"], rows, tabs=True)


def print_recipes(all_recipes: Iterable[TextAttackRecipe]) -> None:
    """Print the names of TextAttack's recipes that work, and why the others do not."""
    usable: list[TextAttackRecipe] = []
    refused: list[TextAttackRecipe] = []
    for recipe in all_recipes:
        (refused if recipe.refused else usable).append(recipe)
    say(f"\nTextAttack's recipes work by class name too: {', '.join(recipe.name for recipe in usable)}\n")
    say("These cannot be run here:")
    for recipe in refused:
        say(f"{recipe.name}: {recipe.refused}")


def print_kinds(names: Mapping[str, Sequence[str]]) -> None:
    """Print the kinds of things that have names, what they are, the number of each, and the first names."""
    rows: list[list[str | Text]] = [
        [
            Text(kind, style="bold"),
            str(len(names_of_kind)),
            f"{KINDS[kind].one}: {KINDS[kind].about}" if KINDS[kind].about else KINDS[kind].one,
            ", ".join(names_of_kind[:3]) + ", ..." * (len(names_of_kind) > 3),
        ]
        for kind, names_of_kind in names.items()
    ]
    print_table(["rbench list", "there are", "one is", "for instance"], rows)


def print_objectives(listed_objectives: Sequence[ListedObjective]) -> None:
    """Print training objectives with titles, the options that --set takes and their defaults, and origins."""
    rows: list[list[str | Text]] = [
        [
            Text(objective.listed.name, style="bold"),
            objective.listed.title,
            ", ".join(f"{key}={_as_yaml(value)}" for key, value in objective.options.items()),
            objective.listed.origin,
        ]
        for objective in listed_objectives
    ]
    print_table(["name", "objective", "options and their defaults", "from"], rows, tabs=True)


def print_options(title: str, listed_options: Sequence[ListedOption]) -> None:
    """Print a title, and options with their defaults, their choices and what they are."""
    say(f"{title}\n")
    if not listed_options:
        say("It has no options.")
        return
    rows: list[list[str | Text]] = [
        [
            Text(figure_option.name, style="bold"),
            "required" if figure_option.required else _as_yaml(figure_option.default),
            f"{' or '.join(figure_option.choices)}. {figure_option.description}"
            if figure_option.choices
            else figure_option.description,
        ]
        for figure_option in listed_options
    ]
    print_table(["--option", "default", "what it is"], rows, tabs=True)


def _as_yaml(value: Any) -> str:
    """Format a value as --set takes it."""
    if value is None:
        return "null"
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else f"{value}"


def environment(checks: Sequence[Check]) -> None:
    """Print what was found and where, then what is missing, with each remedy once."""
    marks = {
        True: Text("ok", style="green"),
        False: Text("missing", style="red"),
        None: Text("unchecked", style="yellow"),
    }
    rows: list[list[str | Text]] = [
        [
            f"{environment_check.kind} {environment_check.name}",
            marks[environment_check.ok],
            environment_check.where if environment_check.ok is not False else "see below",
        ]
        for environment_check in checks
    ]
    print_table(["what", "state", "where"], rows)
    missing = [check for check in checks if check.ok is False]
    remedies: dict[str, list[str]] = {}
    for check in missing:
        remedies.setdefault(check.remedy, []).append(f"{check.kind} {check.name}")
    for remedy, names in remedies.items():
        say(f"\nmissing: {', '.join(names)}\n  {remedy}")
    say(f"\n{len(checks) - len(missing)} of {len(checks)} are there")


def colour_change(original: str, perturbed: str) -> Text:
    """Return the change in colours: old words red and struck through, new ones green."""
    text = Text()
    for old, new in iter_changes(original, perturbed):
        if old == new:
            text.append(harmless(old))
            continue
        text.append(harmless(old), style="red strike")
        if old and new:
            text.append(" ")
        text.append(harmless(new), style="bold green")
    return text


def show_column(name: str, original: str, perturbed: str) -> None:
    """Print the change of one column, which has a name where a text has several."""
    title = f"  {name}: " if name else "  "
    if is_terminal():
        terminal = console()
        with (
            terminal.capture() as captured
        ):  # a console writes past the bars of another one, which `print` puts below it
            terminal.print(Text(title) + colour_change(original, perturbed))
        print(captured.get(), end="", flush=True)
    else:
        say(f"{title}{mark_changes(original, perturbed)}")


def print_example(outcome: Outcome, columns: tuple[str, ...], labels: tuple[str, ...], place: str) -> None:
    """Print one attacked example: its status, labels and queries, and each column with its changes."""
    say(f"{place} example {outcome.example_id}: {summarise_outcome(outcome, labels)}")
    before = outcome.original or ()
    after = outcome.perturbed or before
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        show_column(columns[i] if len(before) > 1 and i < len(columns) else "", old, new)
    if outcome.error:
        say(f"  {outcome.error.strip().splitlines()[-1]}")
    say()


def summarise_outcome(outcome: Outcome, labels: tuple[str, ...]) -> str:
    """Summarize an outcome in one line.

    For example `succeeded, label positive, predicted positive -> negative, 41 queries, 2 of 17 words changed`. Of an
    STS pair it has `gold 3, scored 2.84 -> 1.31`.
    """

    def name(label: int | None) -> str:
        if label is None:
            return "nothing"
        return labels[label] if 0 <= label < len(labels) else str(label)

    if outcome.gold is not None:
        parts = [outcome.status, f"gold {outcome.gold:g}", *_format_scores(outcome)]
    elif outcome.status == "succeeded":
        parts = [outcome.status, f"label {name(outcome.label)}"]
        parts.append(f"predicted {name(outcome.original_prediction)} -> {name(outcome.perturbed_prediction)}")
    else:
        parts = [outcome.status, f"label {name(outcome.label)}", f"predicted {name(outcome.original_prediction)}"]
    if outcome.status == "skipped":
        reason = "no words to change" if outcome.skip_reason == "no words" else outcome.skip_reason
        parts.append(reason or "wrong before any change")
    else:
        parts += [f"{outcome.num_queries} queries", f"{outcome.num_words_changed} of {outcome.num_words} words changed"]
    if outcome.oracle_label is not None:
        parts.append(f"true label of the new text {name(outcome.oracle_label)}")
    return ", ".join(parts)


def _format_scores(outcome: Outcome) -> list[str]:
    """Say how a scorer scored an STS pair, before and after; nothing where it was never scored."""
    if outcome.original_score is None:
        return []
    after = "" if outcome.perturbed_score is None else f" -> {outcome.perturbed_score:.2f}"
    return [f"scored {outcome.original_score:.2f}{after}"]
