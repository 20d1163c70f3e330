"""Tests fragments: what files include, which value wins, where values come from, and what cannot be included."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import config as loading
from rbench.config.files import RegistryFiles
from rbench.config.positions import PositionedData, Problems
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from tests.config.conftest import World
from tests.refusals import nearest, refusal, unknown

WIDE = """\
licence: MIT
notes: [one, two]
train:
  objective: simcse
  data: corpus
  options: {temperature: 0.1, dropout: 0.2}
"""
LONG = "title: long\ntrain:\n  options:\n    dropout: 0.3\n  steps: 9\n"


def content(world: World, name: str = "mine") -> PositionedData:
    return RegistryFiles(Registry([world.folder]), Problems()).content("encoders", name)


def places(world: World, name: str = "mine") -> dict[tuple[str | int, ...], str]:
    return {where: part.place.replace(f"{world.folder}/encoders/", "") for where, part in content(world, name).walk()}


def error(world: World, name: str = "mine") -> str:
    with pytest.raises(SuiteError) as caught:
        loading.load_encoder(name, Registry([world.folder]))
    return str(caught.value).replace(f"{world.folder}/", "")


@pytest.fixture
def mine(world: World) -> World:
    world.write("encoders/_wide.yaml", WIDE)
    world.write("encoders/_long.yaml", LONG)
    world.write("encoders/mine.yaml", "include: [_wide, _long]\nbase: bottom\nnotes: [three]\ntrain: {steps: 5}\n")
    return world


def test_later_fragments_go_over_earlier_ones_and_the_file_over_all(mine: World) -> None:
    assert content(mine).data == {
        "licence": "MIT",
        "notes": ["three"],
        "title": "long",
        "base": "bottom",
        "train": {
            "objective": "simcse",
            "data": "corpus",
            "options": {"temperature": 0.1, "dropout": 0.3},
            "steps": 5,
        },
    }
    mine.write("encoders/mine.yaml", "include: [_long, _wide]\nbase: bottom\n")
    assert content(mine).data["train"]["options"]["dropout"] == 0.2


def test_each_value_keeps_the_place_where_it_stands(mine: World) -> None:
    found = places(mine)
    assert found[()] == "mine.yaml:1:1" and found["licence",] == "_wide.yaml:1:10"
    assert found["train", "objective"] == "_wide.yaml:4:14" and found["train", "steps"] == "mine.yaml:4:16"
    assert found["train", "options", "dropout"] == "_long.yaml:4:14"
    assert found["notes", 0] == "mine.yaml:3:9" and ("notes", 1) not in found
    assert ("include",) not in found
    located = content(mine)
    assert located.key_at(("train", "steps")).endswith("mine.yaml:4:9")
    assert located.key_at(("licence",)).endswith("_wide.yaml:1:1")


def test_a_single_fragment_needs_no_list_and_may_include_others(mine: World) -> None:
    mine.write("encoders/_both.yaml", "include: [_wide, _long]\nlicence: BSD\n")
    mine.write("encoders/mine.yaml", "include: _both\nbase: bottom\n")
    spec = loading.load_encoder("mine", Registry([mine.folder]))
    assert spec.train is not None
    assert (spec.name, spec.licence, spec.title, spec.train.steps) == ("mine", "BSD", "long", 9)


def test_the_spec_is_that_of_a_file_that_says_it_all(mine: World) -> None:
    """So a job's key cannot tell whether a file includes anything."""
    included = loading.load_encoder("mine", Registry([mine.folder]))
    mine.write(
        "encoders/mine.yaml",
        "base: bottom\ntitle: long\nlicence: MIT\nnotes: [three]\ntrain:\n  objective: simcse\n  data: corpus\n"
        "  options: {temperature: 0.1, dropout: 0.3}\n  steps: 5\n",
    )
    assert loading.load_encoder("mine", Registry([mine.folder])) == included


@pytest.mark.parametrize(
    ("fragment", "said"),
    [
        ("train: {warmup: none}\n", "_long.yaml:1:17: `train.warmup`: "),
        ("base: x\ntrain:\n  stepz: 3\n", "_long.yaml:3:3: " + unknown("key", "stepz", "steps")),
        ("train: {options: {dropuot: 0.1}}\n", "_long.yaml:1:19: " + unknown("key", "dropuot", "dropout")),
        ("train: {data: corpsu}\n", "_long.yaml:1:15: " + unknown("task", "corpsu", "corpus")),
        ("train: {select_by: corpus}\n", "_long.yaml:1:20: task corpus (its kind is unlabelled) has no similarity"),
        ("name: _long\n", "_long.yaml:1:7: `name` differs from the file's name; remove it or write `name: mine`"),
        ("title: a\ntitle: b\n", "_long.yaml:2:1: duplicate key `title`"),
        ("title: [\n", "_long.yaml:2:1: "),
        ("", "_long.yaml:1:1: "),
    ],
)
def test_what_is_wrong_in_a_fragment_is_told_where_it_stands(mine: World, fragment: str, said: str) -> None:
    mine.write("encoders/_long.yaml", fragment)
    assert error(mine).startswith(f"encoders/{said}")


def test_a_key_that_every_fragment_lacks_is_reported_at_the_file(mine: World) -> None:
    mine.write("encoders/mine.yaml", "include: [_wide]\n")
    assert error(mine).startswith("encoders/mine.yaml:1:1: ")


@pytest.mark.parametrize(
    ("include", "said"),
    [
        ("[_wide, _lng]", "2:18: " + unknown("fragment", "_lng", "_long")),
        ("_lng", "2:10: " + unknown("fragment", "_lng", "_long")),
        (
            "[long]",
            '2:11: "long" is not a fragment\'s name: that starts with `_` and has no folder',
        ),
        ("[plain]", '2:11: "plain" is not a fragment\'s name: that starts with `_`'),
        ("[./_long.yaml]", '2:11: "./_long.yaml" is not a fragment\'s name'),
        ("[../encoders/_long]", '2:11: "../encoders/_long" is not a fragment\'s name'),
        ("[_long.yaml]", "2:11: " + unknown("fragment", "_long.yaml", "_long")),
        ("[3]", "2:11: `include`: expected names of fragments, found 3"),
        ("[]", "2:10: `include`: expected names of fragments, found a list"),
        ("null", "2:10: `include`: expected names of fragments, found nothing"),
        ("{_long: 1}", "2:10: `include`: expected names of fragments, found a mapping"),
    ],
)
def test_what_cannot_be_included_is_told_with_its_place(mine: World, include: str, said: str) -> None:
    mine.write("encoders/mine.yaml", f"base: bottom\ninclude: {include}\n")
    assert error(mine).startswith(f"encoders/mine.yaml:{said}")


def test_all_that_cannot_be_included_is_told_at_once(mine: World) -> None:
    mine.write("encoders/mine.yaml", "base: bottom\ninclude: [_a, _b]\n")
    assert [line.partition(": ")[0] for line in error(mine).splitlines()] == [
        "encoders/mine.yaml:2:11",
        "encoders/mine.yaml:2:15",
    ]


def test_a_circle_is_told_where_it_closes(mine: World) -> None:
    mine.write("encoders/_wide.yaml", "include: [_long]\n")
    mine.write("encoders/_long.yaml", "licence: MIT\ninclude: _wide\n")
    circle = "fragments include each other in a circle: mine -> _wide -> _long -> _wide"
    assert error(mine) == f"encoders/_long.yaml:2:10: {circle}"


def test_a_fragment_that_is_reached_in_two_ways_is_no_circle(mine: World) -> None:
    mine.write("encoders/_long.yaml", f"include: _wide\n{LONG}")
    assert content(mine).data["licence"] == "MIT"


def test_a_fragment_is_no_entry(mine: World) -> None:
    registry = Registry([mine.folder])
    assert "_wide" not in registry.names("encoders") and "_wide" in registry.fragments("encoders")
    assert not [entry.name for entry in loading.catalogue("encoders", registry) if entry.name.startswith("_")]
    mine.change("[plain, trained]", "[plain, _wide]")
    said = "_wide is a fragment, not a whole encoder. Name one whose file says `include: [_wide]`"
    assert mine.error().startswith(f"my.yaml:2:19: {said}")


@pytest.mark.parametrize(
    ("kind", "fragment", "entry", "load"),
    [
        ("tasks", "kind: single\ncolumns: [text]\n", "labels: [no, yes]\n", loading.load_task),
        ("attacks", "recipe: PWWSRen2019\nmax_words: 3\n", "max_words: 4\n", loading.load_attack),
        ("resources", "pos_tagger: {kind: nltk}\n", "stopwords: {kind: nltk}\n", loading.load_resources),
        (
            "contrast",
            "task: reviews\noriginal: {text: a, label: b}\n",
            "perturbed: {text: c, label: d}\nlocal: some/rows\n",
            loading.load_contrast,
        ),
    ],
)
def test_files_of_every_kind_may_include(world: World, kind: str, fragment: str, entry: str, load: object) -> None:
    world.write(f"{kind}/_part.yaml", fragment)
    world.write(f"{kind}/mine.yaml", f"include: [_part]\n{entry}")
    registry = Registry([world.folder])
    included = load(name := "mine", registry)  # type: ignore[operator]
    world.write(f"{kind}/mine.yaml", "\n".join({**_lines(fragment), **_lines(entry)}.values()))
    assert load(name, Registry([world.folder])) == included  # type: ignore[operator]
    with refusal(SuiteError, "_part", "fragment"):
        load("_part", registry)  # type: ignore[operator]


def _lines(text: str) -> dict[str, str]:
    """The lines of a flat file by key."""
    return {line.partition(":")[0]: line for line in text.splitlines()}


def test_a_suite_does_not_include(world: World) -> None:
    world.write("suites/_part.yaml", "title: x\n")
    world.suite("include: [_part]\nencoders: [plain]\ntasks: [reviews]\n")
    assert world.error().startswith('my.yaml:1:1: unknown key "include"')
    with pytest.raises(SuiteError):
        Registry([world.folder]).path("suites", "_part")


def test_a_users_file_may_include_what_rbench_has(world: World) -> None:
    world.write("encoders/mine.yaml", "include: [_simcse, _on-minilm]\ntrain: {data: corpus}\n")
    spec = loading.load_encoder("mine", Registry([world.folder]))
    assert spec.base == "minilm" and spec.train is not None and spec.train.objective == "simcse"


def test_a_users_fragment_is_before_that_of_rbench_for_files_beside_it_alone(world: World) -> None:
    before = loading.load_encoder("simcse-minilm", Registry())
    world.write("encoders/_on-minilm.yaml", "base: bottom\nlicence: mine\n")
    world.write("encoders/mine.yaml", "include: [_simcse, _on-minilm]\ntrain: {data: corpus}\n")
    registry = Registry([world.folder])
    assert loading.load_encoder("mine", registry).base == "bottom"
    assert loading.load_encoder("simcse-minilm", registry) == before


def test_lists_and_titles_come_from_fragments_too(world: World, tmp_path: Path) -> None:
    """What reads files without judging them reads their fragments: `rbench list`, and the tasks that have scores."""
    world.write("tasks/_rated.yaml", "kind: sts\ntitle: Rated pairs\n")
    world.write("tasks/related.yaml", "include: _rated\ncolumns: [a, b]\nlicence: mine\n")
    registry = Registry([world.folder])
    (listed,) = [entry for entry in loading.catalogue("tasks", registry) if entry.name == "related"]
    assert (listed.title, listed.licence) == ("Rated pairs", "mine")
    world.write("encoders/bottom.yaml", "base: x\ntrain: {objective: simcse, data: corpus, select_by: relatd}\n")
    assert nearest("related") in error(world, "bottom")


def test_a_variant_of_an_encoder_stands_on_its_fragments(mine: World) -> None:
    mine.change("[plain, trained]", "[mine: {temperature: 0.7, batch_size: 2}]")
    (spec,) = (spec for name, spec in mine.load().encoders.items() if name.startswith("mine["))
    assert spec.train is not None
    assert (spec.train.options, spec.train.batch_size) == ({"temperature": 0.7, "dropout": 0.3}, 2)


def test_a_fragment_is_merged_once(world: World) -> None:
    """However many ways lead to it: thirty levels that include the next one twice are a billion ways."""
    for level in range(30):
        world.write(f"encoders/_level{level}.yaml", f"include: [_level{level + 1}, _level{level + 1}]\n")
    world.write("encoders/_level30.yaml", "base: bottom\n")
    world.write("encoders/mine.yaml", "include: _level0\n")
    assert content(world).data == {"base": "bottom"}
