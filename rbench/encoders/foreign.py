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
from rbench.system.own_code import failing_in

LONGEST_HEADER = 100_000_000
"""Bytes of the header of a safetensors file; the library reads no longer ones."""
LONGEST_JSON = 32 << 20
"""Bytes of a JSON file, unless it lists tokens."""
LONGEST_TOKENIZER = 256 << 20
"""Bytes of a JSON file that lists tokens; those of the largest vocabularies have some 40 MiB."""
MOST_POSITIONS = 16_000_000
"""Positions of a network without a table of them. Nothing that grows with their number is built then."""
MOST_SHARED_LAYERS = 128
"""Layers of a network that uses the weights of one several times (ALBERT)."""

_LAYER_KEYS = re.compile(
    r"(num_(hidden|encoder|decoder)_)?layers|n_layers?|num_layers|(en|de)coder_layers|num_hidden_groups"
    r"|inner_group_num|(num|n)_(local_|routed_)?experts|num_blocks|depths?|block_sizes"
)
_POSITION_KEYS = re.compile(r"max_position_embeddings|n_positions|n_ctx|max_seq_len|seq_length|max_target_positions")
_LABEL_KEYS = re.compile(r"_?num_labels")
NEW_WEIGHTS = 10**8
"""Weights that a network may have beyond those in its files: a head that is not there yet."""
_POSITION_TABLES = re.compile(r"position_embeddings\.weight$|\bwpe\.weight$|embed_positions\.weight$")
_LAYER_NUMBER = re.compile(r"\.(\d+)(?=\.)")
_TOKEN_FILES = ("tokenizer.json", "vocab.json", "added_tokens.json", "tokenizer_config.json", "target_vocab.json")
_QUANTISED_TYPES = ("I8", "U8", "I4", "U4", "F8_E4M3", "F8_E5M2", "F4")


class TensorHeader(NamedTuple):
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
        if path.is_symlink() and not any(path.resolve().is_relative_to(allowed) for allowed in (root, *blobs)):
            raise ResourceError(
                f"{path} is a link that leads out of the model's folder, to {path.readlink()}; put the file itself "
                "there, if you trust it (`cp -L`)"
            )
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ResourceError(f"{path} is no file but a device, a pipe or the like; a model consists of files")
        longest = LONGEST_TOKENIZER if path.name in _TOKEN_FILES else LONGEST_JSON
        if path.suffix == ".json" and path.is_file() and (size := path.stat().st_size) > longest:
            raise ResourceError(f"{path} has {size >> 20} MiB, and rbench reads at most {longest >> 20} MiB of it")


def check_model(root: Path) -> None:
    """Check that what config.json asks for is there in the weights.

    Raises:
        ResourceError: the weights are cut off, damaged, quantised or only a pointer to them, or the configuration asks
            for more layers, positions or labels than the weights have. Names the file and the remedy.
    """
    check_files(root)
    if (root / "adapter_config.json").is_file() and (weights := _weight_files(root)):
        raise ResourceError(
            f"{root} has an adapter (adapter_config.json) beside whole weights ({weights[0].name}), so it is not clear "
            "which of them is meant; remove one of the two, or merge them: `merge_and_unload()` of the package peft"
        )
    config = read_object(root / "config.json")
    tensors = read_tensor_headers(root)
    if not tensors:
        return  # whoever opens the folder says that there are no weights
    for name, tensor in tensors.items():
        if tensor.dtype in _QUANTISED_TYPES and name.endswith("weight"):
            raise ResourceError(
                f"{root}: its weights are quantised ({name} has the type {tensor.dtype}), and rbench computes in full "
                "precision; take the model from which they were made"
            )
    _check_config(root / "config.json", config, tensors)


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

    if not (stored := sum(math.prod(tensor.shape) for tensor in read_tensor_headers(root).values())):
        return  # whoever opens the folder says that there are no weights
    config = config if config is not None else AutoConfig.from_pretrained(root, trust_remote_code=False)
    with torch.device("meta"):
        described = sum(weight.numel() for weight in kind.from_config(config).parameters())
    if described > 2 * stored + NEW_WEIGHTS:
        raise ResourceError(
            f"{root} cannot be read: config.json describes a network of {described} weights, and the files beside it "
            f"have {stored}; take both from the same model"
        )


def has_weights(root: Path) -> bool:
    """Return whether a folder has weights of a whole network."""
    return bool(_weight_files(root))


ADAPTER_FILE = "adapter_config.json"
"""The file that says of which model a folder holds an adapter (PEFT)."""


def is_adapter(folder: Path) -> bool:
    """Return whether a folder has an adapter and no whole weights."""
    return (folder / ADAPTER_FILE).is_file() and not has_weights(folder)


def read_tensor_headers(root: Path, name: str | None = None) -> dict[str, TensorHeader]:
    """Return the tensors that the weights in a folder hold, by name, without reading them; empty without weights.

    `name`: of the file; None: those of the whole network.

    Raises:
        ResourceError: a file of weights is missing, cut off, damaged, or only a pointer to weights.
    """
    headers: dict[str, TensorHeader] = {}
    for file in _weight_files(root) if name is None else [root / name]:
        headers |= _read_header(file) if file.suffix == ".safetensors" else _read_pickled_header(file)
    return headers


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one where there is no file.

    Raises ResourceError where it is damaged, holds something else, or is nested too deeply.
    """
    if not path.is_file():
        return {}
    with failing_in(path, remedy="Save or download it again"):
        content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ResourceError(f"{path} must be a JSON object, with keys and values")
    return content


@contextmanager
def as_resource_error(what: str) -> Iterator[None]:
    """Turn whatever transformers and its libraries raise inside the block into a ResourceError of one line.

    For damaged files they raise many types. A fault in the Rust code of tokenizers is no `Exception` even.

    Args:
        what: begins the message.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, RbenchError) or not (isinstance(error, Exception) or is_rust_panic(error)):
            raise
        raise ResourceError(f"{what}: {format_error(error)}") from error


def is_rust_panic(error: BaseException) -> bool:
    """Return whether it is a panic of a library in Rust, which Python code cannot import the type of."""
    return type(error).__name__ == "PanicException"


def format_error(error: BaseException) -> str:
    """Return what an exception says, as one line of at most 300 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:300] + "..."


def check_finite(model: Any, where: Path) -> None:
    """Raise ResourceError where a weight of a network is NaN or infinite."""
    import torch

    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight.detach().float().sum())) and not bool(torch.isfinite(weight).all()):
            raise ResourceError(
                f"{where}: its weights are not numbers ({name} has NaN or infinity), so its training diverged or the "
                "file is damaged; save or download the model again"
            )


def _weight_files(root: Path) -> list[Path]:
    """Return the files of weights that transformers reads, in its order of preference."""
    for whole in ("model.safetensors", "pytorch_model.bin"):
        if (root / whole).is_file():
            return [root / whole]
        index = root / f"{whole}.index.json"
        if index.is_file():
            parts = read_object(index).get("weight_map")
            names = sorted({str(part) for part in parts.values()}) if isinstance(parts, dict) else []
            if strange := [name for name in names if "/" in name or "\\" in name or name.startswith(".")]:
                raise ResourceError(f"{index} names a file outside the model's folder, {strange[0]}")
            return [root / name for name in names]
    return []


def _read_header(file: Path) -> dict[str, TensorHeader]:
    size = file.stat().st_size
    with file.open("rb") as opened:
        start = opened.read(8)
        _refuse_pointer(file, start)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > min(LONGEST_HEADER, size - 8):
            raise ResourceError(f"{file} is cut off or damaged: it has {size} bytes and no whole header; {_SAVE_AGAIN}")
        raw = opened.read(length)
    with failing_in(file, remedy="Its header is damaged; save or download it again"):
        listed = {name: entry for name, entry in json.loads(raw).items() if name != "__metadata__"}
        ends = [int(entry["data_offsets"][1]) for entry in listed.values()]
        headers = {
            name: TensorHeader(str(entry["dtype"]), tuple(map(int, entry["shape"]))) for name, entry in listed.items()
        }
    if (stated_size := 8 + length + max(ends, default=0)) > size:
        raise ResourceError(
            f"{file} is cut off: it has {size} bytes, and its header tells of {stated_size}; {_SAVE_AGAIN}"
        )
    return headers


_SAVE_AGAIN = "save or download it again"


def _read_pickled_header(file: Path) -> dict[str, TensorHeader]:
    """Return the tensors of a file of PyTorch's. Python code in it is not run."""
    import torch

    with file.open("rb") as opened:
        _refuse_pointer(file, opened.read(8))
    with as_resource_error(f"{file} cannot be read as weights of PyTorch; {_SAVE_AGAIN}"):
        try:
            state = torch.load(file, map_location="meta", mmap=True, weights_only=True)
        except RuntimeError:  # the format of PyTorch before 1.6 cannot be mapped into memory
            state = torch.load(file, map_location="meta", weights_only=True)
        # Only whether weights are quantised matters, so all other types are named as one.
        types = {torch.int8: "I8", torch.uint8: "U8"}
        return {
            str(name): TensorHeader(types.get(tensor.dtype, "F32"), tuple(tensor.shape))
            for name, tensor in state.items()
            if isinstance(tensor, torch.Tensor)
        }


def _refuse_pointer(file: Path, start: bytes) -> None:
    if start == b"version ":
        raise ResourceError(
            f"{file} is a pointer of git-lfs and not the file itself; run `git lfs pull` in its repository"
        )


def _check_config(path: Path, config: Mapping[str, Any], tensors: Mapping[str, TensorHeader]) -> None:
    layers = 1 + max(
        (int(digits) for name in tensors for digits in _LAYER_NUMBER.findall(name) if len(digits) < 9), default=0
    )
    # Layers are counted by the numbers in the names of weights, and ALBERT uses one set of weights for all layers.
    if config.get("model_type") == "albert":
        layers = max(layers, MOST_SHARED_LAYERS)
    # A network without a table (rotary positions) reads any length; _POSITIONS then has a limit of our own.
    tables = [tensor.shape[0] for name, tensor in tensors.items() if _POSITION_TABLES.search(name) and tensor.shape]
    limits = {
        _LAYER_KEYS: layers,
        _POSITION_KEYS: max(tables, default=MOST_POSITIONS),
        _LABEL_KEYS: max(1000, *(max(tensor.shape, default=1) for tensor in tensors.values())),
    }
    for key, value in _find_numbers(config):
        for pattern, limit in limits.items():
            if pattern.fullmatch(key) and value > limit:
                raise ResourceError(
                    f"{path} asks for `{key}: {value}`, and the weights beside it have {limit} at most; take both "
                    "files from the same model"
                )


def _find_numbers(node: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the whole numbers in a configuration, with the key that they stand below."""
    if isinstance(node, dict) and depth < 4:
        for name, value in node.items():
            yield from _find_numbers(value, str(name), depth + 1)
    elif isinstance(node, list) and depth < 4:
        for value in node:
            yield from _find_numbers(value, key, depth + 1)
    elif type(node) is int:
        yield key, node


# --------------------------------------------------------------------- the modules of sentence-transformers

_PYTHON_MODULES = {
    "Transformer": ("base.modules.transformer",),
    "Dense": ("base.modules.dense",),
    "Pooling": ("sentence_transformer.modules.pooling",),
    "Normalize": ("sentence_transformer.modules.normalize", "base.modules.normalize"),  # until 5.x, from 6.0
    "LayerNorm": ("sentence_transformer.modules.layer_norm",),
    "Dropout": ("sentence_transformer.modules.dropout",),
    "StaticEmbedding": ("sentence_transformer.modules.static_embedding",),
}
"""The Python modules of each kind of module since sentence-transformers 5.4. Before it was `models` for all."""
MODULE_KINDS = {
    f"sentence_transformers.{place}.{kind}": kind
    for kind, places in _PYTHON_MODULES.items()
    for place in ("models", *places)
}
"""Maps a module's type to its kind, with the names that sentence-transformers 2 to 6 write."""
FIRST_KINDS = ("Transformer", "StaticEmbedding")
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
_MODULE_KEYS = frozenset({"idx", "name", "path", "type"})
"""The keys of a module in modules.json."""
_KEYS_OF_KIND = {
    "Pooling": frozenset({"word_embedding_dimension", "embedding_dimension", "pooling_mode", "include_prompt"}),
    "Dense": frozenset(
        {*("in_features", "out_features", "bias", "activation_function"), "module_input_name", "module_output_name"}
    ),
    "LayerNorm": frozenset({"dimension"}),
    "Dropout": frozenset({"dropout"}),
    "Normalize": frozenset({"module_input_name", "module_output_name"}),
}
"""The keys of a module's config.json that rbench honours, by kind."""


WHY_NOT_READ = (
    "which rbench does not know, so that its vectors might be others than those of sentence-transformers. To measure "
    "such a model, give its answers as a callable or an endpoint; or remove the key from a copy of the folder, if it "
    "changes no vector"
)
"""Ends an error about a key that nobody reads."""


def unread_keys(stated: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return the keys that state something and are not `known`; null, false and empty values state nothing."""
    return [str(key) for key, value in stated.items() if key not in known and value not in (None, False, "", [], {})]


def read_modules(folder: Path) -> list[tuple[str, str]]:
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
    listed = _list_modules(path)
    for _, part in listed:
        if PurePosixPath(part).is_absolute() or ".." in PurePosixPath(part).parts:
            raise ResourceError(f"{path}: the path {part!r} leaves the model's folder")
    foreign = {kind for kind, _ in listed if kind not in MODULE_KINDS}
    kinds = [MODULE_KINDS.get(kind, "") for kind, _ in listed]
    foreign |= {f"several {kind} modules" for kind in ("Transformer", "Pooling") if kinds.count(kind) > 1}
    if "StaticEmbedding" in kinds:
        foreign |= {f"a {kind} beside a StaticEmbedding" for kind in ("Transformer", "Pooling") if kind in kinds}
        foreign |= {"a StaticEmbedding after others"} if kinds[0] != "StaticEmbedding" else set()
    early = kinds[: kinds.index("Pooling")] if "Pooling" in kinds else []
    foreign |= {f"a {kind} before the pooling" for kind in early if kind not in ("", "Transformer")}
    foreign |= {
        wrong for kind, part in listed for wrong in _find_unsupported(MODULE_KINDS.get(kind, ""), folder / part)
    }
    if foreign:
        raise ResourceError(
            f"{folder}: its modules.json asks for {', '.join(sorted(foreign))}; rbench reads sentence-transformers "
            "models made of a transformer and pooling, or a StaticEmbedding, and then Dense, LayerNorm, Dropout and "
            "Normalize only. Python code of a model is not run. To measure such a model, give its answers as a "
            "callable or an endpoint"
        )
    return [(MODULE_KINDS[kind], part) for kind, part in listed]


def modules_after_pooling(folder: Path) -> list[tuple[str, Path]]:
    """Return kind and folder of the modules between pooling and the normalisation at the end, in their order.

    A Normalize that ends the list is left out: `EncoderSpec.normalize` says whether vectors are normalised. Dropout is
    left out, because it does nothing after training. Raises ResourceError as `read_modules`.
    """
    after = [
        (kind, folder / part) for kind, part in read_modules(folder) if kind in ("Dense", "LayerNorm", "Normalize")
    ]
    while after and after[-1][0] == "Normalize":
        after.pop()
    return after


def _list_modules(path: Path) -> list[tuple[str, str]]:
    with failing_in(path, remedy="It is not a list of sentence-transformers modules"):
        entries = json.loads(path.read_text(encoding="utf-8"))
        listed = [(str(entry["type"]), str(entry.get("path", ""))) for entry in entries]
    if unknown_keys := sorted({key for entry in entries for key in unread_keys(entry, _MODULE_KEYS)}):
        raise ResourceError(f"{path}: a module states {', '.join(f'`{key}`' for key in unknown_keys)}, {WHY_NOT_READ}")
    return listed


def read_activation(dense: Path) -> str | None:
    """Return the name in torch.nn of a Dense module's activation; None where it is not in `ACTIVATIONS`."""
    named = read_object(dense / "config.json").get("activation_function", DEFAULT_ACTIVATION)
    return ACTIVATIONS.get(named) if isinstance(named, str) else None


def _find_unsupported(kind: str, folder: Path) -> Iterator[str]:
    """Yield what a module after the transformer asks for that rbench cannot do."""
    if kind not in _KEYS_OF_KIND:
        return
    config = read_object(folder / "config.json")
    modes = [key for key in config if key.startswith("pooling_mode_")] if kind == "Pooling" else []
    for key in unread_keys(config, {*_KEYS_OF_KIND[kind], *modes}):
        yield f"a {kind} with `{key}: {config[key]}`"
    places = {config.get(key) for key in ("module_input_name", "module_output_name")} - {None, "sentence_embedding"}
    if places:
        yield f"a {kind} on {', '.join(sorted(map(str, places)))}"
    if kind == "Dense" and not config:
        yield "a Dense without a config.json"
    elif kind == "Dense" and read_activation(folder) is None:
        yield f"a Dense with an activation that rbench does not know ({config['activation_function']})"
