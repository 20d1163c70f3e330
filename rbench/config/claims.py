"""Checks the claims of a suite, or of a file, against what the suite has: names, metrics, options, and what matches.

A suite may quote what a paper claims of its printed table: `claims: [{paper: adcl-table1}]`. Such claims name encoders,
tasks and attacks as the suite of that table does. A quoted claim that a suite cannot judge is left out with a note,
also where a claim of the suite's own would be an error: a printed table may have columns that rbench does not produce.
Where a claim says that an encoder is the best of several, some of which the paper only cites and rbench does not have,
it is judged without these, with a note.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rbench.config.check import check
from rbench.config.metrics import no_label
from rbench.config.outdated import entry_of
from rbench.config.overrides import items
from rbench.config.positions import Positioned, Problems, listed, read, shown
from rbench.config.registry import OWN, unknown
from rbench.errors import SuiteError
from rbench.schema.claims import AXES, Axis, Claim, Ground, chains, comparisons
from rbench.schema.unlisted import known_as

_NEEDS = {
    "sts": "`evaluate`, a list of STS tasks",
    "contrast": "`evaluate: [contrast]`",
    "parts": "a task that is made of several sources, such as anli",
}


class Placed(NamedTuple):
    """A claim with its places."""

    claim: Claim
    located: Positioned


def check_claims(claims: Sequence[Claim], merged: Positioned, ground: Ground, problems: Problems) -> None:
    """Add a problem for each claim that names what is not there, that nothing matches, or whose id is taken."""
    for one in _placed(claims, merged, problems):
        for place, message in _wrong(one, ground):
            problems.add(place, message)


def claims_here(
    claims: Sequence[Claim], merged: Positioned, ground: Ground, problems: Problems, encoders: Collection[str]
) -> tuple[tuple[Claim, ...], tuple[str, ...], tuple[str, ...]]:
    """Check the claims of a suite. Return those that can be judged here, the ids of others, and notes on the former.

    A claim that is quoted from a printed table and does not fit is left out. A quoted claim is judged without the
    systems that its paper only cites (`without_cited`), and a note says so. Any other claim that does not fit is a
    problem of the entry `entry_of(claim.id)`.

    Args:
        merged: the suite with its profile and overrides.
        encoders: the names of all encoders that rbench has.
    """
    kept, left, cited = [], [], {}
    for one in _placed(claims, merged, problems):
        quoted = is_quoted(one.located)
        if quoted:
            claim, cited[one.claim.id] = without_cited(one.claim, encoders)
            one = one._replace(claim=claim)
        wrong = [*_wrong(one, ground)]
        if wrong and quoted:
            left.append(one.claim.id)
            continue
        kept.append(one.claim)
        for place, message in wrong:
            problems.add(place, message, entry_of(one.claim.id))
    return tuple(kept), tuple(left), (*_judged_without({one.id: cited.get(one.id, ()) for one in kept}),)


def _judged_without(cited: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a note on the claims that are judged without systems that their paper cites, by their ids."""
    names = list(dict.fromkeys(name for of in cited.values() for name in of))
    if names:
        claims = ", ".join(claim for claim, of in cited.items() if of)
        yield f"judged without {', '.join(names)}, which the paper cites and rbench does not have: {claims}"


def file_of(run: Path, folder: Path) -> Path:
    """Return where a folder of claims has those of a RUN: in NAME.yaml for the RUN in the folder NAME."""
    return folder / f"{run.resolve().name.removesuffix('.zip')}.yaml"


def read_claims(path: Path, ground: Ground) -> tuple[Claim, ...]:
    """Read the claims of a YAML file, under the key `claims`; other keys, such as those of a suite, are not looked at.

    Raises SuiteError with all problems and their places: no YAML, no claims, or claims that do not fit.
    """
    problems = Problems()
    located = with_quoted(read(path, problems), problems)
    if "claims" not in located.data:
        raise SuiteError(f"{shown(path)}:1:1: `claims` is missing; expected `claims:` and a list below it")
    known = {name for metric in ground.cells for name in ground.names("encoder", metric)}
    located = located.mapped(lambda where, text, is_key: text if is_key else known_as(text, known))
    found = [(one, check(Claim, one, problems)) for one in items(located, "claims")]
    problems.raise_any()
    claims = [claim for _, claim in found if claim is not None]
    if not claims:
        raise SuiteError(f"{located.at(('claims',))}: `claims` is empty; expected a list of claims")
    check_claims(claims, located, ground, problems)
    problems.raise_any()
    return tuple(claims)


def _placed(claims: Sequence[Claim], merged: Positioned, problems: Problems) -> list[Placed]:
    """Return claims with their places. Add a problem for each id that two have."""
    placed = [Placed(claim, one) for claim, one in zip(claims, items(merged, "claims"), strict=True)]
    first: dict[str, str] = {}
    for claim, located in placed:
        place = located.at(("id",))
        if claim.id in first:
            problems.add(place, f"two claims have the id {claim.id}; the first stands at {first[claim.id]}")
        first.setdefault(claim.id, place)
    return placed


def _wrong(one: Placed, ground: Ground) -> Iterator[tuple[str, str]]:
    """Yield place and message of everything in a claim that does not fit; what matches nothing only if all names do."""
    claim, located = one
    if (message := missing(claim.metric, ground)) is not None:
        yield located.at(("metric",)), message
        return
    wrong = [*_unknown_names(one, ground)]
    for i, axis in enumerate(claim.for_each):
        if not ground.names(axis, claim.metric):
            message = f"{claim.metric} has no {axis}, so `for_each` cannot list it"
            wrong.append((located.at(("for_each", i)), message))
    wrong += _beyond_bounds(one, ground)
    yield from wrong
    if wrong:
        return
    if claim.option is not None and (message := _option(claim, ground)) is not None:
        yield located.at(("in",)), message
    elif not comparisons(claim, ground):
        yield located.at(), f"nothing in this suite matches the claim {claim.id} ({claim})"


def _beyond_bounds(one: Placed, ground: Ground) -> Iterator[tuple[str, str]]:
    """Yield what no value can reach: a limit outside of the metric's bounds, or a larger difference than theirs."""
    if (bounds := ground.bounds.get(one.claim.metric)) is None:
        return
    (low, high), metric = bounds, one.claim.metric
    for key in ("at_most", "at_least"):
        if (limit := getattr(one.claim, key)) is not None and not low <= limit <= high:
            yield one.located.at((key,)), f"{metric} lies between {low:g} and {high:g}, so no limit is {limit:g}"
    largest = (high - low) * (1 if one.claim.beyond is None else 2)  # a difference of two differences
    if (by := one.claim.by) is not None and abs(by) > largest:
        yield one.located.at(("by",)), f"{metric} lies between {low:g} and {high:g}, so no difference is {by:g}"


def missing(metric: str, ground: Ground) -> str | None:
    """Say what a suite needs so that it has a metric; None if it has it."""
    if metric in ground.cells:
        return None
    if not ground.knows(metric):
        return unknown("metric of a claim", metric, ground.known, OWN)
    number, _, label = metric.partition(".")
    if metric not in ground.metrics and metric not in ground.measured and number in ground.cells:
        there = (other.removeprefix(f"{number}.") for other in ground.cells if other.startswith(f"{number}."))
        return no_label(number, label, there)
    measure = ground.measured.get(metric) or ground.measured.get(number, metric)
    needs = ground.metrics.get(metric) or _NEEDS.get(measure, f"`evaluate: [{measure}]`")
    return f"this suite does not produce the metric {metric}: it needs {needs}"


def _unknown_names(one: Placed, ground: Ground) -> Iterator[tuple[str, str]]:
    metric = one.claim.metric
    for place, axis, name in _names(one):
        there = ground.names(axis, metric)
        labels = [label for label in there if label.partition("[")[0] == name]
        on_option = one.claim.option is not None and axis == "encoder"
        if ground.named(axis, name, metric) is not None or (on_option and labels):
            continue
        if not there:
            yield place, f"{metric} has no {axis} in this suite, so a claim cannot name one"
        elif labels:
            yield place, f"{name} means several here; name one of {', '.join(labels)}"
        else:
            yield place, unknown(f"{axis} of this suite", name, there)
    for where, subject in one.claim.subjects:
        if subject.objective is not None and not ground.with_objective(subject.objective, metric):
            there = tuple({ground.trained[name].objective for name in ground.trained})
            place = one.located.at((*where, "objective"))
            yield place, unknown("objective of this suite's encoders", subject.objective, there)


def _option(claim: Claim, ground: Ground) -> str | None:
    """Say what is wrong with a claim on an option, or return None."""
    subject = claim.rising or claim.falling
    assert subject is not None
    there = ground.names("encoder", claim.metric)
    if subject.objective is not None:
        meant = ground.with_objective(subject.objective, claim.metric)
    elif subject.encoder is not None:
        meant = tuple(name for name in there if name.partition("[")[0] == subject.encoder.partition("[")[0])
    else:
        return "a claim on an option names an encoder or an objective"
    options = {key for name in meant if name in ground.trained for key in ground.trained[name].options}
    if not options:
        return f"{subject} is not trained by rbench, so it has no options"
    if claim.option not in options:
        return unknown(f"option of {subject}", claim.option, options)
    if not chains(claim, ground):
        return f"no two encoders of this suite differ in {claim.option} alone: {', '.join(meant)}"
    return None


def _names(one: Placed) -> Iterator[tuple[str, Axis, str]]:
    """Yield place, axis and text of each name in a claim."""
    claim, located = one
    for where, subject in claim.subjects:
        for axis in AXES:
            if (name := getattr(subject, axis)) is not None:
                yield located.at((*where, axis)), axis, name
    for axis, named in claim.where.items():
        for i, name in enumerate(named):
            yield located.at(("where", axis, i)), axis, name


_PACKAGE = Path(__file__).resolve().parent.parent


def papers_folder() -> Path:
    """Return the folder of the files: in a wheel beside the bundled suites, in a checkout `results/paper`."""
    wheel = _PACKAGE / "bundled" / "paper"
    return wheel if wheel.is_dir() else _PACKAGE.parent / "results" / "paper"


def claims_folder() -> Path:
    """Return the folder of the claims, which has a file for each table."""
    return papers_folder() / "claims"


KEY = "paper"


def with_quoted(located: Positioned, problems: Problems) -> Positioned:
    """Return a suite's content with the claims of printed tables in place of the entries that quote them.

    Adds a problem where a quoted table is unknown.
    """
    entries: list[Positioned] = []
    for one in items(located, "claims"):
        if not isinstance(one.data, dict) or KEY not in one.data:
            entries.append(one)
        elif set(one.data) != {KEY} or not isinstance(one.data[KEY], str):
            problems.add(one.at(), f"expected {{{KEY}: TABLE}} alone, for instance {{{KEY}: adcl-table1}}")
        else:
            entries += _of_table(one.data[KEY], one.at((KEY,)), problems)
    if not any(is_quoted(one) for one in entries) and len(entries) == len([*items(located, "claims")]):
        return located
    return located.put(("claims",), listed(entries, located.at(("claims",))))


def is_quoted(claim: Positioned) -> bool:
    """Return whether a claim stands in a file of a printed table."""
    return claim.at().startswith(f"{shown(claims_folder())}/")


def without_cited(claim: Claim, encoders: Collection[str]) -> tuple[Claim, tuple[str, ...]]:
    """Return a quoted claim without the systems of `than` that rbench does not have, and their names.

    Such a system is named as the paper names it (`Skip-thought`). A claim that compares with nothing else stays whole.

    Args:
        claim: a claim that is quoted from a printed table.
        encoders: the names of all encoders that rbench has.
    """

    def cited(name: str | None) -> bool:
        return name is not None and name.partition("[")[0] not in encoders

    there = tuple(one for one in claim.than if not cited(one.encoder))
    if not there or len(there) == len(claim.than):
        return claim, ()
    names = tuple(one.encoder for one in claim.than if one.encoder is not None and cited(one.encoder))
    return claim.model_copy(update={"than": there}), names


def _of_table(name: str, place: str, problems: Problems) -> list[Positioned]:
    path = claims_folder() / f"{name}.yaml"
    known = sorted(file.stem for file in claims_folder().glob("*.yaml"))
    if name not in known:
        problems.add(place, unknown("printed table", name, known))
        return []
    return list(items(read(path, problems), "claims"))
