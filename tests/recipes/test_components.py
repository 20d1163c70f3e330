from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from textattack.constraints.semantics.sentence_encoders import SentenceEncoder
from textattack.shared import AttackedText, WordEmbedding

from rbench import mini
from rbench.errors import ResourceError
from rbench.recipes import binding
from rbench.recipes.cached import SplicedText
from rbench.recipes.masked_lm import current_resources
from rbench.words.resources import Resources
from tests.recipes import world

ROWS = [str(row["text"]) for row in mini.rows("mini-sentiment", "test")[:8]]


@pytest.fixture(autouse=True)
def bound(resources: Resources) -> Any:
    token = current_resources.set(resources)
    yield
    current_resources.reset(token)


class Plain(SentenceEncoder):  # type: ignore[misc]
    """Upstream's similarity over the same vectors, nothing remembered."""

    def __init__(self, resources: Resources, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.resources = resources

    def encode(self, sentences: list[str]) -> torch.Tensor:
        return self.resources.sentence_encoder.encode(sentences)


@pytest.mark.parametrize("metric", ["cosine", "angular", "max_euclidean"])
@pytest.mark.parametrize(("window", "skip"), [(None, False), (5, False), (15, True), (9, True)])
def test_similarity_equals_textattack(resources: Resources, metric: str, window: int | None, skip: bool) -> None:
    arguments = {"threshold": 0.9, "metric": metric, "window_size": window, "skip_text_shorter_than_window": skip}
    ours = binding.UniversalSentenceEncoder(**arguments)
    theirs = Plain(resources, **arguments)
    for row in (ROWS[0], " ".join(ROWS[:3])):
        text = AttackedText(row)
        swaps = [
            (i, w) for i in range(0, text.num_words, 3) for w in ("story", "dull plot", "the") if text.words[i] != w
        ]
        made = [[text.replace_word_at_index(i, w) for i, w in swaps] for _ in range(2)]
        kept = ours._check_constraint_many(made[0], text)
        expected = theirs._check_constraint_many(made[1], text)
        assert [t.text for t in kept] == [t.text for t in expected]
        for a, b in zip(*made, strict=True):
            assert a.attack_attrs["similarity_score"] == pytest.approx(b.attack_attrs["similarity_score"], abs=1e-6)
        assert ours._check_constraint_many([], text) == []


def test_short_texts_are_not_encoded_and_windows_only_once(lm: Path) -> None:
    resources = world.resources(lm)
    asked: list[str] = []
    encode = resources.sentence_encoder._model
    resources.sentence_encoder._model = lambda texts: asked.extend(texts) or encode(texts)  # type: ignore[method-assign]
    token = current_resources.set(resources)
    similar = binding.UniversalSentenceEncoder(window_size=15, skip_text_shorter_than_window=True)
    current_resources.reset(token)
    short, long = AttackedText("the story was dull"), AttackedText(" ".join(ROWS[:3]))
    similar._check_constraint_many([short.replace_word_at_index(1, "plot")], short)
    assert asked == []
    similar._check_constraint_many([long.replace_word_at_index(9, w) for w in ("plot", "film")], long)
    similar._check_constraint_many([long.replace_word_at_index(9, w) for w in ("plot", "film")], long)
    assert len(asked) == 3 == len(set(asked))


def test_neighbours_and_cosines_equal_textattack(resources: Resources) -> None:
    vectors = resources.word_vectors
    theirs = WordEmbedding(vectors.matrix, vectors.index, dict(enumerate(vectors.words)))
    ours = binding.share_embedding()
    assert ours is binding.share_embedding()
    for word in vectors.words[:200:20]:
        i = vectors.index[word]
        near = ours.nearest_neighbours(i, 12)
        rows = torch.from_numpy(vectors.matrix)
        far = torch.norm(rows - rows[i], dim=1)
        assert torch.allclose(far[near], far.topk(13, largest=False).values[1:], atol=1e-6) and i not in near
        assert ours.nearest_neighbours(i, 3) == near[:3]
        for other in near[:4]:
            assert ours.get_cos_sim(i, other) == theirs.get_cos_sim(i, other) == ours.get_cos_sim(other, i)
        assert ours.get_cos_sim(word, vectors.words[near[0]]) == theirs.get_cos_sim(i, near[0])


def test_tags_are_those_of_the_words_first_occurrence_in_its_window(resources: Resources) -> None:
    pos = binding.PartOfSpeech()
    tags = dict(resources.pos_tags(["the", "story", "was", "dull"]))
    assert pos._get_pos(["the"], "story", ["was", "dull"]) == tags["story"]
    text = AttackedText("the story was dull")
    assert pos._check_constraint(text.replace_word_at_index(1, "plot"), text)
    assert not pos._check_constraint(text.replace_word_at_index(3, "quickly"), text)


@pytest.mark.parametrize(
    "make", [binding.PartOfSpeech, lambda: binding.WordEmbeddingDistance(binding.share_embedding(), min_cos_sim=0.5)]
)
def test_candidates_together_are_judged_as_each_alone(make: Any) -> None:
    constraint = make()
    original = SplicedText(" ".join(ROWS[:2]))
    current = original.replace_word_at_index(2, "two words").replace_word_at_index(5, "plot")
    words = ["plot", "dull", "quickly", "The", "unknownword", "two words", "", *original.words[:4]]
    texts = [current.replace_word_at_index(i, word) for i in range(current.num_words) for word in words]
    texts.append(current.replace_words_at_indices([0, 3], ["plot", "dull"]))
    texts = [text for text in texts if text.words != current.words]
    kept = constraint._check_constraint_many(texts, original)
    assert kept == [text for text in texts if constraint._check_constraint(text, original)]
    assert 0 < len(kept) < len(texts)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: binding.WordSwapWordNet(language="fra"), "fra"),
        (lambda: binding.StopwordModification(language="german"), "german"),
        (lambda: binding.PartOfSpeech(tagger_type="flair"), "flair"),
        (lambda: binding.PartOfSpeech(tagset="brown"), "brown"),
    ],
)
def test_what_no_resource_stands_behind_is_refused(make: Any, what: str) -> None:
    with pytest.raises(ResourceError, match=what):
        make()


def test_stop_words_of_the_recipe_win() -> None:
    assert binding.StopwordModification(stopwords=["x"]).stopwords == {"x"}
    assert "the" in binding.StopwordModification().stopwords


def test_letters_of_a_word_are_swapped_one_by_one_unless_it_is_longer_than_any_word() -> None:
    """A word for each letter of a megabyte of letters would need a terabyte."""
    swap = binding.WordSwapHomoglyphSwap()
    assert len(swap._get_replacement_words("o" * binding.MAX_SWAPPED_LETTERS)) == binding.MAX_SWAPPED_LETTERS
    assert swap._get_replacement_words("o" * (binding.MAX_SWAPPED_LETTERS + 1)) == []
    assert len(swap._get_replacement_words("foo")) == 3
