"""Tests the model card: its front matter stays valid whatever the entries contain."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.execution.publish import encoder
from rbench.execution.publish.encoder import CardFacts
from rbench.execution.publish.encoder import render_card as render
from rbench.schema import EncoderSpec, Health, Job, PretrainJob, Provenance, RaisedFlag, Record, Score, TaskSpec

anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        "---\nlicense: mit",
        "a: b\n---\n",
        "| x |",
        "<script>",
        "```",
        "[a](javascript:b)",
        "\x85",
        "# h\n\n# h",
        "'\"{}[]%&*!",
    ]
)


def about(**more: Any) -> CardFacts:
    train = {"objective": "simcse", "data": "c.txt", "batch_size": 8, "steps": 3, "options": {"temperature": 0.1}}
    spec = EncoderSpec.model_validate({"name": "e", "base": "some/model", "train": train} | more)
    data = TaskSpec(name="c.txt", kind="unlabelled", columns=("text",))
    return CardFacts(spec, spec, None, "some/model", data, None, "9.9")


def front(text: str) -> dict[str, Any]:
    assert text.startswith("---\n")
    found: dict[str, Any] = yaml.safe_load(text.split("\n---\n")[0].removeprefix("---\n"))
    return found


@settings(max_examples=15)
@given(title=anything, licence=anything, reference=anything, note=anything)
def test_no_text_breaks_the_front_matter_or_a_table(title: str, licence: str, reference: str, note: str) -> None:
    said = about(title=title, licence=licence, reference=reference, notes=(note,))
    text = render(said)
    found = front(text)
    assert set(found) - {"license_name"} == {"library_name", "pipeline_tag", "license", "base_model", "tags"}
    assert found["base_model"] == "some/model" and found["library_name"] == "sentence-transformers"
    if found["license"] == "other":
        assert found["license_name"] == " ".join(licence.split())
    plain = render(about(title="t", licence="x", reference="r", notes=("n",)))
    body, other = (value.split("\n---\n", 1)[1].splitlines() for value in (text, plain))
    headings = [line for line in body if line.startswith(("#", "```", "---"))]
    assert headings == [line for line in other if line.startswith(("#", "```", "---"))]
    assert not any(re.search(r"<script|(?<!\\)\]\(", line) for line in body)


@pytest.mark.parametrize(
    ("licence", "identifier"),
    [
        ("Apache-2.0", "apache-2.0"),
        ("MIT", "mit"),
        ("CC BY-SA 4.0", "cc-by-sa-4.0"),
        ("", "unknown"),
        ("my own", "other"),
    ],
)
def test_licences_are_the_hubs(licence: str, identifier: str) -> None:
    assert front(render(about(licence=licence)))["license"] == identifier


def test_scores_and_settings_come_from_the_record() -> None:
    said = about()
    job = PretrainJob(encoder=said.encoder, base_fingerprint="b" * 8, data_fingerprint="d" * 8)
    record = Record(
        job=Job.make(job, ("e",), {}, 5),
        status="complete",
        scores=(Score(name="loss", value=0.123456, n=700), Score(name="spearman", value=None, n=0)),
        counts={"n": 700, "selected_step": 2},
        health=Health(flags=(RaisedFlag(flag="saturated", because="loss 0.1 | at step 1"),)),
        provenance=Provenance(rbench="1.2.3", device="cpu", weights_hash="w" * 8),
    )
    text = render(CardFacts(said.encoder, said.origin, None, None, said.data, record, "9.9"))
    for part in (
        "| loss | 0.1235 | 700 |",
        "| spearman | none | 0 |",
        "| selected step | 2 |",
        "| seed | 5 |",
        "| temperature | **0.1** | 0.05 |",
        "| dropout | None | None |",
        "trained with | rbench 1.2.3",
        "| weights hash | wwwwwwww |",
        "| base fingerprint | bbbbbbbb |",
        "c.txt, 700 sentences",
        "## Health of the training\n\n- **saturated**: loss 0.1 \\| at step 1\n",
    ):
        assert part in text, part
    assert "Health of the training" not in render(about())
    assert "base_model" not in front(text)


def test_a_model_among_the_options_is_named_without_its_place() -> None:
    train = {"objective": "robustsentembed", "data": "c", "options": {"generator": "/home/me/models/lm"}}
    text = render(about(train=train))
    assert "/home" not in text and "| generator | **lm** | None |" in text


def test_the_length_of_the_vectors_is_that_which_the_modules_make(tmp_path: Path) -> None:
    spec = EncoderSpec.model_validate({"name": "e", "base": "some/model"})

    def said(*modules: tuple[str, dict[str, int]], **overall: int) -> str:
        for i, (_, config) in enumerate(modules):
            (tmp_path / f"{i}").mkdir(exist_ok=True)
            (tmp_path / f"{i}/config.json").write_text(json.dumps(config))
        listed = [
            {"path": f"{i}", "type": f"sentence_transformers.models.{kind}"} for i, (kind, _) in enumerate(modules)
        ]
        (tmp_path / "modules.json").write_text(json.dumps(listed))
        (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(overall))
        encoder.write_card(tmp_path, "e", {"e": spec}, {})
        return next(line for line in (tmp_path / "README.md").read_text().splitlines() if line.startswith("| pooling"))

    pooling = ("Pooling", {"word_embedding_dimension": 384})
    assert "vectors of 384 numbers, not normalised" in said(pooling)
    assert "vectors of 384 numbers, not normalised" in said(("Pooling", {"embedding_dimension": 384}))  # since 5.4
    assert "vectors of 100 numbers, normalised" in said(pooling, ("Dense", {"out_features": 100}), ("Normalize", {}))
    assert "vectors of 128 numbers, normalised" in said(pooling, ("Normalize", {}), truncate_dim=128)


def test_the_hub_id_is_that_at_the_bottom_of_the_chain(tmp_path: Path) -> None:
    train = {"objective": "simcse", "data": "c"}
    entries = {
        name: EncoderSpec.model_validate({"name": name, **more})
        for name, more in {
            "bert": {"base": "google-bert/bert-base-uncased"},
            "cut": {"base": "bert", "layers": 6},
            "ours": {"base": "cut", "train": train},
            "local": {"base": str(tmp_path / "own"), "train": train},
            "self": {"base": "self"},
        }.items()
    }
    found = {name: encoder.find_hub_id(spec, entries) for name, spec in entries.items()}
    hub = "google-bert/bert-base-uncased"
    assert found == {"bert": hub, "cut": hub, "ours": hub, "local": None, "self": None}
