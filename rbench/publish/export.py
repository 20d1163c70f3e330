"""An encoder as a folder that plain `SentenceTransformer(path)` loads: safetensors, no pickle, with a model card."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.errors import PlanError
from rbench.spec import EncoderSpec

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

TOLERANCE = 1e-5
"""What a number of a vector may differ by between rbench and sentence-transformers."""

PROBES = ("a", "The film was good, and its ending better.", "Zwölf Boxkämpfer? 3 + 4 = 7. " * 40)
"""A short text, a plain one, and one that is cut."""


def check_place(folder: Path, *, force: bool = False) -> None:
    """Whether `folder` may be written to: it is new or empty, or with `force` an encoder's.

    Raises:
        PlanError: it is a file, has something in it, or lies where nothing can be written. Even `force` replaces
            nothing that is no encoder.
    """
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".rbench-export-", dir=above):
            pass
    except OSError as error:
        raise PlanError(
            f"{folder}: nothing can be written in {above} ({error.strerror}); name another place"
        ) from error
    if folder.exists() and not folder.is_dir():
        raise PlanError(f"{folder} is a file; name a folder")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not force:
        raise PlanError(f"{folder} is not empty; name another folder, or say --force to replace the encoder in it")
    if not any((folder / name).is_file() for name in ("modules.json", "config.json")):
        raise PlanError(f"{folder} has files in it and is no encoder's folder; --force replaces encoders only")


def check_spec(spec: EncoderSpec) -> None:
    """Whether sentence-transformers can express the encoder, as `rbench.plan.lineage.effective` gives it.

    Raises:
        PlanError: it cannot, with the reason.
    """
    from rbench.train.layout import EXPRESSIBLE

    if spec.trust_remote_code:
        raise PlanError(
            f"encoder {spec.name} brings Python code of its own, which plain SentenceTransformer(path) does not run: "
            "it cannot be exported"
        )
    if spec.pooling not in EXPRESSIBLE:
        raise PlanError(
            f"encoder {spec.name} has pooling {spec.pooling}, and a SentenceTransformer of a transformer and a pooling "
            f"has {' or '.join(EXPRESSIBLE)}: it cannot be exported. An encoder file of your own with `base: "
            f"{spec.name}` and another `pooling` can."
        )


def write(
    spec: EncoderSpec, where: Path | str, folder: Path, card: Callable[[Path], None], *, force: bool = False
) -> int:
    """Write the encoder with the weights at `where` to `folder`, and return the width of its vectors.

    It is written beside its place, read again with sentence-transformers, compared, and then moved there.

    Args:
        spec: the encoder as it is loaded.
        where: what `encoders.load` takes.
        card: writes the model card into the folder that it is given.

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
        _save(encoder, staged)
        card(staged)
        _compare(encoder, staged)
        if folder.is_dir():
            for old in folder.iterdir():
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        folder.mkdir(exist_ok=True)
        for new in staged.iterdir():
            new.rename(folder / new.name)
    return encoder.dim


def _save(encoder: SentenceEncoder, folder: Path) -> None:
    from rbench.train import layout

    # transformers would note where the weights came from, which is a path on this machine.
    encoder.model.config._name_or_path = ""
    layout.save(folder, encoder)


def _compare(encoder: SentenceEncoder, folder: Path) -> None:
    import numpy as np
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder), device="cpu").encode(list(PROBES), show_progress_bar=False)
    ours = encoder.encode(PROBES)
    apart = float(np.abs(ours - theirs).max()) if ours.shape == theirs.shape else float("inf")
    if not apart <= TOLERANCE * max(1.0, float(np.abs(ours).max())):
        raise PlanError(
            f"sentence-transformers makes other vectors of what was exported (numbers differ by up to {apart:.2g}); "
            "nothing was written"
        )
