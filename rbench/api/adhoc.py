"""Put together the content of an encoder file from an objective, a base and a corpus of the command line."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbench.errors import ResourceError, SuiteError
from rbench.load import checked, load_encoder, of_label
from rbench.load.code import find
from rbench.load.files import Files
from rbench.load.positions import Positioned, Problems, Where, parse
from rbench.load.registry import NAME, Registry, unknown
from rbench.load.unlisted import absolute, is_model, problem
from rbench.spec import IN_DOMAIN, EncoderSpec, TrainSpec, is_text_file
from rbench.spec.unlisted import is_path

OF_ENCODER = ("pooling", "layers", "revision")
"""Keys of an encoder file that --set accepts besides those of its `train`."""
_ELSEWHERE = ("objective", "options", "data")


@dataclass(frozen=True)
class AdHocArgs:
    """The options given besides the objective; None or empty if not given."""

    base: str | None = None
    data: str | None = None
    settings: tuple[str, ...] = ()
    steps: int | None = None
    epochs: float | None = None
    seed: int | None = None
    name: str | None = None

    @property
    def flags(self) -> list[str]:
        """The options that were given, as the command line writes them."""
        named = ("base", "data", "steps", "epochs", "seed", "name")
        return [f"--{flag}" for flag in named if getattr(self, flag) is not None] + ["--set"] * bool(self.settings)


def entry(what: str, args: AdHocArgs, registry: Registry, models: Sequence[Path] = ()) -> Positioned | None:
    """Return the content of an encoder file for objective `what`; None if `what` is an encoder of the registry.

    Each value has the option that it comes from as its position in error messages. For an encoder that suites train on
    the texts of each task (`data: in-domain`), `--data` alone returns its file with that corpus.

    Args:
        models: the model search path, on which a base may lie.

    Raises:
        SuiteError: `what` is neither an encoder nor an objective; an encoder has options that would change it; an
            objective has no base or corpus; a corpus or --set key is unknown; the base is a path without a model; the
            name is taken.
    """
    encoders, known = registry.names("encoders"), registry.names("objectives")
    ad_hoc = args.base is not None or args.data is not None
    name = of_label(what).name
    if name in encoders and not (ad_hoc and what in known):
        if args.flags == ["--data"] and name == what and (located := _in_domain(what, args, registry)) is not None:
            return located
        if args.flags:
            raise SuiteError(_another(name, args, registry))
        return None
    if what not in known and ("/" in what or is_model(absolute(what, Path.cwd()))):
        raise SuiteError(
            f"{what} is a model, which suites take as it is. To train it further, name an objective: "
            f"rbench train simcse --base {what} --data CORPUS; see rbench list objectives."
        )
    if what not in known:
        raise SuiteError(unknown("encoder or objective", what, [*encoders, *known]))
    missing = [flag for flag, value in (("--base", args.base), ("--data", args.data)) if value is None]
    if missing:
        raise SuiteError(
            f"{what} is an objective: {' and '.join(missing)} missing. For instance: "
            f"rbench train {what} --base mini-bert --data mini-corpus --set dropout=0.1"
        )
    if args.steps is not None and args.epochs is not None:
        raise SuiteError("--steps and --epochs exclude each other")
    return _put_together(what, args, registry, models)


def _in_domain(what: str, args: AdHocArgs, registry: Registry) -> Positioned | None:
    """Return an in-domain encoder with the corpus of `--data`; None if the encoder `what` is not in-domain."""
    spec = load_encoder(what, registry)
    if spec.train is None or spec.train.data != IN_DOMAIN:
        return None
    problems = Problems()
    data = _corpus(str(args.data), registry, problems)
    name = f"{what}-{Path(data).stem}"
    located = Files(registry, problems).content("encoders", what)
    problems.raise_any()
    return located.put(("name",), Positioned(name, {(): "--data"})).put(
        ("train", "data"), Positioned(data, {(): "--data"})
    )


def _another(what: str, args: AdHocArgs, registry: Registry) -> str:
    """Say that an encoder with other settings would be another encoder, and the command that trains that one."""
    spec = load_encoder(what, registry)
    flags = ", ".join(args.flags)
    if spec.train is None:
        return (
            f"{what} is an encoder that is not trained by itself, so {flags} cannot apply to it. "
            f"To train it further: rbench train OBJECTIVE --base {what} --data CORPUS; see rbench list objectives."
        )
    start = f"{what} is an encoder of the registry, trained as its file says; {flags} would make it another encoder"
    if spec.base is None:
        return f"{start}. Leave these options out, or name an objective: {', '.join(registry.names('objectives'))}."
    return f"{start}. Instead: rbench train {spec.train.objective} --base {spec.base} --data {spec.train.data} ..."


def _put_together(objective: str, args: AdHocArgs, registry: Registry, models: Sequence[Path]) -> Positioned:
    assert args.base is not None and args.data is not None
    problems = Problems()
    base, data = _folder(args.base, registry, problems), _corpus(args.data, registry, problems)
    name = _name(objective, args, registry, problems)
    train: dict[str, Any] = {"objective": objective, "data": data}
    content: dict[str, Any] = {"name": name, "title": f"{objective} on {Path(base).name}", "base": base}
    content |= {"pooling": _pooling(base, registry, models), "train": train}
    places: dict[Where, str] = {
        (): "rbench train",
        ("base",): "--base",
        ("pooling",): "--base",
        ("train", "data"): "--data",
    }
    located = Positioned(content, places)
    for key in ("steps", "epochs", "seed"):
        if (value := getattr(args, key)) is not None:
            located = located.put(("train", key), Positioned(value, {(): f"--{key}"}))
    options = checked(find("objectives", objective, registry)).Options.model_fields
    for setting in args.settings:
        located = _set(located, setting, objective, options, problems)
    problems.raise_any()
    return located


def _folder(base: str, registry: Registry, problems: Problems) -> str:
    """Make a folder's path absolute, so that the entry is valid wherever it is read. Other values stay as given.

    Add a problem where the base is written as a path, and no model lies there.
    """
    path = absolute(base, Path.cwd())
    if is_path(base) and (wrong := problem(str(path))) is not None:
        problems.add("--base", wrong)
    there = is_path(base) or (is_model(path) and base not in registry.names("encoders"))
    return str(path.resolve()) if there else base


def _pooling(base: str, registry: Registry, models: Sequence[Path]) -> str:
    """Return the pooling of a base: as its encoder's file or sentence-transformers' files say; else `cls`."""
    from rbench.encoders.locate import locate
    from rbench.encoders.stated import stated

    if base in registry.names("encoders"):
        pooling: str = load_encoder(base, registry, place="--base").pooling
        return "cls" if pooling == "cls+mlp" else pooling
    try:
        said = stated(locate(EncoderSpec(name=base, base=base), models).where)
    except ResourceError:
        return "cls"  # planning says what is missing or wrong
    return str(said.fields["pooling"]) if said.by_sentence_transformers else "cls"


def _corpus(data: str, registry: Registry, problems: Problems) -> str:
    """Return the corpus as an encoder file names it. Adds a problem if it is unknown."""
    path = Path(data).expanduser()
    if is_text_file(data):
        return str(path.resolve()) if path.is_file() else data
    if path.is_file():
        problems.add("--data", f"{data}: a corpus file ends in .txt (one text a line) or .jsonl (column text)")
    elif data not in registry.names("tasks"):
        message = unknown("corpus", data, registry.names("tasks"))
        problems.add("--data", f"{message} A file of your own ends in .txt or .jsonl.")
    return data


def _name(objective: str, args: AdHocArgs, registry: Registry, problems: Problems) -> str:
    """Return --name, or else `<objective>-<base>-<data>`. Adds a problem if it is not allowed or taken."""
    if args.name is None:
        parts = (objective, Path(str(args.base)).name, Path(str(args.data)).stem)
        name = re.sub(r"[^A-Za-z0-9._+-]+", "-", "-".join(part for part in parts if part))
        where = "the name made from objective, base and corpus"
    else:
        name, where = args.name, "--name"
    if not NAME.fullmatch(name):
        problems.add(where, f"{name!r}: a name has letters, digits and . _ + - and begins with a letter or digit")
    elif name in registry.names("encoders"):
        problems.add(where, f"there is an encoder {name} already; give another name with --name")
    return name


def _set(located: Positioned, setting: str, objective: str, options: Collection[str], problems: Problems) -> Positioned:
    """Return `located` with one `KEY=VALUE` applied. VALUE is YAML; `options` are the option names of the objective."""
    place = f"--set {setting if len(setting) <= 80 else setting[:77] + '...'}"
    key, equals, text = setting.partition("=")
    key = key.strip()
    if not equals or not key:
        problems.add(place, "expected KEY=VALUE, for instance --set temperature=0.1")
        return located
    of_training = set(TrainSpec.model_fields) - set(_ELSEWHERE)
    if key not in (known := {*options, *of_training, *OF_ENCODER}):
        problems.add(place, unknown(f"option of {objective} or key of its training", key, known))
        return located
    try:
        value = parse(text, place, problems, fixed_place=True)
    except SuiteError as error:
        problems.take(error)
        return located
    where = ("train", "options", key) if key in options else ("train", key) if key in of_training else (key,)
    return located.put(where, value, place)
