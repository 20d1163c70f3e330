"""DeCLUTR against its formula, span by span, and the spans against their bounds and their distributions."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rbench import encoders
from rbench.config import load_encoder
from rbench.config.registry import Registry
from rbench.errors import JobError
from rbench.train import objectives, spans
from rbench.train.loop import pretrain
from rbench.train.objectives.declutr import DeclutrObjective, Options
from tests.refusals import refusal
from tests.train import bases
from tests.train.bases import TEXTS

DOCUMENTS = [" ".join(TEXTS[i : i + 6]) for i in range(0, 72, 6)]


def made(base: Path, pooling: str = "mean", **options: Any) -> DeclutrObjective:
    torch.manual_seed(0)
    spec = bases.spec("declutr", base, pooling, max_length=12)
    built = DeclutrObjective(Options(**{"min_span": 2, **options}), spec, base)
    built.model.double().eval()
    return built


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_the_contrastive_term_is_nt_xent_of_anchors_and_mean_positives(
    pooling: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = made(base, pooling, mlm=False, positives=3, temperature=0.3)
    batch = built.collate([built.features(text) for text in DOCUMENTS[:3]])
    drawn: list[list[tuple[spans.Span, list[spans.Span]]]] = []
    draw = spans.draw

    def recorded(*args: Any) -> Any:
        drawn.append(draw(*args))
        return drawn[-1]

    monkeypatch.setattr(spans, "draw", recorded)
    losses = built.model(**batch)

    def vector(ids: list[int]) -> np.ndarray[Any, Any]:
        tokenizer = built.tokenizer
        whole = torch.tensor([[tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]])
        states = built.masked_lm.base_model(input_ids=whole).last_hidden_state[0].detach().numpy()
        return states[0] if pooling == "cls" else states.mean(0)

    anchors, positives = [], []
    for text, of in zip(DOCUMENTS, drawn, strict=False):
        ids = built.tokenizer(text, add_special_tokens=False)["input_ids"]
        for anchor, around in of:
            anchors.append(vector(ids[anchor.start : anchor.end]))
            positives.append(np.mean([vector(ids[span.start : span.end]) for span in around], axis=0))
    views = [v / np.linalg.norm(v) for v in (*anchors, *positives)]
    assert len(views) == 2 * 2 * 3
    terms = []
    for i, view in enumerate(views):
        others = {j: math.exp(float(view @ other) / 0.3) for j, other in enumerate(views) if j != i}
        terms.append(-math.log(others[(i + 6) % 12] / sum(others.values())))
    assert losses["loss"].item() == pytest.approx(sum(terms) / 12, rel=1e-9)
    assert losses["contrastive"] is losses["loss"]


def test_the_other_term_is_the_masked_lms_own_loss_of_masked_anchors(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = made(base, mask=0.5)
    batch = built.collate([built.features(text) for text in DOCUMENTS[:3]])
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    mask = spans.masked

    def recorded(collator: Any, ids: torch.Tensor, special: torch.Tensor) -> Any:
        hidden, labels = mask(collator, ids, special)
        assert labels[special.bool()].eq(-100).all() and len(ids) == 6, "anchors alone, and no special token"
        seen.append((hidden, labels))
        return hidden, labels

    monkeypatch.setattr(spans, "masked", recorded)
    losses = built.model(**batch)
    ((hidden, labels),) = seen
    assert (labels != -100).any()
    real = (hidden != built.tokenizer.pad_token_id).long()
    own = built.masked_lm(input_ids=hidden, attention_mask=real, labels=labels).loss
    assert losses["mlm"].item() == pytest.approx(own.item(), rel=1e-9)
    assert losses["loss"].item() == pytest.approx((losses["mlm"] + losses["contrastive"]).item(), rel=1e-12)
    losses["loss"].backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in built.masked_lm.base_model.encoder.parameters())


@given(
    tokens=st.integers(0, 400),
    longest=st.integers(1, 60),
    anchors=st.integers(1, 4),
    positives=st.integers(1, 3),
    min_span=st.integers(1, 60),
    sampling=st.sampled_from(["any", "adjacent", "subsumed"]),
    seed=st.integers(0, 2**31),
)
def test_spans_lie_in_their_document_and_near_their_anchor(
    tokens: int, longest: int, anchors: int, positives: int, min_span: int, sampling: Any, seed: int
) -> None:
    torch.manual_seed(seed)
    options = Options(anchors=anchors, positives=positives, min_span=min_span, sampling=sampling)
    drawn = spans.draw(tokens, longest, options)
    assert len(drawn) == anchors and all(len(around) == positives for _, around in drawn)
    if tokens < 2 * anchors:
        assert {span for anchor, around in drawn for span in (anchor, *around)} == {(0, tokens)}
        return
    most = min(longest, tokens // (2 * anchors))
    for (anchor, around), after in zip(drawn, [*drawn[1:], None], strict=True):
        for span in (anchor, *around):
            assert 0 <= span.start < span.end <= tokens and min(min_span, most) <= span.end - span.start <= most
        assert all(span.start <= anchor.end and span.end >= anchor.start for span in around), "no gap to the anchor"
        if sampling == "subsumed":
            assert all(anchor.start <= span.start and span.end <= anchor.end for span in around)
        if after is not None:
            assert after[0].start // most - anchor.start // most >= 2, "a block is left out between two anchors"


def test_lengths_and_places_have_the_papers_distributions() -> None:
    torch.manual_seed(3)
    options, longest, n = Options(anchors=1, positives=1, min_span=100), 1100, 4000
    drawn = [spans.draw(100_000, longest, options)[0] for _ in range(n)]
    for lengths, (a, b) in (
        ([anchor.end - anchor.start for anchor, _ in drawn], (4, 2)),
        ([span.end - span.start for _, (span,) in drawn], (2, 4)),
    ):
        shares = (np.array(lengths) - 100 + 0.5) / 1000
        assert stats.kstest(shares, stats.beta(a, b).cdf).pvalue > 0.001
    inner = [(anchor, span) for anchor, (span,) in drawn if 2000 < anchor.start < 97_000]
    places = [(s.start - (a.start - (s.end - s.start))) / (a.end - a.start + s.end - s.start) for a, s in inner]
    assert stats.kstest(places, "uniform").pvalue > 0.001


def test_blocks_are_uniform_among_those_that_do_not_touch() -> None:
    torch.manual_seed(4)
    options = Options(anchors=2, positives=1, min_span=10)
    counts = Counter(tuple(a.start // 10 for a, _ in spans.draw(60, 10, options)) for _ in range(2000))
    pairs = [(i, j) for i in range(6) for j in range(i + 2, 6)]
    assert set(counts) == set(pairs)
    assert stats.chisquare([counts[pair] for pair in pairs]).pvalue > 0.001


def test_adjacent_positives_touch_their_anchor() -> None:
    torch.manual_seed(5)
    options = Options(anchors=1, positives=4, min_span=3, sampling="adjacent")
    sides = Counter()
    for _ in range(200):
        for anchor, around in spans.draw(100, 20, options):
            for span in around:
                assert anchor.start in (span.start, span.end) or span.start == anchor.end
                sides[span.start == anchor.end] += 1
    assert min(sides[True], sides[False]) > 100


def test_a_training_ends_with_an_encoder_that_finds_its_documents(base: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    spec = bases.spec(
        "declutr", base, "mean", steps=4, batch_size=4, max_length=12, options={"min_span": 2, "anchors": 1}
    )
    scores = pretrain(spec, base, DOCUMENTS * 12, tmp_path / "out", seed=0)
    assert {"top_1", "masked_accuracy", "loss"} <= scores.keys() and 0 <= scores["top_1"] <= 1
    ours = encoders.load(spec.model_copy(update={"train": None}), tmp_path / "out").encode(DOCUMENTS)
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(DOCUMENTS)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_corpus_of_sentences_is_refused(base: Path, tmp_path: Path) -> None:
    spec = bases.spec("declutr", base, "mean", options={"min_span": 8})
    with refusal(JobError, "32", "2", "8"):
        pretrain(spec, base, TEXTS, tmp_path / "out", seed=0)


def test_spans_longer_than_the_network_reads_are_refused() -> None:
    spec = load_encoder("declutr-roberta-base", Registry())
    assert spec.train is not None and spec.pooling == "mean"
    options = objectives.find("declutr").Options(**spec.train.options)
    assert (options.anchors, options.positives, options.min_span, options.temperature) == (2, 2, 32, 0.05)
    assert options.problem(spec.train) is None
    assert options.problem(spec.train.model_copy(update={"max_length": 32}))
