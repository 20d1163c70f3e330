"""docs/claims.md says what `rbench claims --paper` says of the sentences that do not hold in full.

Many sentences are counted here again, by plain arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import product
from pathlib import Path

import pytest

from rbench import api
from rbench.papers import tables as printed
from rbench.papers.claims import SENTENCE_VERDICTS, PrintedClaimVerdict, count_by_sentence, format_gap

PAGE = (Path(__file__).parents[1] / "docs" / "claims.md").read_text(encoding="utf-8")
PRINTED = dict(re.findall(r"^\| `([a-z0-9-]+)` \| [^|]+ \| ([^|]+) \|", PAGE, re.MULTILINE))
PAPERS = {"rse": "RobustSentEmbed", "vadv": "V-advCSE", "adcl": "ADCL", "cline": "CLINE"}
JUDGED = api.paper_claims("all")
SENTENCES = count_by_sentence(JUDGED)


def grid(name: str) -> dict[tuple[str, ...], Decimal]:
    """The numbers of a table by the labels of their row and the name of their column."""
    return {
        (*found.row.values(), found.column): Decimal(found.cell.printed)
        for found in printed.load_printed_table(name).found()
        if found.cell.printed is not None
    }


RSE = {number: grid(f"robustsentembed-table{number}") for number in range(1, 7)}
VADV = {number: grid(f"vadvcse-table{number}") for number in range(1, 7)}
ADCL = {number: grid(f"adcl-table{number}") for number in (1, 2, 3, 4, 6, 7, 8)}
CLINE = {number: grid(f"cline-table{number}") for number in (2, 4, 5, 6, 7)}

ATTACKS = ("TextFooler", "TextBugger", "PWWS", "BAE", "BERTAttack")
TASKS = ("imdb", "mr", "sst2", "yelp", "mrpc", "snli", "mnli_mismatched")
ADV_STS = ("advstsb", "advsickr")
STS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
TRANSFER = ("mr", "cr", "subj", "mpqa", "sst2", "mrpc")
OURS, BEFORE = "RobustSentEmbed", "RobustEmbed"
BASES = ("BERTbase", "RoBERTabase", "RoBERTalarge")

DATA = ("AG", "Yelp", "IMDB", "DBpedia")
ADCL_ATTACKS = ("geometry", "textfooler", "pwws", "bae")
SETS = ("imdb", "perspectrum", "boolq", "snli")
SCORES = ("ori", "rev", "con")


def of(holds: Iterable[bool]) -> str:
    judged = list(holds)
    return f"{sum(judged)} of {len(judged)}"


def gained(points: Decimal) -> str:
    """What stands on the page for a sentence with one combination that holds."""
    return f"1 of 1, {points:+.2f}"


def rse(number: int, other: str, columns: Iterable[str], limit: Decimal = Decimal(1)) -> str:
    """In how many cells RobustSentEmbed is below `limit` times another encoder."""
    table = RSE[number]
    cells = product(ATTACKS, columns)
    return of(table[a, f"{OURS}-BERTbase", c] < limit * table[a, f"{other}-BERTbase", c] for a, c in cells)


def best(number: int, columns: Iterable[str], bases: Iterable[str], without: tuple[str, ...] = ()) -> str:
    """In how many columns and bases RobustSentEmbed is above all other encoders of that base."""
    table = RSE[number]
    judged = []
    for base, column in product(bases, columns):
        mine = f"{OURS}-{base}"
        rows = {label for label, _ in table if base in label} - {mine, *(f"{name}-{base}" for name in without)}
        judged.append(all(table[mine, column] > table[row, column] for row in rows))
    return of(judged)


def over(number: int, other: str) -> str:
    table = RSE[number]
    return gained(table[f"{OURS}-BERTbase", "mean"] - table[f"{other}-BERTbase", "mean"])


def adcl(kind: str, first: tuple[str, str], second: tuple[str, str], attacks: Iterable[str] = ADCL_ATTACKS) -> str:
    """In how many cells of Table 1 (pre-training, fine-tuning) `first` is below `second`."""
    t = ADCL[1]
    return of(t[d, *first, f"{kind}-{a}"] < t[d, *second, f"{kind}-{a}"] for d, a in product(DATA, attacks))


def space(what: str, fine: Iterable[str], sign: int) -> str:
    t = ADCL[4]
    pairs = product(DATA, fine)
    return of(sign * (t[d, f"adcl-{f}-{what}"] - t[d, f"np-{f}-{what}"]) > 0 for d, f in pairs)


def out(first: tuple[str, str], second: tuple[str, str]) -> str:
    """In how many cells of ADCL's Table 2 the success rate of `first` is below that of `second`."""
    t, cells = ADCL[2], product(("AG", "IMDB"), ADCL_ATTACKS)
    return of(t[d, *first, f"asr-{a}"] < t[d, *second, f"asr-{a}"] for d, a in cells)


def faster(attack: str) -> list[Decimal]:
    t = ADCL[7]
    return [t[attack, task] / t["Geometry", task] for task in ("ag_news", "imdb", "dbpedia", "yelp")]


def gain(share: str, task: str, score: str) -> Decimal:
    return CLINE[6][task, "CLINE", f"{share}-{score}"] - CLINE[6][task, "RoBERTa", f"{share}-{score}"]


def part(first: str, second: str, shares: Iterable[str] = ("1", "10", "100")) -> str:
    """In how many cells of CLINE's Table 6 the row `first` is above `second`."""
    t, cells = CLINE[6], product(("PERSPECTRUM", "BoolQ"), shares, SCORES)
    return of(t[task, first, f"{s}-{m}"] > t[task, second, f"{s}-{m}"] for task, s, m in cells)


def mean_gain(table: dict[tuple[str, ...], Decimal], columns: Iterable[str], *row: str) -> str:
    gains = [table["CLINE", *row, c] - table["RoBERTa", *row, c] for c in columns]
    return gained(sum(gains, Decimal(0)) / len(gains))


def freelb(kind: str, sign: int) -> str:
    t, cells = CLINE[2], product(("BERT-base", "RoBERTa-base"), ("imdb", "snli"))
    return of(sign * (t[e, "FreeLB", f"{c}-{kind}"] - t[e, "Vanilla", f"{c}-{kind}"]) > 0 for e, c in cells)


def dropped(encoder: str, task: str) -> Decimal:
    return CLINE[2][encoder, "Vanilla", f"{task}-rev"] - CLINE[2][encoder, "FreeLB", f"{task}-rev"]


def contrast_gain(task: str, score: str) -> Decimal:
    return CLINE[4]["CLINE", f"{task}-{score}"] - CLINE[4]["RoBERTa", f"{task}-{score}"]


def bertattack_ratio() -> str:
    ours, theirs = (RSE[1]["BERTAttack", f"{name}-BERTbase", "mean"] for name in (OURS, "SimCSE"))
    return f"1 of 1, ×{ours / theirs:.3f}"


HALF = Decimal("0.5")
VSIM, VOURS = "SimCSE-BERTbase", "V-advCSE-BERTbase"
ROUNDS = tuple(f"{split}-r{number}" for split in ("dev", "test") for number in (1, 2, 3))
HITS = ("cls", "mean", "bertscore")

CHECKS: dict[str, Callable[[], str]] = {
    "rse-bertattack-half": bertattack_ratio,
    "rse-below-simcse": lambda: rse(1, "SimCSE", TASKS),
    "rse-below-uscal": lambda: rse(1, "USCAL", TASKS),
    "rse-half-of-simcse": lambda: rse(1, "SimCSE", TASKS, HALF),
    "rse-half-of-uscal": lambda: rse(1, "USCAL", TASKS, HALF),
    "rse-half-of-simcse-mean": lambda: rse(1, "SimCSE", ["mean"], HALF),
    "rse-lowest-mean": lambda: of(
        all(RSE[1][a, f"{OURS}-BERTbase", "mean"] < RSE[1][a, e, "mean"] for e in others)
        for a in ATTACKS
        for others in [{e for _, e, _ in RSE[1]} - {f"{OURS}-BERTbase"}]
    ),
    "rse-below-robustembed": lambda: rse(1, BEFORE, TASKS),
    "rse-advsts-below-simcse": lambda: rse(2, "SimCSE", ADV_STS),
    "rse-advsts-below-uscal": lambda: rse(2, "USCAL", ADV_STS),
    "rse-advsts-half-of-simcse": lambda: rse(2, "SimCSE", ADV_STS, HALF),
    "rse-advsts-half-of-simcse-mean": lambda: rse(2, "SimCSE", ["mean"], HALF),
    "rse-advsts-below-robustembed": lambda: rse(2, BEFORE, ADV_STS),
    "rse-sts-gain": lambda: over(3, "USCAL"),
    "rse-sts-best-mean": lambda: best(3, ["mean"], BASES),
    "rse-sts-tasks-bert": lambda: best(3, STS, ["BERTbase"]),
    "rse-sts-tasks-bert-older": lambda: best(3, STS, ["BERTbase"], (BEFORE,)),
    "rse-sts-tasks-roberta-base": lambda: best(3, STS, ["RoBERTabase"]),
    "rse-sts-tasks-roberta-large": lambda: best(3, STS, ["RoBERTalarge"]),
    "rse-sts-above-robustembed": lambda: of(
        RSE[3][f"{OURS}-{base}", "mean"] > RSE[3][f"{BEFORE}-{base}", "mean"] for base in BASES
    ),
    "rse-transfer-gain": lambda: over(4, "USCAL"),
    "rse-transfer-best-mean": lambda: best(4, ["mean"], BASES),
    "rse-transfer-tasks-bert": lambda: best(4, TRANSFER, ["BERTbase"]),
    "rse-transfer-tasks-bert-older": lambda: best(4, TRANSFER, ["BERTbase"], (BEFORE,)),
    "vadv-sts-gain": lambda: gained(VADV[1][VOURS, "mean"] - VADV[1][f"{VSIM} (reproduced)", "mean"]),
    "vadv-sts-tasks": lambda: of(VADV[1][VOURS, c] == max(v for (_, d), v in VADV[1].items() if d == c) for c in STS),
    "vadv-anli": lambda: of(VADV[3][VOURS, c] > VADV[3][VSIM, c] for c in ROUNDS),
    "vadv-transfer-gain": lambda: gained(VADV[2][VOURS, "mean"] - VADV[2][VSIM, "mean"]),
    "vadv-transfer-tasks": lambda: of(VADV[2][VOURS, c] > VADV[2][VSIM, c] for c in (*TRANSFER, "trec")),
    "vadv-batchnorm": lambda: of(
        VADV[4][e, "w/ BatchNorm", c] > VADV[4][e, "w/o BatchNorm", c]
        for e, c in product(("V-advCSE", "SimCSE"), ("stsb", "senteval"))
    ),
    "vadv-symmetric": lambda: of(
        VADV[5][f, c] > VADV[5]["KL", c] for f, c in product(("Sym KL", "JS KL"), ("stsb", "senteval"))
    ),
    "adcl-below-np": lambda: adcl("asr", ("ADCL", "FTC"), ("NP", "FTC")),
    "adcl-btcl-below-np": lambda: adcl("asr", ("BTCL", "FTC"), ("NP", "FTC")),
    "adcl-geometry-ag": lambda: of(
        ADCL[1]["AG", "NP", "FTC", "asr-geometry"] - ADCL[1]["AG", p, "FTC", "asr-geometry"] >= Decimal("5.6")
        for p in ("BTCL", "ADCL")
    ),
    "adcl-adv-below-adv": lambda: adcl("asr", ("ADCL", "ADV"), ("NP", "ADV")),
    "adcl-adv-replaced-geometry": lambda: adcl("replaced", ("NP", "ADV"), ("ADCL", "ADV"), ["geometry"]),
    "adcl-transfer": lambda: of(
        ADCL[3][row, attack, "adcl-to-np"] > value
        for (row, attack, column), value in ADCL[3].items()
        if column == "np-to-adcl"
    ),
    "adcl-out-below-np": lambda: out(("Out-of-Domain", "ADCL"), ("-", "NP")),
    "adcl-out-textfooler-imdb": lambda: of(
        ADCL[2]["IMDB", *row, "asr-textfooler"] == Decimal(value)
        for row, value in ((("-", "NP"), "98.7"), (("Out-of-Domain", "ADCL"), "92.3"))
    ),
    "adcl-in-below-out": lambda: out(("In-Domain", "ADCL"), ("Out-of-Domain", "ADCL")),
    "adcl-neg-farther": lambda: space("neg", ("ftc", "adv"), 1),
    "adcl-pos-nearer": lambda: space("pos", ("ftc",), -1),
    "adcl-delta-larger": lambda: space("delta", ("ftc", "adv"), 1),
    "adcl-adv-nearest": lambda: of(
        all(ADCL[4][d, "adcl-adv-pos"] < ADCL[4][d, f"{other}-pos"] for other in ("np-ftc", "adcl-ftc", "np-adv"))
        for d in DATA
    ),
    "adcl-speed-textfooler": lambda: of(ratio >= 4 for ratio in faster("TextFooler")),
    "adcl-speed-pwws-bae-4": lambda: of(ratio >= 4 for attack in ("PWWS", "BAE-R") for ratio in faster(attack)),
    "cline-freelb-adv": lambda: freelb("adv", 1),
    "cline-freelb-rev": lambda: freelb("rev", -1),
    "cline-freelb-bert-more": lambda: of(
        dropped("BERT-base", t) > dropped("RoBERTa-base", t) for t in ("imdb", "snli")
    ),
    "cline-contrast-gain": lambda: mean_gain(CLINE[4], [f"{task}-rev" for task in SETS]),
    "cline-adversarial-gain": lambda: mean_gain(CLINE[5], ["imdb", "ag_news", "mr", "snli"], "Vanilla"),
    "cline-con-most": lambda: of(
        contrast_gain(t, "con") > max(contrast_gain(t, "ori"), contrast_gain(t, "rev")) for t in SETS
    ),
    "cline-above-roberta": lambda: part("CLINE", "RoBERTa"),
    "cline-low-resource": lambda: of(
        gain(share, t, m) > gain("100", t, m) for share, t, m in product(("1", "10"), ("PERSPECTRUM", "BoolQ"), SCORES)
    ),
    "cline-without-rtd": lambda: part("CLINE", "w/o RTD"),
    "cline-without-negative": lambda: part("CLINE", "w/o Hard Negative"),
    "cline-negative-counts-more": lambda: part("w/o RTD", "w/o Hard Negative"),
    "cline-hits-bert": lambda: of(CLINE[7]["CLINE-B", c] > CLINE[7]["BERT", c] for c in HITS),
    "cline-hits-roberta": lambda: of(CLINE[7]["CLINE-R", c] > CLINE[7]["RoBERTa", c] for c in HITS[1:]),
    "cline-roberta-below-bert": lambda: of(CLINE[7]["RoBERTa", c] < CLINE[7]["BERT", c] for c in HITS[1:]),
}


def shown(name: str) -> str:
    """What the page prints for a sentence, by the verdicts on its parts."""
    found = SENTENCES[name]
    return f"{found.holding} of {found.of}" + (f", {format_gap(parts(name)[0])}" if found.of == 1 else "")


def parts(name: str) -> list[PrintedClaimVerdict]:
    return [one for one in JUDGED if one.claim.id.partition(".")[0] == name]


def test_ids_are_there_once() -> None:
    assert len(PRINTED) == PAGE.count("\n| `")
    ids = [one.claim.id for one in JUDGED]
    assert len(ids) == len(set(ids)) and all(name.split("-")[0] in PAPERS for name in ids)


def test_the_page_has_the_sentences_that_do_not_hold_in_full() -> None:
    short = {name for name, one in SENTENCES.items() if one.verdict != "in full"}
    assert PRINTED.keys() - CHECKS.keys() <= short <= PRINTED.keys()
    assert f"Of the {len(short)} below" in PAGE
    assert all(PRINTED[name] == shown(name) for name in short)


def test_every_sentence_names_its_place_in_the_paper() -> None:
    papers = {"rse": "Rob", "vadv": "V-", "adcl": "AD", "cline": "CL"}
    for one in JUDGED:
        assert one.claim.source.startswith(papers[one.claim.id.split("-")[0]])
        assert re.search(r"section|abstract|appendix|Table", one.claim.source)


@pytest.mark.parametrize("name", CHECKS)
def test_plain_arithmetic_says_the_same(name: str) -> None:
    assert CHECKS[name]() == (shown(name) if name in SENTENCES else PRINTED[name])


def test_more_than_a_third_is_counted_twice() -> None:
    assert 3 * len(CHECKS.keys() & SENTENCES.keys()) > len(SENTENCES)
    assert PRINTED.keys() <= SENTENCES.keys() | CHECKS.keys()


def test_the_summary_counts_the_sentences() -> None:
    for start, paper in {**PAPERS, "": "all"}.items():
        found = [one.verdict for name, one in SENTENCES.items() if name.startswith(start)]
        counts = " | ".join(str(found.count(verdict)) for verdict in SENTENCE_VERDICTS)
        assert f"\n| {paper} | {len(found)} | {counts} |\n" in PAGE


@pytest.mark.parametrize(
    ("name", "count", "verdict"),
    [
        ("rse-sts-tasks-bert-older", 6, "in full"),
        ("rse-transfer-tasks-bert-older", 4, "in full"),
        ("rse-sts-tasks-roberta-base", 5, "in full"),
        ("rse-sts-tasks-bert", 6, "in part"),
        ("rse-sts-tasks-roberta-large", 5, "in part"),
        ("rse-transfer-tasks-bert", 4, "in part"),
    ],
)
def test_which_sentences_have_the_count_that_they_name(name: str, count: int, verdict: str) -> None:
    assert SENTENCES[name].needed == count < SENTENCES[name].of
    assert (SENTENCES[name].holding >= count) == (verdict == "in full")
    assert SENTENCES[name].verdict == verdict


def test_readings_of_ours_are_among_the_sentences_that_do_not_hold_in_full() -> None:
    (said,) = re.findall(r"five are readings of ours(.+?)\n\n", PAGE, re.DOTALL)
    named = re.findall(r"`([a-z-]+)`", said)
    assert len(named) == 5 and all(SENTENCES[name].verdict == "in part" for name in named)


def test_the_numbers_of_second_bests() -> None:
    assert RSE[3]["RobustSentEmbed-BERTbase", "mean"] - RSE[3]["RobustEmbed-BERTbase", "mean"] == Decimal("0.39")
    assert RSE[4]["RobustEmbed-BERTbase", "mean"] - RSE[4]["RobustSentEmbed-BERTbase", "mean"] == Decimal("0.17")
