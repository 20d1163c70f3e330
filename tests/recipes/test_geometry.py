"""Compares the Geometry attack with Algorithm 1 for one text, and tests its changes and query counts."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn

from rbench.config.code import find
from rbench.errors import JobError
from rbench.recipes import _textattack
from rbench.recipes.geometry import VictimGradients, _ClassExample
from rbench.recipes.substitutes import word_spans
from rbench.recipes.victim import Victim
from tests.recipes import substitution_toy as toy
from tests.recipes.geometry import (
    build_attack,
    compute_gradients,
    encode_text,
    find_changed_words,
    predict_label,
    split_words,
)

textattack = _textattack.textattack
from textattack.constraints.pre_transformation import InputColumnModification  # noqa: E402
from textattack.shared import AttackedText  # noqa: E402

FOLDER = Path(__file__).resolve().parent.parent.parent / "attacks"
TEXTS = toy.sentences(np.random.default_rng(5), 40)


@pytest.fixture(scope="module")
def victim():
    return Victim(toy.trained(), "toy")


@pytest.fixture(scope="module", params=["bert", "roberta"])
def untrained(request):
    return request.param, Victim(toy.classifier(request.param), request.param)


# ------------------------------------------------------------------------------------ Algorithm 1, once more, by hand


def algorithm_1(victim, masked_words, text, label, max_words, accept_flip=True):
    """(substitutions, final text, queries) by the paper's pseudocode: real vectors, real cross-entropy."""
    classifier, steps, queries, touched = victim.classifier, [], 1, set()
    while len(steps) < max_words:
        z, v, pieces = compute_gradients(classifier, text, label)
        norms = [float(rows.mean(dim=0).norm()) for rows in pieces]
        queries += 1
        words = split_words(text)
        for t in sorted(range(len(words)), key=lambda i: -norms[i]):
            if t in touched or words[t] in toy.STOPWORDS:
                continue
            touched.add(t)
            start = dict(enumerate(word_spans(AttackedText(text))))[t][1]
            (found,) = masked_words([(text, start, start + len(words[t]))])
            if found:
                break
        else:
            return steps, text, queries
        rows = []
        for new in found:
            other = text[:start] + new + text[start + len(words[t]) :]
            queries += 1
            p = float((encode_text(classifier, other).double() - z) @ v / v.norm())
            rows.append((p, new, other, predict_label(victim, other) != label))
        pool = [row for row in rows if row[3]] if accept_flip and any(row[3] for row in rows) else rows
        best = max(pool, key=lambda row: row[0])
        steps.append((t, best[1]))
        text = best[2]
        if best[3]:
            break
    return steps, text, queries


@pytest.mark.parametrize("accept_flip", [True, False])
def test_the_attack_is_algorithm_1(victim, accept_flip):
    attack = build_attack(victim, max_words=4, accept_flip=accept_flip)
    successes = changed = 0
    for text, label in list(zip(*TEXTS, strict=True))[:8]:  # by hand a text takes a tenth of a second
        if predict_label(victim, text) != label:
            continue
        result = attack.attack(text, label)
        masked_words = attack.transformation.source
        steps, final, queries = algorithm_1(victim, masked_words, text, label, 4, accept_flip)
        assert result.perturbed_result.attacked_text.text == final
        assert result.perturbed_result.num_queries == queries
        assert result.original_result.attacked_text.all_words_diff(result.perturbed_result.attacked_text) == {
            place for place, _ in steps
        }
        flipped = predict_label(victim, final) != label
        assert isinstance(result, textattack.attack_results.SuccessfulAttackResult) == flipped
        successes += flipped
        changed += len(steps)
    assert successes > 1
    assert changed > successes


def test_the_attack_is_algorithm_1_on_any_encoder(untrained):
    kind, victim = untrained
    attack = build_attack(victim, kind, max_words=3)
    for text in TEXTS[0][:4]:
        label = predict_label(victim, text)
        result = attack.attack(text, label)
        _, final, queries = algorithm_1(victim, attack.transformation.source, text, label, 3)
        assert (result.perturbed_result.attacked_text.text, result.perturbed_result.num_queries) == (final, queries)


# ------------------------------------------------------------------------------------------------------- gradients


def test_projections_read_off_the_logits_are_those_of_the_vectors(victim):
    texts, labels = TEXTS[0][:6], TEXTS[1][:6]
    look = VictimGradients(victim)([AttackedText(t) for t in texts], labels)
    for k, (text, label) in enumerate(zip(texts, labels, strict=True)):
        z, v, pieces = compute_gradients(victim.classifier, text, label)
        norms = [float(rows.mean(dim=0).norm()) for rows in pieces]
        other = text.replace("the", "very")
        true = float((encode_text(victim.classifier, other).double() - z) @ v / v.norm())
        log_p = victim([other])[0].double().log_softmax(dim=0)
        read = float((log_p - look.log_probabilities[k]) @ look.at_logits[k] / look.lengths[k])
        assert read == pytest.approx(true, rel=1e-3, abs=1e-5)
        ratio = look.norms[k] / torch.tensor(norms)
        assert torch.allclose(ratio, ratio[0].expand_as(ratio), rtol=1e-3)  # cross-entropy's, times one number


def test_a_victim_beyond_doubt_still_has_gradients(victim):
    classifier = toy.trained()
    with torch.no_grad():
        classifier.head.weight.mul_(1000)
        classifier.head.bias.mul_(1000)
    texts, labels = TEXTS[0][:4], TEXTS[1][:4]
    wrapped = [AttackedText(t) for t in texts]
    sure = VictimGradients(Victim(classifier, "sure"))(wrapped, labels)
    plain = VictimGradients(Victim(toy.trained(), "plain"))(wrapped, labels)
    for a, b in zip(sure.norms, plain.norms, strict=True):
        assert a.argmax() == b.argmax()
        assert torch.isfinite(a).all()
        assert a.max() > 0


def test_a_batch_of_gradients_is_one_at_a_time(victim):
    texts = [AttackedText(t) for t in (*TEXTS[0][:5], "good film")]
    labels = [*TEXTS[1][:5], 0]
    gradients = VictimGradients(victim)
    together = gradients(texts, labels)
    for k in range(6):
        alone = gradients(texts[k : k + 1], labels[k : k + 1])
        assert torch.allclose(together.norms[k], alone.norms[0], rtol=1e-3, atol=1e-6)
        assert torch.allclose(together.lengths[k], alone.lengths[0])


def test_gradients_leave_the_victim_as_it_was():
    victim = Victim(toy.classifier(), "fresh")
    before = {name: tensor.clone() for name, tensor in victim.classifier.state_dict().items()}
    build_attack(victim).attack(TEXTS[0][0], predict_label(victim, TEXTS[0][0]))
    assert all(parameter.grad is None for parameter in victim.classifier.parameters())
    assert not victim.classifier.get_input_embeddings()._forward_hooks
    assert all(torch.equal(before[name], tensor) for name, tensor in victim.classifier.state_dict().items())


def test_a_head_that_is_not_linear_is_refused():
    classifier = toy.classifier()
    classifier.head = nn.Sequential(classifier.head, nn.Tanh())
    with pytest.raises(JobError):
        VictimGradients(Victim(classifier, "odd"))


def test_words_lie_where_they_are_in_each_column():
    text = AttackedText(OrderedDict(premise="a film, good", hypothesis="Very good!"))
    assert word_spans(text) == [(0, 0, 1), (0, 2, 6), (0, 8, 12), (1, 0, 4), (1, 5, 9)]


# ---------------------------------------------------------------------------------------------- what it may touch


def test_stop_words_and_words_without_a_vector_stay(victim):
    attack = build_attack(victim, accept_flip=False)
    for text, label in list(zip(*TEXTS, strict=True))[:8]:
        if predict_label(victim, text) == label:
            words = split_words(text)
            touched = {words[k] for k in find_changed_words(attack.attack(text, label))}
            assert not touched & (toy.STOPWORDS | {"very"})


def test_the_premise_stays_where_a_constraint_protects_it():
    victim = Victim(toy.classifier(), "pairs")
    attack = build_attack(victim)
    attack.pre_transformation_constraints.append(InputColumnModification(["premise", "hypothesis"], {"premise"}))
    for text in TEXTS[0][:6]:
        pair = OrderedDict(premise=text, hypothesis=TEXTS[0][-1])
        result = attack.attack(pair, predict_label(victim, tuple(pair.values())))
        assert result.perturbed_result.attacked_text.tokenizer_input[0] == text
    free = build_attack(victim, max_words=50, min_cosine=-1.0).attack(pair, predict_label(victim, tuple(pair.values())))
    assert find_changed_words(free)


def test_both_columns_of_a_pair_align():
    victim = Victim(toy.classifier("roberta"), "pairs")
    pair = ("the film is good", "a dull, lousy tale")
    (norms,) = VictimGradients(victim)([AttackedText(OrderedDict(a=pair[0], b=pair[1]))], [0]).norms
    assert torch.isfinite(norms).all()
    assert len(norms) == 8


def test_words_beyond_the_victims_reach_are_not_tried():
    victim = Victim(toy.classifier(), "short", max_length=10)
    text = " ".join(["good", "dull"] * 12)
    for attack in (build_attack(victim), build_attack(victim, accept_flip=False, min_cosine=-1.0)):
        result = attack.attack(text, predict_label(victim, text))
        assert all(place < 8 for place in find_changed_words(result))
    (norms,) = VictimGradients(victim)([AttackedText(text)], [0]).norms
    assert torch.isfinite(norms).tolist() == [True] * 8 + [False] * 16


@pytest.mark.parametrize("text", ["very", "!?", "the and a", "unseen unseen"])
def test_a_text_in_which_nothing_can_be_replaced_fails_with_one_gradient(victim, text):
    result = build_attack(victim).attack(text, predict_label(victim, text))
    assert isinstance(result, textattack.attack_results.FailedAttackResult)
    assert result.perturbed_result.attacked_text.text == text
    assert result.perturbed_result.num_queries in (1, 2)


def test_max_words_is_kept(victim):
    attack = build_attack(victim, max_words=2)
    sizes = [len(find_changed_words(attack.attack(t, predict_label(victim, t)))) for t in TEXTS[0][:6]]
    assert max(sizes) == 2


# ------------------------------------------------------------------------------------------------------- what it costs


@pytest.fixture(scope="module")
def unbounded(victim):
    """Texts and labels, and what they become without a budget."""
    free, pairs = build_attack(victim), list(zip(*TEXTS, strict=True))[:6]
    return [(text, label, free.attack(text, label)) for text, label in pairs if predict_label(victim, text) == label]


@pytest.mark.parametrize("budget", [1, 5])
def test_a_query_budget_is_never_passed(victim, unbounded, budget):
    attack = build_attack(victim)
    attack.goal_function.query_budget = budget
    for text, label, free in unbounded:
        result = attack.attack(text, label)
        assert result.perturbed_result.num_queries <= budget
        final = result.perturbed_result
        assert (final.output != label) == isinstance(result, textattack.attack_results.SuccessfulAttackResult)
        if free.perturbed_result.num_queries < budget:
            assert final.attacked_text.text == free.perturbed_result.attacked_text.text


def test_runs_repeat_exactly(victim):
    def run():
        attack = build_attack(victim)
        return [attack.attack(t, predict_label(victim, t)).perturbed_result.attacked_text.text for t in TEXTS[0][:4]]

    assert run() == run()


# ----------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    "options", [{"max_words": 0}, {"min_cosine": 2}, {"projection": "up"}, {"candidates": 0}, {"unknown_key": 1}]
)
def test_wrong_options_are_refused(options):
    with pytest.raises(ValidationError):
        find("attacks", "geometry").open().Options(**options)


def test_the_most_words_are_the_papers():
    assert find("attacks", "geometry").open().Options().max_words == 20


def test_reading_an_attack_file_does_not_load_torch():
    code = (
        "import sys; from rbench.config.code import find\n"
        "for m in (find('attacks', name).open() for name in ('geometry', 'random')):\n"
        "    m.Options(); assert m.title and m.resources\n"
        "assert not {'torch', 'textattack', 'transformers'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_absolute_projection_is_another_search(victim):
    def ends(**options):
        attack = build_attack(victim, accept_flip=False, max_words=2, **options)
        return [attack.attack(t, predict_label(victim, t)).perturbed_result.score for t in TEXTS[0][:10]]

    signed, absolute = ends(), ends(projection="absolute")
    assert signed != absolute
    assert math.fsum(signed) > math.fsum(absolute)


def test_a_probability_is_told_apart_down_to_the_smallest_that_single_precision_has() -> None:
    """A victim that is sure gives the other label 1e-30, and no logarithm is infinite."""
    results = [SimpleNamespace(raw_output=torch.tensor(row)) for row in ([1.0, 1e-30], [1.0, 0.0])]
    found = _ClassExample._log_probabilities(None, results)  # type: ignore[arg-type]
    assert found[0].tolist() == pytest.approx([0.0, math.log(1e-30)], rel=1e-6)
    assert found[1, 1] == pytest.approx(math.log(torch.finfo(torch.float32).tiny)) and found.dtype == torch.float64
