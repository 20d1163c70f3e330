"""Read what a model's own files say of its encoder, in a folder or on the hub. Downloads no weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from rbench import hub
from rbench.encoders.described import described
from rbench.encoders.locate import transformer_folder
from rbench.errors import ResourceError


class Stated(NamedTuple):
    """What the files of a model say."""

    fields: dict[str, Any]
    """Fields of an EncoderSpec by name; see `described`."""
    by_sentence_transformers: bool
    """Whether these are the files of sentence-transformers. A folder of transformers alone says nothing of pooling, so
    that in `fields` is what sentence-transformers would take."""


def stated(where: str, *, revision: str | None = None, trust_remote_code: bool = False) -> Stated:
    """Return what the files of a model say; `where` is a folder, or `id@commit` on the hub.

    `revision` is what stood for the commit; None: main.

    Raises:
        ResourceError: the files are damaged or ask for something that rbench does not do, the model needs Python code
            of its own without `trust_remote_code`, or neither the hub nor its cache has the files.
    """
    repo, _, commit = where.rpartition("@")
    folder = Path(where) if Path(where).is_dir() else hub.configs(repo, commit, revision)
    check_code(folder, trusted=trust_remote_code)
    return Stated(described(folder), (folder / "modules.json").is_file())


def check_code(folder: Path, *, trusted: bool = False) -> None:
    """Raise ResourceError where the model in a folder needs Python code of its own, and that is not `trusted`."""
    if not trusted and (code := _code_of(folder)):
        raise ResourceError(
            f"it needs Python code of its own ({code}), which rbench runs only where the file of an encoder says so. "
            "Read that code; then write DIR/encoders/NAME.yaml with its `base`, its `pooling` and "
            "`trust_remote_code: true`, pass --include DIR, and name the encoder NAME"
        )


def _code_of(folder: Path) -> str:
    """Return the class of a model's own that its config asks for, or nothing where transformers has the network."""
    try:
        config = json.loads((transformer_folder(folder) / "config.json").read_text(encoding="utf-8"))
        asked = config.get("auto_map", {})
        code, kind = asked.get("AutoModel") or asked.get("AutoConfig"), config.get("model_type")
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""  # whoever opens the files says what is wrong
    if not code:
        return ""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return "" if kind in CONFIG_MAPPING_NAMES else str(code)
