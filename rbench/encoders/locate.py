"""Find an encoder's weights: a folder on the model search path, or the hub. Imports no torch and loads no weights."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from rbench.encoders.foreign import ADAPTER, FIRST, after_pooling, check_files, is_adapter, modules
from rbench.encoders.vectors import vector_files
from rbench.errors import ResourceError
from rbench.mini import lexical as mini
from rbench.schema import EncoderSpec
from rbench.schema.unlisted import is_path
from rbench.system import digests
from rbench.system.digests import Located

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
STATIC = "rbench-static"
"""The model type of static word vectors (`rbench.encoders.static`)."""
ENCODER_HALVES = ("t5", "mt5", "umt5")
"""Models of an encoder and a decoder of which the encoder alone is read. Their folders may lack the decoder."""
EMBEDDED = "mini:word_vectors"
"""Stands for the place of the embedded world's word vectors, which are in no file."""
PACKAGED = Path(__file__).resolve().parent.parent / "packaged"
"""Trained encoders that come with rbench. `benchmarks/package_weights.py` makes them."""
EMBEDDED_TOKENIZER = "mini:tokenizer"
"""Stands for the place of the embedded world's tokenizer, which is in no file."""


def locate(spec: EncoderSpec, models_path: Sequence[Path] = ()) -> Located:
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
    `EMBEDDED`. Its fingerprint is the hash of the content (of a tokenizer's place: of the tokenizer's files), or the
    hub's commit.

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

        if wrong := architecture.problem(spec):
            raise ResourceError(wrong)
        if spec.tokenizer is None:
            return Located(EMBEDDED_TOKENIZER, tokenizer_fingerprint(EMBEDDED_TOKENIZER), tokenizer_fingerprint)
    base = spec.base or spec.tokenizer or spec.name
    what, mark = ("tokenizer", tokenizer_fingerprint) if spec.random_weights else ("base", fingerprint)
    named = places((*models_path, PACKAGED), spec.name, base, relative=not spec.unlisted)
    folder = next(filter(_is_model, named), None)
    if folder is not None:
        if not is_adapter(folder):
            return Located(str(folder), mark(str(folder)), mark)
        from rbench.encoders import adapters

        return adapters.merged(folder)
    from rbench.system import hub

    if is_path(base) or not hub.is_repo_id(base):
        there = "" if Path(base).expanduser().exists() else ": there is no such folder"
        raise ResourceError(
            f"encoder `{spec.name}`: its {what} {base!r} is neither a folder with a config.json nor a hub id{there}."
        )
    try:
        return on_hub(base, spec.revision)
    except ResourceError as error:
        raise ResourceError(_not_found(spec, base, models_path, str(error))) from error


def places(models_path: Sequence[Path], *names: str, relative: bool = True) -> Iterator[Path]:
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


def searched(models_path: Sequence[Path]) -> str:
    """Return the search path as text, for messages."""
    return ", ".join(map(str, models_path)) or "the model search path, which is empty"


def fingerprint(where: Path | str) -> str:
    """Return the hash of the weights, config and tokenizer in a folder: 64 hex digits.

    The folder's path and dates do not enter.
    """
    folder = Path(where)
    check_files(folder)
    after = transform_folders(folder)
    more = [path for one in after if one.is_dir() for path in sorted(one.iterdir()) if path.is_file()]
    order = [folder / "modules.json"] if len(after) > 1 else []
    return digests.of_files([*_content(transformer_folder(folder)), *more, *order])


def tokenizer_fingerprint(where: str) -> str:
    """Return the hash of the tokenizer and config in a folder, or of the embedded world's tokenizer: 64 hex digits.

    Weights do not enter: an encoder with random weights reads none.

    Raises:
        ResourceError: the folder has no tokenizer.
    """
    if where == EMBEDDED_TOKENIZER:
        from rbench.encoders.architecture import embedded_vocabulary

        return embedded_vocabulary()
    check_files(Path(where))
    root = transformer_folder(Path(where))
    files = [path for name in ("config.json", *TOKENIZER_FILES) if (path := root / name).is_file()]
    if not any(path.name in TOKENIZER_FILES for path in files):
        raise ResourceError(f"{root} has no tokenizer (tokenizer.json, vocab.txt or the like)")
    return digests.of_files(sorted(files))


def check_tokenizer(root: Path, who: str) -> None:
    """Raise ResourceError where a model's folder has no tokenizer: what transformers then says names no remedy.

    `who` begins the message: whose tokenizer it is.
    """
    if not any((root / name).is_file() for name in TOKENIZER_FILES):
        raise ResourceError(
            f"{who}: {root} has no tokenizer (tokenizer.json, vocab.txt or the like); write that of the model there "
            "with `tokenizer.save_pretrained(...)`"
        )


def on_hub(repo: str, revision: str | None) -> Located:
    """Return the place of a model on the hub. Raises ResourceError where it is not there, or cannot be asked for."""
    from rbench.system import hub

    commit = hub.commit(repo, revision)
    return Located(f"{repo}@{commit}", commit, _commit)


def _commit(where: str) -> str:
    return where.rpartition("@")[2]


def transformer_folder(folder: Path) -> Path:
    """Return the folder with config.json and weights: `folder`, or the one that modules.json names.

    Of a StaticEmbedding it is the folder with its table and tokenizer.

    Raises:
        ResourceError: as `rbench.encoders.foreign.modules`.
    """
    return folder / next((path for kind, path in modules(folder) if kind in FIRST), "")


def transform_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders of what follows the pooling, in order; empty where there is nothing.

    They are those of the modules after the pooling in modules.json (of a normalisation before another module there may
    be none on disk), or `TRANSFORM`.

    Raises:
        ResourceError: as `transformer_folder`.
    """
    after = tuple(path for _, path in after_pooling(folder))
    return after or ((folder / TRANSFORM,) if (folder / TRANSFORM / TRANSFORM_ABOUT).is_file() else ())


def flow_missing() -> str:
    """Return a message with the remedy if the package `normflows` is not installed; else the empty string."""
    if importlib.util.find_spec("normflows") is not None:
        return ""
    return "a flow needs the package normflows; `pip install 'rbench[flow]'` installs it"


def is_vectors(where: str) -> bool:
    """Return whether `where` has word vectors: `EMBEDDED`, a file, or a folder with vectors that is not a model."""
    place = Path(where)
    if where == EMBEDDED or place.is_file() or not place.is_dir() or _is_model(place):
        return where == EMBEDDED or place.is_file()
    try:
        return bool(vector_files(place))
    except ResourceError:
        return False


def _locate_vectors(spec: EncoderSpec, name: str, models_path: Sequence[Path]) -> Located:
    if name == "mini":
        return Located(EMBEDDED, _vectors_fingerprint(EMBEDDED), _vectors_fingerprint)
    place = next((place for place in places(models_path, spec.name, name) if is_vectors(str(place))), None)
    if place is None:
        raise ResourceError(
            f"encoder `{spec.name}`: no word vectors {spec.name} or {name} in {searched(models_path)}. Put the file "
            f"(GloVe or word2vec: .txt, .vec or .bin) at DIR/{name}, then pass --models DIR or set RBENCH_MODELS=DIR."
        )
    return Located(str(place), _vectors_fingerprint(str(place)), _vectors_fingerprint)


def _vectors_fingerprint(where: str) -> str:
    if where == EMBEDDED:
        return digests.of_files(mini.sources())
    return digests.of_files(vector_files(Path(where)))


def _is_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", "modules.json", ADAPTER))


def _content(root: Path) -> Iterator[Path]:
    """Yield the files of config, weights, tokenizer, and Python code that the folder says belongs to them, by name.

    Pickled weights are left out where transformers prefers safetensors: model.safetensors, or its parts.
    """
    weights = sorted(root.glob("*.safetensors"))
    if not any(path.name.startswith("model") for path in weights):
        weights += sorted(root.glob("pytorch_model*.bin"))
    if not weights:
        raise ResourceError(f"{root} has no weights (*.safetensors or pytorch_model*.bin)")
    small = [path for name in ("config.json", *TOKENIZER_FILES) if (path := root / name).is_file()]
    configs = [path for path in small if path.name in ("config.json", "tokenizer_config.json")]
    # They may name classes of the folder's own, which `trust_remote_code` runs.
    own_code = root.glob("*.py") if any(b'"auto_map"' in path.read_bytes() for path in configs) else ()
    yield from sorted([*weights, *small, *own_code])


def _not_found(spec: EncoderSpec, base: str, models_path: Sequence[Path], reason: str) -> str:
    if spec.unlisted:
        at = f" --revision {spec.revision}" if spec.revision else ""
        return (
            f"encoder `{base}`: {reason}. Check the id. Where there is a network, `hf download {base}{at}` puts it "
            f"into the hub's cache, and `hf download {base}{at} --local-dir DIR` into a folder to name instead."
        )
    names = f"{spec.name}" if base == spec.name else f"{spec.name} or {base}"
    at = f" --revision {spec.revision}" if spec.revision else ""
    # A hub id has an owner, except for a few old models. A name without owner is most likely a folder's.
    get = (
        f"Get it with `hf download {base}{at} --local-dir DIR/{spec.name}` where there is a network"
        if "/" in base or spec.revision
        else f"A name without owner is mostly that of a folder: put config.json, weights and tokenizer into DIR/{base}"
    )
    return (
        f"encoder `{spec.name}`: no folder {names} in {searched(models_path)}; {reason}. "
        f"{get}, then pass --models DIR or set RBENCH_MODELS=DIR."
    )
