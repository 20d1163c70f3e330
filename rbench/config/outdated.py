"""Finds what of a suite is wrong only because a profile or an override took away what it speaks of.

`--set encoders=[mine]` takes away the encoders that the suite's claims name. Loading leaves such entries out, and says
so in one note. What was wrong before the profile or override stays an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from rbench.config.overrides import iter_choices, iter_items, iter_tables
from rbench.config.positions import PositionedData

_WORK = ("attacks", "evaluate", "build")
"""The lists of a suite that say what is measured. An override leaves at least one entry of them."""
_REPLACED_BY_SET = ("claims", "tables", "figures", "evaluate", "build", "train_seeds")
"""What `--set` of other keys can outdate."""
_REPLACED_BY_PROFILE = ("claims",)
"""What a profile can outdate: its author can write other tables and so on beside it."""

WrongEntries = Collection[str]
"""What the problems of a suite are about, see `Problems.about`."""


class OutdatedEntry(NamedTuple):
    """An entry of a suite's lists, or all of `train_seeds`."""

    key: str
    label: str
    identity: str
    """The id of a claim, the place of any other entry: claims can be told apart without places."""
    about: frozenset[str]
    """What a problem is about if it is about this entry."""


def find_outdated(
    wrong: WrongEntries,
    suite: PositionedData,
    profile: str | None,
    overridden: Collection[str],
    problems_of: Callable[[str | None], WrongEntries],
) -> list[OutdatedEntry]:
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
    entries: list[OutdatedEntry] = []
    for key in _REPLACED_BY_SET if overridden else _REPLACED_BY_PROFILE if of_profile else ():
        if key in overridden:
            continue
        in_profile = key in of_profile
        homes = [profile] if in_profile else [None, profile] if overridden and of_profile else [None]
        for entry in _entries(suite.sub("profiles", str(profile)) if in_profile else suite, key):
            if entry.about & {*wrong} and any(not entry.about & {*problems_of(home)} for home in homes):
                entries.append(entry)
    return entries


def remove_entries(merged: PositionedData, entries: Sequence[OutdatedEntry]) -> PositionedData:
    """Return a suite without these entries. Lists that would be empty get their defaults.

    The entries of `evaluate` and `build` stay where without them the suite would measure nothing.
    """
    thinner = _without(merged, entries)
    if not any(thinner.data.get(key) for key in _WORK) and any(merged.data.get(key) for key in _WORK):
        return _without(merged, [entry for entry in entries if entry.key not in _WORK])
    return thinner


def outdated_note(entries: Iterable[OutdatedEntry], claims: Iterable[str]) -> tuple[str, ...]:
    """Return the note on what was left out, if anything was: entries, and further claims by their ids."""
    names = {"claims": [*claims]}
    for entry in entries:
        names.setdefault(entry.key, []).append(entry.label)
    listing = "; ".join(
        key if labels == [key] else f"{key} {', '.join(labels)}" for key, labels in names.items() if labels
    )
    return (
        (f"left out, because the suite has other encoders, tasks, attacks or metrics here: {listing}",)
        if listing
        else ()
    )


def claim_entry(claim: str) -> str:
    """Return what a problem of a claim is about (`Problems.about`)."""
    return f"claim {claim}"


def _without(merged: PositionedData, entries: Sequence[OutdatedEntry]) -> PositionedData:
    for key in dict.fromkeys(entry.key for entry in entries):
        removed = {entry.identity for entry in entries if entry.key == key}
        left_items = (
            [item for item in iter_items(merged, key) if _identity(key, item) not in removed]
            if key != "train_seeds"
            else []
        )
        if left_items:
            place = merged.at((key,))
            merged = merged.put(
                (key,), PositionedData([item.data for item in left_items], place, parts=dict(enumerate(left_items)))
            )
        else:
            merged = merged.only({*merged.data} - {key})
    return merged


def _identity(key: str, item: PositionedData) -> str:
    return str(item.data.get("id")) if key == "claims" and isinstance(item.data, dict) else item.at()


def _entries(located: PositionedData, key: str) -> Iterator[OutdatedEntry]:
    """Yield the well-formed entries of a list. Of a suite without a file, only claims can be told apart."""
    if key not in located.data:
        return
    if key == "claims":
        ids = (_identity(key, item) for item in iter_items(located, key))
        yield from (OutdatedEntry(key, id, id, frozenset({claim_entry(id)})) for id in ids)
        return
    if key == "train_seeds":
        labelled = [(key, located.sub(key))]
    elif key == "tables":
        labelled = [*iter_tables(located)]
    else:
        labels = {choice.place: choice.label for choice in iter_choices(located, key)}
        labelled_items = (
            (next((labels[place] for place in _places(item) if place in labels), ""), item)
            for item in iter_items(located, key)
        )
        labelled = [(label, item) for label, item in labelled_items if label]
    for label, item in labelled:
        if item.at() != located.at():
            yield OutdatedEntry(key, label, item.at(), frozenset(_places(item)))


def _places(located: PositionedData) -> Iterator[str]:
    for _, part in located.walk():
        yield from (place for place in (part.place, part.key) if place)
