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

from rbench.config.check import validate
from rbench.config.metrics import unknown_label_message
from rbench.config.outdated import claim_entry
from rbench.config.overrides import iter_items
from rbench.config.positions import PositionedData, Problems, as_list, read_yaml, shown_path
from rbench.config.registry import OWN_FILE, unknown_message
from rbench.errors import SuiteError
from rbench.schema.claims import AXES, Axis, Claim, ClaimScope, list_comparisons, option_chains
from rbench.schema.unlisted import label_meant

_NEEDS = {
    "sts": "`evaluate`, a list of STS tasks",
    "contrast": "`evaluate: [contrast]`",
    "parts": "a task that is made of several sources, such as anli",
}


class PlacedClaim(NamedTuple):
    """A claim with its places."""

    claim: Claim
    located: PositionedData


def check_claims(claims: Sequence[Claim], merged: PositionedData, scope: ClaimScope, problems: Problems) -> None:
    """Add a problem for each claim that names what is not there, that nothing matches, or whose id is taken."""
    for placed in _place_claims(claims, merged, problems):
        for place, message in _find_misfits(placed, scope):
            problems.add(place, message)


def fit_claims(
    claims: Sequence[Claim], merged: PositionedData, scope: ClaimScope, problems: Problems, encoders: Collection[str]
) -> tuple[tuple[Claim, ...], tuple[str, ...], tuple[str, ...]]:
    """Check the claims of a suite. Return those that can be judged here, the ids of others, and notes on the former.

    A claim that is quoted from a printed table and does not fit is left out. A quoted claim is judged without the
    systems that its paper only cites (`drop_cited`), and a note says so. Any other claim that does not fit is a
    problem of the entry `entry_of(claim.id)`.

    Args:
        merged: the suite with its profile and overrides.
        encoders: the names of all encoders that rbench has.
    """
    fitting, left_out, cited = [], [], {}
    for one in _place_claims(claims, merged, problems):
        quoted = is_quoted(one.located)
        if quoted:
            claim, cited[one.claim.id] = drop_cited(one.claim, encoders)
            one = one._replace(claim=claim)
        wrong = [*_find_misfits(one, scope)]
        if wrong and quoted:
            # A printed table may have columns that rbench does not produce: such a claim is no mistake of the suite.
            left_out.append(one.claim.id)
            continue
        fitting.append(one.claim)
        for place, message in wrong:
            problems.add(place, message, claim_entry(one.claim.id))
    return tuple(fitting), tuple(left_out), (*_cited_notes({one.id: cited.get(one.id, ()) for one in fitting}),)


def _cited_notes(cited: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a note on the claims that are judged without systems that their paper cites, by their ids."""
    names = list(dict.fromkeys(name for cited_names in cited.values() for name in cited_names))
    if names:
        claims = ", ".join(claim for claim, cited_names in cited.items() if cited_names)
        yield f"judged without {', '.join(names)}, which the paper cites and rbench does not have: {claims}"


def claims_file_of(run: Path, folder: Path) -> Path:
    """Return where a folder of claims has those of a RUN: in NAME.yaml for the RUN in the folder NAME."""
    return folder / f"{run.resolve().name.removesuffix('.zip')}.yaml"


def read_claims(path: Path, scope: ClaimScope) -> tuple[Claim, ...]:
    """Read the claims of a YAML file, under the key `claims`; other keys, such as those of a suite, are not looked at.

    Raises SuiteError with all problems and their places: no YAML, no claims, or claims that do not fit.
    """
    problems = Problems()
    located = expand_quoted_claims(read_yaml(path, problems), problems)
    known = {name for metric in scope.cells for name in scope.names("encoder", metric)}
    located = located.mapped(lambda where, text, is_key: text if is_key else label_meant(text, known))
    checked = [(item, validate(Claim, item, problems)) for item in iter_items(located, "claims")]
    problems.raise_any()
    claims = [claim for _, claim in checked if claim is not None]
    if not claims:
        raise SuiteError.at(located.at(("claims",)), "there are no claims; expected `claims:` and a list below it")
    check_claims(claims, located, scope, problems)
    problems.raise_any()
    return tuple(claims)


def _place_claims(claims: Sequence[Claim], merged: PositionedData, problems: Problems) -> list[PlacedClaim]:
    """Return claims with their places. Add a problem for each id that two have."""
    placed = [PlacedClaim(claim, item) for claim, item in zip(claims, iter_items(merged, "claims"), strict=True)]
    first: dict[str, str] = {}
    for claim, located in placed:
        place = located.at(("id",))
        if claim.id in first:
            problems.add(place, f"two claims have the id {claim.id}; the first stands at {first[claim.id]}")
        first.setdefault(claim.id, place)
    return placed


def _find_misfits(placed: PlacedClaim, scope: ClaimScope) -> Iterator[tuple[str, str]]:
    """Yield place and message of everything in a claim that does not fit; what matches nothing only if all names do."""
    claim, located = placed
    if (message := why_metric_missing(claim.metric, scope)) is not None:
        yield located.at(("metric",)), message
        return
    wrong = [*_unknown_names(placed, scope)]
    for i, axis in enumerate(claim.for_each):
        if not scope.names(axis, claim.metric):
            message = f"{claim.metric} has no {axis}, so `for_each` cannot list it"
            wrong.append((located.at(("for_each", i)), message))
    wrong += _beyond_bounds(placed, scope)
    yield from wrong
    if wrong:
        return
    if claim.option is not None and (message := _option_problem(claim, scope)) is not None:
        yield located.at(("in",)), message
    elif not list_comparisons(claim, scope):
        yield located.at(), f"nothing in this suite matches the claim {claim.id} ({claim})"


def _beyond_bounds(placed: PlacedClaim, scope: ClaimScope) -> Iterator[tuple[str, str]]:
    """Yield what no value can reach: a limit outside of the metric's bounds, or a larger difference than theirs."""
    if (bounds := scope.bounds.get(placed.claim.metric)) is None:
        return
    (low, high), metric = bounds, placed.claim.metric
    for key in ("at_most", "at_least"):
        if (limit := getattr(placed.claim, key)) is not None and not low <= limit <= high:
            yield placed.located.at((key,)), f"{metric} lies between {low:g} and {high:g}, so no limit is {limit:g}"
    largest = (high - low) * (1 if placed.claim.beyond is None else 2)  # a difference of two differences
    if (by := placed.claim.by) is not None and abs(by) > largest:
        yield placed.located.at(("by",)), f"{metric} lies between {low:g} and {high:g}, so no difference is {by:g}"


def why_metric_missing(metric: str, scope: ClaimScope) -> str | None:
    """Say what a suite needs so that it has a metric; None if it has it."""
    if metric in scope.cells:
        return None
    if not scope.knows(metric):
        return unknown_message("metric of a claim", metric, scope.known, OWN_FILE)
    number, _, label = metric.partition(".")
    if metric not in scope.metrics and metric not in scope.measured and number in scope.cells:
        labels = (other.removeprefix(f"{number}.") for other in scope.cells if other.startswith(f"{number}."))
        return unknown_label_message(number, label, labels)
    measure = scope.measured.get(metric) or scope.measured.get(number, metric)
    needs = scope.metrics.get(metric) or _NEEDS.get(measure, f"`evaluate: [{measure}]`")
    return f"this suite does not produce the metric {metric}: it needs {needs}"


def _unknown_names(placed: PlacedClaim, scope: ClaimScope) -> Iterator[tuple[str, str]]:
    metric = placed.claim.metric
    for place, axis, name in _names_in_claim(placed):
        known_names = scope.names(axis, metric)
        labels = [label for label in known_names if label.partition("[")[0] == name]
        on_option = placed.claim.option is not None and axis == "encoder"
        if scope.named(axis, name, metric) is not None or (on_option and labels):
            continue
        if not known_names:
            yield place, f"{metric} has no {axis} in this suite, so a claim cannot name one"
        elif labels:
            yield place, f"{name} means several here; name one of {', '.join(labels)}"
        else:
            yield place, unknown_message(f"{axis} of this suite", name, known_names)
    for where, subject in placed.claim.subjects:
        if subject.objective is not None and not scope.with_objective(subject.objective, metric):
            known_names = tuple({scope.trained[name].objective for name in scope.trained})
            place = placed.located.at((*where, "objective"))
            yield place, unknown_message("objective of this suite's encoders", subject.objective, known_names)


def _option_problem(claim: Claim, scope: ClaimScope) -> str | None:
    """Say what is wrong with a claim on an option, or return None."""
    subject = claim.rising or claim.falling
    assert subject is not None
    encoder_names = scope.names("encoder", claim.metric)
    if subject.objective is not None:
        meant = scope.with_objective(subject.objective, claim.metric)
    elif subject.encoder is not None:
        meant = tuple(name for name in encoder_names if name.partition("[")[0] == subject.encoder.partition("[")[0])
    else:
        return "a claim on an option names an encoder or an objective"
    options = {key for name in meant if name in scope.trained for key in scope.trained[name].options}
    if not options:
        return f"{subject} is not trained by rbench, so it has no options"
    if claim.option not in options:
        return unknown_message(f"option of {subject}", claim.option, options)
    if not option_chains(claim, scope):
        return f"no two encoders of this suite differ in {claim.option} alone: {', '.join(meant)}"
    return None


def _names_in_claim(placed: PlacedClaim) -> Iterator[tuple[str, Axis, str]]:
    """Yield place, axis and text of each name in a claim."""
    claim, located = placed
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


PAPER_KEY = "paper"


def expand_quoted_claims(located: PositionedData, problems: Problems) -> PositionedData:
    """Return a suite's content with the claims of printed tables in place of the entries that quote them.

    Adds a problem where a quoted table is unknown.
    """
    entries: list[PositionedData] = []
    for item in iter_items(located, "claims"):
        if not isinstance(item.data, dict) or PAPER_KEY not in item.data:
            entries.append(item)
        elif set(item.data) != {PAPER_KEY} or not isinstance(item.data[PAPER_KEY], str):
            problems.add(item.at(), f"expected {{{PAPER_KEY}: TABLE}} alone, for instance {{{PAPER_KEY}: adcl-table1}}")
        else:
            entries += _claims_of_table(item.data[PAPER_KEY], item.at((PAPER_KEY,)), problems)
    if not any(is_quoted(item) for item in entries) and len(entries) == len([*iter_items(located, "claims")]):
        return located
    return located.put(("claims",), as_list(entries, located.at(("claims",))))


def is_quoted(claim: PositionedData) -> bool:
    """Return whether a claim stands in a file of a printed table."""
    return claim.at().startswith(f"{shown_path(claims_folder())}/")


def drop_cited(claim: Claim, encoders: Collection[str]) -> tuple[Claim, tuple[str, ...]]:
    """Return a quoted claim without the systems of `than` that rbench does not have, and their names.

    Such a system is named as the paper names it (`Skip-thought`). A claim that compares with nothing else stays whole.

    Args:
        claim: a claim that is quoted from a printed table.
        encoders: the names of all encoders that rbench has.
    """

    def cited(name: str | None) -> bool:
        return name is not None and name.partition("[")[0] not in encoders

    comparable = tuple(subject for subject in claim.than if not cited(subject.encoder))
    if not comparable or len(comparable) == len(claim.than):
        return claim, ()
    names = tuple(subject.encoder for subject in claim.than if subject.encoder is not None and cited(subject.encoder))
    return claim.model_copy(update={"than": comparable}), names


def _claims_of_table(name: str, place: str, problems: Problems) -> list[PositionedData]:
    path = claims_folder() / f"{name}.yaml"
    known = sorted(file.stem for file in claims_folder().glob("*.yaml"))
    if name not in known:
        problems.add(place, unknown_message("printed table", name, known))
        return []
    return list(iter_items(read_yaml(path, problems), "claims"))
