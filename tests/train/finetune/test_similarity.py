"""The strategies for STS tasks: the monotone fit of `cosine`, and the training of `regression`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.isotonic import IsotonicRegression

from rbench.encoders.scorer import EncoderScorer
from rbench.errors import JobError
from rbench.schema import TaskSpec, Training
from rbench.tasks import Example, TaskData
from rbench.train.finetune import cosine, regression
from tests import tiny
from tests.refusals import refusal

TRAINING = Training(epochs=3, batch_size=8, learning_rate=5e-3, max_length=24)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_bert(tmp_path_factory.mktemp("bert"))


def sts(scale: tuple[float, float] | None = (1, 5), **golds: float | None) -> TaskData:
    """Pairs whose score grows with the number of sentences that have a good word. `golds` replaces single scores."""
    rng = np.random.default_rng(0)
    splits: dict[str, list[Example]] = {}
    for split, n in {"train": 160, "validation": 60, "test": 20}.items():
        splits[split] = []
        for i in range(n):
            first, second = int(rng.integers(2)), int(rng.integers(2))
            texts = (tiny.sentence(rng, first), tiny.sentence(rng, second))
            gold = 1.5 + 1.5 * (first + second) + float(rng.uniform(-0.3, 0.3))
            splits[split].append(Example(f"{split}:{i}", texts, golds.get(f"{split}{i}", gold)))
    spec = TaskSpec(name="pairs", kind="sts", columns=("a", "b"), metric="spearman", scale=scale)
    return TaskData(spec, "memory", "f", {}, {}, {}, splits)


def made(strategy: Any, bert: Path, data: TaskData) -> tuple[EncoderScorer, dict[str, float]]:
    method = {cosine: cosine.CosineStrategy(), regression: regression.RegressionStrategy()}[strategy]
    victim, scores = method.run(strategy.Options(), tiny.context(tiny.encoder(bert), data, TRAINING))
    assert isinstance(victim, EncoderScorer) and not victim.training
    return victim, scores


def test_knots_are_centres_of_the_steps_of_an_isotonic_fit() -> None:
    rng = np.random.default_rng(3)
    cosines = rng.uniform(0.5, 0.9, 200).round(2)  # with ties
    gold = np.clip(8 * (cosines - 0.5) + 1 + rng.normal(0, 0.8, 200), 1, 5)
    x, y = cosine.fit_knots(cosines, gold, (1.0, 5.0))
    assert (np.diff(x) > 0).all() and (np.diff(y) >= 0).all()
    assert (x[0], y[0], x[-1], y[-1]) == (-1.0, 1.0, 1.0, 5.0)
    fit = IsotonicRegression(y_min=1, y_max=5).fit(cosines, gold).predict(cosines)
    for level in np.unique(fit.round(9)):
        on_step = cosines[fit.round(9) == level]
        assert np.interp(on_step.mean(), x, y) == pytest.approx(level, abs=1e-6)


def test_encoder_with_narrow_cosines_gets_the_same_scores() -> None:
    rng = np.random.default_rng(4)
    gold = rng.uniform(0, 5, 100)
    wide = gold / 5 + rng.normal(0, 0.05, 100).clip(-0.1, 0.1)
    narrow = 0.9 + 0.05 * wide
    scores = [np.interp(x, *cosine.fit_knots(x, gold, (0.0, 5.0))) for x in (wide.clip(-1, 1), narrow)]
    inner = (scores[0] > 0.5) & (scores[0] < 4.5)
    np.testing.assert_allclose(scores[0][inner], scores[1][inner], atol=0.15)
    assert np.ptp(scores[1]) > 4.5


def test_cosine_fits_on_validation_and_trains_nothing(bert: Path) -> None:
    data = sts()
    victim, scores = made(cosine, bert, data)
    before = tiny.encoder(bert)
    for (name, one), other in zip(victim.encoder.state_dict().items(), before.state_dict().values(), strict=True):
        assert (one == other).all(), name
    pairs, gold = zip(*[(e.texts, e.label) for e in data.split("validation")], strict=True)
    vectors = [before.encode([pair[side] for pair in pairs]).astype(float) for side in (0, 1)]
    cosines = [u @ v / np.linalg.norm(u) / np.linalg.norm(v) for u, v in zip(*vectors, strict=True)]
    found = victim.score_pairs(pairs)
    assert ((found >= 1) & (found <= 5)).all()
    assert scores["validation_spearman"] == pytest.approx(spearmanr(found, gold).statistic, abs=0.01)
    assert scores["validation_error"] == pytest.approx(np.abs(found - np.array(gold)).mean(), abs=1e-4)
    order = np.argsort(cosines)
    assert (np.diff(found[order]) > -1e-4).all()


def test_regression_learns_the_scores(bert: Path) -> None:
    data = sts()
    victim, scores = made(regression, bert, data)
    assert scores["validation_spearman"] > 0.6 and scores["best_epoch"] in (1, 2, 3)
    pairs, gold = zip(*[(e.texts, e.label) for e in data.split("validation")], strict=True)
    found = victim.score_pairs(pairs)
    assert scores["validation_spearman"] == pytest.approx(spearmanr(found, gold).statistic, abs=1e-3)
    assert scores["validation_error"] == pytest.approx(np.abs(found - np.array(gold)).mean(), abs=1e-6)


@pytest.mark.parametrize("strategy", [cosine, regression])
def test_refuses_gold_scores_outside_the_scale(strategy: Any, bert: Path) -> None:
    with refusal(JobError, "validation:3", "0.5", "5"):
        made(strategy, bert, sts(validation3=0.5))
    with pytest.raises(JobError, match="None"):
        made(strategy, bert, sts(validation3=None))


def test_refuses_an_encoder_that_tells_nothing_apart() -> None:
    with pytest.raises(JobError):
        cosine.fit_knots(np.ones(20), np.arange(20.0), (0, 19))


def test_both_serve_similarity() -> None:
    assert cosine.CosineStrategy.serves == regression.RegressionStrategy.serves == ("similarity",)
