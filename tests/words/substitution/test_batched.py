"""The search on an encoder in training against a slow Algorithm 1 for one text, and what it may touch."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn

from rbench.errors import JobError
from rbench.words.substitution.batched import BatchedGeometry, SearchTarget, at_most
from rbench.words.substitution.candidates import MaskedWords
from rbench.words.substitution.segmentation import find_words
from tests.recipes import substitution_toy as toy

PAIRS = [("the film is good", "a lousy, dull tale"), ("Superb plot", "the movie seems neat and fine.")]
TEXTS = [
    "The film is superb and good, the plot very dull.",
    "A lousy flick",
    "very unseen, the",
    "",
    "great! GREAT tale; the yarn feels fine - a neat picture (awful)",
    *toy.sentences(np.random.default_rng(3), 2)[0],
]


class Loss:
    """A loss for each row that is none of the real ones: -log of the softmax over fixed keys, of the row's own key."""

    def __init__(self, rows: int, dim: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.keys = torch.randn(rows + 3, dim, generator=generator, dtype=torch.float64)

    def __call__(self, z: Tensor, rows: list[int]) -> Tensor:
        similar = z @ self.keys.to(z.dtype).T
        return similar.logsumexp(dim=1) - similar[torch.arange(len(rows)), rows]


def made(kind="bert", projection="signed", lookahead=1, candidates=40, dtype=torch.float64, seed=0):
    """(geometry, encoder, head) in double precision, in training mode, with dropout."""
    vectors = toy.word_vectors()
    words = MaskedWords(toy.masked_lm(kind).padded(8), vectors, candidates=candidates)
    encoder = toy.classifier(kind, seed=seed).encoder.to(dtype)
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.3
    torch.manual_seed(seed)
    head = nn.Sequential(nn.Linear(32, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Tanh(), nn.Linear(16, 6)).to(dtype)
    return (
        BatchedGeometry(words, toy.STOPWORDS, projection=projection, lookahead=lookahead),
        encoder.train(),
        head.train(),
    )


def swap(geometry, texts, *, max_words, fixed=(), **target):
    return geometry(texts, SearchTarget(**target), max_words=max_words, fixed=fixed)


# ------------------------------------------------------------------------------------------------- Algorithm 1 by hand


def words_of(text):
    """Runs of letters, with their places: enough for the toy's texts."""
    found, start = [], None
    for k, letter in enumerate(text + " "):
        if letter.isalpha():
            start = k if start is None else start
        elif start is not None:
            found.append((start, k))
            start = None
    return found


def vector(encoder, head, texts, max_length):
    """z of one text; in eval mode, padded to nothing."""
    inputs = encoder.tokenizer(*texts, return_tensors="pt", truncation=True, max_length=max_length)
    with torch.no_grad():
        return head(encoder(**inputs))[0]


def look(encoder, head, loss, texts, row, max_length):
    """z, v_z and a norm by (column, start), by a plain backward pass from inputs_embeds."""
    inputs = encoder.tokenizer(
        *texts, return_tensors="pt", truncation=True, max_length=max_length, return_offsets_mapping=True
    )
    columns, offsets = inputs.sequence_ids(0), inputs.pop("offset_mapping")[0].tolist()
    embeddings = encoder.model.get_input_embeddings()(inputs.pop("input_ids")).detach().requires_grad_()
    z = head(encoder(inputs_embeds=embeddings, **inputs))
    z.retain_grad()
    loss(z, [row]).sum().backward()
    norms = {}
    for column, text in enumerate(texts):
        for start, end in words_of(text):
            pieces = [k for k, (a, b) in enumerate(offsets) if columns[k] == column and a < end and b > start and b > a]
            if pieces:
                norms[column, start] = float(embeddings.grad[0, pieces].mean(dim=0).norm())
    return z[0].detach(), z.grad[0], norms


def algorithm_1(geometry, encoder, head, loss, texts, row, budget, max_length, fixed=(), over=None):
    """One text, one word at a time, one candidate at a time: (columns, [(old, new, projection)])."""
    texts, steps, touched = list(texts), [], set()
    if over is not None and over(vector(encoder, head, texts, max_length), row):
        return tuple(texts), steps
    while len(steps) < budget:
        z, v, norms = look(encoder, head, loss, texts, row, max_length)
        order = sorted(
            (
                (column, number, start, end)
                for column, text in enumerate(texts)
                for number, (start, end) in enumerate(words_of(text))
                if (column, start) in norms
            ),
            key=lambda place: -norms[place[0], place[2]],
        )
        for column, number, start, end in order:
            old = texts[column][start:end]
            if column in fixed or (column, number) in touched or old.lower() in toy.STOPWORDS:
                continue
            touched.add((column, number))
            before = sum(len(text) + 1 for text in texts[:column])
            (found,) = geometry.source([("\n".join(texts), before + start, before + end)])
            if found:
                break
        else:
            break
        outcomes = []
        for new in found:
            other = list(texts)
            other[column] = texts[column][:start] + new + texts[column][end:]
            z_j = vector(encoder, head, other, max_length)
            ended = over is not None and bool(over(z_j, row))
            outcomes.append((float((z_j - z) @ v / v.norm()), new, other, ended))
        pool = [outcome for outcome in outcomes if outcome[3]] or outcomes
        merit = abs if geometry.projection == "absolute" else float
        best = max(pool, key=lambda outcome: merit(outcome[0]))
        texts = best[2]
        steps.append((old, best[1], best[0]))
        if best[3]:
            break
    return tuple(texts), steps


def same(results, geometry, encoder, head, loss, texts, max_words, max_length, fixed=(), over=None):
    """Compare all results with the slow search; gives the number of words replaced."""
    encoder.eval(), head.eval()
    replaced = 0
    for row, (result, columns) in enumerate(zip(results, texts, strict=True)):
        length = sum(len(words_of(text)) for column, text in enumerate(columns) if column not in fixed)
        expected, steps = algorithm_1(
            geometry, encoder, head, loss, columns, row, max_words(length), max_length, fixed, over
        )
        assert result.texts == expected
        assert [(s.old, s.new) for s in result.substitutions] == [step[:2] for step in steps]
        assert [s.projection for s in result.substitutions] == pytest.approx([step[2] for step in steps], abs=1e-9)
        assert result.num_words == length
        replaced += len(steps)
    return replaced


@pytest.mark.parametrize(
    ("kind", "options"), [("bert", {"lookahead": 3}), ("bert", {"projection": "absolute"}), ("roberta", {})]
)
def test_the_search_is_algorithm_1_text_by_text(kind, options):
    geometry, encoder, head = made(kind, **options)
    texts, loss, max_words = [(text,) for text in TEXTS], Loss(len(TEXTS), 6), at_most(10, 0.4)
    results = swap(geometry, texts, encoder=encoder, loss=loss, max_words=max_words, max_length=64, project=head)
    assert same(results, geometry, encoder, head, loss, texts, max_words, 64) > 12


@pytest.mark.parametrize(("kind", "fixed"), [("bert", ()), ("roberta", (0,)), ("bert", (1,)), ("bert", (0, 1))])
def test_pairs_too_and_fixed_columns_stay(kind, fixed):
    geometry, encoder, head = made(kind)
    loss, max_words = Loss(2, 6), at_most(10, 0.5)
    results = swap(
        geometry, PAIRS, encoder=encoder, loss=loss, max_words=max_words, max_length=64, project=head, fixed=fixed
    )
    replaced = same(results, geometry, encoder, head, loss, PAIRS, max_words, 64, fixed)
    assert (replaced > 0) == (len(fixed) < 2)
    for result, columns in zip(results, PAIRS, strict=True):
        assert all(result.texts[column] == columns[column] for column in fixed)


def test_a_search_ends_where_the_caller_says_that_it_is_over():
    geometry, encoder, head = made()
    texts, loss, max_words = [(text,) for text in TEXTS], Loss(len(TEXTS), 6), at_most(10, 0.5)
    encoder.eval(), head.eval()
    start = torch.stack([vector(encoder, head, text, 64) for text in texts])[:, 0]
    limit = start.median() + 0.02  # half of them are beyond it before anything is changed

    def over(z, rows):
        return (z[:, 0] > limit).tolist()

    free = swap(geometry, texts, encoder=encoder, loss=loss, max_words=max_words, max_length=64, project=head)
    ended = swap(
        geometry, texts, encoder=encoder, loss=loss, max_words=max_words, max_length=64, project=head, over=over
    )
    same(ended, geometry, encoder, head, loss, texts, max_words, 64, over=lambda z, row: z[0] > limit)
    assert [len(r.substitutions) for r in ended] != [len(r.substitutions) for r in free]
    assert any(a.substitutions and not b.substitutions for a, b in zip(free, ended, strict=True))


def test_one_batch_finds_the_words_of_one_text_at_a_time_in_single_precision_too():
    geometry, encoder, head = made(dtype=torch.float32)
    texts, keys = [(text,) for text in TEXTS], Loss(len(TEXTS), 6).keys.float()
    options = {"encoder": encoder, "max_words": at_most(10, 0.4), "max_length": 64, "project": head}
    together = swap(geometry, texts, loss=lambda z, rows: (z * keys[rows]).sum(dim=1), **options)
    assert sum(len(result.substitutions) for result in together) > 12
    for row, text in enumerate(texts):
        (alone,) = swap(geometry, [text], loss=lambda z, rows, row=row: (z * keys[row]).sum(dim=1), **options)
        assert alone.texts == together[row].texts
        for mine, theirs in zip(alone.substitutions, together[row].substitutions, strict=True):
            assert mine.projection == pytest.approx(theirs.projection, abs=1e-4)


# -------------------------------------------------------------------------------------------------- what it may touch


def test_budgets_are_never_passed_and_round_down():
    assert [at_most(10, 0.2)(length) for length in (0, 4, 5, 9, 10, 49, 50, 55, 1000)] == [0, 0, 1, 1, 2, 9, 10, 10, 10]
    assert [at_most(15, 0.4)(length) for length in (1, 2, 3, 5, 35, 40)] == [0, 0, 1, 2, 14, 15]
    assert 0.29 * 100 < 29 == at_most(50, 0.29)(100), "a product that is whole but for its last digit"
    geometry, encoder, head = made()
    texts = [(text,) for text in TEXTS]
    for budget in (0, 2, 99):
        results = swap(
            geometry,
            texts,
            encoder=encoder,
            loss=Loss(len(TEXTS), 6),
            max_words=lambda length, budget=budget: budget,
            max_length=64,
            project=head,
        )
        counts = [len(result.substitutions) for result in results]
        assert max(counts) <= budget
        assert budget == 99 or max(counts) == budget
        for result in results:
            places = [s.index for s in result.substitutions]
            assert len(places) == len(set(places))


def test_stop_words_in_any_case_punctuation_and_spaces_stay():
    geometry, encoder, head = made()
    texts = [("THE film , is good.\n\nAnd  The\tplot;very dull !",), ("the and a",)]
    results = swap(
        geometry, texts, encoder=encoder, loss=Loss(2, 6), max_words=lambda length: length, max_length=64, project=head
    )
    assert len(results[0].substitutions) == 5
    assert all(s.old not in ("THE", "And", "The", "very") for s in results[0].substitutions)
    between = ["".join(sign for sign in text if not sign.isalpha()) for (text,) in (texts[0], results[0].texts)]
    assert between[0] == between[1]
    assert results[1].texts == texts[1]


def test_words_that_truncation_hides_stay():
    geometry, encoder, head = made()
    text = " ".join(["good", "dull"] * 12)
    (result,) = swap(
        geometry,
        [(text,)],
        encoder=encoder,
        loss=Loss(1, 6),
        max_words=lambda length: length,
        max_length=10,
        project=head,
    )
    assert {s.index for s in result.substitutions} == set(range(8))
    assert result.num_words == 24
    assert result.texts[0].split()[8:] == text.split()[8:]


def test_special_tokens_and_padding_are_never_touched():
    """Every token of the result that differs is a piece of a word, and lies where the text's word did."""
    for kind in ("bert", "roberta"):
        geometry, encoder, head = made(kind)
        texts = [(text,) for text in TEXTS]
        results = swap(
            geometry,
            texts,
            encoder=encoder,
            loss=Loss(len(TEXTS), 6),
            max_words=at_most(10, 1),
            max_length=64,
            project=head,
        )
        special = encoder.tokenizer.all_special_tokens
        for (text,), result in zip(texts, results, strict=True):
            assert not any(token in result.texts[0] for token in special)
            before, after = (
                [t for t in encoder.tokenizer(x)["input_ids"] if t in encoder.tokenizer.all_special_ids]
                for x in (text, result.texts[0])
            )
            assert before == after
            assert len(find_words(result.texts)) == len(find_words((text,)))


# ------------------------------------------------------------------------------------------------ what it leaves alone


def test_modes_gradients_weights_and_random_numbers_stay_as_they_were():
    geometry, encoder, head = made()
    head[1].eval()  # a mixture of modes comes back as it was
    modes = [module.training for part in (encoder, head) for module in part.modules()]
    for parameter in (*encoder.parameters(), *head.parameters()):
        parameter.grad = torch.full_like(parameter, 7.0)
    before = [tensor.clone() for part in (encoder, head) for tensor in part.state_dict().values()]
    state, mine, theirs = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    with torch.no_grad():
        results = swap(
            geometry,
            [(t,) for t in TEXTS],
            encoder=encoder,
            loss=Loss(len(TEXTS), 6),
            max_words=at_most(10, 0.5),
            max_length=64,
            project=head,
        )
    assert sum(len(result.substitutions) for result in results) > 5
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == mine
    assert (np.random.get_state()[1] == theirs).all()
    assert [module.training for part in (encoder, head) for module in part.modules()] == modes
    assert all((p.grad == 7).all() for p in (*encoder.parameters(), *head.parameters()))
    after = [tensor for part in (encoder, head) for tensor in part.state_dict().values()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert not encoder.model.get_input_embeddings()._forward_hooks


def test_modes_come_back_after_an_error():
    geometry, encoder, head = made()

    def failing(z, rows):
        raise ValueError("no loss")

    with pytest.raises(ValueError, match="no loss"):
        swap(
            geometry,
            [(TEXTS[0],)],
            encoder=encoder,
            loss=failing,
            max_words=at_most(10, 0.5),
            max_length=64,
            project=head,
        )
    assert all(module.training for part in (encoder, head) for module in part.modules())


def test_the_next_search_sees_the_next_weights():
    geometry, encoder, head = made()
    options = {"encoder": encoder, "max_words": at_most(10, 0.5), "max_length": 64, "project": head}
    texts, loss = [(text,) for text in TEXTS], Loss(len(TEXTS), 6)
    before = swap(geometry, texts, loss=loss, **options)
    with torch.no_grad():
        for parameter in encoder.model.encoder.parameters():
            parameter.mul_(1.5)
    after = swap(geometry, texts, loss=loss, **options)
    assert before != after
    same(after, geometry, encoder, head, loss, texts, at_most(10, 0.5), 64)


def test_the_loss_rises_on_average():
    geometry, encoder, head = made()
    texts, loss = [(text,) for text in toy.sentences(np.random.default_rng(9), 24)[0]], Loss(24, 6)
    results = swap(geometry, texts, encoder=encoder, loss=loss, max_words=at_most(10, 0.4), max_length=64, project=head)
    encoder.eval(), head.eval()
    rows = range(len(texts))
    start = [float(loss(vector(encoder, head, texts[row], 64)[None], [row])) for row in rows]
    end = [float(loss(vector(encoder, head, results[row].texts, 64)[None], [row])) for row in rows]
    rises = np.subtract(end, start)
    assert rises.mean() > 3 * rises.std() / np.sqrt(len(rises))


# -------------------------------------------------------------------------------------------------------------- chance


FOUR_IN_TEN = at_most(10, 0.4)


def by_chance(texts, seeds, *, max_words=FOUR_IN_TEN, max_length=64, candidates=40, **target):
    geometry, encoder, head = made(candidates=candidates, dtype=torch.float32)
    target = SearchTarget(encoder, Loss(len(texts), 6), max_length, project=head, **target)
    chance = [np.random.default_rng(seed) for seed in seeds]
    return geometry, geometry([(text,) for text in texts], target, max_words=max_words, chance=chance)


def test_chance_chooses_words_and_candidates_alike():
    """Of 200 draws each word is the first to be replaced equally often, and each of its candidates is taken so."""
    text = "good film dull plot"
    geometry, results = by_chance([text] * 200, range(200), max_words=lambda length: 1, candidates=8)
    drawn = Counter((one.substitutions[0].index, one.substitutions[0].new) for one in results)
    starts = {k: text.index(word) for k, word in enumerate(text.split())}
    offered = {k: geometry.source([(text, start, start + 4)])[0] for k, start in starts.items()}
    several = {k: found for k, found in offered.items() if found}
    assert len(several) >= 3 and set(drawn) == {(k, new) for k, found in several.items() for new in found}
    words = [sum(n for (k, _), n in drawn.items() if k == one) for one in several]
    assert chisquare(words).pvalue > 0.001
    for k, found in several.items():
        assert len(found) == 1 or chisquare([drawn[k, new] for new in found]).pvalue > 0.001
    assert {one.substitutions[0].projection for one in results} == {0}


def test_chance_of_a_text_is_its_own_and_keeps_to_the_same_rules():
    hidden = " ".join(["good", "dull"] * 12)
    texts = [*TEXTS, hidden]
    _, together = by_chance(texts, range(len(texts)), max_words=lambda length: 4, max_length=10)
    for k in (0, 4, len(texts) - 1):
        assert by_chance([texts[k]], [k], max_words=lambda length: 4, max_length=10)[1] == [together[k]]
    assert by_chance(texts, range(7, 7 + len(texts)), max_words=lambda length: 4, max_length=10)[1] != together
    for one in together:
        places = [step.index for step in one.substitutions]
        assert len(places) == len(set(places)) <= 4
        assert not {step.old.lower() for step in one.substitutions} & toy.STOPWORDS
    assert {step.index for step in together[-1].substitutions} <= set(range(8)), "truncation hides the others"
    assert len(together[-1].substitutions) == 4


def test_chance_ends_where_the_caller_says_that_it_is_over_and_raises_no_loss():
    texts = toy.sentences(np.random.default_rng(9), 30)[0]
    _, results = by_chance(texts, range(30), over=lambda z, rows: [True] * len(rows), leave_if_over=False)
    assert {len(one.substitutions) for one in results} == {1}
    _, encoder, head = made(dtype=torch.float32)
    encoder.eval(), head.eval()
    _, results = by_chance(texts, range(30))
    loss = Loss(30, 6)
    rises = [
        float(
            loss(vector(encoder, head, after.texts, 64)[None], [k])
            - loss(vector(encoder, head, (text,), 64)[None], [k])
        )
        for k, (text, after) in enumerate(zip(texts, results, strict=True))
    ]
    assert abs(np.mean(rises)) < 3 * np.std(rises) / np.sqrt(len(rises))


# ----------------------------------------------------------------------------------------------------------- bad input


def test_no_texts_no_results():
    geometry, encoder, _ = made()
    assert swap(geometry, [], encoder=encoder, loss=Loss(1, 32), max_words=at_most(1, 1), max_length=64) == []


def test_a_diverged_encoder_is_named():
    geometry, encoder, _ = made()
    with torch.no_grad():
        next(encoder.model.encoder.parameters()).fill_(float("nan"))
    with pytest.raises(JobError, match="learning_rate"):
        swap(geometry, [(TEXTS[0],)], encoder=encoder, loss=Loss(1, 32), max_words=at_most(9, 1), max_length=64)


def test_a_text_is_read_as_far_as_the_encoder_can_read():
    geometry, encoder, head = made()
    texts = [(" ".join(["the film is superb and good"] * 20),)]
    options = {"encoder": encoder, "loss": Loss(1, 6), "max_words": at_most(3, 1), "project": head}
    assert encoder.max_length < len(encoder.tokenizer(texts[0][0])["input_ids"])
    assert swap(geometry, texts, max_length=4096, **options) == swap(
        geometry, texts, max_length=encoder.max_length, **options
    )


def test_stopwords_stay_in_whatever_case_they_are_written():
    geometry, encoder, head = made()
    options = {"encoder": encoder, "loss": Loss(1, 6), "max_words": at_most(9, 1), "max_length": 64, "project": head}
    texts = [("Good film, GOOD plot: good",)]
    free = swap(geometry, texts, **options)[0]
    geometry.stopwords = frozenset({"good"})
    kept = swap(geometry, texts, **options)[0]
    assert sum(one.old.lower() == "good" for one in free.substitutions) == 3
    assert {one.old for one in kept.substitutions} == {"film", "plot"} and kept.num_words == 5


def test_from_resources():
    found = toy.resources()
    geometry = BatchedGeometry.of(found, candidates=7, min_cosine=0.1, unknown="keep", projection="absolute")
    words = geometry.source
    assert (words.candidates, words.min_cosine, words.unknown, geometry.projection) == (7, 0.1, "keep", "absolute")
    assert geometry.stopwords == toy.STOPWORDS
