"""Asks a classifier over HTTP: several requests at once (`rbench.system.asking`).

A `RequestTemplate` fills texts into the body of a request, and `find_rows` finds scores in an answer.
`rbench.schema.Endpoint` says what both mean.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rbench.config.registry import unknown_message
from rbench.errors import AnswerError, SuiteError
from rbench.schema import TaskSpec
from rbench.schema.victims import VictimSpec
from rbench.system.asking import HttpPoster, ParallelAsker, connect
from rbench.victims.answers import AnswerClient, Text, probe_texts
from rbench.victims.scores import Row, ScoreReader, is_single_row, shorten

# Part of the key of every job that asks a classifier (config/versions.py): raise it if an answer is read otherwise. All
# such jobs are then run anew, which asks the server for every text again.
VERSION = 1

MIN_POOLED = 64
"""Examples that are attacked at once, at least."""

HOLE = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")


def open_endpoint(spec: VictimSpec, task: TaskSpec) -> AnswerClient:
    """Prepare to ask the server of a victim. Nothing is sent yet.

    Raises:
        SuiteError: the body does not fit the task.
        ResourceError: an environment variable of a header or the URL is not set.
    """
    assert spec.endpoint is not None
    endpoint = spec.endpoint
    try:
        template = RequestTemplate(endpoint.body, task.columns, endpoint.batch_size)
    except SuiteError as error:
        raise SuiteError(f"victim {spec.name}: {error}") from None
    poster = connect(endpoint, f"victim {spec.name}")
    reader = ScoreReader(task.labels, spec.labels, spec.scores, in_task_order=False)
    requests = _EndpointRequests(spec, template, reader, poster, len(task.columns))
    # Examples wait for each other after each request, so there are several for each request under way.
    pooled = max(MIN_POOLED, 4 * endpoint.concurrency)
    return AnswerClient(spec, task.labels, len(task.columns), requests, pooled, requests.stop)


class _EndpointRequests:
    """Asks for many texts at once, in requests of `batch_size`."""

    def __init__(
        self, spec: VictimSpec, template: RequestTemplate, reader: ScoreReader, poster: HttpPoster, columns: int
    ) -> None:
        assert spec.endpoint is not None
        self.spec, self.endpoint, self.template, self.reader = spec, spec.endpoint, template, reader
        self.poster, self.columns = poster, columns
        self._parallel = ParallelAsker(self.endpoint.concurrency)
        self.stop = self._parallel.stop

    def __call__(self, texts: Sequence[Text]) -> list[Row | AnswerError]:
        size = self.endpoint.batch_size
        return self._parallel([texts[start : start + size] for start in range(0, len(texts), size)], self._ask_batch)

    def _ask_batch(self, texts: Sequence[Text], stop: threading.Event) -> list[Row | AnswerError]:
        """Return a row for each text of one request, or why it has none."""
        url, probe_request = self.endpoint.url, self.template.fill(probe_texts(self.columns)[:1])
        sender, kept_note = f"victim {self.spec.name}: {url}", "Examples that are stored stay"
        try:
            answer = self.poster.ask(self.template.fill(texts), probe_request, stop, who=sender, kept=kept_note)
            return [self.reader.read_or_error(raw) for raw in find_rows(self.endpoint.path, answer, len(texts))]
        except AnswerError as error:
            failed = error
        except (RecursionError, OverflowError) as error:  # nested too deeply, or a number beyond all floats
            failed = AnswerError(f"the answer of {url} cannot be read: {error}")
        if len(texts) == 1:
            return [failed]
        # One of them may be to blame. Halves, as for vectors, would need fewer requests. But an answer may be wrong in
        # its number of rows alone, which could fit a half by chance. The answer to a single text cannot be misread so.
        return [row for text in texts for row in self._ask_batch([text], stop)]


class RequestTemplate:
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
        holes = set(_find_holes(body))
        for name in sorted(holes - {"text", "texts", *self.columns}):
            raise SuiteError(f"`body`: {unknown_message('name in braces', name, ['text', 'texts', *columns])}")
        missing = [name_of_column for name_of_column in columns if name_of_column not in holes]
        if missing and not holes & {"text", "texts"}:
            wanted = " and ".join(f"{{{column}}}" for column in missing)
            raise SuiteError(f"`body` does not send {wanted}; write it, or {{text}} or {{texts}}, where the text goes")
        # Once with empty texts: a hole that cannot be filled is found when the suite is read, not at the first request.
        self.fill([tuple("" for _ in columns)] * (2 if self.several else 1))

    def fill(self, texts: Sequence[Text]) -> Any:
        """Return the JSON of a request with these texts."""
        return self._fill_node(self.body, list(texts), whole=True)

    def _fill_node(self, node: Any, texts: list[Text], whole: bool) -> Any:
        """Fill one node. `whole`: for all texts of the request; otherwise for the only one of `texts`."""
        if isinstance(node, Mapping):
            return {key: self._fill_node(value, texts, whole) for key, value in node.items()}
        if isinstance(node, list):
            if whole and len(node) == 1 and set(_find_holes(node)) - {"texts"}:
                return [self._fill_node(node[0], [text], whole=False) for text in texts]
            return [self._fill_node(entry, texts, whole) for entry in node]
        return self._fill_string(node, texts, whole and self.several) if isinstance(node, str) else node

    def _fill_string(self, node: str, texts: list[Text], several: bool) -> Any:
        only_hole = HOLE.fullmatch(node)
        if only_hole is None or only_hole[1]:
            return HOLE.sub(lambda hole: self._part(hole, texts, several, node), node)
        if several or only_hole[2] == "texts":
            return [self._value(only_hole[2], text) for text in texts]
        return self._value(only_hole[2], texts[0])

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


def find_rows(path: str, answer: Any, count: int) -> list[Any]:
    """Return the scores of each of `count` texts, as they are, from the answer to a request.

    Raises AnswerError where the path leads nowhere, or to another number of rows.
    """
    steps = path.split(".") if path else []
    node = _follow_path(answer, steps, [])
    if count == 1 and (is_single_row(node) or isinstance(node, str)):
        return [node]
    if isinstance(node, list) and len(node) == count:
        return node
    what = f"a list of {len(node)}" if isinstance(node, list) else type(node).__name__
    where = f"at `path: {path}`" if path else "(no `path` is given)"
    raise AnswerError(
        f"it answered {what} {where} to {count} text{'s' * (count > 1)}, not the scores of each: {shorten(repr(node))}"
    )


def _follow_path(node: Any, steps: Sequence[str], steps_taken: list[str]) -> Any:
    if not steps:
        return node
    step, steps_left = steps[0], steps[1:]
    if step == "*" and isinstance(node, list):
        return [_follow_path(entry, steps_left, [*steps_taken, step]) for entry in node]
    if isinstance(node, Mapping) and step in node:
        return _follow_path(node[step], steps_left, [*steps_taken, step])
    if isinstance(node, list) and step.isdecimal() and int(step) < len(node):
        return _follow_path(node[int(step)], steps_left, [*steps_taken, step])
    where = f"below {'.'.join(steps_taken)}" if steps_taken else "in the answer"
    if isinstance(node, Mapping):
        found_text = f"a mapping of {', '.join(map(str, list(node)[:20])) or 'nothing'}"
    elif isinstance(node, list):
        found_text = f"a list of {len(node)}"
    else:
        found_text = shorten(repr(node))
    raise AnswerError(f"`path` asks for {step} {where}, and there is {found_text}")


def _find_holes(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield from (hole[2] for hole in HOLE.finditer(node) if hole[2])
    elif isinstance(node, Mapping):
        for value in node.values():
            yield from _find_holes(value)
    elif isinstance(node, list):
        for entry in node:
            yield from _find_holes(entry)
