"""The figure of words needed: what is drawn is the share that fell to any attack within so many words."""

from __future__ import annotations

from io import BytesIO

import pytest

from rbench.errors import StoreError
from rbench.report.figures.words import Options, WordsFigure
from rbench.store.runs import RunStore
from rbench.tables import Results
from tests.measures.words_runs import WORDS_NEEDED


def test_a_curve_for_each_victim(words_run: RunStore) -> None:
    figure = WordsFigure().draw(Options(), Results.of(words_run))
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.get_lines()] == [*WORDS_NEEDED] and len(axes.collections) == len(
        WORDS_NEEDED
    )
    for line in axes.get_lines():
        needed = [one for one in WORDS_NEEDED[str(line.get_label())] if one is not None]
        expected = [100 * sum(one <= words for one in needed) / len(needed) for words in (1, 2, 3, 4, 5)]
        assert list(line.get_xdata()) == [1, 2, 3, 4, 5, 6] and line.get_drawstyle() == "steps-post"
        assert list(line.get_ydata()) == pytest.approx([*expected, expected[-1]])
    figure.savefig(BytesIO(), format="svg")
    with pytest.raises(StoreError):
        WordsFigure().draw(Options(task="mini_nli"), Results.of(words_run))
