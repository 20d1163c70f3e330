from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from textattack import attack_recipes
from textattack.constraints.pre_transformation import InputColumnModification
from textattack.shared import WordEmbedding

from rbench import config, recipes
from rbench.config.attacks import list_recipes as textattack_recipes
from rbench.config.registry import Registry
from rbench.errors import ResourceError, SuiteError
from rbench.recipes import binding
from rbench.recipes.binding import dry_build, list_components
from rbench.recipes.build import MaxWordsChanged
from rbench.recipes.cached import EnoughWordsChanged, SplicedText
from rbench.schema import AttackSpec, Outcome, TaskSpec
from rbench.words.resources import Resources
from tests.recipes import world
from tests.refusals import nearest, refusal, unknown


def recipe(name: str, **parameters: Any) -> AttackSpec:
    keys = {key.replace("__", "."): value for key, value in parameters.items()}
    return AttackSpec(name="it", recipe=name, parameters=keys)


def part(built: Any, name: str) -> Any:
    return next(p for p in list_components(built) if type(p).__name__ == name)


# ------------------------------------------------------------------------------------------------------------ check


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (recipe("TextFoolerJin2018"), unknown("TextAttack recipe", "TextFoolerJin2018", "TextFoolerJin2019")),
        (recipe("PWWSRen2019", GreedyWordSwapWir__unk_token="x"), nearest("GreedyWordSwapWIR")),
        (recipe("TextFoolerJin2019", WordSwapEmbedding__max_candidats=3), nearest("max_candidates")),
        (recipe("TextFoolerJin2019", max_candidates=3), "written Component.parameter"),
        (recipe("TextFoolerJin2019", WordSwapEmbedding__max_candidates="many"), "a whole number from 1, not 'many'"),
        (recipe("TextFoolerJin2019", WordSwapEmbedding__max_candidates=True), "a whole number from 1, not True"),
        (recipe("TextFoolerJin2019", WordSwapEmbedding__max_candidates=0), "a whole number from 1, not 0"),
        (recipe("TextFoolerJin2019", UniversalSentenceEncoder__threshold=float("inf")), "must be a number"),
        (recipe("TextFoolerJin2019", UniversalSentenceEncoder__metric="cosin"), "Unsupported metric cosin"),
        (recipe("TextFoolerJin2019", PartOfSpeech__allow_verb_noun_swap=1), "true or false"),
        (recipe("TextFoolerJin2019", WordSwapEmbedding__embedding="mine"), "unknown parameter"),
        (
            recipe("BERTAttackLi2020", MaxWordsPerturbed__max_percent=1.5),
            "max_percent must be from 0.001 to 1, not 1.5",
        ),
        (
            recipe("BERTAttackLi2020", MaxWordsPerturbed__max_percent=0.0),
            "max_percent must be from 0.001 to 1, not 0.0",
        ),
        (recipe("TextFoolerJin2019", WordEmbeddingDistance__min_cos_sim=50.0), "must be from -1 to 1, not 50.0"),
        (recipe("TextFoolerJin2019", UniversalSentenceEncoder__threshold=84.0), "threshold must be from -1 to 1"),
        (recipe("TextFoolerJin2019", GreedyWordSwapWIR__wir_method="delte"), "one of unk, weighted-saliency, delete"),
        (recipe("BAEGarg2019", WordSwapMaskedLM__min_confidence=2.0), "min_confidence must be from 0 to 1, not 2.0"),
        (recipe("BERTAttackLi2020", WordSwapMaskedLM__method="bert_attack"), "one of bae, bert-attack"),
        (recipe("BERTAttackLi2020", WordSwapMaskedLM__piece_candidates=0), "a whole number from 1, not 0"),
        (recipe("InputReductionFeng2018"), "its goal is a shorter text with the same label, not misclassification"),
        (
            recipe("Kuleshov2017"),
            "it needs the language model gpt2 and thought vectors, and rbench has no such resource",
        ),
        (recipe("HotFlipEbrahimi2017"), "TextAttack reads its gradients from TextAttack's own LSTM"),
        (recipe("CLARE2020"), "flair's tagger of parts of speech (upos-fast)"),
        (recipe("FrenchRecipe"), "a French WordNet"),
        (recipe("PWWSRen2019"), "uses stopwords, synonyms; add to its `needs`"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_loaded(spec: AttackSpec, message: str) -> None:
    with pytest.raises(SuiteError) as caught:
        recipes.check(spec)
    assert message in str(caught.value) and "attack it" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("DeepWordBugGao2018", ("stopwords",)),
        ("IGAWang2019", ("stopwords", "word_vectors")),
        ("LEAP2023", ("stopwords", "synonyms")),
        ("A2TYoo2021", ("pos_tagger", "sentence_encoder", "stopwords", "word_vectors")),
        ("Pruthi2019", ("stopwords",)),
    ],
)
def test_other_recipes_by_class_name_say_what_they_need(name: str, needs: tuple[str, ...]) -> None:
    assert recipes.needs(AttackSpec(name="it", recipe=name)) == needs


def test_a_budget_is_no_parameter_and_null_stands_where_it_may() -> None:
    assert recipes.needs(recipe("TextFoolerJin2019", UniversalSentenceEncoder__window_size=None))
    with pytest.raises(SuiteError, match="query_budget"):
        recipes.needs(recipe("PWWSRen2019", UntargetedClassification__query_budget=5))


# ------------------------------------------------------------------------------------------------------------ build


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_building_asks_no_network_and_leaves_textattack_as_it_was(lm: Path, single: recipes.Victim) -> None:
    before = [dict(vars(module)) for module in binding.recipe_modules()]
    owners = (WordEmbedding, *(getattr(binding.transformers, f"AutoModelFor{k}LM") for k in ("Masked", "Causal")))
    owned = [dict(vars(owner)) for owner in owners]
    resources = world.resources(lm)
    for name in world.ALL:
        recipes.build(world.spec(name), single, resources, world.SINGLE)
    assert [dict(vars(module)) for module in binding.recipe_modules()] == before
    assert [dict(vars(owner)) for owner in owners] == owned


BUILT_AND_REFUSED = {
    *("CheckList2020", "CLARE2020", "MorpheusTan2020"),  # they load flair's models while they run
    *("InputReductionFeng2018", "Seq2SickCheng2018BlackBox"),  # they run, and what they measure is no ASR
}


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", textattack_recipes())
def test_each_listed_recipe_attacks_two_texts_or_says_why_not(
    name: str, single: recipes.Victim, resources: Resources
) -> None:
    """What `rbench list attacks` names is a promise, of TextAttack's recipes too."""
    refused = textattack_recipes()[name].refused
    spec = AttackSpec(name="it", recipe=name, query_budget=60)
    if refused:
        with refusal(SuiteError, refused):
            recipes.build(spec, single, resources, world.SINGLE)
        with refusal(SuiteError, refused):  # before TextAttack is imported
            config.load_attack(name, Registry())
        if name not in BUILT_AND_REFUSED:
            with pytest.raises(SuiteError):
                dry_build(spec, getattr(attack_recipes, name))
        return
    named = config.load_attack(name, Registry()).model_copy(update={"query_budget": 60})
    built = recipes.build(named, single, resources, world.SINGLE)
    texts = world.examples(world.SINGLE, single, 9)[7:]
    outcomes = list(recipes.run(lambda: built, texts, spec=named, task=world.SINGLE, seed=0))
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert all(outcome.num_queries <= 60 for outcome in outcomes) and outcomes[0].num_queries > 1


def test_parameters_reach_the_constructors(single: recipes.Victim, resources: Resources) -> None:
    spec = recipe(
        "TextFoolerJin2019",
        WordSwapEmbedding__max_candidates=7,
        UniversalSentenceEncoder__metric="cosine",
        UniversalSentenceEncoder__window_size=None,
        GreedyWordSwapWIR__wir_method="unk",
        GreedyWordSwapWIR__unk_token="it",
        StopwordModification__stopwords=["the"],
    )
    built = recipes.build(spec, single, resources, world.SINGLE)
    assert part(built, "WordSwapEmbedding").max_candidates == 7
    similar = part(built, "UniversalSentenceEncoder")
    assert "CosineSimilarity" in type(similar.sim_metric).__name__ and similar.window_size == float("inf")
    assert (part(built, "GreedyWordSwapWIR").wir_method, part(built, "GreedyWordSwapWIR").unk_token) == ("unk", "it")
    assert part(built, "StopwordModification").stopwords == {"the"}
    assert part(recipes.build(recipe("PWWSRen2019"), single, resources, world.SINGLE), "GreedyWordSwapWIR").unk_token
    again = recipes.build(recipe("TextFoolerJin2019"), single, resources, world.SINGLE)
    assert part(again, "WordSwapEmbedding").max_candidates == 50


def test_a_recipe_that_wants_more_than_there_is_names_it(single: recipes.Victim, resources: Resources) -> None:
    with pytest.raises(SuiteError, match="HowNet"):
        recipes.build(recipe("PSOZang2020"), single, resources, world.SINGLE)
    bare = Resources(resources.resource_set.model_copy(update={"synonyms": None}))
    with pytest.raises(ResourceError, match="synonyms"):
        recipes.build(recipe("PWWSRen2019"), single, bare, world.SINGLE)


# ------------------------------------------------------------------------------------------------ suite constraints


def outcomes(spec: AttackSpec, victim: recipes.Victim, resources: Resources, task: TaskSpec, n: int) -> list[Outcome]:
    built = recipes.build(spec, victim, resources, task)
    return list(recipes.run(lambda: built, world.examples(task, victim, n), spec=spec, task=task, seed=0))


@pytest.mark.parametrize("name", ["bae", "textbugger"])
def test_max_words_bounds_the_words_changed(name: str, single: recipes.Victim, resources: Resources) -> None:
    free = outcomes(world.spec(name), single, resources, world.SINGLE, 6)
    assert any(o.num_words_changed > 1 for o in free)
    bounded = outcomes(world.spec(name, max_words=1), single, resources, world.SINGLE, 6)
    assert {o.num_words_changed for o in bounded} == {0, 1}, "what is allowed is what is reported"


def test_a_word_split_in_two_leaves_room_for_one_more() -> None:
    text = SplicedText("the plot was fine")
    split = text.replace_word_at_index(1, "pl ot")
    other = split.replace_word_at_index(4, "dull")
    deleted = text.delete_word_at_index(0)
    allowed = [MaxWordsChanged(1)._check_constraint(one, text) for one in (text, split, other, deleted)]
    assert allowed == [True, True, False, True]
    assert EnoughWordsChanged(1)._get_modifiable_indices(text) == {0, 1, 2, 3}
    assert EnoughWordsChanged(1)._get_modifiable_indices(split) == {1, 2}
    assert EnoughWordsChanged(2)._get_modifiable_indices(split) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("name", ["pwws", "bertattack"])
def test_a_budget_bounds_the_queries(name: str, single: recipes.Victim, resources: Resources) -> None:
    free = {o.example_id: o for o in outcomes(world.spec(name), single, resources, world.SINGLE, 4)}
    for budget in (1, 9):
        bounded = outcomes(world.spec(name, query_budget=budget), single, resources, world.SINGLE, 4)
        assert all(o.num_queries <= budget and o.error is None for o in bounded)
        for o in bounded:
            if free[o.example_id].num_queries < budget:
                assert o.perturbed == free[o.example_id].perturbed


@pytest.mark.parametrize("name", world.ALL)
def test_the_premise_stays(name: str, pair: recipes.Victim, resources: Resources) -> None:
    found = outcomes(world.spec(name), pair, resources, world.PAIR, 2)
    assert any(o.perturbed is not None and o.perturbed[1] != o.original[1] for o in found)
    assert all(o.perturbed is None or o.perturbed[0] == o.original[0] for o in found)


def test_on_other_pairs_both_texts_may_change(pair: recipes.Victim, resources: Resources) -> None:
    task = world.PAIR.model_copy(update={"kind": "paraphrase"})
    found = [o for o in outcomes(world.spec("pwws"), pair, resources, task, 6) if o.perturbed is not None]
    assert any(o.perturbed[0] != o.original[0] for o in found if o.perturbed)


def test_columns_to_protect_must_exist(pair: recipes.Victim, resources: Resources) -> None:
    task = world.PAIR.model_copy(update={"columns": ("premises", "hypothesis")})
    with refusal(SuiteError, nearest("premises")):
        recipes.build(world.spec("pwws"), pair, resources, task)


def test_a_column_is_protected_under_its_own_name(pair: recipes.Victim, resources: Resources) -> None:
    spec = world.spec("pwws").model_copy(update={"protect": {"nli": ("hypothesis",)}})
    built = recipes.build(spec, pair, resources, world.PAIR)
    constraint = next(c for c in built.pre_transformation_constraints if isinstance(c, InputColumnModification))
    assert constraint.columns_to_ignore == {"hypothesis"}
