"""references.bib, and what files may say as their reference."""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

import pytest
import yaml
from pybtex.database import Entry, parse_file

from rbench.config import catalogue
from rbench.config.code import find
from rbench.config.files import RegistryFiles
from rbench.config.positions import PositionedData, Problems
from rbench.config.references import BIB_FILE, bib_entries, check_references, format_references
from rbench.config.registry import KINDS, Registry
from rbench.report.provenance import RESOURCE_REFERENCES, TEXTATTACK_REFERENCE
from tests.refusals import unknown

ROOT = Path(__file__).resolve().parents[2]
BIB: dict[str, Entry] = parse_file(BIB_FILE, "bibtex").entries


@cache
def stated() -> dict[str, list[str]]:
    """What each of rbench's own files and modules states as its references, by kind and file name."""
    found: dict[str, list[str]] = {}
    for kind, sort in KINDS.items():
        folder = ROOT / "rbench" / sort.bundled if sort.bundled else ROOT / kind
        files = [file for suffix in sort.suffixes for file in sorted(folder.glob(f"*{suffix}"))]
        for file in (file for file in files if not (file.suffix == ".py" and file.stem.startswith("_"))):
            if file.suffix == ".py":
                said = find(kind, file.stem).open().reference
            else:
                said = yaml.safe_load(file.read_text(encoding="utf-8")).get("reference", [])
            found[f"{kind}/{file.name}"] = [said] * bool(said) if isinstance(said, str) else list(said)
    return found


def test_every_reference_of_our_own_is_a_key_and_every_entry_is_used() -> None:
    used = {key for keys in stated().values() for key in keys} | {*RESOURCE_REFERENCES.values(), TEXTATTACK_REFERENCE}
    assert len(used) > 60 and used == BIB.keys()


def test_only_attacks_and_tasks_of_rbench_itself_have_no_reference() -> None:
    without = {path for path, keys in stated().items() if not keys and path.startswith(("attacks/", "tasks/"))}
    own = {path for path in without if not path.startswith(("tasks/mini", "tasks/_"))}
    assert own == {
        "attacks/exhaustive.py",
        "attacks/random.py",
        "tasks/corpus.yaml",
        "tasks/documents.yaml",
        "tasks/meaning_triples.yaml",
    }


@pytest.mark.parametrize("key", BIB)
def test_an_entry_is_whole_and_its_key_says_who_and_when(key: str) -> None:
    entry = BIB[key]
    people = entry.persons["author"]
    family = unicodedata.normalize("NFKD", "".join(people[0].last_names).lower()).encode("ascii", "ignore").decode()
    assert key.startswith(f"{family}{entry.fields['year']}")
    assert all(person.first_names for person in people if str(person) != "others"), "full names"
    assert entry.type in ("inproceedings", "article", "misc") and entry.fields["title"]
    assert ("booktitle" in entry.fields) == (entry.type == "inproceedings")
    assert ("journal" in entry.fields) == (entry.type == "article")
    if entry.type == "inproceedings":
        assert entry.fields["booktitle"].endswith(")"), "the venue's short name, for lists"
    assert "--" in entry.fields.get("pages", "1--2") and (":" not in entry.fields.get("eprint", ""))
    assert list(BIB) == sorted(BIB)


@pytest.mark.parametrize(
    ("references", "line"),
    [
        (
            ["gao2021simcse"],
            "Gao, Yao and Chen (2021): SimCSE: Simple Contrastive Learning of Sentence Embeddings. EMNLP. "
            "arXiv:2104.08821",
        ),
        (["hu2004mining"], "Hu and Liu (2004): Mining and Summarizing Customer Reviews. KDD"),
        (["miller1995wordnet"], "Miller (1995): WordNet: A Lexical Database for English. Communications of the ACM"),
        (["agirre2015semeval"], "Agirre et al. (2015): SemEval-2015 Task 2: Semantic Textual Similarity, English, "),
        (
            ["wadden2020fact", "Me,\n 2026"],
            "Wadden et al. (2020): Fact or Fiction: Verifying Scientific Claims. EMNLP. ",
        ),
        (["Me,\n 2026"], "Me, 2026"),
        ([], ""),
    ],
)
def test_people_read_a_line(references: list[str], line: str) -> None:
    assert format_references(references).startswith(line) and format_references(references).endswith(
        "Me, 2026" if "Me,\n 2026" in references else ""
    )
    assert "{" not in format_references(references)


def problems(reference: object) -> list[str]:
    found = Problems()
    check_references(PositionedData({"reference": reference}, "mine.yaml:3:1"), found)
    return [str(problem) for problem in found.placed]


def test_a_word_that_is_no_key_is_refused_with_the_nearest_keys() -> None:
    (line,) = problems("gao2021simsce")
    assert line.startswith("mine.yaml:3:1: " + unknown("key of references.bib", "gao2021simsce", "gao2021simcse"))
    assert "free text of several words" in line
    assert len(problems(["gao2021simcse", "none", "Me 2026", "x"])) == 2


@pytest.mark.parametrize(
    "reference", ["", [], None, "Me 2026", "https://a.example/paper", "gao2021simcse", [*bib_entries()]]
)
def test_keys_texts_and_addresses_are_taken(reference: object) -> None:
    assert not problems(reference)


def test_lists_and_files_say_what_a_key_means(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.yaml").write_text("reference: [hu2004mining, 'Me, 2026']\n")
    registry = Registry([tmp_path])
    (mine,) = (one for one in catalogue("tasks", registry) if one.name == "mine")
    assert mine.reference == "Hu and Liu (2004): Mining and Summarizing Customer Reviews. KDD; Me, 2026"
    assert RegistryFiles(registry, Problems()).content("tasks", "mine").data["reference"] == [
        "hu2004mining",
        "Me, 2026",
    ]
