"""What each kind of edit writes, where it does not apply, and what holds for all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rbench.config.code import find, open_checked
from rbench.config.registry import Registry
from rbench.edits import EditKind, Labelled, Replacement, TaggedText, edited, every_edit
from rbench.errors import JobError, SuiteError
from rbench.mini import oracle, rows
from rbench.words.resources.thesaurus import RelatedWords
from tests.edits.kinds import KINDS
from tests.edits.mini_resources import MiniWorldResources

TAGS = {
    "NOUN": "anna berlin bob dog dogs cat cats man men people rain film number",
    "VERB": "is was are liked likes bit chased met opened bought arrived did do does not-a-word like can",
    "DET": "the a an all every no some",
    "ADJ": "good open electric",
    "ADP": "before after from to in",
}
TAG_OF = {word: tag for tag, those in TAGS.items() for word in those.split()}


class Listed:
    """Parts of speech and antonyms of a few words."""

    def pos_tags(self, words: Sequence[str]) -> list[tuple[str, str]]:
        return [(word, TAG_OF.get(word.lower(), "X")) for word in words]

    def thesaurus(self, word: str, tag: str) -> RelatedWords:
        opposites = {("good", "ADJ"): ("bad",), ("open", "ADJ"): ("shut",), ("opened", "VERB"): ("closed",)}
        return RelatedWords(antonyms=opposites.get((word.lower(), tag), ()))


@pytest.mark.parametrize(
    ("kind", "text", "made"),
    [
        ("negation", "The film is good.", {"The film is not good."}),
        ("negation", "Anna liked the film.", {"Anna did not like the film."}),
        ("negation", "Anna likes the film.", {"Anna does not like the film."}),
        ("negation", "The film is not good.", {"The film is good."}),
        ("negation", "Anna did not like the film.", {"Anna liked the film."}),
        ("negation", "Anna doesn't like it.", {"Anna likes it."}),
        ("negation", "Anna can't like it.", {"Anna can like it."}),
        ("negation", "It ain't good.", set()),
        ("negation", "He never liked it.", {"He liked it."}),
        ("negation", "It is not only good.", set()),
        ("negation", "Is it good?", set()),
        ("antonym", "A good dog opened it.", {"A bad dog opened it.", "A good dog closed it."}),
        ("antonym", "An open film.", {"A shut film."}),
        ("number", "12 dogs and three cats", {"42 dogs and three cats", "12 dogs and five cats"}),
        ("number", "In 1999 he paid $20 for 1 dog and 3.5 cats.", set()),
        ("roles", "Anna chased Bob.", {"Bob chased Anna."}),
        ("roles", "The dog bit the man.", {"The man bit the dog."}),
        ("roles", "Anna met Bob.", set()),
        ("roles", "The dogs bit the man.", set()),
        ("roles", "Anna bought it before the rain.", {"Anna bought it after the rain."}),
        ("roles", "We flew from Anna to Berlin.", {"We flew from Berlin to Anna."}),
        ("quantifier", "All dogs like it.", {"No dogs like it."}),
        ("quantifier", "It is always at least a dog.", {"It is never at least a dog.", "It is always at most a dog."}),
        ("quantifier", "All the dogs like it.", set()),
        ("hedge", "The film is good.", {"The film may be good."}),
        ("hedge", "Anna opened the film.", {"Anna may have opened the film."}),
        ("hedge", "The film is not good.", set()),
    ],
)
def test_what_each_kind_writes(kind: str, text: str, made: set[str]) -> None:
    assert {*every_edit(KINDS[kind], text, "0", Listed())} == made


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_says_what_it_is_and_draws_alike_whatever_texts_stand_beside(name: str) -> None:
    kind = KINDS[name]
    assert kind.title and kind.only_for == "English" and isinstance(kind.labelled, Labelled)
    texts = [str(row["text"]) for row in rows("mini-sentiment", "test")[:60]] + ["", "!", "日本語です。"]
    first = {text: edited(kind, text, "seed", MiniWorldResources()) for text in texts}
    again = {text: edited(kind, text, "seed", MiniWorldResources()) for text in reversed(texts)}
    assert first == again
    assert all(made != text for text, made in first.items())


@pytest.mark.parametrize(("kind", "least"), [("negation", 20), ("antonym", 40)])
def test_in_the_embedded_world_the_oracle_says_that_meanings_change(kind: str, least: int) -> None:
    """Of 60 judgements, so many have an edit of the kind with the other label; the language knows all of its words."""
    changed = 0
    for row in rows("mini-sentiment", "test")[:60]:
        made = every_edit(KINDS[kind], str(row["text"]), "0", MiniWorldResources())
        changed += any(oracle("mini-sentiment", [one]) == 1 - int(row["label"]) for one in made)
    assert changed >= least


def test_a_kind_is_sure_from_a_lower_bound_of_80_percent_on() -> None:
    class Known(EditKind):
        def replacements(self, text: TaggedText) -> list[Replacement]:
            return []

    kind = Known()
    for labelled, sure in ((Labelled(), False), (Labelled(16, 16), True), (Labelled(15, 15), False)):
        type(kind).labelled = labelled
        assert kind.sure is sure  # Wilson's lower bounds are 0.806 and 0.796


@pytest.mark.parametrize("replacement", ["Replacement(0, 99, 'x')", "Replacement(0, 3, 'The')"])
def test_a_kind_that_would_garble_texts_is_refused_with_its_file(tmp_path: Path, replacement: str) -> None:
    folder = tmp_path / "edits"
    folder.mkdir()
    text = "from rbench.edits import EditKind, Replacement\n\n\nclass Wrong(EditKind):\n    title = 'wrong'\n\n"
    text += f"    def replacements(self, text):\n        return [{replacement}]\n"
    (folder / "wrong.py").write_text(text)
    kind: Any = open_checked(find("edits", "wrong", Registry([tmp_path])))
    with pytest.raises(JobError) as error:
        edited(kind, "The film", "0")
    assert "wrong.py" in str(error.value)


def test_a_file_without_replacements_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "edits"
    folder.mkdir()
    (folder / "empty.py").write_text("from rbench.edits import EditKind\n\n\nclass Empty(EditKind):\n    title = 'x'\n")
    with pytest.raises(SuiteError):
        open_checked(find("edits", "empty", Registry([tmp_path])))
