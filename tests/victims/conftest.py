from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.victims.server import Server


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[Any], Any]], Server]]:
    """Starts a server with these answers, which ends with the test."""
    started: list[Server] = []

    def start(answer: Callable[[Any], Any]) -> Server:
        started.append(Server(answer))
        return started[-1]

    yield start
    for server in started:
        server.close()
