"""Shows what an attack changed, word by word: in red and green on a terminal, as `[[old]] -> [[new]]` elsewhere."""

from __future__ import annotations

from rich.text import Text

from rbench.cli.console import console, harmless, is_terminal, say
from rbench.spec import Outcome
from rbench.system.changes import changes, marked


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
        console().print(Text(title) + coloured(original, perturbed))
    else:
        say(f"{title}{marked(original, perturbed)}")


def show(outcome: Outcome, columns: tuple[str, ...], labels: tuple[str, ...], place: str) -> None:
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
