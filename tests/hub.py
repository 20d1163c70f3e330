"""A Hugging Face Hub on localhost, small enough to read: what `huggingface_hub` and `datasets` ask for, and no more.

Import the fixture `hub` into a test module (or a conftest), put repositories on it and run code against it in a process
of its own, since the client reads `HF_ENDPOINT` when it is imported:

    from tests.hub import Hub, hub, python  # noqa: F401

    def test_something(hub, tmp_path):
        commit = hub.add("dataset", "someone/reviews", {"train.jsonl": b'{"text": "fine", "label": 1}\\n'})
        answer = python("print(1 + 1)", env=hub.env(tmp_path))
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlparse

import pytest

from tests import forked

Kind = Literal["model", "dataset"]


@dataclass
class Repository:
    """Files by path, for each commit; `main` is the last one added."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    main: str = ""

    def find(self, revision: str) -> str | None:
        """The commit that a revision stands for."""
        commit = self.main if revision == "main" else revision
        return commit if commit in self.commits else None


class Hub:
    """Repositories, and the requests that came in (`GET /api/datasets/...`)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.repositories: dict[tuple[Kind, str], Repository] = {}
        self.requests: list[str] = []

    def add(self, kind: Kind, name: str, files: Mapping[str, bytes]) -> str:
        """Commit `files` as all there is in the repository; returns the commit."""
        content = hashlib.sha1(repr((kind, name, sorted(files.items()))).encode()).hexdigest()
        repository = self.repositories.setdefault((kind, name), Repository())
        repository.commits[content] = dict(files)
        repository.main = content
        return content

    def add_folder(self, kind: Kind, name: str, folder: Path) -> str:
        """Commit all files under `folder`."""
        files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
        return self.add(kind, name, files)

    def env(self, home: Path, **more: str) -> dict[str, str]:
        """An environment in which the hub client speaks to this server and caches under `home`."""
        ours = {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "OMP_NUM_THREADS": "1"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "RBENCH_"))}
        return kept | ours | {"no_proxy": "127.0.0.1", "HF_HUB_DISABLE_TELEMETRY": "1"} | more


def python(code: str, env: Mapping[str, str], *arguments: str, fresh: bool = False) -> Any:
    """Run `code` in a process of its own; what its last line of output says, as JSON. Its errors fail the test.

    With `fresh` that is a new interpreter, so that the code may ask which libraries were imported.
    """
    if fresh:
        command = [sys.executable, "-c", code, *arguments]
        ended = subprocess.run(command, env=dict(env), capture_output=True, text=True, timeout=120, check=False)
        done = forked.Ended(ended.returncode, ended.stdout, ended.stderr)
    else:
        done = forked.run(code, env, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub without repositories, on a free port, gone after the test."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.hub  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_POST(self) -> None:
        self.form = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self._answer(body=True)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: tests read `hub.requests`."""

    @property
    def hub(self) -> Hub:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlparse(self.path).path).strip("/")
        self.hub.requests.append(f"{self.command} /{path}")
        if path.startswith("api/"):
            self._api(path.removeprefix("api/"), body)
        else:
            self._file(path, body)

    def _repository(self, path: str) -> tuple[Kind, str, Repository, list[str]] | None:
        """Kind, name, repository and the rest of a path `datasets/<name>/...`, `models/<name>/...` or `<name>/...`."""
        kind: Kind = "dataset" if path.startswith("datasets/") else "model"
        parts = path.removeprefix("datasets/").removeprefix("models/").split("/")
        for length in (2, 1):
            name = "/".join(parts[:length])
            if (kind, name) in self.hub.repositories:
                return kind, name, self.hub.repositories[kind, name], parts[length:]
        return None

    def _api(self, path: str, body: bool) -> None:
        found = self._repository(path)
        if found is None:
            return self._error(404, "RepoNotFound")
        _, name, repository, (verb, revision, *rest) = (*found[:3], [*found[3], "info", "main"][:2] + found[3][2:])
        commit = repository.find(revision)
        if commit is None:
            return self._error(404, "RevisionNotFound")
        files = repository.commits[commit]
        if verb in ("info", "revision"):
            siblings = [{"rfilename": file} for file in files]
            facts = {"private": False, "gated": False, "disabled": False, "tags": [], "downloads": 0, "likes": 0}
            return self._json({"id": name, "sha": commit, "siblings": siblings, **facts}, body)
        if verb == "tree":
            deep = parse_qs(urlparse(self.path).query).get("recursive", [""])[0].lower() == "true"
            return self._json(_tree(files, "/".join(rest), deep=deep), body)
        if verb == "paths-info":
            wanted = self._wanted()
            entries = [entry for entry in _tree(files, "", deep=True) if entry["path"] in wanted]
            return self._json(entries, body)
        return self._error(404, "EntryNotFound")

    def _wanted(self) -> set[str]:
        if "json" in self.headers.get("Content-Type", ""):
            return {path.strip("/") for path in json.loads(self.form)["paths"]}
        return {path.strip("/") for path in parse_qs(self.form).get("paths", [])}

    def _file(self, path: str, body: bool) -> None:
        found = self._repository(path)
        if found is None:
            return self._error(404, "RepoNotFound")
        _, _, repository, rest = found
        if len(rest) < 3 or rest[0] != "resolve":
            return self._error(404, "EntryNotFound")
        commit = repository.find(rest[1])
        if commit is None:
            return self._error(404, "RevisionNotFound")
        content = repository.commits[commit].get("/".join(rest[2:]))
        if content is None:
            return self._error(404, "EntryNotFound", {"X-Repo-Commit": commit})
        etag = hashlib.sha1(content).hexdigest()
        headers = {"X-Repo-Commit": commit, "ETag": f'"{etag}"', "Content-Type": "application/octet-stream"}
        return self._send(200, content, headers, body)

    def _json(self, value: Any, body: bool) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"}, body)

    def _error(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": code, **(headers or {})}, True)

    def _send(self, status: int, content: bytes, headers: Mapping[str, str], body: bool) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


def _tree(files: Mapping[str, bytes], under: str, *, deep: bool = False) -> list[dict[str, Any]]:
    """Files and folders below `under`, all of them or those directly in it."""
    entries: list[dict[str, Any]] = []
    folders: set[str] = set()
    for path, content in files.items():
        parent = path.rpartition("/")[0]
        steps = parent.split("/") if parent else []
        folders |= {"/".join(steps[: n + 1]) for n in range(len(steps))}
        entries.append({"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()})
    entries += [{"type": "directory", "path": folder, "size": 0, "oid": "0" * 40} for folder in sorted(folders)]
    inside = f"{under}/" if under else ""
    below = [entry for entry in entries if entry["path"].startswith(inside)]
    return [entry for entry in below if deep or entry["path"].rpartition("/")[0] == under]
