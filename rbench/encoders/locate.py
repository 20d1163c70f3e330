"""Find an encoder's weights: a folder on the model search path, or the hub. Imports no torch and loads no weights."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from rbench.encoders.foreign import (
    ADAPTER_FILE,
    FIRST_KINDS,
    check_files,
    is_adapter,
    modules_after_pooling,
    read_modules,
)
from rbench.encoders.vectors import find_vector_files
from rbench.errors import ResourceError
from rbench.mini import lexical as mini
from rbench.schema import EncoderSpec
from rbench.schema.unlisted import is_path
from rbench.system import digests
from rbench.system.digests import FingerprintedPlace

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "tokenizer.model",
    # Files of translation models, which make positives by back-translation.
    "source.spm",
    "target.spm",
    "target_vocab.json",
    "generation_config.json",
)

ENDPOINT = "endpoint.json"
"""The file of a saved victim that names an encoder which is asked (`rbench.encoders.remote`)."""
TRANSFORM, TRANSFORM_ABOUT = "transform", "rbench.json"
"""The folder beside a network that has its transform (`rbench.encoders.transform`), and the file that describes it."""
STATIC_TYPE = "rbench-static"
"""The model type of static word vectors (`rbench.encoders.static`)."""
ENCODER_HALVES = ("t5", "mt5", "umt5")
"""Models of an encoder and a decoder of which the encoder alone is read. Their folders may lack the decoder."""
EMBEDDED_VECTORS = "mini:word_vectors"
"""Stands for the place of the embedded world's word vectors, which are in no file."""
PACKAGED = Path(__file__).resolve().parent.parent / "packaged"
"""Trained encoders that come with rbench. `benchmarks/package_weights.py` makes them."""
EMBEDDED_TOKENIZER = "mini:tokenizer"
"""Stands for the place of the embedded world's tokenizer, which is in no file."""


def locate(spec: EncoderSpec, models_path: Sequence[Path] = ()) -> FingerprintedPlace:
    """Find the weights of `spec`, an encoder that no job trains and whose base is not an encoder of the registry.

    The first of these is taken: a folder `<name>` on the model search path; a folder `<base>` there; the same two in
    `PACKAGED`; `<base>` itself, if it is the path of a folder; the hub id `<base>`, in the hub cache or at
    `HF_ENDPOINT`. A folder counts if it has a config.json, or the modules.json of sentence-transformers. Word vectors
    are looked for as a file or folder `<name>` on the search path, then `<word_vectors>` there, then as the path
    `<word_vectors>`; never on the hub.

    An encoder behind an endpoint is asked for fixed texts.

    An encoder that keeps random weights has the place of its tokenizer: a folder `<tokenizer>` or the hub id
    `<tokenizer>`, found as a base is, or `EMBEDDED_TOKENIZER` where it names none.

    The place returned is what `load` takes: a folder, or `id@commit` for the hub; for word vectors a file, a folder or
    `EMBEDDED_VECTORS`. Its fingerprint is the hash of the content (of a tokenizer's place: of the tokenizer's files),
    or the hub's commit.

    Raises:
        ResourceError: found nowhere; says where it looked and how to get it.
    """
    assert spec.train is None, "a pretrain job makes its weights"
    if spec.endpoint is not None:
        from rbench.encoders import asked_vectors

        return asked_vectors.locate(spec)
    if spec.word_vectors is not None:
        return _locate_vectors(spec, spec.word_vectors, models_path)
    if spec.random_weights:
        from rbench.encoders import architecture

        architecture.check_keys(spec)
        if spec.tokenizer is None:
            return FingerprintedPlace(EMBEDDED_TOKENIZER, hash_tokenizer(EMBEDDED_TOKENIZER), hash_tokenizer)
    base = spec.base or spec.tokenizer or spec.name
    role, hash_place = ("tokenizer", hash_tokenizer) if spec.random_weights else ("base", hash_model)
    # The hub comes last: what a user put into a folder wins over a download of the same name.
    candidates = candidate_places((*models_path, PACKAGED), spec.name, base, relative=not spec.unlisted)
    folder = next(filter(_is_model, candidates), None)
    if folder is not None:
        if not is_adapter(folder):
            return FingerprintedPlace(str(folder), hash_place(str(folder)), hash_place)
        from rbench.encoders import adapters

        return adapters.merge_adapter(folder)
    from rbench.system import hub

    if is_path(base) or not hub.is_repo_id(base):
        no_folder = "" if Path(base).expanduser().exists() else ": there is no such folder"
        raise ResourceError(
            f"encoder `{spec.name}`: its {role} {base!r} is neither a folder with a config.json nor a hub "
            f"id{no_folder}."
        )
    try:
        return locate_on_hub(base, spec.revision)
    except ResourceError as error:
        raise ResourceError(_not_found_message(spec, base, models_path, str(error))) from error


def candidate_places(models_path: Sequence[Path], *names: str, relative: bool = True) -> Iterator[Path]:
    """Yield where something of one of these names may be: in each folder of the search path, then the last as a path.

    It counts as a path where it is written as one, or, if `relative`, has a separator. No name leads out of a folder.
    """
    for root in models_path:
        for name in names:
            part = PurePosixPath(name)
            if not part.is_absolute() and ".." not in part.parts and "\\" not in name:
                yield root / name
    path = Path(names[-1]).expanduser()
    if is_path(names[-1]) or (relative and len(path.parts) > 1):
        yield path


def format_search_path(models_path: Sequence[Path]) -> str:
    """Return the search path as text, for messages."""
    return ", ".join(map(str, models_path)) or "the model search path, which is empty"


def hash_model(where: Path | str) -> str:
    """Return the hash of the weights, config and tokenizer in a folder: 64 hex digits.

    The folder's path and dates do not enter.
    """
    folder = Path(where)
    check_files(folder)
    transforms = find_transform_folders(folder)
    transform_files = [
        path for transform in transforms if transform.is_dir() for path in sorted(transform.iterdir()) if path.is_file()
    ]
    # modules.json alone says in which order several transforms are applied. Its other content does not change vectors.
    order = [folder / "modules.json"] if len(transforms) > 1 else []
    return digests.hash_files([*_model_files(find_transformer_folder(folder)), *transform_files, *order])


def hash_tokenizer(where: str) -> str:
    """Return the hash of the tokenizer and config in a folder, or of the embedded world's tokenizer: 64 hex digits.

    Weights do not enter: an encoder with random weights reads none.
    """
    if where == EMBEDDED_TOKENIZER:
        from rbench.encoders.architecture import hash_embedded_vocabulary

        return hash_embedded_vocabulary()
    check_files(Path(where))
    root = find_transformer_folder(Path(where))
    return digests.hash_files(
        sorted(path for name in ("config.json", *TOKENIZER_FILES) if (path := root / name).is_file())
    )


def check_tokenizer(root: Path, who: str) -> None:
    """Raise ResourceError where a model's folder has no tokenizer: what transformers then says names no remedy.

    `who` begins the message: whose tokenizer it is.
    """
    if not any((root / name).is_file() for name in TOKENIZER_FILES):
        raise ResourceError(
            f"{who}: {root} has no tokenizer (tokenizer.json, vocab.txt or the like); write that of the model there "
            "with `tokenizer.save_pretrained(...)`"
        )


def locate_on_hub(repo: str, revision: str | None) -> FingerprintedPlace:
    """Return the place of a model on the hub. Raises ResourceError where it is not there, or cannot be asked for."""
    from rbench.system import hub

    commit = hub.commit(repo, revision)
    return FingerprintedPlace(f"{repo}@{commit}", commit, _commit_of)


def _commit_of(where: str) -> str:
    return where.rpartition("@")[2]


def find_transformer_folder(folder: Path) -> Path:
    """Return the folder with config.json and weights: `folder`, or the one that modules.json names.

    Of a StaticEmbedding it is the folder with its table and tokenizer.

    Raises:
        ResourceError: as `rbench.encoders.foreign.read_modules`.
    """
    return folder / next((path for kind, path in read_modules(folder) if kind in FIRST_KINDS), "")


def find_transform_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders of what follows the pooling, in order; empty where there is nothing.

    They are those of the modules after the pooling in modules.json (of a normalisation before another module there may
    be none on disk), or `TRANSFORM`.

    Raises:
        ResourceError: as `find_transformer_folder`.
    """
    after = tuple(path for _, path in modules_after_pooling(folder))
    return after or ((folder / TRANSFORM,) if (folder / TRANSFORM / TRANSFORM_ABOUT).is_file() else ())


def why_no_flow() -> str:
    """Return a message with the remedy if the package `normflows` is not installed; else the empty string."""
    if importlib.util.find_spec("normflows") is not None:
        return ""
    return "a flow needs the package normflows; `pip install 'rbench[flow]'` installs it"


def has_vectors(where: str) -> bool:
    """Return whether `where` has word vectors: `EMBEDDED_VECTORS`, a file, or a folder with vectors that is not a
    model."""
    place = Path(where)
    if where == EMBEDDED_VECTORS or place.is_file() or not place.is_dir() or _is_model(place):
        return where == EMBEDDED_VECTORS or place.is_file()
    try:
        return bool(find_vector_files(place))
    except ResourceError:
        return False


def _locate_vectors(spec: EncoderSpec, name: str, models_path: Sequence[Path]) -> FingerprintedPlace:
    if name == "mini":
        return FingerprintedPlace(EMBEDDED_VECTORS, _hash_vectors(EMBEDDED_VECTORS), _hash_vectors)
    place = next((place for place in candidate_places(models_path, spec.name, name) if has_vectors(str(place))), None)
    if place is None:
        raise ResourceError(
            f"encoder `{spec.name}`: no word vectors {spec.name} or {name} in {format_search_path(models_path)}. Put "
            f"the file (GloVe or word2vec: .txt, .vec or .bin) at DIR/{name}, then pass --models DIR or set "
            "RBENCH_MODELS=DIR."
        )
    return FingerprintedPlace(str(place), _hash_vectors(str(place)), _hash_vectors)


def _hash_vectors(where: str) -> str:
    if where == EMBEDDED_VECTORS:
        return digests.hash_files(mini.sources())
    return digests.hash_files(find_vector_files(Path(where)))


def _is_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", "modules.json", ADAPTER_FILE))


def _model_files(root: Path) -> Iterator[Path]:
    """Yield the files of config, weights, tokenizer, and Python code that the folder says belongs to them, by name.

    Pickled weights are left out where transformers prefers safetensors: model.safetensors, or its parts.
    """
    weights = sorted(root.glob("*.safetensors"))
    if not any(path.name.startswith("model") for path in weights):
        weights += sorted(root.glob("pytorch_model*.bin"))
    if not weights:
        raise ResourceError(f"{root} has no weights (*.safetensors or pytorch_model*.bin)")
    small_files = [path for name in ("config.json", *TOKENIZER_FILES) if (path := root / name).is_file()]
    configs = [path for path in small_files if path.name in ("config.json", "tokenizer_config.json")]
    # They may name classes of the folder's own, which `trust_remote_code` runs.
    own_code = root.glob("*.py") if any(b'"auto_map"' in path.read_bytes() for path in configs) else ()
    yield from sorted([*weights, *small_files, *own_code])


def _not_found_message(spec: EncoderSpec, base: str, models_path: Sequence[Path], reason: str) -> str:
    if spec.unlisted:
        revision_option = f" --revision {spec.revision}" if spec.revision else ""
        return (
            f"encoder `{base}`: {reason}. Check the id. Where there is a network, `hf download "
            f"{base}{revision_option}` puts it into the hub's cache, and `hf download {base}{revision_option} "
            "--local-dir DIR` into a folder to name instead."
        )
    folder_names = f"{spec.name}" if base == spec.name else f"{spec.name} or {base}"
    revision_option = f" --revision {spec.revision}" if spec.revision else ""
    # A hub id has an owner, except for a few old models. A name without owner is most likely a folder's.
    how_to_get = (
        f"Get it with `hf download {base}{revision_option} --local-dir DIR/{spec.name}` where there is a network"
        if "/" in base or spec.revision
        else f"A name without owner is mostly that of a folder: put config.json, weights and tokenizer into DIR/{base}"
    )
    return (
        f"encoder `{spec.name}`: no folder {folder_names} in {format_search_path(models_path)}; {reason}. "
        f"{how_to_get}, then pass --models DIR or set RBENCH_MODELS=DIR."
    )
