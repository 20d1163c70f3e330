from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from rbench.api.diagnosing import renaming_hint
from rbench.errors import SuiteError

Options = api.Options
SUITE = """\
encoders: [minilm, mini-bert-packaged]
tasks: [mr]
attacks: [textbugger]
profiles: {small: {encoders: [mini-bert-packaged], tasks: [mini-sentiment], resources: mini}}
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SUITE)
    return tmp_path / "s.yaml"


def model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_a_suite_is_checked_for_what_it_names_alone(suite: Path) -> None:
    checks = {(check.kind, check.name): check for check in api.doctor(Options(), suite)}
    assert {name for kind, name in checks if kind == "task"} == {"mr"}
    assert {name for kind, name in checks if kind == "encoder"} == {"minilm", "mini-bert-packaged"}
    assert {kind for kind, _ in checks} == {"task", "encoder", "resources standard"}
    assert ("resources standard", "masked_lm") not in checks  # TextBugger needs none
    assert checks["encoder", "mini-bert-packaged"].ok
    assert checks["task", "mr"].ok is False and "--data DIR" in checks["task", "mr"].remedy
    small = api.doctor(Options(profile="small"), suite)
    assert small and all(check.ok for check in small)
    with pytest.raises(SuiteError):
        api.doctor(Options(profile="smal"), suite)


def test_a_folder_with_the_name_of_the_hub_is_to_be_renamed(suite: Path, tmp_path: Path) -> None:
    model(tmp_path / "m" / "all-MiniLM-L6-v2")
    (check,) = (c for c in api.doctor(Options(models=(tmp_path / "m",)), suite) if c.name == "minilm")
    assert check.ok is False
    assert (
        f"In {tmp_path / 'm'} there is all-MiniLM-L6-v2, which seems to be this model: rename it to minilm."
        in check.remedy
    )
    (tmp_path / "m" / "all-MiniLM-L6-v2").rename(tmp_path / "m" / "minilm")
    (check,) = (c for c in api.doctor(Options(models=(tmp_path / "m",)), suite) if c.name == "minilm")
    assert check.ok


@pytest.mark.parametrize(("folder", "said"), [("owner--it", True), ("owner_it", True), ("it", True), ("other", False)])
def test_the_names_that_downloads_have_are_known(tmp_path: Path, folder: str, said: bool) -> None:
    model(tmp_path / folder)
    assert (f"there is {folder}," in renaming_hint("mine", "owner/it", [tmp_path])) == said
    assert renaming_hint(folder, folder, [tmp_path]) == ""


def test_a_resource_profile_that_has_everything_is_named(suite: Path, tmp_path: Path) -> None:
    (tmp_path / "include/resources").mkdir(parents=True)
    kinds = ("word_vectors", "synonyms", "masked_lm", "sentence_encoder", "pos_tagger", "stopwords")
    content = "".join(f"{kind}: {{kind: {'encoder' if kind == 'masked_lm' else 'mini'}}}\n" for kind in kinds)
    (tmp_path / "include/resources/ours.yaml").write_text(
        content.replace("kind: encoder", "kind: encoder, name: mini-bert")
    )
    options = Options(include=(tmp_path / "include",))
    missing = [c for c in api.doctor(options, suite) if c.kind == "resources standard" and c.ok is False]
    assert missing
    for check in missing:
        assert check.remedy.endswith(
            "are there in the resource set ours: --set resources=ours (of rbench attack: --resources ours)."
        )
    suite.write_text(SUITE.replace("profiles: {", "profiles: {own: {resources: ours}, "))
    assert all("--profile own, or --set" in c.remedy for c in api.doctor(options, suite) if c.name == "word_vectors")
