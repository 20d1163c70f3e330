"""Makes the options of verbs, of what functions of Python declare or of what stands here for the command line alone.

A parameter is declared once, in the signature and docstring of its function in `rbench.api`, or as a field of `Options`
or `Executor`. `FLAGS`, `VALUES` and `PANELS` add what only a command line needs.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

import typer

from rbench import schema
from rbench.config.registry import unknown
from rbench.errors import PlanError, SuiteError
from rbench.schema import TableSpec

if TYPE_CHECKING:
    from rbench.api import Executor, Options

WHAT, WHERE, HOW = "What to run", "Where things are", "How to run"
PROCESSES = "Several processes and machines (docs/scaling.md)"
PANELS: dict[str, str] = {
    "An encoder of your own": "train.base train.data train.settings train.steps train.epochs train.seed train.name",
    "How it looks": "table.only table.bold table.notes table.names table.interval_style table.wide table.width",
    WHAT: "profile overrides only limit seeds",
    WHERE: "out data models include train.out",
    HOW: "train.force device workers concurrency backend report_to max_seconds retry_timeouts dry_run fresh no_texts "
    "fail_if quiet verbose",
    PROCESSES: "kind processes cpus gpus address cluster partition time_limit requeue sbatch wait",
}
"""The parts of the help, each with the shared options that it lists, and those of functions."""
EXECUTOR = PANELS[PROCESSES]
VALUES = {
    "DIR": "out data models include site.claims",
    "FILE": "write_baseline.out table.best",
    "PATTERN": "only",
    "N>=1": "limit concurrency processes cpus steps",
    "N>=0": "gpus requeue train.seed",
    "N": "epochs",
    "S": "max_seconds",
    "TIME": "time_limit",
    "HOST:PORT": "address",
    "KEY=VALUE": "overrides settings",
    "NAME": "layout",
    "HOW": "pick aggregation notes interval_style",
    "WHAT": "bold",
    "[TABLE]": "with_paper",
    "POINTS": "tolerance table.width",
    "NAME|DIR|ID": "train.base",
    "RUN...": "runs",
    "[RUN2]": "other_run",
    "ENCODER|OBJECTIVE": "train.what",
}
"""What stands for values in help, each with the parameters that have it. Others have what is usual for their type."""
ARGUMENTS = ("RUN...", "[RUN2]", "ENCODER|OBJECTIVE")
"""Those that stand without a flag."""
FLAGS = {
    "overrides": "--set",
    "settings": "--set",
    "cpus": "--cpus-per-process",
    "gpus": "--gpus-per-process",
    "encoders": "--encoder",
    "kind": "--executor",
}
"""The flags that are not the names of their parameters."""
_PANEL, _VALUE = ({name: key for key, names in all_.items() for name in names.split()} for all_ in (PANELS, VALUES))

LAYOUTS: tuple[str, ...] = get_args(TableSpec.model_fields["layout"].annotation)
FORMATS = ("markdown", "latex", "csv", "json")


def one_of(what: str, valid: tuple[str, ...]) -> Callable[[str | None], str | None]:
    """Return a typer callback that accepts `valid` names and None. For any other name it suggests the nearest one."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in valid:
            raise typer.BadParameter(unknown(what, value, valid))
        return value

    return check


def option(shown: str, text: str, default: Any = None, *, panel: str | None = None, **more: Any) -> Any:
    """Return an option of typer, which stands where the default of a verb's argument would.

    Args:
        shown: its flags, and what stands for its value, as help shows them: `--encoder -e NAME`, or `--limit N>=1`.
        text: its help.
        default: its value where it is not given; `...`: it must be given.
        panel: the part of the help that lists it; None: the general one.
        more: further arguments of `typer.Option`.
    """
    words = shown.split()
    flags = [word for word in words if word.startswith("-")]
    value, _, least = " ".join(words[len(flags) :]).partition(">=")
    more |= {"min": int(least)} if least else {}
    # None lets typer name the type. From 0.29 it names that of a flag too, as if a flag took a value.
    metavar = value or ("" if isinstance(default, bool) else None)
    return typer.Option(default, *flags, metavar=metavar, help=text, rich_help_panel=panel, **more)


def argument(shown: str, text: str, default: Any = None, **more: Any) -> Any:
    """Return an argument of typer, as `option` does."""
    return typer.Argument(default, metavar=shown, help=text, **more)


class Declared(NamedTuple):
    """A parameter of a function, or a field of a dataclass, as its source declares it."""

    kind: str
    """Its annotation."""
    default: Any
    """Its default; `...`: it has none."""
    text: str
    """What the docstring says of it."""


@functools.cache
def declared(of: str) -> dict[str, Declared]:
    """Return what a function or dataclass declares, by name.

    The source is read and not imported, because that takes a second, and a verb says at once what it does.

    Args:
        of: its dotted name below rbench, such as `api.runs.table`.
    """
    *module, name = of.split(".")
    source = Path(__file__).parents[1].joinpath(*module).with_suffix(".py").read_text(encoding="utf-8")
    aliases = dict(re.findall(r"^(\w+) = (Literal\[.*?\])", source, re.MULTILINE | re.DOTALL))
    (text,) = re.findall(rf"^(?:def|class) {name}\b.*?(?=\n\n\n|\Z)", source, re.MULTILINE | re.DOTALL)
    (node,) = ast.parse(text).body
    if isinstance(node, ast.ClassDef):
        return {
            ast.unparse(one.target): Declared(_kind(one.annotation, aliases), _literal(one.value), _stated(following))
            for one, following in pairwise([*node.body, ast.Pass()])
            if isinstance(one, ast.AnnAssign)
        }
    assert isinstance(node, ast.FunctionDef)
    said = (ast.get_docstring(node) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    texts = {
        name: " ".join(text.split())
        for names, text in re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", said, re.MULTILINE)
        for name in names.split(", ")
    }
    args = node.args
    own = len(args.args) - len(args.defaults)
    defaults: list[ast.expr | None] = [*[None] * own, *args.defaults, *args.kw_defaults]
    return {
        one.arg: Declared(_kind(one.annotation, aliases), _literal(default), texts.get(one.arg, ""))
        for one, default in zip([*args.args, *args.kwonlyargs], defaults, strict=True)
    }


def _kind(annotation: ast.expr | None, aliases: Mapping[str, str]) -> str:
    found = ast.unparse(annotation).removesuffix(" | None") if annotation is not None else "Any"
    return aliases.get(found, found)


def _literal(default: ast.expr | None) -> Any:
    """Return a default; None where it is made by a call."""
    return ... if default is None else None if isinstance(default, ast.Call) else ast.literal_eval(default)


def _stated(following: ast.stmt) -> str:
    """Return the docstring that follows a field; nothing where none does."""
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return " ".join(str(following.value.value).split())
    return ""


def _help(text: str, *, several: bool) -> str:
    """Return the words of a docstring as help: without markup, and with what None means as the default."""
    text = f"{text[:1].upper()}{text[1:]}".replace("`", "").replace("[", r"\[")
    text, default, shown = re.sub(r"[;.] None: (.*?)\.?$", r". (default: \1)", text).partition(" (default: ")
    return f"{text}{' May be repeated.' if several else ''}{default}{shown}"


_TYPES = {"bool": bool, "int": int, "float": float, "Path": Path, "Path | str": Path, "NumExamples": int}
_USUAL = {bool: "", int: "N", float: "X", Path: "FILE", str: "NAME", tuple[str, str]: "A B"}


def _named(table: Mapping[str, str], of: str, name: str) -> str | None:
    """Return what a table says of a parameter: of that of this function, else of all with this name."""
    return table.get(f"{of.rpartition('.')[2]}.{name}", table.get(name))


def made(of: str, name: str, *, shared: bool = False) -> tuple[Any, Any]:
    """Return a parameter of a function, or a field of a dataclass, as typer reads it: its type, and its option."""
    one, function = declared(of)[name], of.rpartition(".")[2]
    several = one.kind.startswith(("tuple[Path", "tuple[str, ...]", "Sequence[", "str | Sequence[", "Runs"))
    choices: tuple[str, ...] = ()
    kind: Any = _TYPES.get(one.kind, str)
    more: dict[str, Any] = {}
    if several:
        kind = Path if "Path" in one.kind or one.kind == "Runs" else str
        more = {"exists": True, "file_okay": False} if one.kind.startswith("tuple[Path") else {}
    elif one.kind == "tuple[str, str]":
        kind = tuple[str, str]
    elif kind is str:
        listed = one.kind.startswith("Literal[")
        choices = ast.literal_eval(f"({one.kind[8:-1]},)") if listed else get_args(getattr(schema, one.kind, None))
        choices = LAYOUTS if one.kind == "Layout" else choices
    value = _named(_VALUE, of, name) or ("" if choices else _USUAL[kind])
    if choices:
        more = {"callback": one_of(name, choices)} if value else {}
        kind = str if value else StrEnum(name, list(choices))
    if kind is Path:
        more |= {"file_okay": value != "DIR", "dir_okay": value != "FILE"}
    default = None if one.default == () else one.default
    kind = list[kind] if several else kind
    kind = kind | None if default is None else kind
    if value in ARGUMENTS:
        return kind, argument(value, _help(one.text, several=False), default)
    panel = _named(_PANEL, of, name) if shared or f"{function}.{name}" in _PANEL else None
    return kind, option(
        f"{_named(FLAGS, of, name) or '--' + name.replace('_', '-')} {value}",
        _help(one.text, several=several),
        default,
        panel=panel,
        **more,
    )


ENCODERS = "A name (rbench list encoders), a folder (./mine), or a hub id (OWNER/NAME)."
SUITE = argument("SUITE", "A suite's name (rbench list suites) or a file.", ...)
_RUN = "The folder that rbench run wrote, such as results/runs/quickstart, or a file that rbench pack wrote"
RUN = argument("RUN", f"{_RUN}.", ...)
RUNS = argument("RUN...", f"{_RUN}; several are read as one. before=RUN labels its encoders.", ...)
FORMAT = option("--format NAME", f"{', '.join(FORMATS)}.", "markdown", callback=one_of("format", FORMATS))


_OWN: dict[str, tuple[Any, str, str]] = {
    "seeds": (
        list[int] | None,
        "--seed N>=0",
        "Seed of fine-tuning, attacks and the sample of examples, in place of the suite's. May be repeated.",
    ),
    "workers": (
        int | None,
        "--workers N>=1",
        "Processes that share the examples of an attack. (default: one a core, as far as memory goes)",
    ),
    "dry_run": (bool, "--dry-run", "Show the plan and stop."),
    "no_texts": (bool, "--no-texts", "Keep outcomes without their texts, so that they may be redistributed."),
    "fail_if": (
        list[str] | None,
        "--fail-if CONDITION",
        'Exit with 3 if a cell\'s whole 95% interval is beyond a limit, such as "asr > 60" or "any_attack > 80", '
        "and with 4 if it cannot be judged. May be repeated.",
    ),
    "allow_undecided": (bool, "--allow-undecided", "What cannot be judged is a warning and no exit code."),
    "quiet": (bool, "--quiet -q", "Print results and errors, nothing else."),
    "verbose": (bool, "--verbose -v", "Log what is read, found and taken from the cache, with times."),
    "sbatch": (
        list[str] | None,
        "--sbatch KEY=VALUE",
        "slurm: a further option of sbatch, such as account=nlp, or exclusive. May be repeated.",
    ),
}
SHARED: dict[str, tuple[Any, Any]] = {"run": (Path, RUN), "suite": (str, SUITE)} | {
    name: (kind, option(shown, text, False if kind is bool else None, panel=_PANEL.get(name)))
    for name, (kind, shown, text) in _OWN.items()
}
"""Options that several verbs have, or that stand for several of the API's."""


def _shared(name: str) -> tuple[Any, Any]:
    of = "execution.cluster.executor.Executor" if name in EXECUTOR.split() else "plan.prepare.Options"
    return SHARED[name] if name in SHARED else made(of, name, shared=True)


def signature_of(function: Callable[..., None], of: str, shared: Collection[str]) -> inspect.Signature:
    """Return the signature of a verb, as typer reads it: its own parameters, those of `of` in the place of its keyword
    arguments, and the shared options."""
    hints = get_type_hints(function, localns={"Options": Any, "Executor": Any})
    found: dict[str, tuple[Any, Any]] = {}
    own = inspect.signature(function).parameters
    for name, one in own.items():
        if one.kind is one.VAR_KEYWORD:
            others = declared(of).keys() - {*own, *shared, "options", "progress"}
            found |= {name: made(of, name) for name in declared(of) if name in others}
        elif one.default is one.empty and name not in (*shared, "options", "executor"):
            found[name] = SHARED[name] if name in SHARED else made(of, name)
    found |= {name: (hints[name], one.default) for name, one in own.items() if one.default is not one.empty}
    found |= {name: _shared(name) for name in shared}
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in found.items()
        ]
    )


def arguments_of(
    function: Callable[..., None], of: str, shared: Collection[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a verb gets: `options` and `executor` of the shared options that these have, others as they are.

    As keyword arguments it gets those of `of`, with search paths and `options` among them.
    """
    wanted = {name: one.kind for name, one in inspect.signature(function).parameters.items()}
    api = declared(of) if of else {}
    unset = {name for name, value in given.items() if value is None and name in api and name not in wanted}
    got = {**given, **{name: api[name].default for name in unset}}
    if shared and ("options" in wanted or api.keys() & {"options", "include", "data"}):
        got["options"] = options_of({name: given[name] for name in shared})
        got |= {name: getattr(got["options"], name) for name in ("include", "data") if name in shared}
    if "executor" in wanted:
        got["executor"] = _executor_of(**{name: given[name] for name in EXECUTOR.split()})
    keywords = inspect.Parameter.VAR_KEYWORD in wanted.values()
    return {name: _plain(got[name]) for name in got if name in wanted or (keywords and name in api)}


def options_of(given: Mapping[str, Any]) -> Options:
    """Return the options of the API that the options of a verb stand for."""
    from rbench.api import Options, call_options

    overrides = given.get("overrides") or ()
    told = {**given, "overrides": [*overrides, *seeded(given.get("seeds"), overrides)]}
    told["texts"] = not given.get("no_texts")
    fields = {field.name for field in dataclasses.fields(Options)}
    return call_options.options_of(None, {name: _plain(value) for name, value in told.items() if name in fields})


def seeded(seeds: Sequence[int] | None, overrides: Sequence[str]) -> list[str]:
    """Return the override that --seed stands for; none where it was not given.

    Raises SuiteError where --set names seeds, too.
    """
    if seeds and (other := next((one for one in overrides if one.partition("=")[0].strip() == "seeds"), None)):
        raise SuiteError(f"--seed and --set {other} both choose the seeds; leave one out")
    return [f"seeds=[{', '.join(map(str, seeds))}]"] if seeds else []


def _executor_of(sbatch: Sequence[str] | None, **more: Any) -> Executor | None:
    """Return the executor that the options of a verb stand for; None where it runs the jobs in this process."""
    given = {name: value for name, one in more.items() if (value := _plain(one)) is not None and value is not False}
    if given == {"kind": "inline"} and not sbatch:
        return None
    from rbench.api import Executor

    return Executor(sbatch=dict(map(_of_sbatch, sbatch or ())), **given)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value


def _of_sbatch(text: str) -> tuple[str, str | bool]:
    key, given, value = text.removeprefix("--").partition("=")
    if not key.replace("-", "").isalnum():
        raise PlanError(f'--sbatch "{text}": expected KEY=VALUE, such as account=nlp')
    return key, value if given else True
