"""Where an encoder's weights are: a folder on the model search path, or the hub. Imports no torch, loads no weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from rbench import hub
from rbench.errors import ResourceError
from rbench.spec import EncoderSpec

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
)

_digests: dict[tuple[str, int, int], str] = {}


@dataclass(frozen=True)
class Located:
    """Where an encoder's weights are.

    `where` is what `load` takes: a folder's path, or `id@commit` for the hub; for a trained encoder, whose folder only
    its pretrain job knows, the encoder's own name. `fingerprint` is the hash of the folder's content or the hub's
    commit, and empty for a trained encoder (its job's key says more).
    """

    kind: Literal["folder", "hub", "trained"]
    where: str
    revision: str | None
    fingerprint: str


def locate(spec: EncoderSpec, models_path: Sequence[Path] = ()) -> Located:
    """Find the weights of `spec`, whose base is no other registry encoder (the caller follows such chains).

    In order: a folder `<name>`, then `<base>`, on the model search path; a base that is itself the path of a folder;
    the hub (its cache counts, so does `HF_ENDPOINT`). A folder counts when it has a config.json, or the modules.json of
    sentence-transformers.

    Raises:
        ResourceError: found nowhere; says where it looked and how to get it.
    """
    if spec.train is not None:
        return Located("trained", spec.name, None, "")
    base = spec.base or spec.name
    folder = _folder(spec.name, base, models_path)
    if folder is not None:
        return Located("folder", str(folder), None, fingerprint(folder))
    if not hub.REPO_ID.fullmatch(base) or ".." in base:
        raise ResourceError(
            f"encoder `{spec.name}`: its base {base!r} is neither a folder with a config.json nor a hub id."
        )
    try:
        commit = hub.commit(base, spec.revision)
    except ResourceError as error:
        raise ResourceError(_not_found(spec, base, models_path, str(error))) from error
    return Located("hub", f"{base}@{commit}", commit, commit)


def fingerprint(folder: Path) -> str:
    """Hash of the weights, config and tokenizer in `folder`: 64 hex digits, blind to where it lies and to dates."""
    root = transformer_folder(folder)
    digest = hashlib.sha256()
    for path in _content(root):
        digest.update(f"{path.name}\0{_file_digest(path)}\n".encode())
    return digest.hexdigest()


def transformer_folder(folder: Path) -> Path:
    """The folder with config.json and weights: `folder`, or where modules.json (sentence-transformers) puts it.

    Raises:
        ResourceError: there are modules other than transformer, pooling and normalisation; or modules.json is damaged.
    """
    modules = folder / "modules.json"
    if not modules.is_file():
        return folder
    try:
        listed = [
            (str(entry["type"]).rsplit(".", 1)[-1], str(entry.get("path", "")))
            for entry in json.loads(modules.read_text())
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResourceError(f"{modules}: not a list of sentence-transformers modules ({error})") from error
    foreign = sorted({kind for kind, _ in listed} - {"Transformer", "Pooling", "Normalize"})
    if foreign:
        raise ResourceError(
            f"{folder}: its modules.json asks for {', '.join(foreign)}; rbench reads sentence-transformers models "
            "made of a transformer, pooling and normalisation only"
        )
    part = next((path for kind, path in listed if kind == "Transformer"), "")
    if PurePosixPath(part).is_absolute() or ".." in PurePosixPath(part).parts:
        raise ResourceError(f"{modules}: the path {part!r} leaves the model's folder")
    return folder / part


def _folder(name: str, base: str, models_path: Sequence[Path]) -> Path | None:
    for root in models_path:
        for part in (name, base):
            if _stays_inside(part) and _is_model(root / part):
                return root / part
    path = Path(base).expanduser()
    explicit = path.is_absolute() or len(path.parts) > 1
    return path if explicit and _is_model(path) else None


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


def _is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file() or (folder / "modules.json").is_file()


def _content(root: Path) -> Iterator[Path]:
    """Config, weights (safetensors before pickled ones, as transformers prefers them) and tokenizer, by name."""
    weights = sorted(root.glob("*.safetensors")) or sorted(root.glob("pytorch_model*.bin"))
    if not weights:
        raise ResourceError(f"{root} has no weights (*.safetensors or pytorch_model*.bin)")
    small = (root / name for name in ("config.json", *TOKENIZER_FILES))
    yield from sorted([*weights, *(path for path in small if path.is_file())])


def _file_digest(path: Path) -> str:
    stat = path.stat()
    key = (str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    if key not in _digests:
        with path.open("rb") as file:
            _digests[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _digests[key]


def _not_found(spec: EncoderSpec, base: str, models_path: Sequence[Path], reason: str) -> str:
    names = f"{spec.name}" if base == spec.name else f"{spec.name} or {base}"
    looked = ", ".join(str(path) for path in models_path) or "the model search path, which is empty"
    at = f" --revision {spec.revision}" if spec.revision else ""
    return (
        f"encoder `{spec.name}`: no folder {names} in {looked}; {reason}. "
        f"Get it with `hf download {base}{at} --local-dir DIR/{spec.name}` where there is a network, "
        "then pass --models DIR or set RBENCH_MODELS=DIR."
    )
