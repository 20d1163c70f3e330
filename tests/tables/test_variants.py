"""Tests that tables say which variant of a method stands behind them, and where it comes from."""

from __future__ import annotations

import pytest

from rbench.config import load_mapping
from rbench.config.registry import Registry
from rbench.schema import AttackSpec, EncoderSpec
from rbench.schema.jobs import content_key
from rbench.tables import Results, build
from rbench.tables.table import Table
from tests.tables import flagged_runs
from tests.tables.flagged_runs import SHOWN_TABLES, TRAIN, MakeRun


def said(table: Table) -> list[str]:
    return [note for note in table.notes if note.startswith("Variant")]


@pytest.fixture
def variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder `below`, on which `above` stands, and the attacks have variants; `noise` has one without a source."""
    for name, source in (("below", "section 3"), ("noise", None)):
        train = {**TRAIN, "options": {"variant": "printed"}}
        data = {"name": name, "base": "plain", "train": train, "variant_source": source}
        monkeypatch.setitem(flagged_runs.ENCODERS, name, EncoderSpec.model_validate(data))
    for name in ("pwws", "random"):
        of = AttackSpec(name=name, parameters={"variant": "released"}, variant_source="their code")
        monkeypatch.setitem(flagged_runs.ATTACKS, name, of)


@pytest.mark.usefixtures("variants")
def test_a_table_names_the_variants_that_it_stands_on_with_their_sources(make_flagged_run: MakeRun) -> None:
    results = Results.of(make_flagged_run())
    for metric, layout in SHOWN_TABLES:
        attacks = ["Variant released, from their code: pwws, random."] if metric == "asr" else []
        found = said(build(results, metric, layout))  # type: ignore[arg-type]
        assert found == ["Variant printed, from section 3: below.", *attacks], (metric, layout)


@pytest.mark.usefixtures("variants")
def test_a_table_names_no_variant_that_it_does_not_show(make_flagged_run: MakeRun) -> None:
    assert said(build(make_flagged_run(encoders=("plain",)), "sts")) == []


def test_nothing_is_said_of_methods_without_variants(make_flagged_run: MakeRun) -> None:
    assert said(build(make_flagged_run(), "asr")) == []


def test_loading_says_where_a_variant_comes_from_and_keys_do_not_hold_it() -> None:
    encoders = ["simcse-mini", "cline-mini", {"robustsentembed-mini": {"variant": "released"}}]
    attacks = ["pwws", "geometry", {"random": {"variant": "released"}}]
    suite = {"name": "s", "encoders": encoders, "tasks": ["mini-sentiment"], "attacks": attacks, "resources": "mini"}
    loaded = load_mapping(suite, registry=Registry())
    found = {name: spec.variant_source for name, spec in [*loaded.encoders.items(), *loaded.attacks.items()]}
    assert found["simcse-mini"] is found["pwws"] is None
    assert "Wang et al. 2021" in str(found["cline-mini"])
    assert "jasl1/RobustSentEmbed" in str(found["robustsentembed-mini[variant=released]"])
    assert "Algorithm 1" in str(found["geometry"])
    assert "LotusDYH/ssl_robust" in str(found["random[variant=released]"])
    for spec in (*loaded.encoders.values(), *loaded.attacks.values()):
        assert content_key(spec) == content_key(spec.model_copy(update={"variant_source": "elsewhere"}))
