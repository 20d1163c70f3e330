"""BibTeX of what a RUN used, read back by pybtex."""

from __future__ import annotations

import html
import re
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from pybtex.database import parse_file, parse_string

from rbench.config.references import BIB_FILE, bib_entries
from rbench.report.provenance import write_bibtex


def parse(text: str) -> dict[str, dict[str, str]]:
    """Return the entries by key, each with its fields and its `kind`. What is no BibTeX, and a second entry of one key,
    raises."""
    return {
        key: {"kind": entry.type, **entry.fields, "author": " and ".join(map(str, entry.persons.get("author", [])))}
        for key, entry in parse_string(text, "bibtex").entries.items()
    }


def test_a_key_gives_the_entry_as_it_stands_in_the_file_and_says_what_it_is_of() -> None:
    found = parse(write_bibtex([("gao2021simcse", "x"), ("liu2019roberta", "y"), ("gao2021simcse", "z")], "1.2"))
    assert list(found) == ["gao2021simcse", "liu2019roberta", "rbench"]
    assert found["gao2021simcse"].pop("annote") == "used for x, z" and found["liu2019roberta"]["annote"] == "used for y"
    assert found["gao2021simcse"] == parse(BIB_FILE.read_text(encoding="utf-8"))["gao2021simcse"]
    assert found["gao2021simcse"]["author"] == "Gao, Tianyu and Yao, Xingcheng and Chen, Danqi"
    assert found["rbench"]["note"] == "Version 1.2"


def test_the_text_of_every_entry_is_what_pybtex_reads_of_the_file() -> None:
    whole = parse_file(BIB_FILE, "bibtex").entries
    assert list(bib_entries()) == list(whole) and not {"rbench", "used-1"} & whole.keys()
    assert parse(write_bibtex([(key, "it") for key in bib_entries()], "")).keys() == {*whole, "rbench"}


def test_a_free_text_is_a_note_and_nothing_is_nothing() -> None:
    found = parse(
        write_bibtex([("Somebody: a thing, 5%", "x"), ("Another one", "y"), ("Somebody: a thing, 5%", "z")], "")
    )
    assert {key: (entry["kind"], entry.get("note"), entry.get("annote")) for key, entry in found.items()} == {
        "used-1": ("misc", r"Somebody: a thing, 5\%", "used for x, z"),
        "used-2": ("misc", "Another one", "used for y"),
        "rbench": ("misc", None, None),
    }
    assert parse(write_bibtex([("none; a control of rbench's own", "x")], "")).keys() == {"rbench"}


@settings(max_examples=30)
@example(",,,")
@example("\n}\n")
@given(st.text(alphabet='\\{}&%$#_~^@"=,;.: ()aB1é\n', max_size=40))
def test_any_text_stays_within_its_braces(text: str) -> None:
    found = parse(write_bibtex([(f"a {text}", text), ("gao2021simcse", text)], text))
    assert found.keys() == {"used-1", "gao2021simcse", "rbench"} and found["gao2021simcse"]["year"] == "2021"
    for field in (found["used-1"]["note"], *(entry.get("annote", "") for entry in found.values())):
        plain = re.sub(r"\\text\w+", "", field)
        assert not re.search(r"(?<!\\)[&%$#_~^]", plain) and "\\\\" not in plain


def test_a_page_cites_what_its_run_used_and_nothing_else(page_file: Path) -> None:
    shown = re.search(r"BibTeX of what was used</summary><pre[^>]*>(.*?)</pre>", page_file.read_text(), re.S)
    found = parse(html.unescape(shown[1]))
    assert found["miller1995wordnet"]["annote"] == "used for synonyms"
    assert found["miller1995wordnet"]["journal"] == "Communications of the ACM"
    assert found["used-1"]["note"] == "Me, 2026" and found["used-1"]["annote"] == "used for pwws"
    named = {"pang2005seeing", "ren2019generating", "miller1995wordnet", "morris2020textattack"}
    assert found.keys() == {*named, "used-1", "rbench"}
