"""Audit the log of an attack that anybody made: `rbench audit LOG --victim MODEL`."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.api.attacking import AttackRequest, check_settings, locate_resources, open_given, plain_victim
from rbench.api.call_options import resolve_options
from rbench.audit.checks import all_checks
from rbench.audit.replay import AnswersByText, Replay, Text
from rbench.audit.report import AuditReport, make_report
from rbench.config.attack_log import AttackLog, read_attack_log
from rbench.config.entries import ChosenAttack, chosen_attack
from rbench.config.registry import Registry
from rbench.errors import AnswerError, ResourceError
from rbench.execution.given import GivenTexts, GivenVictim, QueryOptions, read_texts, recognise_victim
from rbench.execution.run import check_device
from rbench.plan.prepare import Options
from rbench.schema import STRONGEST_BUDGET, Space, TaskSpec
from rbench.system.progress import Progress, show_progress
from rbench.tasks import Example

TEXTS_A_ROUND = 256
"""Texts that are asked for together, so that progress is shown between."""
SEARCHES: Mapping[str, tuple[str, Space]] = {
    "one word": ("exhaustive", Space(max_words=1)),
    "ensemble": ("strongest", Space(max_words=3)),
}
"""The attacks of `search`, each with its space."""


def audit_log(
    log: str | os.PathLike[str],
    victim: Any,
    *,
    label_names: Sequence[str] | None = None,
    stated_rate: float | None = None,
    search: bool = False,
    resources: str | Mapping[str, Any] = "standard",
    progress: Progress | bool = True,
    **settings: Any,
) -> AuditReport:
    """Replay the log of an attack on its victim, and check what a reader of its success rate takes for granted.

    >>> rbench.audit_log("log.csv", "./my-classifier").faults

    Args:
        log: TextAttack's CSV log; or a table (CSV, JSON Lines ...) with the columns original, perturbed and label, and
            optionally status (succeeded, failed or skipped; without it a line is taken for a success).
        victim: what was attacked: anything that `rbench.attack` takes. A function or an endpoint is asked for each text
            twice, and its answers may vary.
        label_names: the victim's labels, in the order of its outputs; None: as the model states them.
        stated_rate: the attack success rate that a paper states, in percent.
        search: whether the originals are attacked again, by all changes of one word and by an ensemble of attacks. The
            number of questions is a note of `progress` before it begins.
        resources: what stands behind that search, as in `rbench.attack`.
        progress: as in `rbench.run`.
        settings: device, backend, workers, pooled, max_seconds, models and include, as in `Options`.

    Raises:
        ResourceError: the log cannot be read, or a line has no label.
        RbenchError: the victim, a label, an option or a resource is wrong.
        JobError: the victim failed.
    """
    options = resolve_options(None, settings, also=inspect.signature(audit_log).parameters)
    check_settings(settings)
    check_device(options.device)
    attack_log = read_attack_log(Path(log).expanduser())
    if unlabelled := next((one for one in attack_log.attacks if one.label is None), None):
        raise ResourceError(f"{unlabelled.where}: the line has no label (ground_truth_output, or label)")
    texts = read_texts(
        [one.texts_before for one in attack_log.attacks], [one.label for one in attack_log.attacks], attack_log.columns
    )
    registry = Registry(options.include)
    query_options = QueryOptions(models=options.models, registry=registry, varying=True)
    given = recognise_victim(plain_victim(victim), query_options)
    names = given.names(label_names, texts.first)
    examples = texts.examples(names)
    chosen = _choose_searches(resources, registry, options) if search else {}
    with show_progress(progress) as receiver:
        started = time.monotonic()
        answers = _ask(attack_log, given, texts.task(names), options, receiver)
        pace = (time.monotonic() - started) / max(1, len(answers))
        replay = Replay.of(attack_log, names, [int(example.label or 0) for example in examples], answers)
        fell = _search(replay, given, texts, names, chosen, options, receiver, pace) if search else {}
    varying = any(len(answer) > 1 for answer in answers.values())
    notes = [*attack_log.notes]
    if varying:
        changed = sum(len({*answer.argmax(axis=1)}) > 1 for answer in answers.values())
        notes.append(f"Each of {len(answers)} texts was asked twice; {changed} got another label the second time.")
    return make_report(replay, given.name, all_checks(replay, stated_rate, fell), tuple(notes))


def _ask(
    log: AttackLog, given: GivenVictim, task: TaskSpec, options: Options, progress: Progress
) -> dict[Text, NDArray[np.float64]]:
    """Ask the victim for all texts of the log, each distinct one once, or twice where its answers may vary."""
    read = [one for one in log.attacks if one.status != "errored"]
    both = [text for one in read for text in (one.texts_before, one.texts_after) if text is not None]
    texts = list(dict.fromkeys(text for text in both if len(text) == len(log.columns)))
    victim = open_given(given, task, options.device, options.backend)
    answers: dict[Text, NDArray[np.float64]] = {}
    progress.start(f"{log.path} on {given.name}", 1, 1)
    for start in range(0, len(texts), TEXTS_A_ROUND):
        part = texts[start : start + TEXTS_A_ROUND]
        answers |= _ask_part(victim, part)
        progress.update(start + len(part), len(texts))
    progress.finish("complete")
    given.restore()
    return answers


def _ask_part(victim: Any, texts: Sequence[Text]) -> AnswersByText:
    if hasattr(victim, "answers"):  # a function or an endpoint, whose answers nothing may remember here
        rounds = [victim.answers.each(texts) for _ in range(2)]
        return {
            text: np.stack(rows)
            for text, *rows in zip(texts, *rounds, strict=True)
            if not any(isinstance(row, AnswerError) for row in rows)
        }
    logits = victim([text[0] if len(text) == 1 else text for text in texts])
    rows = logits.softmax(dim=1).double().numpy()
    return {text: row[None] for text, row in zip(texts, rows, strict=True)}


def _choose_searches(
    resources: str | Mapping[str, Any], registry: Registry, options: Options
) -> dict[str, tuple[ChosenAttack, Any, Any]]:
    """Return the attacks of `search` with their resources, so that missing ones are told before the victim is asked."""
    chosen = {
        name: chosen_attack({attack: {"space": space.model_dump()}}, registry)
        for name, (attack, space) in SEARCHES.items()
    }
    return {name: (one, *locate_resources(resources, one.spec, registry, options)) for name, one in chosen.items()}


def _search(
    replay: Replay,
    given: GivenVictim,
    texts: GivenTexts,
    names: Sequence[str],
    chosen: Mapping[str, tuple[ChosenAttack, Any, Any]],
    options: Options,
    progress: Progress,
    pace: float,
) -> dict[str, dict[str, bool]]:
    """Attack the originals that the victim gets right, and return which fell to which search, by their places."""
    meanings = replay.exchange.meanings if replay.exchange is not None else range(len(names))
    output_of = {meaning: output for output, meaning in enumerate(meanings)}
    right = [one for one in replay.with_status("succeeded", "failed") if replay.is_right(one.before, one.label) is True]
    examples = [Example(str(i), one.logged.texts_before, output_of[one.label]) for i, one in enumerate(right)]
    task = texts.task(names)
    _tell_cost(examples, task, chosen["one word"], options, progress, pace)
    fell: dict[str, dict[str, bool]] = {}
    for name, (attack, resource_set, places) in chosen.items():
        request = AttackRequest(given, attack, task, 0, resource_set, places, options)
        outcomes = request.result(examples, progress).outcomes if examples else ()
        fell[name] = {
            one.logged.where: outcome.status == "succeeded" for one, outcome in zip(right, outcomes, strict=True)
        }
    return fell


def _tell_cost(
    examples: Sequence[Example],
    task: TaskSpec,
    one_word: tuple[ChosenAttack, Any, Any],
    options: Options,
    progress: Progress,
    pace: float,
) -> None:
    """Say how many questions the searches ask: of one word they are counted, of the ensemble the most is known."""
    from rbench.words.resources import Resources
    from rbench.words.substitution.space import SpaceSubstitutions

    _, resource_set, places = one_word
    space = SEARCHES["one word"][1]
    substitutions = SpaceSubstitutions(space, Resources(resource_set, places=dict(places), device="cpu"))
    protected = [i for i, column in enumerate(task.columns) if column == "premise"]
    questions = sum(1 + sum(map(len, substitutions(example.texts, protected))) for example in examples)
    most = STRONGEST_BUDGET * len(examples)
    progress.note(
        f"search: {len(examples)} originals, {questions:,} questions with one word changed (about "
        f"{questions * pace / 60:.0f} minutes), and at most {most:,} of the ensemble"
    )
