"""Checks the files of a model that somebody else may have made, before transformers builds anything of them.

What is built is bounded by what the weights hold: a config.json of a few bytes could ask for a billion layers. Their
header says that without reading them.

sentence-transformers imports whatever class a module's type names, also from Python files in the folder. So rbench
compares the full name of each type in modules.json with a list, and does not open a folder with any other type.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from rbench.errors import RbenchError, ResourceError

LONGEST_HEADER = 100_000_000
"""Bytes of the header of a safetensors file; the library reads no longer ones."""
LONGEST_JSON = 32 << 20
"""Bytes of a JSON file, unless it lists tokens."""
BYTES_OF_TOKEN = 1024
"""Bytes that a tokenizer's file may have for each row of the weights' largest table; at least LONGEST_JSON."""
LONGEST_TOKENIZER = 1 << 30
MOST_POSITIONS = 16_000_000
"""Positions of a network without a table of them. Nothing that grows with their number is built then."""
MOST_SHARED = 128
"""Layers of a network that uses the weights of one several times (ALBERT)."""

_LAYERS = re.compile(
    r"(num_(hidden|encoder|decoder)_)?layers|n_layers?|num_layers|(en|de)coder_layers|num_hidden_groups"
    r"|inner_group_num|(num|n)_(local_|routed_)?experts|num_blocks|depths?|block_sizes"
)
_POSITIONS = re.compile(r"max_position_embeddings|n_positions|n_ctx|max_seq_len|seq_length|max_target_positions")
_LABELS = re.compile(r"_?num_labels")
NEW_WEIGHTS = 10**8
"""Weights that a network may have beyond those in its files: a head that is not there yet."""
_TABLES = re.compile(r"position_embeddings\.weight$|\bwpe\.weight$|embed_positions\.weight$")
_NUMBERED = re.compile(r"\.(\d+)(?=\.)")
_TOKENS = ("tokenizer.json", "vocab.json", "added_tokens.json", "tokenizer_config.json", "target_vocab.json")
_QUANTISED = ("I8", "U8", "I4", "U4", "F8_E4M3", "F8_E5M2", "F4")


class Tensor(NamedTuple):
    """Type and shape of a tensor, as the header of a safetensors file has them."""

    dtype: str
    shape: tuple[int, ...]


def check_files(folder: Path) -> None:
    """Check that a model's folder has regular files of sensible length alone, and no link that leads out of it.

    The hub's cache has links from a snapshot to its blobs, which are fine.

    Raises:
        ResourceError: names the file and the remedy.
    """
    root = folder.resolve()
    blobs = [above.parent / "blobs" for above in root.parents if above.name == "snapshots"][:1]
    for path in sorted([*folder.glob("*"), *folder.glob("*/*")]):
        if path.is_dir() and not path.is_symlink():
            continue
        if path.is_symlink() and not any(path.resolve().is_relative_to(one) for one in (root, *blobs)):
            raise ResourceError(
                f"{path} is a link that leads out of the model's folder, to {path.readlink()}; put the file itself "
                "there, if you trust it (`cp -L`)"
            )
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ResourceError(f"{path} is no file but a device, a pipe or the like; a model consists of files")
        longest = LONGEST_TOKENIZER if path.name in _TOKENS else LONGEST_JSON
        if path.suffix == ".json" and path.is_file() and (size := path.stat().st_size) > longest:
            raise ResourceError(f"{path} has {size >> 20} MiB, and rbench reads at most {longest >> 20} MiB of it")


def check_model(root: Path) -> None:
    """Check that what config.json and the tokenizer's files ask for is there in the weights.

    Raises:
        ResourceError: the weights are cut off, damaged, quantised or only a pointer to them, or the configuration asks
            for more layers, positions, labels or tokens than the weights have. Names the file and the remedy.
    """
    check_files(root)
    if (root / "adapter_config.json").is_file() and (weights := _weights(root)):
        raise ResourceError(
            f"{root} has an adapter (adapter_config.json) beside whole weights ({weights[0].name}), so it is not clear "
            "which of them is meant; remove one of the two, or merge them: `merge_and_unload()` of the package peft"
        )
    config = object_of(root / "config.json")
    tensors = tensors_of(root)
    if not tensors:
        return  # whoever opens the folder says that there are no weights
    for name, tensor in tensors.items():
        if tensor.dtype in _QUANTISED and name.endswith("weight"):
            raise ResourceError(
                f"{root}: its weights are quantised ({name} has the type {tensor.dtype}), and rbench computes in full "
                "precision; take the model from which they were made"
            )
    if "quantization_config" in config:
        raise ResourceError(
            f"{root / 'config.json'} states a quantisation (`quantization_config`), and rbench computes in full "
            "precision; take the model from which it was made"
        )
    _check_config(root / "config.json", config, tensors)
    _check_tokens(root, max((max(tensor.shape, default=1) for tensor in tensors.values()), default=1))


def check_size(root: Path, kind: Any, config: Any = None) -> None:
    """Check that the network that config.json describes has about as many weights as the files beside it.

    transformers 5 makes weights whose shapes are others than those in the files before it says so, whatever memory that
    takes. Here the network is built without memory, on PyTorch's device `meta`.

    Args:
        kind: the class of transformers that reads it, such as AutoModel.
        config: as transformers reads it; None: it is read here.

    Raises:
        ResourceError: it has more than twice as many weights, and not for a new head or tied embeddings alone.
    """
    import torch
    from transformers import AutoConfig

    if not (there := sum(math.prod(tensor.shape) for tensor in tensors_of(root).values())):
        return  # whoever opens the folder says that there are no weights
    config = config if config is not None else AutoConfig.from_pretrained(root, trust_remote_code=False)
    with torch.device("meta"):
        wanted = sum(weight.numel() for weight in kind.from_config(config).parameters())
    if wanted > 2 * there + NEW_WEIGHTS:
        raise ResourceError(
            f"{root} cannot be read: config.json describes a network of {wanted} weights, and the files beside it have "
            f"{there}; take both from the same model"
        )


def has_weights(root: Path) -> bool:
    """Return whether a folder has weights of a whole network. Raises ResourceError where a part is missing."""
    return bool(_weights(root))


ADAPTER = "adapter_config.json"
"""The file that says of which model a folder holds an adapter (PEFT)."""


def is_adapter(folder: Path) -> bool:
    """Return whether a folder has an adapter and no whole weights."""
    return (folder / ADAPTER).is_file() and not has_weights(folder)


def tensors_of(root: Path, name: str | None = None) -> dict[str, Tensor]:
    """Return the tensors that the weights in a folder hold, by name, without reading them; empty without weights.

    `name`: of the file; None: those of the whole network.

    Raises:
        ResourceError: a file of weights is missing, cut off, damaged, or only a pointer to weights.
    """
    found: dict[str, Tensor] = {}
    for file in _weights(root) if name is None else [root / name]:
        found |= _header(file) if file.suffix == ".safetensors" else _pickled(file)
    return found


def object_of(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one where there is no file.

    Raises ResourceError where it is damaged, holds something else, or is nested too deeply.
    """
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ResourceError(f"{path} is nested too deeply to be read") from None
    except (OSError, ValueError) as error:
        raise ResourceError(f"{path} cannot be read as JSON ({one_line(error)}); save or download it again") from error
    if not isinstance(found, dict):
        raise ResourceError(f"{path} must be a JSON object, with keys and values")
    return found


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever transformers and its libraries raise inside the block into a ResourceError of one line.

    For damaged files they raise many types. A fault in the Rust code of tokenizers is no `Exception` even.

    Args:
        what: begins the message.
    """
    try:
        yield
    except RbenchError:
        raise
    except BaseException as error:
        if not (isinstance(error, Exception) or panicked(error)):
            raise
        raise ResourceError(f"{what}: {one_line(error)}") from error


def panicked(error: BaseException) -> bool:
    """Return whether it is a panic of a library in Rust, which Python code cannot import the type of."""
    return type(error).__name__ == "PanicException"


def one_line(error: BaseException) -> str:
    """Return what an exception says, as one line of at most 300 characters."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= 300 else said[:300] + "..."


def check_finite(model: Any, where: Path) -> None:
    """Raise ResourceError where a weight of a network is NaN or infinite."""
    import torch

    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight.detach().float().sum())) and not bool(torch.isfinite(weight).all()):
            raise ResourceError(
                f"{where}: its weights are not numbers ({name} has NaN or infinity), so its training diverged or the "
                "file is damaged; save or download the model again"
            )


def _weights(root: Path) -> list[Path]:
    """Return the files of weights that transformers reads, in its order of preference."""
    for whole in ("model.safetensors", "pytorch_model.bin"):
        if (root / whole).is_file():
            return [root / whole]
        index = root / f"{whole}.index.json"
        if index.is_file():
            parts = object_of(index).get("weight_map")
            names = sorted({str(part) for part in parts.values()}) if isinstance(parts, dict) else []
            if strange := [name for name in names if "/" in name or "\\" in name or name.startswith(".")]:
                raise ResourceError(f"{index} names a file outside the model's folder, {strange[0]}")
            if missing := [name for name in names if not (root / name).is_file()]:
                raise ResourceError(f"{index} names {missing[0]}, which is not there; download it too")
            return [root / name for name in names]
    return []


def _header(file: Path) -> dict[str, Tensor]:
    size = file.stat().st_size
    with file.open("rb") as opened:
        start = opened.read(8)
        _refuse_pointer(file, start)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > min(LONGEST_HEADER, size - 8):
            raise ResourceError(f"{file} is cut off or damaged: it has {size} bytes and no whole header; {_AGAIN}")
        raw = opened.read(length)
    try:
        listed = {name: entry for name, entry in json.loads(raw).items() if name != "__metadata__"}
        ends = [int(entry["data_offsets"][1]) for entry in listed.values()]
        found = {name: Tensor(str(entry["dtype"]), tuple(map(int, entry["shape"]))) for name, entry in listed.items()}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ResourceError(f"{file} is damaged: its header cannot be read; {_AGAIN}") from error
    if (wanted := 8 + length + max(ends, default=0)) > size:
        raise ResourceError(f"{file} is cut off: it has {size} bytes, and its header tells of {wanted}; {_AGAIN}")
    return found


_AGAIN = "save or download it again"


def _pickled(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a file of PyTorch's. Python code in it is not run."""
    import torch

    with file.open("rb") as opened:
        _refuse_pointer(file, opened.read(8))
    with reading(f"{file} cannot be read as weights of PyTorch; {_AGAIN}"):
        try:
            found = torch.load(file, map_location="meta", mmap=True, weights_only=True)
        except RuntimeError:  # the format of PyTorch before 1.6 cannot be mapped into memory
            found = torch.load(file, map_location="meta", weights_only=True)
        return {
            str(name): Tensor({torch.int8: "I8", torch.uint8: "U8"}.get(one.dtype, "F32"), tuple(one.shape))
            for name, one in found.items()
            if isinstance(one, torch.Tensor)
        }


def _refuse_pointer(file: Path, start: bytes) -> None:
    if start == b"version ":
        raise ResourceError(
            f"{file} is a pointer of git-lfs and not the file itself; run `git lfs pull` in its repository"
        )


def _check_config(path: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    layers = 1 + max((int(one) for name in tensors for one in _NUMBERED.findall(name) if len(one) < 9), default=0)
    if config.get("model_type") == "albert":
        layers = max(layers, MOST_SHARED)
    tables = [tensor.shape[0] for name, tensor in tensors.items() if _TABLES.search(name) and tensor.shape]
    most = {
        _LAYERS: layers,
        _POSITIONS: max(tables, default=MOST_POSITIONS),
        _LABELS: max(1000, *(max(tensor.shape, default=1) for tensor in tensors.values())),
    }
    for key, value in _numbers(config):
        for pattern, limit in most.items():
            if pattern.fullmatch(key) and value > limit:
                raise ResourceError(
                    f"{path} asks for `{key}: {value}`, and the weights beside it have {limit} at most; take both "
                    "files from the same model"
                )


def _numbers(node: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the whole numbers in a configuration, with the key that they stand below."""
    if isinstance(node, dict) and depth < 4:
        for name, value in node.items():
            yield from _numbers(value, str(name), depth + 1)
    elif isinstance(node, list) and depth < 4:
        for value in node:
            yield from _numbers(value, key, depth + 1)
    elif type(node) is int:
        yield key, node


def _check_tokens(root: Path, rows: int) -> None:
    """Check that the tokenizer's files have no more tokens, and no more bytes, than rows of weights explain."""
    for name in _TOKENS:
        path = root / name
        if not path.is_file():
            continue
        if (size := path.stat().st_size) > max(LONGEST_JSON, BYTES_OF_TOKEN * rows):
            raise ResourceError(
                f"{path} has {size >> 20} MiB, far more than a tokenizer for the {rows} rows of the weights; take both "
                "files from the same model"
            )
        found = object_of(path)
        lists = [found.get("added_tokens"), found.get("added_tokens_decoder"), found.get("extra_special_tokens")]
        lists += [found] if name == "added_tokens.json" else []
        added = max((len(one) for one in lists if isinstance(one, list | dict)), default=0)
        if added > rows:
            raise ResourceError(
                f"{path} adds {added} tokens, and the weights have {rows} rows at most; take both files from the same "
                "model"
            )


# --------------------------------------------------------------------- the modules of sentence-transformers

_PLACES = {
    "Transformer": ("base.modules.transformer",),
    "Dense": ("base.modules.dense",),
    "Pooling": ("sentence_transformer.modules.pooling",),
    "Normalize": ("sentence_transformer.modules.normalize", "base.modules.normalize"),  # 5.4, 6.0
    "LayerNorm": ("sentence_transformer.modules.layer_norm",),
    "Dropout": ("sentence_transformer.modules.dropout",),
    "StaticEmbedding": ("sentence_transformer.modules.static_embedding",),
}
"""The Python modules of each kind of module since sentence-transformers 5.4. Before it was `models` for all."""
KINDS = {
    f"sentence_transformers.{place}.{kind}": kind for kind, places in _PLACES.items() for place in ("models", *places)
}
"""Maps a module's type to its kind, with the names that sentence-transformers 2 to 6 write."""
FIRST = ("Transformer", "StaticEmbedding")
"""The kinds that read texts. A StaticEmbedding pools too: it gives the mean of its tokens' vectors."""
_ELEMENTWISE = ("ELU", "GELU", "LeakyReLU", "Mish", "ReLU", "ReLU6", "Sigmoid", "SiLU", "Softplus", "Tanh")
ACTIVATIONS = {
    "torch.nn.Identity": "Identity",
    "torch.nn.modules.linear.Identity": "Identity",
    **{f"torch.nn.{name}": name for name in _ELEMENTWISE},
    **{f"torch.nn.modules.activation.{name}": name for name in _ELEMENTWISE},
}
"""Maps the activation that a Dense module's config.json names to its class in torch.nn. It has its default arguments,
as in sentence-transformers, which would import other names too."""
DEFAULT_ACTIVATION = "torch.nn.modules.activation.Tanh"
"""What a Dense module has whose config.json names no activation."""
_MODULE = frozenset({"idx", "name", "path", "type"})
"""The keys of a module in modules.json."""
_OF_KIND = {
    "Pooling": frozenset({"word_embedding_dimension", "embedding_dimension", "pooling_mode", "include_prompt"}),
    "Dense": frozenset(
        {*("in_features", "out_features", "bias", "activation_function"), "module_input_name", "module_output_name"}
    ),
    "LayerNorm": frozenset({"dimension"}),
    "Dropout": frozenset({"dropout"}),
    "Normalize": frozenset({"module_input_name", "module_output_name"}),
}
"""The keys of a module's config.json that rbench honours, by kind."""


NOT_READ = (
    "which rbench does not know, so that its vectors might be others than those of sentence-transformers. To measure "
    "such a model, give its answers as a callable or an endpoint; or remove the key from a copy of the folder, if it "
    "changes no vector"
)
"""Ends an error about a key that nobody reads."""


def unread(stated: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return the keys that state something and are not `known`; null, false and empty values state nothing."""
    return [str(key) for key, value in stated.items() if key not in known and value not in (None, False, "", [], {})]


def modules(folder: Path) -> list[tuple[str, str]]:
    """Return kind and path of each module in modules.json, in their order.

    The kinds are a transformer and pooling, or a StaticEmbedding, and after them Dense, LayerNorm, Dropout and
    Normalize in any number and order. The list is empty if there is no modules.json; then `folder` is a transformers
    folder.

    Raises:
        ResourceError: modules.json is damaged, names a path outside the folder, or lists any other module, or a module
            states something that rbench does not do.
    """
    path = folder / "modules.json"
    if not path.is_file():
        return []
    listed = _listed(path)
    for _, part in listed:
        if PurePosixPath(part).is_absolute() or ".." in PurePosixPath(part).parts:
            raise ResourceError(f"{path}: the path {part!r} leaves the model's folder")
    foreign = {kind for kind, _ in listed if kind not in KINDS}
    kinds = [KINDS.get(kind, "") for kind, _ in listed]
    foreign |= {f"several {kind} modules" for kind in ("Transformer", "Pooling") if kinds.count(kind) > 1}
    if "StaticEmbedding" in kinds:
        foreign |= {f"a {kind} beside a StaticEmbedding" for kind in ("Transformer", "Pooling") if kind in kinds}
        foreign |= {"a StaticEmbedding after others"} if kinds[0] != "StaticEmbedding" else set()
    early = kinds[: kinds.index("Pooling")] if "Pooling" in kinds else []
    foreign |= {f"a {kind} before the pooling" for kind in early if kind not in ("", "Transformer")}
    foreign |= {wrong for kind, part in listed for wrong in _wrong_module(KINDS.get(kind, ""), folder / part)}
    if foreign:
        raise ResourceError(
            f"{folder}: its modules.json asks for {', '.join(sorted(foreign))}; rbench reads sentence-transformers "
            "models made of a transformer and pooling, or a StaticEmbedding, and then Dense, LayerNorm, Dropout and "
            "Normalize only. Python code of a model is not run. To measure such a model, give its answers as a "
            "callable or an endpoint"
        )
    return [(KINDS[kind], part) for kind, part in listed]


def after_pooling(folder: Path) -> list[tuple[str, Path]]:
    """Return kind and folder of the modules between pooling and the normalisation at the end, in their order.

    A Normalize that ends the list is left out: `EncoderSpec.normalize` says whether vectors are normalised. Dropout is
    left out, because it does nothing after training. Raises ResourceError as `modules`.
    """
    found = [(kind, folder / part) for kind, part in modules(folder) if kind in ("Dense", "LayerNorm", "Normalize")]
    while found and found[-1][0] == "Normalize":
        found.pop()
    return found


def _listed(path: Path) -> list[tuple[str, str]]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        listed = [(entry["type"], entry.get("path", "")) for entry in entries]
        if strange := [value for entry in listed for value in entry if not isinstance(value, str)]:
            raise TypeError(f"{strange[0]!r} is not a string")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ResourceError(f"{path}: not a list of sentence-transformers modules ({error})") from error
    if more := sorted({key for entry in entries for key in unread(entry, _MODULE)}):
        raise ResourceError(f"{path}: a module states {', '.join(f'`{key}`' for key in more)}, {NOT_READ}")
    return listed


def activation_of(dense: Path) -> str | None:
    """Return the name in torch.nn of a Dense module's activation; None where it is not in `ACTIVATIONS`."""
    named = object_of(dense / "config.json").get("activation_function", DEFAULT_ACTIVATION)
    return ACTIVATIONS.get(named) if isinstance(named, str) else None


def _wrong_module(kind: str, folder: Path) -> Iterator[str]:
    """Yield what a module after the transformer asks for that rbench cannot do."""
    if kind not in _OF_KIND:
        return
    config = object_of(folder / "config.json")
    modes = [key for key in config if key.startswith("pooling_mode_")] if kind == "Pooling" else []
    for key in unread(config, {*_OF_KIND[kind], *modes}):
        yield f"a {kind} with `{key}: {config[key]}`"
    places = {config.get(key) for key in ("module_input_name", "module_output_name")} - {None, "sentence_embedding"}
    if places:
        yield f"a {kind} on {', '.join(sorted(map(str, places)))}"
    if kind == "Dense" and not config:
        yield "a Dense without a config.json"
    elif kind == "Dense" and activation_of(folder) is None:
        yield f"a Dense with an activation that rbench does not know ({config['activation_function']})"
