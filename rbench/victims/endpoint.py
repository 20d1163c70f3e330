"""Asks a classifier over HTTP: several requests at once (`rbench.system.asking`).

A `Template` fills texts into the body of a request, and `rows_at` finds scores in an answer. `rbench.schema.Endpoint`
says what both mean.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rbench.config.registry import unknown
from rbench.errors import AnswerError, SuiteError
from rbench.schema import TaskSpec
from rbench.schema.victims import VictimSpec
from rbench.system.asking import Parallel, Poster, connected
from rbench.victims.answers import Answers, Text, probe_texts
from rbench.victims.scores import Reader, Row, is_row, shown

VERSION = 1

LEAST_POOLED = 64
"""Examples that are attacked at once, at least."""

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
    poster = connected(endpoint, f"victim {spec.name}")
    reader = Reader(task.labels, spec.labels, spec.scores, in_task_order=False)
    asked = _Asked(spec, template, reader, poster, len(task.columns))
    # Examples wait for each other after each request, so there are several for each request under way.
    pooled = max(LEAST_POOLED, 4 * endpoint.concurrency)
    return Answers(spec, task.labels, len(task.columns), asked, pooled, asked.stop)


class _Asked:
    """Asks for many texts at once, in requests of `batch_size`."""

    def __init__(self, spec: VictimSpec, template: Template, reader: Reader, poster: Poster, columns: int) -> None:
        assert spec.endpoint is not None
        self.spec, self.endpoint, self.template, self.reader = spec, spec.endpoint, template, reader
        self.poster, self.columns = poster, columns
        self._parallel = Parallel(self.endpoint.concurrency)
        self.stop = self._parallel.stop

    def __call__(self, texts: Sequence[Text]) -> list[Row | AnswerError]:
        size = self.endpoint.batch_size
        return self._parallel([texts[start : start + size] for start in range(0, len(texts), size)], self._request)

    def _request(self, texts: Sequence[Text], stop: threading.Event) -> list[Row | AnswerError]:
        """Return a row for each text of one request, or why it has none."""
        url, harmless = self.endpoint.url, self.template.fill(probe_texts(self.columns)[:1])
        who, kept = f"victim {self.spec.name}: {url}", "Examples that are stored stay"
        try:
            answer = self.poster.ask(self.template.fill(texts), harmless, stop, who=who, kept=kept)
            return [self.reader.tried(raw) for raw in rows_at(self.endpoint.path, answer, len(texts))]
        except AnswerError as error:
            failed = error
        except RecursionError:
            failed = AnswerError(f"{url} gave an answer that is nested too deeply")
        if len(texts) == 1:
            return [failed]
        # One of them may be to blame. Halves, as for vectors, would need fewer requests. But an answer may be wrong in
        # its number of rows alone, which could fit a half by chance. The answer to a single text cannot be misread so.
        return [row for text in texts for row in self._request([text], stop)]


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
