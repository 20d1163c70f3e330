"""docs/claims.md: what it says of the printed tables is recomputed here from results/paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import pairwise, product
from pathlib import Path

import pytest

from rbench.load import printed

PAGE = (Path(__file__).parents[1] / "docs" / "claims.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([a-z0-9-]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
KINDS = {"lower", "higher", "at least", "at most", "ratio", "ordering", "monotone", "none"}


def grid(name: str) -> dict[tuple[str, ...], Decimal]:
    """The numbers of a table by the labels of their row and the name of their column."""
    return {
        (*found.row.values(), found.column): Decimal(found.cell.printed)
        for found in printed.load(name).found()
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
    return f"{table[f'{OURS}-BERTbase', 'mean'] - table[f'{other}-BERTbase', 'mean']:+}"


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


def above(number: int, strategy: str) -> str:
    t, cells = CLINE[number], product(("BERT", "RoBERTa"), ("imdb", "ag_news", "mr", "snli"))
    return of(t["CLINE", strategy, c] > t[other, strategy, c] for other, c in cells)


def mean_gain(table: dict[tuple[str, ...], Decimal], columns: Iterable[str], *row: str) -> str:
    gains = [table["CLINE", *row, c] - table["RoBERTa", *row, c] for c in columns]
    return f"{sum(gains) / len(gains):+}"


def freelb(kind: str, sign: int) -> str:
    t, cells = CLINE[2], product(("BERT-base", "RoBERTa-base"), ("imdb", "snli"))
    return of(sign * (t[e, "FreeLB", f"{c}-{kind}"] - t[e, "Vanilla", f"{c}-{kind}"]) > 0 for e, c in cells)


def dropped(encoder: str, task: str) -> Decimal:
    return CLINE[2][encoder, "Vanilla", f"{task}-rev"] - CLINE[2][encoder, "FreeLB", f"{task}-rev"]


def contrast_gain(task: str, score: str) -> Decimal:
    return CLINE[4]["CLINE", f"{task}-{score}"] - CLINE[4]["RoBERTa", f"{task}-{score}"]


def bertattack_ratio() -> str:
    ours, theirs = (RSE[1]["BERTAttack", f"{name}-BERTbase", "mean"] for name in (OURS, "SimCSE"))
    return f"ratio {ours / theirs:.3f}"


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
    "rse-advsts-half-of-uscal": lambda: rse(2, "USCAL", ADV_STS, HALF),
    "rse-advsts-below-robustembed": lambda: rse(2, BEFORE, ADV_STS),
    "rse-advsts-headline": lambda: of(RSE[2]["BERTAttack", "SimCSE-BERTbase", c] == Decimal("71.86") for c in ["mean"]),
    "rse-sts-gain": lambda: over(3, "USCAL"),
    "rse-sts-best-mean": lambda: best(3, ["mean"], BASES),
    "rse-sts-second": lambda: over(3, BEFORE),
    "rse-sts-tasks-bert": lambda: best(3, STS, ["BERTbase"]),
    "rse-sts-tasks-bert-older": lambda: best(3, STS, ["BERTbase"], (BEFORE,)),
    "rse-sts-tasks-roberta-base": lambda: best(3, STS, ["RoBERTabase"]),
    "rse-sts-tasks-roberta-large": lambda: best(3, STS, ["RoBERTalarge"]),
    "rse-sts-above-robustembed": lambda: of(
        RSE[3][f"{OURS}-{base}", "mean"] > RSE[3][f"{BEFORE}-{base}", "mean"] for base in BASES
    ),
    "rse-transfer-gain": lambda: over(4, "USCAL"),
    "rse-transfer-second": lambda: over(4, BEFORE),
    "rse-transfer-best-mean": lambda: best(4, ["mean"], BASES),
    "rse-transfer-tasks-bert": lambda: best(4, TRANSFER, ["BERTbase"]),
    "rse-transfer-tasks-bert-older": lambda: best(4, TRANSFER, ["BERTbase"], (BEFORE,)),
    "rse-norm-linf": lambda: of(RSE[5]["L∞", "sts"] > RSE[5][norm, "sts"] for norm in ("L2", "L1")),
    "rse-rho-half": lambda: of(RSE[6]["0.5", "sts"] > RSE[6][rho, "sts"] for rho in ("0", "0.25", "0.75", "1")),
    "vadv-sts-gain": lambda: f"{VADV[1][VOURS, 'mean'] - VADV[1][f'{VSIM} (reproduced)', 'mean']:+}",
    "vadv-sts-best": lambda: of(
        VADV[1][VOURS, "mean"] > v for (e, c), v in VADV[1].items() if c == "mean" != e != VOURS
    ),
    "vadv-sts-tasks": lambda: of(VADV[1][VOURS, c] == max(v for (_, d), v in VADV[1].items() if d == c) for c in STS),
    "vadv-anli-gain": lambda: of(
        VADV[3][VOURS, c] - VADV[3]["SimCSE-BERTbase", c] >= Decimal("2.2") for c in ("dev-all", "test-all")
    ),
    "vadv-anli": lambda: of(VADV[3][VOURS, c] > VADV[3][VSIM, c] for c in (*ROUNDS, "dev-all", "test-all")),
    "vadv-transfer-gain": lambda: f"{VADV[2][VOURS, 'mean'] - VADV[2][VSIM, 'mean']:+}",
    "vadv-transfer-tasks": lambda: of(VADV[2][VOURS, c] > VADV[2][VSIM, c] for c in (*TRANSFER, "trec")),
    "vadv-batchnorm": lambda: of(
        VADV[4][e, "w/ BatchNorm", c] > VADV[4][e, "w/o BatchNorm", c]
        for e, c in product(("V-advCSE", "SimCSE"), ("stsb", "senteval"))
    ),
    "vadv-batchnorm-best": lambda: of(
        VADV[4]["V-advCSE", "w/ BatchNorm", row[2]] > value
        for row, value in VADV[4].items()
        if row[:2] != ("V-advCSE", "w/ BatchNorm")
    ),
    "vadv-symmetric": lambda: of(
        VADV[5][f, c] > VADV[5]["KL", c] for f, c in product(("Sym KL", "JS KL"), ("stsb", "senteval"))
    ),
    "vadv-js-best": lambda: of(
        VADV[5]["JS KL", c] > VADV[5][f, c] for f, c in product(("KL", "Sym KL"), ("stsb", "senteval"))
    ),
    "vadv-lambda": lambda: of(VADV[6]["1e-6", "stsb"] > value for (lam, _), value in VADV[6].items() if lam != "1e-6"),
    "adcl-below-np": lambda: adcl("asr", ("ADCL", "FTC"), ("NP", "FTC")),
    "adcl-btcl-below-np": lambda: adcl("asr", ("BTCL", "FTC"), ("NP", "FTC")),
    "adcl-below-btcl": lambda: adcl("asr", ("ADCL", "FTC"), ("BTCL", "FTC")),
    "adcl-geometry-ag": lambda: of(
        ADCL[1]["AG", "NP", "FTC", "asr-geometry"] - ADCL[1]["AG", p, "FTC", "asr-geometry"] >= Decimal("5.6")
        for p in ("BTCL", "ADCL")
    ),
    "adcl-adv-below-adv": lambda: adcl("asr", ("ADCL", "ADV"), ("NP", "ADV")),
    "adcl-adv-replaced-geometry": lambda: adcl("replaced", ("NP", "ADV"), ("ADCL", "ADV"), ["geometry"]),
    "adcl-adv-replaced-others": lambda: adcl("replaced", ("NP", "ADV"), ("ADCL", "ADV"), ADCL_ATTACKS[1:]),
    "adcl-transfer": lambda: of(
        ADCL[3][row, attack, "adcl-to-np"] > value
        for (row, attack, column), value in ADCL[3].items()
        if column == "np-to-adcl"
    ),
    "adcl-queue-monotone": lambda: of(
        ADCL[6][a, "asr"] > ADCL[6][b, "asr"] for a, b in pairwise(("8192", "16384", "32768"))
    ),
    "adcl-queue-too-large": lambda: of([ADCL[6]["65536", "asr"] > ADCL[6]["32768", "asr"]]),
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
    "adcl-speed-pwws-bae": lambda: of(4 <= ratio <= 10 for attack in ("PWWS", "BAE-R") for ratio in faster(attack)),
    "adcl-speed-pwws-bae-4": lambda: of(ratio >= 4 for attack in ("PWWS", "BAE-R") for ratio in faster(attack)),
    "adcl-onthefly": lambda: of(
        ADCL[8]["On-the-fly", f"asr-{a}"] < ADCL[8]["Pre-generated", f"asr-{a}"] for a in ADCL_ATTACKS
    ),
    "cline-freelb-adv": lambda: freelb("adv", 1),
    "cline-freelb-rev": lambda: freelb("rev", -1),
    "cline-freelb-bert-more": lambda: of(
        dropped("BERT-base", t) > dropped("RoBERTa-base", t) for t in ("imdb", "snli")
    ),
    "cline-contrast-gain": lambda: mean_gain(CLINE[4], [f"{task}-rev" for task in SETS]),
    "cline-adversarial-gain": lambda: mean_gain(CLINE[5], ["imdb", "ag_news", "mr", "snli"], "Vanilla"),
    "cline-contrast-best": lambda: of(
        CLINE[4]["CLINE", f"{t}-{m}"] > CLINE[4][e, f"{t}-{m}"]
        for e, t, m in product(("BERT", "RoBERTa"), SETS, ("rev", "con"))
    ),
    "cline-con-most": lambda: of(
        contrast_gain(t, "con") > max(contrast_gain(t, "ori"), contrast_gain(t, "rev")) for t in SETS
    ),
    "cline-original": lambda: of(
        CLINE[4]["CLINE", f"{t}-ori"] > CLINE[4][e, f"{t}-ori"] for e, t in product(("BERT", "RoBERTa"), SETS)
    ),
    "cline-adversarial": lambda: above(5, "Vanilla"),
    "cline-adversarial-freelb": lambda: above(5, "FreeLB"),
    "cline-above-roberta": lambda: part("CLINE", "RoBERTa"),
    "cline-low-resource": lambda: of(
        gain(share, t, m) > gain("100", t, m) for share, t, m in product(("1", "10"), ("PERSPECTRUM", "BoolQ"), SCORES)
    ),
    "cline-without-rtd": lambda: part("CLINE", "w/o RTD"),
    "cline-without-negative": lambda: part("CLINE", "w/o Hard Negative"),
    "cline-negative-counts-more": lambda: part("w/o RTD", "w/o Hard Negative"),
    "cline-cls-below-mean": lambda: of([CLINE[7]["BERT", "cls"] < CLINE[7]["BERT", "mean"]]),
    "cline-bertscore": lambda: of(CLINE[7][e, "bertscore"] > v for (e, c), v in CLINE[7].items() if c != "bertscore"),
    "cline-hits-bert": lambda: of(CLINE[7]["CLINE-B", c] > CLINE[7]["BERT", c] for c in HITS),
    "cline-hits-roberta": lambda: of(CLINE[7]["CLINE-R", c] > CLINE[7]["RoBERTa", c] for c in HITS[1:]),
    "cline-roberta-below-bert": lambda: of(CLINE[7]["RoBERTa", c] < CLINE[7]["BERT", c] for c in HITS[1:]),
}


def test_ids_are_there_once() -> None:
    ids = [row[0] for row in ROWS]
    assert len(ids) == len(set(ids)) == PAGE.count("\n| `")
    assert all(name.split("-")[0] in ("rse", "vadv", "adcl", "cline") for name in ids)


def test_every_claim_has_a_kind_or_says_why_it_has_none() -> None:
    for name, *_, kind, _ in ROWS:
        first, _, why = kind.partition(":")
        assert first in KINDS, name
        assert why or first != "none", name


def test_every_verdict_is_recomputed() -> None:
    judged = {row[0] for row in ROWS if row[4] != "-"}
    assert judged == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_the_page_says_what_the_printed_table_says(name: str) -> None:
    assert [row[4] for row in ROWS if row[0] == name] == [CHECKS[name]()]
