"""Completes encoders by what their models' own files say, and tells where a file or a suite contradicts them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rbench.config import Loaded
from rbench.config.positions import shown
from rbench.errors import ResourceError
from rbench.plan.lineage import chain, portable
from rbench.schema import ADVERSARIAL, AdversarialSet, EncoderSpec, content_key
from rbench.system.digests import Located

_TOLD = ("pooling", "normalize", "truncate_dim", "prompt", "include_prompt", "lowercase", "max_length", "dtype")
"""The fields that notes mention, in their order."""
_COMPARED = (*_TOLD, "similarity")
"""The fields in which a file or a suite can contradict the model's own files: those that change what a vector is, or
how two are compared."""


def complete(loaded: Loaded, weights: Mapping[str, Located], problems: list[str]) -> tuple[Loaded, list[str]]:
    """Return the suite with complete encoders, and notes for the user: what was taken from the own files of a model
    that stands in place of a name, and where the file or the suite says something else of an encoder than they do.

    What neither the encoder's file nor the suite sets is taken from the own files of the model at the end of its bases,
    so that a name stands for the vectors that the model's makers mean. Files of transformers say nothing of pooling, so
    they complete no encoder that has a file; and what a job trains is as its own file says.

    Add a problem where a model's files cannot be used, and where two encoders of the suite are the same model under the
    same name.
    """
    from rbench.encoders.model_metadata import check_code, stated

    encoders, notes = dict(loaded.encoders), []
    contradicted: set[tuple[str, str]] = set()
    attacked = (one.set.encoder for one in loaded.sets_of(ADVERSARIAL) if isinstance(one.set, AdversarialSet))
    used = {*loaded.suite.encoders, *attacked}
    for name, spec in loaded.encoders.items():
        place, last = weights.get(name), chain(name, loaded.encoders)[-1]
        if place is None:
            continue
        try:
            if last.train is None and last.base is not None:
                set_here = spec.model_dump(exclude_unset=True)
                trusted, revision = last.trust_remote_code, last.revision
                said = stated(place.where, revision=revision, trust_remote_code=trusted, given=set_here)
                if said.complete or spec.unlisted:
                    encoders[name] = EncoderSpec.model_validate({**said.fields, **set_here})
                if spec.unlisted and name in used:
                    notes.append(_told(encoders[name], place, said.complete))
                unlike = _contradicted(spec, said.fields, place) if said.complete and name in used else ""
                if unlike and (of := (name.partition("[")[0], unlike)) not in contradicted:
                    contradicted.add(of)  # options that change no vector leave a note that is there
                    notes.append(f"{name}: {unlike}")
            elif Path(place.where).is_dir():
                check_code(Path(place.where), trusted=last.trust_remote_code)
        except (ResourceError, ValidationError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            problems.append(f"encoder `{spec.base if spec.unlisted else name}`: {why}")
    complete = dataclasses.replace(loaded, encoders=encoders)
    problems += _twins(complete, weights)
    return complete, notes


def _told(spec: EncoderSpec, place: Located, by_files: bool) -> str:
    """Return the note on an encoder without a file: how its vectors are made."""
    default = {name: EncoderSpec.model_fields[name].default for name in _TOLD}
    values = [(field, getattr(spec, field)) for field in _TOLD]
    told = [_in_words(of, value) for of, value in values if value != default[of] or of == "pooling"]
    more = "" if by_files else "; a folder of transformers does not say how to pool"
    return f"{spec.name}: {_shown(place)} ({', '.join(told)}{more})"


def _contradicted(spec: EncoderSpec, said: Mapping[str, Any], place: Located) -> str:
    """Say where an encoder's file, or the suite, sets something else than its model's own files; empty: nowhere."""
    unlike = [*_unlike(spec, said)]
    if not unlike:
        return ""
    own, theirs = (", ".join(side) for side in zip(*unlike, strict=True))
    shown = _shown(place)
    other = shown.partition("@")[0] if shown == place.where else shown
    name = spec.name.partition("[")[0]
    who, remedy = "its file says", f"The file wins; to take what they say, write {other} in place of {name}"
    if spec.unlisted:
        who, remedy = "the suite says", f"The suite wins; to take what they say, write {other} alone"
    return f"{who} {own}, and the model's own files say {theirs} ({shown}). {remedy}"


def _unlike(spec: EncoderSpec, said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each field that is set otherwise than by the model's own files, in words of both."""
    for name in _COMPARED:
        own, theirs = getattr(spec, name), said.get(name, EncoderSpec.model_fields[name].default)
        if name in spec.model_fields_set and own != theirs:
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
