"""What encoders stand on: bases below bases, down to weights that a job makes or that lie somewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rbench.errors import PlanError
from rbench.spec import IN_DOMAIN, EncoderSpec, base_of, bases, is_text_file


def chain(name: str, encoders: Mapping[str, EncoderSpec]) -> list[EncoderSpec]:
    """The encoder, its base, the base's base ...: up to and including the first that is trained or not in the registry.

    The last member is where the weights come from: a pretrain job if it has `train`, else a folder or a hub id.
    Raises PlanError where the bases go round in a circle.
    """
    specs = []
    for spec in bases(encoders[name], encoders):
        specs.append(spec)
        if spec.train is not None:
            return specs
    if (again := base_of(specs[-1], encoders)) is not None:
        circle = " -> ".join(spec.name for spec in (*specs, again))
        raise PlanError(f"encoder {name}: its bases go round in a circle: {circle}")
    return specs


def effective(name: str, encoders: Mapping[str, EncoderSpec]) -> EncoderSpec:
    """The encoder as it is loaded: its own pooling and limits, over the weights at the end of its chain of bases."""
    specs = chain(name, encoders)
    spec, last = specs[0], specs[-1]
    if last is spec:
        return spec
    layers = min((s.layers for s in specs if s.layers is not None), default=None)
    return spec.model_copy(
        update={
            "base": last.name if last.train is not None else last.base,
            "word_vectors": last.word_vectors,
            "revision": last.revision,
            "layers": layers,
            "trust_remote_code": last.trust_remote_code,
        }
    )


def portable(spec: EncoderSpec) -> EncoderSpec:
    """The spec as jobs hold it: of a path, a base's, a corpus's or a further model's, its last part alone.

    What lies there is in the job as a hash, and a path would make the same work another job elsewhere.
    """
    changes: dict[str, Any] = {}
    if spec.base is not None and _is_path(spec.base):
        changes["base"] = _last(spec.base)
    if spec.word_vectors is not None and _is_path(spec.word_vectors):
        changes["word_vectors"] = _last(spec.word_vectors)
    if (train := spec.train) is not None:
        options = {k: _portable(v) for k, v in train.options.items()}
        data = _last(train.data) if is_text_file(train.data) else train.data
        changes["train"] = train.model_copy(update={"data": data, "options": options})
    return spec.model_copy(update=changes)


def _portable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _portable(v) for k, v in value.items()}
    return _last(value) if isinstance(value, str) and _is_path(value) else value


def _is_path(name: str) -> bool:
    return name.startswith(("/", ".", "~"))


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def trained_root(name: str, encoders: Mapping[str, EncoderSpec]) -> str | None:
    """Name of the encoder whose pretrain job makes the weights of `name`; None where they come from folder or hub."""
    last = chain(name, encoders)[-1]
    return last.name if last.train is not None else None


def in_domain_for(spec: EncoderSpec, task: str | None) -> EncoderSpec:
    """The encoder as it is trained on the texts of one task; PlanError where there is none."""
    assert spec.train is not None
    if task is None:
        raise PlanError(
            f"encoder {spec.name} is trained on the texts of the task that it is fine-tuned on (data: {IN_DOMAIN}), "
            f"and here it is used without one. Name a corpus: {{{spec.name}: {{data: CORPUS}}}}; a task is one too."
        )
    return spec.model_copy(update={"train": spec.train.model_copy(update={"data": task})})


def weights_source(name: str, encoders: Mapping[str, EncoderSpec]) -> EncoderSpec | None:
    """What to look for on disk or on the hub so that encoder `name` can be made; None where jobs make all of it.

    For an encoder that we train this is its base, for any other the end of its chain of bases.
    """
    last = chain(name, encoders)[-1]
    if last.train is None:
        return last
    if last.base is None:
        return None
    if (base := registered_base(last, encoders)) is not None:
        below = chain(base, encoders)[-1]
        return below if below.train is None else None
    # Under the base's name: a folder that is called like the encoder would be the encoder, not its base.
    return last.model_copy(update={"name": last.base, "train": None})


def registered_base(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> str | None:
    """The name of the base of an encoder where that is another encoder of the registry, as `base_of` finds it."""
    return spec.base if base_of(spec, encoders) is not None else None
