"""The encoder files of what rbench trains: settings that load, names by one rule, and papers' values where printed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rbench.config import load, load_encoder
from rbench.config.registry import Registry
from rbench.schema import EncoderSpec
from rbench.train import objectives

CONTRASTIVE = ["atcl", "consert", "robustembed", "robustsentembed", "simcse", "uscal", "vadvcse"]
LARGE = ["bert-base", "roberta-base", "roberta-large"]
SMALL = ["minilm", "minilm-mlm"]
PUBLISHED = {f"simcse-{base}" for base in LARGE}


def name_of(objective: str, base: str) -> str:
    """The rule: `<objective>-<base>`, and `-ours` behind it where a published checkpoint has that name."""
    name = f"{objective}-{base}"
    return f"{name}-ours" if name in PUBLISHED else name


def read(name: str) -> EncoderSpec:
    return load_encoder(name, Registry())


def test_what_is_published_is_not_what_is_trained_here() -> None:
    assert all(read(name).train is None for name in PUBLISHED)


@pytest.mark.parametrize("base", ["mini", *SMALL, *LARGE])
@pytest.mark.parametrize("objective", CONTRASTIVE)
def test_every_objective_has_an_encoder_on_every_base(objective: str, base: str) -> None:
    name = name_of(objective, base)
    spec = load_encoder(name, Registry())
    assert spec.train is not None
    assert (spec.name, spec.train.objective) == (name, objective)
    assert spec.base == ("mini-bert" if base == "mini" else base)
    assert spec.train.data == ("mini-corpus" if base == "mini" else "corpus" if base in SMALL else "wiki1m")
    assert spec.pooling == ("mean" if base in SMALL else "cls")
    assert spec.title and spec.reference and spec.licence and spec.notes
    assert any("ours" in note.lower() or "authors' repository" in note for note in spec.notes)
    objectives.find(objective).Options(**spec.train.options)


@pytest.mark.parametrize("base", ["mini", *SMALL, "bert-base"])
@pytest.mark.parametrize("objective", ["adcl", "btcl"])
def test_momentum_contrast_is_trained_on_the_texts_of_the_task(objective: str, base: str) -> None:
    spec = load_encoder(f"{objective}-{base}", Registry())
    assert spec.train is not None and spec.train.objective == objective and spec.train.data == "in-domain"
    assert spec.base == ("mini-bert" if base == "mini" else base)
    assert spec.pooling == ("mean" if base in SMALL else "cls")
    assert spec.title and spec.reference and spec.licence and any("ours" in note for note in spec.notes)
    options = objectives.find(objective).Options(**spec.train.options)
    assert options.problem(spec.train) is None and options.dim == 128
    if base == "bert-base":
        assert (options.queue, spec.train.batch_size, spec.train.max_length) == (32768, 1024, 128)
    if objective == "adcl":
        assert (options.max_words, options.share, options.candidates) == (10, 0.2, 25)


@pytest.mark.parametrize("base", ["mini", "minilm-mlm", "bert-base", "roberta-base"])
def test_cline_has_an_encoder_on_every_base_with_a_masked_lm_head(base: str) -> None:
    spec = load_encoder(f"cline-{base}", Registry())
    assert spec.train is not None and spec.train.objective == "cline"
    assert spec.base == ("mini-bert" if base == "mini" else base)
    assert spec.train.data == {"mini": "mini-corpus", "minilm-mlm": "corpus"}.get(base, "wiki1m")
    assert spec.pooling == ("mean" if base in SMALL else "cls")
    assert spec.title and spec.reference and spec.licence and any("ours" in note.lower() for note in spec.notes)
    options = objectives.find("cline").Options(**spec.train.options)
    assert options.resources.set == ("mini" if base == "mini" else "standard")
    assert (options.synonym_share, options.antonym_share, options.hard_negative) == (0.4, 0.2, True)
    if base in LARGE:
        train = spec.train
        assert (train.steps, train.batch_size, train.max_length) == (30_000, 256, 512)
        assert (train.learning_rate, train.weight_decay, round(train.warmup * 30_000)) == (1e-4, 0.01, 500)


@pytest.mark.parametrize("objective", ["whitening", "flow"])
def test_what_is_fitted_has_an_encoder_of_the_embedded_world(objective: str) -> None:
    spec = load_encoder(f"{objective}-mini", Registry())
    assert spec.train is not None and (spec.base, spec.pooling) == ("mini-bert", "mean")
    assert (spec.train.objective, spec.train.data) == (objective, "mini-corpus")
    assert spec.title and spec.reference and spec.licence
    objectives.find(objective).Options(**spec.train.options)


@pytest.mark.parametrize("base", LARGE)
def test_robustsentembed_has_the_printed_settings(base: str) -> None:
    spec = read(name_of("robustsentembed", base))
    assert spec.train is not None
    options = objectives.find("robustsentembed").Options(**spec.train.options).model_dump()
    printed = {"K": 5, "T": 5, "norm": "linf", "rho": 0.5, "lambda1": 1 / 128, "lambda2": 0.005, "alpha": 1e-5}
    assert {key: options[key] for key in printed} == printed and options["beta"] == 1e-3
    assert spec.train.epochs == 4 and spec.train.batch_size in (64, 128)


@pytest.mark.parametrize(
    ("base", "batch_size", "learning_rate"),
    [("bert-base", 64, 3e-5), ("roberta-base", 512, 1e-5), ("roberta-large", 512, 3e-5)],
)
def test_simcse_has_the_settings_of_its_repository(base: str, batch_size: int, learning_rate: float) -> None:
    train = read(name_of("simcse", base)).train
    assert train is not None
    assert (train.epochs, train.batch_size, train.learning_rate) == (1, batch_size, learning_rate)


HARD = ["simcse", "robustembed", "robustsentembed", "uscal", "vadvcse", "noise"]


def test_encoders_on_the_hard_task_have_one_training_and_differ_in_the_objective() -> None:
    trains = {name: read(f"{name}-minilm-mlm-hard").train for name in HARD}
    shared = ("neighbours", "temperature")
    settings = set()
    for train in trains.values():
        assert train is not None and train.options["neighbours"] == train.batch_size == 64
        options = tuple(train.options[key] for key in shared)
        settings.add((options, train.model_copy(update={"options": {}, "objective": ""}).model_dump_json()))
        assert objectives.find(train.objective).Options(**train.options).problem(train) is None
    assert len(settings) == 1
    assert trains["simcse"] is not None and set(trains["simcse"].options) == set(shared)


@pytest.mark.parametrize("base", ["minilm-mlm-hard", "mini"])
def test_noise_is_a_control_that_takes_no_step(base: str) -> None:
    spec, adversary = read(f"noise-{base}"), read(f"robustembed-{base}")
    assert spec.control and not adversary.control and spec.train is not None and adversary.train is not None
    assert spec.train.objective == "robustembed" and (spec.train.options["K"], spec.train.options["T"]) == (0, 0)
    assert spec.train.model_copy(update={"options": {}}) == adversary.train.model_copy(update={"options": {}})
    assert read(f"forget-{base.removesuffix('-hard')}").control


def test_vadvcse_has_the_printed_settings() -> None:
    train = read("vadvcse-bert-base").train
    assert train is not None
    options = objectives.find("vadvcse").Options(**train.options).model_dump()
    assert (options["divergence"], options["head"], options["K"], options["lam"]) == ("js", "batchnorm", 1, 1e-6)


def test_options_are_checked_without_torch() -> None:
    """They are when a suite is loaded, and `rbench list` is to answer at once. One process for all that it needs."""
    code = (
        "import sys, rbench.mini, rbench.mini.lexical, rbench.mini.tokenizer, rbench.train.objectives.mlm\n"
        "assert not {'torch', 'transformers', 'tokenizers'} & set(sys.modules), 'mini'\n"
        "from rbench import encoders\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), 'encoders'\n"
        "from rbench.config.registry import Registry\n"
        "from rbench.train import objectives\n"
        "from rbench.train.finetune import strategy\n"
        "for name in Registry().names('objectives'): objectives.find(name).Options()\n"
        "for name in ('adversarial', 'clean', 'freelb', 'random_substitutions'): strategy(name).Options()\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), 'options'"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_released_is_a_bundle_of_all_that_the_authors_code_sets() -> None:
    name = "robustsentembed-bert-base"
    printed, released = read(name).train, read(f"{name}-released").train
    assert printed is not None and released is not None
    assert printed.options["variant"] == "printed"
    assert (printed.epochs, printed.batch_size, printed.select_by) == (4, 128, "stsb")
    assert released.options == {**printed.options, "variant": "released"}
    assert (released.learning_rate, released.epochs, released.batch_size, released.max_length) == (7e-6, 2, 256, 32)
    assert released.select_every == 125
    scored = {task: released.scored_split(task) for task in released.selection_tasks}
    years = {f"sts{year}": "test" for year in range(12, 17)}
    assert scored == {**years, "stsb": "validation", "sickr": "validation"}


@pytest.mark.parametrize(
    "suite",
    [
        "table1",
        *(
            pytest.param(f"robustsentembed-{name}", marks=pytest.mark.nightly)
            for name in ("figure2", "table2", "table3")
        ),
    ],
)
def test_suites_say_which_settings_of_released_each_row_has(suite: str) -> None:
    for profile in (None, "local", "mini"):
        loaded = load(suite, registry=Registry(), profile=profile)
        rows = [row for row in loaded.suite.encoders if "released" in row]
        assert rows or profile is not None
        whole = any(row.endswith("-released") for row in rows)
        told = " ".join(loaded.suite.notes)
        assert not rows or (
            "7e-6, two epochs, 256" in told if whole else "selection are those of the row without it" in told
        )
