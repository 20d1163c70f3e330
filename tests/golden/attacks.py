"""Attacks: the texts that one proposes for two sentences, in order, and what becomes of all sentences and pairs."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

from rbench import recipes
from rbench.config.code import find
from rbench.recipes.run import seed_all
from rbench.schema import TaskSpec
from tests.golden import world
from tests.golden.case import Case, Value
from tests.recipes import world as attacking

FOLDER = "attacks"
FILES = sorted(path for path in (attacking.ROOT / FOLDER).iterdir() if path.suffix in (".yaml", ".py"))
SHOWN = 20
LOOSER: dict[str, dict[str, object]] = {
    "geometry": {"min_cosine": 0.2, "candidates": 200},
    "random": {"min_cosine": 0.2, "candidates": 200},
}
"""A masked LM by formula proposes few words that are near: with these options some pass."""


def computed(path: Path, folder: Path) -> Value:
    name = path.stem
    found: dict[str, Value] = {}
    if path.suffix == ".py":
        found["defaults"] = find("attacks", name).open().Options().model_dump(mode="json")
    for task in (world.SINGLE, world.PAIR):
        found[task.kind] = outcomes(name, path, task, folder, {})
    if name in LOOSER:
        found["looser"] = outcomes(name, path, world.SINGLE, folder, LOOSER[name])
        found["released"] = outcomes(name, path, world.SINGLE, folder, {"variant": "released"})
    return found


def outcomes(name: str, path: Path, task: TaskSpec, folder: Path, options: dict[str, object]) -> Value:
    spec, victim = attacking.spec(name, **options), world.victim(folder, task)
    file = path if path.suffix == ".py" else None
    built = recipes.build(spec, victim, world.resources(folder), task, path=file)
    examples = world.examples(task, victim)
    ended = recipes.run(lambda: built, examples, spec=spec, task=task, seed=7)
    found: dict[str, Value] = {
        outcome.example_id: {
            "status": outcome.status,
            "queries": outcome.num_queries,
            "words": [outcome.num_words, outcome.num_words_changed],
            "perturbed": None if outcome.perturbed is None else list(outcome.perturbed),
            "similarity": outcome.similarity,
            "error": outcome.error,
        }
        for outcome in ended
    }
    if task is world.SINGLE:
        found["proposed"] = [proposed(built, name, text) for text in world.SENTENCES[:2]]
    return found


def proposed(built: Any, name: str, text: str) -> Value:
    """What the attack would try in a text that is as it was.

    `found` is in the order in which each of its transformations finds it, `allowed` what the constraints leave of that.
    """
    from textattack.shared import AttackedText  # once rbench.attack has made it ready

    seed_all(7, name, text)
    wrapped = AttackedText(text)
    before = built.pre_transformation_constraints
    parts = getattr(built.transformation, "transformations", [built.transformation])
    return {
        "found": [listed(text, [other.text for other in part(wrapped, before)]) for part in parts],
        "allowed": listed(text, [other.text for other in built.get_transformations(wrapped, original_text=wrapped)]),
    }


def listed(text: str, others: list[str]) -> Value:
    """How many there are, the changes of the first few, and a hash of all."""
    changes = [change(text.split(), other.split()) for other in others]
    digest = hashlib.sha256("\n".join(changes).encode()).hexdigest()
    return {"count": len(changes), "first": changes[:SHOWN], "all": digest[:16]}


def change(before: list[str], after: list[str]) -> str:
    """`3 slow`: the fourth word became slow. The whole text where there are more words than before, or fewer."""
    if len(before) != len(after):
        return " ".join(after)
    return ", ".join(f"{i} {new}" for i, (old, new) in enumerate(zip(before, after, strict=True)) if new != old)


def cases() -> list[Case]:
    files = ("build.py", "run.py", "victim.py", "attacked/classification.py")
    through = tuple(f"rbench/recipes/{file}" for file in files)
    return [
        Case(f"attacks/{path.stem}", (f"{FOLDER}/{path.name}", *through), partial(computed, path)) for path in FILES
    ]
