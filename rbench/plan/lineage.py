"""Follows an encoder's bases down to the weights that a job makes, or that lie in a folder or on the hub."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from rbench.errors import PlanError
from rbench.masking import bare
from rbench.schema import IN_DOMAIN, EncoderSpec, VictimSpec, base_encoder, is_text_file, iter_bases
from rbench.schema.common import ServerSettings
from rbench.schema.unlisted import short_name

S = TypeVar("S", bound=ServerSettings)


def chain_of_bases(name: str, encoders: Mapping[str, EncoderSpec]) -> list[EncoderSpec]:
    """Return the encoder, its base, the base's base and so on, within the registry.

    The chain ends with the first encoder that has `train`, or whose base is not in the registry. The weights come from
    that last encoder: from its pretrain job if it has `train`, else from a folder or a hub id.
    Raises PlanError where the bases form a circle.
    """
    specs = []
    for spec in iter_bases(encoders[name], encoders):
        specs.append(spec)
        if spec.train is not None:
            return specs
    if (again := base_encoder(specs[-1], encoders)) is not None:
        circle = " -> ".join(spec.name for spec in (*specs, again))
        raise PlanError(f"encoder {name}: its bases go round in a circle: {circle}")
    return specs


def as_loaded(name: str, encoders: Mapping[str, EncoderSpec]) -> EncoderSpec:
    """Return the encoder as it is loaded: its own pooling and limits, with the weights at the end of its chain."""
    specs = chain_of_bases(name, encoders)
    spec, last = specs[0], specs[-1]
    if last is spec:
        return spec
    # Each encoder of the chain keeps some of the layers below it, so the fewest remain.
    layers = min((s.layers for s in specs if s.layers is not None), default=None)
    return spec.model_copy(
        update={
            "base": last.name if last.train is not None else last.base,
            "word_vectors": last.word_vectors,
            **({"architecture": last.architecture, "tokenizer": last.tokenizer} if last.random_weights else {}),
            "revision": last.revision,
            "layers": layers,
            "trust_remote_code": last.trust_remote_code,
        }
    )


def portable_encoder(spec: EncoderSpec, models: Collection[str] = ()) -> EncoderSpec:
    """Return the spec as jobs hold it: each path to a base, corpus, resource or further model becomes its last part.

    The job holds the content behind the path as a hash. A full path would give the same work a different key on another
    machine. So would the label of an encoder without a file, since it may need more of the path to be unambiguous.

    Args:
        models: the options of its objective that name further models. All others but `resources` stay as they are,
            because nothing says what lies behind them.
    """
    changes: dict[str, Any] = {
        name: _portable_value(getattr(spec, name)) for name in ("base", "word_vectors", "tokenizer")
    }
    if spec.endpoint is not None:
        changes["endpoint"] = _without_secrets(spec.endpoint)
    if spec.unlisted and spec.base is not None:
        changes["name"] = "".join((short_name(spec.base), *spec.name.partition("[")[1:]))
    if (train := spec.train) is not None:
        hashed = {*models, "resources"}
        options = {k: _portable_value(v) if k in hashed else v for k, v in train.options.items()}
        data = _last_part(train.data) if is_text_file(train.data) else train.data
        # `by_task` has been applied by `as_trained`; kept, settings for other corpora would change this job's key.
        changes["train"] = train.model_copy(update={"data": data, "options": options, "by_task": {}})
    return spec.model_copy(update=changes)


def portable_victim(spec: VictimSpec) -> VictimSpec:
    """Return the spec as jobs hold it: the path of a model becomes its last part. The job holds the content as a hash.

    An endpoint's headers and the secrets of its URL are left out, because they are for the server that asks for them.
    """
    changes: dict[str, Any] = {"model": _portable_value(spec.model)}
    if spec.endpoint is not None:
        changes["endpoint"] = _without_secrets(spec.endpoint)
    return spec.model_copy(update=changes)


def _without_secrets(served: S) -> S:
    return served.model_copy(update={"headers": {}, "url": bare(served.url)})


def _portable_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _portable_value(v) for k, v in value.items()}
    return _last_part(value) if isinstance(value, str) and value.startswith(("/", ".", "~")) else value


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def find_trained_root(name: str, encoders: Mapping[str, EncoderSpec]) -> str | None:
    """Return the encoder whose pretrain job makes the weights of `name`, or None where no job makes them."""
    last = chain_of_bases(name, encoders)[-1]
    return last.name if last.train is not None else None


def as_trained(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec], task: str | None) -> EncoderSpec:
    """Return an encoder that rbench trains, as it is trained: with the layers that its bases keep, its corpus, and the
    settings that its file has for this corpus (`by_task`).

    Raises PlanError where it is trained on the texts of a task and `task` is None.
    """
    assert spec.train is not None
    if spec.train.data == IN_DOMAIN and task is None:
        raise PlanError(
            f"encoder {spec.name} is trained on the texts of the task that it is fine-tuned on (data: {IN_DOMAIN}), "
            f"but here it is used without a task. Name a corpus or a task: {{{spec.name}: {{data: CORPUS}}}}"
        )
    data = task if spec.train.data == IN_DOMAIN and task is not None else spec.train.data
    if data != spec.train.data or spec.train.by_task:
        spec = spec.model_copy(update={"train": spec.train.for_corpus(data)})
    base = registered_base(spec, encoders)
    base_chain = chain_of_bases(base, encoders) if base is not None else []
    # A base that a job trained was saved with its layers cut already.
    cut = [spec, *(base_spec for base_spec in base_chain if base_spec.train is None)]
    num_layers = [base_spec.layers for base_spec in cut if base_spec.layers is not None]
    return spec.model_copy(update={"layers": min(num_layers)}) if num_layers else spec


def find_weights_source(name: str, encoders: Mapping[str, EncoderSpec]) -> EncoderSpec | None:
    """Return the encoder whose weights must be found on disk or on the hub to make `name`; None where jobs make all.

    If `name` is trained by a job, this is the base of that training. Otherwise it is the end of its chain of bases. If
    that keeps random weights, its `tokenizer` and `revision` are replaced by those that `locate` looks for.
    """
    last = chain_of_bases(name, encoders)[-1]
    if last.random_weights:
        return _with_tokenizer(last, encoders)
    if last.train is None:
        # Neither the label of an encoder without a file nor one with options names a folder on the search path.
        searched = last.base if last.unlisted else last.name.partition("[")[0]
        return last.model_copy(update={"name": searched})
    if last.base is None:
        return None
    if (base := registered_base(last, encoders)) is not None:
        below = chain_of_bases(base, encoders)[-1]
        return below if below.train is None else None
    # The spec takes the base's name: a folder with the encoder's name would hold the encoder, not its base.
    return last.model_copy(update={"name": last.base, "train": None})


def _with_tokenizer(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> EncoderSpec:
    """Return an encoder with random weights under the name of whose tokenizer it reads with, and with its place.

    A registry encoder's tokenizer is that of the weights at the bottom of its bases, because no training changes it.
    Loading has checked that these are neither word vectors nor random.
    """
    below = encoders.get(spec.tokenizer) if spec.tokenizer is not None else None
    if below is None:
        return spec.model_copy(update={"name": spec.tokenizer or spec.name})
    *_, bottom = iter_bases(below, encoders)
    if bottom.architecture is not None:
        return spec.model_copy(update={"tokenizer": None})  # it reads with the embedded world's
    return spec.model_copy(update={"name": bottom.name, "tokenizer": bottom.base, "revision": bottom.revision})


def registered_base(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> str | None:
    """Return the name of an encoder's base where that is another encoder of the registry (`base_of`), else None."""
    return spec.base if base_encoder(spec, encoders) is not None else None
