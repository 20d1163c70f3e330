"""Post requests to a server: several at once, each with a time limit and a rate limit, and again after failures that
pass. Nothing of an answer is trusted: its size is bounded, and no redirect is followed.

Classifiers (`rbench.victims.endpoint`) and encoders (`rbench.encoders.remote`) behind HTTP are asked in this way.
"""

from __future__ import annotations

import asyncio
import codecs
import email.utils
import itertools
import json
import os
import random
import re
import socket
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, ClassVar, TypeVar

import httpx
import tenacity
from pydantic_core import from_json

from rbench import masking
from rbench.errors import AnswerError, JobError, ResourceError
from rbench.schema.common import ServerSettings

T = TypeVar("T")
P = TypeVar("P")

LONGEST_WAIT = 120.0
"""Seconds. A server that asks for a longer pause (`Retry-After`) is taken as not available."""
FIRST_WAIT = 0.5
"""Seconds before the second attempt, at most; twice as long before each further one."""
MOST_BYTES = 16 << 20
"""Longest answer to one request, where the caller says nothing else."""
SHOWN_BYTES = 1 << 16
"""Start of an answer in which secrets are looked for before its first 200 letters are shown."""
PASSING_STATUSES = {408, 425, 429}
"""Status codes below 500 of failures that may pass."""
SETTINGS_STATUSES = (401, 403, 404, 405)
"""Status codes that mostly concern all texts alike: wrong headers, or a wrong URL."""

VARIABLE = re.compile(r"\$\{(\w+)\}")


def connect(
    served: ServerSettings, who: str, more: Mapping[str, str] | None = None, most_bytes: int = MOST_BYTES
) -> HttpPoster:
    """Return what posts to a server, with the values of environment variables in its URL and headers, which are masked
    from now on. Nothing is sent yet.

    Args:
        who: names whom the server is asked for, in messages: `victim NAME`.
        more: further headers, written like those of `served`.
        most_bytes: longest answer to one request.

    Raises:
        ResourceError: an environment variable is not set, or a header has a character that no header may have.
    """
    written = {**served.headers, **(more or {})}
    headers = {name: _expand_variables(value, f"header {name}", who) for name, value in written.items()}
    for name, value in headers.items():
        masking.learn_header(name, value)
        if not (value.isascii() and value.isprintable()):
            raise ResourceError(
                f"{who}: header {name} has a character that no header may have, such as the end of a line or a letter "
                f"beyond ASCII; look at what {written[name]!r} stands for"
            )
    url = _expand_variables(served.url, "the URL", who)
    masking.learn_address(url)
    return HttpPoster(served, url, headers, most_bytes)


def _expand_variables(value: str, where: str, who: str) -> str:
    missing = [name for name in VARIABLE.findall(value) if not os.environ.get(name)]
    if missing:
        raise ResourceError(
            f"{who}: {where} needs the environment variable {missing[0]}, which is not set; `export {missing[0]}=...`"
        )
    masking.learn(*(os.environ[name] for name in VARIABLE.findall(value)))
    return VARIABLE.sub(lambda variable: os.environ[variable[1]], value)


class ServerUnavailable(Exception):
    """The server gave no answer, also when it was asked again. It may do so later, or for other texts."""

    def __init__(self, message: str, status: int = 0, pause: float | None = None, slow: bool = False) -> None:
        super().__init__(message)
        self.status, self.pause, self.slow = status, pause, slow
        self.may_pass = status not in SETTINGS_STATUSES and (pause is None or pause <= LONGEST_WAIT)


class RequestImpossible(Exception):
    """No request can succeed: the URL is wrong."""


class HttpPoster:
    """Posts to one URL from several threads.

    Args:
        endpoint: time limit, attempts and rate.
        url: where to post, with the values of environment variables. It is not shown in messages.
        headers: sent with each request.
        most_bytes: longest answer to one request.
    """

    def __init__(
        self, endpoint: ServerSettings, url: str, headers: dict[str, str], most_bytes: int = MOST_BYTES
    ) -> None:
        self.endpoint, self.url, self.most_bytes = endpoint, url, most_bytes
        self._loop = _LoopThread()
        self._client = httpx.AsyncClient(
            headers={"Accept": "application/json", "Content-Type": "application/json", **headers},
            timeout=endpoint.timeout,
            limits=httpx.Limits(max_connections=endpoint.concurrency, max_keepalive_connections=endpoint.concurrency),
        )
        self._pace = _RequestPace(endpoint.rate)
        self._random = random.Random()  # one of its own: the global one belongs to attacks

    def ask(self, body: Any, harmless: Any, stop: threading.Event, *, who: str, kept: str) -> Any:
        """Return the JSON of the answer, and tell a server that is down from one that refuses the texts of `body`.

        Args:
            harmless: JSON with a text that a working server does not refuse.
            who: begins messages: `victim NAME: URL`.
            kept: says what is kept of earlier answers.

        Raises:
            JobError: the server answers no text now, or no request can succeed; names the remedy.
            AnswerError: the server answers `harmless` and not `body`, or as `post` raises it.
        """
        if stop.is_set():
            raise JobError(f"{who} was no longer asked")
        try:
            return self.post(body, stop)
        except ServerUnavailable as error:
            # 429 is about the pace of all requests, so it does not blame these texts even if `harmless` is answered.
            if error.status == 429 or not self.answers(harmless):
                raise JobError(
                    f"{who} {error}. {_remedy(error, self.endpoint)} {kept}; run the same command again to go on."
                ) from None
            raise AnswerError(f"it {error}, though it answers other texts") from None
        except RequestImpossible as error:
            raise JobError(f"{who} {error}") from None

    def answers(self, body: Any) -> bool:
        """Return whether a single attempt has an answer."""
        try:
            self.once(body)
        except (ServerUnavailable, RequestImpossible, AnswerError):
            return False
        return True

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
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, ServerUnavailable) and error.may_pass),
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
            raise ServerUnavailable(f"did not answer within {self.endpoint.timeout:g} s", slow=True) from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise RequestImpossible(f"is no URL that can be asked ({error})") from None
        except httpx.TransportError as error:
            raise ServerUnavailable(f"cannot be reached ({_innermost_reason(error)})") from None
        except httpx.HTTPError as error:
            raise AnswerError(f"its answer cannot be read ({error})") from None
        return _parse_answer(response, content)

    async def _answered(self, body: str) -> tuple[httpx.Response, bytes]:
        """Return the answer and its content. The time limit is for all of it; httpx limits the time of each part alone.

        Raises AnswerError where it is too long, and what httpx and asyncio raise.
        """
        content = bytearray()
        async with asyncio.timeout(self.endpoint.timeout):
            async with self._client.stream("POST", self.url, content=body) as response:
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > self.most_bytes:
                        raise AnswerError(f"answered more than {self.most_bytes >> 20} MiB")
        return response, bytes(content)

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        pause = error.pause if isinstance(error, ServerUnavailable) else None
        # Each wait is drawn anew between half and all of the longest one, which doubles with each attempt.
        longest = min(FIRST_WAIT * 2 ** (state.attempt_number - 1), LONGEST_WAIT)
        # The pause is random, so that threads that failed together do not retry together.
        return self._random.uniform(longest / 2, longest) if pause is None else pause


class CanaryTexts:
    """Texts whose answers are known, and of which one goes with each request of several texts.

    Its answer shows which model answered the request, also where a provider exchanges the model between two requests,
    or where servers behind one address differ. Requests of fewer than LEAST texts have no room for one.

    Args:
        count: how many such texts there are.
        batch_size: most texts of one request.
    """

    LEAST: ClassVar[int] = 4

    def __init__(self, count: int, batch_size: int) -> None:
        self._turn, self._count = itertools.count(), count
        self.fit = batch_size >= self.LEAST
        """Whether a request has room for one."""
        self.room = batch_size - 1 if self.fit else batch_size
        """Most other texts of one request."""

    def next(self) -> int:
        """Return the number of the one whose turn it is."""
        return next(self._turn) % self._count


class ParallelAsker:
    """Asks for parts of something in several threads, until one of them fails."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="rbench endpoint")
        self._stops: set[threading.Event] = set()

    def __call__(self, parts: Iterable[P], ask: Callable[[P, threading.Event], list[T]]) -> list[T]:
        """Return what `ask(part, stop)` returns for all parts, in their order. Where one raises, the others end as
        soon as they can: `stop` is set.
        """
        stop = threading.Event()
        self._stops.add(stop)
        futures = [self._threads.submit(ask, part, stop) for part in parts]
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
            return [result for future in futures for result in future.result()]
        finally:
            stop.set()
            self._stops.discard(stop)
            for future in futures:
                future.cancel()

    def stop(self) -> None:
        """Send no further requests for what is asked now, and do not ask again."""
        for stop in list(self._stops):
            stop.set()


class _LoopThread:
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


class _RequestPace:
    """Lets at most `rate` requests a second begin."""

    def __init__(self, rate: float | None) -> None:
        self._gap = 0.0 if rate is None else 1 / rate
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        if not self._gap:
            return
        with self._lock:
            begin = max(self._next, time.monotonic())
            self._next = begin + self._gap
        # The wait is outside the lock, so that other threads can take their turns meanwhile.
        time.sleep(max(0.0, begin - time.monotonic()))


def _innermost_reason(error: BaseException) -> str:
    """Return what stopped a connection: asyncio's innermost error names it, and the outer ones do not."""
    inner = error
    while deeper := inner.__cause__ or inner.__context__:
        inner = deeper
    if isinstance(inner, OSError) and inner.errno:
        return str(inner.strerror if isinstance(inner, socket.gaierror) else os.strerror(inner.errno))
    return str(error) or type(error).__name__


def _parse_answer(response: httpx.Response, content: bytes) -> Any:
    start = masking.masked(content[:SHOWN_BYTES].decode("utf-8", "replace"))  # before a cut: half a secret is one too
    status, shown_start = response.status_code, f" ({cut})" if (cut := " ".join(start[:200].split())) else ""
    if status in PASSING_STATUSES or status in SETTINGS_STATUSES or status >= 500:
        raise ServerUnavailable(
            f"answered with status {status}{shown_start}",
            status,
            parse_retry_after(response.headers.get("Retry-After")),
        )
    if response.is_redirect:
        target = masking.bare(response.headers.get("Location", "nowhere"))
        raise RequestImpossible(f"sends requests on to {target[:200]}; write that as `url`, if you trust it")
    if not response.is_success:
        raise AnswerError(f"it answered with status {status}{shown_start}")
    try:  # json.loads would stop at the limit of Python's stack, where finalizers of other objects fail as well
        return from_json(content.removeprefix(codecs.BOM_UTF8))
    except ValueError as error:
        deep = "recursion limit" in str(error)
        raise AnswerError(
            "its answer is nested too deeply" if deep else f"its answer is not JSON{shown_start}"
        ) from None


def parse_retry_after(header: str | None) -> float | None:
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


def _remedy(error: ServerUnavailable, endpoint: ServerSettings) -> str:
    """Say what a user can do where a server is not available."""
    if error.status == 429:
        return f"It is asked too fast: lower `rate` or `concurrency` (now {endpoint.concurrency})."
    if error.status in SETTINGS_STATUSES:
        return f"Check {'`url`' if error.status in (404, 405) else endpoint.CREDENTIALS}."
    if error.slow:
        return f"See whether it runs, raise `timeout` (now {endpoint.timeout:g} s), or lower `concurrency`."
    return "See whether it runs and the URL is right."
