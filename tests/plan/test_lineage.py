"""What an encoder takes from its bases; `test_planner` has the chains of bases."""

from __future__ import annotations

from rbench.plan.lineage import effective
from rbench.spec import EncoderSpec
from tests.plan.test_planner import ENCODERS


def test_an_encoder_has_no_more_layers_than_any_of_its_bases_keeps() -> None:
    over = {name: EncoderSpec(name=name, base="lm-2", layers=n) for name, n in (("all", None), ("one", 1), ("six", 6))}
    assert {name: effective(name, ENCODERS | over).layers for name in over} == {"all": 2, "one": 1, "six": 2}


def test_code_of_the_hub_runs_where_the_weights_that_are_loaded_allow_it() -> None:
    code = EncoderSpec(name="code", base="org/code", trust_remote_code=True)
    over = ENCODERS | {"code": code, "over": EncoderSpec(name="over", base="code", pooling="mean")}
    assert effective("over", over).trust_remote_code and not effective("lm-2", over).trust_remote_code
