"""Completes encoders by what their models' own files say, and tells where a file or a suite contradicts them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rbench.config import LoadedSuite
from rbench.config.positions import shown_path
from rbench.errors import ResourceError
from rbench.plan.lineage import chain_of_bases, portable_encoder
from rbench.schema import ADVERSARIAL, AdversarialSet, EncoderSpec, content_key
from rbench.system.digests import FingerprintedPlace

_NOTED_FIELDS = ("pooling", "normalize", "truncate_dim", "prompt", "include_prompt", "lowercase", "max_length", "dtype")
"""The fields that notes mention, in their order."""
_COMPARED_FIELDS = (*_NOTED_FIELDS, "similarity")
"""The fields in which a file or a suite can contradict the model's own files: those that change what a vector is, or
how two are compared."""


def complete_encoders(
    loaded: LoadedSuite, weights: Mapping[str, FingerprintedPlace], problems: list[str]
) -> tuple[LoadedSuite, list[str]]:
    """Return the suite with complete encoders, and notes for the user: what was taken from the own files of a model
    that stands in place of a name, and where the file or the suite says something else of an encoder than they do.

    What neither the encoder's file nor the suite sets is taken from the own files of the model at the end of its bases,
    so that a name stands for the vectors that the model's makers mean. Files of transformers say nothing of pooling, so
    they complete no encoder that has a file; and what a job trains is as its own file says.

    Add a problem where a model's files cannot be used, and where two encoders of the suite are the same model under the
    same name.
    """
    from rbench.encoders.model_metadata import check_own_code, read_metadata

    encoders, notes = dict(loaded.encoders), []
    contradicted: set[tuple[str, str]] = set()
    attacked = (
        asked_set.set.encoder for asked_set in loaded.sets_of(ADVERSARIAL) if isinstance(asked_set.set, AdversarialSet)
    )
    used = {*loaded.suite.encoders, *attacked}
    for name, spec in loaded.encoders.items():
        place, weights_spec = weights.get(name), chain_of_bases(name, loaded.encoders)[-1]
        if place is None:
            continue
        try:
            if weights_spec.train is None and weights_spec.base is not None:
                set_here = spec.model_dump(exclude_unset=True)
                trusted, revision = weights_spec.trust_remote_code, weights_spec.revision
                metadata = read_metadata(place.where, revision=revision, trust_remote_code=trusted, given=set_here)
                if metadata.complete or spec.unlisted:
                    encoders[name] = EncoderSpec.model_validate({**metadata.fields, **set_here})
                if spec.unlisted and name in used:
                    notes.append(_describe_unlisted(encoders[name], place, metadata.complete))
                contradiction = (
                    _describe_contradiction(spec, metadata.fields, place) if metadata.complete and name in used else ""
                )
                key = (name.partition("[")[0], contradiction)
                if contradiction and key not in contradicted:
                    contradicted.add(key)  # options that change no vector leave a note that is there
                    notes.append(f"{name}: {contradiction}")
            elif Path(place.where).is_dir():
                check_own_code(Path(place.where), trusted=weights_spec.trust_remote_code)
        except (ResourceError, ValidationError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            problems.append(f"encoder `{spec.base if spec.unlisted else name}`: {reason}")
    completed = dataclasses.replace(loaded, encoders=encoders)
    problems += _find_twins(completed, weights)
    return completed, notes


def _describe_unlisted(spec: EncoderSpec, place: FingerprintedPlace, by_files: bool) -> str:
    """Return the note on an encoder without a file: how its vectors are made."""
    default = {name: EncoderSpec.model_fields[name].default for name in _NOTED_FIELDS}
    values = [(field, getattr(spec, field)) for field in _NOTED_FIELDS]
    field_texts = [
        _format_field(field, value) for field, value in values if value != default[field] or field == "pooling"
    ]
    more = "" if by_files else "; a folder of transformers does not say how to pool"
    return f"{spec.name}: {_format_place(place)} ({', '.join(field_texts)}{more})"


def _describe_contradiction(spec: EncoderSpec, model_fields: Mapping[str, Any], place: FingerprintedPlace) -> str:
    """Say where an encoder's file, or the suite, sets something else than its model's own files; empty: nowhere."""
    differing = [*_differing_fields(spec, model_fields)]
    if not differing:
        return ""
    own_texts, model_texts = (", ".join(side) for side in zip(*differing, strict=True))
    place_text = _format_place(place)
    other = place_text.partition("@")[0] if place_text == place.where else place_text
    name = spec.name.partition("[")[0]
    says, remedy = "its file says", f"The file wins; to take what they say, write {other} in place of {name}"
    if spec.unlisted:
        says, remedy = "the suite says", f"The suite wins; to take what they say, write {other} alone"
    return f"{says} {own_texts}, and the model's own files say {model_texts} ({place_text}). {remedy}"


def _differing_fields(spec: EncoderSpec, model_fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each field that is set otherwise than by the model's own files, in words of both."""
    for name in _COMPARED_FIELDS:
        own_value, model_value = getattr(spec, name), model_fields.get(name, EncoderSpec.model_fields[name].default)
        if name in spec.model_fields_set and own_value != model_value:
            yield _format_field(name, own_value), _format_field(name, model_value)


def _find_twins(loaded: LoadedSuite, weights: Mapping[str, FingerprintedPlace]) -> Iterator[str]:
    """Yield a problem for each encoder without a file that has the keys of another one of the suite.

    Such are copies of one folder under the same name. A table would have the results of the first alone.
    """
    first: dict[str, str] = {}
    for name in dict.fromkeys(loaded.suite.encoders):
        spec = loaded.encoders[name]
        if spec.unlisted and name in weights:
            key = content_key([portable_encoder(spec), weights[name].fingerprint])
            if key in first:
                yield (
                    f"encoders {first[key]} and {name} are the same model ({loaded.encoders[first[key]].base} and "
                    f"{spec.base}); remove one of them, or rename its folder"
                )
            first.setdefault(key, name)


def _format_place(place: FingerprintedPlace) -> str:
    """Write a place as a user would: `./mine`, a path, or `id@commit`."""
    if not Path(place.where).is_dir():
        return place.where
    path = shown_path(Path(place.where))
    return path if Path(path).is_absolute() else f"./{path}"


def _format_field(name: str, value: Any) -> str:
    """Write a field as a note has it: `pooling mean`, `no normalisation`, `prompt "query: "`."""
    if name == "include_prompt":
        return "prompt pooled too" if value else "prompt not pooled"
    name = {"normalize": "normalisation", "lowercase": "lowercasing"}.get(name, name)
    if value is None or value is False or value == "":
        return f"no {name}"
    if value is True:
        return name
    return f'{name} "{value}"' if name == "prompt" and isinstance(value, str) else f"{name} {value}"
