"""Tests ADCL's hard positives on a small encoder: what they change, how they affect the loss, what they keep."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rbench.measures.positives import _make_positives
from rbench.train import objectives
from rbench.train.moco import MoCoObjective
from rbench.words.substitution.segmentation import find_words
from tests.recipes import substitution_toy as toy
from tests.train import bases
from tests.train.moco_builders import project_alone

TEXTS = toy.sentences(np.random.default_rng(7), 24)[0]
TAU = 0.5


def made(base: Path, kind: str = "bert", dropout: float = 0.1, **options: Any) -> MoCoObjective:
    torch.manual_seed(0)
    module = objectives.find("adcl")
    given = {"queue": 32, "dim": 6, "temperature": TAU, "dropout": dropout, **options}
    spec = bases.spec("adcl", base, batch_size=8, max_length=40)
    built: Any = module.build(module.Options(**given), spec, base, resources=toy.resources(kind))
    for parameter in built.model.head.parameters():  # an untrained head hardly tells two sentences apart
        nn.init.normal_(parameter, std=0.7)
    built.model.key_head.load_state_dict(built.model.head.state_dict())
    built.model.train()
    return built  # type: ignore[no-any-return]


def step(built: MoCoObjective, texts: list[str]) -> dict[str, torch.Tensor]:
    out: dict[str, torch.Tensor] = built.model(**built.collate([built.features(text) for text in texts]))
    return out


def positives(built: MoCoObjective, texts: list[str]) -> tuple[list[str], dict[str, float]]:
    with torch.no_grad():
        return built.model.positives(built.model, texts)


def words(text: str) -> list[str]:
    return [text[start:end].lower() for _, start, end in find_words([text])]


@pytest.mark.parametrize(("max_words", "share", "budget"), [(10, 0.2, 2), (3, 0.5, 3)])
def test_replaced_words_stay_within_their_budget(max_words: int, share: float, budget: int, base: Path) -> None:
    found, counted = positives(made(base, max_words=max_words, share=share), TEXTS)
    group = {word: k for k, members in enumerate(toy.GROUPS) for word in members}
    total = 0
    for text, other in zip(TEXTS, found, strict=True):
        before, after = words(text), words(other)
        assert len(before) == len(after) == 10 and other.endswith(".")
        changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        assert len(changed) <= budget
        assert all(group[a] == group[b] for a, b in changed), "candidates are near in the word vectors"
        assert not {a for a, _ in changed} & toy.STOPWORDS
        total += len(changed)
    assert total > 0 and counted["replaced"] == total and counted["words"] == 10 * len(TEXTS)


def test_the_attack_raises_equation_1_by_what_it_says(base: Path) -> None:
    built = made(base, dropout=0.0, share=0.5)
    built.model.double()
    step(built, TEXTS[:8])  # something is in the queue
    texts, model = TEXTS[8:16], built.model
    found, counted = positives(built, texts)
    own = [project_alone(model.key_encoder.eval(), model.key_head, text) for text in texts]
    queue = [*model.queue.keys[:8].tolist(), *own]

    def loss(text: str, row: int) -> float:
        z = project_alone(model.encoder.eval(), model.head, text)
        exponents = [math.exp(sum(x * y for x, y in zip(z, key, strict=True)) / TAU) for key in queue]
        return -math.log(exponents[8 + row] / sum(exponents))

    rises = [loss(other, row) - loss(text, row) for row, (text, other) in enumerate(zip(texts, found, strict=True))]
    assert counted["raised"] == pytest.approx(sum(rises), rel=1e-9)
    assert sum(rises) / len(rises) > 0, "hard positives raise the loss on average"
    replaced = sum(
        a != b for text, other in zip(texts, found, strict=True) for a, b in zip(words(text), words(other), strict=True)
    )
    assert model.positives.scores({**counted, "positives": 8.0}) == pytest.approx(
        {"loss_raised": sum(rises) / 8, "words_replaced": replaced / (8 * 10)}
    )


def test_the_attack_changes_nothing_but_words(base: Path) -> None:
    built = made(base)
    model = built.model
    before = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    random = torch.get_rng_state()
    positives(built, TEXTS[:8])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert modes == [module.training for module in model.modules()]
    assert torch.equal(random, torch.get_rng_state())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_hard_positives_of_more_texts_than_the_queue_holds_are_made_in_parts(base: Path) -> None:
    built = made(base, queue=8)
    with torch.no_grad():
        found, sums = _make_positives(built.model, TEXTS[:20])
        parts = [positives(built, TEXTS[at : min(at + 8, 20)]) for at in (0, 8, 16)]
    assert found == [text for texts, _ in parts for text in texts]
    assert sums == pytest.approx({name: sum(counted[name] for _, counted in parts) for name in sums})


def test_sentences_without_a_replaceable_word_are_their_own_positives_and_counted(base: Path) -> None:
    built = made(base)
    texts = [
        "good film",  # 0.2 of two words is less than one
        "the and a the and a",  # stop words
        "very unseen very unseen very unseen",  # without vectors
        TEXTS[0],
    ]
    out = step(built, texts)
    assert torch.isfinite(out["loss"])
    assert built.scores([])["positives_unchanged"] == 3
    own, counted = positives(built, texts[:3])
    assert own == texts[:3] and counted["replaced"] == counted["raised"] == 0
    assert step(built, texts[:3])["loss"].item() > 0, "another dropout makes the pair"


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_masked_lm_may_have_another_tokenizer_than_the_base(kind: str, base: Path, tmp_path: Path) -> None:
    """Candidates are words, not tokens."""
    where = bases.masked_roberta(tmp_path / "base") if kind == "bert" else base
    built = made(where, kind)
    vocabulary = toy.masked_lm(kind).tokenizer.get_vocab()
    assert built.tokenizer.get_vocab() != vocabulary
    found, counted = positives(built, TEXTS[:8])
    assert counted["replaced"] > 0 and found != TEXTS[:8]
    assert set(words(" ".join(found))) <= set(toy.WORDS)


def test_random_positives_have_the_candidates_and_the_budget_of_hard_ones(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy, "STOPWORDS", toy.STOPWORDS | {*toy.THINGS})  # words that have candidates
    built = made(base, positives="random", source="neighbours", max_words=10, share=0.2)
    group = {word: k for k, members in enumerate(toy.GROUPS) for word in members}
    torch.manual_seed(3)
    before = copy.deepcopy(built.model.state_dict())
    found, counted = positives(built, TEXTS)
    assert all(torch.equal(value, before[name]) for name, value in built.model.state_dict().items())
    pairs = [list(zip(words(text), words(other), strict=True)) for text, other in zip(TEXTS, found, strict=True)]
    changed = [[(place, a, b) for place, (a, b) in enumerate(row) if a != b] for row in pairs]
    assert [len(row) for row in changed] == [2] * len(TEXTS), "each text has more words with candidates than its budget"
    assert all(group[a] == group[b] for row in changed for _, a, b in row)
    assert counted["replaced"] == 2 * len(TEXTS) and counted["words"] == 10 * len(TEXTS)
    assert not {a for row in changed for _, a, _ in row} & {*toy.THINGS}, "stop words stay"
    places = {place for row in changed for place, _, _ in row}
    assert len(places) > 3, "any word may be taken, not the first ones"
    taken = {(a, b) for row in changed for _, a, b in row}
    assert len(taken) > len({a for a, _ in taken}) + 3, "and any of its candidates"
    torch.manual_seed(3)
    assert positives(built, TEXTS)[0] == found != positives(built, TEXTS)[0]


def test_positives_that_are_the_text_itself_differ_by_dropout_alone(base: Path) -> None:
    built = made(base, positives="same")
    found, counted = positives(built, TEXTS[:8])
    assert found == TEXTS[:8] and (counted["replaced"], counted["raised"], counted["words"]) == (0, 0, 80)
    assert step(built, TEXTS[:8])["loss"].item() > 0
    assert built.scores([])["positives_unchanged"] == 8


def test_the_query_encoder_ranks_unless_the_key_encoder_is_asked_to(base: Path) -> None:
    found = {}
    for ranked_by in ("query", "key"):
        built = made(base, share=0.5, ranked_by=ranked_by)
        before, _ = positives(built, TEXTS[:8])
        for parameter in built.model.encoder.parameters():
            parameter.data = 0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
        found[ranked_by] = (before, positives(built, TEXTS[:8])[0])
    assert found["query"][0] == found["key"][0], "at first the two are one"
    assert found["query"][0] != found["query"][1]
    assert found["key"][0] == found["key"][1]
