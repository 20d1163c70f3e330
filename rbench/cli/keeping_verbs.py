"""Implements `rbench verify`, `pack` and `cache`: RUNs and trained weights that are kept."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.text import Text

import rbench
from rbench.cli import arguments as a
from rbench.cli.console import print_table, say, tell
from rbench.cli.verbs import FAILED, KEEP, app, verb
from rbench.errors import PlanError

if TYPE_CHECKING:
    from rbench.store.weights.inventory import CacheItem


@app.command(rich_help_panel=KEEP, epilog="Example: [bold]rbench verify results/runs/quickstart[/bold]")
@verb("Verifying {run}")
def verify(
    run: Path = a.RUN,
    strict: bool = a.option("--strict", "Also refuse what may not stand on a leaderboard (results/README.md).", False),
) -> None:
    """Re-read a run and say what is damaged.

    Checks that each record and outcome is as it was written, and that counts and scores follow from the outcomes.
    Tables, figures and reports in its folder are made of these, and are not looked at. Changes nothing. Exits with 1 if
    anything is damaged.
    """
    verified = rbench.api.verify_strictly(run) if strict else rbench.api.verify(run)
    for finding in verified.findings:
        say(f"{finding.kind}: {finding.text}")
    if verified.derived:
        say(
            f"not verified: {', '.join(verified.derived)}, which rbench table, figure and report make anew of "
            "the records"
        )
    say(f"{sum(verified.counts.values())} jobs: {', '.join(f'{n} {state}' for state, n in verified.counts.items())}")
    if strict:
        say(f"{verified.run} {'may not' if verified.damaged else 'may'} stand on a leaderboard")
    if verified.damaged:
        raise typer.Exit(FAILED)


PRUNE_PANEL = "What goes (with --prune)"


def _first_line_of_pack(arguments: Mapping[str, object]) -> str:
    """Return the first line of `rbench pack`."""
    return f"{'Unpacking' if arguments['unpack'] else 'Packing'} {arguments['run']}"


def _first_line_of_cache(arguments: Mapping[str, object]) -> str:
    """Return the first line of `rbench cache`."""
    if arguments["verify"]:
        return "Reading all weights in the cache"
    return "Looking for what may go from the cache" if arguments["prune"] else "Listing the cache"


@app.command(
    rich_help_panel=KEEP,
    epilog="Examples: [bold]rbench pack results/runs/table1[/bold], [bold]rbench pack table1.zip --unpack[/bold], "
    "[bold]rbench pack part-1 part-2 --out results/runs/table1[/bold]",
)
@verb(_first_line_of_pack)
def pack(
    *,
    run: list[Path] = a.argument("RUN...", "A folder that rbench run wrote, or a file of rbench pack.", ...),
    out: Path | None = a.option(
        "--out PATH",
        "The new file, whose name ends in .zip, or (of several RUNs, or with --no-texts or --unpack) the new folder. "
        "(default: RUN.zip beside the run, with --no-texts RUN-no-texts.zip; with --unpack the file without .zip)",
    ),
    no_texts: bool = a.option(
        "--no-texts", "Leave texts out, which many licences do not allow to pass on. All else is there.", False
    ),
    unpack: bool = a.option("--unpack", "Write the folder of a packed run again.", False),
) -> None:
    """Write runs as one file, to send or to keep.

    Every command that reads a run reads the file as it is. It takes an eighth of the space. What rbench verify does not
    pass is not packed. Tables, figures and reports are left out, because they can be made of it. The runs themselves
    are not changed. Outcomes are Parquet, which pandas reads:
    pandas.read_parquet("zip://outcomes.parquet::RUN.zip").

    A file that an earlier version packed is converted: name the new one with --out.

    Several runs of parts of a suite become one. Each job is taken from a run where it is complete. Runs that are
    damaged are refused, and runs in which one name stands for different data, weights, options or versions of the code.

    With --unpack, writes a folder with which rbench run can go on. The file may come from anybody: a damaged one, one
    with links or names that lead elsewhere, and one that would fill the disk are refused.
    """
    if unpack:
        if no_texts or len(run) > 1:
            raise PlanError(
                "--unpack writes the folder of one packed RUN, with its texts: rbench pack RUN.zip --unpack"
            )
        written = rbench.api.unpack(run[0], out)
        say(f"{written.path}: {written.files} files, {format_size(written.size)}")
        return
    gathered = rbench.api.gather(run, out, texts=not no_texts)
    if gathered.merged is not None:
        for note in gathered.merged.notes:
            say(f"note: {note}")
        in_several = f" ({gathered.merged.shared} of them in several)" if gathered.merged.shared else ""
        say(
            f"{gathered.path}: {gathered.merged.jobs} jobs of {len(run)} runs, {gathered.merged.complete} "
            f"complete{in_several}"
        )
    if no_texts:
        say(f"the copy without texts is in {gathered.path}")
    if (packed := gathered.packed) is not None:
        left_out = f"; left out: {', '.join(packed.left_out)}" if packed.left_out else ""
        sizes = f"{format_size(packed.size)} in {format_size(packed.path.stat().st_size)}"
        say(f"{packed.path}: {packed.files} files, {sizes}{left_out}")


@app.command(
    rich_help_panel=KEEP,
    epilog="Example: [bold]rbench cache --prune --older-than 30d --keep results/runs/table1[/bold] shows what was not "
    "used for thirty days and is not needed by that run; with [bold]--yes[/bold] it is removed.",
)
@verb(_first_line_of_cache, "What was removed so far is gone; the rest is as it was.")
def cache(
    *,
    verify: bool = a.option("--verify", "Read all weights, and exit with 1 if a file is not as it was written.", False),
    prune: bool = a.option("--prune", "Show what could go; remove it with --yes.", False),
    older_than: str | None = a.option(
        "--older-than TIME", "Entries not used for this long: 12h, 30d or 2w.", panel=PRUNE_PANEL
    ),
    runs: list[Path] | None = a.option(
        "--run RUN", "Entries that this run's jobs made or used. May be repeated: any of the runs.", panel=PRUNE_PANEL
    ),
    keep: list[Path] | None = a.option(
        "--keep RUN", "Entries that this run does not need. May be repeated: none of the runs.", panel=PRUNE_PANEL
    ),
    yes: bool = a.option("--yes -y", "Remove the chosen entries.", False, panel=PRUNE_PANEL),
) -> None:
    """List, check and prune trained weights.

    Encoders and fine-tuned classifiers (victims) are kept in a folder that all runs share: RBENCH_CACHE, or
    ~/.cache/rbench. Lists what is there, with sizes, by the name of the job that made it. Its last use is when a job
    last made or loaded it; for anything else, when it was last written.

    With --prune, options choose the entries to remove. With several options, an entry must match all of them. Without
    options, the entries are those that nobody can use: folders of killed processes, damaged weights, and checkpoints of
    trainings that are over. Entries in use by a running process are kept, and nothing outside the cache folder is
    touched. What is removed is trained again by the next run that needs it.
    """
    if not prune and (older_than is not None or runs or keep or yes):
        raise PlanError("--older-than, --run, --keep and --yes choose what goes: say --prune, too")
    if verify:
        _verify_cache()
    elif prune:
        _prune_cache(older_than, runs or (), keep or (), yes=yes)
    else:
        _list_cache()


def _list_cache() -> None:
    from rbench.store.weights import default_cache
    from rbench.store.weights.inventory import list_items

    root = default_cache()
    if cached_items := list_items(root):
        _print_items(cached_items)
        say(f"\n{_format_total(cached_items)} in {root}")
    else:
        say(f"the cache {root} {'is empty' if root.exists() else 'does not exist yet: rbench run makes it'}")


def _prune_cache(older_than: str | None, runs: Sequence[Path], keep: Sequence[Path], *, yes: bool) -> None:
    """Print what could go, or remove it and print what went."""
    from rbench.api import housekeeping
    from rbench.store.weights import default_cache
    from rbench.store.weights.inventory import parse_seconds
    from rbench.system.progress import track_items

    unused = None if older_than is None else parse_seconds(older_than)
    with track_items("reading the cache") as track:
        chosen_items, removed = housekeeping.prune(older_than=unused, runs=runs, keep=keep, delete=yes, track=track)
    root = default_cache()
    if not chosen_items:
        say(f"nothing to remove in {root}")
        return
    if not yes:
        _print_items(chosen_items)
        say(f"\n{_format_total(chosen_items)} in {root}. Nothing was removed: --yes removes it.")
        return
    for item in chosen_items:
        if item not in removed:
            tell(f"kept, for it is in use or cannot be removed: {item.kind} {item.name}")
    say(f"removed {_format_total(removed)} from {root}")


def _verify_cache() -> None:
    """Compare every file of every encoder and victim with the digest recorded when it was written, and print which
    differ. Ends with exit code 1 where any does. A run checks the weights that it uses by itself."""
    from rbench.api import housekeeping
    from rbench.store.weights import default_cache
    from rbench.system.progress import track_items

    with track_items("reading weights") as track:
        checked, damaged = housekeeping.verify(track)
    root = default_cache()
    if not checked:
        say(f"there are no encoders and victims in {root}")
        return
    for item, wrong in damaged:
        say(f"{item.kind} {item.name} ({item.path}): {wrong}")
    say(f"{len(checked) - len(damaged)} of {len(checked)} encoders and victims in {root} are whole")
    if damaged:
        tell("The others are made again when a run needs them; rbench cache --prune --yes removes them now.")
        raise typer.Exit(FAILED)


def _print_items(items: Sequence[CacheItem]) -> None:
    rows: list[list[str | Text]] = [
        [
            Text(item.kind, style="bold"),
            item.name,
            (item.key or "")[:8],
            format_size(item.size),
            format_age(time.time() - item.used),
            "in use" if item.in_use else item.why,
        ]
        for item in items
    ]
    print_table(["kind", "what", "key", "size", "last used", ""], rows)


def _format_total(items: Sequence[CacheItem]) -> str:
    return f"{len(items)} {'entry' if len(items) == 1 else 'entries'}, {format_size(sum(item.size for item in items))},"


def format_size(count: float) -> str:
    """Format bytes for people, in powers of 1,000: `88.4 MB`."""
    if count < 999.5:
        return f"{count:.0f} B"
    power = min(3, next(i for i in range(1, 9) if count / 1000**i < 999.95))
    return f"{count / 1000**power:.1f} {' kMG'[power]}B"


def format_age(seconds: float) -> str:
    """Format an age in the largest unit that fits: `3 days ago`."""
    for unit, length in (("day", 24 * 3600), ("hour", 3600), ("minute", 60)):
        if (count := int(seconds // length)) > 0:
            return f"{count:,} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
