"""Tests that the ablation suites have rows at which their knobs act: rows that differ in one option and in delta."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from rbench import config
from rbench.config.registry import Registry
from rbench.train import objectives, perturb
from rbench.train.contrastive import Batch, ContrastiveObjective
from rbench.train.options import SentenceLevelOptions
from tests.train.made import batch_of, made, run

ACTS = 0.1
"""Deltas differ by at least this share of the larger one. Where a knob does nothing the share is below 0.01."""


@cache
def rows_of(suite: str, profile: str | None) -> list[dict[str, Any]]:
    """The options of each row's objective."""
    loaded = config.load(suite, registry=Registry(), profile=profile)
    specs = [loaded.encoders[label].train for label in loaded.suite.encoders]
    return [dict(spec.options) for spec in specs if spec is not None]


def deltas_of(suite: str, rows: Sequence[Mapping[str, Any]], base: Path) -> list[Tensor]:
    """What each row's objective adds to the words of a batch, on one tiny encoder."""
    name = suite.partition("-")[0]
    return [delta_of(name, json.dumps(row, sort_keys=True), base) for row in rows]


@cache
def made_once(name: str, base: Path) -> tuple[ContrastiveObjective, Batch, dict[str, Tensor]]:
    """The objective, its batch, and the buffers that it begins with."""
    built = made(name, base)
    return built, batch_of(built), {key: buffer.clone() for key, buffer in built.model.named_buffers()}


@cache
def delta_of(name: str, row: str, base: Path) -> Tensor:
    """The same for one row, in JSON. Suites and their profiles share many."""
    module, (built, batch, before) = objectives.find(name), made_once(name, base)
    for key, buffer in built.model.named_buffers():
        buffer.copy_(before[key])
    built.model._losses = partial(module.losses, module.Options.model_validate_json(row))
    found: list[Tensor] = []
    with pytest.MonkeyPatch.context() as patch:
        for function in ("ascend", "project_sentence"):
            patch.setattr(perturb, function, kept(getattr(perturb, function), found))
        run(built, batch)
    return (found[-1] * batch.words).detach()


def kept(f: Any, found: list[Tensor]) -> Any:
    def call(*inputs: Any) -> Tensor:
        found.append(f(*inputs))
        return found[-1]

    return call


def distance(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / max(a.norm(), b.norm()))


def acting(suite: str, knob: str, profile: str | None, base: Path) -> list[tuple[Any, Any]]:
    """The values of `knob` in pairs of rows that differ in it alone, and in delta."""
    rows = rows_of(suite, profile)
    others = [{key: value for key, value in row.items() if key not in KNOBS[knob]} for row in rows]
    pairs = [(i, j) for i in range(len(rows)) for j in range(i) if others[i] == others[j]]
    deltas = deltas_of(suite, rows, base)
    return [(rows[i].get(knob), rows[j].get(knob)) for i, j in pairs if distance(deltas[i], deltas[j]) > ACTS]


PROFILES = [None, pytest.param("mini", marks=pytest.mark.nightly)]
KNOBS = {"alpha": {"alpha"}, "beta": {"beta"}, "K": {"K", "T"}, "rho": {"rho"}, "epsilon": {"epsilon"}}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("suite", "knob"),
    [
        ("robustsentembed-figure4", "beta"),
        *(
            pytest.param(f"robustsentembed-{suite}", knob, marks=pytest.mark.nightly)
            for suite, knob in (("figure4", "alpha"), ("figure5", "K"), ("table6", "rho"))
        ),
    ],
)
def test_a_knob_changes_delta_in_its_suite(suite: str, knob: str, profile: str | None, base: Path) -> None:
    assert acting(suite, knob, profile, base)


@pytest.mark.parametrize("profile", PROFILES)
def test_epsilon_changes_delta_for_the_norm_that_the_paper_takes(profile: str | None, base: Path) -> None:
    rows = [row for row in rows_of("robustsentembed-table5", profile) if row["norm"] == "linf"]
    radii = {row.get("epsilon", SentenceLevelOptions.model_fields["epsilon"].default) for row in rows}
    found = acting("robustsentembed-table5", "epsilon", profile, base)
    assert any(set(pair) <= radii for pair in found)


@pytest.mark.parametrize("profile", PROFILES)
def test_each_norm_has_a_row_whose_delta_is_seen_and_its_own(profile: str | None, base: Path) -> None:
    rows = rows_of("robustsentembed-table5", profile)
    largest: dict[str, Tensor] = {}
    for row, delta in zip(rows, deltas_of("robustsentembed-table5", rows, base), strict=True):
        if row["norm"] not in largest or delta.norm() > largest[row["norm"]].norm():
            largest[row["norm"]] = delta
    assert set(largest) == {"l1", "l2", "linf"}
    deltas = list(largest.values())
    assert all(float(delta.norm()) > 0.05 for delta in deltas)
    assert all(distance(a, b) > ACTS for i, a in enumerate(deltas) for b in deltas[:i])


@pytest.mark.parametrize("profile", PROFILES)
def test_vadvcse_has_rows_of_both_norms_at_a_weight_that_counts(profile: str | None, base: Path) -> None:
    rows = [row for row in rows_of("vadvcse-table5", profile) if row.get("lam", 1e-6) == 1]
    assert {row["divergence"] for row in rows} == {"js", "kl", "symmetric-kl"}
    by_norm = {row.get("norm", "l2"): row for row in rows if row["divergence"] == "js"}
    l2, linf = deltas_of("vadvcse-table5", [by_norm[norm] for norm in ("l2", "linf")], base)
    assert distance(l2, linf) > ACTS


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.nightly
def test_rows_of_the_grid_of_lambdas_stand_once_more_with_a_delta_that_is_seen(profile: str | None, base: Path) -> None:
    rows = rows_of("robustsentembed-figure6", profile)
    sizes: dict[bool, dict[tuple[float, float], float]] = {False: {}, True: {}}
    for row, delta in zip(rows, deltas_of("robustsentembed-figure6", rows, base), strict=True):
        sizes[row.get("beta") == 0.01][row["lambda1"], row["lambda2"]] = float(delta.norm())
    printed, ours = sizes[False], sizes[True]
    assert len(rows) == len(printed) + len(ours) and set(ours) < set(printed)
    assert [len({one[k] for one in ours}) for k in (0, 1)] == [3, 3], "each lambda takes all of its values"
    assert min(ours.values()) > 1.2 * max(printed.values())
