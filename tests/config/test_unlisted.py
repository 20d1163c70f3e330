"""Tests encoders without a file in suites: folders, paths and hub ids wherever the name of an encoder may stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbench.config import load_mapping
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from tests.config.conftest import World
from tests.refusals import unknown


def model(folder: Path) -> Path:
    """A folder that has the files by which a model is told. Nothing here opens them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which no suite lies; it has a model `./here` and one that is called like an encoder."""
    folder = tmp_path / "elsewhere"
    model(folder / "here")
    model(folder / "plain")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


def encoders(world: World, written: str, *overrides: str) -> dict[str, str | None]:
    """The bases of the suite's encoders, by label."""
    world.change("[plain, trained]", written)
    loaded = world.load(None, *overrides)
    return {label: loaded.encoders[label].base for label in loaded.suite.encoders}


@pytest.mark.parametrize(
    ("written", "label", "base"),
    [
        ("[./mine]", "mine", "mine"),
        ("./mine", "mine", "mine"),
        ("[mine]", "mine", "mine"),
        ("[mine/]", "mine", "mine"),
        ("[models/mine]", "mine", "models/mine"),
        ("[./models/../mine]", "mine", "mine"),
        ("[a/b/mine]", "mine", "a/b/mine"),
        ("[~/mine]", "mine", "home/mine"),
        ("[./my model]", "my-model", "my model"),
        ('["./run[1]"]', "run-1", "run[1]"),
        ("[{./mine: {}}]", "mine", "mine"),
        ("[{name: ./mine}]", "mine", "mine"),
    ],
)
def test_a_folder_is_relative_to_the_file_of_the_suite(
    world: World, elsewhere: Path, written: str, label: str, base: str
) -> None:
    model(world.folder / base)
    assert encoders(world, written) == {label: str(world.folder / base)}


def test_a_path_may_be_absolute(world: World, elsewhere: Path) -> None:
    assert encoders(world, f"[{elsewhere}/here]") == {"here": f"{elsewhere}/here"}


def test_on_the_command_line_a_folder_is_relative_to_the_current_one(world: World, elsewhere: Path) -> None:
    model(world.folder / "mine")
    model(world.folder / "here")
    found = encoders(world, "[./mine]", "encoders=[./here, plain]")
    assert found == {"here": f"{elsewhere}/here", "plain": "some/model"}
    assert set(world.load(None, "num_examples=3").encoders) == {"mine", "bottom"}


def test_a_folder_under_two_spellings_is_one_encoder(world: World, elsewhere: Path) -> None:
    model(world.folder / "mine")
    world.change("[plain, trained]", "[./mine, mine]")
    assert world.error().startswith("my.yaml:2:20: `encoders` lists mine")


def test_a_hub_id_has_an_owner(world: World, elsewhere: Path) -> None:
    assert encoders(world, "[intfloat/e5-base-v9]") == {"e5-base-v9": "intfloat/e5-base-v9"}


def test_a_folder_of_an_ids_form_wins_and_is_told(world: World, elsewhere: Path) -> None:
    model(world.folder / "intfloat/e5")
    world.change("[plain, trained]", "[intfloat/e5]")
    loaded = world.load()
    assert loaded.encoders["e5"].base == str(world.folder / "intfloat/e5")
    assert [note for note in loaded.notes if "intfloat/e5 is the folder" in note and "not the model of that id" in note]


def test_a_name_of_the_registry_wins_only_without_a_separator(world: World, elsewhere: Path) -> None:
    model(world.folder / "plain")
    world.change("[plain, trained]", "[plain, ./plain]")
    loaded = world.load()
    other = f"{world.folder.name}-plain"
    assert loaded.suite.encoders == ("plain", other)
    assert (loaded.encoders["plain"].base, loaded.encoders[other].base) == ("some/model", str(world.folder / "plain"))
    assert loaded.encoders[other].unlisted and not loaded.encoders["plain"].unlisted
    (note,) = loaded.notes
    assert note.startswith("encoder plain is that of `rbench list encoders`; for the folder ")
    assert note.endswith("write ./plain")


def test_labels_that_would_be_equal_get_more_of_their_path(world: World, elsewhere: Path) -> None:
    for name in ("one/best", "two/best"):
        model(world.folder / name)
    found = encoders(world, "[./one/best, {./two/best: {layers: 2}}, owner/best]")
    assert found == {
        "one-best": str(world.folder / "one/best"),
        "two-best[layers=2]": str(world.folder / "two/best"),
        "owner-best": "owner/best",
    }


def test_options_are_whatever_a_file_could_say(world: World, elsewhere: Path) -> None:
    model(world.folder / "mine")
    world.change(
        "[plain, trained]", '[{./mine: {pooling: mean, layers: 2, prompt: "a: "}}, {owner/e5: {revision: abc}}]'
    )
    found = world.load().encoders
    mine = found["mine[layers=2,pooling=mean,prompt=a: ]"]
    assert (mine.pooling, mine.layers, mine.prompt) == ("mean", 2, "a: ")
    assert found["e5[revision=abc]"].revision == "abc" and found["e5"].revision is None
    assert "pooling" in mine.model_fields_set and "pooling" not in found["mine"].model_fields_set


@pytest.mark.parametrize("option", ["base: ./other", "train: {}", "name: x", "unlisted: false", "polling: mean"])
def test_other_options_are_refused(world: World, elsewhere: Path, option: str) -> None:
    model(world.folder / "mine")
    world.change("[plain, trained]", f"[{{./mine: {{{option}}}}}]")
    key = option.partition(":")[0]
    assert world.error().startswith(f'my.yaml:2:22: unknown option of mine "{key}"')


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("./mien", "mien: there is no such folder; beside it there is mine"),
        ("/no/where", "/no/where: there is no such folder"),
        ("./empty", "empty has no model: neither a config.json nor a modules.json. A folder is what save_pretrained"),
        ("empty/", "empty has no model"),
        ("runs/first", "a config.json nor a modules.json; these folders in it have one: checkpoint-500"),
        ("./adapter", "adapter has no model: neither a config.json nor a modules.json, but an adapter (PEFT); merge"),
        ("./my.txt", "my.txt is a file; name the folder of the model"),
        ("a/b/c", "a/b/c: there is no such folder"),
        ("https://huggingface.co/intfloat/e5", "expected a folder (./NAME, or its path), a hub id (OWNER/NAME)"),
        ("own er/e5", "own er/e5: expected a folder (./NAME, or its path), a hub id (OWNER/NAME), or a name"),
        ("plian", unknown("encoder", "plian", "plain") + "? A folder is written ./NAME"),
        ("empty", 'unknown encoder "empty"'),
        (f"./{'x' * 300}", "there is no such folder"),
    ],
)
def test_what_is_no_model_is_refused_with_its_place(
    world: World, monkeypatch: pytest.MonkeyPatch, written: str, message: str
) -> None:
    monkeypatch.chdir(world.folder)
    model(world.folder / "mine")
    (world.folder / "empty").mkdir()
    (world.folder / "my.txt").touch()
    model(world.folder / "runs/first/checkpoint-500")
    (world.folder / "adapter").mkdir()
    (world.folder / "adapter/adapter_config.json").write_text("{}")
    world.change("[plain, trained]", f'[plain, "{written}"]')
    line = world.error()
    assert line.startswith("my.yaml:2:19: ") and message in line, line


# ------------------------------------------------------------------------------------------- elsewhere than in a list


def test_claims_name_a_folder_as_the_list_does(world: World, elsewhere: Path) -> None:
    for name in ("one/best", "two/best"):
        model(world.folder / name)
    world.change("[plain, trained]", "[./one/best, two/best, {./one/best: {pooling: mean}}, owner/e5]")
    claims = [
        {"id": "a", "lower": "./one/best", "than": [{"encoder": "two/best"}, "owner/e5"]},
        {"id": "b", "ordering": ["./two/best", "./one/best[pooling=mean]"]},
        {"id": "c", "of": {"task": "reviews"}, "at_most": 60, "for_each": "encoder", "where": {"encoder": "two/best"}},
    ]
    world.suite((world.folder / "my.yaml").read_text() + f"claims: {json.dumps(claims)}\n")
    a, b, c = world.load().suite.claims
    assert a.lower is not None and a.lower.encoder == "one-best"
    assert [subject.encoder for subject in a.than] == ["two-best", "e5"]
    assert [subject.encoder for subject in b.ordering] == ["two-best", "one-best[pooling=mean]"]
    assert c.where["encoder"] == ("two-best",)


def test_a_claim_on_a_folder_that_a_profile_replaces_is_left_out(world: World, elsewhere: Path) -> None:
    model(world.folder / "mine")
    world.change("[plain, trained]", "[./mine, plain]")
    world.change("    tasks: reviews\n", "    tasks: reviews\n    encoders: [plain, ./mine]\n")
    text = (world.folder / "my.yaml").read_text()
    world.suite(text + "claims: [{id: a, lower: ./mine, than: plain}, {id: b, of: ./mine, at_most: 60}]\n")
    assert [claim.id for claim in world.load().suite.claims] == ["a", "b"]
    assert world.load("small").suite.encoders == ("plain", "mine")
    assert [claim.id for claim in world.load("small").suite.claims] == ["a", "b"]
    left = world.load(None, "encoders=[plain]")
    assert left.suite.claims == ()
    assert left.notes[-1].startswith("left out, ") and left.notes[-1].endswith("here: claims a, b")
    kept = world.load(None, f"encoders=[{world.folder}/mine]").suite.claims
    assert [(claim.id, claim.of and claim.of.encoder) for claim in kept] == [("b", "mine")]
    world.suite(text + "claims: [{id: a, lower: ./mien, than: plain}]\n")
    assert '"./mien"' in world.error()


@pytest.mark.parametrize("victim", ["./mine", "mine", "{./mine: {pooling: mean}}"])
def test_a_folder_is_the_victim_of_an_adversarial_set(world: World, elsewhere: Path, victim: str) -> None:
    model(world.folder / "mine")
    world.change("seeds: [0, 1]", f"evaluate: [{{adversarial: {{victim: {victim}, attack: words}}}}]\nseeds: [0, 1]")
    loaded = world.load()
    label = "mine[pooling=mean]" if "{" in victim else "mine"
    assert loaded.encoders[label].base == str(world.folder / "mine")
    assert {one.set.encoder for sets in loaded.sets.values() for one in sets} == {label}
    assert {one.set.name for sets in loaded.sets.values() for one in sets} == {f"words-on-{label}"}


def test_the_base_of_a_file_is_relative_to_the_file(world: World, elsewhere: Path) -> None:
    world.write("encoders/plain.yaml", "base: ../models/mine\n")
    world.write("encoders/untrained.yaml", "architecture: {hidden_size: 8}\ntokenizer: ./words\n")
    world.change("[plain, trained]", "[plain, untrained]")
    loaded = world.load()
    assert loaded.encoders["plain"].base == str(world.folder / "models/mine")
    assert loaded.encoders["untrained"].tokenizer == str(world.folder / "encoders/words")


def test_a_file_cannot_pretend_to_be_none(world: World) -> None:
    world.write("encoders/plain.yaml", "base: some/model\nunlisted: true\n")
    assert world.error() == "encoders/plain.yaml:2:1: `unlisted` is not for files; remove it"


def test_a_suite_without_a_file_is_relative_to_the_current_folder(world: World, elsewhere: Path) -> None:
    registry = Registry([world.folder])
    data = {"name": "one", "encoders": [Path("here"), "owner/e5"], "tasks": ["reviews"], "resources": "world"}
    loaded = load_mapping(data, registry=registry)
    assert [loaded.encoders[name].base for name in loaded.suite.encoders] == [f"{elsewhere}/here", "owner/e5"]
    with pytest.raises(SuiteError) as caught:
        load_mapping({**data, "encoders": ["./there"]}, registry=registry, origin="rbench attack")
    assert str(caught.value).startswith("rbench attack: there: ") and "here, plain" in str(caught.value)
