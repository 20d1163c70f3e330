"""BibTeX of references, read back by pybtex."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pybtex.database import parse_string

from rbench.report.provenance import RESOURCES, TEXTATTACK, bibtex

ROOT = Path(__file__).resolve().parents[2]


def parse(text: str) -> dict[str, dict[str, str]]:
    """Return the entries by key, each with its fields and its `kind`. What is no BibTeX, and a second entry of one key,
    raises."""
    return {
        key: {"kind": entry.type, **entry.fields, "author": " and ".join(map(str, entry.persons.get("author", [])))}
        for key, entry in parse_string(text, "bibtex").entries.items()
    }


def one(reference: str) -> dict[str, str]:
    entries = parse(bibtex([(reference, "it")], ""))
    (key,) = entries.keys() - {"rbench"}
    return entries[key] | {"key": key}


def test_a_paper_of_a_conference() -> None:
    found = one("Gao, Yao and Chen (2021): SimCSE: simple contrastive learning. EMNLP. arXiv:2104.08821")
    assert found == {
        "kind": "inproceedings",
        "key": "gao2021simcse",
        "author": "Gao and Yao and Chen",
        "title": "{SimCSE:} simple contrastive learning",
        "year": "2021",
        "booktitle": "Conference on Empirical Methods in Natural Language Processing (EMNLP)",
        "eprint": "2104.08821",
        "archivePrefix": "arXiv",
        "annote": "used for it",
    }


def test_an_article_a_preprint_and_et_al() -> None:
    article = one("Wiebe, Wilson and Cardie (2005): Annotating expressions. LRE 39.")
    assert (article["kind"], article["journal"], article["volume"]) == (
        *("article", "Language Resources and Evaluation", "39"),
    )
    preprint = one("Liu et al. (2019): RoBERTa: a robust approach. arXiv:1907.11692")
    assert (preprint["kind"], preprint["author"], preprint["eprint"]) == ("misc", "Liu and others", "1907.11692")
    assert "booktitle" not in preprint and preprint["title"] == "{RoBERTa:} a robust approach"


def test_a_question_in_a_title_is_no_end_of_it() -> None:
    found = one("Jin and Qi (2020): Is BERT robust? A strong baseline. AAAI. arXiv:1907.11932; TextAttack 0.3.11, X")
    assert found["title"] == "Is {BERT} robust? {A} strong baseline" and found["booktitle"].startswith("AAAI")


def test_a_reference_may_have_a_comma_behind_its_year() -> None:
    found = one("Li et al. 2020, BERT-ATTACK, arXiv 2004.09984; TextAttack 0.3.11, BERTAttackLi2020")
    assert (found["author"], found["year"], found["title"], found["eprint"]) == (
        *("Li and others", "2020", "{BERT-ATTACK}", "2004.09984"),
    )


def test_several_references_are_several_entries_and_a_shared_one_is_one() -> None:
    both = "A and B (2001): First. ACL; C (2002): Second"
    entries = parse(bibtex([(both, "x"), ("C (2002): Second", "y")], "1.2"))
    assert {key: entry["annote"] for key, entry in entries.items() if key != "rbench"} == {
        "a2001first": "used for x",
        "c2002second": "used for x, y",
    }
    assert entries["rbench"]["note"] == "Version 1.2"


def test_what_reads_otherwise_is_a_note_and_nothing_is_nothing() -> None:
    assert one("Somebody: a thing, 5%")["note"] == r"Somebody: a thing, 5\%"
    assert parse(bibtex([("none; made here", "x"), ("A control of rbench's own, with more", "y")], "")).keys() == {
        "rbench"
    }


def test_a_key_has_plain_letters() -> None:
    assert one("Mrkšić et al. (2016): Counter-fitting. NAACL")["key"] == "mrksic2016counter"


def test_keys_differ() -> None:
    entries = parse(bibtex([("A (2001): One thing", "x"), ("A (2001): One other thing", "y")], ""))
    assert entries.keys() == {"a2001one", "a2001one-2", "rbench"}


@settings(max_examples=30)
@example(",,,")
@given(st.text(alphabet=r"\{}&%$#_~^@\"=,;.: ()aB1é", max_size=40))
def test_any_text_stays_within_its_braces(text: str) -> None:
    for reference in (text, f"{text} (2001): {text}. ACL", f"A (2001): {text}", f"A (2001): x. {text}"):
        entries = parse(bibtex([(reference, text)], text))
        assert entries["rbench"]["kind"] == "misc"
        for field in (value for entry in entries.values() for value in entry.values()):
            plain = re.sub(r"\\text\w+", "", field)
            assert not re.search(r"(?<!\\)[&%$#_~^]", plain) and "\\\\" not in plain


def test_a_page_cites_what_its_attacks_look_up_and_nothing_else(page_file: Path) -> None:
    shown = re.search(r"BibTeX of what was used</summary><pre[^>]*>(.*?)</pre>", page_file.read_text(), re.S)
    entries = parse(html.unescape(shown[1]))
    assert entries["miller1995wordnet"]["annote"] == "used for synonyms"
    assert entries["miller1995wordnet"]["journal"] == "Communications of the ACM"
    assert "morris2020textattack" in entries and not {"cer2018universal", "mrksic2016counter"} & entries.keys()


@pytest.mark.parametrize("folder", ["attacks", "rbench/encoders", "rbench/tasks", "rbench/contrast"])
def test_every_reference_of_our_files_is_read(folder: str) -> None:
    stated = {file.stem: yaml.safe_load(file.read_text()).get("reference") for file in (ROOT / folder).glob("*.yaml")}
    used = {name: said for name, said in stated.items() if said and not said.startswith("none")}
    assert used
    for said in (*used.values(), TEXTATTACK, *RESOURCES.values()):
        entries = parse(bibtex([(said, "it")], ""))
        assert entries.pop("rbench") and entries
        for key, found in entries.items():
            if said.startswith("Anonymous"):  # a manuscript without a year
                assert found["note"] == said
                continue
            assert key.isascii() and found["year"] in said and "title" in found and "note" not in found
            for author in found["author"].removesuffix(" and others").split(" and "):
                assert author in said
