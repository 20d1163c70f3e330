"""Makes the options of verbs, of what functions of Python declare or of what stands here for the command line alone.

A parameter is declared once, in the signature and docstring of its function in `rbench.api`, or as a field of `Options`
or `Executor`. `MODE_OF_FLAG`, `VALUES` and `PANELS` add what only a command line needs.
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
from rbench.config.registry import unknown_message
from rbench.errors import SuiteError
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
EXECUTOR_OPTIONS = PANELS[PROCESSES]
VALUES = {
    "DIR": "out data models include site.claims",
    "FILE": "write_baseline.out table.best",
    "PATTERN": "only",
    "N>=1": "limit concurrency processes cpus steps",
    "N>=0": "gpus requeue train.seed",
    "N": "epochs check_encoder.tolerance",
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
TABLE_FORMATS = (*FORMATS, "eval-results", "model-card", "mteb")


def choice_callback(what: str, valid: tuple[str, ...]) -> Callable[[str | None], str | None]:
    """Return a typer callback that accepts `valid` names and None. For any other name it suggests the nearest one."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in valid:
            raise typer.BadParameter(unknown_message(what, value, valid))
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


class DeclaredParameter(NamedTuple):
    """A parameter of a function, or a field of a dataclass, as its source declares it."""

    kind: str
    """Its annotation."""
    default: Any
    """Its default; `...`: it has none."""
    text: str
    """What the docstring says of it."""


@functools.cache
def read_declared(dotted_name: str) -> dict[str, DeclaredParameter]:
    """Return what a function or dataclass declares, by name.

    The source is read and not imported, because that takes a second, and a verb says at once what it does.

    Args:
        dotted_name: its dotted name below rbench, such as `api.runs.table`.
    """
    *module, name = dotted_name.split(".")
    source = Path(__file__).parents[1].joinpath(*module).with_suffix(".py").read_text(encoding="utf-8")
    aliases = dict(re.findall(r"^(\w+) = (Literal\[.*?\])", source, re.MULTILINE | re.DOTALL))
    (text,) = re.findall(rf"^(?:def|class) {name}\b.*?(?=\n\n\n|\Z)", source, re.MULTILINE | re.DOTALL)
    (node,) = ast.parse(text).body
    if isinstance(node, ast.ClassDef):
        return {
            ast.unparse(declaration.target): DeclaredParameter(
                _annotation_text(declaration.annotation, aliases),
                _default_value(declaration.value),
                _field_docstring(following),
            )
            for declaration, following in pairwise([*node.body, ast.Pass()])
            if isinstance(declaration, ast.AnnAssign)
        }
    assert isinstance(node, ast.FunctionDef)
    arguments_section = (ast.get_docstring(node) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    texts = {
        name: " ".join(text.split())
        for names, text in re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", arguments_section, re.MULTILINE)
        for name in names.split(", ")
    }
    args = node.args
    without_default = len(args.args) - len(args.defaults)
    defaults: list[ast.expr | None] = [*[None] * without_default, *args.defaults, *args.kw_defaults]
    return {
        declaration.arg: DeclaredParameter(
            _annotation_text(declaration.annotation, aliases), _default_value(default), texts.get(declaration.arg, "")
        )
        for declaration, default in zip([*args.args, *args.kwonlyargs], defaults, strict=True)
    }


def _annotation_text(annotation: ast.expr | None, aliases: Mapping[str, str]) -> str:
    annotation_text = ast.unparse(annotation).removesuffix(" | None") if annotation is not None else "Any"
    return aliases.get(annotation_text, annotation_text)


def _default_value(default: ast.expr | None) -> Any:
    """Return a default; None where it is made by a call."""
    if default is None:
        return ...
    return None if isinstance(default, ast.Call) else ast.literal_eval(default)


def _field_docstring(following: ast.stmt) -> str:
    """Return the docstring that follows a field; nothing where none does."""
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return " ".join(str(following.value.value).split())
    return ""


def _as_help(text: str, *, several: bool) -> str:
    """Return the words of a docstring as help: without markup, and with what None means as the default."""
    text = f"{text[:1].upper()}{text[1:]}".replace("`", "").replace("[", r"\[")
    text, default, shown = re.sub(r"[;.] None: (.*?)\.?$", r". (default: \1)", text).partition(" (default: ")
    return f"{text}{' May be repeated.' if several else ''}{default}{shown}"


_TYPES = {"bool": bool, "int": int, "float": float, "Path": Path, "Path | str": Path, "NumExamples": int}
_USUAL_VALUES = {bool: "", int: "N", float: "X", Path: "FILE", str: "NAME", tuple[str, str]: "A B"}


def _look_up(table: Mapping[str, str], dotted_name: str, name: str) -> str | None:
    """Return what a table says of a parameter: of that of this function, else of all with this name."""
    return table.get(f"{dotted_name.rpartition('.')[2]}.{name}", table.get(name))


def make_parameter(dotted_name: str, name: str, *, shared: bool = False) -> tuple[Any, Any]:
    """Return a parameter of a function, or a field of a dataclass, as typer reads it: its type, and its option."""
    declaration, function = read_declared(dotted_name)[name], dotted_name.rpartition(".")[2]
    is_repeated = declaration.kind.startswith(("tuple[Path", "tuple[str, ...]", "Sequence[", "str | Sequence[", "Runs"))
    choices: tuple[str, ...] = ()
    kind: Any = _TYPES.get(declaration.kind, str)
    extra: dict[str, Any] = {}
    if is_repeated:
        kind = Path if "Path" in declaration.kind or declaration.kind == "Runs" else str
        extra = {"exists": True, "file_okay": False} if declaration.kind.startswith("tuple[Path") else {}
    elif declaration.kind == "tuple[str, str]":
        kind = tuple[str, str]
    elif kind is str:
        is_literal = declaration.kind.startswith("Literal[")
        choices = (
            ast.literal_eval(f"({declaration.kind[8:-1]},)")
            if is_literal
            else get_args(getattr(schema, declaration.kind, None))
        )
        choices = LAYOUTS if declaration.kind == "Layout" else choices
    value = _look_up(_VALUE, dotted_name, name) or ("" if choices else _USUAL_VALUES[kind])
    if choices:
        # typer makes the option from this annotation: a StrEnum lists its choices, a callback checks without listing.
        extra = {"callback": choice_callback(name, choices)} if value else {}
        kind = str if value else StrEnum(name, list(choices))
    if kind is Path:
        extra |= {"file_okay": value != "DIR", "dir_okay": value != "FILE"}
    default = None if declaration.default == () else declaration.default
    kind = list[kind] if is_repeated else kind
    kind = kind | None if default is None else kind
    if value in ARGUMENTS:
        return kind, argument(value, _as_help(declaration.text, several=False), default)
    panel = _look_up(_PANEL, dotted_name, name) if shared or f"{function}.{name}" in _PANEL else None
    return kind, option(
        f"{_look_up(FLAGS, dotted_name, name) or '--' + name.replace('_', '-')} {value}",
        _as_help(declaration.text, several=is_repeated),
        default,
        panel=panel,
        **extra,
    )


ENCODERS = "A name (rbench list encoders), a folder (./mine), or a hub id (OWNER/NAME)."
SUITE = argument("SUITE", "A suite's name (rbench list suites) or a file.", ...)
_RUN = "The folder that rbench run wrote, such as results/runs/quickstart, or a file that rbench pack wrote"
RUN = argument("RUN", f"{_RUN}.", ...)
RUNS = argument("RUN...", f"{_RUN}; several are read as one. before=RUN labels its encoders.", ...)
FORMAT = option("--format NAME", f"{', '.join(FORMATS)}.", "markdown", callback=choice_callback("format", FORMATS))


_VERB_OPTIONS: dict[str, tuple[Any, str, str]] = {
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
    for name, (kind, shown, text) in _VERB_OPTIONS.items()
}
"""Options that several verbs have, or that stand for several of the API's."""


def _shared_parameter(name: str) -> tuple[Any, Any]:
    dotted_name = "execution.cluster.executor.Executor" if name in EXECUTOR_OPTIONS.split() else "plan.prepare.Options"
    return SHARED[name] if name in SHARED else make_parameter(dotted_name, name, shared=True)


def build_signature(function: Callable[..., None], dotted_name: str, shared: Collection[str]) -> inspect.Signature:
    """Return the signature of a verb, as typer reads it: its own parameters, those of `dotted_name` in the place of its
    keyword arguments, and the shared options."""
    hints = get_type_hints(function, localns={"Options": Any, "Executor": Any})
    parameters_by_name: dict[str, tuple[Any, Any]] = {}
    own_parameters = inspect.signature(function).parameters
    for name, own_parameter in own_parameters.items():
        if own_parameter.kind is own_parameter.VAR_KEYWORD:
            # `**how` stands for the parameters of the API's function that the verb does not name itself.
            from_api = read_declared(dotted_name).keys() - {*own_parameters, *shared, "options", "progress"}
            parameters_by_name |= {
                name: make_parameter(dotted_name, name) for name in read_declared(dotted_name) if name in from_api
            }
        elif own_parameter.default is own_parameter.empty and name not in (*shared, "options", "executor"):
            parameters_by_name[name] = SHARED[name] if name in SHARED else make_parameter(dotted_name, name)
    parameters_by_name |= {
        name: (hints[name], own_parameter.default)
        for name, own_parameter in own_parameters.items()
        if own_parameter.default is not own_parameter.empty
    }
    parameters_by_name |= {name: _shared_parameter(name) for name in shared}
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in parameters_by_name.items()
        ]
    )


def collect_arguments(
    function: Callable[..., None], dotted_name: str, shared: Collection[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a verb gets: `options` and `executor` of the shared options that these have, others as they are.

    As keyword arguments it gets those of `dotted_name`, with search paths and `options` among them.
    """
    kinds_by_name = {
        name: verb_parameter.kind for name, verb_parameter in inspect.signature(function).parameters.items()
    }
    api_parameters = read_declared(dotted_name) if dotted_name else {}
    # Options that were not given have the default of the API's function, which None of the command line would replace.
    left_at_default = {
        name for name, value in given.items() if value is None and name in api_parameters and name not in kinds_by_name
    }
    values = {**given, **{name: api_parameters[name].default for name in left_at_default}}
    if shared and ("options" in kinds_by_name or api_parameters.keys() & {"options", "include", "data"}):
        values["options"] = build_options({name: given[name] for name in shared})
        values |= {name: getattr(values["options"], name) for name in ("include", "data") if name in shared}
    if "executor" in kinds_by_name:
        values["executor"] = _build_executor(**{name: given[name] for name in EXECUTOR_OPTIONS.split()})
    keywords = inspect.Parameter.VAR_KEYWORD in kinds_by_name.values()
    return {
        name: _unwrap_enum(values[name])
        for name in values
        if name in kinds_by_name or (keywords and name in api_parameters)
    }


def build_options(given: Mapping[str, Any]) -> Options:
    """Return the options of the API that the options of a verb stand for."""
    from rbench.api import Options, call_options

    overrides = given.get("overrides") or ()
    values_by_name = {**given, "overrides": [*overrides, *seed_overrides(given.get("seeds"), overrides)]}
    values_by_name["texts"] = not given.get("no_texts")
    fields = {field.name for field in dataclasses.fields(Options)}
    return call_options.resolve_options(
        None, {name: _unwrap_enum(value) for name, value in values_by_name.items() if name in fields}
    )


def seed_overrides(seeds: Sequence[int] | None, overrides: Sequence[str]) -> list[str]:
    """Return the override that --seed stands for; none where it was not given.

    Raises SuiteError where --set names seeds, too.
    """
    if not seeds:
        return []
    for override in overrides:
        if override.partition("=")[0].strip() == "seeds":
            raise SuiteError(f"--seed and --set {override} both choose the seeds; leave one out")
    return [f"seeds=[{', '.join(map(str, seeds))}]"]


def _build_executor(sbatch: Sequence[str] | None, **executor_options: Any) -> Executor | None:
    """Return the executor that the options of a verb stand for; None where it runs the jobs in this process."""
    values = {name: _unwrap_enum(raw_value) for name, raw_value in executor_options.items()}
    # None and False are options that were not given: `Executor` has their defaults.
    given = {name: value for name, value in values.items() if value is not None and value is not False}
    if given == {"kind": "inline"} and not sbatch:
        return None
    from rbench.api import Executor

    return Executor(sbatch=dict(map(_split_sbatch, sbatch or ())), **given)


def _unwrap_enum(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value


def _split_sbatch(text: str) -> tuple[str, str | bool]:
    key, given, value = text.removeprefix("--").partition("=")
    return key, value if given else True
