"""`rbench status --environment --fix`: NLTK's data and word vectors come from a server, here one of this machine."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rbench.cli import app
from rbench.config import load_resources
from rbench.config.registry import Registry
from rbench.encoders.vectors import COUNTERFITTED_FILES
from rbench.words.resources import checks
from rbench.words.resources.lexical import NLTK_FILES, nltk_package

KINDS = ("synonyms", "pos_tagger", "stopwords", "word_vectors")


def zipped(files: dict[str, bytes]) -> bytes:
    """A zip file of these."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return whole.getvalue()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a server that has what NLTK's and TextAttack's have, in small; nothing of it is on this machine."""
    folder = tmp_path / "server"
    lines = []
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    base = f"http://127.0.0.1:{http.server_port}"
    for package, files in NLTK_FILES.items():
        subdir = files[0].partition("/")[0]
        own = {name.partition("/")[2]: f"{package}\n".encode() for name in files}
        content, unzipped = zipped(own), sum(map(len, own.values()))
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        (folder / subdir / f"{package}.zip").write_bytes(content)
        lines.append(
            f'<package id="{package}" name="{package}" subdir="{subdir}" unzip="1" size="{len(content)}" '
            f'unzipped_size="{unzipped}" checksum="{hashlib.md5(content).hexdigest()}" '
            f'sha256_checksum="{hashlib.sha256(content).hexdigest()}" url="{base}/{subdir}/{package}.zip"/>'
        )
    index = f"<nltk_data><packages>{''.join(lines)}</packages><collections/></nltk_data>"
    (folder / "index.xml").write_text(index)
    (folder / "word_embeddings").mkdir()
    vectors = zipped({f"paragramcf/{name}": b"1" for name in COUNTERFITTED_FILES})
    (folder / "word_embeddings" / "paragramcf").write_bytes(vectors)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    from rbench.recipes import _textattack  # noqa: F401 (before any import of textattack)

    cache = tmp_path / "textattack"
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk"))
    monkeypatch.setattr("nltk.data.path", [str(tmp_path / "nltk")])
    monkeypatch.setattr("nltk.downloader.Downloader.DEFAULT_URL", f"{base}/index.xml")
    monkeypatch.setattr("nltk.pathsec._ip_is_forbidden", lambda ip: False, raising=False)  # of this machine's server
    monkeypatch.setenv("TA_CACHE_DIR", str(cache))
    monkeypatch.setattr("textattack.shared.utils.install.TEXTATTACK_CACHE_DIR", str(cache))
    monkeypatch.setattr("textattack.shared.utils.install.s3_url", lambda uri: f"{base}/{uri}")
    yield folder
    http.shutdown()
    http.server_close()


def missing() -> set[str]:
    """The kinds of resources of the profile `standard` that are missing here, apart from models."""
    found = checks(load_resources("standard", Registry()))
    return {kind for kind, _, ok, *_ in found if not ok and kind in KINDS}


def test_one_command_fetches_all_that_is_missing(server: Path, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "encoders: mini-bert-packaged\ntasks: mini-sentiment\nattacks: [pwws, textfooler]\n"
    )
    assert missing() == {*KINDS}
    done = CliRunner().invoke(app, ["status", "--environment", str(tmp_path / "s.yaml"), "--fix"])
    assert missing() == set(), done.output
    assert {package: nltk_package(package)[0] for package in NLTK_FILES}.keys() == NLTK_FILES.keys()
    assert f"NLTK's wordnet into {tmp_path / 'nltk'}" in done.output and "word_vectors: counter-fitted" in done.output
    again = CliRunner().invoke(app, ["status", "--environment", str(tmp_path / "s.yaml"), "--fix"])
    assert "into" not in again.output.partition("what ")[0], "what is there is not fetched again"


def test_a_server_that_fails_is_told_and_nothing_half_is_left(server: Path, tmp_path: Path) -> None:
    (server / "corpora" / "stopwords.zip").write_bytes(b"not what the index says")
    (server / "word_embeddings" / "paragramcf").write_bytes(b"<html>down for maintenance</html>")
    (tmp_path / "s.yaml").write_text(
        "encoders: mini-bert-packaged\ntasks: mini-sentiment\nattacks: [pwws, textfooler]\n"
    )
    done = CliRunner().invoke(app, ["status", "--environment", str(tmp_path / "s.yaml"), "--fix"])
    said = " ".join(done.output.split())
    assert done.exit_code == 1 and missing() == {"stopwords", "word_vectors"}, done.output
    assert "still missing: stopwords: NLTK's stopwords could not be fetched" in said
    assert "still missing: word_vectors: the word vectors could not be fetched: the server sent no zip file" in said
    assert not (tmp_path / "textattack" / "word_embeddings" / "paragramcf").exists()
