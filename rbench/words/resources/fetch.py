"""Fetch what attacks need and what may be passed on by nobody but its publisher: NLTK's data, and word vectors.

Models on the Hugging Face Hub need no fetching: they are downloaded when they are first used.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

from rbench.errors import ResourceError
from rbench.schema import ResourceKind, ResourceSet
from rbench.system.own_code import failing_in
from rbench.words.resources.lexical import nltk_package
from rbench.words.resources.locate import checks, counterfitted_folder, is_fetchable, nltk_packages


def fetch(
    resource_set: ResourceSet,
    kinds: set[ResourceKind],
    models_path: tuple[Path, ...],
    vectors: Callable[[], None],
    tell: Callable[[str], None],
) -> list[str]:
    """Fetch what is missing of some resources of a set.

    Args:
        vectors: downloads TextAttack's word vectors into its cache.
        tell: is told what is fetched, before it is.

    Returns what is still missing afterwards, each with the reason or the remedy.
    """
    errors: dict[ResourceKind, str] = {}
    for kind, _, ok, *_ in checks(resource_set, models_path):
        if ok or kind not in kinds:
            continue
        if not is_fetchable(kind, resource_set):
            continue
        try:
            if packages := nltk_packages(kind, getattr(resource_set, kind)):
                for package in packages:
                    _fetch_package(package, tell)
            else:
                tell(f"{kind}: counter-fitted word vectors into {counterfitted_folder()} (481 MB)")
                _fetch_vectors(vectors)
        except ResourceError as error:
            errors[kind] = str(error)
    return [
        f"{kind}: {errors.get(kind, remedy)}"
        for kind, _, ok, _, remedy in checks(resource_set, models_path)
        if kind in kinds and not ok
    ]


def _fetch_package(package: str, tell: Callable[[str], None]) -> None:
    """Fetch one of NLTK's packages with NLTK's own downloader, which checks its hash."""
    try:
        nltk_package(package)
        return
    except ResourceError:
        pass
    from nltk import data
    from nltk.downloader import Downloader

    configured = next(filter(None, os.environ.get("NLTK_DATA", "").split(os.pathsep)), None)
    downloader = Downloader()
    folder = configured or downloader.default_download_dir()
    tell(f"NLTK's {package} into {folder}")
    downloader_output = io.StringIO()
    with failing_in(f"NLTK's {package}"):
        fetched = downloader.download(package, download_dir=folder, quiet=True, print_error_to=downloader_output)
    if not fetched:
        reason = " ".join(downloader_output.getvalue().replace("[nltk_data]", "").split())
        raise ResourceError(f"NLTK's {package} could not be fetched: {reason}")
    if folder not in data.path:
        data.path.insert(0, folder)


def _fetch_vectors(vectors: Callable[[], None]) -> None:
    place = counterfitted_folder()
    with failing_in("the word vectors could not be fetched"):
        vectors()
    if place.is_file():  # an error page: the library takes whatever a server sends
        place.unlink()
        raise ResourceError("the word vectors could not be fetched: the server sent no zip file")
