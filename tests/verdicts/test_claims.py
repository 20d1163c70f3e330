"""Verdicts on claims, on a RUN made by hand: against `rbench compare`, loops over its outcomes, and plain sums."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from scipy import stats
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.errors import SuiteError
from rbench.schema import Health, Job, RaisedFlag
from rbench.score.nested_intervals import lucky_agreement
from rbench.score.paired import ReportedNumber, combine_reported, correct_by_holm
from rbench.store.runs import RunStore
from rbench.tables import Results, build_attack_table
from rbench.verdicts.claims import JudgedClaim, build_table, claim_lines, summarise_claims
from tests import reference
from tests.refusals import nearest
from tests.tables.conftest import make_outcomes, make_suite

MakeRun = Callable[..., RunStore]
ONE_SEED = {"seeds": (0,)}


def judged(store: RunStore, **keys: Any) -> JudgedClaim:
    file = store.root.parent / "claims.yaml"
    file.write_text(yaml.safe_dump({"claims": [{"id": "c", "about": "weights", **keys}]}))
    (found,) = api.claims(store.root, file)
    return found


def jobs(store: RunStore) -> list[Job]:
    plan = store.plan()
    assert plan is not None
    return list(plan.jobs)


def fell(store: RunStore, encoder: str, task: str = "mr", attack: str = "pwws") -> dict[str, float]:
    """Whether each attacked example fell, of the only seed."""
    (job,) = [job for job in jobs(store) if job.parts == (encoder, task, "clean", attack)]
    there = ("succeeded", "failed")
    return {o.example_id: float(o.status == "succeeded") for o in make_outcomes(job) if o.status in there}


def test_seeds_that_attack_a_classifier_again_say_nothing_of_a_method(make_run: MakeRun) -> None:
    said = {"lower": {"attack": "pwws"}, "than": {"attack": "textfooler"}, "about": "method"}
    suite = make_suite(seeds=(0, 1, 2), attacks=("pwws", "textfooler"))
    tuned = judged(make_run(suite, sealed=True, name="tuned"), **said)
    again = judged(make_run(suite, sealed=True, name="again", weights_hash="the same"), **said)
    assert not any(one.is_weights_only for one in tuned.judged) and all(one.is_weights_only for one in again.judged)
    assert again.verdict == "undecided" and again.notes


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_what_stands_on_a_job_whose_record_is_gone_decides_no_claim(tmp_path: Path, stage: str) -> None:
    """Its flags are gone with it: what was undecided would be supported."""
    store = RunStore(reference.unpacked("adcl-gated-ag", tmp_path / "run"))
    said = {"of": {"encoder": "adcl-minilm-gated", "attack": "pwws[max_words=12]"}, "at_most": 99.9}
    assert judged(store, **said).verdict == "supported"
    (job,) = [job for job in jobs(store) if job.stage == stage and job.parts[0] == "adcl-minilm-gated"]
    (store.root / job.folder / "record.json").unlink()
    (line,) = claim_lines([judged(store, **said)])
    assert line.startswith("undecided: ") and f"the record of {job.name} is missing or damaged" in line
    attacks = [{"encoder": "adcl-minilm-gated", "attack": f"{name}[max_words=12]"} for name in ("pwws", "textfooler")]
    alike = judged(store, lower=attacks[0], than=attacks[1])
    assert ("is missing" not in alike.judged[0].why) is (stage == "pretrain"), "a training concerns both sides alike"


def test_a_claim_names_a_strategy_without_options_where_no_other_has_its_name(tmp_path: Path) -> None:
    first, second, third = claim_lines(api.claims(Path(__file__).parents[2] / "results/quickstart.zip"))
    assert "asr of finetune adversarial lower than finetune clean by more than 20 (attack textfooler, pwws)" in first
    assert "attack textbugger higher than attack textfooler (finetune adversarial)" in second
    assert "clean of finetune adversarial higher than finetune clean, or lower by less than 5" in third
    run, file = "geometry-finetuning-table8", tmp_path / "claims.yaml"
    labels = dict.fromkeys(job.parts[2] for job in reference.plan(run).jobs if job.stage == "finetune")
    (one, *_) = several = [label for label in labels if label.startswith("pregenerated[")]
    (long,) = [label for label in labels if label.startswith("adversarial[")]
    said = {"id": "c", "lower": {"finetune": one}, "than": [{"finetune": long}]}
    file.write_text(yaml.safe_dump({"claims": [said]}))
    (found,) = api.claims(reference.run(run), file)
    assert len(several) == 2 and found.words == f"asr of finetune {one} lower than finetune adversarial"


def test_a_claim_on_each_cell_is_judged_as_compare_does(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    found = judged(store, lower="bert_b", than="minilm", for_each=["task", "attack"])
    peer = {
        (one.name.task, one.name.attack): one for one in api.compare(store.root, between=("minilm", "bert_b")).cells
    }
    assert len(found.judged) == len(peer) == 4
    for one in found.judged:
        names = dict(one.comparison.combination)
        cell = peer[names["task"], names["attack"]]
        d = one.difference
        assert d is not None
        assert (d.value, d.low, d.high, d.n) == (
            cell.difference.value,
            cell.difference.low,
            cell.difference.high,
            cell.difference.n,
        )
        assert one.p == pytest.approx(cell.p)  # both are corrected for four cells
    assert [one.p for one in found.judged] == correct_by_holm(
        [one.difference.p for one in found.judged if one.difference]
    )
    assert sum(found.counts.values()) == 4


def test_an_average_over_attacks_counts_an_example_once(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    attacks = ("pwws", "bertattack[max_words=10]")
    (one,) = judged(store, of="minilm", at_least=10, where={"task": "mr"}).judged
    cells = [fell(store, "minilm", attack=attack) for attack in attacks]
    mean = sum(sum(cell.values()) / len(cell) for cell in cells) / 2
    added = dict.fromkeys({*cells[0], *cells[1]}, 0.0)
    for cell in cells:
        own = sum(cell.values()) / len(cell)
        for example, value in cell.items():
            added[example] += 0.5 * (value - own) / len(cell)
    n = len(added)
    error = (n / (n - 1) * sum(value**2 for value in added.values())) ** 0.5
    d = one.difference
    assert d is not None and d.n == n
    assert d.value == pytest.approx(mean)
    assert d.low == pytest.approx(mean - stats.t.ppf(0.975, n - 1) * error)
    assert d.p == pytest.approx(2 * stats.t.sf((mean - 0.1) / error, n - 1))
    assert one.verdict == "supported"


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_clean_accuracy_is_judged_once_for_each_victim_as_compare_does(
    make_run: MakeRun, seeds: tuple[int, ...]
) -> None:
    """Each attack on a victim has its clean accuracy; the mean of such copies would have lost the exact test."""
    store = make_run(make_suite(seeds=seeds), sealed=True)
    found = judged(store, metric="clean", lower="bert_b", than="minilm", for_each=["task"])
    peers = api.compare(store.root, between=("minilm", "bert_b"), metric="clean").cells
    assert len(found.judged) == len(peers) == 2
    for one, peer in zip(found.judged, peers, strict=True):
        d = one.difference
        assert d is not None and dict(one.comparison.combination)["task"] == peer.name.task
        assert (d.value, d.low, d.high, d.n) == (
            peer.difference.value,
            peer.difference.low,
            peer.difference.high,
            peer.difference.n,
        )


def fell_to_any(store: RunStore, encoder: str, task: str = "mr") -> dict[tuple[int, str], float]:
    """Whether each example, by seed, that no attack skipped or failed on fell to one of both attacks."""
    there = [job for job in jobs(store) if job.stage == "attack" and job.parts[:2] == (encoder, task)]
    statuses: dict[tuple[int, str], list[str]] = {}
    for job in there:
        for outcome in make_outcomes(job):
            statuses.setdefault((job.seed, outcome.example_id), []).append(outcome.status)
    met = {example: found for example, found in statuses.items() if not {"skipped", "errored"} & {*found}}
    return {example: float("succeeded" in found) for example, found in met.items()}


def test_all_attacks_together_are_compared_text_by_text(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    found = judged(store, metric="any_attack", lower="bert_b", than="minilm", for_each="task")
    assert len(found.judged) == 2
    for one in found.judged:
        task = dict(one.comparison.combination)["task"]
        a, b = fell_to_any(store, "bert_b", task), fell_to_any(store, "minilm", task)
        common = a.keys() & b.keys()
        discordant = [(a[i], b[i]) for i in common if a[i] != b[i]]
        d = one.difference
        assert d is not None and d.n == len(common) and found.percent
        assert d.value == pytest.approx(sum(x - y for x, y in discordant) / len(common))
        assert d.p == pytest.approx(stats.binomtest(sum(x > y for x, y in discordant), max(1, len(discordant))).pvalue)
        assert [*a.values()] != [*fell(store, "bert_b", task).values()], "the other attack adds something"


def test_all_attacks_together_count_each_seed(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    (one,) = judged(store, metric="any_attack", lower="bert_b", than="minilm", where={"task": "mr"}).judged
    a, b = fell_to_any(store, "bert_b"), fell_to_any(store, "minilm")
    common = a.keys() & b.keys()
    d = one.difference
    assert d is not None and (d.n, d.seeds) == (len(common), 2)
    assert d.value == pytest.approx(sum(a[i] - b[i] for i in common) / len(common))


def test_all_attacks_together_are_undecided_until_all_are_done_or_without_outcomes(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    (last,) = [job for job in jobs(store) if job.parts == ("bert_b", "mr", "clean", "bertattack[max_words=10]")]
    (store.folder(last) / "record.json").unlink()
    keys: dict[str, Any] = {"metric": "any_attack", "lower": "bert_b", "than": "minilm", "where": {"task": "mr"}}
    (one,) = judged(store, **keys).judged
    assert one.verdict == "undecided" and one.why == "bert_b/mr/clean is not done (1 of 2 jobs)"
    bare = make_run(make_suite(**ONE_SEED), name="bare")
    (one,) = judged(bare, **keys).judged
    assert one.verdict == "undecided" and "any attack is not shown: it is counted from outcomes" in one.why


def test_a_share_against_a_number_is_judged_by_its_interval(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    where = {"task": "mr", "attack": "pwws"}
    (at,) = judged(store, of="minilm", at_least=0, where=where).judged
    d = at.difference
    assert d is not None and d.low is not None and d.high is not None and d.value is not None
    for limit, verdict in (
        (100 * d.low - 0.1, "contradicted"),
        (100 * d.low + 0.1, "undecided"),
        (100 * d.high - 0.1, "undecided"),
        (100 * d.high + 0.1, "supported"),
    ):
        assert judged(store, of="minilm", at_most=limit, where=where).verdict == verdict


def test_by_and_times_move_what_is_judged(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    where = {"task": "mr", "attack": "pwws"}
    one, other = fell(store, "minilm"), fell(store, "bert_b")
    common = one.keys() & other.keys()
    (half,) = judged(store, lower="minilm", than="bert_b", times=0.5, where=where).judged
    differences = [one[i] - 0.5 * other[i] for i in sorted(common)]
    assert half.difference is not None
    assert half.difference.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert half.verdict == "contradicted"
    (by,) = judged(store, lower="minilm", than="bert_b", by=90, where=where).judged
    assert by.difference is not None and by.difference.value == pytest.approx(
        sum(one[i] - other[i] for i in common) / len(common)
    )
    assert by.verdict == "contradicted"
    assert judged(store, higher="minilm", than="bert_b", by=-90, where=where).verdict == "supported"


def test_attacks_and_tasks_are_compared_too(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    where = {"encoder": "minilm", "task": "mr"}
    (one,) = judged(store, lower={"attack": "pwws"}, than={"attack": "bertattack"}, where=where).judged
    a, b = fell(store, "minilm"), fell(store, "minilm", attack="bertattack[max_words=10]")
    common = a.keys() & b.keys()
    discordant = [(a[i], b[i]) for i in common if a[i] != b[i]]
    assert one.difference is not None and one.difference.n == len(common)
    p = stats.binomtest(sum(x > y for x, y in discordant), len(discordant)).pvalue
    assert one.difference.p == pytest.approx(p)
    tasks = {"attack": "pwws", "encoder": "minilm"}
    (one,) = judged(store, lower={"task": "mr"}, than={"task": "mini_nli"}, where=tasks).judged
    peer = stats.ttest_ind([*a.values()], [*fell(store, "minilm", "mini_nli").values()], equal_var=False)
    assert one.difference is not None and one.difference.p == pytest.approx(peer.pvalue)


def test_several_seeds_count_as_several_fine_tunings(make_run: MakeRun) -> None:
    found = judged(make_run(sealed=True), lower="minilm", than="bert_b")
    (one,) = found.judged
    assert one.difference is not None and one.difference.seeds == 2


def test_texts_that_seeds_share_are_judged_as_compare_does(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    found = judged(store, lower="bert_b", than="minilm", for_each=["task", "attack"])
    peer = {
        (one.name.task, one.name.attack): one.difference
        for one in api.compare(store.root, between=("minilm", "bert_b")).cells
    }
    for one in found.judged:
        names, d = dict(one.comparison.combination), one.difference
        cell = peer[names["task"], names["attack"]]
        assert d is not None and d.seeds == 2
        assert (d.value, d.low, d.high, d.p) == pytest.approx((cell.value, cell.low, cell.high, cell.p))


def test_a_bound_between_several_fine_tunings_is_judged_by_their_spread(make_run: MakeRun) -> None:
    store = make_run(make_suite(seeds=(0, 1, 2)), sealed=True)
    where = {"task": "mr", "attack": "pwws"}
    (by,) = judged(store, lower="minilm", than="bert_b", by=10, where=where).judged
    d = by.difference
    assert d is not None and d.p is not None and d.low is not None and d.high is not None and d.seeds == 3
    assert (d.p < 0.05) == (d.low > -0.1 or d.high < -0.1)


def test_the_cells_of_one_side_count_as_one(make_run: MakeRun) -> None:
    """One attack on one encoder against the mean of both attacks on the other."""
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    one, other = {"encoder": "minilm", "attack": "pwws"}, {"encoder": "bert_b"}
    (found,) = judged(store, lower=one, than=other, where={"task": "mr"}).judged
    own, *theirs = (
        fell(store, "minilm"),
        fell(store, "bert_b"),
        fell(store, "bert_b", attack="bertattack[max_words=10]"),
    )
    first, *both = (sum(cell.values()) / len(cell) for cell in (own, *theirs))
    assert found.difference is not None
    assert (found.found.one, found.found.other) == pytest.approx((first, sum(both) / 2))
    assert found.difference.value == pytest.approx(first - sum(both) / 2)


def test_a_run_without_outcomes_is_judged_unpaired_and_says_so(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED))
    found = judged(store, lower="minilm", than="bert_b", for_each=["task", "attack"])
    assert all(one.found.unpaired and one.p is not None for one in found.judged)
    assert any("unpaired" in note for note in found.notes)
    one, other = fell(store, "minilm"), fell(store, "bert_b")
    table = [[int(sum(own.values())), len(own) - int(sum(own.values()))] for own in (one, other)]
    first = next(o for o in found.judged if dict(o.comparison.combination) == {"task": "mr", "attack": "pwws"})
    assert first.difference is not None
    assert first.difference.p == pytest.approx(stats.fisher_exact(table).pvalue)
    (averaged,) = judged(store, lower="minilm", than="bert_b").judged
    assert averaged.found.unpaired and averaged.difference is not None and averaged.difference.low is not None
    # Fisher's test knows no bound. Against the end of its interval a difference has a p of one in twenty.
    high = first.difference.high
    assert high is not None
    (at,) = judged(store, lower="minilm", than="bert_b", by=-100 * high, where={"task": "mr", "attack": "pwws"}).judged
    assert at.difference is not None and at.difference.value == pytest.approx(first.difference.value)
    assert at.difference.p == pytest.approx(0.05, abs=1e-3)


def test_without_outcomes_the_spread_of_fine_tunings_is_in_the_interval_of_a_number(make_run: MakeRun) -> None:
    store = make_run(make_suite(seeds=(0, 1, 2)))
    (one,) = judged(store, of="minilm", at_least=0, where={"task": "mr", "attack": "pwws"}).judged
    cells = build_attack_table(store, "asr").cells
    (cell,) = (c for c in cells if (c["encoder"], c["task"], c["attack"]) == ("minilm", "mr", "pwws"))
    texts, tuned = ((cell["high"] - cell["value"]) / stats.norm.ppf(0.975)) ** 2, cell["seed_sd"] ** 2 / 3
    # These seeds agree so well that texts alone decide. Seeds that differ as much as texts make it wider.
    assert lucky_agreement(texts, tuned, 2, 0.0, 0.05) <= 0.05
    assert one.difference is not None and one.difference.high == pytest.approx(cell["high"])
    limits = cell["value"], cell["n"], cell["low"], cell["high"]
    assert combine_reported([ReportedNumber(*limits, seeds=3, seed_sd=cell["seed_sd"])]).high == pytest.approx(
        cell["high"]
    )
    apart = combine_reported([ReportedNumber(*limits, seeds=3, seed_sd=(3 * texts) ** 0.5)]).high
    reach = (stats.norm.ppf(0.975) ** 2 + stats.t.ppf(0.975, 2) ** 2) ** 0.5 * texts**0.5
    assert apart == pytest.approx(cell["value"] + reach)
    (both,) = judged(store, lower="minilm", than="bert_b", where={"task": "mr", "attack": "pwws"}).judged
    own = [c["n"] for c in cells if (c["task"], c["attack"]) == ("mr", "pwws")]
    assert len({*own}) == 2 and both.difference is not None and both.difference.n == min(own)


def test_what_is_not_done_decides_nothing(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), done=lambda job: job.parts[:2] != ("bert_b", "mr"), sealed=True)
    found = judged(store, lower="minilm", than="bert_b", for_each=["task", "attack"])
    why = [one.why for one in found.judged if dict(one.comparison.combination)["task"] == "mr"]
    assert why == ["bert_b/mr/pwws/clean is not done", "bert_b/mr/bertattack[max_words=10]/clean is not done"]
    assert all(one.p is not None for one in found.judged if not one.why)
    assert judged(store, lower="minilm", than="bert_b").verdict == "undecided"


@pytest.mark.parametrize("control", [False, True])
def test_a_flagged_cell_decides_nothing_unless_it_is_a_control(make_run: MakeRun, control: bool) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    plan = store.plan()
    assert plan is not None
    marked = []
    for job in plan.jobs:
        if job.parts[0] == "bert_b" and job.parts[3] == "pwws":
            attack = job.spec.attack.model_copy(update={"control": control})  # type: ignore[union-attr]
            record = store.record(job)
            assert record is not None and job.needs == {}
            job = job.model_copy(update={"spec": job.spec.model_copy(update={"attack": attack})})
            health = Health(flags=(RaisedFlag(flag="starved of candidates", because="9 of 10"),))
            store.write_record(record.model_copy(update={"job": job, "health": health}))
        marked.append(job)
    store.write_plan(plan.model_copy(update={"jobs": tuple(marked)}))
    found = judged(store, lower="minilm", than="bert_b", where={"attack": "pwws"}, for_each="task")
    whys = [one.why for one in found.judged]
    assert whys == (
        [""] * 2 if control else [f"bert_b/{t}/pwws/clean is flagged starved of candidates" for t in ("mr", "mini_nli")]
    )
    clean = judged(store, metric="clean", lower="minilm", than="bert_b", where={"attack": "pwws"})
    assert clean.judged[0].why == ""  # the accuracy before an attack does not depend on its health


@pytest.mark.parametrize(
    ("flag", "stage", "attacks_told_apart"), [("saturated", "pretrain", True), ("near chance", "finetune", False)]
)
def test_a_flag_of_training_concerns_both_of_two_attacks_on_one_encoder_alike(
    tmp_path: Path, flag: Any, stage: str, attacks_told_apart: bool
) -> None:
    """It says what the encoder is, and not what attacks do to it. A victim that guesses says nothing of attacks."""
    store = RunStore(reference.unpacked("adcl-gated-ag", tmp_path / "run"))
    (job,) = [job for job in jobs(store) if job.stage == stage and job.parts[0] == "adcl-minilm-gated"]
    record = store.record(job)
    assert record is not None
    store.write_record(record.model_copy(update={"health": Health(flags=(RaisedFlag(flag=flag, because="so"),))}))
    pwws, textfooler = (f"{name}[max_words=12]" for name in ("pwws", "textfooler"))
    attacks = judged(
        store,
        lower={"encoder": "adcl-minilm-gated", "attack": pwws},
        than={"encoder": "adcl-minilm-gated", "attack": textfooler},
    )
    encoders = judged(store, lower="adcl-minilm-gated", than="minilm", where={"attack": pwws})
    assert (f"flagged {flag}" not in attacks.judged[0].why) is attacks_told_apart
    assert f"is flagged {flag}" in encoders.judged[0].why


def test_one_contradiction_contradicts_a_claim(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    found = judged(store, of="minilm", at_most=99.99, for_each="attack")
    wrong = judged(store, of="minilm", at_most=1, for_each="attack")
    assert found.verdict == "supported" and found.counts == {"supported": 2, "contradicted": 0, "undecided": 0}
    assert wrong.verdict == "contradicted"
    assert "these weights" in found.notes[0]


def test_a_claim_on_methods_is_undecided_where_there_is_one_training_and_says_so(make_run: MakeRun) -> None:
    """Whatever its p: another training may move the number by more than the choice of texts explains."""
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    weights, method = (judged(store, of="minilm", at_most=1, about=about) for about in ("weights", "method"))
    assert weights.verdict == "contradicted" and weights.about == method.about == "these weights"
    assert method.verdict == "undecided"
    (one,) = method.judged
    assert one.p == weights.judged[0].p and one.p is not None and one.p < 0.05
    assert one.why.endswith(" minilm")
    assert "with `about: weights` it speaks of these weights" in method.notes[0]
    (line,) = claim_lines([method])
    assert line.startswith("undecided: c, ") and line.endswith(" minilm)")
    assert ", these weights)" in claim_lines([weights])[0]
    cells = [build_table([found]).cells[0] for found in (weights, method)]
    assert [cell["about"] for cell in cells] == ["weights", "weights"]
    assert [cell["verdict"] for cell in cells] == ["contradicted", "undecided"]


def test_a_claim_on_attacks_is_about_methods_where_victims_were_fine_tuned_several_times(make_run: MakeRun) -> None:
    store = make_run(make_suite(seeds=(0, 1)), sealed=True)
    attacks = ("pwws", "bertattack[max_words=10]")
    pair = {"lower": {"attack": attacks[0]}, "than": {"attack": attacks[1]}}
    assert judged(store, **pair, about="method").about == "these methods"
    assert judged(store, lower="bert_b", than="minilm").about == "these weights", "no encoder was trained"


def test_the_number_of_comparisons_of_a_file_is_said(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    found = judged(store, of="minilm", at_most=99.99, for_each="attack")
    shown = build_table([found, found])
    assert "There are 2 claims with 4 comparisons. The comparisons of each claim are a family" in shown.notes[0]
    assert [cell["comparisons"] for cell in shown.cells] == [2] * 4


def rbench(*words: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(word) for word in words])


def test_the_verb_prints_verdicts_and_exits_with_3_only_when_strict(make_run: MakeRun, tmp_path: Path) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    file = tmp_path / "c.yaml"
    file.write_text(
        "claims: [{id: low, of: minilm, at_most: 1, source: Paper, about: weights}, {id: high, of: minilm, at_most: "
        "99.99, about: weights}]"
    )
    shown = rbench("claims", store.root, "--claims", file)
    assert shown.exit_code == 0 and "contradicted" in shown.stdout and "low: from Paper." in shown.stdout
    strict = rbench("claims", store.root, "--claims", file, "--strict")
    assert strict.exit_code == 3 and "contradicted: low" in strict.output
    file.write_text("claims: [{id: high, of: minilm, at_most: 99.99, about: weights}]")
    assert rbench("claims", store.root, "--claims", file, "--strict").exit_code == 0
    assert "supported" in rbench("claims", store.root, "--claims", file, "--format", "json").stdout


def test_bad_input_is_exit_2(make_run: MakeRun, tmp_path: Path) -> None:
    store = make_run(make_suite(**ONE_SEED))
    none = rbench("claims", store.root)
    assert none.exit_code == 2 and "had no claims when the RUN was made" in none.output
    (tmp_path / "c.yaml").write_text("claims:\n  - {id: a, metric: asrr, of: minilm, at_most: 1}\n")
    wrong = rbench("claims", store.root, "--claims", tmp_path / "c.yaml")
    assert wrong.exit_code == 2 and "c.yaml:2:21: " in wrong.output and nearest("asr") in wrong.output
    with pytest.raises(OSError):
        api.claims(store.root, tmp_path / "missing.yaml")


def test_a_run_ends_with_its_claims_and_what_it_could_have_shown(make_run: MakeRun) -> None:
    claims = (
        {"id": "c", "of": "minilm", "at_most": 1, "about": "weights"},
        {"id": "d", "of": "bert_b", "at_most": 99.99, "for_each": "task", "about": "weights"},
    )
    store = make_run(make_suite(**ONE_SEED, claims=claims), sealed=True)
    first, second, could = summarise_claims(Results.of(store))
    assert first.startswith("contradicted: c, asr of minilm at most 1 (")
    said = "2 supported, 0 contradicted, 0 undecided, these weights"
    assert second == f"supported: d, asr of bert_b at most 99.99, for each task ({said})"
    found = [one.difference for one in judged(store, lower="minilm", than="bert_b", for_each=["task", "attack"]).judged]
    sizes = [round(100 * d.smallest) for d in found if d is not None and d.smallest is not None]
    assert f"of {min(sizes)} to {max(sizes)} points" in could and "4 pairs of cells" in could


def test_a_run_without_outcomes_does_not_say_what_it_could_have_shown(make_run: MakeRun) -> None:
    assert summarise_claims(Results.of(make_run(make_suite(**ONE_SEED)))) == []


# ------------------------------------------------------------------------------------------ differences of differences


def held(store: RunStore, encoder: str, attack: str) -> dict[str, float]:
    """Whether each text was right and stayed so, of the only seed; without those that errored."""
    (job,) = [job for job in jobs(store) if job.parts == (encoder, "mr", "clean", attack)]
    return {o.example_id: float(o.status == "failed") for o in make_outcomes(job) if o.status != "errored"}


def test_a_difference_beyond_another_is_judged_text_by_text(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    keys = {"lower": {"encoder": "bert_b", "attack": "pwws"}, "than": {"encoder": "minilm", "attack": "pwws"}}
    beyond = {"attack": "bertattack[max_words=10]"}
    (one,) = judged(store, metric="aua", **keys, beyond=beyond, where={"task": "mr"}).judged
    added: dict[str, float] = {}  # what each text adds to the sum of the four means, and the sum itself
    differences = []
    for sign, attack in ((1, "pwws"), (-1, beyond["attack"])):
        sides = [held(store, encoder, attack) for encoder in ("bert_b", "minilm")]
        common = sides[0].keys() & sides[1].keys()
        each = {text: sides[0][text] - sides[1][text] for text in common}
        differences.append(sum(each.values()) / len(common))
        for text, value in each.items():
            added[text] = added.get(text, 0.0) + sign * (value - differences[-1]) / len(common)
    n = len(added)
    error = (n / (n - 1) * sum(value**2 for value in added.values())) ** 0.5
    d, value = one.difference, differences[0] - differences[1]
    assert d is not None and d.value == pytest.approx(value)
    reach = stats.t.ppf(0.975, n - 1) * error
    assert (d.low, d.high) == (pytest.approx(value - reach), pytest.approx(value + reach))
    assert d.p == pytest.approx(2 * stats.t.sf(abs(value) / error, n - 1))
    assert (one.found.one, one.found.other) == (pytest.approx(differences[0]), pytest.approx(differences[1]))
    assert (one.comparison.one, one.comparison.other) == (
        "bert_b, pwws less minilm, pwws",
        "the same with attack bertattack[max_words=10]",
    )


def test_a_difference_beyond_itself_is_nothing(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    keys = {"lower": {"encoder": "bert_b", "attack": "pwws"}, "than": {"encoder": "minilm", "attack": "pwws"}}
    (one,) = judged(store, **keys, beyond={"attack": "pwws"}, where={"task": "mr"}).judged
    assert one.difference is not None and one.difference.value == pytest.approx(0)
    assert one.verdict == "undecided"


def test_a_difference_beyond_another_by_counts_is_the_difference_of_what_stands_in_the_table(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED))
    keys = {"lower": {"encoder": "bert_b", "attack": "pwws"}, "than": {"encoder": "minilm", "attack": "pwws"}}
    beyond = {"attack": "bertattack[max_words=10]"}
    (one,) = judged(store, **keys, beyond=beyond, where={"task": "mr"}).judged
    attacks = ("pwws", beyond["attack"])
    cells = {key: fell(store, key[0], attack=key[1]) for key in product(("bert_b", "minilm"), attacks)}
    values = {key: sum(cell.values()) / len(cell) for key, cell in cells.items()}
    assert one.difference is not None
    first, second = (values["bert_b", attack] - values["minilm", attack] for attack in attacks)
    assert one.found.one == pytest.approx(first) and one.found.other == pytest.approx(second)
    assert one.difference.value == pytest.approx(first - second)


@pytest.mark.parametrize(
    "keys",
    [
        {"lower": "bert_b", "than": "minilm", "beyond": {"attack": "pwws"}},
        {
            "lower": {"encoder": "bert_b", "attack": "pwws"},
            "than": {"encoder": "minilm", "attack": "pwws"},
            "beyond": {"attack": "pwws"},
            "times": 2,
        },
    ],
)
def test_where_a_difference_beyond_another_is_refused(make_run: MakeRun, keys: dict[str, Any]) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    with pytest.raises(SuiteError) as caught:
        judged(store, **keys)
    assert "beyond" in str(caught.value)
