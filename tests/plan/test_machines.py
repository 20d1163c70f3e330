"""Tests what is read as a number of GPUs, and how the parts of a time become that of a machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.errors import PlanError
from rbench.plan import machines
from rbench.plan.cost_model import Seconds, costs


@given(st.integers(1, machines.MOST), st.sampled_from(sorted(machines.PEAK)), st.sampled_from(["x", " x ", "*"]))
def test_a_number_and_a_gpu_are_read(count: int, name: str, sign: str) -> None:
    assert machines.parse(f"{count}{sign}{name.lower()}") == (count, name)


@given(st.text(max_size=12))
def test_anything_else_is_refused_with_a_remedy(text: str) -> None:
    try:
        count, name = machines.parse(text)
    except PlanError as error:
        assert "--machines" in str(error)
    else:
        assert 1 <= count <= machines.MOST and name in machines.PEAK


def test_what_is_refused_is_said() -> None:
    assert machines.parse("RTX 4090") == (1, "RTX4090")
    for text, said in (("8xB9000", "known GPUs: T4"), ("0xH100", "from 1 to"), ("8", "such as 8xH100")):
        with pytest.raises(PlanError, match=said):
            machines.parse(text)


def test_workers_share_attacks_and_cores_share_trainings() -> None:
    model = costs()
    own = machines.here(model, model.gflops * 2, cores=4, workers=3)
    time = Seconds(network=10.0, python=1.0)
    assert own.seconds(time, 1, attack=True) == pytest.approx((10 / 2 + 1) / 3)
    assert own.seconds(time, 1, attack=False) == pytest.approx((10 / 2 + 1) / 2), "the reference machine has two cores"
    assert machines.here(model, model.gflops, cores=1, workers=1).seconds(time, 1, attack=False) == 11.0


def test_a_gpu_speeds_up_networks_and_not_python() -> None:
    least, middle, most = (
        machines.gpus(costs(), 8, "H100").seconds(Seconds(100.0, 1.0), i, attack=True) for i in range(3)
    )
    assert 1.0 < least < middle < most < 20.0
    assert (middle - 1) / (least - 1) == pytest.approx(machines.SHARES[0] / machines.SHARES[1])
