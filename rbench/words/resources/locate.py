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

from rbench.config.registry import unknown
from rbench.encoders.locate import fingerprint as encoder_fingerprint
from rbench.encoders.locate import locate as find_encoder
from rbench.encoders.locate import places, searched
from rbench.encoders.vectors import COUNTERFITTED, vector_files
from rbench.errors import ResourceError, SuiteError
from rbench.mini import lexical as mini
from rbench.schema import EncoderSpec, ResourceKind, ResourceSet, Source
from rbench.system import digests
from rbench.system.digests import Located
from rbench.words.resources.lexical import nltk_package

USE = "https://tfhub.dev/google/universal-sentence-encoder/3"
"""The version that TextAttack's recipes load."""


COUNTERFITTED_KIND = "textattack-counterfitted"
Finder = Callable[[Source, Sequence[Path]], Located]


@dataclass(frozen=True)
class _Files:
    """Computes the fingerprint of the files that a loader reads at a place. Equal ones stay so in another process."""

    loader: str

    def __call__(self, where: str) -> str:
        match self.loader:
            case "mini":
                return digests.of_files(mini.sources())
            case "textattack-counterfitted":
                return digests.of_files(Path(where) / name for name in COUNTERFITTED)
            case "vectors":
                return digests.of_files(vector_files(Path(where)))
            case "use":
                return digests.of_files(sorted(path for path in Path(where).rglob("*") if path.is_file()))
        return digests.of_files([Path(where)])


def locate(
    resource_set: ResourceSet,
    needs: Collection[ResourceKind] | Mapping[ResourceKind, Collection[str]],
    models_path: Sequence[Path] = (),
) -> dict[ResourceKind, Located]:
    """Find all resources in `needs`. A mapping gives for each resource the attacks that need it, for the message.

    Raises:
        SuiteError: the resource set names a kind of source that does not exist.
        ResourceError: resources are missing; one message names all of them, who needs them, and how to get them.
    """
    found: dict[ResourceKind, Located] = {}
    problems, fetched = [], False
    for kind in sorted(needs):
        users = needs[kind] if isinstance(needs, Mapping) else ()
        try:
            found[kind] = _locate(kind, resource_set, models_path)
        except ResourceError as error:
            why = f" (needed by {', '.join(users)})" if users else ""
            problems.append(f"{kind} of resource set {resource_set.name}{why}: {error}")
            fetched = fetched or fetchable(kind, resource_set)
    if problems:
        # A line is a resource, and is counted as one.
        fetching = "; `rbench status --environment SUITE --fix` fetches NLTK's data and the word vectors"
        problems[-1] += fetching if fetched else ""
        raise ResourceError("\n".join(problems))
    return found


def checks(
    resource_set: ResourceSet, models_path: Sequence[Path] = ()
) -> list[tuple[ResourceKind, str, bool, str, str]]:
    """Return (kind, name, ok, where, remedy) for each resource of the set. Raises nothing."""
    lines: list[tuple[ResourceKind, str, bool, str, str]] = []
    kinds: tuple[ResourceKind, ...] = get_args(ResourceKind)
    for kind in kinds:
        source: Source | None = getattr(resource_set, kind)
        if source is None:
            continue
        name = source.name or source.kind
        try:
            lines.append((kind, name, True, _locate(kind, resource_set, models_path).where, ""))
        except (ResourceError, SuiteError) as error:
            lines.append((kind, name, False, "", str(error)))
    return lines


def _locate(kind: ResourceKind, resource_set: ResourceSet, models_path: Sequence[Path]) -> Located:
    source: Source | None = getattr(resource_set, kind)
    if source is None:
        raise ResourceError(
            f"the resource set has none; choose another resource set, or name one under `resources: {{{kind}: ...}}`"
        )
    finders = _FINDERS[kind]
    if source.kind not in finders:
        raise SuiteError(f"resource set {resource_set.name}: " + unknown(f"kind of {kind}", source.kind, finders))
    how = loader(kind, source)
    if not source.name and how in ("folder", "hub", "encoder", "sentence-transformers"):
        raise ResourceError(f"the resource set names no folder; add `{kind}: FOLDER` under `resources`")
    return finders[how](source, models_path)


def loader(kind: ResourceKind, source: Source) -> str:
    """Return the loader of `source`: its kind, or the loader of folders if a kind that takes no name has one.

    Raises:
        SuiteError: the source has a name, and this resource cannot come from a folder.
    """
    if source.name is None or source.kind not in ("textattack-counterfitted", "wordnet", "mini", "nltk"):
        return source.kind
    named = {"word_vectors": "folder", "synonyms": "folder", "sentence_encoder": "sentence-transformers"}
    if kind not in named:
        raise SuiteError(f"{kind}: the kind {source.kind} takes no name, but has the name {source.name}")
    return named[kind]


# ---------------------------------------------------------------------------------------------------------- finders


def _found(where: str, mark: Callable[[str], str]) -> Located:
    return Located(where, mark(where), mark)


def _mini(source: Source, models_path: Sequence[Path]) -> Located:
    return _found("the embedded world (rbench.mini)", _Files("mini"))


def _on_path(name: str, models_path: Sequence[Path]) -> Path | None:
    return next((place for place in places(models_path, name) if place.exists()), None)


def counterfitted_folder() -> Path:
    """Return the folder of TextAttack's cache for its counter-fitted word vectors."""
    cache = Path(os.environ.get("TA_CACHE_DIR") or Path.home() / ".cache" / "textattack")
    return cache / "word_embeddings" / "paragramcf"


def _counterfitted(source: Source, models_path: Sequence[Path]) -> Located:
    folder = counterfitted_folder()
    if not all((folder / name).is_file() for name in COUNTERFITTED):
        raise ResourceError(
            f"TextAttack's counter-fitted word vectors are not in {folder}; run `python -c 'from textattack.shared "
            "import WordEmbedding; WordEmbedding.counterfitted_GLOVE_embedding()'` with a network connection (481 MB), "
            "or choose the resource set `local` with word vectors of your own"
        )
    return _found(str(folder), _Files("textattack-counterfitted"))


def _vectors(source: Source, models_path: Sequence[Path]) -> Located:
    place = _on_path(str(source.name), models_path)
    if place is None:
        raise ResourceError(
            f"there is no {source.name} in {searched(models_path)}; make a folder DIR/{source.name} with vectors.npy "
            "and words.txt, or with one word2vec file, then pass --models DIR (or set RBENCH_MODELS=DIR)"
        )
    return _found(str(place), _Files("vectors"))


def _synonym_list(source: Source, models_path: Sequence[Path]) -> Located:
    place = _on_path(str(source.name), models_path)
    path = place / "synonyms.txt" if place is not None and place.is_dir() else place
    if path is None or not path.is_file():
        raise ResourceError(
            f"there is no {source.name}/synonyms.txt in {searched(models_path)}; write this file below a folder DIR, "
            "two words a line, then pass --models DIR (or set RBENCH_MODELS=DIR)"
        )
    return _found(str(path), _Files("synonyms"))


@dataclass(frozen=True)
class _Nltk:
    """Finds some of NLTK's packages (`find`), and computes the fingerprint of what attacks read of them."""

    packages: tuple[str, ...]

    def find(self, source: Source, models_path: Sequence[Path]) -> Located:
        found, problems = [], []
        for package in self.packages:
            try:
                found.append(nltk_package(package)[0])
            except ResourceError as error:
                problems.append(str(error))
        if problems:
            raise ResourceError("; ".join(problems))
        return _found(", ".join(found), self)

    def __call__(self, where: str) -> str:
        found = [nltk_package(package)[1] for package in self.packages]
        return hashlib.sha256("\n".join(found).encode()).hexdigest()


def fetchable(kind: ResourceKind, resource_set: ResourceSet) -> bool:
    """Whether `rbench status --environment --fix` fetches a resource: NLTK's data, or TextAttack's word vectors."""
    source: Source | None = getattr(resource_set, kind)
    if source is None or source.kind not in _FINDERS[kind]:
        return False
    return bool(nltk_packages(kind, source)) or (source.kind == COUNTERFITTED_KIND and source.name is None)


def nltk_packages(kind: ResourceKind, source: Source) -> tuple[str, ...]:
    """Return NLTK's packages behind a source; none for one of another kind."""
    finder = getattr(_FINDERS[kind].get(loader(kind, source)), "__self__", None)
    return finder.packages if isinstance(finder, _Nltk) else ()


def _model(source: Source, models_path: Sequence[Path]) -> Located:
    name = str(source.name)  # a folder of this name is looked for first, then a hub id
    found = find_encoder(EncoderSpec(name=name.rsplit("/", 1)[-1], base=name, revision=source.revision), models_path)
    return _found(found.where, _of_model) if Path(found.where).is_dir() else found


def _of_model(where: str) -> str:
    """Return the hash of an encoder's weights, config and tokenizer, and of the module configs in its subfolders.

    A sentence-transformers folder has its pooling in such a config.
    """
    mark, pooled = encoder_fingerprint(where), sorted(Path(where).glob("*/config.json"))
    return hashlib.sha256(f"{mark}{digests.of_files(pooled)}".encode()).hexdigest() if pooled else mark


def _trained(source: Source, models_path: Sequence[Path]) -> Located:
    return Located(f"encoder {source.name}, pre-trained by this run", f"encoder:{source.name}", _not_yet)


def _not_yet(where: str) -> str:
    raise ResourceError("its pretrain job has not run yet")


def _use(source: Source, models_path: Sequence[Path]) -> Located:
    if not _installed("tensorflow_hub") or not _installed("tensorflow"):
        raise ResourceError(
            "the Universal Sentence Encoder needs TensorFlow; run `pip install 'rbench[use]'`, "
            "or choose the resource set `standard`, which uses sentence-transformers instead"
        )
    place = _on_path(source.name or "universal-sentence-encoder", models_path)
    if place is None:
        root = Path(os.environ.get("TFHUB_CACHE_DIR") or Path(tempfile.gettempdir()) / "tfhub_modules")
        place = root / hashlib.sha1(USE.encode(), usedforsecurity=False).hexdigest()  # TensorFlow Hub's own naming
    if not (place / "saved_model.pb").is_file():
        raise ResourceError(
            f"no Universal Sentence Encoder: no {source.name or 'universal-sentence-encoder'} in "
            f"{searched(models_path)}, nor is it in TensorFlow Hub's cache; run `python -c \"import "
            f"tensorflow_hub as h; h.load('{USE}')\"` with TFHUB_CACHE_DIR set to a folder that stays"
        )
    return _found(str(place), _Files("use"))


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


_FINDERS: dict[ResourceKind, dict[str, Finder]] = {
    "word_vectors": {"textattack-counterfitted": _counterfitted, "folder": _vectors, "mini": _mini},
    "synonyms": {"wordnet": _Nltk(("wordnet",)).find, "folder": _synonym_list, "mini": _mini},
    "masked_lm": {"hub": _model, "folder": _model, "encoder": _trained},
    "sentence_encoder": {"sentence-transformers": _model, "use": _use, "mini": _mini},
    "pos_tagger": {"nltk": _Nltk(("averaged_perceptron_tagger_eng", "universal_tagset")).find, "mini": _mini},
    "stopwords": {"nltk": _Nltk(("stopwords",)).find, "mini": _mini},
}
