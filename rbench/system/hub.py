"""Find the commit of a repository on the Hugging Face Hub, in the hub cache or by asking the hub.

Only this module knows which exceptions the hub client raises. It imports neither torch nor datasets, and the client
(huggingface_hub) on first use. The client reads `HF_ENDPOINT`, `HF_HOME`, `HF_HUB_OFFLINE` and `HF_TOKEN` from the
environment.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from pathlib import Path
from typing import Literal

from rbench.errors import ResourceError
from rbench.masking import learn, masked

RepoKind = Literal["model", "dataset"]


class HubUnreachable(ResourceError):
    """The hub does not answer, or the environment forbids asking it. Only the hub cache can be used."""


TIMEOUT = 5.0
"""Seconds to wait for the hub's answer."""

_PART = r"\w(?:[\w.-]*\w)?"
_REPO_ID = re.compile(rf"(?:{_PART}/)?(?=[^/]{{1,96}}\Z){_PART}", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")

_ASK_AGAIN = 60.0
"""Seconds for which a hub that did not answer is not asked again: one command asks for many models."""
_unreachable: dict[str, tuple[float, str]] = {}
"""When each endpoint did not answer, on the clock `time.monotonic`, and why, by address."""


def failure_types() -> tuple[type[Exception], ...]:
    """Return the exception types that the hub client raises for a missing network, repository or file.

    The client's HTTP errors derive from those of its HTTP library. That library has been requests, httpx and httpx2,
    so its base exception is looked up among the base classes, not by name. A refused connection derives from it too.
    """
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    beneath = [kind for kind in HfHubHTTPError.__mro__ if issubclass(kind, Exception) and kind is not Exception]
    return (OSError, HFValidationError, *beneath)


def endpoint() -> str:
    """Return the hub's address: `HF_ENDPOINT`, or https://huggingface.co."""
    from huggingface_hub import constants, get_token

    if token := get_token():  # of the environment, or the file of `hf auth login`: whoever asks the hub sends it
        learn(token)
    return str(constants.ENDPOINT)


def is_offline() -> bool:
    """Return whether the environment forbids asking the hub (`HF_HUB_OFFLINE`)."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def is_repo_id(text: str) -> bool:
    """Return whether a text may name a repository, `NAME` or `OWNER/NAME`, by the rules of the hub client."""
    return not ("--" in text or ".." in text or text.endswith(".git")) and _REPO_ID.fullmatch(text) is not None


def cached_snapshot(model: str, revision: str | None) -> Path | None:
    """Return the snapshot folder of a model at `revision` (None: main) in the hub cache, or None if there is none.

    The folder's name is the commit. The folder holds the model's config; it may lack the weights.
    """
    if not is_repo_id(model):
        return None
    from huggingface_hub import try_to_load_from_cache

    for name in ("config.json", "modules.json"):
        file = try_to_load_from_cache(model, name, revision=revision or "main")
        if isinstance(file, str):
            return Path(file).parent
    return None


def fetch_configs(model: str, commit: str, revision: str | None = None) -> Path:
    """Return the snapshot folder of a model, with the small JSON files that say how it encodes. Weights may be missing.

    What the hub cache lacks is downloaded. `modules.json` comes last, so that where the cache has it, or knows that
    there is none, it has the others.

    Args:
        commit: 40 hex digits.
        revision: what stood for the commit (None: main), for `remember_commit`.

    Raises:
        Unreachable: the hub cannot be asked, and the cache cannot tell what the model's files say.
        ResourceError: the download failed, or the repository has no model of transformers.
    """
    from huggingface_hub import _CACHED_NO_EXIST, HfApi, hf_hub_download, snapshot_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError

    snapshot = cached_snapshot(model, commit)
    if snapshot is not None:
        # A snapshot that transformers alone has downloaded lacks modules.json whether or not the hub has it. One that
        # `hf download` made has all there is, .gitattributes too.
        cached_file = try_to_load_from_cache(model, "modules.json", revision=commit)
        if isinstance(cached_file, str) or cached_file is _CACHED_NO_EXIST or (snapshot / ".gitattributes").is_file():
            return snapshot
    if (reason := why_unreachable()) is not None:
        raise HubUnreachable(
            f"{reason}, and the hub cache lacks the files that say how {model} encodes. Get them with `hf download "
            f"{model} --revision {commit}` where there is a network"
        )
    try:
        names = [file.rfilename for file in HfApi().model_info(model, revision=commit, timeout=TIMEOUT).siblings or ()]
        if not {"config.json", "modules.json"} & {*names}:
            raise ResourceError(f"{model} has no config.json on {endpoint()}: it is no model of transformers")
        small = [name for name in names if name.endswith(("config.json", "config_sentence_transformers.json"))]
        folder = Path(snapshot_download(model, revision=commit, allow_patterns=small))
        with contextlib.suppress(EntryNotFoundError):  # the client remembers that there is none
            hf_hub_download(model, "modules.json", revision=commit)
        remember_commit(model, revision, commit)
    except failure_types() as error:
        raise ResourceError(f"{model} could not be read from {endpoint()}: {_first_line(error)}") from error
    return folder


def remember_commit(model: str, revision: str | None, commit: str) -> None:
    """Write to the hub cache that `revision` (None: main) is `commit`, as the client does when it downloads a branch.

    rbench downloads by commit. Without this entry the cache could not tell offline which commit main is.
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
    """Return the commit (40 hex digits) of a model's `revision` (None: main).

    The hub is asked first, for at most `TIMEOUT` seconds, then the cache. If `revision` is itself a commit in the
    cache, the hub is not asked.

    Raises:
        ResourceError: the hub has no such model or revision, or cannot be reached while the cache lacks it.
    """
    if revision is not None and COMMIT.fullmatch(revision) and cached_snapshot(model, revision):
        return revision
    try:
        return ask(model, "model", revision)
    except HubUnreachable:
        folder = cached_snapshot(model, revision)
        if folder is None or not COMMIT.fullmatch(folder.name):
            raise
        return folder.name


def ask(repo: str, kind: RepoKind, revision: str | None) -> str:
    """Ask the hub for the commit of `revision` (None: main) of a model or data set.

    Raises:
        Unreachable: the hub cannot be asked.
        ResourceError: the hub has no such repository or revision, or the name is none of the hub's. The message gives
            the reason; the caller adds the remedy.
    """
    if not is_repo_id(repo):
        raise ResourceError(f"{repo!r} cannot be the id of a {kind} on the hub")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    where = endpoint()
    if is_offline():
        raise HubUnreachable("HF_HUB_OFFLINE is set and it is not in the hub cache")
    if (reason := _recent_failure(where)) is not None:
        raise HubUnreachable(reason)
    api = HfApi()
    info = api.model_info if kind == "model" else api.dataset_info
    try:
        sha = info(repo, revision=revision, timeout=TIMEOUT).sha
    except GatedRepoError as error:
        raise ResourceError(
            f"{where} requires that you accept the terms of {repo} and log in (`hf auth login`)"
        ) from error
    except RevisionNotFoundError as error:
        raise ResourceError(f"{where} has {repo}, but no revision {revision!r} of it") from error
    except RepositoryNotFoundError as error:
        raise ResourceError(f"{where} has no {kind} {repo}, or it is private") from error
    except failure_types() as error:
        if getattr(error, "response", None) is not None:
            raise ResourceError(f"{where} answered: {_first_line(error)}") from error
        reason = f"{where} cannot be reached ({_innermost_message(error)})"
        _unreachable[where] = time.monotonic(), reason
        raise HubUnreachable(reason) from error
    if not sha:
        raise ResourceError(f"{where} did not say which commit {repo} has")
    return str(sha)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def why_unreachable() -> str | None:
    """Say why the hub is not asked: it is switched off, or could not be reached a moment ago; None if it is asked."""
    return "HF_HUB_OFFLINE is set" if is_offline() else _recent_failure(endpoint())


def _recent_failure(where: str) -> str | None:
    """Say why an endpoint was unreachable a moment ago; None if it is to be asked."""
    when, reason = _unreachable.get(where, (-math.inf, ""))
    return reason if time.monotonic() - when < _ASK_AGAIN else None


def _innermost_message(error: BaseException) -> str:
    """Return the message of the innermost exception, which names the reason (`Name or service not known`)."""
    if "JSONDecodeError" in type(error).__name__:  # the innermost one says where in the text
        return "its answer is not JSON: is there a proxy, or a page to log in?"
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    text = masked(_first_line(error) if isinstance(error, Exception) else type(error).__name__)
    return text if len(text) <= 200 else text[:200] + "..."
