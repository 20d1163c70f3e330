"""Ask an encoder for the texts of a baseline of vectors: to make the baseline, and to check against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.api.call_options import check_alpha, expand_path, resolve_options
from rbench.api.training import load_encoder, load_entry
from rbench.config.registry import Registry
from rbench.errors import JobError, StoreError
from rbench.gate import vector_baseline as baselines
from rbench.gate.vector_baseline import ROUNDS, Answers, VectorBaseline
from rbench.gate.vector_check import VectorCheck, check_vectors
from rbench.gate.watched_texts import build_texts
from rbench.plan.lineage import as_loaded

AskEncoder = Callable[[Sequence[str]], Answers]


def write_encoder_baseline(encoder: Any, out: str | Path, **settings: Any) -> VectorBaseline:
    """Ask an encoder for the vectors of fixed texts, in several rounds, and write the baseline of later checks.

    Args:
        encoder: a name, a folder, a hub id or the YAML file of an encoder; a function from texts to vectors (n, dim),
            or its name `module:function`; or an object whose `encode` is such a function.
        out: a .json file; .json.gz is compressed.
        settings: models, include and device, as of `load_encoder`.

    Raises:
        RbenchError: as of `load_encoder`.
        JobError: it cannot be asked, or gives no vectors.
    """
    name, ask = _open_encoder(encoder, settings)
    texts = [text.text for text in build_texts()]
    baseline = baselines.build_vector_baseline(name, [ask(texts) for _ in range(ROUNDS)])
    baselines.write(baseline, expand_path(out))
    return baseline


def check_encoder(
    encoder: Any, baseline: str | Path, *, alpha: float = 0.001, tolerance: float = 0.0001, **settings: Any
) -> VectorCheck:
    """Check whether an encoder still gives the vectors of a baseline, and say what changed if it does not.

    Args:
        encoder: as of `write_encoder_baseline`.
        baseline: a file that it wrote.
        alpha: how often a check of an encoder that has not changed may fail, above 0 and below 0.5.
        tolerance: the change of a cosine that passes, from 0 to 1.
        settings: models, include and device, as of `load_encoder`.

    Raises:
        StoreError: the file is no such baseline, or a value is out of range.
        RbenchError: as of `load_encoder`.
        JobError: the encoder cannot be asked, or gives no vectors.
    """
    check_alpha(alpha)
    if not 0 <= tolerance < 1:
        raise StoreError(f"tolerance {tolerance}: the change of a cosine that passes lies between 0 and 1")
    before = baselines.read(expand_path(baseline))
    name, ask = _open_encoder(encoder, settings)
    answers = ask([text.text for text in build_texts()])
    return check_vectors(before, answers, encoder=name, alpha=alpha, tolerance=tolerance)


def _open_encoder(encoder: Any, settings: Mapping[str, Any]) -> tuple[str, AskEncoder]:
    """Return an encoder's name, and what asks it for vectors, never from a cache.

    Functions and endpoints are asked for one text after the other, so that noise, or which server answers, is drawn for
    each text anew, as the test of a check supposes.
    """
    options = resolve_options(None, settings)
    if not isinstance(encoder, str | Path):
        function = getattr(encoder, "encode", encoder)
        return str(getattr(encoder, "__qualname__", type(encoder).__name__)), partial(_ask_singly, function)
    text = str(encoder)
    if _is_function(text):
        from rbench.victims.function import import_function

        return text, partial(_ask_singly, import_function(text, Path.cwd()))
    registry = Registry(options.include)
    path = Path(text).expanduser()
    if path.exists() and text not in registry.names("encoders"):
        text = str(path.absolute())
    label, loaded = load_entry(text, registry)
    spec = as_loaded(label, loaded.encoders)
    if spec.endpoint is not None:
        from rbench.encoders.remote import ask_afresh

        return spec.name, partial(ask_afresh, spec)
    local = load_encoder(text, **settings)
    return label, lambda texts: [*local.encode(texts)]


def _is_function(text: str) -> bool:
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def _ask_singly(encode: Callable[[list[str]], Any], texts: Sequence[str]) -> list[NDArray[np.float64]]:
    return [_read_vector(encode([text])) for text in texts]


def _read_vector(answer: Any) -> NDArray[np.float64]:
    """Return the vector in the answer to one text. Raises JobError where it is none."""
    if hasattr(answer, "detach"):  # a tensor; numpy has no bfloat16
        answer = answer.detach().cpu().double()
    try:
        vectors = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise JobError(f"the encoder's answer to one text is no row of numbers: {error}") from None
    if vectors.ndim != 2 or len(vectors) != 1 or not vectors.size:
        raise JobError(f"the encoder answered {vectors.shape} numbers to a list of one text, and not (1, dim)")
    row: NDArray[np.float64] = vectors[0]
    return row
