"""Posts JSON: with a time limit, a rate limit, and again after failures that pass."""

from __future__ import annotations

import asyncio
import email.utils
import json
import os
import random
import socket
import threading
import time
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

import httpx
import tenacity

from rbench.masking import bare, masked
from rbench.spec.victims import Endpoint
from rbench.victims.scores import AnswerError

T = TypeVar("T")

LONGEST_WAIT = 120.0
"""Seconds. A server that asks for a longer pause (`Retry-After`) is taken as not available."""
FIRST_WAIT = 0.5
"""Seconds before the second attempt, at most; twice as long before each further one."""
MOST_BYTES = 16 << 20
"""Longest answer to one request."""
SHOWN_BYTES = 1 << 16
"""Start of an answer in which secrets are looked for before its first 200 letters are shown."""
PASSING = {408, 425, 429}
"""Status codes below 500 of failures that may pass."""
SETTINGS = (401, 403, 404, 405)
"""Status codes that mostly concern all texts alike: wrong headers, or a wrong URL."""


class Unavailable(Exception):
    """The server gave no answer, also when it was asked again. It may do so later, or for other texts."""

    def __init__(self, message: str, status: int = 0, pause: float | None = None, slow: bool = False) -> None:
        super().__init__(message)
        self.status, self.pause, self.slow = status, pause, slow


class Broken(Exception):
    """No request can succeed: the URL is wrong."""


class Poster:
    """Posts to one URL from several threads.

    Args:
        endpoint: time limit, attempts and rate.
        url: where to post, with the values of environment variables. It is not shown in messages.
        headers: sent with each request.
    """

    def __init__(self, endpoint: Endpoint, url: str, headers: dict[str, str]) -> None:
        self.endpoint, self.url = endpoint, url
        self._loop = _Loop()
        self._client = httpx.AsyncClient(
            headers={"Accept": "application/json", "Content-Type": "application/json", **headers},
            timeout=endpoint.timeout,
            limits=httpx.Limits(max_connections=endpoint.concurrency, max_keepalive_connections=endpoint.concurrency),
        )
        self._pace = _Pace(endpoint.rate)
        self._random = random.Random()  # one of its own: the global one belongs to attacks

    def post(self, body: Any, stop: threading.Event) -> Any:
        """Return the JSON of the answer. Ask again, up to `retries` times, where that may help.

        Args:
            body: JSON to send.
            stop: set where the answer is no longer wanted; then it is not asked for again.

        Raises:
            Unavailable: it could not be reached, took too long, or answered with a status of a failure, each time.
            Broken: no request can succeed.
            AnswerError: the answer is no JSON, or the status says that this request is wrong.
        """
        attempts = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.endpoint.retries + 1) | tenacity.stop_when_event_set(stop),
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, Unavailable) and _may_pass(error)),
            wait=self._wait,
            sleep=tenacity.sleep_using_event(stop),
            reraise=True,
        )
        return attempts(self.once, body)

    def once(self, body: Any) -> Any:
        """Return the JSON of the answer to a single attempt. Raises as `post` does."""
        self._pace.wait()
        try:
            response, content = self._loop.run(self._answered(json.dumps(body)))
        except (TimeoutError, httpx.TimeoutException):
            raise Unavailable(f"did not answer within {self.endpoint.timeout:g} s", slow=True) from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise Broken(f"is no URL that can be asked ({error})") from None
        except httpx.TransportError as error:
            raise Unavailable(f"cannot be reached ({_reason(error)})") from None
        except httpx.HTTPError as error:
            raise AnswerError(f"its answer cannot be read ({error})") from None
        return _json(response, content)

    async def _answered(self, body: str) -> tuple[httpx.Response, bytes]:
        """Return the answer and its content. The time limit is for all of it; httpx limits the time of each part alone.

        Raises AnswerError where it is too long, and what httpx and asyncio raise.
        """
        content = bytearray()
        async with asyncio.timeout(self.endpoint.timeout):
            async with self._client.stream("POST", self.url, content=body) as response:
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > MOST_BYTES:
                        raise AnswerError(f"answered more than {MOST_BYTES >> 20} MiB")
        return response, bytes(content)

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        pause = error.pause if isinstance(error, Unavailable) else None
        longest = min(FIRST_WAIT * 2 ** (state.attempt_number - 1), LONGEST_WAIT)
        return self._random.uniform(longest / 2, longest) if pause is None else pause


class _Loop:
    """An event loop in a thread of its own, which ends with this object. Only there can a request be given up whole:
    while names are looked up, headers trickle in or content does.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="rbench requests", daemon=True).start()
        weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns, or raise what it raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class _Pace:
    """Lets at most `rate` requests a second begin."""

    def __init__(self, rate: float | None) -> None:
        self._gap = 0.0 if rate is None else 1 / rate
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when a request may begin."""
        if not self._gap:
            return
        with self._lock:
            at = max(self._next, time.monotonic())
            self._next = at + self._gap
        time.sleep(max(0.0, at - time.monotonic()))


def _may_pass(error: Unavailable) -> bool:
    return error.status not in SETTINGS and (error.pause is None or error.pause <= LONGEST_WAIT)


def _reason(error: BaseException) -> str:
    """Return what stopped a connection: asyncio's innermost error names it, and the outer ones do not."""
    inner = error
    while deeper := inner.__cause__ or inner.__context__:
        inner = deeper
    if isinstance(inner, OSError) and inner.errno:
        return str(inner.strerror if isinstance(inner, socket.gaierror) else os.strerror(inner.errno))
    return str(error) or type(error).__name__


def _json(response: httpx.Response, content: bytes) -> Any:
    start = masked(content[:SHOWN_BYTES].decode("utf-8", "replace"))  # before it is cut: half a secret is one too
    status, said = response.status_code, f" ({cut})" if (cut := " ".join(start[:200].split())) else ""
    if status in PASSING or status in SETTINGS or status >= 500:
        raise Unavailable(f"answered with status {status}{said}", status, pause(response.headers.get("Retry-After")))
    if response.is_redirect:
        to = bare(response.headers.get("Location", "nowhere"))
        raise Broken(f"sends requests on to {to[:200]}; write that as `url`, if you trust it")
    if not response.is_success:
        raise AnswerError(f"it answered with status {status}{said}")
    try:
        return json.loads(content)
    except ValueError:
        raise AnswerError(f"its answer is not JSON{said}") from None
    except RecursionError:
        raise AnswerError("its answer is nested too deeply") from None


def pause(header: str | None) -> float | None:
    """Return the seconds that `Retry-After` asks to wait, given as seconds or as a date; None where it says nothing."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
