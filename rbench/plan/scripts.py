"""Says before any work what of a suite is made for English or Latin letters, where its texts have other letters."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from rbench.config import LoadedSuite
from rbench.schema import RESOURCE_NAMES, ResourceKind, TaskSpec
from rbench.tasks import TaskData

SAMPLED_TEXTS = 200
"""Number of examples whose letters say which script a task has."""
ENGLISH_KINDS = {"wordnet", "wordnet-and-folder", "nltk", "textattack-counterfitted", "use"}
"""The kinds of resources that are made of English texts. Folders and models of the hub may be of any language."""


def script_notes(loaded: LoadedSuite, data: Mapping[str, TaskData]) -> Iterator[str]:
    """Yield a note for each task whose letters are mostly not Latin and that meets something made for English."""
    for name, spec in loaded.tasks.items():
        share = latin_share(_sample_texts(data[name])) if name in data else None
        if share is None or share >= 0.5:
            continue
        limited = list(_english_only_parts(loaded, spec))
        if limited:
            yield (
                f"{name}: {1 - share:.0%} of its letters are not Latin. Made for English or for Latin letters, so that "
                f"they change such texts little or wrongly: {'; '.join(limited)}"
            )


def latin_share(texts: Iterable[str]) -> float | None:
    """Return which share of the letters of some texts is Latin; None where there are no letters."""
    counts = Counter(letter for letter in "".join(texts) if letter.isalpha())
    num_latin = sum(count for letter, count in counts.items() if unicodedata.name(letter, "").startswith("LATIN"))
    return num_latin / counts.total() if counts else None


def _sample_texts(data: TaskData) -> Iterator[str]:
    """Return texts of the first split that has any."""
    for split in ("test", "validation", "train"):
        if data.sizes.get(split):
            return (text for example in islice(data.examples[split], SAMPLED_TEXTS) for text in example.texts)
    return iter(())


def _english_only_parts(loaded: LoadedSuite, task: TaskSpec) -> Iterator[str]:
    """Yield what of a suite is made for English or Latin letters and is used on a task, with the reason."""
    # Others are tasks of a measure alone.
    is_of_suite = task.name in loaded.suite.tasks
    users: list[tuple[str, Iterable[ResourceKind]]] = []
    if is_of_suite:
        users += [(f"attack {name}", spec.needs) for name, spec in loaded.attacks.items()]
        users += [(label, needs.resources) for label, needs in loaded.strategies.items()]
    for label, measure in loaded.measures.items():
        if is_of_suite or task.name in (measure.tasks or ()):
            users.append((label, measure.resources))
    sources = loaded.resources.sources
    english_kinds = {kind for kind, source in sources.items() if source.kind in ENGLISH_KINDS}
    for user, kinds in users:
        english = [RESOURCE_NAMES[kind] for kind in kinds if kind in english_kinds]
        if english:
            yield f"{user} ({', '.join(english)})"
    for measure in loaded.measures.values():
        if measure.what.name != "noise" or not is_of_suite:
            continue
        scripts_by_kind = {
            kind: loaded.modules["noise", kind].open().only_for for kind in measure.what.options.get("kinds", ())
        }
        limited = [f"{kind} ({script})" for kind, script in scripts_by_kind.items() if script]
        if limited:
            yield f"noise {', '.join(limited)}"
