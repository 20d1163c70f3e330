"""Tests x_syn and x_ant: which words are replaced by which, how many, and the tokens that result."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st

from rbench import mini
from rbench.mini import tokenizer as mini_tokenizer
from rbench.mini.lexical import antonyms, pos_tags
from rbench.train.edits import (
    EditOptions,
    SentenceEdit,
    SentenceEditor,
    TaggedWords,
    count_types,
    expected_count,
    find_rate,
    mark_replaced,
    tag_text,
)
from rbench.words.resources.thesaurus import RelatedWords, mini_thesaurus

TEXTS = sorted({row["text"] for row in mini.rows("mini-corpus", "train")[:600]})


def editor(
    texts: list[str], table: dict[Any, RelatedWords] | None = None, seed: int = 0, **options: Any
) -> SentenceEditor:
    found = [tag_text(text, pos_tags) for text in texts]
    counts, look_up = count_types(texts, found), mini_thesaurus()
    table = {kind: look_up(*kind) for kind in counts} if table is None else table
    return SentenceEditor(EditOptions(**options), seed, table, counts, texts, found)


def edits(made: SentenceEditor, texts: list[str]) -> list[tuple[SentenceEdit, SentenceEdit]]:
    return [made.edit(text, tag_text(text, pos_tags)) for text in texts]


@pytest.fixture(scope="module")
def corpus() -> list[tuple[SentenceEdit, SentenceEdit]]:
    return edits(editor(TEXTS), TEXTS)


def swaps(text: str, edit: SentenceEdit) -> list[tuple[str, str, str]]:
    """(word, its tag, what stands in its place), found by going along both texts; the rest must be the same."""
    found, at, shift = [], 0, 0
    places = {place.start: place for place in tag_text(text, pos_tags).places()}
    for start, end in edit.spans:
        place = places[start - shift]
        assert edit.text[at + shift : start] == text[at : place.start]
        found.append((text[place.start : place.end].lower(), place.tag, edit.text[start:end].lower()))
        at, shift = place.end, end - place.end
    assert edit.text[at + shift :] == text[at:]
    return found


# ------------------------------------------------------------------------------------------------- which words


def words_of(text: str, tags: dict[str, str]) -> list[str]:
    found = tag_text(text, lambda tokens: [(token, tags.get(token.lower(), "NOUN")) for token in tokens])
    return [text[place.start : place.end] for place in found.places()]


def test_content_words_are_replaceable_and_names_and_auxiliaries_are_not() -> None:
    tags = dict.fromkeys(["was", "did", "will", "n't", "'s", "saw"], "VERB") | {"not": "ADV", "the": "DET", "in": "ADP"}
    text = "The film's hero was not in <unk>. Didn't Maria see the well-known 3rd U.S. film? Films will 2 ..."
    assert words_of(text, tags) == ["film", "hero", "see", "well-known", "film", "Films"]
    assert words_of("", {}) == words_of(". . .", {}) == words_of("2 + 2", {}) == []


def test_a_texts_words_are_its_tokens_with_a_letter_or_digit() -> None:
    assert tag_text("It isn't the 3rd film (of 4), is it?", pos_tags).words == 10


@given(st.text(max_size=60) | st.text("ab'’. <>-_n't", max_size=30))
def test_any_text_can_be_tagged_and_edited(text: str) -> None:
    found = tag_text(text, pos_tags)
    assert all(text[place.start : place.end].isascii() for place in found.places())
    for edit in MADE.edit(text, found) if not found.packed else ():
        assert edit == SentenceEdit(text, ())


MADE = editor(TEXTS[:20])

# ------------------------------------------------------------------------------------------------- what replaces


def test_nothing_but_replaceable_words_changes_and_spans_say_where(
    corpus: list[tuple[SentenceEdit, SentenceEdit]],
) -> None:
    for text, (same, other) in zip(TEXTS, corpus, strict=True):
        for edit in (same, other):
            assert all(edit.text[s:e][0].isupper() == (s == 0 or edit.text[s - 2] == ".") for s, e in edit.spans)
            assert len(swaps(text, edit)) == len(edit.spans)


def test_x_syn_has_synonyms_hypernyms_and_inflections_alone(corpus: list[tuple[SentenceEdit, SentenceEdit]]) -> None:
    look_up, kinds = mini_thesaurus(), Counter[str]()
    for text, (same, _) in zip(TEXTS, corpus, strict=True):
        for word, tag, new in swaps(text, same):
            related = look_up(word, tag)
            found = [k for k in ("synonyms", "hypernyms", "forms") if new in getattr(related, k)[:3]]
            assert len(found) == 1, (word, new)
            kinds[found[0]] += 1
    assert all(kinds[kind] > 60 for kind in ("synonyms", "hypernyms", "forms"))


def test_x_ant_has_antonyms_wherever_there_are_any(corpus: list[tuple[SentenceEdit, SentenceEdit]]) -> None:
    strangers = 0
    for text, (_, other) in zip(TEXTS, corpus, strict=True):
        swapped = swaps(text, other)
        opposite = [new in antonyms(word) for word, _, new in swapped]
        assert sum(opposite) == other.antonyms
        having = sum(bool(antonyms(text[p.start : p.end])) for p in tag_text(text, pos_tags).places())
        assert other.antonyms == min(having, len(swapped)) and (other.antonyms or not having)
        for (word, tag, new), is_antonym in zip(swapped, opposite, strict=True):
            if is_antonym:
                assert new in mini_thesaurus()(word, tag).antonyms[:3]
            else:
                strangers += 1
                assert not antonyms(word) and pos_tags([new])[0][1] == tag
                related = mini_thesaurus()(word, tag)
                assert new != word and new not in related.all
                assert not {*mini_thesaurus()(new, tag).forms} & {word, *related.all}, "nor an inflection of such"
    assert strangers > 60


def test_an_antonym_comes_from_the_thesaurus_antonymy_and_from_nowhere_else() -> None:
    table = {
        ("film", "NOUN"): RelatedWords(synonyms=("movie",), antonyms=("play",)),
        ("story", "NOUN"): RelatedWords(synonyms=("tale",), hypernyms=("text",)),
    }
    made = editor(["film story"], table, antonym_share=1.0)
    ((same, other),) = edits(made, ["film story"])
    assert other == SentenceEdit("play film", ((0, 4), (5, 9)), antonyms=1), "for the story a word of the corpus"
    assert {new for _, _, new in swaps("film story", same)} <= {"movie", "tale", "text"}


def test_words_are_drawn_as_often_as_they_occur_under_the_tag() -> None:
    counts = {"cats": 600, "dogs": 300, "birds": 100, "kites": 1000, "slow": 50}
    texts = [f"{word} {n}" for word, count in counts.items() for n in range(count)]
    table = {kind: RelatedWords() for kind in count_types(texts, [tag_text(text, pos_tags) for text in texts])}
    tags = {"slow": "ADJ"}
    found = [tag_text(text, lambda ws: [(w, tags.get(w, "NOUN")) for w in ws]) for text in texts]
    made = SentenceEditor(
        EditOptions(), 0, {**table, ("slow", "ADJ"): RelatedWords()}, count_types(texts, found), texts, found
    )
    drawn = Counter(other.text.split()[0] for _, other in (made.edit(t, f) for t, f in zip(texts, found, strict=True)))
    for word in ("cats", "dogs", "birds", "kites"):  # in the place of each other word, by its share of what is left
        mean = sum(n * counts[word] / (2000 - n) for other, n in counts.items() if other not in (word, "slow"))
        assert drawn[word] == pytest.approx(mean, rel=0.15)
    assert drawn["slow"] == 50, "the only word of its tag has none to be replaced by"


def test_a_sentence_is_drawn_for_by_itself_and_by_the_seed(corpus: list[tuple[SentenceEdit, SentenceEdit]]) -> None:
    made = editor(TEXTS)
    assert edits(made, TEXTS[::-1])[::-1] == corpus
    other = edits(editor(TEXTS, seed=1), TEXTS)
    assert sum(a != b for a, b in zip(corpus, other, strict=True)) > 0.8 * len(TEXTS)


# --------------------------------------------------------------------------------------------------- how many


def test_the_shares_over_a_corpus_are_those_asked_for() -> None:
    made = editor(TEXTS, synonym_share=0.25, antonym_share=0.3)
    words = sum(tag_text(text, pos_tags).words for text in TEXTS)
    same, other = (sum(len(edit.spans) for edit in kind) for kind in zip(*edits(made, TEXTS), strict=True))
    assert same / words == pytest.approx(0.25, abs=0.02)
    assert other / words == pytest.approx(0.3, abs=0.02)


def test_others_make_up_for_sentences_with_too_little_to_replace() -> None:
    poor = [f"the the the the the the the {n} film" for n in range(100)]
    rich = [f"{n} the good film saw bad girls and bad boys" for n in range(100)]
    words = sum(tag_text(text, pos_tags).words for text in poor + rich)
    found = [[len(edit.spans) for edit in pair] for pair in edits(editor(poor + rich), poor + rich)]
    assert sum(same for same, _ in found) / words == pytest.approx(0.4, abs=0.02)
    assert {same for same, _ in found[:100]} == {1}, "all that there is"
    none = edits(editor(poor), poor)
    assert {len(same.spans) for same, _ in none} == {1}, "short of it: there is no more"


def test_a_word_is_replaced_wherever_one_can_be() -> None:
    texts = ["good", *(["the dog"] * 5), "2 of 3 of 4 of 5 of 6 of 7 films", "the of the"]
    for same, other in edits(editor(texts, synonym_share=0.01, antonym_share=0.01), texts)[:-1]:
        assert len(same.spans) == len(other.spans) == 1


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=20),
    st.floats(0, 1),
)
def test_the_rate_is_the_least_that_reaches_the_share(sizes: list[tuple[int, int]], share: float) -> None:
    words, most = [n for n, _ in sizes], [min(n, m) for n, m in sizes]
    q = find_rate(share, words, most)

    def mean(q: float) -> float:
        return sum(expected_count(q, n, m) for n, m in zip(words, most, strict=True)) / sum(words)

    if mean(1) < share:
        assert q == 1
    else:
        assert mean(q) >= share - 1e-9
        assert q < 1e-9 or mean(q - 1e-6) <= share + 1e-9


# ------------------------------------------------------------------------------------------------ replaced tokens


def roberta(folder: Path) -> Any:
    """A byte-level BPE tokenizer that cuts rarer words into pieces."""
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(TEXTS, vocab_size=420, min_frequency=2, special_tokens=specials)
    folder.mkdir()
    trained.save_model(str(folder))
    return transformers.RobertaTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"))


def bert(folder: Path) -> Any:
    mini_tokenizer.write_tokenizer(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("make", [bert, roberta])
def test_every_piece_of_a_replaced_word_is_marked_and_no_other(make: Any, tmp_path: Path, corpus: Any) -> None:
    """Against words tokenized one by one: the pieces of each word are counted, and all or none of them marked."""
    tokenizer = make(tmp_path / "tokenizer")
    several = Counter[bool]()
    for text, pair in list(zip(TEXTS, corpus, strict=True))[::3]:
        for edit in pair:
            encoded = tokenizer(edit.text, return_offsets_mapping=True, return_special_tokens_mask=True)
            found = mark_replaced(encoded["offset_mapping"], encoded["special_tokens_mask"], edit.spans)
            slow, at = [], 0
            for start, end in (*edit.spans, (len(edit.text), len(edit.text))):
                slow += [0] * len(pieces(tokenizer, edit.text[at:start].rstrip(" ")))
                cut = start - (edit.text[at:start] != edit.text[at:start].rstrip(" "))
                own = pieces(tokenizer, edit.text[cut:end])
                slow += [1] * len(own)
                several[len(own) > 1] += start < end
                at = end
            assert found == [0, *slow, 0], edit.text
            assert bool(sum(found)) == (edit.text != text)
    assert min(several[True], several[False]) > 30


def pieces(tokenizer: Any, text: str) -> list[str]:
    found: list[str] = tokenizer.tokenize(text) if text else []
    return found


@pytest.mark.parametrize("make", [bert, roberta])
@pytest.mark.parametrize(
    ("old", "new"), [("the awful films", "the stupendous films"), ("the stupendous films", "the awful films")]
)
def test_marks_belong_to_the_new_text_with_pieces_on_either_side(make: Any, old: str, new: str, tmp_path: Path) -> None:
    tokenizer = make(tmp_path / "tokenizer")
    longer, shorter = tokenizer.tokenize("the stupendous films"), tokenizer.tokenize("the awful films")
    assert len(longer) > len(shorter)
    encoded = tokenizer(new, return_offsets_mapping=True, return_special_tokens_mask=True)
    found = mark_replaced(encoded["offset_mapping"], encoded["special_tokens_mask"], [(4, new.index(" films"))])
    marked = [token for token, mark in zip(encoded.tokens(), found, strict=True) if mark]
    assert "".join(marked).replace("##", "").lstrip("Ġ") == new.split()[1]
    assert sum(found) == len(encoded.tokens()) - 2 - len(tokenizer.tokenize("the")) - len(tokenizer.tokenize(" films"))


def test_marks_of_tokens_that_are_cut_off_or_hold_a_space() -> None:
    ends = [1, 0, 0, 0, 1]
    assert mark_replaced([(0, 0), (0, 3), (3, 7), (7, 12), (0, 0)], ends, [(4, 7)]) == [0, 0, 1, 0, 0]
    assert mark_replaced([(0, 0), (0, 3), (4, 4), (4, 7), (0, 0)], ends, [(4, 7)]) == [0, 0, 1, 1, 0]
    assert mark_replaced([(0, 0), (0, 3), (4, 4), (4, 7), (0, 0)], ends, [(0, 3)]) == [0, 1, 0, 0, 0]
    assert mark_replaced([(0, 0), (0, 3), (0, 0)], [1, 0, 1], [(4, 7), (9, 11)]) == [0, 0, 0], "they are cut off"
    assert mark_replaced([(0, 1), (0, 1), (1, 2), (2, 6)], [0] * 4, [(0, 1), (3, 4), (4, 5)]) == [1, 1, 0, 1]
    assert mark_replaced([(0, 0), (0, 0)], [1, 1], []) == [0, 0]


def test_places_are_packed_and_come_back() -> None:
    found = tag_text("The dog saw films.", pos_tags)
    assert isinstance(found, TaggedWords) and found.words == 4
    assert [tuple(place) for place in found.places()] == [(4, 7, "NOUN"), (8, 11, "VERB"), (12, 17, "NOUN")]
