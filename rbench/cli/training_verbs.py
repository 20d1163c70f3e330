"""Implements `rbench train` and `rbench export`."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import rbench
from rbench.cli import arguments as a
from rbench.cli.console import say
from rbench.cli.verbs import TRAIN, app, verb
from rbench.config.registry import search_path

if TYPE_CHECKING:
    from rbench.api import Options, Trained


@app.command(
    rich_help_panel=TRAIN,
    epilog="Example: [bold]rbench train simcse-mini[/bold]; of your own: [bold]rbench train simcse --base minilm "
    "--data my.txt --set temperature=0.1 --steps 200 --out my-encoder[/bold]",
)
@verb(
    "Preparing to train {what}",
    "The last checkpoint is kept: the same command continues from it.",
    of="api.training.train",
    shared="models include device report_to quiet verbose",
)
def train(
    *,
    what: str,
    base: str | None,
    data: list[str] | None = a.option(
        "--data CORPUS|FILE|DIR",
        "What to train on: a corpus (rbench list tasks), or a .txt file (one sentence a line) or .jsonl file "
        "(field text). A folder is searched for corpora, as with other verbs. May be repeated.",
        panel="An encoder of your own",
    ),
    options: Options,
    quiet: bool,
    **how: Any,
) -> None:
    """Train an encoder of the registry, or one that options describe.

    An encoder from the registry is trained as its file says. Weights are cached by content: a suite that names the
    encoder finds them, and an encoder that a suite has trained is not trained again.

    With an objective, a base and a corpus, trains an encoder that has no file yet, and prints a file that makes it
    available to suites.
    """
    from rbench.system.progress import watching

    corpus, folders = _told_apart(data or [], options.include)
    options = dataclasses.replace(options, data=search_path(folders, "RBENCH_DATA"))
    with watching(quiet) as progress:
        trained = rbench.api.train(what, base=base, data=corpus, progress=progress, **how | {"options": options})
    _show(trained)


@app.command(
    rich_help_panel=TRAIN,
    epilog="Example: [bold]rbench export simcse-mini my-encoder[/bold]",
)
@verb(
    "Preparing to export {encoder}",
    "If an encoder was being trained, the same command continues from the last checkpoint.",
    of="api.training.export",
    shared="data models include device quiet verbose",
)
def export(
    *,
    encoder: str,
    folder: Path = a.argument("DIR", "A new or empty folder.", ...),
    force: bool = a.option("--force", "Replace the encoder that DIR holds.", False, panel=a.HOW),
    options: Options,
    quiet: bool,
) -> None:
    """Write an encoder as a folder for sentence-transformers.

    The folder holds safetensors weights, the tokenizer and a model card. SentenceTransformer(DIR) loads it; the export
    checks that it gives the same vectors. An encoder that rbench trains comes from the cache, and is trained first if
    it is not there. Classifiers that were fine-tuned for an attack are not exported.
    """
    from rbench.system.progress import watching

    with watching(quiet) as progress:
        dim = rbench.api.export(encoder, folder, force=force, options=options, progress=progress)
    say(f"{encoder} is in {folder}: {dim} numbers a vector; SentenceTransformer({str(folder)!r}) loads it")


def _told_apart(values: list[str], include: Sequence[Path]) -> tuple[str | None, list[Path]]:
    """Separate the values of --data into one corpus and the folders to search. A task's name wins over a folder's."""
    from rbench.config.registry import Registry

    known = Registry(include).names("tasks")
    folders = [value for value in values if value not in known and Path(value).is_dir()]
    corpora = [value for value in values if value not in folders]
    if len(corpora) > 1:
        raise typer.BadParameter(f"one corpus at a time, not {' and '.join(corpora)}", param_hint="--data")
    return (corpora[0] if corpora else None), [Path(folder) for folder in folders]


def _show(trained: Trained) -> None:
    """Print scores, where the weights are, and how to use them."""
    from rbench.config import in_suite

    root = "" if trained.root == trained.name else f" (made from {trained.root})"
    scores = ", ".join(f"{s.name} {s.value:.4g}" for s in trained.record.scores if s.value is not None)
    say(f"{trained.name}{root}: {scores}")
    for line in trained.learned:
        say(line)
    say(f"weights: {trained.weights}")
    if trained.exported is not None:
        say(f"exported: {trained.exported} (SentenceTransformer loads it)")
    if not trained.entry:
        say(f"in a suite: encoders: [{in_suite(trained.name)}]")
        say(f"to export: rbench export {shlex.quote(trained.name)} DIR")
        return
    say(
        f"\nTo use it in a suite or export it later, save this as INCLUDE/encoders/{trained.name}.yaml and pass "
        "--include INCLUDE; the weights are then found in the cache:\n"
    )
    say(trained.entry.rstrip("\n"))
