"""The best known adversarial texts of several RUNs: what is taken, what is refused, and that the file only rises."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rbench import api
from rbench.api.best_known import BestResult
from rbench.cli import app
from rbench.errors import StoreError, SuiteError
from rbench.schema import Job, Outcome, Space
from rbench.schema.space import KnownAdversarial, text_hash
from rbench.store import best as kept
from rbench.store.runs import RunStore
from rbench.words.resources import Resources, locate
from rbench.words.substitution.segmentation import SegmentedTexts
from rbench.words.substitution.space import SpaceSubstitutions

SPACE = {"k": 8, "max_words": 2, "pos": False}
SUITE: dict[str, Any] = {
    "encoders": ["mini-bert-packaged"],
    "tasks": ["mini-nli"],
    "num_examples": 24,
    "resources": "mini",
    "training": {"learning_rate": 1.5e-3, "epochs": 1, "max_train": 400, "max_validation": 60},
}
Forge = Callable[[Outcome], Outcome]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """RUNs of one victim: a search and the complete one, in one space."""
    root = tmp_path_factory.mktemp("runs")
    attacks: dict[str, Any] = {
        "deletion": {"inside": {"space": SPACE, "search": "deletion"}},
        "complete": {"exhaustive": {"space": SPACE}},
    }
    for name, attack in attacks.items():
        api.run({**SUITE, "name": name, "attacks": [attack]}, out=root / name, workers=1)
    return {name: root / name for name in attacks}


def attack_of(run: Path) -> Job:
    plan = RunStore(run).plan()
    assert plan is not None
    (job,) = plan.attacks
    return job


def successes(run: Path) -> dict[str, Outcome]:
    """By the hash of the text."""
    fell = [one for one in RunStore(run).outcomes(attack_of(run)) if one.status == "succeeded"]
    return {text_hash(one.original or (), one.label or 0): one for one in fell}


def forged(run: Path, forge: Forge, folder: Path) -> Path:
    """Copy a RUN and change its outcomes, with digests that fit."""
    shutil.copytree(run, folder)
    store, job = RunStore(folder), attack_of(folder)
    record = store.record(job)
    assert record is not None
    digest = store.write_outcomes(job, [forge(one) for one in store.outcomes(job)])
    store.write_record(record.model_copy(update={"outcomes": digest}))
    return folder


def total(counts: dict[str, int]) -> int:
    return sum(counts.values())


# ------------------------------------------------------------------------------------------------------- what is taken


def test_two_runs_with_different_attacks_give_the_union(runs: dict[str, Path], tmp_path: Path) -> None:
    both = successes(runs["deletion"]), successes(runs["complete"])
    union = both[0].keys() | both[1].keys()
    assert 0 < len(both[0]) < len(union), "the complete search finds more"
    found = api.best([runs["deletion"], runs["complete"]], tmp_path / "best.jsonl")
    known = kept.read_entries(tmp_path / "best.jsonl")
    assert {text for _, text, _ in known} == union
    assert found.changed == (len(union), len(union), 0) and not found.refused and not found.not_asked
    assert {one.known for one in found.shares} == {len(union)}
    assert [one.fell for one in found.shares] == [len(one) for one in both]
    for entry in known.values():
        words = [one[entry.text].num_words_changed for one in both if entry.text in one]
        assert entry.words == min(words) and not entry.unverifiable


def test_the_order_of_runs_does_not_matter_and_a_second_time_changes_nothing(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "deep" / "other.jsonl"
    api.best([runs["deletion"], runs["complete"]], one)
    api.best([runs["complete"]], other)
    api.best([runs["deletion"]], other)
    assert {key: entry.words for key, entry in kept.read_entries(one).items()} == {
        key: entry.words for key, entry in kept.read_entries(other).items()
    }
    before = one.read_bytes(), one.stat().st_mtime_ns
    assert api.best([runs["deletion"], runs["complete"]], one).changed[1:] == (0, 0)
    assert (one.read_bytes(), one.stat().st_mtime_ns) == before


def test_an_entry_is_replaced_by_one_with_fewer_words_alone(tmp_path: Path) -> None:
    path, texts = tmp_path / "best.jsonl", ("a b c",)

    def entry(words: int, queries: int) -> KnownAdversarial:
        more: dict[str, Any] = {"victim": "v", "text": text_hash(texts, 0), "space": "0" * 16, "attack": "inside"}
        return KnownAdversarial(original=texts, adversarial=("x",), label=0, words=words, queries=queries, **more)

    assert kept.raise_entries(path, [entry(2, 9), entry(2, 5), entry(3, 1)]) == (1, 1, 0)
    assert [(one.words, one.queries) for one in kept.read_entries(path).values()] == [(2, 5)]
    assert kept.raise_entries(path, [entry(2, 1), entry(3, 1)]) == (1, 0, 0)
    assert kept.raise_entries(path, [entry(1, 50)]) == (1, 0, 1)
    assert [(one.words, one.queries) for one in kept.read_entries(path).values()] == [(1, 50)]


def test_a_packed_run_counts_after_its_texts_were_asked_again(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = api.pack(runs["complete"], tmp_path / "run.zip").path
    api.best([runs["complete"]], tmp_path / "own.jsonl")
    api.best([packed], tmp_path / "theirs.jsonl")
    assert (tmp_path / "own.jsonl").read_bytes() == (tmp_path / "theirs.jsonl").read_bytes()
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "empty"))
    found = api.best([packed], tmp_path / "none.jsonl")
    ((said, n),) = found.not_asked.items()
    assert n == len(successes(runs["complete"])) and "are not in the cache" in said and "Run the suite" in said
    assert found.changed == (0, 0, 0) and not kept.read_entries(tmp_path / "none.jsonl")


def test_other_weights_than_those_that_were_attacked_are_not_asked(runs: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(runs["deletion"], copy := tmp_path / "run")
    store, job = RunStore(copy), attack_of(copy)
    record = store.record(job)
    assert record is not None
    other = record.provenance.model_copy(update={"weights_hash": "f" * 64})
    store.write_record(record.model_copy(update={"provenance": other}))
    found = api.best([copy], tmp_path / "best.jsonl")
    assert found.changed.entries == 0 and total(found.not_asked) == len(successes(runs["deletion"]))
    assert "are not those that were attacked" in next(iter(found.not_asked))


def test_a_run_without_texts_has_none_to_take(runs: dict[str, Path], tmp_path: Path) -> None:
    found = api.best([api.strip(runs["deletion"], tmp_path / "stripped")], tmp_path / "best.jsonl")
    assert found.changed.entries == 0 and "keeps no texts" in next(iter(found.not_asked)) and not found.shares


# ----------------------------------------------------------------------------------------------------- what is refused


def refused(run: Path, forge: Forge, tmp_path: Path) -> BestResult:
    """Take a forged RUN into a new file: nothing of it that was forged gets there."""
    found = api.best([forged(run, forge, tmp_path / "forged")], tmp_path / "best.jsonl")
    assert total(found.refused) and not found.not_asked
    assert found.changed.entries == len(kept.read_entries(tmp_path / "best.jsonl"))
    return found


def test_a_word_outside_the_space_is_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    def forge(one: Outcome) -> Outcome:
        if one.status != "succeeded" or one.original is None:
            return one
        premise, hypothesis = one.original
        return one.model_copy(update={"perturbed": (premise, f"zzz {hypothesis.partition(' ')[2]}")})

    found = refused(runs["deletion"], forge, tmp_path)
    ((said, n),) = found.refused.items()
    assert "outside the space" in said and n == len(successes(runs["deletion"])) and not found.changed.entries


def test_a_protected_column_that_changed_is_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    def forge(one: Outcome) -> Outcome:
        if one.status != "succeeded" or one.perturbed is None:
            return one
        return one.model_copy(update={"perturbed": (one.perturbed[0].partition(" ")[2], one.perturbed[1])})

    found = refused(runs["deletion"], forge, tmp_path)
    ((said, n),) = found.refused.items()
    assert "protects" in said and n == len(successes(runs["deletion"])) and not found.changed.entries


def test_more_words_than_the_space_allows_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    made = forged(runs["deletion"], in_space(runs["deletion"], 3), tmp_path / "forged")
    found = api.best([made], tmp_path / "best.jsonl")
    assert any("more words" in said for said in found.refused) and all(
        one.words <= 2 for one in kept.read_entries(tmp_path / "best.jsonl").values()
    )


def test_a_text_that_does_not_fool_the_victim_is_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    fell = len(successes(runs["complete"]))
    found = refused(runs["complete"], in_space(runs["complete"], 1), tmp_path)
    ((said, n),) = found.refused.items()
    assert "it is not fooled" in said and n > 0
    assert found.changed.entries == fell, "what was found is taken all the same"


def in_space(run: Path, words: int) -> Forge:
    """Return what calls each failed text a success, with the first candidates of so many of its words."""
    spec = attack_of(run).attacking
    assert spec is not None
    space = Space(**SPACE)
    candidates = SpaceSubstitutions(space, Resources(spec.resources, places=locate(spec.resources, space.needed)))

    def forge(one: Outcome) -> Outcome:
        if one.status != "failed" or one.original is None:
            return one
        found = candidates(one.original, [0])
        places = [place for place, others in enumerate(found) if others][:words]
        parts = SegmentedTexts([one.original])
        new = [found[i][0] if i in places else word for i, word in enumerate(parts.words[0])]
        changed = parts.columns(0, tuple(new))
        enough = len(places) == words
        return one.model_copy(update={"status": "succeeded", "perturbed": changed}) if enough else one

    return forge


# --------------------------------------------------------------------------------------------- what the file had before


def test_an_entry_of_the_file_that_does_not_hold_is_removed(runs: dict[str, Path], file: Path) -> None:
    first, *rest = kept.read_entries(file).values()
    for false, said in (
        ({"adversarial": (first.original[0], f"{first.original[1]} ")}, "outside the space"),
        ({"words": first.words + 1}, "other words"),
    ):
        lines = [first.model_copy(update=false), *rest]
        file.write_text("".join(one.model_dump_json() + "\n" for one in lines))
        found = api.best([runs["deletion"]], file)
        assert kept.read_entries(file)[first.key] == first, "the RUN has it, and it is asked"
        assert found.changed == (1 + len(rest), 0, 1) and [said in why for why in found.refused] == [True]


def test_an_entry_that_the_victim_is_not_fooled_by_is_removed(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "best.jsonl"
    api.best([runs["complete"]], path)
    known, ours = kept.read_entries(path), successes(runs["deletion"])
    hidden = [key for key in known if key[1] not in ours]
    made = in_space(runs["complete"], 1)
    robust = next(
        changed
        for one in RunStore(runs["deletion"]).outcomes(attack_of(runs["deletion"]))
        if one.status == "failed"
        and (changed := made(one)).status == "succeeded"
        and text_hash(one.original or (), one.label or 0) not in {key[1] for key in known}
    )
    some = known[hidden[0]]
    assert robust.original is not None and robust.label is not None and robust.perturbed is not None
    lie = some.model_copy(
        update={
            "text": text_hash(robust.original, robust.label),
            "label": robust.label,
            "original": robust.original,
            "adversarial": robust.perturbed,
            "words": 1,
        }
    )
    path.write_text("".join(one.model_dump_json() + "\n" for one in [*known.values(), lie]))
    found = api.best([runs["deletion"]], path)
    ((said, n),) = found.refused.items()
    assert n == 1 and "is removed" in said and "not fooled" in said and kept.read_entries(path) == known
    path.write_text("".join(one.model_dump_json() + "\n" for one in [*known.values(), lie]))
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "empty"))
    assert not api.best([runs["deletion"]], path).refused and lie.key in kept.read_entries(path), "nobody here can say"


# --------------------------------------------------------------------------------------------------- beside the attacks


def test_a_table_shows_what_the_file_knows_beside_each_attack(runs: dict[str, Path], tmp_path: Path) -> None:
    api.best([runs["complete"]], path := tmp_path / "best.jsonl")
    (cell,) = json.loads(api.table(runs["deletion"], best=path, fmt="json"))["cells"]
    own = [one for one in RunStore(runs["deletion"]).outcomes(attack_of(runs["deletion"])) if one.status != "skipped"]
    union = len(successes(runs["complete"]).keys())
    assert (cell["known"], cell["known_n"]) == (union / len(own), len(own)) and cell["known"] > cell["best_known"]
    shown = CliRunner().invoke(app, ["table", str(runs["deletion"]), "--best", str(path)])
    assert shown.exit_code == 0 and "Best known, best.jsonl" in shown.output
    assert f"{100 * union / len(own):.1f}" in shown.output


def test_what_the_file_does_not_have_is_said(runs: dict[str, Path], tmp_path: Path) -> None:
    api.best([runs["complete"]], path := tmp_path / "best.jsonl")
    for change in ({"victim": "f" * 64}, {"space": "0" * 16}):
        other = [one.model_copy(update=change) for one in kept.read_entries(path).values()]
        (changed := tmp_path / "other.jsonl").write_text("".join(one.model_dump_json() + "\n" for one in other))
        assert "not in other.jsonl" in api.table(runs["deletion"], best=changed)
    with pytest.raises(StoreError):
        api.table(runs["deletion"], best=tmp_path / "none.jsonl")
    with pytest.raises(SuiteError):
        api.table(runs["deletion"], best=path, metric="asr")


# ------------------------------------------------------------------------------------------------------------ the file


@pytest.fixture
def file(runs: dict[str, Path], tmp_path: Path) -> Path:
    api.best([runs["deletion"]], tmp_path / "best.jsonl")
    return tmp_path / "best.jsonl"


def changed(line: str, **values: Any) -> str:
    return json.dumps({**json.loads(line), **values})


DAMAGES: tuple[tuple[Callable[[Sequence[str]], list[str]], str], ...] = (
    (lambda lines: [lines[0], "{", *lines[2:]], "JSON"),
    (lambda lines: [lines[0], changed(lines[1], more=1)], "more"),
    (lambda lines: [lines[0], changed(lines[1], words=0)], "words"),
    (lambda lines: [lines[0], changed(lines[1], label=3)], "hash"),
    (lambda lines: [lines[0], lines[0]], ""),
)


def test_a_damaged_file_is_refused_with_its_line(file: Path, runs: dict[str, Path]) -> None:
    whole = file.read_text().splitlines()
    for damage, named in DAMAGES:
        file.write_text("\n".join(content := damage(whole)) + "\n")
        with pytest.raises(StoreError) as error:
            api.best([runs["complete"]], file)
        (line,) = str(error.value).splitlines()
        assert line.startswith(f"{file}:2") and named in line
        assert file.read_text().splitlines() == content, "it is left as it is"


def test_a_file_that_is_too_large_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST", 100)
    with pytest.raises(StoreError):
        kept.read_entries(file)


def test_the_command_line_says_what_became_of_the_texts(runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "best.jsonl"
    result = CliRunner().invoke(app, ["judge", "best", str(runs["complete"]), "--to", str(path)])
    assert result.exit_code == 0, result.output
    n = len(successes(runs["complete"]))
    assert f"{n} fell, {n} are known to fall" in result.output
    assert f"{path}: {n} texts, {n} of them new, 0 with fewer words than before" in result.output
    path.write_text("{}\n")
    result = CliRunner().invoke(app, ["judge", "best", str(runs["complete"]), "--to", str(path)])
    assert result.exit_code == 2 and f"{path}:1 is no entry" in result.output


def test_a_run_without_a_space_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        api.best([tmp_path], tmp_path / "best.jsonl")


# ------------------------------------------------------------------------------------------------- a victim of a name


def test_a_function_goes_by_name_and_version_and_from_a_packed_run_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(
        "import zlib\n"
        "def predict(texts):\n"
        "    ones = [zlib.crc32(text.encode()) % 2 for text in texts]\n"
        "    return [[1.0 - one, float(one)] for one in ones]\n"
    )
    monkeypatch.chdir(tmp_path)
    suite = {
        "name": "function",
        "victims": [{"name": "mine", "function": "mine:predict", "version": "v7"}],
        "tasks": ["mini-sentiment"],
        "attacks": [{"exhaustive": {"space": {"k": 8, "pos": False}}}],
        "num_examples": 12,
        "resources": "mini",
    }
    api.run(suite, out=(run := tmp_path / "run"), workers=1)
    n = len(successes(run))
    found = api.best([run], tmp_path / "best.jsonl")
    known = kept.read_entries(tmp_path / "best.jsonl").values()
    assert found.changed == (n, n, 0) and n > 0
    assert {(one.victim, one.unverifiable) for one in known} == {("mine v7", True)}
    found = api.best([api.pack(run, tmp_path / "run.zip").path], tmp_path / "other.jsonl")
    ((said, left),) = found.not_asked.items()
    assert left == n and "packed" in said and found.changed.entries == 0
