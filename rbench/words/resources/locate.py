"""Find the resources of a set, and say how to get those that are missing. Imports no torch and loads nothing."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rbench.config.registry import unknown_message
from rbench.encoders.locate import candidate_places, format_search_path
from rbench.encoders.locate import hash_model as encoder_fingerprint
from rbench.encoders.locate import locate as find_encoder
from rbench.encoders.vectors import COUNTERFITTED_FILES, find_vector_files
from rbench.errors import ResourceError, SuiteError
from rbench.mini import lexical as mini
from rbench.schema import EncoderSpec, ResourceKind, ResourceSet, ResourceSource
from rbench.system import digests
from rbench.system.digests import FingerprintedPlace
from rbench.words.resources.lexical import nltk_package

USE_ADDRESS = "https://tfhub.dev/google/universal-sentence-encoder/3"
"""The version that TextAttack's recipes load."""


COUNTERFITTED_KIND = "textattack-counterfitted"
Finder = Callable[[ResourceSource, Sequence[Path]], FingerprintedPlace]


@dataclass(frozen=True)
class _FilesHash:
    """Computes the fingerprint of the files that a loader reads at a place. Equal ones stay so in another process."""

    loader: str

    def __call__(self, where: str) -> str:
        match self.loader:
            case "mini":
                return digests.hash_files(mini.sources())
            case "textattack-counterfitted":
                return digests.hash_files(Path(where) / name for name in COUNTERFITTED_FILES)
            case "vectors":
                return digests.hash_files(find_vector_files(Path(where)))
            case "use":
                return digests.hash_files(sorted(path for path in Path(where).rglob("*") if path.is_file()))
        return digests.hash_files([Path(where)])


def locate(
    resource_set: ResourceSet,
    needs: Collection[ResourceKind] | Mapping[ResourceKind, Collection[str]],
    models_path: Sequence[Path] = (),
) -> dict[ResourceKind, FingerprintedPlace]:
    """Find all resources in `needs`. A mapping gives for each resource the attacks that need it, for the message.

    Raises:
        SuiteError: the resource set names a kind of source that does not exist.
        ResourceError: resources are missing; one message names all of them, who needs them, and how to get them.
    """
    located: dict[ResourceKind, FingerprintedPlace] = {}
    problems, any_fetchable = [], False
    for kind in sorted(needs):
        users = needs[kind] if isinstance(needs, Mapping) else ()
        try:
            located[kind] = _locate(kind, resource_set, models_path)
        except ResourceError as error:
            users_note = f" (needed by {', '.join(users)})" if users else ""
            problems.append(f"{kind} of resource set {resource_set.name}{users_note}: {error}")
            any_fetchable = any_fetchable or is_fetchable(kind, resource_set)
    if problems:
        # Added to the last line, because callers count each line as a missing resource.
        fetching = "; `rbench status --environment SUITE --fix` fetches NLTK's data and the word vectors"
        problems[-1] += fetching if any_fetchable else ""
        raise ResourceError("\n".join(problems))
    return located


def checks(
    resource_set: ResourceSet, models_path: Sequence[Path] = ()
) -> list[tuple[ResourceKind, str, bool, str, str]]:
    """Return (kind, name, ok, where, remedy) for each resource of the set. Raises nothing."""
    lines: list[tuple[ResourceKind, str, bool, str, str]] = []
    kinds: tuple[ResourceKind, ...] = get_args(ResourceKind)
    for kind in kinds:
        source: ResourceSource | None = getattr(resource_set, kind)
        if source is None:
            continue
        name = source.name or source.kind
        try:
            lines.append((kind, name, True, _locate(kind, resource_set, models_path).where, ""))
        except (ResourceError, SuiteError) as error:
            lines.append((kind, name, False, "", str(error)))
    return lines


def _locate(kind: ResourceKind, resource_set: ResourceSet, models_path: Sequence[Path]) -> FingerprintedPlace:
    source: ResourceSource | None = getattr(resource_set, kind)
    if source is None:
        raise ResourceError(
            f"the resource set has none; choose another resource set, or name one under `resources: {{{kind}: ...}}`"
        )
    finders = _FINDERS[kind]
    if source.kind not in finders:
        raise SuiteError(
            f"resource set {resource_set.name}: " + unknown_message(f"kind of {kind}", source.kind, finders)
        )
    return finders[choose_loader(kind, source)](source, models_path)


def choose_loader(kind: ResourceKind, source: ResourceSource) -> str:
    """Return the loader of `source`: its kind, or the loader of folders if a kind that takes no name has one.

    A name says nothing where the resource cannot come from a folder.
    """
    if source.name is None or source.kind not in ("textattack-counterfitted", "wordnet", "mini", "nltk"):
        return source.kind
    folder_loaders = {"word_vectors": "folder", "synonyms": "folder", "sentence_encoder": "sentence-transformers"}
    return folder_loaders.get(kind, source.kind)


# ---------------------------------------------------------------------------------------------------------- finders


def _located_at(where: str, mark: Callable[[str], str]) -> FingerprintedPlace:
    return FingerprintedPlace(where, mark(where), mark)


def _find_mini(source: ResourceSource, models_path: Sequence[Path]) -> FingerprintedPlace:
    return _located_at("the embedded world (rbench.mini)", _FilesHash("mini"))


def _find_on_path(name: str, models_path: Sequence[Path]) -> Path | None:
    return next((place for place in candidate_places(models_path, name) if place.exists()), None)


def counterfitted_folder() -> Path:
    """Return the folder of TextAttack's cache for its counter-fitted word vectors."""
    cache = Path(os.environ.get("TA_CACHE_DIR") or Path.home() / ".cache" / "textattack")
    return cache / "word_embeddings" / "paragramcf"


def _find_counterfitted(source: ResourceSource, models_path: Sequence[Path]) -> FingerprintedPlace:
    folder = counterfitted_folder()
    if not all((folder / name).is_file() for name in COUNTERFITTED_FILES):
        raise ResourceError(
            f"TextAttack's counter-fitted word vectors are not in {folder}; run `python -c 'from textattack.shared "
            "import WordEmbedding; WordEmbedding.counterfitted_GLOVE_embedding()'` with a network connection (481 MB), "
            "or choose the resource set `local` with word vectors of your own"
        )
    return _located_at(str(folder), _FilesHash("textattack-counterfitted"))


def _find_vectors(source: ResourceSource, models_path: Sequence[Path]) -> FingerprintedPlace:
    place = _find_on_path(str(source.name), models_path)
    if place is None:
        raise ResourceError(
            f"there is no {source.name} in {format_search_path(models_path)}; make a folder DIR/{source.name} with "
            "vectors.npy and words.txt, or with one word2vec file, then pass --models DIR (or set RBENCH_MODELS=DIR)"
        )
    return _located_at(str(place), _FilesHash("vectors"))


def _find_synonym_list(source: ResourceSource, models_path: Sequence[Path]) -> FingerprintedPlace:
    place = _find_on_path(str(source.name), models_path)
    path = place / "synonyms.txt" if place is not None and place.is_dir() else place
    if path is None or not path.is_file():
        raise ResourceError(
            f"there is no {source.name}/synonyms.txt in {format_search_path(models_path)}; write this file below a "
            "folder DIR, two words a line, then pass --models DIR (or set RBENCH_MODELS=DIR)"
        )
    return _located_at(str(path), _FilesHash("synonyms"))


@dataclass(frozen=True)
class _NltkFinder:
    """Finds some of NLTK's packages (`find`), and computes the fingerprint of what attacks read of them."""

    packages: tuple[str, ...]

    def find(self, source: ResourceSource, models_path: Sequence[Path]) -> FingerprintedPlace:
        package_places, problems = [], []
        for package in self.packages:
            try:
                package_places.append(nltk_package(package)[0])
            except ResourceError as error:
                problems.append(str(error))
        if problems:
            raise ResourceError("; ".join(problems))
        return _located_at(", ".join(package_places), self)

    def __call__(self, where: str) -> str:
        hashes = [nltk_package(package)[1] for package in self.packages]
        return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


_WORDNET = _NltkFinder(("wordnet",))


def _wordnet_and_list(source: ResourceSource, models_path: Sequence[Path]) -> FingerprintedPlace:
    """Find WordNet and a list of synonyms. The place is that of the list; the fingerprint is of both."""
    _WORDNET.find(source, models_path)
    return _located_at(_find_synonym_list(source, models_path).where, _of_wordnet_and_list)


def _of_wordnet_and_list(where: str) -> str:
    parts = (_WORDNET(where), _FilesHash("synonyms")(where))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def is_fetchable(kind: ResourceKind, resource_set: ResourceSet) -> bool:
    """Whether `rbench status --environment --fix` fetches a resource: NLTK's data, or TextAttack's word vectors."""
    source: ResourceSource | None = getattr(resource_set, kind)
    if source is None or source.kind not in _FINDERS[kind]:
        return False
    return bool(nltk_packages(kind, source)) or (source.kind == COUNTERFITTED_KIND and source.name is None)


def nltk_packages(kind: ResourceKind, source: ResourceSource) -> tuple[str, ...]:
    """Return NLTK's packages behind a source; none for one of another kind."""
    finder = getattr(_FINDERS[kind].get(choose_loader(kind, source)), "__self__", None)
    return finder.packages if isinstance(finder, _NltkFinder) else ()


def _find_model(source: ResourceSource, models_path: Sequence[Path]) -> FingerprintedPlace:
    name = str(source.name)  # a folder of this name is looked for first, then a hub id
    # A model that is not in a folder yet is on the hub: its id and revision are its fingerprint.
    located = find_encoder(EncoderSpec(name=name.rsplit("/", 1)[-1], base=name, revision=source.revision), models_path)
    return _located_at(located.where, _hash_model) if Path(located.where).is_dir() else located


def _hash_model(where: str) -> str:
    """Return the hash of an encoder's weights, config and tokenizer, and of the module configs in its subfolders.

    A sentence-transformers folder has its pooling in such a config.
    """
    weights_hash, module_configs = encoder_fingerprint(where), sorted(Path(where).glob("*/config.json"))
    return (
        hashlib.sha256(f"{weights_hash}{digests.hash_files(module_configs)}".encode()).hexdigest()
        if module_configs
        else weights_hash
    )


def _find_trained(source: ResourceSource, models_path: Sequence[Path]) -> FingerprintedPlace:
    return FingerprintedPlace(
        f"encoder {source.name}, pre-trained by this run", f"encoder:{source.name}", _refuse_untrained
    )


def _refuse_untrained(where: str) -> str:
    raise ResourceError("its pretrain job has not run yet")


def _find_use(source: ResourceSource, models_path: Sequence[Path]) -> FingerprintedPlace:
    if not _installed("tensorflow_hub") or not _installed("tensorflow"):
        raise ResourceError(
            "the Universal Sentence Encoder needs TensorFlow; run `pip install 'rbench[use]'`, "
            "or choose the resource set `standard`, which uses sentence-transformers instead"
        )
    place = _find_on_path(source.name or "universal-sentence-encoder", models_path)
    if place is None:
        root = Path(os.environ.get("TFHUB_CACHE_DIR") or Path(tempfile.gettempdir()) / "tfhub_modules")
        # TensorFlow Hub names a module's folder after the sha1 of its address.
        place = root / hashlib.sha1(USE_ADDRESS.encode(), usedforsecurity=False).hexdigest()
    if not (place / "saved_model.pb").is_file():
        raise ResourceError(
            f"no Universal Sentence Encoder: no {source.name or 'universal-sentence-encoder'} in "
            f"{format_search_path(models_path)}, nor is it in TensorFlow Hub's cache; run `python -c \"import "
            f"tensorflow_hub as h; h.load('{USE_ADDRESS}')\"` with TFHUB_CACHE_DIR set to a folder that stays"
        )
    return _located_at(str(place), _FilesHash("use"))


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


_FINDERS: dict[ResourceKind, dict[str, Finder]] = {
    "word_vectors": {"textattack-counterfitted": _find_counterfitted, "folder": _find_vectors, "mini": _find_mini},
    "synonyms": {
        "wordnet": _WORDNET.find,
        "folder": _find_synonym_list,
        "wordnet-and-folder": _wordnet_and_list,
        "mini": _find_mini,
    },
    "masked_lm": {"hub": _find_model, "folder": _find_model, "encoder": _find_trained},
    "sentence_encoder": {"sentence-transformers": _find_model, "use": _find_use, "mini": _find_mini},
    "pos_tagger": {
        "nltk": _NltkFinder(("averaged_perceptron_tagger_eng", "universal_tagset")).find,
        "mini": _find_mini,
    },
    "stopwords": {"nltk": _NltkFinder(("stopwords",)).find, "mini": _find_mini},
}
