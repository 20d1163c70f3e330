"""Merges adapters (PEFT) into their bases, into a folder of the cache that is read like any other model's."""

from __future__ import annotations

import importlib.util
import json
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from rbench.encoders.foreign import (
    ADAPTER_FILE,
    as_resource_error,
    check_files,
    check_finite,
    check_model,
    check_size,
    has_weights,
    read_object,
    read_tensor_headers,
)
from rbench.errors import ResourceError
from rbench.system import digests, hub, scratch
from rbench.system.below import SafeFolder
from rbench.system.digests import FingerprintedPlace

WEIGHTS = "adapter_model.safetensors"
ABOUT = "merged.json"
"""The file of a merged model that says of which sources it was made."""
_HEAD_WEIGHTS = ("classifier.weight", "score.weight", "out_proj.weight")
"""The ends of the names of the last layer of a head, whose rows are the labels."""


def merge_adapter(folder: Path) -> FingerprintedPlace:
    """Return the place of an adapter merged into its base. Its fingerprint is that of the files of both.

    The base is a folder, or a model in the hub's cache. What was merged before is not merged again.

    Raises:
        ResourceError: peft is not installed, the base is not there, a file is damaged, or the cache cannot be written.
        StoreError: in the cache, a link or the like stands where the merged model belongs.
    """
    check_files(folder)
    adapter_config = read_object(folder / ADAPTER_FILE)
    base_name = str(adapter_config.get("base_model_name_or_path", ""))
    if importlib.util.find_spec("peft") is None:
        raise ResourceError(
            f"{folder} holds an adapter (PEFT) of {base_name or 'a model'} and no whole network. With the package peft "
            "(`pip install 'rbench[peft]'`) the two are merged on opening; or merge them (`merge_and_unload()`), and "
            "name the folder of the result"
        )
    if (folder / "modules.json").exists():
        raise ResourceError(
            f"{folder} holds an adapter (PEFT) and the modules of sentence-transformers, and rbench would lose these. "
            "Copy the files of the adapter and the tokenizer into a folder of their own, and write an encoder file "
            "that has this folder as `base`, and the `pooling`, `normalize` and `prompt` that the modules state"
        )
    base = _find_base(folder, base_name, adapter_config.get("revision"))
    check_model(base)
    suffixes = (".json", ".safetensors", ".bin", ".txt", ".model")
    base_files = sorted(path for path in base.iterdir() if path.is_file() and path.suffix in suffixes)
    # The place is named by the content of both, so a changed base or adapter is merged anew.
    source = digests.hash_files([folder / ADAPTER_FILE, folder / WEIGHTS, *_tokenizer_files(folder), *base_files])
    cache = scratch.default_cache()
    place = cache / "merged" / source
    if SafeFolder(cache).kind(place / ABOUT) is None:
        _write_merged(folder, base, adapter_config, place, source)
    return FingerprintedPlace(str(place), read_fingerprint(str(place)), read_fingerprint)


def read_fingerprint(where: str) -> str:
    """Return the fingerprint of the sources of a merged model.

    Raises ResourceError if it is not as it was written, and StoreError if a link or the like is in its place.
    """
    place = Path(where)
    SafeFolder(place.parents[1]).check(place)
    stated = read_object(place / ABOUT)
    if stated.get("content") != _hash_content(place):
        raise ResourceError(f"{where} is not as rbench wrote it; remove the folder, and the adapter is merged again")
    return str(stated.get("sources"))


def _find_base(folder: Path, base_name: str, revision: Any) -> Path:
    if base_name and (path := Path(base_name).expanduser()).is_dir():
        return path
    snapshot = hub.cached_snapshot(base_name, revision if isinstance(revision, str) else None) if base_name else None
    if snapshot is None or not has_weights(snapshot):
        raise ResourceError(
            f"{folder} holds an adapter (PEFT) of {base_name or '-'}, which is neither a folder nor in the hub's "
            f"cache; `hf download {base_name}`, or write the base's folder as `base_model_name_or_path` into "
            f"{ADAPTER_FILE}"
        )
    return snapshot


def _write_merged(folder: Path, base: Path, adapter_config: dict[str, Any], place: Path, digest: str) -> None:
    """Merge in a temporary folder of the cache, and rename it into its place when it is complete."""
    from transformers import AutoTokenizer

    cache = place.parents[1]
    with scratch.temporary_folder("merged", cache) as work:
        unfinished = work / "model"
        unfinished.mkdir()
        with as_resource_error(f"{folder}, an adapter (PEFT), cannot be merged into {base}"):
            model = _merge_network(folder, base, adapter_config)
            check_finite(model, folder)
            model.save_pretrained(unfinished)
            AutoTokenizer.from_pretrained(folder if _tokenizer_files(folder) else base).save_pretrained(unfinished)
        # The temporary folder lies in the cache too, so the rename is one step on one file system.
        below = SafeFolder(cache)
        with scratch.writable_cache(cache):
            below.replace(
                unfinished / ABOUT, json.dumps({"sources": digest, "content": _hash_content(unfinished)}).encode()
            )
            below.make_folder(place.parent)
            if below.kind(place / ABOUT) is None:  # no other process was faster
                with suppress(FileNotFoundError):  # a folder that lost its ABOUT; it goes with the temporary one
                    below.rename(place, work / "replaced")
                below.rename(unfinished, place)


def _merge_network(folder: Path, base: Path, adapter_config: dict[str, Any]) -> Any:
    import peft
    import torch
    from transformers import AutoModel, AutoModelForSequenceClassification

    tensors = read_tensor_headers(folder, WEIGHTS)
    label_counts = [tensor.shape[0] for name, tensor in tensors.items() if name.endswith(_HEAD_WEIGHTS)]
    if adapter_config.get("task_type") == "SEQ_CLS":
        count = {"num_labels": label_counts[-1]} if label_counts else {}
        check_size(base, AutoModelForSequenceClassification)
        network, loading_info = AutoModelForSequenceClassification.from_pretrained(
            base, trust_remote_code=False, torch_dtype=torch.float32, output_loading_info=True, **count
        )
        if loading_info["missing_keys"] and not label_counts:
            raise ResourceError(f"neither {folder} nor its base {base} has a head for classification")
    else:
        check_size(base, AutoModel)
        network = AutoModel.from_pretrained(base, trust_remote_code=False, torch_dtype=torch.float32)
    with warnings.catch_warnings():
        # An adapter of a network with a head, whose weights have other names, would be merged as nothing.
        warnings.filterwarnings("error", message="Found missing adapter keys")
        return peft.PeftModel.from_pretrained(network, str(folder)).merge_and_unload().eval()


def _hash_content(place: Path) -> str:
    return digests.hash_files(sorted(path for path in place.iterdir() if path.is_file() and path.name != ABOUT))


def _tokenizer_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.startswith(("tokenizer", "vocab", "special_tokens")))
