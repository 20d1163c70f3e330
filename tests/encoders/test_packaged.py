"""The trained encoders that come with rbench: today's code trains them, and suites take them as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from rbench import encoders
from rbench.api.suites import prepare_suite
from rbench.config.registry import Registry
from rbench.encoders.locate import PACKAGED, locate
from rbench.plan.prepare import Options, PreparedSuite
from rbench.schema import EncoderSpec, PretrainJob
from rbench.tables.flags import Flags

NAMES = ["mini-bert", "simcse-mini", "robustsentembed-mini"]


@pytest.fixture(scope="module")
def packaged() -> PreparedSuite:
    return prepare_suite("mini-encoders", Options())


@pytest.fixture(scope="module")
def from_scratch() -> PreparedSuite:
    return prepare_suite("mini-encoders", Options(profile="from-scratch"))


def trained(name: str) -> dict[str, Any]:
    about: dict[str, Any] = json.loads((PACKAGED / f"{name}-packaged" / "trained.json").read_text(encoding="utf-8"))
    return about


def test_the_weights_are_those_of_todays_trainings(from_scratch: PreparedSuite) -> None:
    """If this fails: the code or data behind an encoder has changed. Run python benchmarks/package_weights.py."""
    keys = {job.spec.encoder.name: job.key for job in from_scratch.plan.jobs if isinstance(job.spec, PretrainJob)}
    assert {name: trained(name)["key"] for name in NAMES} == keys


def test_the_suite_of_these_encoders_trains_no_encoder(packaged: PreparedSuite) -> None:
    assert {job.stage for job in packaged.plan.jobs} == {"measure", "finetune", "attack"}


def test_both_profiles_attack_the_same_texts_of_the_same_tasks(
    packaged: PreparedSuite, from_scratch: PreparedSuite
) -> None:
    one, other = (
        {(job.parts[1:], job.seed) for job in prepared.plan.jobs if job.stage == "attack"}
        for prepared in (packaged, from_scratch)
    )
    assert one == other


def test_their_files_state_the_flags_of_their_trainings(packaged: PreparedSuite) -> None:
    """No job of their suite trains them, so tables know the flags from the encoders' files."""
    stated = {job.entry.name: set(job.entry.flags) for job in packaged.plan.jobs if isinstance(job.entry, EncoderSpec)}
    assert stated == {f"{name}-packaged": {one["flag"] for one in trained(name)["flags"]} for name in NAMES}
    flags = Flags(packaged.plan, {}).raised_notes(packaged.plan.jobs)
    assert [note.partition(" (")[0] for note in flags] == ["Flagged no adversary"], (
        "below each table, and in the report"
    )
    assert "robustsentembed-mini-packaged (in its training of 90 steps" in flags[0]


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_on_disk_single_in_memory(name: str) -> None:
    folder = PACKAGED / f"{name}-packaged"
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert f"{name}-packaged" in Registry().names("encoders")
    encoder = encoders.load(EncoderSpec(name=f"{name}-packaged", base=f"{name}-packaged", pooling="cls"), str(folder))
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    vectors = encoder.encode(["the fox sees a dog", "no"])
    assert np.isfinite(vectors).all()
    assert not np.allclose(vectors[0], vectors[1])


def test_a_users_folder_of_that_name_comes_first(tmp_path: Path) -> None:
    spec = EncoderSpec(name="mini-bert-packaged", base="mini-bert-packaged", pooling="cls")
    shutil.copytree(PACKAGED / "mini-bert-packaged", tmp_path / "mini-bert-packaged")
    assert locate(spec).where == str(PACKAGED / "mini-bert-packaged")
    assert locate(spec, [tmp_path]).where == str(tmp_path / "mini-bert-packaged")
