"""A server of this process for endpoints to be tested on, whose answers the tests choose."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest


class Reply(NamedTuple):
    """What the server answers to one request."""

    content: Any = None
    """JSON, or bytes that are sent as they are."""
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012
    drip: float = 0.0
    """Seconds between each byte and the next; 0: all are sent at once."""


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # with the usual 5, connections beyond wait for seconds

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that do not wait for their answers."""


class Server:
    """Answers each POST with what `answer(body)` returns: a `Reply`, or JSON alone.

    `bodies` and `headers` are those of the requests so far. `most` is the largest number that were under way at once.
    """

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.now = self.most = 0
        self._lock = threading.Lock()
        self._server = _Listening(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/predict"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, body: Any, headers: dict[str, str]) -> Reply:
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            given = self.answer(body)
        finally:
            with self._lock:
                self.now -= 1
        return given if isinstance(given, Reply) else Reply(given)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                reply = server.reply(body, dict(self.headers))
                content = reply.content if isinstance(reply.content, bytes) else json.dumps(reply.content).encode()
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(content)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for part in [content] if not reply.drip else [content[i : i + 1] for i in range(len(content))]:
                    self.wfile.write(part)
                    time.sleep(reply.drip)

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        return Handler


Serve = Callable[[Callable[[Any], Any]], Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server with these answers, which ends with the test. Folders import it in their conftest."""
    started: list[Server] = []

    def start(answer: Callable[[Any], Any]) -> Server:
        started.append(Server(answer))
        return started[-1]

    yield start
    for server in started:
        server.close()
