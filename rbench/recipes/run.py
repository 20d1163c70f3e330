"""Attack examples, each with its own random seed, and return an outcome for each."""

from __future__ import annotations

import hashlib
import random
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from greenlet import GreenletExit
from textattack import Attack
from textattack.attack_results import (
    FailedAttackResult,
    MaximizedAttackResult,
    SkippedAttackResult,
    SuccessfulAttackResult,
)

from rbench.encoders import inference
from rbench.errors import JobError, RbenchError
from rbench.masking import masked
from rbench.recipes.attacked import Truth, attacked_kind
from rbench.recipes.cached import CachedAttack, SplicedText, words_by_column
from rbench.schema import TIMED_OUT, AttackSpec, Outcome, Status, TaskSpec
from rbench.system.changes import count_changed_words
from rbench.tasks import Example

VERSION = 1
USES = ("recipes.cached", "inference.input_gradients")

Oracle = Callable[[tuple[str, ...]], int | None]
"""Returns the true label of texts; None if it cannot read them."""


def run(
    build: Callable[[], Attack],
    examples: Iterable[Example],
    *,
    spec: AttackSpec,
    task: TaskSpec,
    seed: int,
    oracle: Oracle | None = None,
    pooled: int = 1,
    max_seconds: float | None = None,
) -> Iterator[Outcome]:
    """Attack `examples`, and yield one outcome for each, in the order in which they end.

    Random numbers depend only on (seed, attack name, example id), so an outcome does not depend on other examples. If
    the attack raises an exception (also SystemExit), the outcome is `errored` and has the traceback. An example that
    cannot be attacked is `skipped`, and the victim is not queried: the reason is `no words` where TextAttack finds none
    in it, or that of `Truth.skip`.

    Args:
        build: makes the attack, as `rbench.recipes.build` does; called at most `pooled` times.
        examples: what to attack, of `task`; read as far as there is room for another one.
        spec: the attack that `build` makes. Its name seeds the random numbers.
        task: says which kind of truth examples have, and names the columns of their texts.
        seed: that of the suite.
        oracle: of a task whose texts are generated; None: there is none.
        pooled: number of examples attacked at once; their queries to a model share batches.
        max_seconds: an example that takes longer (`Outcome.seconds`) is errored by time-out. None: no limit.

    Raises:
        JobError: the victim is broken, or a label is not a class of the task.
    """
    idle: list[Attack] = []

    def attack_one(example: Example) -> Outcome:
        attack = idle.pop() if idle else build()
        with inference.limit_seconds(max_seconds):
            outcome = _attack_example(attack, example, spec, task, seed, oracle)
        # An attack object holds the state of one example, so it serves one example at a time.
        idle.append(attack)
        return outcome

    yield from inference.run_jobs((partial(attack_one, example) for example in examples), pooled)


def _attack_example(
    attack: Attack, example: Example, spec: AttackSpec, task: TaskSpec, seed: int, oracle: Oracle | None
) -> Outcome:
    # Outside of the block: a label that the task cannot have is an error of the run, not of the example.
    truth = attacked_kind(task).truth(example, task)
    seed_all(seed, spec.name, example.id)
    start = inference.used_seconds()
    try:
        outcome = _make_outcome(attack, example, truth, task, oracle)
    # These three end the run, not the example: errors of rbench, Ctrl-C, and a run that is closed.
    except (RbenchError, KeyboardInterrupt, GreenletExit):
        raise
    except BaseException as error:  # also SystemExit: an attack may end its example, but not the run
        attack.clear_cache()
        if isinstance(error, inference.JobTimedOut):
            message = f"{TIMED_OUT}: {error}"
        else:
            message = masked(traceback.format_exc(limit=-12))  # the frames next to the error
        outcome = Outcome(
            example_id=example.id,
            status="errored",
            original=example.texts,
            **truth.fields,
            error=message,
        )
    return outcome.model_copy(update={"seconds": round(inference.used_seconds() - start, 4)})


def seed_all(seed: int, attack: str, example_id: str) -> None:
    """Seed the generators of Python, numpy and torch from (seed, attack, example id), equally on every machine."""
    digest = hashlib.sha256(f"{seed}\0{attack}\0{example_id}".encode()).digest()
    random.seed(digest)
    np.random.seed(int.from_bytes(digest[:4], "big"))
    number = int.from_bytes(digest[:8], "big") >> 1  # torch takes signed integers of 64 bits
    torch.default_generator.manual_seed(number)
    # `torch.manual_seed` would also keep a stack trace for each kind of device that has not been used yet.
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(number)


def to_textattack(texts: Sequence[str], task: TaskSpec) -> str | OrderedDict[str, str]:
    """Return the texts in TextAttack's form: a string for one column, columns by name for several."""
    return texts[0] if len(task.columns) == 1 else OrderedDict(zip(task.columns, texts, strict=True))


def _make_outcome(attack: Attack, example: Example, truth: Truth, task: TaskSpec, oracle: Oracle | None) -> Outcome:
    goal = attack.goal_function
    truncated = goal.model.is_truncated(example.texts[0] if len(example.texts) == 1 else example.texts)
    textattack_input = to_textattack(example.texts, task)
    spliced_text = SplicedText(textattack_input)
    if truth.skip is not None or not spliced_text.num_words:
        return Outcome(
            example_id=example.id,
            status="skipped",
            skip_reason=truth.skip or "no words",
            original=example.texts,
            **truth.fields,
            truncated=truncated,
        )
    # An attack that `rbench.recipes.build` did not make may lack both.
    candidate_queries = getattr(attack, "candidate_queries", None)
    victim_answers = getattr(attack, "victim_answers", None)
    for counter in (candidate_queries, victim_answers):
        if counter is not None:
            counter.clear()
    # An attack whose class overrides `attack` may look into its argument, and expects the type that TextAttack passes.
    takes_spliced = getattr(type(attack), "attack", None) in (Attack.attack, CachedAttack.attack)
    result = attack.attack(spliced_text if takes_spliced else textattack_input, truth.for_textattack)
    original_result = result.original_result
    final_result, status = _read_result(result, goal)
    original_words = words_by_column(original_result.attacked_text)
    num_words = sum(map(len, original_words))
    common: dict[str, Any] = {
        "example_id": example.id,
        "status": status,
        "original": example.texts,
        **truth.fields,
        **truth.answer("original", original_result.output),
        "num_queries": int(result.num_queries),
        "num_words": num_words,
        "truncated": truncated,
    }
    if status == "skipped":
        return Outcome(**common)

    final_text = final_result.attacked_text
    final_input = final_text.tokenizer_input
    perturbed = (final_input,) if isinstance(final_input, str) else tuple(final_input)
    num_words_changed = count_changed_words(original_words, words_by_column(final_text))
    perturbed_share = num_words_changed / num_words if num_words else 0.0
    similarity = final_text.attack_attrs.get("similarity_score")

    words_asked, words_without_candidate = candidate_queries.counts if candidate_queries is not None else (None, None)
    search = getattr(attack, "search_method", None)
    return Outcome(
        **common,
        perturbed=perturbed,
        **truth.answer("perturbed", final_result.output),
        num_words_changed=num_words_changed,
        perturbed_share=perturbed_share if status == "succeeded" else None,
        words_asked=words_asked,
        words_without_candidate=words_without_candidate,
        robust_words=getattr(search, "robust_words", None),
        texts_left=getattr(search, "texts_left", None),
        similarity=None if similarity is None else float(similarity),
        oracle_label=None if oracle is None else oracle(truth.for_oracle(perturbed, example.texts)),
        steps=None if victim_answers is None else victim_answers.steps(original_result, final_result, truth),
    )


def _read_result(result: Any, goal: Any) -> tuple[Any, Status]:
    """Return the goal function's result for the final text, and what became of the example."""
    final = result.perturbed_result
    # A `SimilarityGoal` that is maximised. A text before the one at which the search ended may have a larger error.
    if isinstance(result, MaximizedAttackResult) and hasattr(goal, "largest"):
        final = goal.largest(final)
        return final, "succeeded" if goal.succeeded(final.output) else "failed"
    if isinstance(result, SkippedAttackResult):
        return final, "skipped"
    if isinstance(result, SuccessfulAttackResult):
        return final, "succeeded"
    if isinstance(result, FailedAttackResult):
        return final, "failed"
    raise JobError(
        f"a {type(result).__name__} is neither success nor failure: the attack's goal is not misclassification"
    )
