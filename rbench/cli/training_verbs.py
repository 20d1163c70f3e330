"""Implements `rbench train`."""

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
    epilog="Example: [bold]rbench train simcse-mini --out my-encoder[/bold]; of your own: [bold]rbench train simcse "
    "--base minilm --data my.txt --set temperature=0.1 --steps 200[/bold]",
)
@verb(
    "Preparing to train {what}",
    "The last checkpoint is kept: the same command continues from it.",
    of="api.training.train",
    shared="models include device report_to quiet",
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

    With --out, writes the encoder as a folder with safetensors weights, the tokenizer and a model card, also one that
    needs no training. SentenceTransformer(DIR) loads it; it is checked that it gives the same vectors. Classifiers that
    were fine-tuned for an attack are not written.
    """
    from rbench.system.progress import watching

    corpus, folders = _split_data_values(data or [], options.include)
    options = dataclasses.replace(options, data=search_path(folders, "RBENCH_DATA"))
    with watching(quiet) as progress:
        trained = rbench.api.train(what, base=base, data=corpus, progress=progress, **how | {"options": options})
    _print_trained(trained)


def _split_data_values(values: list[str], include: Sequence[Path]) -> tuple[str | None, list[Path]]:
    """Separate the values of --data into one corpus and the folders to search. A task's name wins over a folder's."""
    from rbench.config.registry import Registry

    task_names = Registry(include).names("tasks")
    folders = [value for value in values if value not in task_names and Path(value).is_dir()]
    corpora = [value for value in values if value not in folders]
    if len(corpora) > 1:
        raise typer.BadParameter(f"one corpus at a time, not {' and '.join(corpora)}", param_hint="--data")
    return (corpora[0] if corpora else None), [Path(folder) for folder in folders]


def _print_trained(trained: Trained) -> None:
    """Print scores, where the weights are, and how to use them."""
    from rbench.config import label_as_yaml

    if trained.record is not None:
        root = "" if trained.root == trained.name else f" (made from {trained.root})"
        scores = ", ".join(
            f"{score.name} {score.value:.4g}" for score in trained.record.scores if score.value is not None
        )
        say(f"{trained.name}{root}: {scores}")
        for line in trained.learned:
            say(line)
        say(f"weights: {trained.weights}")
    if (folder := trained.exported) is not None:
        numbers = f"{trained.dim} numbers a vector"
        say(f"{trained.name} is in {folder}: {numbers}; SentenceTransformer({str(folder)!r}) loads it")
    if not trained.entry:
        say(f"in a suite: encoders: [{label_as_yaml(trained.name)}]")
        if folder is None:
            say(f"to export: rbench train {shlex.quote(trained.name)} --out DIR")
        return
    say(
        f"\nTo use it in a suite or export it later, save this as INCLUDE/encoders/{trained.name}.yaml and pass "
        "--include INCLUDE; the weights are then found in the cache:\n"
    )
    say(trained.entry.rstrip("\n"))
