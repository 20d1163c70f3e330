"""Compares rows in batches of equal length with each row alone, on every back-end of this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rbench.encoders.inference import Network, TokenRow, backends, network
from rbench.errors import JobError
from tests.encoders.inference.networks import BERT, pooler_output, use_threads
from tests.refusals import refusal

CPU = torch.device("cpu")


def row(length: int, seed: int) -> TokenRow:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 50, (length,), generator=generator).tolist()
    return tuple(ids), tuple(int(i > length // 2) for i in range(length))


def alone(given: TokenRow) -> Tensor:
    ids, types = given
    with torch.no_grad():
        return pooler_output(BERT, input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types]))[0]


ROWS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5)), min_size=1, max_size=30)


@settings(max_examples=6, deadline=None)
@given(wanted=ROWS)
def bits(nets: tuple[Network, Network], counts: tuple[int, int], wanted: list[tuple[int, int]]) -> None:
    rows = [row(*one) for one in wanted]
    with use_threads(counts[0]):
        together = nets[0](rows)
    with use_threads(counts[1]):
        for one, answer in zip(rows, together, strict=True):
            (single,) = nets[1]([one])
            assert torch.equal(answer, single)
            torch.testing.assert_close(answer, alone(one), atol=1e-5, rtol=1e-4)


# OpenVINO compiles anew for each shape of a batch, which takes seconds.
COUNTS = [
    pytest.param(one, counts, marks=() if counts == (3, 4) else pytest.mark.nightly)
    for one in backends.usable(CPU)
    for counts in [(1, 1), (2, 1), (3, 4)][one == "openvino" :]
]


@pytest.mark.parametrize(("backend", "counts"), COUNTS)
def test_a_rows_answer_is_the_same_bits_in_any_company_on_any_number_of_threads(
    backend: str, counts: tuple[int, int]
) -> None:
    nets = []
    for count in counts:
        with use_threads(count):  # OpenVINO is told when a network is compiled
            nets.append(Network(BERT, pooler_output, backend=backend))
    bits((nets[0], nets[1]), counts)


def test_batches_are_of_one_length_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Network(BERT, pooler_output, backend="torch")
    net.max_rows, net.max_tokens = 8, 40
    shapes = []
    call = net._call

    def noted(inputs: dict[str, Tensor]) -> Tensor:
        shapes.append(tuple(inputs["input_ids"].shape))
        assert bool(inputs["attention_mask"].all())
        return call(inputs)

    monkeypatch.setattr(net, "_call", noted)
    rows = [row(length, i) for i, length in enumerate([3] * 21 + [50] + [7] * 6)]
    assert len(net(rows)) == len(rows) and net.rows_read == len(rows)
    assert sum(n for n, _ in shapes) == len(rows)
    assert all(n in network.BATCH_SIZES and n <= 8 and (n == 1 or n * width <= 40) for n, width in shapes)


def test_padding_where_a_device_wants_it_changes_nothing_but_rounding() -> None:
    net = Network(BERT, pooler_output, backend="torch")
    net.step = 8
    rows = [row(length, length) for length in (1, 5, 8, 9, 17)]
    for one, answer in zip(rows, net(rows), strict=True):
        torch.testing.assert_close(answer, alone(one), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("step", [1, 8])
def test_a_text_of_no_tokens_is_read_as_one_of_padding(step: int) -> None:
    net = Network(BERT, pooler_output, backend="torch", pad=(3, 0))
    net.step = step
    nothing, padding, other = net([((), ()), ((3,), (0,)), row(4, 1)])
    torch.testing.assert_close(nothing, padding)
    torch.testing.assert_close(other, alone(row(4, 1)), atol=1e-5, rtol=1e-4)


def test_an_answer_of_another_length_is_refused() -> None:
    net = Network(BERT, lambda model, **inputs: pooler_output(model, **inputs)[:1], backend="torch", name="victim odd")
    with refusal(JobError, "victim odd", "(1, 32)"):
        net([row(4, 0), row(4, 1)])


def full_at(most: int, call: Callable[[dict[str, Tensor]], Tensor]) -> Callable[[dict[str, Tensor]], Tensor]:
    def limited(inputs: dict[str, Tensor]) -> Tensor:
        if len(inputs["input_ids"]) > most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return call(inputs)

    return limited


def test_where_memory_is_full_batches_are_halved_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    net = Network(BERT, pooler_output, backend="torch", name="victim large")
    rows = [row(6, seed) for seed in range(40)]
    expected = net(rows)
    monkeypatch.setattr(net, "_call", full_at(3, net._call))
    with caplog.at_level(logging.WARNING, "rbench"):
        assert all(torch.equal(a, b) for a, b in zip(net(rows), expected, strict=True))
        net(rows)
    assert [r.message for r in caplog.records] == ["victim large: GPU memory is full; continuing with smaller batches"]
    assert net.max_rows <= 3
    monkeypatch.setattr(net, "_call", full_at(0, net._call))
    with refusal(JobError, "6"):
        net(rows)
