from __future__ import annotations

import base64
import json
import logging
import traceback
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from urllib.parse import quote, quote_plus

import pytest

from rbench import cli, masking
from rbench.cli import worker
from rbench.errors import JobError
from rbench.masking import bare, learn, learn_address, learn_header, masked
from rbench.system.console import harmless

SECRET = 'hf_"Geh/eim+ä&1'


@pytest.fixture(autouse=True)
def nothing_learned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(masking, "_learned", set())
    yield


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        SECRET.upper(),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        quote_plus(SECRET),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps(json.dumps({"error": SECRET})),
        repr({"a": SECRET}),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
def test_a_secret_is_masked_in_each_form_in_which_it_may_come_back(form: str) -> None:
    assert masked(f"<{form}>") == f"<{form}>"
    learn(SECRET)
    left = masked(f"bad header: <{form}>")
    assert masking.MASK in left and "eim" not in left.casefold() and left.startswith("bad header: <")


def test_errors_and_everything_that_is_shown_are_masked() -> None:
    learn("s3cret")
    error = JobError("it said s3cret", 3)
    assert str(JobError("it said s3cret")) == "it said ***" and error.args == ("it said ***", 3)
    try:
        raise error
    except JobError:
        assert "s3cret" not in traceback.format_exc().replace('"it said s3cret"', "")
    assert harmless("s3cret\x1b") == "***\\x1b"


def leaking(*_: object) -> None:
    """Fail as a library may, which quotes the secret in a cause, in what was handled before, and in the error."""
    try:
        try:
            raise ValueError("first s3cret")
        except ValueError:
            raise KeyError("then s3cret")  # noqa: B904
    except KeyError as error:
        raise RuntimeError("at last s3cret") from error


def test_causes_are_masked_in_what_a_fault_writes_to_the_terminal_and_to_the_log_of_a_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    learn("s3cret")
    assert cli.app  # has all verbs, which are not imported again
    monkeypatch.setattr(cli.verbs, "app", leaking)
    monkeypatch.setattr(worker, "_line", leaking)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, worker.main()) == (1, 1)
    said = capsys.readouterr().err
    assert said.count("Traceback") == 6 and "s3cret" not in said
    for error in ("ValueError: first ***", "KeyError: 'then ***'", "RuntimeError: at last ***"):
        assert said.count(error) == 2


def test_addresses_and_headers_tell_what_is_secret_in_them() -> None:
    learn_address("https://me:p%40ss-w0rd@host/?api_key=abcdef&model=films")
    assert masked("p@ss-w0rd p%40ss-w0rd abcdef films me host") == "*** *** *** films me host"
    assert masked(base64.b64encode(b"me:p@ss-w0rd").decode()) == masking.MASK
    learn_header("Authorization", "Basic " + base64.b64encode(b"you:geheim").decode())
    learn_header("Accept", "application/json")
    learn_header("X-Api-Key", "k-12345")
    assert masked("geheim k-12345 application/json") == "*** *** application/json"
    assert bare("https://me:pass@host:1/a?x=1&token=t#f") == "https://***@host:1/a?x=1&token=***#f"
    assert bare("http://host/${NAME}?key=${KEY}") == "http://host/${NAME}?key=${KEY}"
    assert bare("http://[host") == masking.MASK


def test_short_values_are_not_masked_and_no_secret_changes_nothing() -> None:
    learn("", "eu", " ")
    assert masked("Europe") == "Europe"


def test_the_hubs_token_trackers_keys_and_proxies_passwords_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdef")
    monkeypatch.setenv("WANDB_API_KEY", "w4ndb-key")
    monkeypatch.setenv("https_proxy", "http://me:pr0xy-pass@proxy:3128")
    assert masked("hf_abcdef w4ndb-key me:pr0xy-pass@proxy:3128") == "*** *** me:***@proxy:3128"
    monkeypatch.delenv("HF_TOKEN")
    assert masked("hf_abcdef") == "hf_abcdef"


def test_a_library_logs_an_exception_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    learn("s3cret")
    try:
        leaking()
    except RuntimeError:
        logging.getLogger("huggingface_hub").exception("it failed")
    for error in ("ValueError: first ***", "KeyError: 'then ***'", "RuntimeError: at last ***"):
        assert error in caplog.text
    assert "s3cret" not in caplog.text


CLIENTS = [name for name in ("httpx", "httpx2") if find_spec(name)]
"""Libraries that ask servers: rbench's own, and that of the hub's client, which was httpx before version 2."""


@pytest.mark.parametrize("library", CLIENTS)
def test_libraries_log_addresses_without_secrets(library: str, caplog: pytest.LogCaptureFixture) -> None:
    client = import_module(library)
    learn("s3cret")
    with caplog.at_level(logging.DEBUG, library):
        transport = client.MockTransport(lambda request: client.Response(200))
        client.Client(transport=transport).get("http://host/?q=s3cret")
    assert "http://host/?q=***" in caplog.text and "s3cret" not in caplog.text
