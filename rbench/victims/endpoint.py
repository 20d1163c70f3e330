"""Asks a server over HTTP: several requests at once, each with a time limit and a rate limit, and again after failures
that pass.

A `Template` fills texts into the body of a request, and `rows_at` finds scores in an answer. `rbench.schema.Endpoint`
says what both mean. A `Poster` sends requests.
"""

from __future__ import annotations

import asyncio
import codecs
import email.utils
import json
import os
import random
import re
import socket
import threading
import time
import weakref
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import httpx
import tenacity
from pydantic_core import from_json

from rbench import masking
from rbench.config.registry import unknown
from rbench.errors import JobError, ResourceError, SuiteError
from rbench.schema import TaskSpec
from rbench.schema.victims import Endpoint, VictimSpec
from rbench.victims.answers import Answers, Text, probe_texts
from rbench.victims.scores import AnswerError, Reader, Row, is_row, shown

VERSION = 1

T = TypeVar("T")

LEAST_POOLED = 64
"""Examples that are attacked at once, at least."""
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

VARIABLE = re.compile(r"\$\{(\w+)\}")
HOLE = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")


def open_endpoint(spec: VictimSpec, task: TaskSpec) -> Answers:
    """Prepare to ask the server of a victim. Nothing is sent yet.

    Raises:
        SuiteError: the body does not fit the task.
        ResourceError: an environment variable of a header or the URL is not set.
    """
    assert spec.endpoint is not None
    endpoint = spec.endpoint
    try:
        template = Template(endpoint.body, task.columns, endpoint.batch_size)
    except SuiteError as error:
        raise SuiteError(f"victim {spec.name}: {error}") from None
    headers = {name: _expanded(value, f"header {name}", spec) for name, value in endpoint.headers.items()}
    for name, value in headers.items():
        masking.learn_header(name, value)
        if not (value.isascii() and value.isprintable()):
            raise ResourceError(
                f"victim {spec.name}: header {name} has a character that no header may have, such as the end of a line "
                f"or a letter beyond ASCII; look at what {endpoint.headers[name]!r} stands for"
            )
    url = _expanded(endpoint.url, "the URL", spec)
    masking.learn_address(url)
    poster = Poster(endpoint, url, headers)
    reader = Reader(task.labels, spec.labels, spec.scores, in_task_order=False)
    asked = _Asked(spec, template, reader, poster, len(task.columns))
    # Examples wait for each other after each request, so there are several for each request under way.
    pooled = max(LEAST_POOLED, 4 * endpoint.concurrency)
    return Answers(spec, task.labels, len(task.columns), asked, pooled, asked.stop)


def _expanded(value: str, where: str, spec: VictimSpec) -> str:
    missing = [name for name in VARIABLE.findall(value) if not os.environ.get(name)]
    if missing:
        raise ResourceError(
            f"victim {spec.name}: {where} needs the environment variable {missing[0]}, which is not set; "
            f"`export {missing[0]}=...`"
        )
    masking.learn(*(os.environ[name] for name in VARIABLE.findall(value)))
    return VARIABLE.sub(lambda found: os.environ[found[1]], value)


class _Asked:
    """Asks for many texts at once, in requests of `batch_size`."""

    def __init__(self, spec: VictimSpec, template: Template, reader: Reader, poster: Poster, columns: int) -> None:
        assert spec.endpoint is not None
        self.spec, self.endpoint, self.template, self.reader = spec, spec.endpoint, template, reader
        self.poster, self.columns = poster, columns
        self._stops: set[threading.Event] = set()
        self.threads = ThreadPoolExecutor(self.endpoint.concurrency, thread_name_prefix="rbench endpoint")

    def __call__(self, texts: Sequence[Text]) -> list[Row | AnswerError]:
        size = self.endpoint.batch_size
        stop = threading.Event()
        self._stops.add(stop)
        requests = [texts[start : start + size] for start in range(0, len(texts), size)]
        futures = [self.threads.submit(self._request, part, stop) for part in requests]
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
            return [row for future in futures for row in future.result()]
        finally:  # where one has failed, the others end as soon as they can
            stop.set()
            self._stops.discard(stop)
            for future in futures:
                future.cancel()

    def stop(self) -> None:
        """Send no further requests for what is asked now, and do not ask again."""
        for stop in list(self._stops):
            stop.set()

    def _request(self, texts: Sequence[Text], stop: threading.Event) -> list[Row | AnswerError]:
        if stop.is_set():
            raise JobError(f"victim {self.spec.name}: {self.endpoint.url} was no longer asked")
        try:
            answer = self.poster.post(self.template.fill(texts), stop)
            return [self.reader.tried(raw) for raw in rows_at(self.endpoint.path, answer, len(texts))]
        except Unavailable as error:
            if error.status == 429 or not self._alive():
                raise JobError(
                    f"victim {self.spec.name}: {self.endpoint.url} {error}. {_remedy(error, self.endpoint)} Examples "
                    "that are stored stay; run the same command again to go on."
                ) from None
            failed = AnswerError(f"{self.endpoint.url} {error}, though it answers other texts")
        except Broken as error:
            raise JobError(f"victim {self.spec.name}: {self.endpoint.url} {error}") from None
        except AnswerError as error:
            failed = error
        except RecursionError:
            failed = AnswerError(f"{self.endpoint.url} gave an answer that is nested too deeply")
        if len(texts) > 1:  # one of them may be to blame
            return [row for text in texts for row in self._request([text], stop)]
        return [failed]

    def _alive(self) -> bool:
        try:  # a harmless text
            self.poster.once(self.template.fill(probe_texts(self.columns)[:1]))
        except (Unavailable, Broken, AnswerError):
            return False
        return True


def _remedy(error: Unavailable, endpoint: Endpoint) -> str:
    if error.status == 429:
        return f"It is asked too fast: lower `rate` or `concurrency` (now {endpoint.concurrency})."
    if error.status in SETTINGS:
        return f"Check {'`url`' if error.status in (404, 405) else '`headers`'}."
    if error.slow:
        return f"See whether it runs, raise `timeout` (now {endpoint.timeout:g} s), or lower `concurrency`."
    return "See whether it runs and the URL is right."


class Template:
    """The body of requests.

    Args:
        body: JSON with holes: `{text}`, `{texts}`, and the columns of the task in braces.
        columns: the names of the task's text columns.
        batch_size: most texts of one request. With more than 1, texts stand in lists.

    Raises:
        SuiteError: a hole has an unknown name, a column has no hole, or a hole stands where it cannot be filled.
    """

    def __init__(self, body: Any, columns: Sequence[str], batch_size: int = 1) -> None:
        self.body, self.columns, self.several = body, tuple(columns), batch_size > 1
        names = set(_holes(body))
        for name in sorted(names - {"text", "texts", *self.columns}):
            raise SuiteError(f"`body`: {unknown('name in braces', name, ['text', 'texts', *columns])}")
        if not names & {"text", "texts"} and (missing := [one for one in columns if one not in names]):
            wanted = " and ".join(f"{{{column}}}" for column in missing)
            raise SuiteError(f"`body` does not send {wanted}; write it, or {{text}} or {{texts}}, where the text goes")
        self.fill([tuple("" for _ in columns)] * (2 if self.several else 1))

    def fill(self, texts: Sequence[Text]) -> Any:
        """Return the JSON of a request with these texts."""
        return self._filled(self.body, list(texts), whole=True)

    def _filled(self, node: Any, texts: list[Text], whole: bool) -> Any:
        """Fill one node. `whole`: for all texts of the request; otherwise for the only one of `texts`."""
        if isinstance(node, Mapping):
            return {key: self._filled(value, texts, whole) for key, value in node.items()}
        if isinstance(node, list):
            if whole and len(node) == 1 and set(_holes(node)) - {"texts"}:
                return [self._filled(node[0], [text], whole=False) for text in texts]
            return [self._filled(entry, texts, whole) for entry in node]
        return self._string(node, texts, whole and self.several) if isinstance(node, str) else node

    def _string(self, node: str, texts: list[Text], several: bool) -> Any:
        alone = HOLE.fullmatch(node)
        if alone is None or alone[1]:
            return HOLE.sub(lambda hole: self._part(hole, texts, several, node), node)
        if several or alone[2] == "texts":
            return [self._value(alone[2], text) for text in texts]
        return self._value(alone[2], texts[0])

    def _part(self, hole: re.Match[str], texts: list[Text], several: bool, node: str) -> str:
        if hole[1]:
            return f"{{{hole[1]}}}"
        value = self._value(hole[2], texts[0])
        if several or hole[2] == "texts" or isinstance(value, list):
            columns = " or ".join(f"{{{column}}}" for column in self.columns)
            raise SuiteError(
                f"`body`: {{{hole[2]}}} in {node!r} is several texts, which cannot stand in a string; write {columns}"
                + (", in a list with one entry, or set `batch_size: 1`" if several else "")
            )
        return value

    def _value(self, name: str, text: Text) -> str | list[str]:
        if name in self.columns:
            return text[self.columns.index(name)]
        return text[0] if len(text) == 1 else list(text)


def rows_at(path: str, answer: Any, count: int) -> list[Any]:
    """Return the scores of each of `count` texts, as they are, from the answer to a request.

    Raises AnswerError where the path leads nowhere, or to another number of rows.
    """
    steps = path.split(".") if path else []
    found = _walked(answer, steps, [])
    if count == 1 and (is_row(found) or isinstance(found, str)):
        return [found]
    if isinstance(found, list) and len(found) == count:
        return found
    what = f"a list of {len(found)}" if isinstance(found, list) else type(found).__name__
    where = f"at `path: {path}`" if path else "(no `path` is given)"
    raise AnswerError(
        f"it answered {what} {where} to {count} text{'s' * (count > 1)}, not the scores of each: {shown(repr(found))}"
    )


def _walked(node: Any, steps: Sequence[str], gone: list[str]) -> Any:
    if not steps:
        return node
    step, rest = steps[0], steps[1:]
    if step == "*" and isinstance(node, list):
        return [_walked(entry, rest, [*gone, step]) for entry in node]
    if isinstance(node, Mapping) and step in node:
        return _walked(node[step], rest, [*gone, step])
    if isinstance(node, list) and step.isdecimal() and int(step) < len(node):
        return _walked(node[int(step)], rest, [*gone, step])
    where = f"below {'.'.join(gone)}" if gone else "in the answer"
    there = (
        f"a mapping of {', '.join(map(str, list(node)[:20])) or 'nothing'}"
        if isinstance(node, Mapping)
        else f"a list of {len(node)}"
        if isinstance(node, list)
        else shown(repr(node))
    )
    raise AnswerError(f"`path` asks for {step} {where}, and there is {there}")


def _holes(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield from (hole[2] for hole in HOLE.finditer(node) if hole[2])
    elif isinstance(node, Mapping):
        for value in node.values():
            yield from _holes(value)
    elif isinstance(node, list):
        for entry in node:
            yield from _holes(entry)


# ----------------------------------------------------------------------------------------------------------- requests


class Unavailable(Exception):
    """The server gave no answer, also when it was asked again. It may do so later, or for other texts."""

    def __init__(self, message: str, status: int = 0, pause: float | None = None, slow: bool = False) -> None:
        super().__init__(message)
        self.status, self.pause, self.slow = status, pause, slow
        self.may_pass = status not in SETTINGS and (pause is None or pause <= LONGEST_WAIT)


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
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, Unavailable) and error.may_pass),
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
        if not self._gap:
            return
        with self._lock:
            at = max(self._next, time.monotonic())
            self._next = at + self._gap
        time.sleep(max(0.0, at - time.monotonic()))


def _reason(error: BaseException) -> str:
    """Return what stopped a connection: asyncio's innermost error names it, and the outer ones do not."""
    inner = error
    while deeper := inner.__cause__ or inner.__context__:
        inner = deeper
    if isinstance(inner, OSError) and inner.errno:
        return str(inner.strerror if isinstance(inner, socket.gaierror) else os.strerror(inner.errno))
    return str(error) or type(error).__name__


def _json(response: httpx.Response, content: bytes) -> Any:
    start = masking.masked(content[:SHOWN_BYTES].decode("utf-8", "replace"))  # before a cut: half a secret is one too
    status, said = response.status_code, f" ({cut})" if (cut := " ".join(start[:200].split())) else ""
    if status in PASSING or status in SETTINGS or status >= 500:
        raise Unavailable(f"answered with status {status}{said}", status, pause(response.headers.get("Retry-After")))
    if response.is_redirect:
        to = masking.bare(response.headers.get("Location", "nowhere"))
        raise Broken(f"sends requests on to {to[:200]}; write that as `url`, if you trust it")
    if not response.is_success:
        raise AnswerError(f"it answered with status {status}{said}")
    try:  # json.loads would stop at the limit of Python's stack, where finalizers of other objects fail as well
        return from_json(content.removeprefix(codecs.BOM_UTF8))
    except ValueError as error:
        deep = "recursion limit" in str(error)
        raise AnswerError("its answer is nested too deeply" if deep else f"its answer is not JSON{said}") from None


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
