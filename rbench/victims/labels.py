"""Matches a classifier's labels with a task's, by name or by a map that the user gives; never by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rbench.errors import ResourceError
from rbench.load.registry import unknown


def match(theirs: Sequence[str], task_labels: Sequence[str], given: Mapping[str, str]) -> tuple[int, ...]:
    """Return, for each label of the task in its order, the index of the classifier's label that means it.

    A label in `given` means what it is mapped to. Any other label means the task's label of its name, without regard
    to case. Labels are never matched by position, because a wrong match gives plausible wrong numbers.

    Args:
        theirs: the classifier's labels in the order of its answers.
        task_labels: the task's labels in the order of its ids.
        given: labels of the task by labels of the classifier. The latter are names, or numbers from 0 for labels in
            the order of `theirs`.

    Raises:
        ResourceError: the numbers of labels differ, a label in `given` does not exist, a label matches none of the
            task's, or two match the same. The message says what to write.
    """
    if len(theirs) != len(task_labels):
        raise ResourceError(
            f"it has {len(theirs)} labels ({_listed(theirs)}), and the task has {len(task_labels)} "
            f"({_listed(task_labels)}); take a classifier with the task's labels, or a task with the classifier's. "
            f"If your table merely lacks a class, name them all: `--labels {','.join(theirs)}`, or `labels: "
            f"[{', '.join(theirs)}]` where a suite names the table"
        )
    ours = {label.casefold(): i for i, label in enumerate(task_labels)}
    said = _given(theirs, task_labels, given)
    meant = [said.get(i, label).casefold() for i, label in enumerate(theirs)]
    strange = [label for label, name in zip(theirs, meant, strict=True) if name not in ours]
    if strange:
        raise ResourceError(
            f"its labels {_listed(strange)} are none of the task's ({_listed(task_labels)}). Say what each means, "
            f"with one of the task's in place of each question mark: {remedy(theirs)}"
        )
    for name in meant:
        if meant.count(name) > 1:
            both = [label for label, other in zip(theirs, meant, strict=True) if other == name]
            raise ResourceError(
                f"its labels {_listed(both)} both mean {task_labels[ours[name]]}; give each a label of its own, in "
                f"place of its question mark: {remedy(theirs)}"
            )
    return tuple(meant.index(label.casefold()) for label in task_labels)


def _given(theirs: Sequence[str], task_labels: Sequence[str], given: Mapping[str, str]) -> dict[int, str]:
    """Return what the user says of each label of the classifier, by its index."""
    there = {label.casefold(): i for i, label in reversed([*enumerate(theirs)])}
    known = {label.casefold() for label in task_labels}
    found: dict[int, str] = {}
    for key, label in given.items():
        index = there.get(key.casefold(), int(key) if key.isdecimal() and int(key) < len(theirs) else None)
        if index is None:
            raise ResourceError(f"`labels`: {unknown('label of the classifier', key, theirs)}")
        if label.casefold() not in known:
            raise ResourceError(f"`labels`: {unknown('label of the task', label, task_labels)}")
        if index in found and found[index].casefold() != label.casefold():
            raise ResourceError(f"`labels`: {theirs[index]} is mapped twice, to {found[index]} and to {label}")
        found[index] = label
    return found


def remedy(theirs: Sequence[str]) -> str:
    """Return what to write, with a question mark for each label of the task. Pasted as it is, it is refused.

    No order is proposed, because one that is wrong would be pasted too.
    """
    written = ", ".join(f"{their}: ?" for their in theirs)
    options = ",".join(f"{their}=?" for their in theirs)
    return (
        f"`labels: {{{written}}}` in a suite or victim file, or `--label-map {options}` for a classifier without a file"
    )


def _listed(labels: Sequence[str]) -> str:
    shown = [str(label) for label in labels[:10]]
    return ", ".join(shown) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
