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
from rbench.recipes.cached import CachedAttack, SplicedText, columns_of
from rbench.schema import TIMED_OUT, AttackSpec, Outcome, Status, TaskSpec
from rbench.system.changes import words_changed
from rbench.tasks import Example

VERSION = 1
USES = ("recipes.cached", "inference.input_gradients")

Oracle = Callable[[tuple[str, ...]], int | None]


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
    the attack raises an exception (also SystemExit), the outcome is `errored` and has the traceback. If TextAttack
    finds no word in an example, the outcome is `skipped` with the reason `no words`, and the victim is not queried. The
    same holds, with other reasons, for a pair of an STS task that has an empty sentence or no score on the scale.

    Args:
        build: makes the attack, as `rbench.recipes.build` does; called at most `pooled` times.
        oracle: returns the true label of a task's texts, or None if it cannot read them; None: there is no oracle.
        pooled: number of examples attacked at once; their queries to a model share batches.
        max_seconds: an example that takes longer (`Outcome.seconds`) is errored by time-out. None: no limit.

    Raises:
        JobError: the victim is broken, or a label is not a class of the task.
    """
    idle: list[Attack] = []

    def job(example: Example) -> Outcome:
        attack = idle.pop() if idle else build()
        with inference.limited(max_seconds):
            outcome = _attacked(attack, example, spec, task, seed, oracle)
        # An attack object holds the state of one example, so it serves one example at a time.
        idle.append(attack)
        return outcome

    yield from inference.run((partial(job, example) for example in examples), pooled)


def _attacked(
    attack: Attack, example: Example, spec: AttackSpec, task: TaskSpec, seed: int, oracle: Oracle | None
) -> Outcome:
    known = attacked_kind(task).truth(example, task)
    seed_all(seed, spec.name, example.id)
    start = inference.clock()
    try:
        outcome = _outcome(attack, example, known, task, oracle)
    except (RbenchError, KeyboardInterrupt, GreenletExit):
        raise
    except BaseException as error:  # also SystemExit: an attack may end its example, but not the run
        attack.clear_cache()
        late = isinstance(error, inference.TimedOut)
        outcome = Outcome(
            example_id=example.id,
            status="errored",
            original=example.texts,
            **known.fields,
            error=f"{TIMED_OUT}: {error}" if late else masked(traceback.format_exc(limit=-12)),
        )
    return outcome.model_copy(update={"seconds": round(inference.clock() - start, 4)})


def seed_all(seed: int, attack: str, example_id: str) -> None:
    """Seed the generators of Python, numpy and torch from (seed, attack, example id), equally on every machine."""
    digest = hashlib.sha256(f"{seed}\0{attack}\0{example_id}".encode()).digest()
    random.seed(digest)
    np.random.seed(int.from_bytes(digest[:4], "big"))
    torch.manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def as_input(texts: Sequence[str], task: TaskSpec) -> str | OrderedDict[str, str]:
    """Return the texts in TextAttack's form: a string for one column, columns by name for several."""
    return texts[0] if len(task.columns) == 1 else OrderedDict(zip(task.columns, texts, strict=True))


def _outcome(attack: Attack, example: Example, known: Truth, task: TaskSpec, oracle: Oracle | None) -> Outcome:
    victim = attack.goal_function.model
    truncated = victim.is_truncated(example.texts[0] if len(example.texts) == 1 else example.texts)
    given = as_input(example.texts, task)
    text = SplicedText(given)
    if known.skip is not None or not text.num_words:
        return Outcome(
            example_id=example.id,
            status="skipped",
            skip_reason=known.skip or "no words",
            original=example.texts,
            **known.fields,
            truncated=truncated,
        )
    usual = getattr(type(attack), "attack", None) in (Attack.attack, CachedAttack.attack)
    asked, heard = getattr(attack, "asked", None), getattr(attack, "heard", None)
    for one in (asked, heard):
        if one is not None:
            one.clear()
    result = attack.attack(text if usual else given, known.given)
    before, (after, status) = result.original_result, _ended(result, attack.goal_function)
    words = columns_of(before.attacked_text)
    num_words = sum(map(len, words))
    common: dict[str, Any] = {
        "example_id": example.id,
        "status": status,
        "original": example.texts,
        **known.fields,
        **known.answer("original", before.output),
        "num_queries": int(result.num_queries),
        "num_words": num_words,
        "truncated": truncated,
    }
    if status == "skipped":
        return Outcome(**common)
    words_asked, without = asked.counts if asked is not None else (None, None)
    changed = words_changed(words, columns_of(after.attacked_text))
    texts = after.attacked_text.tokenizer_input
    perturbed = (texts,) if isinstance(texts, str) else tuple(texts)
    search = getattr(attack, "search_method", None)
    similarity = after.attacked_text.attack_attrs.get("similarity_score")
    share = changed / num_words if num_words else 0.0
    return Outcome(
        **common,
        perturbed=perturbed,
        **known.answer("perturbed", after.output),
        num_words_changed=changed,
        perturbed_share=share if status == "succeeded" else None,
        words_asked=words_asked,
        words_without_candidate=without,
        robust_words=getattr(search, "robust_words", None),
        texts_left=getattr(search, "texts_left", None),
        similarity=None if similarity is None else float(similarity),
        oracle_label=None if oracle is None else oracle(known.for_oracle(perturbed, example.texts)),
        steps=None if heard is None else heard.steps(before, after, known),
    )


def _ended(result: Any, goal: Any) -> tuple[Any, Status]:
    """Return the goal function's result for the final text, and what became of the example."""
    final = result.perturbed_result
    if isinstance(result, MaximizedAttackResult) and hasattr(goal, "largest"):  # a `SimilarityGoal` that is maximised
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
