"""Completes encoders that have no file by what their models' own files say, and tells where a file contradicts them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rbench.config import Loaded
from rbench.config.positions import shown
from rbench.errors import ResourceError
from rbench.plan.lineage import chain, effective, portable
from rbench.schema import ADVERSARIAL, AdversarialSet, EncoderSpec, content_key
from rbench.system.digests import Located

_TOLD = ("pooling", "normalize", "truncate_dim", "prompt", "include_prompt", "lowercase", "max_length", "dtype")
"""The fields that notes mention, in their order."""
_COMPARED = ("pooling", "normalize", "truncate_dim", "prompt", "lowercase")
"""The fields in which a file can contradict the model's own files: those that change what a vector is."""


def complete(loaded: Loaded, weights: Mapping[str, Located], problems: list[str]) -> tuple[Loaded, list[str]]:
    """Return the suite with complete encoders, and notes for the user: what was taken from models' own files, and where
    the file of an encoder of the suite says something else than they do.

    What a suite sets of an encoder without a file is kept. Add a problem where a model's files cannot be used, and
    where two encoders of the suite are the same model under the same name.
    """
    from rbench.encoders.model_metadata import check_code, stated

    encoders, notes = dict(loaded.encoders), []
    default = {name: EncoderSpec.model_fields[name].default for name in _TOLD}
    attacked = (one.set.encoder for one in loaded.sets_of(ADVERSARIAL) if isinstance(one.set, AdversarialSet))
    used = {*loaded.suite.encoders, *attacked}
    for name, spec in loaded.encoders.items():
        place = weights.get(name)
        try:
            if place is not None and spec.unlisted:
                said = stated(place.where, revision=spec.revision)
                spec = encoders[name] = EncoderSpec.model_validate(
                    {**said.fields, **spec.model_dump(exclude_unset=True)}
                )
                values = [(field, getattr(spec, field)) for field in _TOLD]
                told = [_in_words(of, value) for of, value in values if value != default[of] or of == "pooling"]
                if not said.by_sentence_transformers:
                    told[-1] += "; a folder of transformers does not say how to pool"
                notes += [f"{spec.name}: {_shown(place)} ({', '.join(told)})"] if name in used else []
            elif place is not None and Path(place.where).is_dir():
                check_code(Path(place.where), trusted=chain(name, encoders)[-1].trust_remote_code)
        except (ResourceError, ValidationError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            problems.append(f"encoder `{spec.base if spec.unlisted else name}`: {why}")
    complete = dataclasses.replace(loaded, encoders=encoders)
    problems += _twins(complete, weights)
    return complete, [*notes, *_contradictions(complete, weights)]


def _contradictions(loaded: Loaded, weights: Mapping[str, Located]) -> Iterator[str]:
    """Yield a note for each encoder of the suite whose file says something else than its model's own files."""
    from rbench.encoders.model_metadata import stated

    for name in dict.fromkeys(label.partition("[")[0] for label in loaded.suite.encoders):
        spec = loaded.encoders.get(name)
        if spec is None or spec.unlisted or name not in weights or chain(name, loaded.encoders)[-1].base is None:
            continue
        if any(below.train is not None for below in chain(name, loaded.encoders)):
            continue  # the weights that it starts from are another encoder's
        try:
            revision = effective(name, loaded.encoders).revision
            said = stated(weights[name].where, revision=revision, trust_remote_code=True)
        except ResourceError:
            continue  # the file wins, so what the model's files say is not needed
        if said.by_sentence_transformers and (unlike := [*_unlike(effective(name, loaded.encoders), said.fields)]):
            own, theirs = (", ".join(side) for side in zip(*unlike, strict=True))
            place = _shown(weights[name])
            other = place.partition("@")[0] if place == weights[name].where else place
            yield (
                f"{name}: its file says {own}, and the model's own files say {theirs} ({place}). The file wins; to "
                f"take what they say, write {other} in place of {name}"
            )


def _unlike(spec: EncoderSpec, said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each field that an encoder's file and its model's own files say differently, in words of both."""
    for name in _COMPARED:
        own, theirs = getattr(spec, name), said.get(name, EncoderSpec.model_fields[name].default)
        if own != theirs:
            yield _in_words(name, own), _in_words(name, theirs)


def _twins(loaded: Loaded, weights: Mapping[str, Located]) -> Iterator[str]:
    """Yield a problem for each encoder without a file that has the keys of another one of the suite.

    Such are copies of one folder under the same name. A table would have the results of the first alone.
    """
    first: dict[str, str] = {}
    for name in dict.fromkeys(loaded.suite.encoders):
        spec = loaded.encoders[name]
        if spec.unlisted and name in weights:
            key = content_key([portable(spec), weights[name].fingerprint])
            if key in first:
                yield (
                    f"encoders {first[key]} and {name} are the same model ({loaded.encoders[first[key]].base} and "
                    f"{spec.base}); remove one of them, or rename its folder"
                )
            first.setdefault(key, name)


def _shown(place: Located) -> str:
    """Write a place as a user would: `./mine`, a path, or `id@commit`."""
    if not Path(place.where).is_dir():
        return place.where
    path = shown(Path(place.where))
    return path if Path(path).is_absolute() else f"./{path}"


def _in_words(name: str, value: Any) -> str:
    """Write a field as a note has it: `pooling mean`, `no normalisation`, `prompt "query: "`."""
    if name == "include_prompt":
        return "prompt pooled too" if value else "prompt not pooled"
    name = {"normalize": "normalisation", "lowercase": "lowercasing"}.get(name, name)
    if value is None or value is False or value == "":
        return f"no {name}"
    if value is True:
        return name
    return f'{name} "{value}"' if name == "prompt" and isinstance(value, str) else f"{name} {value}"
