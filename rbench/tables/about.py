"""What a number or a verdict is about: these weights, or the method that made them.

Training again moves accuracy and success rates by more than the choice of texts explains. So one training shows what
these weights do, and only several show what the method does. Which repetitions count depends on what is compared:

- Encoders: the trainings of each that the RUN trains. An encoder whose weights are given (a base, a published model) is
  what it is, and may stand beside trained ones. Where all of them are given, nothing was repeated.
- Strategies, attacks or tasks with the same encoders on both sides: fine-tunings, or trainings of the encoders.
- One encoder against a number: its trainings, and the fine-tunings where its weights are given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from rbench.schema import Plan
from rbench.tables.table import Table

WEIGHTS, METHODS = "these weights", "these methods"


def trainings(plan: Plan) -> Mapping[str, int]:
    """Return with how many seeds a plan trains each of its encoders.

    One that is trained anew for each task, as ADCL is, has one training with each seed: its tasks repeat nothing.
    """
    labels = {job.parts[0] for job in plan.jobs if job.pretraining is not None}
    return Counter(plan.draw(label).encoder for label in labels)


def alone(one: Collection[str], other: Collection[str], trained: Mapping[str, int], tunings: int) -> str:
    """Say why a comparison is about these weights; an empty text where it is about methods.

    Args:
        one: the encoders of one side.
        other: those of the other side; empty where `one` is held against a number.
        trained: the number of trainings of each encoder that is trained.
        tunings: the number of fine-tunings of each victim.
    """
    compared = sorted(set(one) ^ set(other)) or sorted(set(one))
    once = [name for name in compared if trained.get(name) == 1]
    several = any(trained.get(name, 1) > 1 for name in compared)
    if other and set(one) == set(other):
        return "" if tunings > 1 or (several and not once) else "nothing was trained or fine-tuned more than once"
    if once:
        return f"one training of {', '.join(once)}"
    if several or (not other and tunings > 1):
        return ""
    return f"given weights of {', '.join(compared)}"


def of_table(table: Table, plan: Plan) -> str:
    """Say what the numbers of a table are of, for its caption; an empty text where it has no encoders."""
    shown = dict.fromkeys(str(cell["encoder"]) for cell in table.cells if cell.get("encoder"))
    if not shown or table.layout == "full":
        return ""
    trained = trainings(plan)
    several = [name for name in shown if trained.get(name, 1) > 1]
    tuned = max((cell.get("seeds") or 1 for cell in table.cells if cell.get("finetune")), default=1)
    more = f", fine-tuned with {tuned} seeds" if tuned > 1 else ""
    if not several:
        return f"of {WEIGHTS}{more}"
    seeds = max(trained[name] for name in several)
    rest = ", and of given weights" if len(several) < len(shown) else ""
    return f"of {METHODS}, each trained with {seeds} seeds{rest}{more}"
