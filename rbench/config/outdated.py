"""Finds what of a suite is wrong only because a profile or an override took away what it speaks of.

`--set encoders=[mine]` takes away the encoders that the suite's claims name. Loading leaves such entries out, and says
so in one note. What was wrong before the profile or override stays an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from rbench.config.overrides import choices, items, tables
from rbench.config.positions import Positioned

_WORK = ("attacks", "evaluate", "build")
"""The lists of a suite that say what is measured. An override leaves at least one entry of them."""
_REPLACED_BY_SET = ("claims", "tables", "figures", "evaluate", "build", "train_seeds")
"""What `--set` of other keys can outdate."""
_REPLACED_BY_PROFILE = ("claims",)
"""What a profile can outdate: its author can write other tables and so on beside it."""

Wrong = Collection[str]
"""What the problems of a suite are about, see `Problems.about`."""


class Entry(NamedTuple):
    """An entry of a suite's lists, or all of `train_seeds`."""

    key: str
    label: str
    identity: str
    """The id of a claim, the place of any other entry: claims can be told apart without places."""
    about: frozenset[str]
    """What a problem is about if it is about this entry."""


def outdated(
    wrong: Wrong,
    suite: Positioned,
    profile: str | None,
    overridden: Collection[str],
    problems_of: Callable[[str | None], Wrong],
) -> list[Entry]:
    """Return the entries that are wrong here, and right in the suite without overrides, or without profile too.

    Args:
        wrong: what the problems of the suite with profile and overrides are about.
        suite: the content of its file.
        profile: the name of its profile.
        overridden: the keys that overrides set.
        problems_of: returns the same as `wrong` of the suite without overrides, with a profile or with none.
    """
    profiles = suite.data.get("profiles")
    content = profiles.get(profile) if isinstance(profiles, dict) else None
    of_profile = content if isinstance(content, dict) else {}
    found: list[Entry] = []
    for key in _REPLACED_BY_SET if overridden else _REPLACED_BY_PROFILE if of_profile else ():
        if key in overridden:
            continue
        own = key in of_profile
        homes = [profile] if own else [None, profile] if overridden and of_profile else [None]
        for entry in _entries(suite.sub("profiles", str(profile)) if own else suite, key):
            if entry.about & {*wrong} and any(not entry.about & {*problems_of(home)} for home in homes):
                found.append(entry)
    return found


def without(merged: Positioned, entries: Sequence[Entry]) -> Positioned:
    """Return a suite without these entries. Lists that would be empty get their defaults.

    The entries of `evaluate` and `build` stay where without them the suite would measure nothing.
    """
    thinner = _without(merged, entries)
    if not any(thinner.data.get(key) for key in _WORK) and any(merged.data.get(key) for key in _WORK):
        return _without(merged, [entry for entry in entries if entry.key not in _WORK])
    return thinner


def note(entries: Iterable[Entry], claims: Iterable[str]) -> tuple[str, ...]:
    """Return the note on what was left out, if anything was: entries, and further claims by their ids."""
    names = {"claims": [*claims]}
    for entry in entries:
        names.setdefault(entry.key, []).append(entry.label)
    said = "; ".join(
        key if labels == [key] else f"{key} {', '.join(labels)}" for key, labels in names.items() if labels
    )
    return (f"left out, because the suite has other encoders, tasks, attacks or metrics here: {said}",) if said else ()


def entry_of(claim: str) -> str:
    """Return what a problem of a claim is about (`Problems.about`)."""
    return f"claim {claim}"


def _without(merged: Positioned, entries: Sequence[Entry]) -> Positioned:
    for key in dict.fromkeys(entry.key for entry in entries):
        left = {entry.identity for entry in entries if entry.key == key}
        kept = [one for one in items(merged, key) if _identity(key, one) not in left] if key != "train_seeds" else []
        if kept:
            at = merged.at((key,))
            merged = merged.put((key,), Positioned([one.data for one in kept], at, parts=dict(enumerate(kept))))
        else:
            merged = merged.only({*merged.data} - {key})
    return merged


def _identity(key: str, one: Positioned) -> str:
    return str(one.data.get("id")) if key == "claims" and isinstance(one.data, dict) else one.at()


def _entries(located: Positioned, key: str) -> Iterator[Entry]:
    """Yield the well-formed entries of a list. Of a suite without a file, only claims can be told apart."""
    if key not in located.data:
        return
    if key == "claims":
        ids = (_identity(key, one) for one in items(located, key))
        yield from (Entry(key, id, id, frozenset({entry_of(id)})) for id in ids)
        return
    if key == "train_seeds":
        labelled = [(key, located.sub(key))]
    elif key == "tables":
        labelled = [*tables(located)]
    else:
        labels = {choice.place: choice.label for choice in choices(located, key)}
        found = ((next((labels[at] for at in _places(one) if at in labels), ""), one) for one in items(located, key))
        labelled = [(label, one) for label, one in found if label]
    for label, one in labelled:
        if one.at() != located.at():
            yield Entry(key, label, one.at(), frozenset(_places(one)))


def _places(located: Positioned) -> Iterator[str]:
    for _, part in located.walk():
        yield from (place for place in (part.place, part.key) if place)
