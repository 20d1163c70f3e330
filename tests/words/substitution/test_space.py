"""The substitutions of a declared space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rbench.schema import Space
from rbench.words.resources import Resources
from rbench.words.substitution.segmentation import find_words
from rbench.words.substitution.space import SpaceSubstitutions, count_replacements
from tests.recipes import world

TEXT = ("the good film was not boring", "a bad story")


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Resources:
    return world.resources(tmp_path_factory.mktemp("none"))


def test_each_word_has_its_place(resources: Resources) -> None:
    found = SpaceSubstitutions(Space(pos=False), resources)(TEXT)
    words = [TEXT[column][start:end] for column, start, end in find_words(TEXT)]
    assert len(found) == len(words) and any(found)
    for word, others in zip(words, found, strict=True):
        assert word not in others and len(set(others)) == len(others)
        assert not others or word not in resources.stopwords


def test_cosine_and_k_and_part_of_speech_filter(resources: Resources) -> None:
    def of(**options: object) -> list[tuple[str, ...]]:
        return SpaceSubstitutions(Space.model_validate({"pos": False, "cosine": None} | options), resources)(TEXT)

    wide = of()
    assert all(set(a) <= set(b) for a, b in zip(of(k=3), wide, strict=True))
    assert all(len(one) <= 3 for one in of(k=3))
    near = of(cosine=0.5)
    vectors = resources.word_vectors
    words = [TEXT[column][start:end] for column, start, end in find_words(TEXT)]
    for word, all_, kept in zip(words, wide, near, strict=True):
        cosines = {o: float(vectors.unit[vectors.index[word]] @ vectors.unit[vectors.index[o]]) for o in all_}
        assert set(kept) == {other for other, cosine in cosines.items() if cosine >= 0.5}
    assert sum(map(len, of(pos=True))) < sum(map(len, wide))


def test_synonyms_are_a_source_of_which_the_first_k_are_taken_that_are_near(resources: Resources) -> None:
    def of(**options: object) -> list[tuple[str, ...]]:
        space = {"candidates": "synonyms", "pos": False, "cosine": None} | options
        return SpaceSubstitutions(Space.model_validate(space), resources)(TEXT)

    wide, vectors = of(), resources.word_vectors
    words = [TEXT[column][start:end] for column, start, end in find_words(TEXT)]
    row_of = {word: vectors.unit[vectors.index[word]] for word in vectors.index}
    cosines = [
        {other: float(row_of[word] @ row_of[other]) for other in others if {word, other} <= row_of.keys()}
        for word, others in zip(words, wide, strict=True)
    ]
    least = float(np.median([cosine for of_word in cosines for cosine in of_word.values()]))
    for word, others, few, near, known in zip(words, wide, of(k=2), of(cosine=least), cosines, strict=True):
        assert set(others) <= set(resources.synonyms(word))
        assert few == tuple(other for other in others if other in resources.synonyms(word)[:2])
        assert near == tuple(other for other, cosine in known.items() if cosine >= least)
    assert max(map(len, wide)) > 2, "so that some are left out"


def test_protected_columns_and_stop_words(resources: Resources) -> None:
    space = Space(pos=False, cosine=None, stop_words="replace")
    first = len(find_words(TEXT[:1]))
    assert not any(SpaceSubstitutions(space, resources)(TEXT, protected=[0])[:first])
    kept = SpaceSubstitutions(space.model_copy(update={"stop_words": "keep"}), resources)(TEXT)
    assert sum(map(bool, SpaceSubstitutions(space, resources)(TEXT))) >= sum(map(bool, kept))


def test_the_fingerprint_tells_spaces_apart() -> None:
    assert Space().fingerprint == Space(k=50).fingerprint
    assert len({s.fingerprint for s in (Space(), Space(k=10), Space(max_words=2), Space(pos=False))}) == 4
    assert Space(candidates="synonyms", cosine=None, pos=False, stop_words="replace").needed == ("synonyms",)


def test_resources_that_are_not_needed_are_not_opened() -> None:
    class Nothing:
        synonyms = staticmethod(lambda word: ["another"])

    space = Space(candidates="synonyms", cosine=None, pos=False, stop_words="replace")
    assert SpaceSubstitutions(space, Nothing())(("word",)) == [("another",)]


def test_paths_are_not_in_the_fingerprint(tmp_path: Path) -> None:
    assert str(tmp_path) not in Space().fingerprint and len(Space().fingerprint) == 16


def test_the_words_that_are_replaced_are_counted_and_other_texts_are_told(resources: Resources) -> None:
    found = SpaceSubstitutions(Space(pos=False), resources)(TEXT)
    spans = find_words(TEXT)
    places = [place for place, others in enumerate(found) if others]
    for chosen in ((), places[:1], places[:2], places):
        columns = list(TEXT)
        for place in sorted(chosen, reverse=True):  # from the end, so that the spans before stay
            column, start, end = spans[place]
            columns[column] = columns[column][:start] + found[place][-1] + columns[column][end:]
        assert count_replacements(TEXT, tuple(columns), found) == len(chosen)
        assert count_replacements(TEXT, (columns[0] + " more", columns[1]), found) is None
        assert count_replacements(TEXT, (columns[0].replace(" ", "  ", 1), columns[1]), found) is None
        assert count_replacements(TEXT, (columns[0],), found) is None
    nothing = [()] * len(spans)
    assert count_replacements(TEXT, tuple(columns), nothing) is None and count_replacements(TEXT, TEXT, nothing) == 0


def test_of_several_ways_to_read_a_text_the_one_with_the_fewest_words_counts() -> None:
    assert count_replacements(("a-b c",), ("c c",), [("c",), ("c",)]) == 1
    assert count_replacements(("a.b",), ("a.b.b",), [("a.b",), ("b.b",)]) == 1
