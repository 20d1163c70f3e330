"""Keep the cheapest adversarial text that any RUN has found, by victim, text and space (`rbench judge best`).

What a RUN says is no proof. That a text lies in its space is computed again from the candidates of the original, and
the victim is asked again for both texts. What cannot be checked here is left out, and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rbench.api.call_options import options_of
from rbench.api.reopened import reopened
from rbench.errors import ResourceError, StoreError, SuiteError
from rbench.plan.prepare import Options
from rbench.schema import AttackJob, Job, Outcome, Space
from rbench.schema.space import Key, Known, hash_of, place_of
from rbench.store import best as kept
from rbench.store.judged import classes_of
from rbench.store.runs import Reader, Store
from rbench.store.runs.packed import Packed
from rbench.store.runs.store import folder_path
from rbench.system.one_slot_cache import OneSlotCache
from rbench.tables.results import plan_of


class Share(NamedTuple):
    """Of the texts that an attack in a space attacked, how many it made fall, and how many the file knows to fall."""

    job: str
    attacked: int
    fell: int
    known: int


class Best(NamedTuple):
    """What became of the file, and how many texts were left out, by the reason and what to do."""

    path: Path
    changed: kept.Changed
    shares: tuple[Share, ...]
    refused: dict[str, int]
    not_asked: dict[str, int]


def best(runs: Sequence[Path | str], to: Path | str = "results/best.jsonl", options: Options | None = None) -> Best:
    """Take into a file what RUNs found, where it beats what the file has, and say what is known of their texts.

    Args:
        runs: RUNs with attacks in a declared space, folders or packed.
        to: the file. It is made if it is not there.
        options: `models`, `device` and `backend` count.

    Raises:
        StoreError: a RUN or the file is damaged; or no RUN has an attack in a declared space.
        JobError: a victim gave no number.
    """
    path, stores = folder_path(to), [Store(folder_path(run)) for run in runs]
    check = _Check(kept.read(path), options_of(options, {}))
    attacks = [one for store in stores for one in _attacks(store, isinstance(store.opened(), Packed))]
    if not attacks:
        names = ", ".join(str(store.root) for store in stores)
        raise StoreError(f"{names}: no attack that has ended is in a declared space: docs/strength.md says how.")
    false = {key for of in attacks for key in check.refuted(of)}
    changed = kept.raised(path, [one for of in attacks for one in check.asked(of, list(check.inside(of)))], false)
    known = kept.read(path)
    shares = tuple(share for of in attacks if (share := of.share(known)).attacked)
    return Best(path, changed, shares, dict(check.refused), dict(check.not_asked))


@dataclass(frozen=True)
class _Attack:
    """An attack in a declared space that has ended, with what it left."""

    job: Job
    spec: AttackJob
    space: Space
    victim_job: Job
    victim: str
    unverifiable: bool
    packed: bool
    outcomes: tuple[Outcome, ...]

    @property
    def protected(self) -> tuple[str, ...]:
        return self.spec.attack.protect.get(self.spec.task.kind, ())

    def key(self, original: Sequence[str], label: int) -> Key:
        """Return what the entry of a text is found by."""
        place = place_of(self.space, self.spec.resource_fingerprints, self.protected)
        return self.victim, hash_of(original, label), place

    def share(self, known: Mapping[Key, Known]) -> Share:
        """Count what is known of its texts. In a RUN without texts there are none."""
        ended = [one for one in self.outcomes if one.status in ("succeeded", "failed")]
        texts = [(one, one.original, one.label) for one in ended if one.original and one.label is not None]
        fell = sum(one.status == "succeeded" for one, _, _ in texts)
        return Share(self.job.name, len(texts), fell, sum(self.key(text, label) in known for _, text, label in texts))


def known_of(store: Reader, path: Path | str) -> dict[str, Share]:
    """Return by job key how many of the texts of each attack in a space a file knows to fall, as it stands.

    Attacks whose victim and space are not in the file are left out, and so are those without texts.

    Raises StoreError where the file is not there, or is damaged.
    """
    known = kept.read(there := folder_path(path))
    if not known:
        raise StoreError(f"{there} has no entries. rbench judge best RUN... --to {there} makes it of RUNs.")
    held = {(victim, place) for victim, _, place in known}
    found = (of for of in _attacks(store, packed=False) if of.key((), 0)[::2] in held)
    return {of.job.key: share for of in found if (share := of.share(known)).attacked}


def _attacks(store: Reader, packed: bool) -> Iterator[_Attack]:
    """Yield the complete attacks of a RUN that are in a declared space, on tasks with classes."""
    plan = plan_of(store)
    for job in plan.jobs:
        spec = job.attacking
        if spec is None or (space := spec.attack.space) is None or classes_of(job) is None or "victim" not in job.needs:
            continue
        record, of = store.record(job), plan.job(job.needs["victim"])
        if record is None or record.status != "complete":
            continue
        given = of.opening.victim if of.opening is not None else None
        asked = given is not None and given.origin != "model"
        victim = f"{given.name} {given.version}" if given and asked else record.provenance.weights_hash or "unknown"
        yield _Attack(job, spec, space, of, victim, asked, packed, tuple(store.outcomes(job)))


class _Check:
    """Checks what attacks found and what the file has of it, and counts by reason what it does not take.

    Args:
        known: what the file has. Of a text with as many words its own entry is asked again, and not the new one.
        options: where models are, and what computes victims.
    """

    def __init__(self, known: Mapping[Key, Known], options: Options) -> None:
        self._known, self._options = dict(known), options
        self._again: set[Key] = set()
        self.refused, self.not_asked = Counter[str](), Counter[str]()
        self._spaces: dict[str, Any] = {}
        self._victims: OneSlotCache[Any] = OneSlotCache()

    def inside(self, of: _Attack) -> Iterator[Known]:
        """Yield what an attack found that lies in its space and has fewer words replaced than what is known."""
        for one in of.outcomes:
            if one.status != "succeeded" or one.label is None:
                continue
            if one.original is None or one.perturbed is None:
                self.not_asked[f"{of.job.name}: the RUN keeps no texts. Name the RUN that it is a copy of"] += 1
            elif isinstance(space := self._space(of), str):
                self.not_asked[f"{of.job.name}: {space}"] += 1
            elif isinstance(words := _words(of, one.original, one.perturbed, space), str):
                self.refused[f"{of.job.name}: {words}"] += 1
            elif (key := of.key(one.original, one.label)) not in self._known or words < self._known[key].words:
                victim, text, place = key
                yield Known(
                    victim=victim,
                    unverifiable=of.unverifiable,
                    text=text,
                    space=place,
                    label=one.label,
                    original=one.original,
                    adversarial=one.perturbed,
                    words=words,
                    queries=one.num_queries,
                    attack=of.job.parts[-1],
                )

    def refuted(self, of: _Attack) -> list[Key]:
        """Return the file's entries on an attack's texts that prove false here, and forget them.

        Where the space or the victim is not here, or is one of a name, nothing is said of them.
        """
        keys = {of.key(one.original, one.label) for one in of.outcomes if one.original and one.label is not None}
        of_file = [self._known[key] for key in sorted(keys & self._known.keys() - self._again)]
        space = self._space(of) if of_file and not of.unverifiable else ""
        victim = "" if isinstance(space, str) else self._victim(of)
        if isinstance(space, str) or isinstance(victim, str):
            return []
        self._again |= keys
        said = dict.fromkeys((one.key for one in of_file), "")
        for one in of_file:
            words = _words(of, one.original, one.adversarial, space)
            said[one.key] = words if isinstance(words, str) else "" if words == one.words else "it counts other words"
        said = {one.key: said[one.key] or why for one, why in _answered(victim, of_file)}
        for why in filter(None, said.values()):
            self.refused[f"{of.job.name}: an entry of the file is removed: {why}"] += 1
        false = [key for key, why in said.items() if why]
        for key in false:
            del self._known[key]
        return false

    def asked(self, of: _Attack, found: list[Known]) -> list[Known]:
        """Return those entries of an attack for which the victim says again that they fool it."""
        if not found or (of.unverifiable and not of.packed):
            return found
        victim = self._victim(of)
        if isinstance(victim, str):
            self.not_asked[f"{of.job.name}: {victim}"] += len(found)
            return []
        told = _answered(victim, found)
        for why in (why for _, why in told if why):
            self.refused[f"{of.job.name}: {why}"] += 1
        return [one for one, why in told if not why]

    def _victim(self, of: _Attack) -> Any:
        return self._victims.get((of.victim_job.key, of.victim), lambda: self._opened(of))

    def _space(self, of: _Attack) -> Any:
        """Return what gives the candidates of an attack's space; or say why nothing here does."""
        from rbench.words.resources import Resources
        from rbench.words.resources import locate as find
        from rbench.words.substitution.space import Substitutions

        profile, planned = of.spec.resources, of.spec.resource_fingerprints
        name = f"{of.space.fingerprint} {profile.model_dump_json()} {sorted(planned.items())}"
        if name not in self._spaces:
            try:
                places = find(profile, of.space.needed, self._options.models)
                other = [kind for kind, place in places.items() if place.fingerprint != planned.get(kind)]
                said = (
                    f"other {', '.join(other)} than here gave its candidates. Name the folder with those: --models DIR"
                )
                self._spaces[name] = said if other else Substitutions(of.space, Resources(profile, places=places))
            except (ResourceError, SuiteError) as error:
                self._spaces[name] = str(error)
        return self._spaces[name]

    def _opened(self, of: _Attack) -> Any:
        """Open the victim of an attack, if its weights are here; or say why it cannot be asked."""
        if of.unverifiable:
            return "the RUN is packed, and its function or endpoint cannot be asked again. Run its suite here"
        return reopened(of.victim_job, of.spec.task, of.victim, self._options)


def _answered(victim: Any, entries: Sequence[Known]) -> list[tuple[Known, str]]:
    """Ask a victim for both texts of entries. Return each with why it does not hold; empty: it does."""
    texts = [text if len(text) > 1 else text[0] for one in entries for text in (one.original, one.adversarial)]
    answers = victim(texts).argmax(dim=1).tolist() if texts else []
    asked = "the victim was asked again, and it"
    return [
        (
            one,
            ""
            if before == one.label != after
            else f"{asked} {'is not fooled' if right else 'gets the original wrong anyway'}",
        )
        for one, before, after in zip(entries, answers[::2], answers[1::2], strict=True)
        for right in [before == one.label]
    ]


def _words(of: _Attack, original: tuple[str, ...], changed: tuple[str, ...], space: Any) -> int | str:
    """Return how many words are replaced in an adversarial text; or say why it is none of its space."""
    from rbench.words.substitution.space import replaced

    columns = of.spec.task.columns
    if len(original) != len(columns) or len(changed) != len(columns):
        return f"the texts do not have the columns {', '.join(columns)}"
    still = [i for i, column in enumerate(columns) if column in of.protected]
    if any(original[i] != changed[i] for i in still):
        return "a column that the attack protects is changed"
    words = replaced(original, changed, space(original, still))
    if not words:
        return "a change lies outside the space"
    most = of.space.max_words
    return words if words <= most else f"more words are replaced than the space allows ({most})"
