"""Tests of which texts may name a repository of the hub."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from hypothesis import given
from hypothesis import strategies as st

from rbench.encoders import locate
from rbench.errors import ResourceError
from rbench.schema import EncoderSpec
from rbench.system import hub
from tests.refusals import refusal

PASTED = [
    "owner/model.git",
    "own--er/model",
    "owner/a..b",
    "a/b/c",
    "-owner/model",
    "owner/model-",
    "owner/" + "m" * 97,
]


def client_takes(text: str) -> bool:
    try:
        validate_repo_id(text)
    except HFValidationError:
        return False
    return True


@given(st.one_of(st.text("ab_.-/", max_size=12), st.sampled_from(PASTED), st.integers(90, 100).map(lambda n: "m" * n)))
def test_a_name_is_an_id_if_the_client_takes_it(text: str) -> None:
    assert hub.is_repo_id(text) == client_takes(text)


@pytest.mark.parametrize("text", PASTED)
def test_what_cannot_be_an_id_is_refused_and_does_not_count_as_a_hub_that_is_away(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "_unreachable", {})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(ResourceError):
        hub.ask(text, "dataset", None)
    with pytest.raises(ResourceError):
        hub.commit(text, "0" * 40)
    assert hub._unreachable == {}


@pytest.mark.parametrize("base", PASTED)
def test_an_encoder_of_such_a_name_is_refused_with_the_name(base: str) -> None:
    with pytest.raises(ResourceError):
        locate(EncoderSpec(name="mine", base=base, pooling="mean"), ())


def test_a_hub_that_did_not_answer_is_asked_again_after_a_minute_and_no_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    from requests.exceptions import JSONDecodeError

    answers: list[Any] = [JSONDecodeError("Expecting value", "<html>log in</html>", 0), SimpleNamespace(sha="a" * 40)]

    def info(*arguments: Any, **more: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer from StopIteration(0)
        return answer

    now = 1000.0
    monkeypatch.setattr(hub, "_unreachable", {})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", info)
    monkeypatch.setattr("rbench.system.hub.time.monotonic", lambda: now)
    for _ in range(2):
        with refusal(hub.HubUnreachable, "JSON"):
            hub.ask("someone/toy", "model", None)
    assert len(answers) == 1, "it was not asked twice"
    now += 61
    assert hub.ask("someone/toy", "model", None) == "a" * 40
