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

from rbench.api.call_options import resolve_options
from rbench.api.reopened import reopen_victim
from rbench.errors import ResourceError, StoreError, SuiteError
from rbench.plan.prepare import Options
from rbench.schema import AttackJob, Job, Outcome, Space
from rbench.schema.space import Key, KnownAdversarial, space_place, text_hash
from rbench.store import best as kept
from rbench.store.judged import find_classification_task
from rbench.store.runs import RunReader, RunStore
from rbench.store.runs.packed import PackedFolder
from rbench.store.runs.store import folder_path
from rbench.system.one_slot_cache import OneSlotCache
from rbench.tables.results import load_plan


class KnownShare(NamedTuple):
    """Of the texts that an attack in a space attacked, how many it made fall, and how many the file knows to fall."""

    job: str
    attacked: int
    fell: int
    known: int


class BestResult(NamedTuple):
    """What became of the file, and how many texts were left out, by the reason and what to do."""

    path: Path
    changed: kept.EntryChanges
    shares: tuple[KnownShare, ...]
    refused: dict[str, int]
    not_asked: dict[str, int]


def best(
    runs: Sequence[Path | str], to: Path | str = "results/best.jsonl", options: Options | None = None
) -> BestResult:
    """Take into a file what RUNs found, where it beats what the file has, and say what is known of their texts.

    Args:
        runs: RUNs with attacks in a declared space, folders or packed.
        to: the file. It is made if it is not there.
        options: `models`, `device` and `backend` count.

    Raises:
        StoreError: a RUN or the file is damaged; or no RUN has an attack in a declared space.
        JobError: a victim gave no number.
    """
    path, stores = folder_path(to), [RunStore(folder_path(run)) for run in runs]
    check = _EntryCheck(kept.read_entries(path), resolve_options(options, {}))
    attacks = [one for store in stores for one in _finished_attacks(store, isinstance(store.opened(), PackedFolder))]
    if not attacks:
        names = ", ".join(str(store.root) for store in stores)
        raise StoreError(f"{names}: no attack that has ended is in a declared space: docs/strength.md says how.")
    # Entries that prove false go first: a text that only beats such an entry would else be left out.
    false = {key for attack in attacks for key in check.refute_entries(attack)}
    changed = kept.raise_entries(
        path, [one for attack in attacks for one in check.asked(attack, list(check.inside(attack)))], false
    )
    known = kept.read_entries(path)
    shares = tuple(share for attack in attacks if (share := attack.share(known)).attacked)
    return BestResult(path, changed, shares, dict(check.refused), dict(check.not_asked))


@dataclass(frozen=True)
class _SpaceAttack:
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
        place = space_place(self.space, self.spec.resource_fingerprints, self.protected)
        return self.victim, text_hash(original, label), place

    def share(self, known: Mapping[Key, KnownAdversarial]) -> KnownShare:
        """Count what is known of its texts. In a RUN without texts there are none."""
        ended = [outcome for outcome in self.outcomes if outcome.status in ("succeeded", "failed")]
        texts = [
            (outcome, outcome.original, outcome.label)
            for outcome in ended
            if outcome.original and outcome.label is not None
        ]
        fell = sum(outcome.status == "succeeded" for outcome, _, _ in texts)
        return KnownShare(
            self.job.name, len(texts), fell, sum(self.key(text, label) in known for _, text, label in texts)
        )


def count_known(store: RunReader, path: Path | str) -> dict[str, KnownShare]:
    """Return by job key how many of the texts of each attack in a space a file knows to fall, as it stands.

    Attacks whose victim and space are not in the file are left out, and so are those without texts.

    Raises StoreError where the file is not there, or is damaged.
    """
    known = kept.read_entries(file := folder_path(path))
    if not known:
        raise StoreError(f"{file} has no entries. rbench judge best RUN... --to {file} makes it of RUNs.")
    covered = {(victim, place) for victim, _, place in known}
    in_file = (attack for attack in _finished_attacks(store, packed=False) if attack.key((), 0)[::2] in covered)
    return {attack.job.key: share for attack in in_file if (share := attack.share(known)).attacked}


def _finished_attacks(store: RunReader, packed: bool) -> Iterator[_SpaceAttack]:
    """Yield the complete attacks of a RUN that are in a declared space, on tasks with classes."""
    plan = load_plan(store)
    for job in plan.jobs:
        spec = job.attacking
        if (
            spec is None
            or (space := spec.attack.space) is None
            or find_classification_task(job) is None
            or "victim" not in job.needs
        ):
            continue
        record, victim_job = store.record(job), plan.job(job.needs["victim"])
        if record is None or record.status != "complete":
            continue
        existing_victim = victim_job.opening.victim if victim_job.opening is not None else None
        by_answers = existing_victim is not None and existing_victim.origin != "model"
        victim = (
            f"{existing_victim.name} {existing_victim.version}"
            if existing_victim and by_answers
            else record.provenance.weights_hash or "unknown"
        )
        yield _SpaceAttack(job, spec, space, victim_job, victim, by_answers, packed, tuple(store.outcomes(job)))


class _EntryCheck:
    """Checks what attacks found and what the file has of it, and counts by reason what it does not take.

    Args:
        known: what the file has. Of a text with as many words its own entry is asked again, and not the new one.
        options: where models are, and what computes victims.
    """

    def __init__(self, known: Mapping[Key, KnownAdversarial], options: Options) -> None:
        self._known, self._options = dict(known), options
        self._again: set[Key] = set()
        self.refused, self.not_asked = Counter[str](), Counter[str]()
        self._spaces: dict[str, Any] = {}
        self._victims: OneSlotCache[Any] = OneSlotCache()

    def inside(self, attack: _SpaceAttack) -> Iterator[KnownAdversarial]:
        """Yield what an attack found that lies in its space and has fewer words replaced than what is known."""
        for outcome in attack.outcomes:
            if outcome.status != "succeeded" or outcome.label is None:
                continue
            if outcome.original is None or outcome.perturbed is None:
                self.not_asked[f"{attack.job.name}: the RUN keeps no texts. Name the RUN that it is a copy of"] += 1
            elif isinstance(space := self._open_space(attack), str):
                self.not_asked[f"{attack.job.name}: {space}"] += 1
            elif isinstance(words := _count_words(attack, outcome.original, outcome.perturbed, space), str):
                self.refused[f"{attack.job.name}: {words}"] += 1
            elif (key := attack.key(outcome.original, outcome.label)) not in self._known or words < self._known[
                key
            ].words:
                victim, text, place = key
                yield KnownAdversarial(
                    victim=victim,
                    unverifiable=attack.unverifiable,
                    text=text,
                    space=place,
                    label=outcome.label,
                    original=outcome.original,
                    adversarial=outcome.perturbed,
                    words=words,
                    queries=outcome.num_queries,
                    attack=attack.job.parts[-1],
                )

    def refute_entries(self, attack: _SpaceAttack) -> list[Key]:
        """Return the file's entries on an attack's texts that prove false here, and forget them.

        Where the space or the victim is not here, or is one of a name, nothing is said of them.
        """
        keys = {
            attack.key(one.original, one.label) for one in attack.outcomes if one.original and one.label is not None
        }
        of_file = [self._known[key] for key in sorted(keys & self._known.keys() - self._again)]
        space = self._open_space(attack) if of_file and not attack.unverifiable else ""
        victim = "" if isinstance(space, str) else self._victim(attack)
        if isinstance(space, str) or isinstance(victim, str):
            return []
        self._again |= keys
        reasons = dict.fromkeys((one.key for one in of_file), "")
        for one in of_file:
            words = _count_words(attack, one.original, one.adversarial, space)
            reasons[one.key] = (
                words if isinstance(words, str) else "" if words == one.words else "it counts other words"
            )
        reasons = {one.key: reasons[one.key] or why for one, why in _ask_victim(victim, of_file)}
        for why in filter(None, reasons.values()):
            self.refused[f"{attack.job.name}: an entry of the file is removed: {why}"] += 1
        false = [key for key, why in reasons.items() if why]
        for key in false:
            del self._known[key]
        return false

    def asked(self, attack: _SpaceAttack, entries: list[KnownAdversarial]) -> list[KnownAdversarial]:
        """Return those entries of an attack for which the victim says again that they fool it."""
        if not entries or (attack.unverifiable and not attack.packed):
            return entries
        victim = self._victim(attack)
        if isinstance(victim, str):
            self.not_asked[f"{attack.job.name}: {victim}"] += len(entries)
            return []
        answered = _ask_victim(victim, entries)
        for why in (why for _, why in answered if why):
            self.refused[f"{attack.job.name}: {why}"] += 1
        return [entry for entry, why in answered if not why]

    def _victim(self, attack: _SpaceAttack) -> Any:
        return self._victims.get((attack.victim_job.key, attack.victim), lambda: self._opened(attack))

    def _open_space(self, attack: _SpaceAttack) -> Any:
        """Return what gives the candidates of an attack's space; or say why nothing here does."""
        from rbench.words.resources import Resources
        from rbench.words.resources import locate as find
        from rbench.words.substitution.space import SpaceSubstitutions

        profile, planned = attack.spec.resources, attack.spec.resource_fingerprints
        name = f"{attack.space.fingerprint} {profile.model_dump_json()} {sorted(planned.items())}"
        if name not in self._spaces:
            try:
                places = find(profile, attack.space.needed, self._options.models)
                other = [kind for kind, place in places.items() if place.fingerprint != planned.get(kind)]
                reason = (
                    f"other {', '.join(other)} than here gave its candidates. Name the folder with those: --models DIR"
                )
                self._spaces[name] = (
                    reason if other else SpaceSubstitutions(attack.space, Resources(profile, places=places))
                )
            except (ResourceError, SuiteError) as error:
                self._spaces[name] = str(error)
        return self._spaces[name]

    def _opened(self, attack: _SpaceAttack) -> Any:
        """Open the victim of an attack, if its weights are here; or say why it cannot be asked."""
        if attack.unverifiable:
            return "the RUN is packed, and its function or endpoint cannot be asked again. Run its suite here"
        return reopen_victim(attack.victim_job, attack.spec.task, attack.victim, self._options)


def _ask_victim(victim: Any, entries: Sequence[KnownAdversarial]) -> list[tuple[KnownAdversarial, str]]:
    """Ask a victim for both texts of entries. Return each with why it does not hold; empty: it does."""
    texts = [text if len(text) > 1 else text[0] for one in entries for text in (one.original, one.adversarial)]
    answers = victim(texts).argmax(dim=1).tolist() if texts else []
    asked = "the victim was asked again, and it"
    judged: list[tuple[KnownAdversarial, str]] = []
    for entry, before, after in zip(entries, answers[::2], answers[1::2], strict=True):
        why = ""
        if before != entry.label:
            why = f"{asked} gets the original wrong anyway"
        elif after == entry.label:
            why = f"{asked} is not fooled"
        judged.append((entry, why))
    return judged


def _count_words(attack: _SpaceAttack, original: tuple[str, ...], changed: tuple[str, ...], space: Any) -> int | str:
    """Return how many words are replaced in an adversarial text; or say why it is none of its space."""
    from rbench.words.substitution.space import count_replacements

    columns = attack.spec.task.columns
    if len(original) != len(columns) or len(changed) != len(columns):
        return f"the texts do not have the columns {', '.join(columns)}"
    protected_columns = [i for i, column in enumerate(columns) if column in attack.protected]
    if any(original[i] != changed[i] for i in protected_columns):
        return "a column that the attack protects is changed"
    words = count_replacements(original, changed, space(original, protected_columns))
    if not words:
        return "a change lies outside the space"
    limit = attack.space.max_words
    return words if words <= limit else f"more words are replaced than the space allows ({limit})"
