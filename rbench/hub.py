"""The Hugging Face Hub, asked politely: which commit a repository is at, and why not.

The one place that knows how the client fails. No torch, no datasets; the client itself is imported on first use. It
reads `HF_ENDPOINT`, `HF_HOME`, `HF_HUB_OFFLINE` and `HF_TOKEN` from the environment, as everywhere else.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from rbench.errors import ResourceError

Kind = Literal["model", "dataset"]


class Unreachable(ResourceError):
    """The hub does not answer, or the environment forbids asking it; only what is cached can be had."""


TIMEOUT = 5.0
"""Seconds to wait for the hub's answer to a question about a repository."""

REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
COMMIT = re.compile(r"[0-9a-f]{40}")

_unreachable: dict[str, str] = {}
"""Endpoint to reason: a hub that did not answer once is not waited for again in this process."""


def failures() -> tuple[type[Exception], ...]:
    """What the hub client raises when network, repository or file fail it (requests' errors; since 1.0, httpx's)."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    kinds: list[type[Exception]] = [OSError, HfHubHTTPError, HFValidationError]
    try:
        import httpx
    except ImportError:
        return tuple(kinds)
    return (*kinds, httpx.HTTPError)


def endpoint() -> str:
    """The hub's address: `HF_ENDPOINT`, or https://huggingface.co."""
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def offline() -> bool:
    """Whether the environment forbids asking the hub (`HF_HUB_OFFLINE`)."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def cached(repo: str, kind: Kind, revision: str | None) -> Path | None:
    """The snapshot folder of `repo` at `revision` (None: main) in the hub cache; None where there is none.

    The folder's name is the commit. It may hold only some of the repository's files.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repo, repo_type=kind, revision=revision, local_files_only=True))
    except failures():
        return None


def remember(repo: str, kind: Kind, revision: str | None, commit: str) -> None:
    """Note in the hub cache that `revision` (None: main) is `commit`, as the client does when it downloads a branch.

    rbench downloads commits; without this note the cache could not say offline what main was.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    if revision is not None and (COMMIT.fullmatch(revision) or ".." in revision):
        return
    refs = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo, repo_type=kind) / "refs"
    note = refs / (revision or "main")
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(commit)


def commit(repo: str, kind: Kind, revision: str | None) -> str:
    """The commit (40 hex digits) that `revision` (None: main) of `repo` stands for.

    The hub is asked first, for at most `TIMEOUT` seconds, then the cache; a full commit in the cache needs no hub.

    Raises:
        ResourceError: neither knows it (`Unreachable` where the hub could not be asked); the message is the reason, for
            the caller to put beside the remedy.
    """
    if revision is not None and COMMIT.fullmatch(revision) and cached(repo, kind, revision):
        return revision
    try:
        return ask(repo, kind, revision)
    except Unreachable:
        folder = cached(repo, kind, revision)
        if folder is None or not COMMIT.fullmatch(folder.name):
            raise
        return folder.name


def ask(repo: str, kind: Kind, revision: str | None) -> str:
    """As `commit`, without the cache."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    where = endpoint()
    if offline():
        raise Unreachable("HF_HUB_OFFLINE is set and it is not in the hub cache")
    if where in _unreachable:
        raise Unreachable(_unreachable[where])
    api = HfApi()
    info = api.model_info if kind == "model" else api.dataset_info
    try:
        sha = info(repo, revision=revision, timeout=TIMEOUT).sha
    except GatedRepoError as error:
        raise ResourceError(
            f"{where} wants you to accept the terms of {repo} and to log in (`hf auth login`)"
        ) from error
    except RevisionNotFoundError as error:
        raise ResourceError(f"{where} has {repo}, but no revision {revision!r} of it") from error
    except RepositoryNotFoundError as error:
        raise ResourceError(f"{where} has no {kind} {repo}, or it is private") from error
    except failures() as error:
        if getattr(error, "response", None) is not None:
            raise ResourceError(f"{where} answered: {_first_line(error)}") from error
        _unreachable[where] = f"{where} cannot be reached ({_cause(error)})"
        raise Unreachable(_unreachable[where]) from error
    if not sha:
        raise ResourceError(f"{where} did not say at which commit {repo} is")
    return str(sha)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _cause(error: BaseException) -> str:
    """The innermost reason: `Name or service not known` says more than three wrappers around it."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    text = _first_line(error) if isinstance(error, Exception) else type(error).__name__
    return text if len(text) <= 200 else text[:200] + "..."
