"""Tests thesauri: WordNet's relations with inflections, those of the embedded world, and words without relations."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rbench.errors import ResourceError
from rbench.mini.lexical import pos_tags
from rbench.mini.lexicon import load
from rbench.schema import ResourceSet, ResourceSource
from rbench.words.resources import Resources
from rbench.words.resources.thesaurus import RelatedWords, make_related, mini_thesaurus, wordnet_thesaurus
from tests.refusals import refusal


@dataclass(eq=False)
class Sense:
    """A word in one sense, with the methods of NLTK's Lemma."""

    word: str
    opposite: list[Sense] = field(default_factory=list)
    meaning: Meaning | None = None

    def name(self) -> str:
        return self.word

    def antonyms(self) -> list[Sense]:
        return self.opposite

    def synset(self) -> Meaning | None:
        return self.meaning


@dataclass(eq=False)
class Meaning:
    """Words of one meaning, with the methods of NLTK's Synset."""

    pos: str
    senses: list[Sense]
    above: list[Meaning] = field(default_factory=list)
    kinds: list[Meaning] = field(default_factory=list)
    """What it is an instance of."""

    def name(self) -> str:
        return f"{self.senses[0].word}.{self.pos}.01"

    def lemmas(self) -> list[Sense]:
        return self.senses

    def hypernyms(self) -> list[Meaning]:
        return self.above

    def instance_hypernyms(self) -> list[Meaning]:
        return self.kinds


class Words:
    """A few meanings in the place of WordNet's database, which tests have not."""

    def __init__(self) -> None:
        self.meanings: list[Meaning] = []

    def add(self, pos: str, words: str, above: Meaning | None = None) -> Meaning:
        made = Meaning(pos, [Sense(word) for word in words.split()], [above] if above else [])
        for sense in made.senses:
            sense.meaning = made
        self.meanings.append(made)
        return made

    def lemmas(self, name: str, pos: str) -> list[Sense]:
        return [s for m in self.meanings if m.pos == pos for s in m.senses if s.word.lower() == name]


@pytest.fixture(scope="module")
def words() -> Words:
    words = Words()
    move = words.add("v", "move displace")
    rise = words.add("v", "rise go_up climb", move)
    fall = words.add("v", "fall drop", move)
    rise.senses[0].opposite.append(fall.senses[0])
    words.add("v", "rise Lazarus resurrect", words.add("v", "live"))
    good, bad = words.add("a", "good fine"), words.add("a", "bad")
    good.senses[0].opposite.append(bad.senses[0])
    words.add("a", "hot fine")
    words.add("n", "film movie", words.add("n", "product"))
    return words


def test_words_are_of_one_part_of_speech_inflected_like_the_word(words: Words) -> None:
    look_up = wordnet_thesaurus(words)
    assert look_up("rose", "VERB") == RelatedWords(
        synonyms=("climbed", "resurrected"),
        hypernyms=("moved", "displaced", "lived"),
        antonyms=("fell",),
        forms=("rise", "rises", "risen", "rising"),
    )
    assert look_up("Rising", "VERB").antonyms == ("falling",) and look_up("rise", "VERB").antonyms == ("fall",)
    assert look_up("films", "NOUN") == RelatedWords(("movies",), ("products",), (), ("film",))
    assert look_up("better", "ADJ") == RelatedWords(("finer",), (), ("worse",), ("good", "best"))
    assert look_up("rise", "NOUN") == RelatedWords(forms=("rises",)), "inflections are not WordNet's to list"
    assert look_up("film", "DET") == look_up("qwerty", "NOUN") == RelatedWords()


def test_a_word_does_not_become_what_somebody_of_its_name_is() -> None:
    """WordNet has Hardy, an instance of a writer, beside the adjective; taggers often take it for a noun."""
    made = Words()
    hardy = made.add("n", "Hardy Thomas_Hardy")
    hardy.kinds.append(made.add("n", "writer author"))
    assert wordnet_thesaurus(made)("hardy", "NOUN") == RelatedWords()
    hardy.above.append(made.add("n", "plant"))
    assert wordnet_thesaurus(made)("hardy", "NOUN").hypernyms == ("plant",), "what is above it in general is kept"


def test_antonymy_is_between_words_not_meanings(words: Words) -> None:
    """A synonym of a word that has an opposite has none for that reason."""
    look_up = wordnet_thesaurus(words)
    assert look_up("good", "ADJ").antonyms == ("bad",)
    assert look_up("fine", "ADJ").antonyms == look_up("hot", "ADJ").antonyms == look_up("climb", "VERB").antonyms == ()


def test_a_comparative_with_its_own_antonym_uses_that_antonym() -> None:
    made = Words()
    more, less, much = made.add("a", "more"), made.add("a", "less"), made.add("a", "much")
    more.senses[0].opposite.append(less.senses[0])
    much.senses[0].opposite.append(made.add("a", "little").senses[0])
    look_up = wordnet_thesaurus(made)
    assert look_up("more", "ADJ") == RelatedWords(antonyms=("less",), forms=("much", "most"))
    assert look_up("much", "ADJ").antonyms == ("little",)
    made.add("a", "higher")
    made.add("a", "high").senses[0].opposite.append(made.add("a", "low").senses[0])
    assert look_up("higher", "ADJ") == RelatedWords(antonyms=("lower",), forms=("high", "highest"))
    made.add("v", "see"), made.add("v", "saw")
    assert look_up("saw", "VERB").forms == ("see", "sees", "seen", "seeing"), "of verbs and nouns first the base form"


def test_the_order_of_hypernyms_is_fixed(words: Words) -> None:
    """NLTK keeps a synset's hypernyms in a set."""
    found = []
    for flip in (1, -1):
        made = Words()
        above = [made.add("n", "beast animal"), made.add("n", "pet"), made.add("n", "friend")][::flip]
        made.add("n", "dog").above += above
        found.append(wordnet_thesaurus(made)("dog", "NOUN").hypernyms)
    assert found == [("beast", "animal", "friend", "pet")] * 2


def test_relations_are_disjoint_single_words_without_the_word_itself() -> None:
    made = make_related(
        "big",
        synonyms=["large", "big", "large", "Big_Apple", "Goliath", "small", "well-known", "x1"],
        hypernyms=["large", "sizable"],
        antonyms=["small", "big"],
        forms=["bigger", "small"],
    )
    assert made == RelatedWords(("large", "well-known"), ("sizable",), ("small",), ("bigger",))
    assert made.all == {"large", "well-known", "sizable", "small", "bigger"}


def test_the_thesaurus_of_the_embedded_world_gives_its_words() -> None:
    look_up = mini_thesaurus()
    assert look_up("Bought", "VERB") == RelatedWords(
        ("purchased", "acquired", "procured"), (), ("sold", "vended", "peddled", "hawked"), ("buy", "buys")
    )
    assert look_up("dogs", "NOUN").hypernyms[:2] == ("animals", "creatures")
    assert (
        look_up("dogs", "VERB")
        == look_up("was", "VERB")
        == look_up("the", "DET")
        == look_up("x", "NOUN")
        == RelatedWords()
    )


def test_every_word_of_the_embedded_world_has_words_of_its_own_kind() -> None:
    look_up, forms = mini_thesaurus(), load().forms
    for word, tag in pos_tags(sorted(forms)):
        found = look_up(word, tag)
        kinds = [found.synonyms, found.hypernyms, found.antonyms, found.forms]
        assert word not in found.all and len(found.all) == sum(map(len, kinds))
        assert all(pos_tags([other]) == [(other, tag)] for other in found.all)
        for other in found.antonyms:
            assert load().concepts[forms[other].concept].antonym == forms[word].concept
            assert forms[other].feature == forms[word].feature


def test_the_thesaurus_stands_behind_the_resource_synonyms(tmp_path: Path) -> None:
    profile = ResourceSet(name="it", synonyms=ResourceSource(kind="mini"))
    assert Resources(profile).thesaurus("good", "ADJ").antonyms[0] == "bad"
    (tmp_path / "ppdb").mkdir()
    (tmp_path / "ppdb" / "synonyms.txt").write_text("good fine\n")
    for source in (ResourceSource(kind="folder", name="ppdb"), ResourceSource(kind="wordnet", name="ppdb")):
        listed = Resources(ResourceSet(name="it", synonyms=source), [tmp_path])
        assert listed.synonyms("good") == ["fine"]
        with refusal(ResourceError, "kind: wordnet"):
            _ = listed.thesaurus
