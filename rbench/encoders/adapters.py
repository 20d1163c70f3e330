"""Merges adapters (PEFT) into their bases, into a folder of the cache that is read like any other model's."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rbench import hub
from rbench.encoders.foreign import check_files, check_finite, check_model, has_weights, object_of, reading, tensors_of
from rbench.errors import ResourceError
from rbench.system import digests
from rbench.system.located import Located
from rbench.system.scratch import default_cache

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ABOUT = "merged.json"
"""The file of a merged model that says of which sources it was made."""
_HEADS = ("classifier.weight", "score.weight", "out_proj.weight")
"""The ends of the names of the last layer of a head, whose rows are the labels."""


def is_adapter(folder: Path) -> bool:
    """Return whether a folder has an adapter and no whole weights."""
    return (folder / CONFIG).is_file() and not has_weights(folder)


def merged(folder: Path) -> Located:
    """Return the place of an adapter merged into its base. Its fingerprint is that of the files of both.

    The base is a folder, or a model in the hub's cache. What was merged before is not merged again.

    Raises:
        ResourceError: peft is not installed, the base is not there, or a file is damaged.
    """
    check_files(folder)
    about = object_of(folder / CONFIG)
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
    files = [folder / CONFIG, folder / WEIGHTS, *_tokenizer(folder), *sorted(_model_files(base))]
    source = digests.of_files(files)
    place = default_cache() / "merged" / source
    if not (place / ABOUT).is_file():
        _write(folder, base, about, place, source)
    return Located(str(place), fingerprint(str(place)), fingerprint)


def fingerprint(where: str) -> str:
    """Return the fingerprint of the sources of a merged model. Raises ResourceError if it is not as it was written."""
    said = object_of(Path(where) / ABOUT)
    if said.get("content") != _content(Path(where)):
        raise ResourceError(f"{where} is not as rbench wrote it; remove the folder, and the adapter is merged again")
    return str(said.get("sources"))


def _base(folder: Path, name: str, revision: Any) -> Path:
    if not name:
        raise ResourceError(f"{folder / CONFIG} names no `base_model_name_or_path`, so its base is not known")
    if (path := Path(name).expanduser()).is_dir():
        return path
    found = hub.cached(name, revision if isinstance(revision, str) else None)
    if found is None or not has_weights(found):
        raise ResourceError(
            f"{folder} holds an adapter (PEFT) of {name}, which is neither a folder nor in the hub's cache; "
            f"`hf download {name}`, or write the base's folder as `base_model_name_or_path` into {CONFIG}"
        )
    return found


def _write(folder: Path, base: Path, about: dict[str, Any], place: Path, source: str) -> None:
    """Merge, and write the whole folder at once."""
    from transformers import AutoTokenizer

    place.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=place.parent, prefix=".making-"))
    try:
        with reading(f"{folder}, an adapter (PEFT), cannot be merged into {base}"):
            model = _merged(folder, base, about)
            check_finite(model, folder)
            model.save_pretrained(made)
            AutoTokenizer.from_pretrained(folder if _tokenizer(folder) else base).save_pretrained(made)
        (made / ABOUT).write_text(json.dumps({"sources": source, "content": _content(made)}), encoding="utf-8")
        if not place.is_dir():
            made.replace(place)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _merged(folder: Path, base: Path, about: dict[str, Any]) -> Any:
    import peft
    import torch
    from transformers import AutoModel, AutoModelForSequenceClassification

    tensors = tensors_of(folder, WEIGHTS)
    rows = [tensor.shape[0] for name, tensor in tensors.items() if name.endswith(_HEADS)]
    if about.get("task_type") == "SEQ_CLS":
        count = {"num_labels": rows[-1]} if rows else {}
        network, lost = AutoModelForSequenceClassification.from_pretrained(
            base, trust_remote_code=False, torch_dtype=torch.float32, output_loading_info=True, **count
        )
        if lost["missing_keys"] and not rows:
            raise ResourceError(f"neither {folder} nor its base {base} has a head for classification")
    else:
        network = AutoModel.from_pretrained(base, trust_remote_code=False, torch_dtype=torch.float32)
    return peft.PeftModel.from_pretrained(network, str(folder)).merge_and_unload().eval()


def _content(place: Path) -> str:
    return digests.of_files(sorted(path for path in place.iterdir() if path.is_file() and path.name != ABOUT))


def _model_files(base: Path) -> list[Path]:
    return [
        path
        for path in base.iterdir()
        if path.is_file() and path.suffix in (".json", ".safetensors", ".bin", ".txt", ".model")
    ]


def _tokenizer(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.startswith(("tokenizer", "vocab", "special_tokens")))
