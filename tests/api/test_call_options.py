"""What a call from Python says: keyword arguments as options, mappings and Suites as suites."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from rbench import config
from rbench.api.call_options import as_plain_data, load_suite, resolve_options
from rbench.config.registry import Registry
from rbench.encoders import inference
from rbench.errors import PlanError, SuiteError
from rbench.plan.prepare import Options

SUITE = {"name": "s", "encoders": ["mini-bert"], "tasks": ["mini-sentiment"], "attacks": ["pwws"]}


def test_settings_are_options() -> None:
    made = resolve_options(
        None, {"out": "RUN", "data": "D", "include": ["A", Path("B")], "only": "attack/", "workers": 3}
    )
    assert made.out == Path("RUN") and made.data == (Path("D"),) and made.include == (Path("A"), Path("B"))
    assert made.only == ("attack/",) and made.workers == 3
    assert resolve_options(made, {"limit": 5}) == Options(**{**vars(made), "limit": 5})


def test_search_paths_of_the_environment_come_after_those_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBENCH_MODELS", "E:F")
    assert resolve_options(None, {"models": "M"}).models == (Path("M"), Path("E"), Path("F"))
    assert resolve_options(None, {}).models == (Path("E"), Path("F"))
    assert resolve_options(Options(), {}).models == (), "options that are given are complete"


def test_options_that_are_given_are_read_as_settings_are() -> None:
    made = resolve_options(Options(data="D", only="attack/", out="RUN"), {})  # type: ignore[arg-type]
    assert made == Options(data=(Path("D"),), only=("attack/",), out=Path("RUN"))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"lmit": 5}, "limit"),
        ({"limit": 0}, "limit"),
        ({"device": "gpu"}, "gpu"),
        ({"backend": "onnx"}, "onednn"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(PlanError) as caught:
        resolve_options(None, settings)
    assert named in str(caught.value)


def test_the_backends_are_those_of_inference() -> None:
    assert ("auto", *inference.BACKENDS) == get_args(get_type_hints(Options)["backend"])


def test_a_mapping_is_a_suite() -> None:
    made = load_suite({**SUITE, "seeds": (np.int64(3),), "num_examples": np.int64(7)}, Options())
    assert made.suite.seeds == (3,) and made.suite.num_examples == 7 and made.suite.name == "s"
    unnamed = {key: value for key, value in SUITE.items() if key != "name"}
    assert load_suite(unnamed, Options()).suite.name == "suite"
    assert load_suite(unnamed, Options(out=Path("x/my-run"))).suite.name == "my-run"


def test_a_mapping_has_profiles_and_overrides() -> None:
    data = {**SUITE, "profiles": {"small": {"num_examples": 2}}}
    made = load_suite(data, Options(profile="small", overrides=("seeds=4",)))
    assert made.suite.num_examples == 2 and made.suite.seeds == (4,)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"attacks": ["pwsw"]}, "pwws"),
        ({"encoder": "x"}, "encoders"),
    ],
)
def test_errors_name_what_is_wrong(change: dict[str, Any], named: str) -> None:
    with pytest.raises(SuiteError) as error:
        load_suite({**SUITE, **change}, Options())
    assert str(error.value).startswith("the suite given: ") and named in str(error.value)


def test_plain_data_stay_as_they_are() -> None:
    data = {"a": [1, 2.5, "x", None, True], "b": {"c": Path("p")}, "d": {3, 1}, "e": range(2)}
    assert as_plain_data(data) == {"a": [1, 2.5, "x", None, True], "b": {"c": "p"}, "d": [1, 3], "e": [0, 1]}


@pytest.mark.parametrize("name", ["quickstart", "gate", "table1"])
def test_a_suite_object_is_the_suite_that_it_was_loaded_from(name: str) -> None:
    first = config.load(name, registry=Registry())
    again = load_suite(first.suite, Options())
    assert again.suite == first.suite
    assert again.encoders == first.encoders and again.attacks == first.attacks and again.strategies == first.strategies


def test_a_suite_object_keeps_options_of_encoders() -> None:
    first = load_suite({**SUITE, "encoders": [{"simcse-mini": {"temperature": 0.1}}]}, Options())
    assert load_suite(first.suite, Options()).suite == first.suite
