"""Puts figures into a page, as images.

An SVG stands in an `img` with a data URI, and not inline: a browser runs no script of an image and loads nothing for
it, so a figure of the user's own can do no harm, and the page's policy stays as strict as it is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rbench.errors import RbenchError
from rbench.report.data import Drawing, Fact

MOST_BYTES = 500_000
"""The most bytes that all figures of a page take in it: the page has 5 MB in all."""


class Svg(NamedTuple):
    """A figure that was drawn."""

    title: str
    content: bytes


Drawings = Sequence[tuple[str, Callable[[], Svg]]]
"""Figures by label, each with what draws it; this raises RbenchError where it cannot be drawn."""


def embedded(figures: Drawings, missing: list[Fact], most_bytes: int = MOST_BYTES) -> tuple[Drawing, ...]:
    """Return the figures as images, and add to `missing` why one is not there."""
    found: list[Drawing] = []
    left = most_bytes
    for label, draw in figures:
        try:
            title, content = draw()
        except RbenchError as error:
            missing.append(Fact(name=f"figure {label}", value=str(error)))
            continue
        uri = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
        if len(uri) > left:
            remedy = f"It takes {len(uri) // 1000} KB. rbench figure draws it into a file."
            missing.append(Fact(name=f"figure {label}", value=f"the page has no room for it. {remedy}"))
            continue
        left -= len(uri)
        alt = f"Figure {label}: {title}. Its numbers are those of the tables and curves of this RUN."
        found.append(Drawing(label=label, title=title, alt=alt, uri=uri))
    return tuple(found)
