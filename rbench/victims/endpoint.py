"""Asks a server over HTTP: several requests at once, each with a time limit, and again where that can help."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from rbench import masking
from rbench.errors import JobError, ResourceError, SuiteError
from rbench.spec import TaskSpec
from rbench.spec.victims import Endpoint, VictimSpec
from rbench.victims.answers import Answers, Text
from rbench.victims.post import SETTINGS, Broken, Poster, Unavailable
from rbench.victims.probe import texts as probe_texts
from rbench.victims.scores import AnswerError, Reader, Row
from rbench.victims.template import Template, rows_at

VERSION = 1

LEAST_POOLED = 64
"""Examples that are attacked at once, at least."""

VARIABLE = re.compile(r"\$\{(\w+)\}")


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
            return [self._read(raw) for raw in rows_at(self.endpoint.path, answer, len(texts))]
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

    def _read(self, raw: Any) -> Row | AnswerError:
        try:
            return self.reader(raw)
        except AnswerError as error:
            return error

    def _alive(self) -> bool:
        """Return whether the server answers a harmless text."""
        try:
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
