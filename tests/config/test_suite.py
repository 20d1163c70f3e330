"""Tests suites: what a correct one gives, and for each kind of error its position, reason and the nearest names."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rbench import config as loading
from rbench.config import (
    label_as_yaml,
    load,
    load_attack,
    load_encoder,
    load_mapping,
    load_resources,
    load_task,
    parse_label,
)
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.schema import Choice, ResourceChoice, ResourceSource, Suite
from tests.config.conftest import SUITE, World
from tests.refusals import refusal, unknown


def test_a_right_suite_is_resolved(world: World) -> None:
    loaded = world.load()
    assert loaded.suite.name == "my"
    assert loaded.path == world.folder / "my.yaml"
    assert loaded.suite.tasks == ("reviews", "pairs")
    assert loaded.suite.profiles == {}
    assert set(loaded.encoders) == {"plain", "trained", "bottom"}  # with the base of `trained`
    assert set(loaded.tasks) == {"reviews", "pairs", "corpus"}  # with what encoders are trained on
    assert list(loaded.attacks) == ["words", "letters[max_words=3]", "code[strength=2]"]
    assert loaded.modules["attacks", "code"].path == world.folder / "attacks" / "code.py"
    assert set(loaded.modules) == {
        ("attacks", "code"),
        ("objectives", "mlm"),
        ("finetune", "clean"),
        ("measures", "test_accuracy"),
    }
    assert loaded.resources.name == "world"
    assert loaded.tasks["reviews"].labels == ("no", "yes")
    assert loaded.suite.examples_for("reviews") == 10
    assert loaded.suite.examples_for("pairs") == "all"


def test_attacks_take_their_options(world: World) -> None:
    attacks = world.load().attacks
    assert attacks["letters[max_words=3]"].max_words == 3
    assert attacks["letters[max_words=3]"].query_budget == 50
    code = attacks["code[strength=2]"]
    assert (code.name, code.title, code.needs, code.recipe) == ("code", "Code", ("masked_lm",), None)
    assert code.parameters == {"strength": 2, "mode": "calm"}
    assert code.source == hashlib.sha256((world.folder / "attacks/code.py").read_bytes()).hexdigest()


def test_a_label_says_options_as_yaml_does() -> None:
    options = {"shuffle": True, "norms": ["l1", "l2"], "source": {"profile": "mini", "k": None}, "rate": 0.1}
    choice = Choice(name="made", options=options)
    assert choice.label == "made[norms=[l1,l2],rate=0.1,shuffle=true,source={profile:mini,k:null}]"
    assert parse_label(choice.label) == choice
    assert yaml.safe_load(label_as_yaml(choice.label)) == {"made": options}


def test_a_name_alone_is_a_label() -> None:
    assert parse_label("simcse-mini") == Choice(name="simcse-mini")
    assert label_as_yaml("simcse-mini") == "simcse-mini"


@pytest.mark.parametrize("label", ["made[seed]", "made[]", "made[{]", "made[a=1,a=2]"])
def test_a_label_that_is_none_is_refused(label: str) -> None:
    with pytest.raises(SuiteError) as caught:
        parse_label(label)
    assert label in str(caught.value)


def test_encoders_take_options_too(world: World) -> None:
    world.change(
        "encoders: [plain, trained]",
        "encoders: [trained, trained: {steps: 7, mask: 0.3}, {name: plain, options: {pooling: cls}}]",
    )
    loaded = world.load()
    labels = ("trained", "trained[mask=0.3,steps=7]", "plain[pooling=cls]")
    assert loaded.suite.encoders == labels
    own, other, plain = (loaded.encoders[label] for label in labels)
    assert own.train is not None and other.train is not None
    assert (other.name, other.base, other.train.steps) == (labels[1], "bottom", 7)
    assert other.train.options == {"mask": 0.3}
    assert other.train.model_copy(update={"steps": own.train.steps, "options": {}}) == own.train
    assert (plain.pooling, plain.base) == ("cls", "some/model") and loaded.encoders["plain"].pooling == "mean"
    assert Suite.model_validate(loaded.suite.model_dump()) == loaded.suite


def test_epochs_of_a_suite_are_not_outdone_by_the_steps_of_a_file(world: World) -> None:
    world.write("encoders/trained.yaml", "base: bottom\ntrain: {objective: mlm, data: corpus, steps: 150}\n")
    world.change("encoders: [plain, trained]", "encoders: [trained, trained: {epochs: 4}]")
    own, other = (world.load().encoders[label].train for label in ("trained", "trained[epochs=4]"))
    assert own is not None and (own.steps, own.epochs) == (150, None)
    assert other is not None and (other.steps, other.epochs) == (None, 4)


def test_a_file_with_steps_and_epochs_is_refused(world: World) -> None:
    world.write("encoders/trained.yaml", "base: bottom\ntrain: {objective: mlm, data: corpus, steps: 150, epochs: 2}\n")
    assert "encoders/trained.yaml:2:" in world.error() and "steps and epochs exclude each other" in world.error()


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("trained: {steps: 3, epochs: 2}", "my.yaml:2:32: steps and epochs exclude each other"),
        ("trained: {mas: 0.3}", "my.yaml:2:22: " + unknown("option of trained", "mas", "mask")),
        ("trained: {mask: 7}", "my.yaml:2:28: `mask`: "),
        ("plain: {steps: 3}", 'my.yaml:2:20: unknown option of plain "steps"'),
        ("plane: {pooling: cls}", "my.yaml:2:12: " + unknown("encoder", "plane", "plain")),
        ("plain: {pooling: maximum}", "my.yaml:2:29: `pooling`: "),
        ("plain: {pooling: cls}, plain: {pooling: cls}", "my.yaml:2:35: `encoders` lists plain[pooling=cls] twice"),
    ],
)
def test_wrong_options_of_encoders_are_told(world: World, encoder: str, message: str) -> None:
    world.change("encoders: [plain, trained]", f"encoders: [{encoder}]")
    assert world.error().startswith(message)


def test_a_recipe_says_what_it_needs_or_its_source_does(world: World) -> None:
    attacks = world.load().attacks
    assert set(attacks["words"].needs) == {"word_vectors", "sentence_encoder", "pos_tagger", "stopwords"}
    assert attacks["letters[max_words=3]"].needs == ()


def test_component_options_become_parameters(world: World) -> None:
    world.change("letters: {max_words: 3}", "letters: {WordSwapQWERTY.skip: 1, query_budget: 7}")
    spec = list(world.load().attacks.values())[1]
    assert spec.parameters == {"WordSwapQWERTY.skip": 1}
    assert (spec.max_words, spec.query_budget) == (9, 7)


def test_a_module_that_declares_max_words_sees_to_it_itself(world: World) -> None:
    world.write("attacks/own.py", (world.folder / "attacks/code.py").read_text().replace("strength", "max_words"))
    registry = Registry([world.folder])
    own = load_attack(Choice(name="own", options={"max_words": 4, "query_budget": 9}), registry)
    assert (own.parameters["max_words"], own.max_words, own.query_budget) == (4, None, 9)
    other = load_attack(Choice(name="code", options={"max_words": 4}), registry)
    assert (other.max_words, other.parameters) == (4, {"strength": 1, "mode": "calm"})


def test_any_textattack_recipe_works_by_class_name(world: World) -> None:
    world.change("  - words\n", "  - A2TYoo2021: {max_words: 2}\n")
    spec = world.load().attacks["A2TYoo2021[max_words=2]"]
    assert (spec.recipe, spec.max_words) == ("A2TYoo2021", 2)
    assert {"masked_lm", "word_vectors", "pos_tagger", "sentence_encoder", "stopwords"} == set(spec.needs)


def test_recipes_are_those_that_textattack_exports() -> None:
    spec = importlib.util.find_spec("textattack")
    assert spec is not None
    exports = Path(str(spec.origin)).parent / "attack_recipes" / "__init__.py"
    names = set(re.findall(r"^from \.\w+ import (\w+)$", exports.read_text(), flags=re.MULTILINE))
    assert len(names) > 20
    assert set(loading.list_recipes()) == names - {"AttackRecipe"}


# ------------------------------------------------------------------------------------------ profiles and overrides


def test_a_profile_replaces_keys_and_completes_two_of_them(world: World) -> None:
    suite = world.load("small").suite
    assert suite.tasks == ("reviews",)
    assert suite.seeds == (0,)
    assert suite.encoders == ("plain", "trained")
    assert suite.num_examples == {"reviews": 5, "default": "all"}
    assert suite.training == {"epochs": 2, "pairs": {"epochs": 1}, "batch_size": 8}
    assert world.load("large").suite.num_examples == 1000


def test_a_profile_that_names_a_task_keeps_the_number_of_the_others(world: World) -> None:
    world.change("num_examples: {reviews: 10, default: all}", "num_examples: 7")
    assert world.load("small").suite.num_examples == {"reviews": 5, "default": 7}
    assert world.load("small", "num_examples.pairs=3").suite.num_examples == {"reviews": 5, "default": 7, "pairs": 3}


def test_what_loading_finds_is_no_key_that_is_suggested(world: World) -> None:
    world.change("seeds: [0, 1]", "seeds: [0, 1]\nmeasures: [transfer]")
    assert "measured" not in world.error()
    assert "measured" not in world.errors(None, "measurd=[transfer]")[0]


def test_a_suite_or_a_profile_may_require_healthy_ones(world: World) -> None:
    assert world.load().suite.require is None
    world.change("    num_examples: 1000", "    num_examples: 1000\n    require: healthy")
    assert world.load("large").suite.require == "healthy"
    assert world.load("small").suite.require is None
    world.change("    require: healthy", "    require: health")
    (error,) = world.errors()
    assert error.startswith("my.yaml:23:14: `require`: ") and "healthy" in error


def test_an_unknown_profile_lists_the_valid_ones(world: World) -> None:
    assert world.error("smal") == "my.yaml:15:1: " + unknown("profile", "smal", "small") + "?"
    assert world.error("x") == 'my.yaml:15:1: unknown profile "x"; valid are: large, small'
    world.suite(SUITE.split("profiles:")[0])
    assert world.error("x") == 'my.yaml:1:1: unknown profile "x"; there are none'


def test_all_profiles_are_checked_whichever_is_chosen(world: World) -> None:
    world.change("    num_examples: 1000", "    num_examples: -1\n    seed: 3\n    seeds: [0, x]")
    expected = [
        'my.yaml:22:19: `num_examples`: expected a number of at least 1 or "all" or a mapping, found -1',
        "my.yaml:23:5: " + unknown("key", "seed", "seeds") + "?",
        'my.yaml:24:16: `seeds[1]`: expected a whole number, found "x"',
    ]
    assert world.errors() == expected
    assert world.errors("small") == expected
    assert len(world.errors("large")) == 3


@pytest.mark.parametrize("value", ["", " 3", " [a]", "\n  - small", "\n  small:", "\n  small: x"])
def test_profiles_must_be_mappings_of_mappings(world: World, value: str) -> None:
    world.suite(SUITE.split("profiles:")[0] + f"profiles:{value}\n")
    assert "expected a mapping" in world.error()


def test_overrides_come_last_and_are_yaml(world: World) -> None:
    suite = world.load(
        "small",
        "seeds=[4, 5]",
        "title='a: b'",
        "training.learning_rate=3e-5",
        "training.pairs.epochs=9",
        "num_examples.pairs=all",
        "tasks=[reviews, pairs]",
        "attacks=[letters: {query_budget: 3}]",
    ).suite
    assert suite.seeds == (4, 5)
    assert suite.title == "a: b"
    assert suite.training == {"epochs": 2, "pairs": {"epochs": 9}, "batch_size": 8, "learning_rate": 3e-5}
    assert suite.num_examples == {"reviews": 5, "default": "all", "pairs": "all"}
    assert suite.attacks == (Choice(name="letters", options={"query_budget": 3}),)


def test_part_of_a_short_form_can_be_set(world: World) -> None:
    loaded = world.load("large", "num_examples.reviews=3", "resources.word_vectors=others")
    assert loaded.suite.num_examples == {"default": 1000, "reviews": 3}
    assert loaded.resources.word_vectors == ResourceSource(kind="folder", name="others")
    assert loaded.suite.resources == ResourceChoice(set="world", word_vectors="others")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("num_examples=abc", '--set num_examples=abc: `num_examples`: expected a whole number or "all" or a mapping'),
        ("num_exampels=3", "--set num_exampels=3: " + unknown("key", "num_exampels", "num_examples")),
        ("num_examples", "--set num_examples: expected KEY=VALUE, for instance"),
        ("=3", "--set =3: expected KEY=VALUE"),
        ("a..b=3", "--set a..b=3: expected KEY=VALUE"),
        ("seeds=[1", "--set seeds=[1: not valid YAML"),
        ("seeds=", "--set seeds=: `seeds`: expected a list, found nothing"),
        ("tasks=[reviewz]", "--set tasks=[reviewz]: " + unknown("task", "reviewz", "reviews")),
        ("tasks.0=pairs", "--set tasks.0=pairs: `tasks` is a list, not a mapping; set it whole: --set tasks=VALUE"),
        ("training.epochs=0", "--set training.epochs=0: `epochs`: expected a number of at least 1, found 0"),
        ("training.epoch=1", "--set training.epoch=1: " + unknown("key", "epoch", "epochs")),
        ("profiles.x.seeds=1", '--set profiles.x.seeds=1: unknown key "profiles"'),
        ("resources=wrld", "--set resources=wrld: " + unknown("resource set", "wrld", "world")),
        ("resources.masked=x", "--set resources.masked=x: " + unknown("key", "masked", "masked_lm")),
        ("attacks=[letters: {max_words: 0}]", "`max_words`: expected a number of at least 1, found 0"),
        ("name=../x", "--set name=../x: `name`: expected text that matches"),
        ("seeds={a: 1, a: 2}", "--set seeds={a: 1, a: 2}: duplicate key `a`"),
    ],
)
def test_a_wrong_override_is_named_in_place_of_a_file(world: World, override: str, message: str) -> None:
    assert any(message in line for line in world.errors(None, override))
    assert all(line.startswith("--set ") for line in world.errors(None, override))


def test_a_long_override_is_shortened(world: World) -> None:
    assert len(world.errors(None, "title=[" + "x" * 10_000)[0]) < 300


def test_a_plan_that_was_stored_with_empty_claims_is_still_read(world: World) -> None:
    suite = world.load().suite
    stored = json.loads(suite.model_dump_json()) | {"claims": []}
    assert Suite.model_validate_json(json.dumps(stored)) == suite
    del stored["claims"]
    assert Suite.model_validate_json(json.dumps(stored)) == suite
    with pytest.raises(ValidationError):
        Suite.model_validate(stored | {"claims": [{"asr": 1}]})


# ------------------------------------------------------------------------------------------------ what may be wrong


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\nseeds:", "\nseed:", "my.yaml:11:1: " + unknown("key", "seed", "seeds")),
        (
            "\nseeds:",
            "\nzzzzzzz:",
            'my.yaml:11:1: unknown key "zzzzzzz"; valid are: attacks, build, claims, encoders, ',
        ),
        ("seeds: [0, 1]", "seeds: [0, 1.5]", "my.yaml:11:12: `seeds[1]`"),
        ("seeds: [0, 1]", "seeds: [3, 3]", "my.yaml:11:12: `seeds`"),
        ("  - reviews\n", "  - reviewz\n", "my.yaml:4:5: " + unknown("task", "reviewz", "reviews")),
        ("  - reviews\n", "  - 7\n", "my.yaml:4:5: `tasks[0]`"),
        ("  - reviews\n", "  - corpus\n", "my.yaml:4:5: task corpus has no labels (its kind is unlabelled)"),
        ("  - reviews\n", "  - ../tasks/reviews\n", "my.yaml:4:5: ../tasks/reviews: there is no such file or folder"),
        ("  - reviews\n", "  - pairs\n", "my.yaml:5:5: `tasks`"),
        ("[plain, trained]", "[plain, traind]", "my.yaml:2:19: " + unknown("encoder", "traind", "trained")),
        ("  - words\n", "  - wrds\n", "my.yaml:7:5: " + unknown("attack", "wrds", "words")),
        ("  - words\n", "  - kuleshov2017\n", "did you mean the TextAttack recipe Kuleshov2017?"),
        ("  - words\n", "  - words\n  - words\n", "my.yaml:8:5: `attacks`"),
        (
            "{max_words: 3}",
            "{ranking: {k: 3}}",
            "my.yaml:8:24: `ranking`",
        ),
        (
            "{max_words: 3}",
            "{similarity: {threshold: 0.3}}",
            "my.yaml:8:27: `similarity`",
        ),
        ("max_words: 3", "max_words: 0", "my.yaml:8:26: `max_words`"),
        ("max_words: 3", "max_word: 3", "my.yaml:8:15: " + unknown("option", "max_word", "max_words")),
        ("{strength: 2}", "{strength: x}", "my.yaml:10:25: `strength`"),
        ("{strength: 2}", "{strenght: 2}", "my.yaml:10:15: " + unknown("key", "strenght", "strength")),
        ("    options:", "    option:", "my.yaml:10:5: " + unknown("key", "option", "options")),
        ("resources: world", "resources: wrld", "my.yaml:14:12: " + unknown("resource set", "wrld", "world")),
        ("resources: world", "resources: {word_vectors: x}", "my.yaml:14:12: `resources.set`"),
        (
            "resources: world",
            "resources: {set: world, pos_tagger: x}",
            'unknown source of pos_tagger "x"; valid are',
        ),
        ("resources: world", "tables: {metric: x}\nresources: world", "`tables`: expected a list, found a mapping"),
        (
            "resources: world",
            "tables: [metric: asrr]\nresources: world",
            "my.yaml:14:18: " + unknown("metric", "asrr", "asr"),
        ),
        (
            "resources: world",
            "finetune: cleen\nresources: world",
            'my.yaml:14:11: unknown finetune strategy "cleen"; did',
        ),
        (
            "resources: world",
            "finetune: [probe: {c: [0]}]\nresources: world",
            "my.yaml:14:24: `c[0]`",
        ),
        (
            "resources: world",
            "finetune: [probe: {d: 1}]\nresources: world",
            'my.yaml:14:20: unknown option of probe "d"',
        ),
        (
            "resources: world",
            "evaluate: stbs\nresources: world",
            "my.yaml:14:11: " + unknown("evaluation", "stbs", "sts", "stsb", "sts16"),
        ),
        ("reviews: 10", "review: 10", "my.yaml:12:16: unknown task"),
        (
            "reviews: 10",
            "reviews: many",
            "my.yaml:12:25: `num_examples.reviews`",
        ),
        ("{epochs: 2,", "{epochs: 0,", "my.yaml:13:20: `epochs`"),
        ("{epochs: 2,", "{epoch: 2,", "my.yaml:13:12: " + unknown("key", "epoch", "epochs")),
        ("pairs: {epochs: 1}", "pears: {epochs: 1}", "my.yaml:13:23: " + unknown("key", "pears", "pairs")),
        ("title: A suite that is right\n", "encoders: plain\n", "my.yaml:2:1: duplicate key `encoders`"),
        ("title: A suite that is right\n", "title: [\n", "not valid YAML"),
        ("title: A suite that is right\n", "name: a b\n", "my.yaml:1:7: `name`"),
        ("encoders: [plain, trained]\n", "", "my.yaml:1:1: `encoders`"),
        ("encoders: [plain, trained]", "encoders:", "my.yaml:2:10: `encoders`"),
    ],
)
def test_what_is_wrong_is_told_with_place_and_remedy(world: World, old: str, new: str, message: str) -> None:
    world.change(old, new)
    assert any(message in line for line in world.errors()), world.errors()


def test_everything_wrong_is_told_at_once(world: World) -> None:
    for old, new in (
        ("\nseeds:", "\nseed:"),
        ("  - reviews\n", "  - reviewz\n"),
        ("[plain, trained]", "[plainn, trained]"),
        ("max_words: 3", "max_words: x"),
        ("resources: world", "resources: wrld"),
        ("{epochs: 2,", "{epochs: x,"),
    ):
        world.change(old, new)
    world.write("encoders/trained.yaml", "base: bottom\npoling: cls\n")
    lines = world.errors(None, "evaluate=x")
    assert [line.split(": ")[0] for line in lines] == [
        "my.yaml:2:12",
        "my.yaml:4:5",
        "my.yaml:8:26",
        "my.yaml:11:1",
        "my.yaml:13:20",
        "my.yaml:14:12",
        "encoders/trained.yaml:2:1",
        "--set evaluate=x",
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tasks/reviews.yaml", "", "tasks/reviews.yaml:1:1: expected `key: value` lines"),
        ("tasks/reviews.yaml", "kind: singel\ncolumns: [text]\n", "tasks/reviews.yaml:1:7: `kind`"),
        ("tasks/reviews.yaml", "kind: single\n", "tasks/reviews.yaml:1:1: `columns`"),
        ("tasks/reviews.yaml", "kind: single\ncolumns: [a]\nhub: {id: x}\n", "3:6: `hub.revision`"),
        (
            "tasks/reviews.yaml",
            "kind: single\ncolumns: [a]\nhub:\n  {id: x/y, revision: main, splits: {test: test}, columns: {},\n"
            "   elsewhere: {test: {id: x/z, revision: main, split: test, columns: {}}}}\n",
            "tasks/reviews.yaml:4:3: test is under `splits` and under `elsewhere`; name it once",
        ),
        (
            "tasks/reviews.yaml",
            "kind: single\ncolumns: [a]\nhub:\n  {id: x/y, revision: main, splits: {}, columns: {},\n"
            "   elsewhere: {tset: {id: x/z, revision: main, split: test, columns: {}}}}\n",
            "tasks/reviews.yaml:5:22: `hub.elsewhere.tset`",
        ),
        ("tasks/reviews.yaml", "kind: single\ncolumns: [a]\nsizes: {test: 0}\n", "3:15: `sizes.test`"),
        (
            "tasks/reviews.yaml",
            'kind: single\ncolumns: [text]\nlabels: ["1", "2"]\n'
            "hub: {id: x/y, revision: main, splits: {test: test}, columns: {}}\n",
            "reviews.yaml:3:9: labels are numbers (1, 2), and rows may hold numbers that are ids. Say under `hub`",
        ),
        (
            "tasks/reviews.yaml",
            'kind: single\ncolumns: [text]\nlabels: ["1", "2"]\n'
            "parts: [{name: a, split: test, generator: mini-sentiment}]\n",
            "reviews.yaml:3:9: labels are numbers (1, 2), and rows may hold numbers that are ids. In a task of",
        ),
        (
            "tasks/reviews.yaml",
            "name: review\nkind: single\ncolumns: [a]\n",
            "1:7: `name`",
        ),
        (
            "tasks/reviews.yaml",
            "kind: single\ncolumns: [a]\ntraining: {epochs: 0}\n",
            "3:20: `training.epochs`",
        ),
        (
            "tasks/reviews.yaml",
            "kind: single\ncolumns: [a]\nlocal: {split: {}}\n",
            '`local.split`: expected "test" or "quarters", found a mapping',
        ),
        (
            "encoders/plain.yaml",
            "pooling: mean\n",
            "an encoder must have exactly one of `base`, `architecture`, `word_vectors` and `endpoint`",
        ),
        (
            "encoders/plain.yaml",
            "base: x\npooling: men\n",
            "encoders/plain.yaml:2:10: `pooling`",
        ),
        (
            "encoders/plain.yaml",
            "base: x\nrevision: 1234567\n",
            "2:11: `revision`",
        ),
        (
            "encoders/plain.yaml",
            "base: x\ntrust_remote_code: maybe\n",
            "2:20: `trust_remote_code`",
        ),
        ("encoders/bottom.yaml", "base: trained\n", "round in a circle: trained -> bottom -> trained"),
        ("encoders/trained.yaml", "base: x\ntrain: {objective: mlmm, data: corpus}\n", 'unknown objective "mlmm"'),
        (
            "encoders/trained.yaml",
            "base: x\ntrain: {objective: mlm, data: corpse}\n",
            '2:31: unknown task "corpse"; did',
        ),
        (
            "encoders/trained.yaml",
            "base: x\ntrain: {objective: mlm, data: corpus, options: {mask: 2}}\n",
            "trained.yaml:2:55: `mask`",
        ),
        ("encoders/trained.yaml", "base: x\ntrain: {data: corpus}\n", "2:8: `train.objective`"),
        ("attacks/words.yaml", "title: x\n", "attacks/words.yaml:1:1: `recipe`"),
        (
            "attacks/words.yaml",
            "recipe: TextFooler\n",
            'words.yaml:1:9: unknown TextAttack recipe "TextFooler"; did you mean',
        ),
        (
            "attacks/words.yaml",
            "recipe: PWWSRen2019\nneeds: [synonym]\n",
            "words.yaml:2:9: `needs[0]`",
        ),
        (
            "attacks/code.py",
            "TITLE = 1",
            "code.py:1:1: an attack is a subclass of rbench.attacks.AttackMethod, and this file defines none. ",
        ),
        ("attacks/code.py", "import nothing_of_that_name", "code.py:1: ModuleNotFoundError"),
        (
            "resources/world.yaml",
            "masked: {kind: x}\n",
            "world.yaml:1:1: " + unknown("key", "masked", "masked_lm"),
        ),
        (
            "resources/world.yaml",
            "masked_lm: {kind: encoder, name: botom}\n",
            'world.yaml:1:34: unknown encoder "botom"',
        ),
    ],
)
def test_what_is_wrong_in_a_file_that_is_named(world: World, name: str, text: str, message: str) -> None:
    world.write(name, text)
    assert any(message in line for line in world.errors()), world.errors()


def test_a_class_must_state_known_resources_and_options_that_are_a_model(world: World) -> None:
    source = (world.folder / "attacks/code.py").read_text()
    world.write("attacks/code.py", source.replace("'masked_lm'", "'masked_ml'"))
    assert "code.py:6:1: `resources`[0] of Code: Input should be 'word_vectors'," in world.error()
    world.write("attacks/code.py", source.replace("[Options]):", "):\n    Options = dict"))
    assert "code.py:6:1: `Options` of Code: Input should be a subclass of BaseModel" in world.error()


def test_a_modules_options_may_narrow_what_it_needs(world: World) -> None:
    source = (world.folder / "attacks/code.py").read_text().replace("('masked_lm',)", "('masked_lm', 'stopwords')")
    narrowed = (
        "    def needs(self, options):\n        return ['stopwords'] if options.strength > 1 else self.resources\n"
    )
    world.write("attacks/code.py", source + narrowed)
    assert world.load().attacks["code[strength=2]"].needs == ("stopwords",)
    world.change("strength: 2", "strength: 1")
    assert world.load().attacks["code[strength=1]"].needs == ("masked_lm", "stopwords")
    world.write("attacks/code.py", source + "    def needs(self, options):\n        return ['synonyms']\n")
    assert "code.py:1:1: needs(options) returns 'synonyms', which is not in `resources`" in world.error()


@pytest.mark.parametrize("content", [b"", b"\xff", b"- a", b"a: [", b"{}", b"encoders: {}", b"attacks: {a: {b: {}}}"])
def test_no_suite_is_too_broken(world: World, content: bytes) -> None:
    world.suite(content)
    assert all(line.startswith("my.yaml:") for line in world.errors())


any_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-2, 2)
    | st.sampled_from(["reviews", "clean", "all", "", "a.b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "options", "profile", "reviews", "epochs", "x.y", "default"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(
    key=st.sampled_from(sorted(Suite.model_fields)),
    value=any_value,
    path=st.sampled_from(["", ".x", ".default", ".name", ".reviews.epochs"]),
)
@example(key="tables", value=[[]], path="")
@settings(deadline=None, max_examples=15)
def test_any_value_of_any_key_loads_or_is_a_suite_error(shared_world: World, key: str, value: Any, path: str) -> None:
    data = {**yaml.safe_load(SUITE), key: value}
    shared_world.write("any.yaml", json.dumps(data))
    registry = Registry([shared_world.folder])
    for suite, overrides in (("any.yaml", ()), ("my.yaml", (f"{key}{path}={json.dumps(value)}",))):
        try:
            loaded = load(shared_world.folder / suite, registry=registry, overrides=overrides)
        except SuiteError as error:
            assert str(error)
        else:
            json.dumps(loaded.suite.model_dump(mode="json"), allow_nan=False)


@given(st.text(max_size=30))
@settings(deadline=None, max_examples=15)
def test_any_override_is_applied_or_a_suite_error(shared_world: World, override: str) -> None:
    try:
        shared_world.load(None, override, f"training.{override}")
    except SuiteError as error:
        assert "--set " in str(error)


# ------------------------------------------------------------------------------------------------------- resources


@pytest.mark.parametrize(
    ("kind", "name", "source"),
    [
        ("word_vectors", "glove", ResourceSource(kind="folder", name="glove")),
        ("word_vectors", "mini", ResourceSource(kind="mini")),
        ("synonyms", "wordnet", ResourceSource(kind="wordnet")),
        ("synonyms", "thesaurus", ResourceSource(kind="folder", name="thesaurus")),
        ("masked_lm", "org/model", ResourceSource(kind="hub", name="org/model")),
        ("masked_lm", "bottom", ResourceSource(kind="encoder", name="bottom")),
        ("masked_lm", "plain", ResourceSource(kind="hub", name="plain")),
        ("sentence_encoder", "use", ResourceSource(kind="use")),
        ("sentence_encoder", "some-folder", ResourceSource(kind="sentence-transformers", name="some-folder")),
        ("pos_tagger", "nltk", ResourceSource(kind="nltk")),
        ("stopwords", "mini", ResourceSource(kind="mini")),
    ],
)
def test_a_resource_is_replaced_by_one_word(world: World, kind: str, name: str, source: ResourceSource) -> None:
    choice = ResourceChoice.model_validate({"set": "world", kind: name})
    profile = load_resources(choice, Registry([world.folder]))
    assert getattr(profile, kind) == source
    assert profile.name == "world"


def test_the_kinds_of_source_are_those_that_resources_can_load() -> None:
    from rbench.config.encoders import LOADERS
    from rbench.words.resources.locate import _FINDERS

    for kind, (alone, named) in LOADERS.items():
        assert {*alone, *([named] if named else [])} <= set(_FINDERS[kind])


def test_an_encoder_behind_a_resource_is_loaded_only_where_an_attack_needs_it(world: World) -> None:
    world.change("[plain, trained]", "[plain]")
    assert "bottom" in world.load().encoders
    world.change("  - name: code\n    options: {strength: 2}\n", "")
    assert set(world.load().encoders) == {"plain"}


# ---------------------------------------------------------------------------------------------------- other doors


def test_an_encoder_may_have_the_name_of_the_model_that_it_loads(world: World) -> None:
    world.write("encoders/plain.yaml", "base: plain\n")
    assert load_encoder("plain", Registry([world.folder])).base == "plain"


def test_the_pieces_by_name(world: World) -> None:
    registry = Registry([world.folder])
    assert load_task("reviews", registry).title == "Reviews"
    assert load_attack("words", registry).recipe == "TextFoolerJin2019"
    assert load_resources("world", registry).pos_tagger == ResourceSource(kind="nltk")
    for function, name in (
        (load_task, "reviewz"),
        (load_encoder, "plan"),
        (load_attack, "word"),
        (load_resources, "word"),
    ):
        with pytest.raises(SuiteError) as caught:
            function(name, registry, place="here")
        assert str(caught.value).startswith("here: ") and name in str(caught.value)


def test_plain_data_is_a_suite_too(world: World) -> None:
    registry = Registry([world.folder])
    data = {"name": "one", "encoders": ["plain"], "tasks": ("reviews",), "resources": "world"}
    loaded = load_mapping(data, registry=registry, overrides=["seeds=3"])
    assert (loaded.suite.seeds, loaded.path) == ((3,), None)
    with pytest.raises(SuiteError) as caught:
        load_mapping({**data, "encoders": ["plan"]}, registry=registry, origin="rbench attack")
    assert str(caught.value).startswith("rbench attack: ")


def test_a_suite_is_found_by_name_or_by_path(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("suites/named.yaml", SUITE)
    registry = Registry([world.folder])
    assert load("named", registry=registry).suite.name == "named"
    monkeypatch.chdir(world.folder)
    assert load("my.yaml", registry=registry).path == Path("my.yaml")
    assert load("./my.yaml", registry=registry).suite.name == "my"
    for wrong, meant in (("namd", "named"), ("my.yml", "my.yaml"), ("./nmed.yaml", "named")):
        with refusal(SuiteError, f"{meant}?"):
            load(wrong, registry=registry)
    with pytest.raises(SuiteError):
        load("no/such.yaml", registry=registry)
    for file, name in (("all my (best) ones.yaml", "all-my-best-ones"), ("...yaml", "suite")):
        Path(file).write_bytes(Path("my.yaml").read_bytes())
        assert load(file, registry=registry).suite.name == name
    with pytest.raises(IsADirectoryError):
        load("./suites", registry=registry)


def test_places_are_relative_to_the_current_folder(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.folder)
    world.write("tasks/reviews.yaml", "")
    with pytest.raises(SuiteError) as caught:
        world.load()
    assert str(caught.value).startswith("tasks/reviews.yaml:1:1: ")


def test_the_catalogue_names_title_reference_and_origin(world: World) -> None:
    world.write("suites/named.yaml", SUITE)
    world.write("tasks/broken.yaml", "a: [")
    registry = Registry([world.folder])
    tasks = {entry.name: entry for entry in loading.catalogue("tasks", registry)}
    assert tasks["reviews"].title == "Reviews"
    assert tasks["reviews"].origin == f"--include {world.folder}"
    assert "cannot be read" in tasks["broken"].title
    attacks = {entry.name: entry for entry in loading.catalogue("attacks", registry)}
    assert (attacks["code"].title, attacks["words"].reference) == ("Code", "Jin et al.")
    (suite,) = (entry for entry in loading.catalogue("suites", registry) if entry.name == "named")
    assert suite.title == "A suite that is right [profiles: small, large]"


# ------------------------------------------------------------------------------------------- training by strategy


def test_a_strategy_may_set_what_training_may(world: World) -> None:
    world.change(
        "resources: world",
        "finetune: [clean, clean: {train_share: 0.1}, probe: {c: [1.0], max_train: 9}]\nresources: world",
    )
    loaded = world.load()
    assert {label: needs.training for label, needs in loaded.strategies.items()} == {
        "clean": {},
        "clean[train_share=0.1]": {"train_share": 0.1},
        "probe[c=[1.0],max_train=9]": {"max_train": 9},
    }


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("train_shar: 0.1", unknown("option of clean", "train_shar", "train_share")),
        ("train_share: 2", "`train_share`: expected a number of at most 1.0, found 2"),
        ("epochs: few", '`epochs`: expected a whole number, found "few"'),
    ],
)
def test_what_a_strategy_may_not_set_is_told_with_its_place(world: World, option: str, message: str) -> None:
    world.change("resources: world", f"finetune:\n  - clean: {{{option}}}\nresources: world")
    line = world.error()
    assert line.startswith("my.yaml:15:") and message in line


def test_a_suite_has_the_modules_of_all_that_it_names_or_implies(world: World) -> None:
    world.change("attacks:", "finetune: [{pregenerated: {attack: code}}]\nattacks:")
    found = world.load().modules
    assert {name for kind, name in found if kind == "finetune"} == {"pregenerated", "clean"}, "whose victim is attacked"


def test_a_circle_of_bases_is_told_where_something_is_built_of_it_too(world: World) -> None:
    """The search for what trained an encoder ends in a circle."""
    world.write("encoders/plain.yaml", "base: round\n")
    world.write("encoders/round.yaml", "base: plain\n")
    world.change("[plain, trained]", "[plain]")
    world.suite((world.folder / "my.yaml").read_text() + "build: [positives]\n")
    lines = world.errors()
    assert any("round in a circle: plain -> round -> plain" in line for line in lines)
    assert any("`build: positives` needs encoders that are trained with" in line for line in lines)


def test_a_table_may_be_written_as_its_metric_alone() -> None:
    data = {"name": "s", "encoders": ["mini-bert-packaged"], "tasks": ["mini-sentiment"], "attacks": ["pwws"]}
    data |= {"resources": "mini"}
    loaded = load_mapping(data | {"tables": ["asr", {"metric": "queries"}, "budget"]}, registry=Registry())
    assert [table.label for table in loaded.suite.tables] == ["asr", "queries", "budget"]
    for wrong in ("sts", "ars"):
        with pytest.raises(SuiteError) as caught:
            load_mapping(data | {"tables": [wrong]}, registry=Registry())
        assert wrong in str(caught.value)


def test_training_has_a_default_for_the_tasks_that_it_does_not_name() -> None:
    data = {"name": "s", "encoders": ["mini-bert-packaged"], "tasks": ["mini-sentiment", "mini-topic"]}
    data |= {"attacks": ["pwws"], "resources": "mini"}
    training = {"batch_size": 8, "default": {"epochs": 1}, "mini-topic": {"epochs": 2}}
    suite = load_mapping(data | {"training": training}, registry=Registry()).suite
    assert suite.training_for("mini-sentiment") == {"batch_size": 8, "epochs": 1}
    assert suite.training_for("mini-topic") == {"batch_size": 8, "epochs": 2}
    with pytest.raises(SuiteError) as caught:
        load_mapping(data | {"training": {"default": {"epoch": 1}}}, registry=Registry())
    assert "epoch" in str(caught.value)


def test_a_table_of_what_is_built_needs_it_under_build() -> None:
    data = {"name": "built", "encoders": ["adcl-mini"], "tasks": ["mini-sentiment"], "tables": ["positives"]}
    loaded = load_mapping(data | {"build": ["positives"]}, registry=Registry())
    assert [table.label for table in loaded.suite.tables] == ["positives"]
    with pytest.raises(SuiteError) as caught:
        load_mapping(data | {"attacks": ["pwws"], "resources": "mini"}, registry=Registry())
    assert "positives" in str(caught.value)


def test_a_task_with_one_label_is_refused_before_any_work(world: World) -> None:
    (world.folder / "tasks" / "one.yaml").write_text("kind: single\ncolumns: [text]\nlabels: [calm]\n")
    world.suite(SUITE.replace("  - reviews\n", "  - one\n"))
    assert world.error().startswith("my.yaml:4:5: task one has one label, calm (its kind is single)")
