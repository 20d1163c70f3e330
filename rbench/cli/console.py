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
from rbench.system.changes import changes, marked
from rbench.system.console import console, harmless, is_terminal, silence, tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rbench.api import Check, ListedObjective, Planned, RunResult
    from rbench.config import Listed
    from rbench.config.attacks import Recipe
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


class _ToStderr(logging.Handler):
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
    log.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING)
    if not any(isinstance(handler, _ToStderr) for handler in log.handlers):
        log.addHandler(_ToStderr())
        log.propagate = False
    for handler in log.handlers:
        if isinstance(handler, _ToStderr):
            handler.timed = verbose


def plan(planned: Planned) -> None:
    """Print jobs grouped over seeds, what is done, and what the remaining jobs cost."""
    groups: dict[str, list[Job]] = {}
    for job in planned.jobs:
        label, *rest = job.parts
        groups.setdefault("/".join((job.stage, planned.plan.draw(label).encoder, *rest)), []).append(job)
    axis = planned.plan.draws
    rows = [
        [
            name,
            *([_trainings(jobs, planned)] if axis else []),
            _ranged({job.seed for job in jobs}),
            *_cost(jobs, planned),
        ]
        for name, jobs in groups.items()
    ]
    print_table(["job", *(["training seeds"] if axis else []), "seeds", "done", "examples", "queries (about)"], rows)
    say()
    done = sum(job.key in planned.done for job in planned.jobs)
    left = [job for job in planned.jobs if job.key not in planned.done]
    say(f"{len(planned.jobs)} jobs, {done} done; to do: {_remaining(left, planned)}")
    costs = [planned.estimates[job.key] for job in left if job.key in planned.estimates]
    for told in dict.fromkeys(cost.told for cost in costs if cost.told):
        say(told.format(sum(cost.examples for cost in costs if cost.told == told)))
    attacks = [planned.estimates[job.key] for job in left if job.attacking and job.key in planned.estimates]
    if examples := sum(cost.examples for cost in attacks):
        say(f"to attack: {examples:,} examples, about {_about(sum(cost.queries for cost in attacks))} model queries")
    for note in planned.notes:
        say(f"note: {note}")
    say(f"results go to {planned.run}")


def _remaining(left: Sequence[Job], planned: Planned) -> str:
    """Count the remaining jobs of each stage: `3 pretrain (2 in the cache), 6 finetune`."""
    stages: dict[str, list[Job]] = {}
    for job in left:
        stages.setdefault(job.stage, []).append(job)
    said = [f"{len(jobs)} {stage}{_cached(jobs, planned, ' ({} in the cache)')}" for stage, jobs in stages.items()]
    return ", ".join(said) or "nothing"


def _cached(jobs: Sequence[Job], planned: Planned, text: str) -> str:
    """Format `text` with the number of jobs whose weights are in the cache. Returns an empty string where it is 0."""
    count = sum(job.key in planned.cached for job in jobs)
    return text.format(count) if count else ""


def _trainings(jobs: Sequence[Job], planned: Planned) -> str:
    """Format the training seeds of some jobs; empty for an encoder that rbench does not train."""
    found = (planned.plan.draw(job.parts[0]).train_seed for job in jobs)
    return _ranged(seed for seed in found if seed is not None)


def _ranged(values: Iterable[int]) -> str:
    seeds = sorted({*values})
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))


def _cost(jobs: Sequence[Job], planned: Planned) -> list[str]:
    done = f"{sum(job.key in planned.done for job in jobs)}/{len(jobs)}{_cached(jobs, planned, ', {} cached')}"
    estimates = [planned.estimates[job.key] for job in jobs if job.key in planned.estimates]
    if not estimates:
        return [done, "", ""]
    queries = sum(e.queries for e in estimates)
    return [done, f"{sum(e.examples for e in estimates):,}", _about(queries) if queries else ""]


def _about(n: int) -> str:
    """Format an estimate with two significant digits."""
    return f"{round(n, 2 - len(str(n))):,}" if n >= 100 else str(n)


def result(run: RunResult, *, quiet: bool = False) -> None:
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
        if not quiet:
            tell(f"{run.complete} jobs complete; results are in {run.run}")
            if run.figures:
                tell(f"figures: {', '.join(map(str, run.figures))}")
            if run.report is not None:
                tell(f"report: {run.report}")
        trouble(run)


def trouble(run: RunResult) -> None:
    """Print to standard error what is not done, what failed, errored or is flagged, and the remedies."""
    for line in run.said_of_others():
        tell(line)
    for record in run.failed:
        tell(f"failed: {record.job.name}: {record.reason}")
    for line in run.said_of_skipped():
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


def listed(entries: Sequence[Listed]) -> None:
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


def recipes(found: Iterable[Recipe]) -> None:
    """Print the names of TextAttack's recipes that work, and why the others do not."""
    usable: list[Recipe] = []
    refused: list[Recipe] = []
    for recipe in found:
        (refused if recipe.refused else usable).append(recipe)
    say(f"\nTextAttack's recipes work by class name too: {', '.join(recipe.name for recipe in usable)}\n")
    say("These cannot be run here:")
    for recipe in refused:
        say(f"{recipe.name}: {recipe.refused}")


def kinds(names: Mapping[str, Sequence[str]]) -> None:
    """Print the kinds of things that have names, what they are, the number of each, and the first names."""
    rows: list[list[str | Text]] = [
        [
            Text(kind, style="bold"),
            str(len(found)),
            f"{KINDS[kind].one}: {KINDS[kind].about}" if KINDS[kind].about else KINDS[kind].one,
            ", ".join(found[:3]) + ", ..." * (len(found) > 3),
        ]
        for kind, found in names.items()
    ]
    print_table(["rbench list", "there are", "one is", "for instance"], rows)


def objectives(found: Sequence[ListedObjective]) -> None:
    """Print training objectives with titles, the options that --set takes and their defaults, and origins."""
    rows: list[list[str | Text]] = [
        [
            Text(one.listed.name, style="bold"),
            one.listed.title,
            ", ".join(f"{key}={_yaml(value)}" for key, value in one.options.items()),
            one.listed.origin,
        ]
        for one in found
    ]
    print_table(["name", "objective", "options and their defaults", "from"], rows, tabs=True)


def options(title: str, found: Sequence[ListedOption]) -> None:
    """Print a title, and options with their defaults, their choices and what they are."""
    say(f"{title}\n")
    if not found:
        say("It has no options.")
        return
    rows: list[list[str | Text]] = [
        [
            Text(one.name, style="bold"),
            "required" if one.required else _yaml(one.default),
            f"{' or '.join(one.choices)}. {one.description}" if one.choices else one.description,
        ]
        for one in found
    ]
    print_table(["--option", "default", "what it is"], rows, tabs=True)


def _yaml(value: Any) -> str:
    """Format a value as --set takes it."""
    return "null" if value is None else f"[{', '.join(value)}]" if isinstance(value, tuple) else f"{value}"


def environment(checks: Sequence[Check]) -> None:
    """Print what was found and where, then what is missing, with each remedy once."""
    marks = {
        True: Text("ok", style="green"),
        False: Text("missing", style="red"),
        None: Text("unchecked", style="yellow"),
    }
    rows: list[list[str | Text]] = [
        [f"{c.kind} {c.name}", marks[c.ok], c.where if c.ok is not False else "see below"] for c in checks
    ]
    print_table(["what", "state", "where"], rows)
    missing = [check for check in checks if check.ok is False]
    remedies: dict[str, list[str]] = {}
    for check in missing:
        remedies.setdefault(check.remedy, []).append(f"{check.kind} {check.name}")
    for remedy, names in remedies.items():
        say(f"\nmissing: {', '.join(names)}\n  {remedy}")
    say(f"\n{len(checks) - len(missing)} of {len(checks)} are there")


def coloured(original: str, perturbed: str) -> Text:
    """Return the change in colours: old words red and struck through, new ones green."""
    text = Text()
    for old, new in changes(original, perturbed):
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
        on = console()
        with on.capture() as captured:  # a console writes past the bars of another one, which `print` puts below it
            on.print(Text(title) + coloured(original, perturbed))
        print(captured.get(), end="", flush=True)
    else:
        say(f"{title}{marked(original, perturbed)}")


def example(outcome: Outcome, columns: tuple[str, ...], labels: tuple[str, ...], place: str) -> None:
    """Print one attacked example: its status, labels and queries, and each column with its changes."""
    say(f"{place} example {outcome.example_id}: {headline(outcome, labels)}")
    before = outcome.original or ()
    after = outcome.perturbed or before
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        show_column(columns[i] if len(before) > 1 and i < len(columns) else "", old, new)
    if outcome.error:
        say(f"  {outcome.error.strip().splitlines()[-1]}")
    say()


def headline(outcome: Outcome, labels: tuple[str, ...]) -> str:
    """Summarize an outcome in one line.

    For example `succeeded, label positive, predicted positive -> negative, 41 queries, 2 of 17 words changed`. Of an
    STS pair it has `gold 3, scored 2.84 -> 1.31`.
    """

    def name(label: int | None) -> str:
        return "nothing" if label is None else labels[label] if 0 <= label < len(labels) else str(label)

    if outcome.gold is not None:
        said = [outcome.status, f"gold {outcome.gold:g}", *_scores(outcome)]
    elif outcome.status == "succeeded":
        said = [outcome.status, f"label {name(outcome.label)}"]
        said.append(f"predicted {name(outcome.original_prediction)} -> {name(outcome.perturbed_prediction)}")
    else:
        said = [outcome.status, f"label {name(outcome.label)}", f"predicted {name(outcome.original_prediction)}"]
    if outcome.status == "skipped":
        reason = "no words to change" if outcome.skip_reason == "no words" else outcome.skip_reason
        said.append(reason or "wrong before any change")
    else:
        said += [f"{outcome.num_queries} queries", f"{outcome.num_words_changed} of {outcome.num_words} words changed"]
    if outcome.oracle_label is not None:
        said.append(f"true label of the new text {name(outcome.oracle_label)}")
    return ", ".join(said)


def _scores(outcome: Outcome) -> list[str]:
    """Say how a scorer scored an STS pair, before and after; nothing where it was never scored."""
    if outcome.original_score is None:
        return []
    after = "" if outcome.perturbed_score is None else f" -> {outcome.perturbed_score:.2f}"
    return [f"scored {outcome.original_score:.2f}{after}"]
