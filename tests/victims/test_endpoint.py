from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rbench.errors import AnswerError, JobError, ModelChangedError, ResourceError, SuiteError
from rbench.plan.lineage import portable_victim
from rbench.schema import TaskSpec
from rbench.schema.victims import Endpoint, VictimSpec
from rbench.system.asking import parse_retry_after
from rbench.victims.answers import AnswerClient
from rbench.victims.endpoint import open_endpoint
from tests.refusals import refusal
from tests.victims.server import Reply, Serve

TASK = TaskSpec(name="films", kind="single", columns=("text",), labels=("negative", "positive"))
PAIR = TaskSpec(name="pairs", kind="nli", columns=("premise", "hypothesis"), labels=("no", "yes"))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbench.system.asking.FIRST_WAIT", 0.01)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def opened(url: str, task: TaskSpec = TASK, labels: dict[str, str] | None = None, **options: Any) -> AnswerClient:
    endpoint = {"url": url, "timeout": 5.0, **options}
    return open_endpoint(VictimSpec(name="shipped", version="1", endpoint=endpoint, labels=labels or {}), task)


def scored(text: str) -> list[dict[str, Any]]:
    """What Hugging Face's pipelines answer to a text: all labels, the most probable first."""
    p = len(text) / 100
    return sorted(
        [{"label": "POSITIVE", "score": p}, {"label": "NEGATIVE", "score": 1 - p}], key=lambda one: -one["score"]
    )


def pipeline(body: Any) -> Any:
    return [scored(text) for text in body["inputs"]]


TEXTS = [("a" * n,) for n in (5, 70, 20, 1, 99, 50, 30)]
EXPECTED = [[1 - len(text) / 100, len(text) / 100] for (text,) in TEXTS]


@pytest.mark.parametrize(("batch_size", "concurrency"), [(1, 4), (3, 2), (16, 1)])
def test_each_text_gets_its_answer_whatever_the_batches(serve: Serve, batch_size: int, concurrency: int) -> None:
    server = serve(pipeline)
    answers = opened(server.url, batch_size=batch_size, concurrency=concurrency)
    assert answers(TEXTS).tolist() == pytest.approx([pytest.approx(row) for row in EXPECTED])
    sizes = sorted(len(body["inputs"]) for body in server.bodies)
    asked = [text for body in server.bodies for text in body["inputs"]]
    assert sorted(text for text in asked if (text,) in TEXTS) == sorted(text for (text,) in TEXTS)
    assert max(sizes) <= batch_size and len(asked) == len(TEXTS) + (len(sizes) if batch_size > 3 else 0)
    assert server.most <= concurrency


def test_requests_are_under_way_at_once_up_to_the_concurrency(serve: Serve) -> None:
    gate = threading.Barrier(4, timeout=30)

    def together(body: Any) -> Any:
        gate.wait()  # answers only if four ask at once
        return pipeline(body)

    server = serve(together)
    opened(server.url, concurrency=4)(TEXTS[:4])
    assert server.most == 4


def test_other_servers_bodies_and_answers_fit_too(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    server = serve(
        lambda body: {"predictions": [[1.0, 0.0] if one["p"] < one["h"] else [0.25, 0.75] for one in body["instances"]]}
    )
    answers = opened(
        server.url + "?key=${TOKEN}",
        PAIR,
        {"0": "yes", "1": "no"},
        body={"instances": [{"p": "{premise}", "h": "{hypothesis}"}]},
        path="predictions",
        headers={"Authorization": "Bearer ${TOKEN}"},
        batch_size=2,
    )
    assert answers([("a", "b"), ("b", "a"), ("é\ud800", "a")]).tolist() == [[0, 1], [0.75, 0.25], [0.75, 0.25]]
    assert server.bodies[-1] == {"instances": [{"p": "é\ud800", "h": "a"}]}
    assert server.headers[0]["Authorization"] == "Bearer s3cret"
    assert server.headers[0]["Content-Type"] == "application/json"


@pytest.mark.parametrize("place", ["url", "header"])
def test_a_missing_variable_is_an_error_before_anything_is_sent(place: str, serve: Serve) -> None:
    server = serve(pipeline)
    url = server.url + ("?${NO_SUCH}" if place == "url" else "")
    with pytest.raises(ResourceError) as caught:
        opened(url, headers={"X": "${NO_SUCH}"} if place == "header" else {})
    assert "NO_SUCH" in str(caught.value) and not server.bodies


def test_a_body_that_does_not_fit_and_a_url_that_is_none_are_refused() -> None:
    with pytest.raises(SuiteError) as caught:
        opened("http://localhost", body={"inputs": "text"})
    assert "shipped" in str(caught.value)
    with pytest.raises(ValidationError):
        opened("localhost:80")


def failing(times: int, reply: Reply) -> Callable[[Any], Any]:
    """Answers to each text as `reply` says, the first few times."""
    seen: Counter[str] = Counter()

    def answer(body: Any) -> Any:
        (text,) = body["inputs"]
        seen[text] += 1
        return reply if seen[text] <= times else pipeline(body)

    return answer


@pytest.mark.parametrize("status", [429, 503])
def test_what_may_pass_is_asked_again(status: int, serve: Serve) -> None:
    server = serve(failing(2, Reply("busy", status)))
    assert opened(server.url, retries=2)(TEXTS[:2]).tolist() == [pytest.approx(row) for row in EXPECTED[:2]]
    assert len(server.bodies) == 6


def test_no_retries_means_one_request(serve: Serve) -> None:
    server = serve(failing(1, Reply("busy", 429)))
    with pytest.raises(JobError) as caught:
        opened(server.url, retries=0)(TEXTS[:1])
    assert "429" in str(caught.value) and "busy" in str(caught.value)
    assert len(server.bodies) == 1


def test_the_pause_that_a_server_asks_for_is_kept(serve: Serve) -> None:
    server = serve(failing(1, Reply("busy", 429, {"Retry-After": "0.4"})))
    start = time.monotonic()
    opened(server.url)(TEXTS[:1])
    assert time.monotonic() - start >= 0.4


def test_a_pause_that_is_too_long_ends_the_job(serve: Serve) -> None:
    server = serve(failing(9, Reply("busy", 429, {"Retry-After": "86400"})))
    with pytest.raises(JobError):
        opened(server.url)(TEXTS[:1])
    assert len(server.bodies) == 1


def test_pauses_are_seconds_or_dates() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=30)
    assert parse_retry_after("1.5") == 1.5 and parse_retry_after("-3") == 0.0 and parse_retry_after(None) is None
    assert 25 < (parse_retry_after(format_datetime(soon, usegmt=True)) or 0) <= 30
    assert parse_retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0


@given(st.text())
def test_any_other_pause_is_ignored(header: str) -> None:
    found = parse_retry_after(header)
    assert found is None or found >= 0


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        (Reply({"error": "too long"}, 413), "too long"),
        (Reply("no", 403), "403"),
        (Reply("oops", 500), "500"),
        (Reply(b"<html>sorry"), "<html>sorry"),
        (Reply([scored("a")[:1]]), "NEGATIVE"),
        (Reply(b'[[{"label": "POSITIVE", "score": NaN}, {"label": "NEGATIVE", "score": 1.0}]]'), "nan"),
        (Reply([[0.5, 0.5]]), "negative, positive"),
        (Reply({"error": "none"}), "none"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_text_that_a_server_chokes_on_has_no_answer_and_all_others_do(reply: Reply, named: str, serve: Serve) -> None:
    server = serve(lambda body: reply if "bad" in body["inputs"] else pipeline(body))
    rows = opened(server.url, retries=0, batch_size=3).each([("good",), ("bad",), ("fine",)])
    assert [isinstance(row, AnswerError) for row in rows] == [False, True, False]
    assert "'bad'" in str(rows[1]) and named in str(rows[1])


@pytest.mark.parametrize(
    ("reply", "named"),
    [(Reply("no", 401), "401"), (Reply("oops", 500), "500"), (Reply("", 307, {"Location": "http://else/"}), "//else/")],
)
def test_a_server_that_answers_no_text_ends_the_job(reply: Reply, named: str, serve: Serve) -> None:
    server = serve(lambda body: reply)
    answers = opened(server.url, retries=0, concurrency=3)
    with pytest.raises(JobError) as caught:
        answers(TEXTS)
    assert server.url in str(caught.value) and named in str(caught.value)
    with pytest.raises(ResourceError):
        answers.check()


def test_secrets_are_in_no_message(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    server = serve(lambda body: Reply("no", 401))
    for url in (server.url, "http://127.0.0.1:9"):
        with pytest.raises(JobError) as caught:
            opened(url + "/${TOKEN}", headers={"Authorization": "${TOKEN}"}, retries=0)(TEXTS[:1])
        assert "s3cret" not in str(caught.value) and "${TOKEN}" in str(caught.value)


def test_no_server_is_told_with_the_reason() -> None:
    with pytest.raises(JobError) as caught:
        opened("http://127.0.0.1:9", retries=1)(TEXTS[:3])
    assert "127.0.0.1:9" in str(caught.value) and "refused" in str(caught.value)


@pytest.mark.parametrize("drip", [False, True])
def test_a_server_that_hangs_ends_the_job_soon(drip: bool, serve: Serve) -> None:
    server = serve(lambda body: Reply(b" " * 100, drip=0.1) if drip else time.sleep(9))
    start = time.monotonic()
    with refusal(JobError, "timeout", "0.2"):
        opened(server.url, timeout=0.2, retries=1, concurrency=4)(TEXTS[:4])
    assert time.monotonic() - start < 9


def test_one_text_on_which_a_server_hangs_has_no_answer(serve: Serve) -> None:
    server = serve(lambda body: time.sleep(9) if "bad" in body["inputs"] else pipeline(body))
    rows = opened(server.url, timeout=2.5, retries=0, concurrency=2).each([("good",), ("bad",)])
    assert isinstance(rows[1], AnswerError) and "2.5 s" in str(rows[1])
    assert not isinstance(rows[0], AnswerError)


def test_a_failure_does_not_wait_for_requests_that_are_asked_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(lambda body: Reply("no", 301, {"Location": "x"}) if "bad" in body["inputs"] else Reply("busy", 503))
    monkeypatch.setattr("rbench.system.asking.FIRST_WAIT", 30.0)
    start = time.monotonic()
    with pytest.raises(JobError):
        opened(server.url, concurrency=2)([("good",), ("bad",)])
    assert time.monotonic() - start < 15


def test_the_rate_limits_the_requests_a_second(serve: Serve) -> None:
    server = serve(pipeline)
    start = time.monotonic()
    opened(server.url, rate=20, concurrency=4)(TEXTS[:5])
    assert time.monotonic() - start >= 0.2


def test_answers_that_change_are_refused(serve: Serve) -> None:
    count = iter(range(10**6))
    server = serve(lambda body: [{"POSITIVE": (n := next(count)) % 10 / 10, "NEGATIVE": 1 - n % 10 / 10}])
    with pytest.raises(ModelChangedError):
        opened(server.url).check()


def test_a_tolerance_is_the_users_to_choose(serve: Serve) -> None:
    count = iter(range(10**6))

    def noisy(body: Any) -> Any:
        p = 0.5 + 0.004 * (next(count) % 2)
        return [{"positive": p, "negative": 1 - p}]

    server = serve(noisy)
    spec = {"name": "noisy", "version": "1", "endpoint": {"url": server.url}}
    open_endpoint(VictimSpec.model_validate({**spec, "tolerance": 0.01}), TASK).check()
    with pytest.raises(ModelChangedError):
        open_endpoint(VictimSpec.model_validate(spec), TASK).check()


@pytest.mark.parametrize(
    "reply",
    [
        lambda headers: Reply({"seen": headers["Authorization"]}, 400),
        lambda headers: Reply({"seen": headers["Authorization"]}, 500),
        lambda headers: Reply({"seen": headers["Authorization"]}),
        lambda headers: Reply(("x" * 188 + headers["Authorization"]).encode("latin1"), 400),
        lambda headers: Reply("", 302, {"Location": f"http://elsewhere/?token={quote(headers['X-Key'])}"}),
    ],
    ids=["400", "500", "answer", "cut", "redirect"],
)
def test_a_server_that_repeats_a_secret_does_not_spread_it(
    reply: Callable[[dict[str, str]], Reply], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message shows the first 200 characters of an answer: the secret is among these, and once cut in two."""
    token = 'a "b"/+&?'
    monkeypatch.setenv("TOKEN", token)
    server = serve(lambda body: reply(server.headers[-1]))
    answers = opened(
        server.url + "?k=${TOKEN}", headers={"Authorization": "Bearer ${TOKEN}", "X-Key": "${TOKEN}"}, retries=0
    )
    with pytest.raises((JobError, ResourceError)) as caught:
        answers.check()
    said = str(caught.value)
    for form in (token, quote(token), json.dumps(token)[1:-1], token[:4]):
        assert form not in said
    assert "\n" not in said


def test_a_password_in_a_url_and_a_header_that_is_written_out_are_secrets_too(serve: Serve) -> None:
    server = serve(lambda body: Reply([server.headers[-1][name] for name in ("X-Api-Key", "Authorization")], 400))
    url = server.url.replace("//", "//me:geheim@")
    with pytest.raises(ResourceError) as caught:
        opened(url, headers={"X-Api-Key": "k-12345"}, retries=0).check()
    said = str(caught.value)
    assert "geheim" not in said and "k-12345" not in said and b64encode(b"me:geheim").decode() not in said
    spec = VictimSpec(name="v", version="1", endpoint=Endpoint(url=url + "?token=abc", headers={"A": "b"}))
    assert portable_victim(spec).endpoint == Endpoint(url=server.url.replace("//", "//***@") + "?token=***")


@pytest.mark.parametrize("token", ["s3cret\n", "sécret", "s3\rcret"])
def test_a_header_that_cannot_be_sent_is_refused_before_anything_is(
    token: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", token)
    server = serve(pipeline)
    with pytest.raises(ResourceError) as caught:
        opened(server.url, headers={"Authorization": "Bearer ${TOKEN}"})
    assert not server.bodies and "Authorization" in str(caught.value) and token.strip() not in str(caught.value)


def test_the_time_limit_is_for_headers_too(trickle: Callable[[bytes], str]) -> None:
    start = time.monotonic()
    with pytest.raises(JobError):
        opened(trickle(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 1000), timeout=0.3, retries=0)(TEXTS[:1])
    with pytest.raises(JobError):
        opened(trickle(b"HTTP/1.1 100 Continue\r\n\r\n" * 100), timeout=0.3, retries=0)(TEXTS[:1])
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000 + b"]" * 200_000,
        b"[" * 900 + b"]" * 900,
        b"[[" + b"9" * 400 + b", 0.5]]",
        b'[[{"label": "\\ud800", "score": 0.5}, {"label": "b", "score": 0.5}]]',
        b" " * (17 << 20),
        b"\xff\xfe\x00",
    ],
    ids=lambda value: str(value)[:12],
)
def test_an_absurd_answer_is_one_line(content: bytes, serve: Serve) -> None:
    server = serve(lambda body: Reply(content))
    with pytest.raises(ResourceError) as caught:
        opened(server.url, retries=0).check()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000
    str(caught.value).encode()


@pytest.mark.parametrize("checked", [False, True])
def test_a_request_that_another_model_answers_is_noticed_by_the_text_that_goes_with_it(
    serve: Serve, checked: bool
) -> None:
    """Servers that differ, or a model that is exchanged between two requests."""
    other: list[bool] = []

    def answer(body: Any) -> Any:
        return [scored("a" * (100 - len(text)) if other else text) for text in body["inputs"]]

    answers = opened(serve(answer).url, batch_size=len(TEXTS) + 1)
    if checked:
        answers.check()
    assert answers(TEXTS).tolist() == pytest.approx([pytest.approx(row) for row in EXPECTED])
    other.append(True)
    with pytest.raises(ModelChangedError):
        answers([("b" * 33,)])
