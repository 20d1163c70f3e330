"""ConSERT's views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rbench.train import contrastive_losses
from tests.train.made import batch_of, heads_seen, made


@pytest.mark.parametrize("view", ["shuffle", "token-cutoff", "feature-cutoff", "dropout"])
def test_views_change_words_only(view: Any, base: Path) -> None:
    from rbench.train.objectives import consert

    built = made("consert", base)
    batch = batch_of(built)
    X = built.model.embed(batch)
    torch.manual_seed(1)
    options = consert.Options(token_cutoff=0.4, feature_cutoff=0.4, dropout_view=0.4)
    changed = consert.augment(options, view, X, batch.words)
    outside = batch.words.squeeze(-1) == 0
    assert torch.equal(changed[outside], X[outside]) and not torch.equal(changed, X)
    if view == "shuffle":
        for i in range(4):
            before, after = (sorted(map(tuple, x[i].tolist())) for x in (X, changed))
            assert before == after
        return
    gone = (changed == 0)[~outside]
    assert torch.equal(changed[changed != 0], X[changed != 0])
    assert 0.15 < float(gone.double().mean()) < 0.65
    if view == "token-cutoff":
        assert set(gone.double().mean(1).tolist()) == {0.0, 1.0}
    if view == "feature-cutoff":
        first = (changed[0] == 0)[batch.words[0].squeeze(-1) > 0]
        assert torch.equal(first, first[:1].expand_as(first))


def test_an_adversarial_view_is_a_step_up(base: Path) -> None:
    built = made("consert", base, views=("adversarial", "none"), epsilon=0.05)
    losses, seen = heads_seen(built, batch_of(built))
    assert losses["loss"].item() > float(contrastive_losses.nt_xent(seen[1], seen[0], 0.1))
