"""Tests back-ends: all give the same answers, and the fastest is chosen and remembered."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rbench.encoders.inference import backends
from rbench.errors import ResourceError, StoreError
from tests import forked
from tests.encoders.inference.networks import BERT, pooler_output, use_threads
from tests.refusals import refusal

CPU = torch.device("cpu")
INPUTS = {"input_ids": torch.arange(5, 25).reshape(4, 5), "attention_mask": torch.ones(4, 5, dtype=torch.long)}


@pytest.fixture(autouse=True)
def forgetful(measuring: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(backends, "_found", {})
    yield
    backends.remember_in(None)


@pytest.mark.parametrize("name", backends.usable(CPU))
def test_answers_are_those_of_the_network(name: str) -> None:
    taken, call = backends.choose_backend(BERT, pooler_output, device=CPU, wanted=name)
    with torch.no_grad():
        expected = pooler_output(BERT, **INPUTS)
    assert taken == name
    torch.testing.assert_close(call(INPUTS), expected, atol=1e-5, rtol=1e-4)


def test_a_twin_shares_weights_and_nothing_that_may_be_changed() -> None:
    twin = backends.make_steady(BERT)
    assert [id(weight) for weight in twin.parameters()] == [id(weight) for weight in BERT.parameters()]
    pairs = list(zip(BERT.modules(), twin.modules(), strict=True))
    assert len(pairs) > 10
    for own, other in pairs:
        assert own is not other
        for name, value in vars(other).items():
            assert not isinstance(value, dict | set) or value is not vars(own).get(name), name
    calls: list[str] = []
    twin.register_forward_hook(lambda *_: calls.append("twin"))
    with torch.no_grad():
        pooler_output(BERT, **INPUTS)
        assert calls == []
        pooler_output(twin, **INPUTS)
    assert calls == ["twin"]


@pytest.mark.nightly  # a process that imports and converts for seconds
def test_openvino_tells_nobody_what_it_converts(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    code = (
        "import torch; from rbench.encoders.inference import backends\n"
        "from tests.encoders.inference.networks import BERT, pooler_output\n"
        "backends.choose_backend(BERT, pooler_output, device=torch.device('cpu'), wanted='openvino')\n"
        "from openvino.tools.ovc import telemetry_utils\n"
        "print(type(telemetry_utils.tm.Telemetry()).__module__)"
    )
    environment = {**os.environ, "HOME": str(tmp_path)}
    told = forked.run(code, environment)
    assert told.returncode == 0, told.stderr
    assert told.stdout.split()[-1] == "openvino.tools.ovc.telemetry_stub"
    assert not (tmp_path / "intel").exists(), "where it keeps who told it what"


def test_an_unknown_back_end_is_refused() -> None:
    with pytest.raises(ResourceError, match="tpu"):
        backends.choose_backend(BERT, pooler_output, device=CPU, wanted="tpu")


def test_one_that_is_not_installed_comes_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends.importlib.util, "find_spec", lambda name: None)
    assert "openvino" not in backends.usable(CPU)
    with refusal(ResourceError, "pip install openvino"):
        backends.choose_backend(BERT, pooler_output, device=CPU, wanted="openvino")


def test_weights_are_shared_not_copied() -> None:
    twin = backends._replace_linear(backends._OneDnnLinear, BERT)
    theirs = {tensor.data_ptr() for tensor in twin.parameters()}
    assert {tensor.data_ptr() for tensor in BERT.parameters()} == theirs
    assert type(BERT.encoder.layer[0].intermediate.dense) is nn.Linear  # and the original is as it was
    assert type(BERT.encoder.layer[0].intermediate.intermediate_act_fn) is not nn.Identity


@pytest.mark.parametrize("linear", [backends._SteadyLinear, backends._OneDnnLinear])
@pytest.mark.parametrize("sizes", [(384, 3), (64, 96)])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_a_rows_product_is_the_same_bits_among_any_number(
    linear: type[backends._SteadyLinear], sizes: tuple[int, int], count: int
) -> None:
    torch.manual_seed(0)
    layer, x = linear(nn.Linear(*sizes)), torch.randn(30, sizes[0])
    with use_threads(1), torch.inference_mode():
        together = layer(x)
    with use_threads(count), torch.inference_mode():
        for n in (1, 2, 3, 4, 5, 7, 8, 9, 16, 29):
            assert torch.equal(layer(x[:n]), together[:n])
        assert layer(x[0]).shape == (sizes[1],) and layer(x[None, :1]).shape == (1, 1, sizes[1])
        assert layer(x[:0]).shape == (0, sizes[1])


def paced(monkeypatch: pytest.MonkeyPatch, opening: float = 0.0, **seconds: float) -> None:
    """Let a batch take these seconds, on a clock of its own, and the opening of OpenVINO `opening`.

    A back-end that takes no time answers wrongly.
    """
    made, now = backends._build, [0.0]

    def sluggish(name: str, *rest: Any) -> Any:
        call = made("torch", *rest)
        now[0] += opening if name == "openvino" else 0.0

        def timed(inputs: dict[str, Tensor]) -> Tensor:
            now[0] += seconds[name]
            return call(inputs) + (1.0 if not seconds[name] else 0.0)

        return timed

    monkeypatch.setattr(backends, "usable", lambda device: ["torch", "onednn", "openvino"])
    monkeypatch.setattr(backends, "_build", sluggish)
    monkeypatch.setattr(backends.time, "process_time", lambda: now[0])


def test_auto_takes_the_fastest_of_those_that_are_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paced(monkeypatch, torch=0.02, onednn=0.0, openvino=0.002)
    file = tmp_path / "cache" / "backends.json"
    backends.remember_in(file)
    assert backends.choose_backend(BERT, pooler_output, device=CPU)[0] == "openvino"
    assert list(json.loads(file.read_text()).values()) == ["openvino"]


@pytest.mark.parametrize(("opening", "taken"), [(0.0, "openvino"), (8.5, "openvino"), (8.6, "onednn")])
def test_auto_takes_openvino_where_a_cell_wins_back_what_it_takes_to_open(
    opening: float, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced(monkeypatch, torch=0.05, onednn=0.03, openvino=0.02, opening=opening)
    assert backends.choose_backend(BERT, pooler_output, device=CPU)[0] == taken


@pytest.mark.parametrize("broken", ["empty", "raises"])
def test_auto_passes_over_a_back_end_that_does_not_work_on_this_processor(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = backends._build

    def fails(inputs: Any) -> Tensor:
        if broken == "raises":
            raise RuntimeError("could not create a primitive")
        return torch.empty(0, BERT.config.hidden_size)

    monkeypatch.setattr(backends, "usable", lambda device: ["torch", "onednn"])
    monkeypatch.setattr(backends, "_build", lambda name, *rest: made(name, *rest) if name == "torch" else fails)
    assert backends.choose_backend(BERT, pooler_output, device=torch.device("cpu"))[0] == "torch"


def test_what_was_found_is_not_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "backends.json"
    file.write_text(json.dumps({backends._describe_setting(BERT): "torch"}))
    backends.remember_in(file)
    monkeypatch.setattr(backends, "usable", lambda device: ["torch", "onednn"])
    monkeypatch.setattr(backends, "_sample", lambda module: pytest.fail("measured"))
    assert backends.choose_backend(BERT, pooler_output, device=CPU)[0] == "torch"


@pytest.mark.parametrize("content", ["[1]", '{"half": '])
def test_a_damaged_memory_is_made_anew(tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "usable", lambda device: ["torch", "onednn"])
    file = tmp_path / "backends.json"
    file.write_text(content)
    backends.remember_in(file)
    name, _ = backends.choose_backend(BERT, pooler_output, device=CPU)
    assert json.loads(file.read_text()) == {backends._describe_setting(BERT): name}


def test_no_link_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "usable", lambda device: ["torch", "onednn"])
    (tmp_path / "precious").write_text(json.dumps({backends._describe_setting(BERT): "openvino"}))
    before = (tmp_path / "precious").read_text()
    for name in ("backends.json", "backends.tmp"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
    backends.remember_in(tmp_path / "backends.json")
    with refusal(StoreError, "backends.json"):
        backends.choose_backend(BERT, pooler_output, device=CPU)
    assert (tmp_path / "precious").read_text() == before


def test_processes_beside_each_other_take_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file's word goes before a process's own, and threads are no reason to measure again."""
    monkeypatch.setattr(backends, "usable", lambda device: ["torch", "onednn"])
    file = tmp_path / "backends.json"
    backends.remember_in(file)
    first, _ = backends.choose_backend(BERT, pooler_output, device=CPU)
    other = next(name for name in backends.usable(CPU) if name != first)
    file.write_text(json.dumps({backends._describe_setting(BERT): other}))
    before = torch.get_num_threads()
    torch.set_num_threads(1 if before > 1 else 2)
    try:
        assert backends.choose_backend(BERT, pooler_output, device=CPU)[0] == other
    finally:
        torch.set_num_threads(before)
