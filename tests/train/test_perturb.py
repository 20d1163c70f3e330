"""Perturbations: balls, steps, the token table."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from rbench.train import perturb
from rbench.train.options import Norm, Scaling, SentenceLevelOptions

NORMS: list[Norm] = ["l1", "l2", "linf"]
ORDER = {"l1": 1, "l2": 2, "linf": np.inf}
rows = arrays(np.float64, (3, 7), elements=st.floats(-100, 100))
radii = st.floats(1e-6, 50)


@settings(deadline=None)
@given(rows, radii, st.sampled_from(NORMS))
def test_a_projection_is_in_the_ball_and_leaves_the_ball_alone(x: np.ndarray, radius: float, norm: Norm) -> None:
    inside = perturb.project(torch.tensor(x), radius, norm).numpy()
    for before, after in zip(x, inside, strict=True):
        assert np.linalg.norm(after, ORDER[norm]) <= radius * (1 + 1e-12)
        if np.linalg.norm(before, ORDER[norm]) <= radius:
            np.testing.assert_allclose(after, before, rtol=1e-12)
        elif radius > 1e-3:
            assert np.linalg.norm(after, ORDER[norm]) == pytest.approx(radius)


@settings(deadline=None)
@given(rows, rows, radii, st.sampled_from(NORMS))
def test_no_point_of_the_ball_is_nearer(x: np.ndarray, other: np.ndarray, radius: float, norm: Norm) -> None:
    nearest = perturb.project(torch.tensor(x), radius, norm).numpy()
    for row, near, point in zip(x, nearest, other, strict=True):
        within = point * min(1.0, radius / max(np.linalg.norm(point, ORDER[norm]), 1e-300))
        assert np.linalg.norm(row - near) <= np.linalg.norm(row - within) + 1e-9


@pytest.mark.parametrize("norm", NORMS)
def test_a_unit_has_norm_one_and_nothing_stays_nothing(norm: Norm) -> None:
    x = torch.tensor([[3.0, -4.0], [0.0, 0.0]], dtype=torch.float64)
    units = perturb.unit(x, norm).numpy()
    np.testing.assert_allclose(units[0], [3 / (d := np.linalg.norm([3, 4], ORDER[norm])), -4 / d])
    np.testing.assert_array_equal(units[1], [0, 0])


def words_mask() -> Tensor:
    """Two sentences of 6 tokens: [CLS] and [SEP] are no words, the second is shorter."""
    return torch.tensor([[0, 1, 1, 1, 1, 0], [0, 1, 1, 0, 0, 0]], dtype=torch.float64).unsqueeze(-1)


def bowl(seed: int) -> Callable[[Tensor], Tensor]:
    """A smooth loss of all numbers of a perturbation, those outside words included."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(2, 6, 4, generator=generator, dtype=torch.float64)
    return lambda delta: (a * delta).sum() + (a * delta).sin().sum()


def options(**changes: object) -> SentenceLevelOptions:
    return SentenceLevelOptions.model_validate({"epsilon": 0.03, "alpha": 0.01, "beta": 0.01, "sigma": 0.02, **changes})


EMBEDDINGS = torch.zeros(2, 6, 4, dtype=torch.float64)


def largest(x: Tensor, norm: Norm) -> float:
    return max(float(np.linalg.norm(sentence.flatten().numpy(), ORDER[norm])) for sentence in x)


@pytest.mark.parametrize("delta", ["matrix", "vector"])
@pytest.mark.parametrize("tracks", ["joint", "separate"])
@pytest.mark.parametrize("norm", NORMS)
def test_delta_stays_in_its_ball_is_zero_off_the_words_and_raises_the_loss(norm: Norm, tracks: str, delta: str) -> None:
    words = words_mask()
    for seed in range(5):
        torch.manual_seed(seed)
        loss = bowl(seed)
        found = perturb.ascend(options(norm=norm, tracks=tracks, delta=delta), EMBEDDINGS, words, loss)
        assert found.abs().sum() > 0 and not found.requires_grad
        assert torch.equal(found * (1 - words), torch.zeros_like(found))
        one = found[:, 1] if delta == "vector" else found
        assert largest(one, norm) <= 0.03 * (1 + 1e-9)
        assert loss(found) > loss(torch.zeros_like(found))


def slow_algorithm_1(
    opts: SentenceLevelOptions, start: Tensor, words: Tensor, gradient: Callable[[Tensor], Tensor]
) -> Tensor:
    """Lines of Algorithm 1 for delta alone, sentence by sentence, L-infinity."""
    delta = start.clone()
    pgd, fgsm = start.clone(), start.clone()
    for t in range(1, max(opts.K, opts.T) + 1):
        g = gradient(delta)
        for b in range(len(delta)):
            if t <= opts.K:
                step = delta[b] + opts.alpha * g[b] / g[b].abs().max()
                pgd[b] = step.clamp(-opts.epsilon, opts.epsilon)
            if t <= opts.T:
                step = delta[b] + opts.beta * torch.sign(g[b])
                fgsm[b] = step.clamp(-opts.epsilon, opts.epsilon)
        delta = opts.rho * pgd + (1 - opts.rho) * fgsm
    return opts.rho * pgd + (1 - opts.rho) * fgsm


def slow_equations_5_to_7(
    opts: SentenceLevelOptions, start: Tensor, words: Tensor, gradient: Callable[[Tensor], Tensor]
) -> Tensor:
    pgd, fgsm = start.clone(), start.clone()
    for _ in range(opts.K):
        g = gradient(pgd)
        sizes = g.abs().amax(dim=(1, 2), keepdim=True)
        pgd = (pgd + opts.alpha * g / sizes).clamp(-opts.epsilon, opts.epsilon)
    for _ in range(opts.T):
        fgsm = (fgsm + opts.beta * gradient(fgsm).sign()).clamp(-opts.epsilon, opts.epsilon)
    return opts.rho * pgd + (1 - opts.rho) * fgsm


@pytest.mark.parametrize(("K", "T"), [(3, 3), (1, 4), (4, 1), (0, 2)])
@pytest.mark.parametrize("tracks", ["joint", "separate"])
def test_delta_is_what_the_paper_prints(tracks: str, K: int, T: int) -> None:
    words = words_mask()
    opts = options(K=K, T=T, rho=0.3, tracks=tracks)
    loss = bowl(7)

    def gradient(delta: Tensor) -> Tensor:
        leaf = delta.clone().requires_grad_()
        return torch.autograd.grad(loss(leaf), leaf)[0] * words

    torch.manual_seed(1)
    start = torch.empty(2, 6, 4, dtype=torch.float64).uniform_(-opts.sigma, opts.sigma) / math.sqrt(4) * words
    torch.manual_seed(1)
    found = perturb.ascend(opts, EMBEDDINGS, words, loss)
    slow = slow_algorithm_1 if tracks == "joint" else slow_equations_5_to_7
    torch.testing.assert_close(found, slow(opts, start, words, gradient) * words)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("projected", ["steps", "mixture"])
def test_norms_over_tokens_and_the_place_of_the_projection(norm: Norm, projected: str) -> None:
    """One step, token by token: the two points are projected, or their mixture is."""
    words = words_mask()
    opts = options(norm=norm, over="token", projected=projected, start="normal", K=1, T=1, rho=0.3, alpha=0.5, beta=0.2)
    loss = bowl(3)
    torch.manual_seed(2)
    start = torch.randn(2, 6, 4, dtype=torch.float64) * opts.sigma * words
    leaf = start.clone().requires_grad_()
    g = torch.autograd.grad(loss(leaf), leaf)[0]
    torch.manual_seed(2)
    found = perturb.ascend(opts, EMBEDDINGS, words, loss)
    for b, length in ((0, 4), (1, 2)):
        for i in range(1, length + 1):
            pgd = start[b, i] + 0.5 * g[b, i] / float(np.linalg.norm(g[b, i].numpy(), ORDER[norm]))
            fgsm = start[b, i] + 0.2 * g[b, i].sign()
            ball = [perturb.project(x, 0.03, norm) for x in (pgd, fgsm, 0.3 * pgd + 0.7 * fgsm)]
            expected = ball[2] if projected == "mixture" else 0.3 * ball[0] + 0.7 * ball[1]
            torch.testing.assert_close(found[b, i], expected)
    assert float((found[0, 1] - found[0, 2]).abs().max()) > 1e-4, "tokens have balls of their own"


def test_the_number_of_gradients_is_that_of_steps() -> None:
    calls = 0

    def loss(delta: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return delta.square().sum()

    perturb.ascend(options(K=3, T=5), EMBEDDINGS, words_mask(), loss)
    assert calls == 5


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scaling", ["perturbation", "gradient", "stepped"])
@pytest.mark.parametrize("epsilon", [0.04, None])
def test_eta_follows_equations_2_to_4(norm: Norm, scaling: Scaling, epsilon: float | None) -> None:
    torch.manual_seed(0)
    words = words_mask()
    eta0 = torch.randn(2, 6, 4, dtype=torch.float64) * 0.02
    g = torch.randn(2, 6, 4, dtype=torch.float64)
    level = perturb.TokenPerturbation(eta0, words, gamma=0.05, epsilon=epsilon, norm=norm, scaling=scaling)
    before = level.eta.clone()
    level.step(g)
    for b, length in ((0, 4), (1, 2)):
        lengths = [float(np.linalg.norm(g[b, i].numpy(), ORDER[norm])) for i in range(6)]
        stepped = torch.stack([before[b, i] + 0.05 * g[b, i] / lengths[i] for i in range(6)])
        source = {"perturbation": before[b], "gradient": g[b], "stepped": stepped}[scaling]
        sizes = [float(np.linalg.norm(source[i].numpy(), ORDER[norm])) for i in range(1, length + 1)]
        for i in range(1, length + 1):
            expected = sizes[i - 1] / max(sizes) * stepped[i]
            if epsilon is not None:
                expected = perturb.project(expected, epsilon, norm)
                assert np.linalg.norm(level.eta[b, i].numpy(), ORDER[norm]) <= epsilon * (1 + 1e-9)
            torch.testing.assert_close(level.eta[b, i], expected)
    assert torch.equal(level.eta * (1 - words), torch.zeros_like(eta0))


def test_a_sentence_whose_tokens_are_all_unperturbed_takes_the_whole_step() -> None:
    level = perturb.TokenPerturbation(
        torch.zeros(2, 6, 4), words_mask().float(), gamma=0.5, epsilon=1, norm="l2", scaling="perturbation"
    )
    level.step(torch.ones(2, 6, 4))
    torch.testing.assert_close(level.eta[0, 1], torch.full((4,), 0.25))


def test_eta_moves_with_delta_and_sees_the_same_point() -> None:
    words = words_mask()
    seen: list[Tensor] = []

    def loss(delta: Tensor) -> Tensor:
        seen.append(delta.detach().clone())
        return delta.sum()

    eta0 = torch.full((2, 6, 4), 0.01, dtype=torch.float64)
    level = perturb.TokenPerturbation(eta0, words, gamma=0.002, epsilon=0.1, norm="linf", scaling="perturbation")
    perturb.ascend(options(sigma=0, K=2, T=2, alpha=0.001, beta=0.001), EMBEDDINGS, words, loss, level)
    torch.testing.assert_close(seen[0], 0.01 * words.expand(2, 6, 4))
    torch.testing.assert_close(seen[1], (0.01 + 0.002 + 0.001) * words.expand(2, 6, 4))
    torch.testing.assert_close(level.eta, (0.01 + 2 * 0.002) * words.expand(2, 6, 4))


def test_fgm_is_a_step_of_the_given_length() -> None:
    g = torch.randn(3, 5, 4, dtype=torch.float64)
    r = perturb.fgm(g, 0.7)
    for b in range(3):
        torch.testing.assert_close(r[b], 0.7 * g[b] / g[b].square().sum().sqrt())


# ------------------------------------------------------------------------------------------------- the token table


def table() -> perturb.TokenTable:
    torch.manual_seed(3)
    return perturb.TokenTable(20, 4, 0.1)


def test_the_table_starts_as_printed() -> None:
    V = perturb.TokenTable(2000, 16, 0.1).V
    assert V.abs().max() <= 0.1 / 4 and V.abs().max() > 0.099 / 4
    assert abs(float(V.mean())) < 1e-3


def test_only_words_seen_change_and_they_become_the_mean_of_their_places() -> None:
    kept = table()
    before = kept.V.clone()
    ids = torch.tensor([[1, 7, 8, 7, 9, 2], [1, 7, 9, 2, 0, 0]])
    eta = torch.randn(2, 6, 4)
    kept.store(ids, words_mask(), eta)
    torch.testing.assert_close(kept.V[7], (eta[0, 1] + eta[0, 3] + eta[1, 1]) / 3)
    torch.testing.assert_close(kept.V[8], eta[0, 2])
    torch.testing.assert_close(kept.V[9], (eta[0, 4] + eta[1, 2]) / 2)
    others = [i for i in range(20) if i not in (7, 8, 9)]
    assert torch.equal(kept.V[others], before[others])
    assert torch.equal(kept.look_up(ids, words_mask())[0, 2], kept.V[8])


def test_a_table_of_sums_adds_what_a_batch_made_and_looks_it_up_with_length_one() -> None:
    kept = perturb.TokenTable(20, 4, 0.1, "sum")
    before = kept.V.clone()
    ids, words, eta = batch_of_two()
    found = kept.look_up(ids, words)
    places = [(b, i) for b, length in ((0, 4), (1, 2)) for i in range(1, length + 1)]
    length = math.sqrt(sum(float(before[ids[b, i]] @ before[ids[b, i]]) for b, i in places))
    for b, i in places:
        torch.testing.assert_close(found[b, i], before[ids[b, i]] / length)
    assert torch.equal(found * (1 - words), torch.zeros_like(found) * words)
    kept.store(ids, words, eta)
    torch.testing.assert_close(kept.V[7], before[7] + eta[0, 1] + eta[0, 3] + eta[1, 1])
    torch.testing.assert_close(kept.V[9], before[9] + eta[0, 4] + eta[1, 2])
    assert torch.equal(kept.V[1:3], before[1:3]), "special tokens are no words"


def test_the_order_of_the_batch_is_no_matter_to_the_last_bit() -> None:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(3, 8, (40, 12), generator=generator)
    words = torch.ones(40, 12, 1)
    # Numbers of very different sizes: a sum of floats would depend on the order.
    eta = torch.randn(40, 12, 4, generator=generator) * 10.0 ** torch.randint(-4, 3, (40, 12, 1), generator=generator)
    first = table()
    first.store(ids, words, eta)
    naive = []
    for _ in range(20):
        order = torch.randperm(40, generator=generator)
        again = table()
        again.store(ids[order], words, eta[order])
        assert torch.equal(first.V, again.V)
        naive.append(torch.zeros(20, 4).index_add(0, ids[order].flatten(), eta[order].flatten(0, 1)))
    assert any(not torch.equal(naive[0], other) for other in naive), "this data would not tell"


def _half(rank: int, port: int, folder: str) -> None:
    """One of two processes: stores its half of a batch."""
    store = torch.distributed.TCPStore("127.0.0.1", port, 2, rank == 0)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    ids, words, eta = batch_of_two()
    mine = slice(rank, rank + 1)
    kept = table()
    kept.store(ids[mine], words[mine], eta[mine])
    torch.save(kept.V, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def batch_of_two() -> tuple[Tensor, Tensor, Tensor]:
    eta = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(4))
    return torch.tensor([[1, 7, 8, 7, 9, 2], [1, 7, 9, 2, 0, 0]]), words_mask(), eta


def test_processes_add_what_each_has_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two halves of a batch, one after the other: each process is given the sums of the other."""
    ids, words, eta = batch_of_two()
    sent: list[Tensor] = []

    def half(row: int, all_reduce: Callable[[Tensor], object]) -> Tensor:
        monkeypatch.setattr(perturb.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(perturb.distributed, "all_reduce", all_reduce)
        kept = table()
        kept.store(ids[row : row + 1], words[row : row + 1], eta[row : row + 1])
        monkeypatch.undo()
        return kept.V

    for row in (0, 1):
        half(row, lambda sums: sent.append(sums.clone()))
    alone = table()
    alone.store(ids, words, eta)
    for row in (0, 1):
        assert torch.equal(half(row, lambda sums, row=row: sums.add_(sent[1 - row])), alone.V)


@pytest.mark.nightly  # two processes that import PyTorch
def test_several_processes_keep_one_table(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_half, args=(port, str(tmp_path)), nprocs=2)
    alone = table()
    alone.store(*batch_of_two())
    for rank in (0, 1):
        assert torch.equal(torch.load(tmp_path / f"{rank}.pt", weights_only=True), alone.V)


def test_a_checkpoint_holds_the_table() -> None:
    assert list(table().state_dict()) == ["V"]
