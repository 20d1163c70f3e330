"""Implements `rbench cache`: listing the cache, pruning it, and checking that its files are as they were written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from rbench.cli.console import print_table, say, tell
from rbench.cli.keeping_verbs import KEEP
from rbench.cli.verbs import FAILED, app, verb

if TYPE_CHECKING:
    from rbench.storage.weights.inventory import Item


cache = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(
    cache,
    name="cache",
    rich_help_panel=KEEP,
    short_help="List, check and prune trained weights.",
    help="List, check and prune trained weights.\n\n"
    "Encoders and fine-tuned classifiers (victims) are kept in a folder that all runs share: RBENCH_CACHE, or "
    "~/.cache/rbench. What is removed there is trained again by the next run that needs it.",
    epilog="Example: [bold]rbench cache prune --older-than 30d[/bold]",
)


@cache.command("list", epilog="Example: [bold]rbench cache list[/bold]")
@verb("Listing the cache")
def list_() -> None:
    """List what is in the cache, with sizes.

    An encoder or a victim (a fine-tuned classifier) is listed by the name of the job that made it. Its last use is when
    a job last made or loaded it. For anything else, last use is when it was last written.
    """
    from rbench.api import housekeeping

    found = housekeeping.cached()
    if not found.items:
        say(f"the cache {found.root} {'is empty' if found.exists else 'does not exist yet: rbench run makes it'}")
        return
    _show(found.items)
    say(f"\n{_total(found.items)} in {found.root}")


def _duration(text: str | None) -> float | None:
    from rbench.storage.weights.prune import seconds

    try:
        return None if text is None else seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@cache.command(
    epilog="Example: [bold]rbench cache prune --older-than 30d --keep results/runs/table1[/bold] shows what was not "
    "used for thirty days and is not needed by that run; with [bold]--yes[/bold] it is removed."
)
@verb("Looking for what may go from the cache", "What was removed so far is gone; the rest is as it was.")
def prune(
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Entries not used for this long: 12h, 30d or 2w."),
    ] = None,
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            "--run", metavar="RUN", help="Entries that this run's jobs made or used. May be repeated: any of the runs."
        ),
    ] = None,
    keep: Annotated[
        list[Path] | None,
        typer.Option(
            "--keep", metavar="RUN", help="Entries that this run does not need. May be repeated: none of the runs."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing, as without --yes.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove the chosen entries.")] = False,
) -> None:
    """Show what could go from the cache; remove it with --yes.

    Options choose the entries to remove. With several options, an entry must match all of them. Without options, the
    entries are those that nobody can use: folders of killed processes, damaged weights, and checkpoints of trainings
    that are over.

    Entries in use by a running process are kept, and nothing outside the cache folder is touched.
    """
    from rbench.api import housekeeping
    from rbench.progress.bars import tracking

    if yes and dry_run:
        raise typer.BadParameter("say one of --yes and --dry-run, not both", param_hint="--yes")
    unused = _duration(older_than)
    with tracking("reading the cache") as track:
        pruned = housekeeping.prune(older_than=unused, runs=runs or (), keep=keep or (), delete=yes, track=track)
    if not pruned.chosen:
        say(f"nothing to remove in {pruned.root}")
        return
    if not yes:
        _show(pruned.chosen)
        say(f"\n{_total(pruned.chosen)} in {pruned.root}. Nothing was removed: --yes removes it.")
        return
    for item in pruned.chosen:
        if item not in pruned.gone:
            tell(f"kept, for it is in use or cannot be removed: {item.kind} {item.name}")
    say(f"removed {_total(pruned.gone)} from {pruned.root}")


@cache.command(epilog="Example: [bold]rbench cache verify[/bold]")
@verb("Reading all weights in the cache")
def verify() -> None:
    """Read all weights and say which are damaged.

    Compares every file of every encoder and victim with the digest recorded when it was written. Exits with 1 if any
    differs. A run checks the weights that it uses by itself.
    """
    from rbench.api import housekeeping
    from rbench.progress.bars import tracking

    with tracking("reading weights") as track:
        found = housekeeping.verify(track)
    if not found.checked:
        say(f"there are no encoders and victims in {found.root}")
        return
    for item, wrong in found.bad:
        say(f"{item.kind} {item.name} ({item.path}): {wrong}")
    say(f"{len(found.checked) - len(found.bad)} of {len(found.checked)} encoders and victims in {found.root} are whole")
    if found.bad:
        tell("The others are made again when a run needs them; rbench cache prune --yes removes them now.")
        raise typer.Exit(FAILED)


def _show(items: Sequence[Item]) -> None:
    rows: list[list[str | Text]] = [
        [
            Text(item.kind, style="bold"),
            item.name,
            (item.key or "")[:8],
            size(item.size),
            age(time.time() - item.used),
            "in use" if item.in_use else item.why,
        ]
        for item in items
    ]
    print_table(["kind", "what", "key", "size", "last used", ""], rows)


def _total(items: Sequence[Item]) -> str:
    return f"{len(items)} {'entry' if len(items) == 1 else 'entries'}, {size(sum(item.size for item in items))},"


def size(count: float) -> str:
    """Format bytes for people, in powers of 1,000: `88.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.95 or unit == "GB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def age(seconds: float) -> str:
    """Format an age in the largest unit that fits: `3 days ago`."""
    for unit, length in (("day", 24 * 3600), ("hour", 3600), ("minute", 60)):
        if (count := int(seconds // length)) > 0:
            return f"{count:,} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
