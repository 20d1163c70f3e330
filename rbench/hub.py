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
    """What the hub client raises when network, repository or file fail it.

    Its HTTP errors derive from those of the library beneath, which has been requests, httpx and httpx2: their common
    base, under which a refused connection also falls, is found among the bases and not by name.
    """
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    beneath = [kind for kind in HfHubHTTPError.__mro__ if issubclass(kind, Exception) and kind is not Exception]
    return (OSError, HFValidationError, *beneath)


def endpoint() -> str:
    """The hub's address: `HF_ENDPOINT`, or https://huggingface.co."""
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def offline() -> bool:
    """Whether the environment forbids asking the hub (`HF_HUB_OFFLINE`)."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def cached(model: str, revision: str | None) -> Path | None:
    """The snapshot folder of a model at `revision` (None: main) in the hub cache; None where there is none.

    The folder's name is the commit. It has the model's config, and perhaps nothing else.
    """
    from huggingface_hub import try_to_load_from_cache

    for name in ("config.json", "modules.json"):
        found = try_to_load_from_cache(model, name, revision=revision or "main")
        if isinstance(found, str):
            return Path(found).parent
    return None


def remember(model: str, revision: str | None, commit: str) -> None:
    """Note in the hub cache that `revision` (None: main) is `commit`, as the client does when it downloads a branch.

    rbench downloads commits; without this note the cache could not say offline what main was.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    if revision is not None and (COMMIT.fullmatch(revision) or ".." in revision):
        return
    refs = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=model, repo_type="model") / "refs"
    note = refs / (revision or "main")
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(commit)


def commit(model: str, revision: str | None) -> str:
    """The commit (40 hex digits) that `revision` (None: main) of a model stands for.

    The hub is asked first, for at most `TIMEOUT` seconds, then the cache; a full commit in the cache needs no hub.

    Raises:
        ResourceError: as `ask`, where the cache does not know it either.
    """
    if revision is not None and COMMIT.fullmatch(revision) and cached(model, revision):
        return revision
    try:
        return ask(model, "model", revision)
    except Unreachable:
        folder = cached(model, revision)
        if folder is None or not COMMIT.fullmatch(folder.name):
            raise
        return folder.name


def ask(repo: str, kind: Kind, revision: str | None) -> str:
    """The commit that the hub says `revision` (None: main) of a model or data set stands for.

    Raises:
        ResourceError: it has no such repository or revision, or (`Unreachable`) could not be asked. The message is the
            reason, for the caller to put beside the remedy.
    """
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
