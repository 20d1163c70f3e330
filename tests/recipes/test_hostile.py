"""Tests attacks on unusual texts: each gives an outcome, and a text without words is skipped."""

from __future__ import annotations

import pytest

from rbench import recipes
from rbench.recipes.cached import SplicedText
from rbench.schema import Outcome, TaskSpec
from rbench.tasks import Example
from rbench.words.resources import Resources
from tests.recipes import world

NO_WORDS = ["", " ", "\n", "...", "!?! (...)", "<", "😀 😀", "\u200b", "\ufeff", "\x00", "." * 100_000]
TEXTS = [
    "<SPLIT>",
    "<SPLIT> the film <SPLIT> was good <SPLIT>",
    "I <SPLIT> I",
    "映画はとても良かった",
    "the 映画 was good <SPLIT>",
    "the 😀 film",
    "e\u0301tude, cafe\u0301 film",
    "سلام فيلم جيد",
    "the\u200bfilm good",
    "[MASK] was [SEP] good",
    "[[film]] was good",
    "x" * 600,
    "the film\nwas good",
    "İstanbul film",
    "good\x00film \x00",
    "".join(map(chr, range(32))) + "the film",
    bytes(range(97, 256, 5)).decode("latin-1") + " film",
    bytes(range(97, 256, 5)).decode("utf-8", "replace") + " film",
    "\u202ethe film\u2066 good \u2069",
    "e" + "\u0301" * 300,
    "good " * 60,
]
PAIRS = [
    ("<SPLIT>", "the film was good"),
    ("the film", "a <SPLIT> good film \ue000"),
    ("the film was good", ""),
    ("", "the film"),
    ("映画は", "とても良かった"),
    ("a\nb", "film\ngood"),
]
NO_WORDS_PAIR = ("", "...")


def outcomes(
    name: str, victim: recipes.Victim, resources: Resources, task: TaskSpec, texts: list[tuple[str, ...]]
) -> dict[tuple[str, ...], Outcome]:
    path = world.ROOT / "attacks" / f"{name}.py"
    spec = world.spec(name, **({} if path.exists() else {"max_words": 2}))
    given = [victim([text[0] if len(text) == 1 else text]).argmax() for text in texts]
    examples = [Example(f"test:{i}", text, int(given[i])) for i, text in enumerate(texts)]
    built = recipes.build(spec, victim, resources, task, path=path if path.exists() else None)
    found = list(recipes.run(lambda: built, examples, spec=spec, task=task, seed=0))
    return {outcome.original: outcome for outcome in found}


EVERYDAY = ("textbugger", "bertattack", "geometry")
"""One attack on letters, one with a masked LM, and one of rbench's own."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in EVERYDAY else [pytest.mark.nightly])
        for name in (*world.ALL, "geometry", "random")
    ],
)
def test_no_text_breaks_an_attack(name: str, single: recipes.Victim, resources: Resources) -> None:
    found = outcomes(name, single, resources, world.SINGLE, [(text,) for text in (*TEXTS, *NO_WORDS)])
    for text in TEXTS:
        assert found[text,].status in ("succeeded", "failed"), (text, found[text,].error)
        assert found[text,].num_words > 0 and found[text,].skip_reason is None
    for text in NO_WORDS:
        assert (found[text,].status, found[text,].skip_reason) == ("skipped", "no words"), (text, found[text,].error)
        assert (found[text,].num_queries, found[text,].original_prediction) == (0, None)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in EVERYDAY else [pytest.mark.nightly]) for name in (*world.ALL, "geometry")],
)
def test_no_pair_breaks_an_attack(name: str, pair: recipes.Victim, resources: Resources) -> None:
    found = outcomes(name, pair, resources, world.PAIR, [*PAIRS, NO_WORDS_PAIR])
    assert {found[texts].status for texts in PAIRS} <= {"succeeded", "failed"}, [o.error for o in found.values()]
    assert found[NO_WORDS_PAIR].skip_reason == "no words"
    for texts in PAIRS:  # the premise is protected
        assert found[texts].perturbed is not None and len(found[texts].perturbed or ()) == 2
        assert (found[texts].perturbed or ())[0] == texts[0]


def test_a_word_that_a_victim_reads_wrongly_is_skipped_for_that(single: recipes.Victim, resources: Resources) -> None:
    label = 1 - int(single(["the film"]).argmax())
    spec = world.spec("pwws")
    built = recipes.build(spec, single, resources, world.SINGLE)
    (found,) = recipes.run(lambda: built, [Example("a", ("the film",), label)], spec=spec, task=world.SINGLE, seed=0)
    assert (found.status, found.skip_reason) == ("skipped", None)


@pytest.mark.parametrize("texts", [("a <SPLIT> b",), ("<SPLIT>", "a \ue000\ue001 SPLIT"), ("I", "<SPLIT> I")])
def test_words_are_replaced_beside_the_token_that_upstream_splits_at(texts: tuple[str, ...]) -> None:
    from collections import OrderedDict

    text = SplicedText(OrderedDict((str(i), part) for i, part in enumerate(texts)))
    for i, word in enumerate(text.words):
        made = text.replace_word_at_index(i, "new")
        assert made.words == [*text.words[:i], "new", *text.words[i + 1 :]]
        assert len(made._text_input) == len(texts)
        assert made.replace_word_at_index(i, word).text == text.text
