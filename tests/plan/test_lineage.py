"""What an encoder takes from its bases; `test_planner` has the chains of bases."""

from __future__ import annotations

from rbench.plan.lineage import as_loaded, portable_encoder, portable_victim
from rbench.schema import EncoderSpec, VictimSpec
from rbench.schema.victims import Endpoint
from tests.plan.builders import ENCODERS


def test_an_encoder_has_no_more_layers_than_any_of_its_bases_keeps() -> None:
    over = {name: EncoderSpec(name=name, base="lm-2", layers=n) for name, n in (("all", None), ("one", 1), ("six", 6))}
    assert {name: as_loaded(name, ENCODERS | over).layers for name in over} == {"all": 2, "one": 1, "six": 2}


def test_code_of_the_hub_runs_where_the_weights_that_are_loaded_allow_it() -> None:
    code = EncoderSpec(name="code", base="org/code", trust_remote_code=True)
    over = ENCODERS | {"code": code, "over": EncoderSpec(name="over", base="code", pooling="mean")}
    assert as_loaded("over", over).trust_remote_code and not as_loaded("lm-2", over).trust_remote_code


def test_jobs_hold_no_folder_of_a_further_model_however_deep_an_option_names_it() -> None:
    def trained(where: str) -> EncoderSpec:
        options = {"teacher": f"{where}/teacher", "steps": 3, "models": {"masked": f"{where}/masked/", "hub": "org/lm"}}
        return EncoderSpec.model_validate(
            {"name": "x", "base": f"{where}/own", "train": {"objective": "mlm", "data": "c", "options": options}}
        )

    found = [portable_encoder(trained(where), {"teacher", "models"}) for where in ("/home/me", "~/data", "../there")]
    assert found[0] == found[1] == found[2] and found[0].base == "own" and found[0].train is not None
    assert found[0].train.options == {"teacher": "teacher", "steps": 3, "models": {"masked": "masked", "hub": "org/lm"}}


def test_an_option_that_names_no_model_stays_as_it_is_for_nothing_else_tells_what_is_behind_it() -> None:
    options = {"words": "/data/v1/words.txt", "separator": "/", "resources": {"masked_lm": "./lm"}, "teacher": "./lm"}
    spec = EncoderSpec.model_validate(
        {"name": "x", "base": "b", "train": {"objective": "own", "data": "c", "options": options}}
    )
    made = portable_encoder(spec, {"teacher"}).train
    assert made is not None
    assert made.options == {**options, "resources": {"masked_lm": "lm"}, "teacher": "lm"}


def test_jobs_hold_neither_the_folder_of_a_classifier_nor_what_its_server_is_told_of_who_asks() -> None:
    folders = (VictimSpec(name="v", model=where) for where in ("/home/me/own", "~/own/", "./own"))
    assert {portable_victim(one).model for one in folders} == {"own"}
    assert portable_victim(VictimSpec(name="v", model="org/own")).model == "org/own"
    endpoint = Endpoint(url="http://localhost:1/x", headers={"Authorization": "Bearer ${TOKEN}"})
    kept = portable_victim(VictimSpec(name="v", endpoint=endpoint, version="1"))
    assert kept.endpoint is not None and (kept.endpoint.url, kept.endpoint.headers) == (endpoint.url, {})
