"""Says before any work what of a suite is made for English or Latin letters, where its texts have other letters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from rbench.config import LoadedSuite
from rbench.schema import RESOURCE_NAMES, TaskSpec
from rbench.tasks import TaskData

SAMPLED_TEXTS = 200
"""Number of texts by which a script is told."""
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
    letters = [letter for text in texts for letter in text if letter.isalpha()]
    known = {letter: unicodedata.name(letter, "").startswith("LATIN") for letter in {*letters}}
    return sum(known[letter] for letter in letters) / len(letters) if letters else None


def _sample_texts(data: TaskData) -> Iterator[str]:
    examples = next((data.examples[split] for split in ("test", "validation", "train") if data.sizes.get(split)), ())
    return (text for example in islice(examples, SAMPLED_TEXTS) for text in example.texts)


def _english_only_parts(loaded: LoadedSuite, task: TaskSpec) -> Iterator[str]:
    """Yield what of a suite is made for English or Latin letters and is used on a task, with the reason."""
    is_of_suite = task.name in loaded.suite.tasks
    users = [(f"attack {name}", spec.needs) for name, spec in loaded.attacks.items() if is_of_suite]
    users += [(label, needs.resources) for label, needs in loaded.strategies.items() if is_of_suite]
    for label, measure in loaded.measures.items():
        users += [(label, measure.resources)] if is_of_suite or task.name in (measure.tasks or ()) else []
    sources = loaded.resources.sources
    for user, kinds in users:
        english = [RESOURCE_NAMES[kind] for kind in kinds if kind in sources and sources[kind].kind in ENGLISH_KINDS]
        if english:
            yield f"{user} ({', '.join(english)})"
    for measure in loaded.measures.values():
        noise_kinds = measure.what.options.get("kinds", ()) if measure.what.name == "noise" and is_of_suite else ()
        scripts_by_kind = {kind: loaded.modules["noise", kind].open().only_for for kind in noise_kinds}
        if named := [f"{kind} ({why})" for kind, why in scripts_by_kind.items() if why]:
            yield f"noise {', '.join(named)}"
