"""Finds the newest verdict on each claim over several RUNs, and says what the paper's own numbers say of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rbench.errors import StoreError, SuiteError
from rbench.load import printed
from rbench.site.data import ClaimRow, Judgement, OnPaper, PaperTable, RunPage
from rbench.spec import Claim, Suite
from rbench.spec.claimed import Ground
from rbench.tables import Results
from rbench.tables.formats import beside, number
from rbench.tables.table import Beside, Entry, Number
from rbench.verdicts import beside_table
from rbench.verdicts.beside import Comparison, encoders_of
from rbench.verdicts.claims import JudgedClaim
from rbench.verdicts.claims_table import brief, sentence
from rbench.verdicts.on_paper import judge_on_paper
from rbench.verdicts.printed import Judged
from rbench.verdicts.printed_table import by
from rbench.verdicts.systems import partners


def judgements(
    found: Sequence[JudgedClaim], run: RunPage, results: Results, ground: Ground, table: str | None
) -> Iterator[Judgement]:
    """Yield what one RUN says of its claims.

    Args:
        found: the claims, judged.
        run: the RUN's page.
        results: the RUN.
        ground: the cells of the RUN.
        table: the printed table that the RUN's suite reproduces; None: it reproduces none.
    """
    for one in found:
        name = printed_in(one.claim.source) or table
        yield Judgement(
            suite=run.suite,
            id=one.claim.id,
            sentence=sentence(one),
            scope=_scope(results.plan.suite),
            source=one.claim.source,
            verdict=one.verdict,
            numbers=brief(one),
            paper=None if name is None else _on_paper(one.claim, name, results, ground),
            run=run,
        )


def claim_rows(judged: Iterable[Judgement]) -> tuple[ClaimRow, ...]:
    """Return a row for each claim, in the order of their first RUN.

    One claim is what one suite says in the same words under the same id, over the same tasks, fine-tuning and attacks:
    profiles of a suite may ask the same of other victims.
    """
    found: dict[tuple[str, str, str, str], list[Judgement]] = {}
    for one in judged:
        found.setdefault((one.suite, one.id, one.sentence, one.scope), []).append(one)
    rows = []
    for several in found.values():
        newest, *earlier = sorted(several, key=lambda one: one.run.date, reverse=True)
        rows.append(ClaimRow(newest=newest, earlier=tuple(earlier)))
    return tuple(rows)


def _scope(suite: Suite) -> str:
    return "; ".join(", ".join(map(str, names)) for names in (suite.tasks, suite.finetune, suite.attacks))


def paper_table(compared: Comparison, results: Results, run: RunPage) -> PaperTable | None:
    """Return a paper's table with our numbers in its rows and columns; None where no number has a partner."""
    try:
        laid = beside_table.table(compared, results.plan, "paper")
    except StoreError:
        return None
    return PaperTable(
        name=compared.name,
        title=compared.printed.title,
        run=run,
        header=laid.header,
        rows=tuple(tuple(_text(entry) for entry in row) for row in laid.rows),
        notes=laid.brief,
    )


def printed_in(source: str) -> str | None:
    """Return the printed table that a claim's source names: `adcl-table1` for `ADCL, section 4.5, H1, Table 1`."""
    number = re.search(r"\bTable (\d+)\b", source)
    name = f"{source.partition(',')[0].strip().lower()}-table{number[1]}" if number else ""
    return name if name in printed.names() else None


def _on_paper(claim: Claim, name: str, results: Results, ground: Ground) -> OnPaper | None:
    """Say what the printed numbers say of a claim; None where the paper does not print what it is about."""
    table = printed.load(name)
    try:
        theirs = partners(table, encoders_of(results))
        judged = judge_on_paper(claim, name, table, theirs, ground.cells.get(claim.metric, ()))
    except SuiteError:
        return None
    return OnPaper(table=name, sentence=str(judged.claim.model_copy(update={"where": {}})), said=_numbers(judged))


def _numbers(judged: Judged) -> str:
    """Say in how many cases a claim holds on printed numbers, with those that decide it."""
    closest, weighed = judged.closest, judged.closest.weighed
    value, limit = (Number(float(x), percent=False, digits=2) for x in (weighed.value, weighed.reference))
    pair = f"{number(value)} against {number(limit)}, {by(judged)}"
    if len(judged.combinations) == 1:
        return f"{'holds' if judged.holding else 'fails'}: {pair}"
    where = ", ".join(closest.at.values())
    return f"holds in {judged.holding} of {len(judged.combinations)}; closest, {where}: {pair}"


def _text(entry: Entry) -> str:
    if isinstance(entry, Beside):
        return beside(entry)
    if isinstance(entry, Number):
        return number(entry)
    return "" if entry is None else str(entry)
