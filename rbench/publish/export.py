"""Export an encoder as a folder that `SentenceTransformer(path)` loads: safetensors, no pickle, with a model card."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.errors import PlanError
from rbench.spec import EncoderSpec

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

TOLERANCE = 1e-5
"""Largest allowed difference between vectors of rbench and of sentence-transformers, relative to the largest number
(or absolute, if that is below 1)."""

PROBES = ("a", "The film was good, and its ending better.", "Zwölf Boxkämpfer? 3 + 4 = 7. " * 40)
"""Texts for comparing the vectors: a short one, a usual one, and one that is cut."""

PARTS = (
    *("config.json", "modules.json", "*_config.json", "config_sentence_transformers.json", "trained.json"),
    *("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin", "pytorch_model.bin.index.json"),
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.model"),
    *("README.md", "LICENSE*", ".gitattributes", "training_args.bin", "transform", "[0-9]_*", "onnx", "openvino"),
)
"""Patterns of the names that files and folders of an encoder have, as transformers, sentence-transformers and rbench
write them. `--force` removes no others."""


def check_place(folder: Path, *, force: bool = False) -> None:
    """Check that an encoder may be written to `folder`: it is new or empty, or, with `force`, has an encoder alone.

    Raises:
        PlanError: `folder` is a file, is not empty, or is in a place that cannot be written. With `force`, it has files
            in it but no encoder, or others beside one.
    """
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".rbench-export-", dir=above):
            pass
    except OSError as error:
        raise PlanError(f"{folder}: cannot write in {above} ({error.strerror}); name another folder") from error
    if folder.exists() and not folder.is_dir():
        raise PlanError(f"{folder} is a file; name a folder")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not force:
        raise PlanError(f"{folder} is not empty; name another folder, or add --force to replace the encoder in it")
    if not _has_encoder(folder):
        raise PlanError(f"{folder} has files in it but no encoder; --force replaces encoders only")
    others = sorted(one.name for one in folder.iterdir() if not any(fnmatch(one.name, part) for part in PARTS))
    if others:
        shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise PlanError(
            f"{folder} has more in it than an encoder ({shown}); --force replaces encoders only. Name another folder, "
            "or move the rest away"
        )


def _has_encoder(folder: Path) -> bool:
    """Whether a folder's modules.json or config.json is that of an encoder. Other programs have a config.json too."""
    modules, config = _json(folder / "modules.json"), _json(folder / "config.json")
    listed = isinstance(modules, list) and any(isinstance(one, dict) and "type" in one for one in modules)
    return listed or (isinstance(config, dict) and "model_type" in config)


def _json(path: Path) -> Any:
    """Return the content of a file, or None where it cannot be read as JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def check_spec(spec: EncoderSpec) -> None:
    """Check that sentence-transformers can express the encoder, given as `rbench.plan.lineage.effective` returns it.

    Raises:
        PlanError: it cannot; gives the reason.
    """
    from rbench.train.layout import EXPRESSIBLE

    if spec.trust_remote_code:
        raise PlanError(
            f"encoder {spec.name} cannot be exported: it needs its own Python code, which SentenceTransformer(path) "
            "does not run"
        )
    if spec.pooling not in EXPRESSIBLE:
        raise PlanError(
            f"encoder {spec.name} cannot be exported: it has pooling {spec.pooling}, and a SentenceTransformer can "
            f"have {' or '.join(EXPRESSIBLE)}. To export it with another pooling, write an encoder file with `base: "
            f"{spec.name}` and that `pooling`."
        )


def write(
    spec: EncoderSpec, where: Path | str, folder: Path, card: Callable[[Path], None], *, force: bool = False
) -> int:
    """Write the encoder with the weights at `where` to `folder`, and return the length of its vectors.

    Random weights are written as drawn with seed 0.

    The encoder is first written to a temporary folder beside `folder`, loaded from there with sentence-transformers,
    and its vectors are compared; then it is moved to `folder`.

    Args:
        spec: the encoder as it is loaded.
        where: the place of the weights, as `encoders.load` takes it.
        card: a function that writes the model card into a given folder.

    Raises:
        PlanError: as `check_place` and `check_spec`, or sentence-transformers gives other vectors.
        ResourceError: the weights cannot be read.
    """
    from rbench import encoders
    from rbench.train import layout

    check_place(folder, force=force)
    check_spec(spec)
    encoder = encoders.load(spec, where)
    if reason := layout.obstacle(encoder):
        raise PlanError(f"encoder {spec.name} cannot be exported: {reason}")
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".rbench-export-", dir=folder.parent) as name:
        staged = Path(name)
        by_kind = {} if isinstance(spec.prompt, str) else spec.prompt
        _save(encoder, staged, {str(kind): prompt for kind, prompt in by_kind.items()})
        card(staged)
        _compare(encoder, staged)
        if folder.is_dir():
            for old in folder.iterdir():
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        folder.mkdir(exist_ok=True)
        for new in staged.iterdir():
            new.rename(folder / new.name)
    return encoder.dim


def _save(encoder: SentenceEncoder, folder: Path, prompts: Mapping[str, str]) -> None:
    from rbench.train import layout

    # transformers would write the place of the weights, a path on this machine, into the config.
    encoder.model.config._name_or_path = ""
    layout.save(folder, encoder, prompts)


def _compare(encoder: SentenceEncoder, folder: Path) -> None:
    import numpy as np
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder), device="cpu").encode(list(PROBES), show_progress_bar=False)
    ours = encoder.encode(PROBES)
    apart = float(np.abs(ours - theirs).max()) if ours.shape == theirs.shape else float("inf")
    if not apart <= TOLERANCE * max(1.0, float(np.abs(ours).max())):
        raise PlanError(
            f"sentence-transformers gives other vectors for the exported encoder (they differ by up to {apart:.2g}); "
            "nothing was written"
        )
