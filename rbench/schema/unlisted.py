"""Names encoders that have no file: those whose folder or hub id stands where a name may stand.

Here a *place* is the absolute path of a folder, or a hub id (`OWNER/NAME`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path, PurePath

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
"""The form of a hub id in place of a name. It has an owner, so that a name that is mistyped is not asked of the hub."""
_NAMELESS = "encoder"
"""Stands for a place of which no character may be in a label."""


def is_path(text: str) -> bool:
    """Return whether a text is written as a path, and can be neither a name nor a hub id: `./mine`, `~/mine`, `/m`."""
    return text.startswith(("./", "../", "/", "~")) or text in (".", "..") or text.endswith("/")


def short_name(place: str) -> str:
    """Return the last part of a place, made safe: `mine`, `e5-base-v2`. It enters keys, which hold no more of a path.

    >>> short_name("/home/me/my model")
    'my-model'
    """
    return _joined(_parts(place), 1)


def labels(places: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Return a label for each place: its last part, or as many parts as tell it from all others and from `taken`.

    Labels differ without regard to case, have no separator, and are safe as file names.

    >>> labels(["/home/a/best", "/home/b/best", "intfloat/e5-base-v2"], taken=())
    {'/home/a/best': 'a-best', '/home/b/best': 'b-best', 'intfloat/e5-base-v2': 'e5-base-v2'}
    """
    parts = {place: _parts(place) for place in places}
    depth = dict.fromkeys(parts, 1)
    forbidden = {name.casefold() for name in taken}
    while True:
        label_by_place = {place: _joined(parts[place], n) for place, n in depth.items()}
        uses = Counter(label.casefold() for label in label_by_place.values())
        alike = [
            place
            for place, label in label_by_place.items()
            if uses[label.casefold()] > 1 or label.casefold() in forbidden
        ]
        longer = [place for place in alike if depth[place] < len(parts[place])]
        if not longer:
            return label_by_place | _numbered(label_by_place, alike, forbidden)
        for place in longer:
            depth[place] += 1


def label_meant(text: str, known: Collection[str]) -> str:
    """Return the label among `known` that a place means, with options in brackets if any: `./mine[pooling=mean]`.

    Where none of them fits, or several do, return the text as it is. A path is not looked up: it stands for the label
    that it has in a suite.
    """
    if text in known or "/" not in text:
        return text
    head, _, options = text.partition("[")
    parts = _parts(str(Path(head).resolve()) if head.startswith(".") else head)
    candidates = {_joined(parts, n).casefold() for n in range(1, max(len(parts), 1) + 1)}  # the root has no parts
    split = {name: name.partition("[") for name in known}
    meant = [
        name
        for name, (label_head, _, label_options) in split.items()
        if label_head.casefold() in candidates and label_options == options
    ]
    return meant[0] if len(meant) == 1 else text


def _parts(place: str) -> tuple[str, ...]:
    """Return the parts of a place, without the root of a path."""
    path = PurePath(place)
    return path.relative_to(path.anchor).parts if path.is_absolute() else path.parts


def _joined(parts: tuple[str, ...], n: int) -> str:
    """Join the last `n` parts with hyphens, without characters that are not safe in a file name or in a label."""
    safe = (re.sub(r"[^\w.+-]+", "-", part).strip("-") for part in parts[-n:])
    return "-".join(part for part in safe if part).lstrip("._+-") or _NAMELESS


def _numbered(label_by_place: dict[str, str], alike: list[str], forbidden: Collection[str]) -> dict[str, str]:
    """Number the labels that all parts of their places leave alike, such as those of `/a/b` and `/a b`."""
    taken = {label.casefold() for label in label_by_place.values()} | {*forbidden}
    numbered = {}
    for place in alike:
        number = 2
        while f"{label_by_place[place]}-{number}".casefold() in taken:
            number += 1
        numbered[place] = f"{label_by_place[place]}-{number}"
        taken.add(numbered[place].casefold())
    return numbered
