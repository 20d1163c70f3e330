"""Sheets for raters, and their answers taken back: blind on the way out, all or nothing on the way in."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from typer.testing import CliRunner

from rbench import api
from rbench.api.judge import Exported
from rbench.cli import app
from rbench.errors import StoreError
from rbench.report.sheet import ANSWERS, DrawnSheet, draw_sheet, may_pass_on, sheet_as_csv
from rbench.schema.judged import TEXTS
from rbench.store import judged
from rbench.store.runs import RunStore
from rbench.tables import Results
from tests.raters import Rater, file_of, mini_run
from tests.refusals import nearest
from tests.report.conftest import write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return mini_run(tmp_path / "run", encoders=("minilm", "bert_b"), n=40)


@pytest.fixture
def exported(run: Path) -> Exported:
    return api.judge_export(run, run.parent / "sheet", per_cell=10, raters=2)


def drawn_of(run: Path, per_cell: int = 10, raters: int = 2) -> DrawnSheet:
    return draw_sheet(Results.of(RunStore(run)), per_cell, raters, 0)


def filled(run: Path, exported: Exported, *raters: Rater) -> list[Path]:
    """Write the files that raters send back."""
    drawn = drawn_of(run)
    assert drawn.sheet == exported.sheet
    shown = {one.item.id: one.texts for one in drawn.asked}
    made = []
    for rater in raters:
        made.append(exported.folder / "answers" / f"{rater.number}.csv")
        made[-1].parent.mkdir(exist_ok=True)
        made[-1].write_text(file_of(rater.answers(exported.sheet, shown)))
    return made


# ------------------------------------------------------------------------------------------------------------ to raters


def test_each_cell_is_drawn_with_originals_pairs_repeats_and_checks_of_attention(run: Path) -> None:
    drawn = drawn_of(run)
    assert {item.kind for item in drawn.sheet.items if item.repeats is None} == {"changed", "original", "pair", "other"}
    plan = RunStore(run).plan()
    assert plan is not None
    for job in plan.attacks:
        uses = {use for item in drawn.sheet.items if item.kind == "changed" for use in item.uses if use[0] == job.key}
        assert len(uses) == 10
    repeats = [item for item in drawn.sheet.items if item.repeats is not None]
    assert len(drawn.sheet.items) / 12 < len(repeats) < len(drawn.sheet.items) / 8
    assert {drawn.sheet.by_id[item.repeats or ""].kind for item in repeats} >= {"pair"}


def test_the_same_run_and_seed_give_the_same_sheet_and_another_seed_another(run: Path, tmp_path: Path) -> None:
    contents = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        made = api.judge_export(run, tmp_path / name, per_cell=10, raters=2, seed=seed)
        contents.append([(tmp_path / name / "key.json").read_bytes(), *(path.read_bytes() for path in made.files)])
    assert contents[0] == contents[1] and not set(contents[0]) & set(contents[2])


def test_a_sheet_of_many_seeds_takes_the_same_share_of_each(tmp_path: Path) -> None:
    run = mini_run(tmp_path / "run", seeds=(0, 1, 2), n=40)
    items = drawn_of(run, per_cell=30).sheet.items
    keys = [key for item in items if item.kind == "changed" and item.repeats is None for key, _ in item.uses]
    fell = {record.job.key: record.counts["succeeded"] for record in RunStore(run).records()}
    assert {key: keys.count(key) for key in fell} == {
        key: round(30 * n / sum(fell.values())) for key, n in fell.items()
    }


def page_of(exported: Exported, rater: int) -> dict[str, list[dict[str, list[list[str]]]]]:
    text = (exported.folder / "raters" / f"rater-{rater}.html").read_text()
    found = re.search(r'id="data">(.*?)</script>', text)
    assert found is not None
    return json.loads(found[1])  # type: ignore[no-any-return]


def test_neither_order_nor_id_nor_format_tells_originals_from_changed_texts(tmp_path: Path) -> None:
    """A classifier that sees all but the words of a text does no better than chance, on page and in CSV file."""
    run = mini_run(tmp_path / "run", n=400)
    made = api.judge_export(run, tmp_path / "sheet", per_cell=200, raters=2)
    kinds = {item.id: item.kind for item in made.sheet.items}
    again = {item.id for item in made.sheet.items if item.repeats is not None}
    for rater in (1, 2):
        items = page_of(made, rater)["items"]
        assert {tuple(item) for item in items} == {("id", "task", "texts")}
        texts = [(place, item) for place, item in enumerate(items) if kinds[str(item["id"])] in TEXTS]
        assert [place for place, _ in texts] == [*range(len(texts))], "single texts come before pairs"
        features = np.array(
            [
                [place, int(item["id"][1:], 16), *(int(c, 16) for c in item["id"][1:]), len(json.dumps(item)) % 7]
                for place, item in texts
            ]
        )
        changed = np.array([kinds[str(item["id"])] == "changed" for _, item in texts])
        repeated = np.array([str(item["id"]) in again for _, item in texts])
        for asked in (changed, repeated) if rater == 1 else ():  # each fit takes seconds
            forest = RandomForestClassifier(100, random_state=0, min_samples_leaf=5)
            auc = cross_val_score(forest, features, asked, cv=5, scoring="roc_auc")
            assert 0.4 < auc.mean() < 0.6, auc
        rows = list(csv.DictReader(io.StringIO((made.folder / "raters" / f"rater-{rater}.csv").read_text())))
        assert [row["item"] for row in rows] == [item["id"] for item in items]
        assert len({(row["choices"], row["task"], row["label"]) for row in rows[: len(texts)]}) == 1
    first, second = ([item["id"] for item in page_of(made, rater)["items"]] for rater in (1, 2))
    assert sorted(map(str, first)) == sorted(map(str, second)) and first != second


def test_the_key_is_in_no_file_that_raters_get(exported: Exported) -> None:
    for path in exported.files:
        text = path.read_text()
        for item in exported.sheet.items:
            assert item.text not in text and not any(key in text or example in text for key, example in item.uses)
        assert "original" not in text.replace("originals", "").lower() and "perturbed" not in text


def test_what_a_spreadsheet_would_compute_is_sent_as_text(run: Path) -> None:
    drawn = drawn_of(run)
    hostile = drawn._replace(asked=(drawn.asked[0]._replace(texts=(('=HYPERLINK("http://x")',),)),))
    (row,) = csv.DictReader(io.StringIO(sheet_as_csv(hostile, 1)))
    assert row["first"].startswith("'=")


@pytest.mark.parametrize(
    ("licence", "open_"),
    [
        ("Apache-2.0", True),
        ("CC BY-SA 3.0", True),
        ("cc-by-4.0", True),
        ("", False),
        ("not stated", False),
        ("CC BY-NC 4.0 (ANLI); CC BY-SA 4.0 (SNLI)", False),
        ("OANC and others, by genre", False),
        ("Microsoft Shared Source License MSR-SSLA, non-commercial", False),
    ],
)
def test_texts_are_marked_unless_their_licence_is_known_to_be_open(licence: str, open_: bool) -> None:
    assert may_pass_on(licence) is open_


def test_a_run_without_texts_or_without_successes_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        api.judge_export(api.strip(run), tmp_path / "sheet")
    with pytest.raises(StoreError):
        api.judge_export(mini_run(tmp_path / "held", fell=0.0), tmp_path / "sheet")
    assert not (tmp_path / "sheet").exists()


# ---------------------------------------------------------------------------------------------------------- from raters


def test_answers_are_kept_with_the_run_and_survive_pack_strip_and_verify(run: Path, exported: Exported) -> None:
    paths = filled(run, exported, Rater(1), Rater(2, careless=0.3))
    found = api.judge_import(run, paths)
    ((rater, left),) = found.missing
    assert found.raters == (1, 2) and rater == 2 and left + found.answers == 2 * len(exported.sheet.items)
    before = judged.read_judgements(RunStore(run))
    assert before is not None and not api.verify(run).damaged
    zipped = api.pack(run).path
    assert judged.read_judgements(RunStore(zipped)) == before and not api.verify(zipped).damaged
    assert judged.read_judgements(RunStore(api.unpack(zipped, run.parent / "again").path)) == before
    assert judged.read_judgements(RunStore(api.strip(run))) == before and not api.verify(f"{run}-stripped").damaged
    with pytest.raises(StoreError):
        api.judge_import(zipped, filled(run, exported, Rater(1)))


def test_merging_says_that_answers_are_imported_again(run: Path, exported: Exported, tmp_path: Path) -> None:
    paths = filled(run, exported, Rater(1))
    api.judge_import(run, paths)
    shutil.copytree(run, tmp_path / "other")
    merged = api.merge([run, tmp_path / "other"], tmp_path / "merged")
    assert (
        any("rbench judge import" in note for note in merged.notes)
        and judged.read_judgements(RunStore(merged.run)) is None
    )
    assert api.judge_import(merged.run, paths).raters == (1,)


def test_raters_may_come_one_after_the_other_but_not_twice(run: Path, exported: Exported) -> None:
    one, other = filled(run, exported, Rater(1), Rater(2))
    api.judge_import(run, [one])
    assert api.judge_import(run, [other]).raters == (1, 2)
    with pytest.raises(StoreError):
        api.judge_import(run, [other])


def test_damaged_answers_in_a_run_are_found_by_verify(run: Path, exported: Exported) -> None:
    api.judge_import(run, filled(run, exported, Rater(1)))
    path = run / "judged.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"label": 1', b'"label": 0', 1))
    (finding,) = [one for one in api.verify(run).findings if one.damage]
    assert "judged.json is damaged" in finding.text and "import the answers again" in finding.text
    said = judged.read_judgements(RunStore(_rewritten(run, whole)))
    assert said is not None
    other = said.model_copy(update={"answers": (said.answers[0].model_copy(update={"label": 7}), *said.answers)})
    judged.write_judgements(RunStore(run), other)
    found = [one.text for one in api.verify(run).findings if one.damage]
    assert any("is none to that question" in text for text in found) and any("twice" in text for text in found)


def _rewritten(run: Path, whole: bytes) -> Path:
    (run / "judged.json").write_bytes(whole)
    return run


Damage = Callable[[list[list[str]]], list[list[str]]]


def set_(column: str, value: str, kind: tuple[str, ...] = TEXTS) -> Damage:
    """Change a column of the first row about an item of a kind."""

    def change(rows: list[list[str]]) -> list[list[str]]:
        at = ANSWERS.index("label" if kind == TEXTS else "meaning")
        row = next(row for row in rows if row[at])
        row[ANSWERS.index(column)] = value
        return rows

    return change


MISTAKES: tuple[tuple[Damage, str], ...] = (
    (lambda rows: [*rows, rows[0]], "1.csv:2"),
    (set_("sheet", "abcdefabcdef"), "abcdefabcdef"),
    (set_("label", "positve"), nearest("positive")),
    (set_("label", "=1+1"), "=1+1"),
    (set_("natural", "maybe"), "maybe"),
    (set_("meaning", "6", ("pair",)), "meaning"),
    (set_("meaning", "5"), "meaning"),
    (set_("label", "positive", ("pair",)), "label"),
    (set_("rater", "3"), "'3'"),
    (set_("item", "000000000000"), "000000000000"),
    (lambda rows: [*rows, rows[0][:4]], "4 fields"),
)


def test_a_mistake_in_a_file_is_one_line_and_nothing_is_imported(run: Path, exported: Exported) -> None:
    one, other = filled(run, exported, Rater(1), Rater(2))
    whole = one.read_text()
    for damage, named in MISTAKES:
        header, *rows = csv.reader(io.StringIO(whole))
        one.write_text(file_of(damage(rows), header))
        with pytest.raises(StoreError) as error:
            api.judge_import(run, [other, one])
        _, line = str(error.value).splitlines()
        assert re.search(r"1\.csv:\d+: ", line) and named in line
        assert not (run / "judged.json").exists()


def test_a_file_that_is_named_twice_is_refused_as_its_copy_is(run: Path, exported: Exported) -> None:
    (one,) = filled(run, exported, Rater(1))
    copy = one.with_name("copy.csv")
    shutil.copy(one, copy)
    for again in (one, one.parent / ".." / one.parent.name / one.name, copy):
        with pytest.raises(StoreError) as caught:
            api.judge_import(run, [one, again])
        assert "1.csv:2" in str(caught.value)
    assert not (run / "judged.json").exists()


def test_many_mistakes_are_all_named(run: Path, exported: Exported) -> None:
    (one,) = filled(run, exported, Rater(1))
    one.write_text(one.read_text().replace(",positive,", ",good,").replace(",5,", ",9,"))
    with pytest.raises(StoreError) as error:
        api.judge_import(run, [one])
    lines = str(error.value).splitlines()
    assert len(lines) == 22 and lines[-1].startswith("and ") and all(f"{one}:" in line for line in lines[1:-1])


def test_other_encodings_are_told_with_their_file_and_a_byte_order_mark_is_fine(run: Path, exported: Exported) -> None:
    (one,) = filled(run, exported, Rater(1))
    text = one.read_text().replace("\n", ",note é\n").replace(",note é", ",note", 1)
    for encoding in ("utf-16", "latin-1"):
        one.write_bytes(text.encode(encoding))
        with pytest.raises(StoreError) as caught:
            api.judge_import(run, [one])
        assert str(one) in str(caught.value)
    one.write_bytes(text.encode("utf-8-sig"))
    assert api.judge_import(run, [one]).raters == (1,)


def test_files_that_are_no_sheet_are_refused(run: Path, exported: Exported) -> None:
    path = exported.folder / "answers" / "1.csv"
    path.parent.mkdir()
    for content in ("sheet,rater,item\n", ",".join(ANSWERS) + "\n", ",".join(ANSWERS) + '\n"a,b'):
        path.write_text(content)
        with pytest.raises(StoreError) as caught:
            api.judge_import(run, [path])
        assert str(path) in str(caught.value)


def test_a_key_of_another_run_a_damaged_one_and_none_are_told(run: Path, exported: Exported, tmp_path: Path) -> None:
    paths = filled(run, exported, Rater(1))
    other = mini_run(tmp_path / "other", attacks=("pwws",), n=30, seed=5)
    with pytest.raises(StoreError):
        api.judge_import(other, paths)
    again = mini_run(tmp_path / "again", encoders=("minilm", "bert_b"), n=40, seed=5)
    with pytest.raises(StoreError):
        api.judge_import(again, paths)
    (exported.folder / "key.json").write_text("{}")
    with pytest.raises(StoreError) as caught:
        api.judge_import(run, paths)
    assert str(exported.folder / "key.json") in str(caught.value)
    (exported.folder / "key.json").unlink()
    with pytest.raises(StoreError):
        api.judge_import(run, paths)
    again = api.judge_export(run, tmp_path / "once-more", per_cell=10, raters=2).folder
    with pytest.raises(StoreError) as caught:
        api.judge_import(run, [again / "no.csv"])
    assert "no.csv" in str(caught.value)


def test_the_verbs_say_what_to_do_next(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "to-judge"
    made = CliRunner().invoke(
        app, ["judge", "export", str(run), "--out", str(out), "--per-cell", "10", "--raters", "2"]
    )
    assert made.exit_code == 0 and "keep it, and show it to no rater" in made.stdout, made.output
    exported = Exported(out, drawn_of(run).sheet, (), ())
    paths: Sequence[Path] = filled(run, exported, Rater(1, careless=0.5))
    taken = CliRunner().invoke(app, ["judge", "import", str(run), *map(str, paths)])
    assert taken.exit_code == 0 and "raters so far: 1" in taken.stdout and "items open" in taken.output
    wrong = CliRunner().invoke(app, ["judge", "import", str(run), *map(str, paths)])
    assert wrong.exit_code == 2 and "already" in wrong.output and "Traceback" not in wrong.output
    unlicensed = write_run(tmp_path / "unlicensed")
    marked = CliRunner().invoke(app, ["judge", "export", str(unlicensed), "--out", str(tmp_path / "mr")])
    assert "no licence clearly allows to pass on the texts of mr" in marked.output
    assert "Do not pass this page on" in (tmp_path / "mr" / "raters" / "rater-1.html").read_text()
