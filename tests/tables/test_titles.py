"""Titles stand for names in tables, unless they are too long or two entries would read alike."""

from __future__ import annotations

import pytest

from rbench.metrics import MetricCatalogue
from rbench.schema import (
    AttackJob,
    AttackSpec,
    Choice,
    EncoderSpec,
    FinetuneJob,
    Job,
    MeasureJob,
    Plan,
    TaskSpec,
    Training,
)
from rbench.tables.for_people import (
    COLUMN_TITLE_ROOM,
    TITLE_ROOM,
    collect_titles,
    name_with_titles,
    replace_names,
    shorten_labels,
)
from rbench.tables.table import Number, Table
from tests.specs import of_sts
from tests.tables.conftest import PROFILE, TASKS, make_suite

ONE = Number(1.0, percent=True)


def plan_of(*entries: EncoderSpec | AttackSpec | TaskSpec, labels: dict[str, str] | None = None) -> Plan:
    """A plan that holds these entries; `labels` gives the label of an entry that has options."""
    jobs = []
    for entry in entries:
        label = (labels or {}).get(entry.name, entry.name)
        task = entry if isinstance(entry, TaskSpec) else TASKS["mr"]
        if isinstance(entry, AttackSpec):
            spec: AttackJob | MeasureJob = AttackJob(
                encoder="e",
                strategy="clean",
                task=task,
                data_fingerprint="d",
                attack=entry,
                resources=PROFILE,
                resource_fingerprints={},
                num_examples=1,
            )
            jobs.append(Job.make(spec, ("e", task.name, "clean", label), {}, 0))
        else:
            encoder = entry if isinstance(entry, EncoderSpec) else EncoderSpec(name="e", base="e")
            spec = of_sts(encoder, task)
            named = label if isinstance(entry, EncoderSpec) else "e"
            jobs.append(Job.make(spec, (named, task.name), {}, 0))
    return Plan(suite=make_suite(), jobs=tuple(jobs))


def encoder(name: str, title: str = "", short: str = "") -> EncoderSpec:
    return EncoderSpec(name=name, base=name, title=title, short=short)


def test_a_short_name_wins_over_a_title_and_a_title_over_a_name() -> None:
    found = collect_titles(plan_of(encoder("a", "A title"), encoder("b", "B title", "B"), encoder("c")))
    assert found == {"a": "A title", "b": "B"}


@pytest.mark.parametrize(
    ("entry", "room"),
    [
        (encoder("a", "x" * TITLE_ROOM[EncoderSpec]), True),
        (encoder("a", "x" * (TITLE_ROOM[EncoderSpec] + 1)), False),
        (AttackSpec(name="a", title="x" * TITLE_ROOM[AttackSpec]), True),
        (AttackSpec(name="a", title="x" * (TITLE_ROOM[AttackSpec] + 1)), False),
        (TaskSpec(name="a", kind="single", columns=("text",), title="x" * COLUMN_TITLE_ROOM), True),
        (TaskSpec(name="a", kind="single", columns=("text",), title="x" * (COLUMN_TITLE_ROOM + 1)), False),
    ],
)
def test_a_title_needs_room(entry: EncoderSpec | AttackSpec | TaskSpec, room: bool) -> None:
    assert ("a" in collect_titles(plan_of(entry))) is room


def test_options_stay_visible() -> None:
    plan = plan_of(encoder("a", "A title"), labels={"a": "a[steps=20]"})
    assert collect_titles(plan) == {"a[steps=20]": "A title [steps=20]"}


STRATEGIES = ("clean[epochs=4]", "adversarial[epochs=2,order=once]", "adversarial[epochs=3]", "freelb")


@pytest.mark.parametrize(
    ("labels", "shown", "below"),
    [
        (("clean", "clean[epochs=4]"), ("Clean", "Clean [epochs=4]"), ()),
        (STRATEGIES[:2], ("Clean", "Adversarial"), ("Clean: epochs=4.", "Adversarial: epochs=2, order=once.")),
        (
            STRATEGIES,
            ("Clean", "Adversarial [epochs=2,order=once]", "Adversarial [epochs=3]", "FreeLB"),
            ("Clean: epochs=4.",),
        ),
    ],
)
def test_options_of_a_strategy_that_a_plan_has_once_stand_below_the_table(
    labels: tuple[str, ...], shown: tuple[str, ...], below: tuple[str, ...]
) -> None:
    jobs = []
    for label in labels:
        name, _, said = label.removesuffix("]").partition("[")
        options = dict(one.split("=") for one in said.split(",") if one)
        spec = FinetuneJob(
            encoder=encoder("e"),
            strategy=Choice(name=name, options=options),
            task=TASKS["mr"],
            data_fingerprint="d",
            training=Training(),
        )
        jobs.append(Job.make(spec, ("e", "mr", label), {}, 0))
    plan = Plan(suite=make_suite(), jobs=tuple(jobs))
    found = replace_names(table(("Fine-tuning", "mr"), *((label, ONE) for label in labels)), plan, MetricCatalogue())
    assert tuple(row[0] for row in found.rows) == shown
    assert found.brief == below


def test_a_strategy_with_options_by_task_is_one_strategy() -> None:
    """Its jobs have one label, and each the options of its task."""
    choice = Choice(name="adversarial", options={"epochs": 3, "by_task": {"mini_nli": {"epochs": 1}}})
    jobs = [
        Job.make(
            FinetuneJob(
                encoder=encoder("e"),
                strategy=choice.on(task),
                task=TASKS[task],
                data_fingerprint="d",
                training=Training(),
            ),
            ("e", task, choice.label),
            {},
            0,
        )
        for task in ("mr", "mini_nli")
    ]
    plan = Plan(suite=make_suite(), jobs=tuple(jobs))
    found = replace_names(table(("Fine-tuning", "mr"), (choice.label, ONE)), plan, MetricCatalogue())
    assert found.rows[0][0] == "Adversarial"
    assert found.brief == ("Adversarial: by_task={mini_nli:{epochs:1}}, epochs=3.",)


def test_attacks_show_the_options_that_tell_them_apart_and_all_stand_below_the_table() -> None:
    choices = (
        Choice(name="inside", options={"search": "greedy", "space": {"candidates": "synonyms", "k": 50}}),
        Choice(name="inside", options={"search": "greedy", "space": {"candidates": "nearest", "k": 50}}),
        Choice(name="bae", options={"max_words": 5}),
    )
    first, second, third = (choice.label for choice in choices)
    plan = plan_of(
        *(AttackSpec(name=choice.name, title=f"The attack {choice.name}") for choice in choices[1:]),
        labels={"inside": second, "bae": third},
    )
    plan = plan.model_copy(update={"suite": plan.suite.model_copy(update={"attacks": choices})})
    assert shorten_labels(choices) == {
        first: "inside[candidates=synonyms]",
        second: "inside[candidates=nearest]",
        third: "bae",
    }
    found = replace_names(table(("Attack", f"ASR {third}"), (second, ONE)), plan)
    assert found.header[1] == "ASR The attack bae"
    assert found.rows[0][0] == "The attack inside [candidates=nearest]"
    assert set(found.brief) == {
        "The attack inside [candidates=nearest]: search=greedy, space={candidates:nearest, k:50}.",
        "The attack bae: max_words=5.",
    }


def test_two_that_would_read_alike_keep_their_names() -> None:
    assert collect_titles(plan_of(encoder("a", "Same"), encoder("b", "Same"), encoder("c", "Other"))) == {"c": "Other"}


def test_the_title_of_the_guides_attack_is_shown() -> None:
    title = "TextFooler with closer synonyms"
    assert collect_titles(plan_of(AttackSpec(name="textfooler-strict", title=title))) == {"textfooler-strict": title}


def test_a_title_that_is_the_name_of_another_is_not_used() -> None:
    assert collect_titles(plan_of(encoder("a", "b"), encoder("b"))) == {}


def table(header: tuple[str, ...], *rows: tuple[str | Number, ...]) -> Table:
    return Table("asr", header, rows, cells=(), notes=("A note on a.",))


def test_headers_rows_and_a_note_have_the_titles() -> None:
    plan = plan_of(encoder("a", "A title"), AttackSpec(name="pwws", title="PWWS"))
    shown = replace_names(table(("Encoder", "pwws", "ASR pwws", "pwws Con"), ("a", "pwws", ONE, "of a")), plan)
    assert shown.header == ("Encoder", "PWWS", "ASR PWWS", "PWWS Con")
    assert shown.rows == (("A title", "PWWS", ONE, "of a"),)
    assert shown.notes == ("A note on a.", "Names in notes, commands, CSV and JSON: A title: a; PWWS: pwws.")


def test_a_table_without_titles_has_no_note_on_names() -> None:
    shown = replace_names(table(("Encoder",), ("a",)), plan_of(encoder("a")))
    assert shown.notes == ("A note on a.",)


def test_parts_of_a_job_have_titles() -> None:
    assert name_with_titles(("a", "mr", "clean"), {"a": "A title"}) == "A title/mr/clean"
