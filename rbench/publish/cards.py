"""Write the model card of a registry entry into the encoder's folder, as README.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rbench
from rbench.hub import is_repo_id
from rbench.plan.lineage import chain, portable
from rbench.spec import EncoderSpec, Record, TaskSpec, base_of, bases

CARD = "README.md"


def write(
    folder: Path,
    name: str,
    encoders: Mapping[str, EncoderSpec],
    tasks: Mapping[str, TaskSpec],
    record: Record | None = None,
    objective: Any = None,
) -> None:
    """Write the card of encoder `name` into its `folder`, and replace one that is there.

    Args:
        folder: the encoder, in SentenceTransformer layout or as transformers saves it.
        encoders, tasks: the registry entries that it depends on, by name.
        record: the record of the training, if rbench trained the weights.
        objective: the module of the training objective; None: the installed module of its name.
    """
    from rbench.publish import card

    origin = chain(name, encoders)[-1]
    base = base_of(origin, encoders)  # none where nothing was trained: `chain` ends at the last base
    dim, normalized = _vectors(folder)
    about = card.About(
        encoder=portable(encoders[name]),
        origin=portable(origin),
        base=portable(base) if base is not None else None,
        hub_id=hub_id(origin, encoders),
        data=tasks.get(origin.train.data) if origin.train is not None else None,
        record=record,
        objective=objective,
        version=rbench.__version__,
        dim=dim,
        normalized=normalized,
        max_length=_json(folder / "sentence_bert_config.json").get("max_seq_length"),
    )
    (folder / CARD).write_text(card.render(about), encoding="utf-8")


def hub_id(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> str | None:
    """Return the hub id (`owner/name`) of the model that an encoder's weights descend from; None if there is none."""
    *_, first = bases(spec, encoders)
    base = portable(first).base
    return base if base is not None and base == first.base and "/" in base and is_repo_id(base) else None


def _vectors(folder: Path) -> tuple[int | None, bool]:
    """Return how long the vectors are that the modules of `folder` make (None: they do not say), and whether they are
    scaled to length 1."""
    dim: int | None = None
    normalized = False
    for module in _json(folder / "modules.json") or ():
        config = _json(folder / module["path"] / "config.json") if module["path"] else {}
        dim = config.get("out_features", config.get("word_embedding_dimension", dim))
        normalized = normalized or module["type"].endswith(".Normalize")
    cut = _json(folder / "config_sentence_transformers.json").get("truncate_dim")
    return (min(dim, cut) if dim is not None and cut else dim), normalized


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
