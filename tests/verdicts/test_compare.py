"""Comparisons of a RUN made by hand, against loops over its outcomes."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rbench.api import compare, comparison_table
from rbench.errors import StoreError
from rbench.schema import AttackJob, EncoderSpec, FinetuneJob, Health, Job, Outcome, RaisedFlag, Training
from rbench.score.paired import correct_by_holm
from rbench.store.runs import RunStore
from rbench.tables.formats import render
from rbench.verdicts.compare import CellName, CellwiseComparison, ComparedCell, build_table
from rbench.verdicts.pairing import note_unmatched
from tests import reference
from tests.gate import gated
from tests.refusals import refusal
from tests.tables.conftest import make_outcomes, make_suite

MakeRun = Callable[..., RunStore]
BETWEEN = ("minilm", "bert_b")
ONE_SEED = {"seeds": (0,)}


def cell(found: CellwiseComparison, task: str = "mr", attack: str = "pwws") -> ComparedCell:
    (one,) = [one for one in found.cells if one.name == CellName("", task, "clean", attack)]
    return one


def outcomes(store: RunStore, encoder: str, task: str = "mr", attack: str = "pwws") -> list[dict[str, Outcome]]:
    """The outcomes of a cell by example, seed by seed."""
    plan = store.plan()
    assert plan is not None
    jobs = sorted((job for job in plan.jobs if job.parts == (encoder, task, "clean", attack)), key=lambda job: job.seed)
    return [{one.example_id: one for one in make_outcomes(job)} for job in jobs]


def fallen(one: Outcome) -> float | None:
    """1 if the attack succeeded, 0 if it failed."""
    return float(one.status == "succeeded") if one.status in ("succeeded", "failed") else None


def both_attacked(store: RunStore) -> list[tuple[Outcome, Outcome]]:
    there = ("succeeded", "failed")
    pairs = zip(outcomes(store, "minilm"), outcomes(store, "bert_b"), strict=True)
    return [(a[i], b[i]) for a, b in pairs for i in a if a[i].status in there and b[i].status in there]


def test_asr_is_paired_over_what_both_victims_get_right(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    found = cell(compare(store.root, between=BETWEEN))
    pairs = both_attacked(store)
    fell = [(a.status == "succeeded", b.status == "succeeded") for a, b in pairs]
    d = found.difference
    assert d.n == len(pairs)
    assert d.value == pytest.approx(sum(b - a for a, b in fell) / len(fell))
    assert (d.only_one, d.only_other) == (fell.count((True, False)), fell.count((False, True)))
    assert d.p == pytest.approx(stats.binomtest(fell.count((True, False)), sum(a != b for a, b in fell)).pvalue)
    assert len(found.fell_only) == sum(a != b for a, b in fell)
    own = [o for o in outcomes(store, "minilm")[0].values() if o.status in ("succeeded", "failed")]
    assert found.unpaired[0] == pytest.approx(sum(o.status == "succeeded" for o in own) / len(own))


def test_p_values_are_corrected_for_all_cells(make_run: MakeRun) -> None:
    found = compare(make_run(make_suite(**ONE_SEED), sealed=True).root, between=BETWEEN)
    assert len(found.cells) == 4
    assert [one.p for one in found.cells] == correct_by_holm([one.difference.p for one in found.cells])


VALUES: dict[str, Callable[[Outcome], float | None]] = {
    "aua": lambda one: float(one.status == "failed"),
    "queries": lambda one: one.num_queries,
    "seconds": lambda one: one.seconds,
    "perturbed": lambda one: one.perturbed_share,
}


@pytest.mark.parametrize(
    ("metric", "there"),
    [
        ("aua", ("succeeded", "failed", "skipped")),
        ("queries", ("succeeded", "failed")),
        ("seconds", ("succeeded", "failed")),
        ("perturbed", ("succeeded",)),
    ],
)
def test_other_metrics_have_their_own_examples(make_run: MakeRun, metric: str, there: tuple[str, ...]) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    (a,), (b,) = outcomes(store, "minilm"), outcomes(store, "bert_b")
    common = [i for i in a if a[i].status in there and b[i].status in there]
    found = compare(store.root, between=BETWEEN, metric=metric)
    d, value = cell(found).difference, VALUES[metric]
    differences = [(value(b[i]) or 0.0) - (value(a[i]) or 0.0) for i in common]
    assert d.n == len(common) > 2
    assert d.value == pytest.approx(sum(differences) / len(common))
    if metric != "aua":
        assert d.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    phrase = {"aua": "over all examples", "perturbed": "that fell with both victims"}
    assert phrase.get(metric, "that both victims classify correctly") in render(build_table(found), "markdown")


def test_clean_accuracy_is_compared_once_for_each_victim(make_run: MakeRun) -> None:
    """Both attacks on a victim met the same classifications: two rows would be one fact, corrected twice."""
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    found = compare(store.root, between=BETWEEN, metric="clean")
    assert [one.name for one in found.cells] == [CellName("", task, "clean", "none") for task in ("mr", "mini_nli")]
    (a,), (b,) = outcomes(store, "minilm"), outcomes(store, "bert_b")
    right = [
        (a[i].status != "skipped", b[i].status != "skipped") for i in a if "errored" not in (a[i].status, b[i].status)
    ]
    d = cell(found, attack="none").difference
    assert d.n == len(right)
    assert d.value == pytest.approx(sum(y - x for x, y in right) / len(right))
    alone = (right.count((True, False)), right.count((False, True)))
    assert (d.only_one, d.only_other) == alone
    assert d.p == pytest.approx(stats.binomtest(alone[0], sum(alone)).pvalue)
    text = render(build_table(found), "markdown")
    assert "↑" in text.splitlines()[0] and "Only" not in text


def test_seeds_are_the_sample_where_there_are_several(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    found = cell(compare(store.root, between=BETWEEN)).difference
    seeds = []
    for a, b in zip(outcomes(store, "minilm"), outcomes(store, "bert_b"), strict=True):
        pairs = {i: (fallen(a[i]), fallen(b[i])) for i in a}
        found_of = {i: y - x for i, (x, y) in pairs.items() if x is not None and y is not None}
        seeds.append(list(found_of.values()))
    pooled = sum(map(sum, seeds)) / sum(map(len, seeds))
    assert (found.seeds, found.value) == (2, pytest.approx(pooled))
    assert found.p is not None and found.low is not None and found.high is not None
    assert (found.p < 0.05) == (found.low > 0 or found.high < 0)


def test_a_run_without_outcomes_is_judged_unpaired_and_says_so(make_run: MakeRun) -> None:
    found = compare(make_run().root, between=BETWEEN)
    assert all(one.difference.only_one is None and one.difference.p is not None for one in found.cells)
    assert any("unpaired" in note for note in found.notes)


def test_one_encoder_in_two_runs(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    copy = shutil.copytree(store.root, store.root.parent / "copy")
    found = compare(store.root, copy, between=("minilm", "minilm"))
    assert {(one.difference.value, one.difference.p, one.verdict) for one in found.cells} == {(0.0, 1.0, "undecided")}
    assert "minilm (2)" in render(build_table(found), "markdown")


def test_runs_that_differ_in_more_than_the_encoder_are_refused_by_name(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    other = make_run(make_suite(**ONE_SEED), name="other", done=lambda job: False)
    plan = store.plan()
    assert plan is not None
    jobs = []
    for job in plan.jobs:
        assert isinstance(job.spec, AttackJob)
        spec = job.spec.model_copy(update={"data_fingerprint": "another"})
        jobs.append(Job.make(spec, job.parts, {}, job.seed))
    other.write_plan(plan.model_copy(update={"jobs": tuple(jobs)}))
    from tests.tables.conftest import finish

    for job in jobs:
        finish(other, job, sealed=True)
    with pytest.raises(StoreError) as caught:
        compare(store.root, other.root, between=("minilm", "minilm"))
    assert "mr/clean/pwws: the task's rows" in str(caught.value)


def test_choices_of_minutes_with_other_attacks_are_not_compared(make_run: MakeRun) -> None:
    few, many = ("pwws",), ("pwws", {"bertattack": {"max_words": 10}})
    timed = make_run(make_suite(**ONE_SEED, attacks=few, minutes=5), name="timed", sealed=True)
    longer = make_run(make_suite(**ONE_SEED, attacks=many, minutes=15), name="longer", sealed=True)
    chosen = make_run(make_suite(**ONE_SEED, attacks=few), name="chosen", sealed=True)
    for metric in ("asr", "any_attack"):
        with pytest.raises(StoreError) as caught:
            compare(timed.root, longer.root, between=BETWEEN, metric=metric)
        assert "pwws, bertattack" in str(caught.value)
    assert compare(timed.root, chosen.root, between=BETWEEN).cells, "the pasted line names the same attacks"
    assert compare(timed.root, longer.root, between=BETWEEN, metric="clean").cells, "it depends on no attack"


def test_what_cannot_be_compared_is_refused(make_run: MakeRun) -> None:
    store = make_run(done=lambda job: job.parts[0] == "minilm")
    for other, named in (("bertb", "bert_b"), ("minilm", "minilm"), ("bert_b", "bert_b")):
        with pytest.raises(StoreError) as caught:
            compare(store.root, between=("minilm", other))
        assert named in str(caught.value)


def test_examples_that_one_side_lacks_are_refused_or_left_out(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), done=lambda job: job.parts[0] == "minilm", sealed=True)
    plan = store.plan()
    assert plan is not None
    from tests.tables.conftest import make_record

    for job in plan.jobs:
        if job.parts[0] == "bert_b":
            fewer = make_outcomes(job)[:15]
            digest = store.write_outcomes(job, fewer)
            store.write_record(make_record(job, fewer).model_copy(update={"outcomes": digest}))
    with refusal(StoreError, "--common"):
        compare(store.root, between=BETWEEN)
    found = compare(store.root, between=BETWEEN, common=True)
    assert any("5 examples that only one side has" in note for note in found.notes)


def test_a_decided_cell_says_which_way(make_run: MakeRun) -> None:
    found = compare(make_run(make_suite(**ONE_SEED), sealed=True).root, between=BETWEEN)
    import dataclasses

    sure = dataclasses.replace(found.cells[0], p=0.01)
    lower = dataclasses.replace(sure.difference, value=-0.2)
    assert dataclasses.replace(sure, difference=lower).verdict == "lower"
    assert dataclasses.replace(sure, difference=dataclasses.replace(lower, value=0.2)).verdict == "higher"
    assert dataclasses.replace(sure, p=0.05).verdict == "undecided"


@pytest.mark.parametrize(
    ("fmt", "metric"), [("markdown", "asr"), ("latex", "queries"), ("csv", "asr"), ("json", "queries")]
)
def test_the_table_has_every_cell_and_says_what_it_is_about(make_run: MakeRun, fmt: str, metric: str) -> None:
    found: Any = compare(make_run(make_suite(**ONE_SEED), sealed=True).root, between=BETWEEN, metric=metric)
    text = render(build_table(found), fmt, intervals=True)
    assert text.count("undecided") >= 3
    if fmt == "markdown":
        assert "Verdicts are about these weights, and not about methods: given weights of bert_b, minilm." in text
        assert "Could show" in text


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_any_attack_counts_a_text_once_over_all_attacks(make_run: MakeRun, seeds: tuple[int, ...]) -> None:
    store = make_run(make_suite(seeds=seeds), sealed=True)
    asked = compare(store.root, between=BETWEEN, metric="any_attack")
    assert [one.name for one in asked.cells] == [
        CellName("", task, "clean", "any attack") for task in ("mr", "mini_nli")
    ]
    found = cell(asked, attack="any attack")

    def fell(encoder: str, seed: int, example: str) -> bool | None:
        """Whether any attack succeeded; None where the victim was wrong, or an attack raised an exception."""
        statuses = [read[encoder, name][seed][example].status for name in names]
        return None if {"skipped", "errored"} & set(statuses) else "succeeded" in statuses

    names = ("bertattack[max_words=10]", "pwws")
    read = {(encoder, name): outcomes(store, encoder, attack=name) for encoder in BETWEEN for name in names}
    pairs = [
        (a, b)
        for seed in range(len(seeds))
        for example in read["minilm", "pwws"][seed]
        if (a := fell("minilm", seed, example)) is not None and (b := fell("bert_b", seed, example)) is not None
    ]
    assert found.difference.n == len(pairs)
    assert found.difference.value == pytest.approx(sum(b - a for a, b in pairs) / len(pairs))
    each = compare(store.root, between=BETWEEN)
    own = [cell(each, attack=name) for name in names]
    assert found.difference.n <= min(one.difference.n for one in own)
    assert found.unpaired[0] is not None
    assert found.unpaired[0] >= max(one.unpaired[0] or 0 for one in own) - 0.1, "an errored text may leave both"
    assert any("at least one of pwws and" in note for note in asked.notes)
    assert len(found.fell_only) == sum(a != b for a, b in pairs) > 0
    assert all(one.outcome.status == "succeeded" for one in found.fell_only)
    assert sum(one.first for one in found.fell_only) == found.difference.only_one


def test_any_attack_takes_the_seeds_and_victims_that_all_attacks_are_done_with(make_run: MakeRun) -> None:
    def done(job: Job) -> bool:
        """Leave out an attack on MR at seed 1, and one on the other task."""
        return job.parts[3] == "pwws" or (job.parts[1] == "mr" and job.seed == 0)

    found = compare(make_run(done=done, sealed=True).root, between=BETWEEN, metric="any_attack")
    (only,) = found.cells
    assert (only.name.task, only.difference.seeds) == ("mr", 1)


def test_any_attack_carries_the_flags_of_each_attack(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    plan = store.plan()
    assert plan is not None
    (job,) = [job for job in plan.jobs if job.parts == ("bert_b", "mr", "clean", "bertattack[max_words=10]")]
    record = store.record(job)
    assert record is not None
    health = Health(flags=(RaisedFlag(flag="starved of candidates", because="few"),))
    store.write_record(record.model_copy(update={"health": health}))
    found = compare(store.root, between=BETWEEN, metric="any_attack")
    assert [one.flags for one in found.cells] == [("starved of candidates",), ()]
    clean = compare(store.root, between=BETWEEN, metric="clean")
    assert [one.flags for one in clean.cells] == [(), ()], "an attack says nothing of what its victim classified before"


def test_clean_accuracy_carries_the_flags_of_its_victim(tmp_path: Path) -> None:
    store = RunStore(reference.unpacked("adcl-gated-ag", tmp_path / "run"))
    plan = store.plan()
    assert plan is not None
    (victim,) = [job for job in plan.jobs if isinstance(job.spec, FinetuneJob) and job.parts[0] == "minilm"]
    record = store.record(victim)
    assert record is not None
    between = ("minilm", "adcl-minilm-gated")
    assert compare(store.root, between=between, metric="clean").cells[0].flags == ()
    health = Health(flags=(RaisedFlag(flag="near chance", because="half"),))
    store.write_record(record.model_copy(update={"health": health}))
    assert compare(store.root, between=between, metric="clean").cells[0].flags == ("near chance",)


def test_any_attack_needs_two_attacks_and_outcomes(make_run: MakeRun) -> None:
    with pytest.raises(StoreError):
        compare(make_run(name="kept").root, between=BETWEEN, metric="any_attack")
    single = make_run(make_suite(attacks=("pwws",), **ONE_SEED), sealed=True)
    with pytest.raises(StoreError):
        compare(single.root, between=BETWEEN, metric="any_attack")


def test_without_outcomes_seeds_are_the_sample_and_not_their_texts(make_run: MakeRun) -> None:
    store = make_run()
    found = cell(compare(store.root, between=BETWEEN))
    rates = []
    for encoder in BETWEEN:
        own = [
            [o.status for o in seed.values() if o.status in ("succeeded", "failed")]
            for seed in outcomes(store, encoder)
        ]
        rates.append([statuses.count("succeeded") / len(statuses) for statuses in own])
    peer = stats.ttest_rel(rates[1], rates[0])
    assert found.difference.p == pytest.approx(peer.pvalue) and found.difference.seeds == 2
    assert (found.difference.low, found.difference.high) == pytest.approx(tuple(peer.confidence_interval()))
    assert found.difference.n > 2, "texts, as in every other table"


def test_one_run_without_outcomes_is_named(make_run: MakeRun) -> None:
    store, bare = make_run(make_suite(**ONE_SEED), sealed=True), make_run(make_suite(**ONE_SEED), name="bare")
    with pytest.raises(StoreError) as caught:
        compare(store.root, bare.root, between=BETWEEN)
    assert "attack/bert_b/mr/clean/pwws/seed0" in str(caught.value)


def test_seeds_that_one_side_lacks_are_said(make_run: MakeRun) -> None:
    store = make_run(done=lambda job: job.parts[0] == "minilm" or job.seed == 0, sealed=True)
    notes = compare(store.root, between=BETWEEN).notes
    assert "mr/clean/pwws: only one side has the fine-tuning seeds 1" in notes


@pytest.mark.parametrize(("metric", "arrow"), [("asr", "↓"), ("queries", "↑")])
def test_the_arrow_says_which_way_is_robust(make_run: MakeRun, metric: str, arrow: str) -> None:
    found = compare(make_run(make_suite(**ONE_SEED), sealed=True).root, between=BETWEEN, metric=metric)
    assert arrow in render(build_table(found), "markdown").splitlines()[0]


def test_one_encoder_of_two_runs_has_what_each_run_alone_has_and_where_training_differs(make_run: MakeRun) -> None:
    def tuned(name: str, epochs: int, done: Callable[[Job], bool]) -> RunStore:
        """A RUN whose attacks need a victim that was fine-tuned for so many epochs."""
        store = make_run(make_suite(**ONE_SEED), name=name, done=lambda job: False)
        plan = store.plan()
        assert plan is not None
        jobs: list[Job] = []
        for job in plan.jobs:
            assert isinstance(job.spec, AttackJob)
            spec = FinetuneJob(
                encoder=EncoderSpec(name=job.parts[0], base="b"),
                strategy=job.spec.strategy,
                task=job.spec.task,
                data_fingerprint="d",
                training=Training(epochs=epochs),
            )
            victim = Job.make(spec, job.parts[:3], {}, job.seed)
            jobs += [victim, Job.make(job.spec, job.parts, {"victim": victim.key}, job.seed)]
        store.write_plan(plan.model_copy(update={"jobs": tuple({job.key: job for job in jobs}.values())}))
        from tests.tables.conftest import finish

        for job in jobs:
            if isinstance(job.spec, AttackJob) and done(job):
                finish(store, job, sealed=True)
        return store

    one = tuned("one", 2, lambda job: job.parts[3] == "pwws" or job.parts[1] == "mr")
    other = tuned("other", 3, lambda job: job.parts[3] == "pwws" or job.parts[1] == "mini_nli")
    found = compare(one.root, other.root, between=("minilm", "minilm"))
    assert "only minilm (1) has mr/clean/bertattack[max_words=10]" in found.notes
    assert "only minilm (2) has mini_nli/clean/bertattack[max_words=10]" in found.notes
    assert f"(1) {one.root}, (2) {other.root}." in found.notes
    assert "The victims of mr/clean, mini_nli/clean were fine-tuned with other settings in the two RUNs." in found.notes
    same = compare(one.root, tuned("same", 2, lambda job: True).root, between=("minilm", "bert_b"))
    assert any("bert_b is of " in note for note in same.notes)
    assert not any("other settings" in note for note in same.notes)


@pytest.mark.parametrize(("mine", "theirs", "said"), [(1, 3, []), (3, 3, []), (2, 3, ["1 trainings have no partner"])])
def test_trainings_without_a_partner_are_those_beyond_as_many_as_both_have(
    mine: int, theirs: int, said: list[str]
) -> None:
    """A single training is paired with each of the other's."""

    def samples(n: int) -> Any:
        return [SimpleNamespace(seed=0, training=i) for i in range(n)]

    found = note_unmatched(samples(mine), samples(theirs))
    assert [note.removesuffix(" and are left out") for note in found] == said


TUNED = {"finetune": ("clean", {"adversarial": {"epochs": 1}}), **ONE_SEED}


def test_strategies_are_compared_where_one_encoder_has_both(make_run: MakeRun) -> None:
    """Each cell's pairs are counted from the stored outcomes, by hand."""
    store = make_run(make_suite(**TUNED), sealed=True)
    found = compare(store.root, between=("clean", "adversarial"))
    assert (found.axis, found.one, found.other) == ("finetune", "clean", "adversarial[epochs=1]")
    plan = store.plan()
    assert plan is not None
    fell = {job.parts: {one.example_id: fallen(one) for one in make_outcomes(job)} for job in plan.attacks}
    assert len(found.cells) == len(plan.attacks) / 2 > 2
    for one in found.cells:
        assert one.name.finetune == ""
        sides = [fell[one.name.encoder, one.name.task, by, one.name.attack] for by in (found.one, found.other)]
        pairs = [(sides[0][i], sides[1][i]) for i in sides[0] if sides[0][i] is not None and sides[1][i] is not None]
        assert one.difference.n == len(pairs)
        assert one.difference.value == pytest.approx(np.mean([b - a for a, b in pairs]))  # type: ignore[operator]
    text = comparison_table(found)
    assert "adversarial against clean" in text and "| Encoder" in text and "epochs=1" not in text


def test_attacks_are_compared_on_the_same_victims_though_their_code_differs(make_run: MakeRun) -> None:
    store = make_run(make_suite(**ONE_SEED, attacks=("pwws", "textfooler")), sealed=True)
    found = compare(store.root, between=("pwws", "textfooler"))
    assert found.axis == "attack" and {one.name.attack for one in found.cells} == {""}
    here = [one for one in found.cells if (one.name.encoder, one.name.task) == ("minilm", "mr")]
    sides = [outcomes(store, "minilm", "mr", attack)[0] for attack in ("pwws", "textfooler")]
    pairs = [(fallen(sides[0][i]), fallen(sides[1][i])) for i in sides[0]]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    assert [(one.difference.n, one.difference.only_one) for one in here] == [
        (len(known), sum(a > b for a, b in known)),
    ]
    for metric in ("clean", "any_attack"):
        with pytest.raises(StoreError) as caught:
            compare(store.root, between=("pwws", "textfooler"), metric=metric)
        assert metric in str(caught.value)


def test_attacks_of_two_runs_use_the_same_resource_where_both_use_one_of_a_kind(tmp_path: Path) -> None:
    def run(attack: str, **resources: str) -> Path:
        change = gated.changed(resource_fingerprints=resources)
        folder = tmp_path / f"{attack}-{'-'.join(resources.values())}"
        return gated.run(
            folder, of=gated.suite(attacks=(attack,)), change=lambda job: change(job) if job.attacking else job
        )

    between = ("pwws", "textfooler")
    first = run("pwws", synonyms="a", pos_tagger="t")
    assert compare(first, run("textfooler", synonyms="a", word_vectors="v"), between=between).axis == "attack"
    with pytest.raises(StoreError) as caught:
        compare(first, run("textfooler", synonyms="b", word_vectors="v"), between=between)
    assert str(caught.value).endswith("their synonyms")


def test_programs_get_the_flags_of_both_as_a_list(tmp_path: Path) -> None:
    runs = [gated.run(tmp_path / name, flagged=name == "flagged") for name in ("flagged", "plain", "plainer")]
    for one, other, flags in ((0, 1, ["starved of candidates"]), (1, 2, [])):
        found: Any = compare(runs[one], runs[other], between=("minilm", "minilm"))
        (cell,) = json.loads(render(build_table(found), "json"))["cells"]
        (row,) = csv.DictReader(io.StringIO(render(build_table(found), "csv")))
        assert cell["flags"] == flags and row["flags"] == ("; ".join(flags) or "none")


def test_a_comparison_says_where_the_record_of_a_victim_is_gone(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_run(make_suite(**ONE_SEED), sealed=True)
    monkeypatch.setattr("rbench.tables.flags.Flags.unrecorded", lambda self, jobs: True)
    assert {one.flags for one in compare(store.root, between=BETWEEN).cells} == {("health not known",)}


def test_a_strategy_is_not_compared_with_an_encoder_or_an_attack(make_run: MakeRun) -> None:
    store = make_run(make_suite(), sealed=True)
    with pytest.raises(StoreError):
        compare(store.root, between=("minilm", "pwws"))


def test_what_is_compared_need_not_be_said_where_there_are_two(make_run: MakeRun) -> None:
    two = make_run(make_suite(**ONE_SEED), sealed=True)
    found = compare(two.root)
    assert (found.one, found.other) == BETWEEN
    tuned = make_run(make_suite(**TUNED, encoders=("minilm",)), sealed=True, name="tuned")
    assert compare(tuned.root).axis == "finetune"
    with refusal(StoreError, "--between A B"):
        compare(tuned.root, two.root)
    one = compare(f"before={tuned.root}", f"after={tuned.root}")
    assert (one.one, one.other) == ("minilm (before)", "minilm (after)")
