"""Masks secrets: whatever rbench was given to log in with, in all that it shows or stores.

A secret is learned where it is read (`learn`). The well-known variables of the environment are looked up on each call,
because a notebook may set them at any time. Errors, the terminal, notebooks, reports, tables and the errors in records
go through `masked`.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import logging
import os
import re
import traceback
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

MASK = "***"
SHORTEST = 4
"""Characters. Shorter values are not masked: they would be found in the middle of words."""

TOKENS = (
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "COMET_API_KEY", "NEPTUNE_API_TOKEN"),
    *("CLEARML_API_SECRET_KEY", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD"),
    *("DVC_STUDIO_TOKEN", "SWANLAB_API_KEY"),
)
"""Variables of the environment whose value is a secret: the hub's token, and the keys of trackers."""
ADDRESSES = ("HF_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "MLFLOW_TRACKING_URI")
"""Variables that may hold an address with a password."""
_SENSITIVE = re.compile(r"auth|token|key|secret|passw|cookie|signature|\bsig\b|credential", re.IGNORECASE)
"""Names of headers and of parameters of addresses whose values are secrets."""

_learned: set[str] = set()


def learn(*secrets: str) -> None:
    """Mask these from now on, in each form in which a server or a library may repeat them."""
    _learned.update(secrets)
    _mask_logs()


def learn_address(url: str) -> None:
    """Mask the password and the secret parameters of an address from now on."""
    learn(*_in_address(url))


def learn_header(name: str, value: str) -> None:
    """Mask the value of a header from now on, if its name says that it is a secret."""
    if not _SENSITIVE.search(name):
        return
    credentials = value.split()[-1:]  # without the scheme: `Bearer TOKEN`
    learn(value, *credentials, *(part for one in credentials for part in _basic(one)))


def masked(text: str) -> str:
    """Return a text with each secret replaced by `***`."""
    found = _pattern(frozenset(_learned | {*_of_environment()}))
    return text if found is None else found.sub(MASK, text)


def bare(url: str) -> str:
    """Return an address without its password and the values of its secret parameters.

    >>> bare("https://me:pass@host/x?key=abc&n=1")
    'https://***@host/x?key=***&n=1'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    host = parts.netloc.rpartition("@")[2]
    pairs = [pair.partition("=") for pair in parts.query.split("&")]
    query = "&".join(
        f"{name}{equals}{MASK if _SENSITIVE.search(name) and not value.startswith('${') else value}"
        for name, equals, value in pairs
    )
    return urlunsplit(parts._replace(netloc=f"{MASK}@{host}" if host != parts.netloc else host, query=query))


class Masking(logging.Filter):
    """Masks what a library logs, also the traceback of an exception with those of its causes."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = masked(record.getMessage()), ()
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            record.exc_text = masked("".join(traceback.format_exception(record.exc_info[1])).rstrip())
            record.exc_info = None  # a handler of its own would write the exception itself
        return True


LOGGERS = (
    "huggingface_hub",
    *("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks"),
    *("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy", "httpcore2.socks"),
)
"""Loggers of libraries that log addresses and headers. huggingface_hub asks by httpx, and from version 2 by httpx2."""


@functools.cache
def _mask_logs() -> None:
    for name in LOGGERS:
        logging.getLogger(name).addFilter(Masking())


def _of_environment() -> Iterator[str]:
    for name in TOKENS:
        if value := os.environ.get(name):
            yield value
    for name in ADDRESSES:
        for value in (os.environ.get(name), os.environ.get(name.lower())):
            if value and ("@" in value or "?" in value):
                yield from _in_address(value)


def _in_address(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    user, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    found = [value for name, value in parse_qsl(parts.query) if _SENSITIVE.search(name)]
    if colon or user:  # GitHub and PyPI take a token in place of the user, without a password
        plain = unquote(password) if colon else unquote(user)
        found += [plain, base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()]
    return found


def _basic(credentials: str) -> list[str]:
    """Return the password and the pair in the credentials of `Authorization: Basic`; nothing where it is none."""
    try:
        pair = base64.b64decode(credentials, validate=True).decode()
    except ValueError:
        return []
    return [pair, pair.partition(":")[2]] if ":" in pair else []


@functools.lru_cache(maxsize=8)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    forms = {form for secret in secrets for form in _forms(secret.strip()) if len(form) >= SHORTEST}
    if not forms:
        return None
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)


def _forms(secret: str) -> Iterable[str]:
    if len(secret) < SHORTEST:
        return ()
    raw = secret.encode("utf-8", "surrogateescape")
    encoded = {base64.b64encode(raw).decode().rstrip("="), base64.urlsafe_b64encode(raw).decode().rstrip("=")}
    once = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    twice = {json.dumps(form)[1:-1] for form in once}
    spoken = {quote(raw), quote(raw, safe=""), quote_plus(raw), html.escape(secret), " ".join(secret.split())}
    return {secret, *once, *twice, *spoken, *encoded}
