"""Implements `rbench verify`, `strip`, `merge`, `build` and `cache`: RUNs that are kept, sets, and trained weights."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
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
    from rbench.api import Options
    from rbench.store.weights.inventory import Item


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
    found = rbench.api.verify_strictly(run) if strict else rbench.api.verify(run)
    for finding in found.findings:
        say(f"{finding.kind}: {finding.text}")
    if found.derived:
        say(f"not verified: {', '.join(found.derived)}, which rbench table, figure and report make anew of the records")
    say(f"{sum(found.counts.values())} jobs: {', '.join(f'{n} {state}' for state, n in found.counts.items())}")
    if strict:
        say(f"{found.run} {'may not' if found.damaged else 'may'} stand on a leaderboard")
    if found.damaged:
        raise typer.Exit(FAILED)


@app.command(rich_help_panel=KEEP, epilog="Example: [bold]rbench strip results/runs/table1 --out to-publish[/bold]")
@verb("Copying {run} without its texts")
def strip(
    run: Path = a.RUN,
    out: Path | None = a.option("--out DIR", "The new folder. (default: RUN-stripped, beside it)"),
) -> None:
    """Copy a run without its texts.

    Many licences forbid redistributing texts. The copy has records, tables, and outcomes with labels, predictions,
    queries and words changed, but no texts. The run itself is not changed.
    """
    say(f"the copy without texts is in {rbench.api.strip(run, out)}")


@app.command(rich_help_panel=KEEP, epilog="Example: [bold]rbench pack results/runs/table1[/bold]")
@verb("Packing {run}")
def pack(
    run: Path = a.RUN,
    out: Path | None = a.option("--out FILE", "The new file. (default: RUN.zip, beside it)", dir_okay=False),
) -> None:
    """Write a run as one file, to send or to keep.

    Every command that reads a run reads the file as it is. It takes an eighth of the space. What rbench verify does not
    pass is not packed. Tables, figures and reports are left out, because they can be made of it. The run itself is not
    changed. rbench unpack is the way back. Outcomes are Parquet, which pandas reads:
    pandas.read_parquet("zip://outcomes.parquet::RUN.zip").

    A file that an earlier version packed is converted: name the new one with --out.
    """
    found = rbench.api.pack(run, out)
    left_out = f"; left out: {', '.join(found.left_out)}" if found.left_out else ""
    say(f"{found.path}: {found.files} files, {size(found.size)} in {size(found.path.stat().st_size)}{left_out}")


@app.command(rich_help_panel=KEEP, epilog="Example: [bold]rbench unpack table1.zip[/bold]")
@verb("Unpacking {run}")
def unpack(
    run: Path = a.argument("FILE", "A file that rbench pack wrote.", ..., dir_okay=False),
    out: Path | None = a.option("--out DIR", "The new folder. (default: FILE without .zip, beside it)"),
) -> None:
    """Write the folder of a packed run again, so that rbench run can go on with it.

    The file may come from anybody: a damaged one, one with links or names that lead elsewhere, and one that would fill
    the disk are refused.
    """
    found = rbench.api.unpack(run, out)
    say(f"{found.path}: {found.files} files, {size(found.size)}")


@app.command(
    rich_help_panel=KEEP,
    epilog="Example: [bold]rbench merge part-1 part-2 --out results/runs/table1[/bold]",
)
@verb("Merging {run}")
def merge(
    run: list[Path] = a.argument("RUN...", "Two RUNs or more: folders, or files of rbench pack.", ...),
    out: Path = a.option("--out DIR", "The new folder, which must not be there.", ...),
) -> None:
    """Merge runs of parts of a suite into one run.

    Takes each job from a run where it is complete. Refuses runs that are damaged, and runs in which one name stands for
    different data, weights, options or versions of the code; it lists what differs. The runs themselves are not
    changed.
    """
    found = rbench.api.merge(run, out)
    for note in found.notes:
        say(f"note: {note}")
    several = f" ({found.shared} of them in several)" if found.shared else ""
    say(f"{found.run}: {found.jobs} jobs of {len(run)} runs, {found.complete} complete{several}")


build = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(
    build,
    name="build",
    rich_help_panel=KEEP,
    short_help="Write adversarial sets.",
    help="Write adversarial sets.\n\nThings to look at, such as hard positives, are built by a suite's key `build:`.",
    epilog="Example: [bold]rbench build adversarial --run results/runs/quickstart --out my-set[/bold]",
)


class Only(StrEnum):
    """Which examples are rows of a set."""

    all = "all"
    attacked = "attacked"
    successes = "successes"


@build.command(
    "adversarial",
    epilog="Example: [bold]rbench build adversarial -e mini-bert-packaged -t mini-sentiment -a pwws -n 100 "
    "--out my-set[/bold]",
)
@verb(
    "Building an adversarial set in {out}",
    "Run the same command again: finished examples are kept.",
    shared="overrides data models include device workers backend quiet verbose",
)
def adversarial(
    *,
    out: Path = a.option("--out DIR", "The folder of the set, new or empty.", ..., file_okay=False),
    run: Path | None = a.option("--run RUN", "Take the outcomes of this finished run."),
    encoder: str | None = a.option("--encoder -e NAME|DIR|ID", a.ENCODERS),
    task: str | None = a.option("--task -t NAME", "rbench list tasks"),
    attack: str | None = a.option("--attack -a NAME", "rbench list attacks"),
    finetune: str | None = a.option("--finetune NAME", "rbench list finetune. (default: clean)"),
    seed: int | None = a.option("--seed N", "Of victim, sample and attack. (default: 0)", min=0),
    n: int | None = a.option("--num-examples -n N", "How many test texts. (default: 1000)", min=1),
    resources: str | None = a.option("--resources SET", "rbench list resources"),
    only: Only = a.option(
        "--only",
        "Rows: all examples (those that did not fall keep their text), those attacked, or successes alone.",
        Only.all,
    ),
    overwrite: bool = a.option("--overwrite", "Replace the set in DIR. Other files there are left as they are.", False),
    options: Options,
    quiet: bool,
) -> None:
    """Write the texts that an attack made against one victim as a data set.

    With --encoder, --task and --attack, fine-tunes and attacks that victim; the run is kept and resumed. With --run,
    uses the stored outcomes of a finished run; --encoder, --task, --attack, --finetune and --seed say which where it
    has several. The set has parquet files and a card, and opens with datasets.load_dataset(DIR).
    """
    from rbench.system.progress import watching

    cell = rbench.api.Cell(encoder, task, attack, finetune, seed)
    if run is not None:
        if n is not None or resources is not None or options.overrides:
            raise PlanError("--run takes outcomes that are there: leave out --num-examples, --resources and --set")
        built = rbench.api.build_adversarial_from(run, out, cell, only=Only(only).value, overwrite=overwrite)
    else:
        given = {"--encoder": encoder, "--task": task, "--attack": attack}
        if missing := [name for name, value in given.items() if value is None]:
            raise PlanError(f"give {', '.join(missing)}, or --run RUN for outcomes that are there")
        with watching(quiet) as progress:
            built = rbench.api.build_adversarial(
                cell,
                out,
                options,
                num_examples=n or 1000,
                resources=resources,
                only=Only(only).value,
                overwrite=overwrite,
                progress=progress,
            )
    counts = built.about.counts
    said = ", ".join(f"{counts[name]} {name}" for name in ("succeeded", "failed", "skipped", "errored"))
    say(f"{counts['rows']} rows are in {built.folder} (of {counts['total']} examples: {said})")
    say(f"the outcomes are in {built.run}")


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
    from rbench.store.weights import default_cache
    from rbench.store.weights.inventory import items

    root = default_cache()
    if found := items(root):
        _show(found)
        say(f"\n{_total(found)} in {root}")
    else:
        say(f"the cache {root} {'is empty' if root.exists() else 'does not exist yet: rbench run makes it'}")


def _duration(text: str | None) -> float | None:
    from rbench.store.weights.inventory import seconds

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
    older_than: str | None = a.option("--older-than TIME", "Entries not used for this long: 12h, 30d or 2w."),
    runs: list[Path] | None = a.option(
        "--run RUN", "Entries that this run's jobs made or used. May be repeated: any of the runs."
    ),
    keep: list[Path] | None = a.option(
        "--keep RUN", "Entries that this run does not need. May be repeated: none of the runs."
    ),
    dry_run: bool = a.option("--dry-run", "Remove nothing, as without --yes.", False),
    yes: bool = a.option("--yes -y", "Remove the chosen entries.", False),
) -> None:
    """Show what could go from the cache; remove it with --yes.

    Options choose the entries to remove. With several options, an entry must match all of them. Without options, the
    entries are those that nobody can use: folders of killed processes, damaged weights, and checkpoints of trainings
    that are over.

    Entries in use by a running process are kept, and nothing outside the cache folder is touched.
    """
    from rbench.api import housekeeping
    from rbench.store.weights import default_cache
    from rbench.system.progress import tracking

    if yes and dry_run:
        raise typer.BadParameter("say one of --yes and --dry-run, not both", param_hint="--yes")
    unused = _duration(older_than)
    with tracking("reading the cache") as track:
        chosen, gone = housekeeping.prune(older_than=unused, runs=runs or (), keep=keep or (), delete=yes, track=track)
    root = default_cache()
    if not chosen:
        say(f"nothing to remove in {root}")
        return
    if not yes:
        _show(chosen)
        say(f"\n{_total(chosen)} in {root}. Nothing was removed: --yes removes it.")
        return
    for item in chosen:
        if item not in gone:
            tell(f"kept, for it is in use or cannot be removed: {item.kind} {item.name}")
    say(f"removed {_total(gone)} from {root}")


@cache.command("verify", epilog="Example: [bold]rbench cache verify[/bold]")
@verb("Reading all weights in the cache")
def verify_cache() -> None:
    """Read all weights and say which are damaged.

    Compares every file of every encoder and victim with the digest recorded when it was written. Exits with 1 if any
    differs. A run checks the weights that it uses by itself.
    """
    from rbench.api import housekeeping
    from rbench.store.weights import default_cache
    from rbench.system.progress import tracking

    with tracking("reading weights") as track:
        checked, bad = housekeeping.verify(track)
    root = default_cache()
    if not checked:
        say(f"there are no encoders and victims in {root}")
        return
    for item, wrong in bad:
        say(f"{item.kind} {item.name} ({item.path}): {wrong}")
    say(f"{len(checked) - len(bad)} of {len(checked)} encoders and victims in {root} are whole")
    if bad:
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
