from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.victims.server import serve as serve


@pytest.fixture
def trickle() -> Iterator[Callable[[bytes], str]]:
    """Starts a server that answers with these bytes, one every 50 milliseconds. Returns its URL."""
    over = threading.Event()
    sockets: list[socket.socket] = []

    def send(listening: socket.socket, content: bytes) -> None:
        connection, _ = listening.accept()
        sockets.append(connection)
        with contextlib.suppress(OSError):
            for i in range(len(content)):
                connection.send(content[i : i + 1])
                if over.wait(0.05):
                    return

    def start(content: bytes) -> str:
        sockets.append(listening := socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=send, args=(listening, content), daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/"

    yield start
    over.set()
    for opened in sockets:
        opened.close()
