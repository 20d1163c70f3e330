"""Merges adapters (PEFT) into their bases, into a folder of the cache that is read like any other model's."""

from __future__ import annotations

import importlib.util
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from rbench.encoders.foreign import (
    ADAPTER,
    check_files,
    check_finite,
    check_model,
    check_size,
    has_weights,
    object_of,
    reading,
    tensors_of,
)
from rbench.errors import ResourceError
from rbench.system import digests, hub, scratch
from rbench.system.below import Below
from rbench.system.digests import Located

WEIGHTS = "adapter_model.safetensors"
ABOUT = "merged.json"
"""The file of a merged model that says of which sources it was made."""
_HEADS = ("classifier.weight", "score.weight", "out_proj.weight")
"""The ends of the names of the last layer of a head, whose rows are the labels."""


def merged(folder: Path) -> Located:
    """Return the place of an adapter merged into its base. Its fingerprint is that of the files of both.

    The base is a folder, or a model in the hub's cache. What was merged before is not merged again.

    Raises:
        ResourceError: peft is not installed, the base is not there, a file is damaged, or the cache cannot be written.
        StoreError: in the cache, a link or the like stands where the merged model belongs.
    """
    check_files(folder)
    about = object_of(folder / ADAPTER)
    name = str(about.get("base_model_name_or_path", ""))
    if importlib.util.find_spec("peft") is None:
        raise ResourceError(
            f"{folder} holds an adapter (PEFT) of {name or 'a model'} and no whole network. With the package peft "
            "(`pip install 'rbench[peft]'`) the two are merged on opening; or merge them (`merge_and_unload()`), and "
            "name the folder of the result"
        )
    if not (folder / WEIGHTS).is_file():
        raise ResourceError(f"{folder} holds an adapter without {WEIGHTS}; save it with safetensors")
    base = _base(folder, name, about.get("revision"))
    check_model(base)
    suffixes = (".json", ".safetensors", ".bin", ".txt", ".model")
    of_base = sorted(path for path in base.iterdir() if path.is_file() and path.suffix in suffixes)
    source = digests.of_files([folder / ADAPTER, folder / WEIGHTS, *_tokenizer(folder), *of_base])
    cache = scratch.default_cache()
    place = cache / "merged" / source
    if Below(cache).kind(place / ABOUT) is None:
        _write(folder, base, about, place, source)
    return Located(str(place), fingerprint(str(place)), fingerprint)


def fingerprint(where: str) -> str:
    """Return the fingerprint of the sources of a merged model.

    Raises ResourceError if it is not as it was written, and StoreError if a link or the like is in its place.
    """
    place = Path(where)
    Below(place.parents[1]).check(place)
    said = object_of(place / ABOUT)
    if said.get("content") != _content(place):
        raise ResourceError(f"{where} is not as rbench wrote it; remove the folder, and the adapter is merged again")
    return str(said.get("sources"))


def _base(folder: Path, name: str, revision: Any) -> Path:
    if not name:
        raise ResourceError(f"{folder / ADAPTER} names no `base_model_name_or_path`, so its base is not known")
    if (path := Path(name).expanduser()).is_dir():
        return path
    found = hub.cached(name, revision if isinstance(revision, str) else None)
    if found is None or not has_weights(found):
        raise ResourceError(
            f"{folder} holds an adapter (PEFT) of {name}, which is neither a folder nor in the hub's cache; "
            f"`hf download {name}`, or write the base's folder as `base_model_name_or_path` into {ADAPTER}"
        )
    return found


def _write(folder: Path, base: Path, about: dict[str, Any], place: Path, source: str) -> None:
    """Merge in a temporary folder of the cache, and rename it into its place when it is complete."""
    from transformers import AutoTokenizer

    cache = place.parents[1]
    with scratch.folder("merged", cache) as work:
        made = work / "model"
        made.mkdir()
        with reading(f"{folder}, an adapter (PEFT), cannot be merged into {base}"):
            model = _merged(folder, base, about)
            check_finite(model, folder)
            model.save_pretrained(made)
            AutoTokenizer.from_pretrained(folder if _tokenizer(folder) else base).save_pretrained(made)
        below = Below(cache)
        with scratch.writing(cache):
            below.replace(made / ABOUT, json.dumps({"sources": source, "content": _content(made)}).encode())
            below.make_folder(place.parent)
            if below.kind(place / ABOUT) is None:  # no other process was faster
                with suppress(FileNotFoundError):  # a folder that lost its ABOUT; it goes with the temporary one
                    below.rename(place, work / "replaced")
                below.rename(made, place)


def _merged(folder: Path, base: Path, about: dict[str, Any]) -> Any:
    import peft
    import torch
    from transformers import AutoModel, AutoModelForSequenceClassification

    tensors = tensors_of(folder, WEIGHTS)
    rows = [tensor.shape[0] for name, tensor in tensors.items() if name.endswith(_HEADS)]
    if about.get("task_type") == "SEQ_CLS":
        count = {"num_labels": rows[-1]} if rows else {}
        check_size(base, AutoModelForSequenceClassification)
        network, lost = AutoModelForSequenceClassification.from_pretrained(
            base, trust_remote_code=False, torch_dtype=torch.float32, output_loading_info=True, **count
        )
        if lost["missing_keys"] and not rows:
            raise ResourceError(f"neither {folder} nor its base {base} has a head for classification")
    else:
        check_size(base, AutoModel)
        network = AutoModel.from_pretrained(base, trust_remote_code=False, torch_dtype=torch.float32)
    return peft.PeftModel.from_pretrained(network, str(folder)).merge_and_unload().eval()


def _content(place: Path) -> str:
    return digests.of_files(sorted(path for path in place.iterdir() if path.is_file() and path.name != ABOUT))


def _tokenizer(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.startswith(("tokenizer", "vocab", "special_tokens")))
