"""Keep the cheapest adversarial text that any RUN has found, by victim, text and space (`rbench judge best`).

What a RUN says is no proof. That a text lies in its space is computed again from the candidates of the original, and
the victim is asked again for both texts. What cannot be checked here is left out, and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
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
    """How many texts an attack in a space attacked, how many of them fell, and for how many the file has an entry."""

    job: str
    attacked: int
    fell: int
    known: int


class BestResult(NamedTuple):
    """What changed in the file, and how many texts were left out, by the reason and what to do."""

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
    attacks: list[_SpaceAttack] = []
    for store in stores:
        attacks += _finished_attacks(store, packed=isinstance(store.opened(), PackedFolder))
    if not attacks:
        names = ", ".join(str(store.root) for store in stores)
        raise StoreError(f"{names}: no attack that has ended is in a declared space: docs/strength.md says how.")
    # Entries that prove false go first: a text that only beats such an entry would else be left out.
    false: set[Key] = set()
    for attack in attacks:
        false |= set(check.refute_entries(attack))
    new_entries: list[KnownAdversarial] = []
    for attack in attacks:
        new_entries += check.confirm(attack, list(check.find_cheaper(attack)))
    changed = kept.raise_entries(path, new_entries, false)
    known = kept.read_entries(path)
    shares = [attack.share(known) for attack in attacks]
    with_texts = tuple(share for share in shares if share.attacked)
    return BestResult(path, changed, with_texts, dict(check.refused), dict(check.not_asked))


@dataclass(frozen=True)
class _SpaceAttack:
    """An attack in a declared space that has ended, with what it left."""

    job: Job
    spec: AttackJob
    space: Space
    victim_job: Job
    victim: str
    """What entries name the victim by: the hash of its weights, or else its name and version."""
    unverifiable: bool
    """Whether a name and a version stand for the victim, as for a function or an endpoint. It may have changed."""
    packed: bool
    """Whether the RUN is packed."""
    outcomes: tuple[Outcome, ...]

    @property
    def protected(self) -> tuple[str, ...]:
        """The columns that the attack leaves as they are."""
        return self.spec.attack.protect.get(self.spec.task.kind, ())

    def key(self, original: Sequence[str], label: int) -> Key:
        """Return what the entry of a text is found by."""
        place = space_place(self.space, self.spec.resource_fingerprints, self.protected)
        return self.victim, text_hash(original, label), place

    def share(self, known: Mapping[Key, KnownAdversarial]) -> KnownShare:
        """Count what is known of its texts. In a RUN without texts there are none."""
        num_attacked = num_fell = num_known = 0
        for outcome in self.outcomes:
            if outcome.status in ("succeeded", "failed") and outcome.original and outcome.label is not None:
                num_attacked += 1
                num_fell += outcome.status == "succeeded"
                num_known += self.key(outcome.original, outcome.label) in known
        return KnownShare(self.job.name, num_attacked, num_fell, num_known)


def count_known(store: RunReader, path: Path | str) -> dict[str, KnownShare]:
    """Return by job key how many of the texts of each attack in a space a file knows to fall, as it stands.

    Attacks whose victim and space are not in the file are left out, and so are those without texts.

    Raises StoreError where the file is not there, or is damaged.
    """
    file = folder_path(path)
    known = kept.read_entries(file)
    if not known:
        raise StoreError(f"{file} has no entries. rbench judge best RUN... --to {file} makes it of RUNs.")
    covered = {(victim, place) for victim, _, place in known}
    shares = {}
    for attack in _finished_attacks(store, packed=False):
        victim, _, place = attack.key((), 0)  # of whatever text
        share = attack.share(known) if (victim, place) in covered else None
        if share is not None and share.attacked:
            shares[attack.job.key] = share
    return shares


def _finished_attacks(store: RunReader, packed: bool) -> Iterator[_SpaceAttack]:
    """Yield the complete attacks of a RUN that are in a declared space, on tasks with classes."""
    plan = load_plan(store)
    for job in plan.jobs:
        spec = job.attacking
        space = spec.attack.space if spec is not None else None
        if spec is None or space is None or find_classification_task(job) is None or "victim" not in job.needs:
            continue
        record, victim_job = store.record(job), plan.job(job.needs["victim"])
        if record is None or record.status != "complete":
            continue
        opened = victim_job.opening.victim if victim_job.opening is not None else None
        if opened is not None and opened.origin != "model":
            victim, unverifiable = f"{opened.name} {opened.version}", True
        else:
            victim, unverifiable = record.provenance.weights_hash or "unknown", False
        yield _SpaceAttack(job, spec, space, victim_job, victim, unverifiable, packed, tuple(store.outcomes(job)))


class _EntryCheck:
    """Checks what attacks found and what the file has of it, and counts by reason what it does not take.

    Args:
        known: what the file has. Of a text with as many words its own entry is asked again, and not the new one.
        options: where models are, and what computes victims.
    """

    def __init__(self, known: Mapping[Key, KnownAdversarial], options: Options) -> None:
        self._known, self._options = dict(known), options
        self._checked: set[Key] = set()
        """Entries of the file that need no other check."""
        self.refused, self.not_asked = Counter[str](), Counter[str]()
        self._spaces: dict[str, Any] = {}
        self._victims: OneSlotCache[Any] = OneSlotCache()

    def find_cheaper(self, attack: _SpaceAttack) -> Iterator[KnownAdversarial]:
        """Yield what an attack found that lies in its space and has fewer words replaced than what is known."""
        for outcome in attack.outcomes:
            if outcome.status != "succeeded" or outcome.label is None:
                continue
            if outcome.original is None or outcome.perturbed is None:
                self.not_asked[f"{attack.job.name}: the RUN keeps no texts. Name the RUN that it is a copy of"] += 1
                continue
            space = self._open_space(attack)
            if isinstance(space, str):
                self.not_asked[f"{attack.job.name}: {space}"] += 1
                continue
            words = _count_words(attack, outcome.original, outcome.perturbed, space)
            if isinstance(words, str):
                self.refused[f"{attack.job.name}: {words}"] += 1
                continue
            key = attack.key(outcome.original, outcome.label)
            if key in self._known and words >= self._known[key].words:
                continue
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

        Nothing is said of them where the space or the victim is not here, or the victim is known by its name alone.
        """
        keys = set()
        for outcome in attack.outcomes:
            if outcome.original and outcome.label is not None:
                keys.add(attack.key(outcome.original, outcome.label))
        entries = [self._known[key] for key in sorted(keys & self._known.keys() - self._checked)]
        if not entries or attack.unverifiable:
            return []
        space = self._open_space(attack)
        if isinstance(space, str):
            return []
        victim = self._victim(attack)
        if isinstance(victim, str):
            return []
        self._checked |= keys
        false = []
        for entry, answer_reason in _ask_victim(victim, entries):
            reason = answer_reason
            words = _count_words(attack, entry.original, entry.adversarial, space)
            if isinstance(words, str):
                reason = words
            elif words != entry.words:
                reason = "it counts other words"
            if reason:
                self.refused[f"{attack.job.name}: an entry of the file is removed: {reason}"] += 1
                del self._known[entry.key]
                false.append(entry.key)
        return false

    def confirm(self, attack: _SpaceAttack, entries: list[KnownAdversarial]) -> list[KnownAdversarial]:
        """Return those entries of an attack for which the victim says again that they fool it."""
        if not entries or (attack.unverifiable and not attack.packed):
            return entries
        victim = self._victim(attack)
        if isinstance(victim, str):
            self.not_asked[f"{attack.job.name}: {victim}"] += len(entries)
            return []
        confirmed = []
        for entry, reason in _ask_victim(victim, entries):
            if reason:
                self.refused[f"{attack.job.name}: {reason}"] += 1
            else:
                confirmed.append(entry)
        return confirmed

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
                if other:
                    self._spaces[name] = (
                        f"other {', '.join(other)} than here gave its candidates. Name the folder with those: "
                        "--models DIR"
                    )
                else:
                    self._spaces[name] = SpaceSubstitutions(attack.space, Resources(profile, places=places))
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
    pairs = chain.from_iterable((entry.original, entry.adversarial) for entry in entries)
    texts = [columns if len(columns) > 1 else columns[0] for columns in pairs]
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
