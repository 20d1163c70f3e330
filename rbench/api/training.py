"""Train and export encoders without a suite (`rbench train`).

from rbench import api
trained = api.train("simcse-mini")                                            # an entry of the registry
trained = api.train("simcse", base="minilm", data="my.txt", settings=["temperature=0.1"], out="my-encoder")
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench import config as loading
from rbench.api.call_options import resolve_options
from rbench.config.code import find
from rbench.config.encoders import absolute_path, is_model, model_problem
from rbench.config.files import RegistryFiles
from rbench.config.positions import PositionedData, Problems
from rbench.config.registry import NAME, Registry, nearest_names, unknown_message
from rbench.config.suite import parse_setting
from rbench.encoders.locate import locate
from rbench.encoders.model_metadata import read_metadata
from rbench.errors import JobError, PlanError, ResourceError, SuiteError
from rbench.execution.publish import encoder as exporting
from rbench.execution.run import check_device, ran, resolve_device
from rbench.plan.lineage import as_loaded, chain_of_bases, find_trained_root, find_weights_source
from rbench.plan.prepare import Options, PreparedSuite, prepare_loaded
from rbench.schema import IN_DOMAIN, EncoderSpec, KindName, Record, TrainSpec, is_text_file
from rbench.schema.unlisted import is_path
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache
from rbench.system import scratch
from rbench.system.digests import PlaceWatch
from rbench.system.progress import Progress, SilentProgress, show_progress
from rbench.train import objectives as modules

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder


LOGS_FOLDER = Path("results/logs")
"""The folder for tracker files of `train` and `export`. Suites have it in their RUN."""


@dataclass(frozen=True)
class Trained:
    """An encoder: its weights, in the cache where rbench trains it, and the record of its training."""

    name: str
    root: str
    """The encoder whose training made the weights: `name`, or an encoder that it is based on."""
    record: Record | None
    """None: rbench does not train it, and it was exported as it is."""
    weights: Path | str
    """Their folder, or a hub id of what is exported as it is."""
    entry: str
    """The content of an encoder file for use in a suite; empty if the encoder has a file."""
    exported: Path | None = None
    dim: int | None = None
    """The numbers of a vector of what was exported."""

    @property
    def learned(self) -> tuple[str, ...]:
        """What the training did and what it means, a sentence a line; empty where nothing was measured."""
        from rbench.train.learned import describe_training

        return tuple(describe_training(self.record)) if self.record is not None else ()


def train(
    what: str,
    *,
    base: str | None = None,
    data: str | None = None,
    settings: Sequence[str] = (),
    steps: int | None = None,
    epochs: float | None = None,
    seed: int | None = None,
    name: str | None = None,
    out: Path | str | None = None,
    force: bool = False,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train an encoder or find it in the cache. The job is the same as in a suite with this encoder.

    With `out` it is exported for plain `SentenceTransformer(out)`, also one that rbench does not train.

    Args:
        what: an encoder (`rbench list encoders`), also one with other options, 'simcse-mini[seed=1]'; or, with `base`
            and `data`, an objective (`rbench list objectives`).
        base: the model to train: an encoder's name, a folder (./mine, or in --models), or a hub id (OWNER/NAME).
        data: a corpus of the registry, or a `.txt` or `.jsonl` file.
        settings: an option of the objective, or batch_size, learning_rate, warmup, weight_decay, max_length, pooling
            and the like.
        steps: number of batches to train on.
        epochs: number of passes over the corpus. None: 1.
        seed: seed of the training. None: 0.
        name: name of the new encoder. None: OBJECTIVE-BASE-CORPUS.
        out: export the encoder to this new or empty folder.
        force: replace the encoder that `out` holds.
        options: search paths, the device and more.

    Raises:
        SuiteError, PlanError, ResourceError: a name, option, file or place is wrong; without `out`, there is nothing to
            train; raised before any work.
        JobError: the training failed.
    """
    options = options or Options()
    check_device(options.device)
    registry = Registry(options.include)
    args = AdHocArgs(base, data, tuple(settings), steps, epochs, seed, name)
    new_entry = build_ad_hoc_entry(what, args, registry, options.models, exported=out is not None)
    if out is not None:
        exporting.check_place(Path(out), force=force)
    chosen, prepared = _prepare_encoder(
        new_entry.data["name"] if new_entry is not None else what, registry, options, new_entry
    )
    root = find_trained_root(chosen, prepared.loaded.encoders)
    if root is None and out is None:
        raise PlanError(_why_not_trained(chosen, prepared))
    if out is not None:
        exporting.check_spec(as_loaded(chosen, prepared.loaded.encoders))
    exported = None if out is None else Path(out)
    with _open_weights(chosen, prepared, options, progress) as (record, weights):
        dim = _export(chosen, prepared, weights, record, exported, force=force) if exported is not None else None
    text = loading.as_yaml(new_entry.data) if new_entry is not None else ""
    return Trained(chosen, root or chosen, record, weights, text, exported, dim)


@dataclass(frozen=True)
class ListedObjective:
    """A training objective: its listing, and its options with their defaults."""

    listed: loading.ListedFile
    options: dict[str, Any]


def objectives(registry: Registry | None = None) -> list[ListedObjective]:
    """List all training objectives by name. If one cannot be imported, its title says what is wrong."""
    registry = registry or Registry()
    entries = []
    for listed in loading.catalogue("objectives", registry):
        try:
            options = modules.option_defaults(loading.open_checked(find("objectives", listed.name, registry)).Options)
        except SuiteError:
            options = {}
        entries.append(ListedObjective(listed, options))
    return entries


def export(
    encoder: str,
    folder: Path | str,
    *,
    force: bool = False,
    options: Options | None = None,
    progress: Progress | None = None,
) -> int:
    """Write an encoder to `folder` for plain `SentenceTransformer(folder)`; return its dimension.

    An encoder that rbench trains comes from the cache, and is trained first if it is not there.

    Args:
        encoder: a name (`rbench list encoders`), 'NAME[seed=1]', a folder (./mine), or a hub id (OWNER/NAME).
        folder: a new or empty folder.
        force: replace the encoder that `folder` holds.

    Raises:
        SuiteError, PlanError, ResourceError: the name is unknown, the folder is taken, sentence-transformers cannot
            express the encoder, or weights are missing; raised before any work.
        JobError: the training failed.
    """
    options = options or Options()
    exporting.check_place(Path(folder), force=force)
    encoder, prepared = _prepare_encoder(encoder, Registry(options.include), options, None)
    # A folder is planned first: its own files say how it pools.
    exporting.check_spec(as_loaded(encoder, prepared.loaded.encoders))
    with _open_weights(encoder, prepared, options, progress) as (record, weights):
        return _export(encoder, prepared, weights, record, Path(folder), force=force)


def load_encoder(
    encoder: str | os.PathLike[str],
    *,
    kind: KindName | None = None,
    device: str = "auto",
    progress: Progress | bool = True,
    **settings: Any,
) -> SentenceEncoder:
    """Return an encoder as suites use it: `load_encoder("minilm").encode(texts)` gives vectors (n, dim), float32.

    An encoder that rbench trains comes from the cache, and is trained first if it is not there.

    Args:
        encoder: a name, a folder (./mine) or a hub id (OWNER/NAME); or a label as tables and jobs have it,
            `simcse-mini[seed=1]`.
        kind: the kind of task whose texts are read (`ranking`, `sts`, `classification`), where the encoder has a prompt
            for each; None: of no task.
        device: `auto`, `cpu` or `cuda`.
        progress: of a training, as in `rbench.run`.
        settings: single fields of `Options`, such as models="MODELS" or include="DIR".

    Raises:
        SuiteError, PlanError, ResourceError: the name is unknown, or weights are missing; raised before any work.
        JobError: the training failed.
    """
    from rbench.encoders import load

    options = resolve_options(None, {**settings, "device": device})
    if isinstance(encoder, os.PathLike):
        encoder = str(Path(encoder).expanduser().absolute())
    encoder, prepared = _prepare_encoder(encoder, Registry(options.include), options, None)
    spec, on = as_loaded(encoder, prepared.loaded.encoders), resolve_device(options.device)
    trains = find_trained_root(encoder, prepared.loaded.encoders) is not None
    with (
        show_progress(trains and progress) as receiver,
        _open_weights(encoder, prepared, options, receiver) as (_, weights),
    ):
        return load(spec, weights, device=on, kind=kind)


def load_entry(
    wanted: str, registry: Registry, new_entry: PositionedData | None = None
) -> tuple[str, loading.LoadedSuite]:
    """Return the label of the encoder `wanted`, and a suite that has it alone. No weights are looked for.

    A suite needs work, so it evaluates on a task of the embedded world, which is always there and for which any encoder
    will do. A `seed` in a label is that of `train_seeds`, so each draw in a table is found under its label.
    """
    choice = loading.parse_label(wanted)
    others = {name: value for name, value in choice.options.items() if name != "seed"}
    suite = {
        "name": "train",
        "encoders": [{choice.name: others} if others else choice.name],
        "evaluate": ["mini-sts"],
        "resources": "mini",
        "train_seeds": [choice.options["seed"]] if "seed" in choice.options else [],
    }
    own_entries: Mapping[str, PositionedData] = {choice.name: new_entry} if new_entry is not None else {}
    loaded = loading.load_mapping(
        suite, registry=registry, origin="rbench train" if new_entry else "encoder", own=own_entries
    )
    (base,) = loaded.suite.encoders
    return next((label for label, draw in loaded.draws.items() if draw.encoder == base), base), loaded


def _prepare_encoder(
    wanted: str, registry: Registry, options: Options, new_entry: PositionedData | None
) -> tuple[str, PreparedSuite]:
    """Plan the encoder `wanted` as a suite would, with only the jobs that make its weights. Returns its label too."""
    check_device(options.device)
    encoder, loaded = load_entry(wanted, registry, new_entry)
    if (root := find_trained_root(encoder, loaded.encoders)) in loaded.in_domain:
        raise PlanError(
            f"encoder {root} is trained on the texts of the task that it is fine-tuned on (data: {IN_DOMAIN}). Name "
            f"a task or a corpus: rbench train {root} --data TASK. A suite takes each of its tasks in turn."
        )
    try:
        prepared = prepare_loaded(loaded, options)
    except ResourceError as error:
        raise ResourceError(f"{error}{_base_hint(new_entry, registry)}") from error
    jobs = tuple(job for job in prepared.plan.jobs if job.pretraining is not None)
    return encoder, dataclasses.replace(prepared, plan=prepared.plan.model_copy(update={"jobs": jobs}), notes=[])


def _base_hint(new_entry: PositionedData | None, registry: Registry) -> str:
    """Suggest encoders of the registry with names like a base that was not found."""
    base = new_entry.data["base"] if new_entry is not None else None
    known = registry.names("encoders")
    close = nearest_names(base, known) if base is not None and "/" not in base and base not in known else []
    return f"\nEncoders of the registry that are called like {base}: {', '.join(close)}." if close else ""


@contextmanager
def _open_weights(
    encoder: str, prepared: PreparedSuite, options: Options, progress: Progress | None
) -> Iterator[tuple[Record | None, Path | str]]:
    """Give the record of an encoder's training, if rbench trains it, and its weights. What is not in the cache is
    trained."""
    root = find_trained_root(encoder, prepared.loaded.encoders)
    if root is None:
        with PlaceWatch().reading(prepared.places.weights[encoder]) as where:
            yield None, where
        return
    job = next(
        candidate
        for candidate in prepared.plan.jobs
        if candidate.pretraining and candidate.pretraining.encoder.name == root
    )
    options = dataclasses.replace(options, logs=options.logs or LOGS_FOLDER)  # the RUN below is temporary
    cache = WeightCache(default_cache())
    if cache.has(job.key):  # then the jobs that it needs are not needed
        prepared = dataclasses.replace(prepared, plan=prepared.plan.model_copy(update={"jobs": (job,)}))
    with scratch.temporary_folder("train") as folder:
        with ran(dataclasses.replace(prepared, run=folder), options, progress or SilentProgress()) as run_outcome:
            pass  # without tables and figures: the plan is cut to trainings, which have none
        if run_outcome.failed:
            raise JobError(run_outcome.failed[0].error or f"{run_outcome.failed[0].job.name} failed")
        record = RunStore(folder).record(job)
    yield record, cache.folder(job.key)


def _export(
    name: str, prepared: PreparedSuite, where: Path | str, record: Record | None, folder: Path, *, force: bool = False
) -> int:
    loaded = prepared.loaded
    train = chain_of_bases(name, loaded.encoders)[-1].train
    objective = loaded.modules["objectives", train.objective].open() if train is not None else None
    return exporting.write_encoder(
        as_loaded(name, loaded.encoders),
        where,
        folder,
        lambda staged: exporting.write_card(staged, name, loaded.encoders, loaded.tasks, record, objective),
        force=force,
    )


def _why_not_trained(name: str, prepared: PreparedSuite) -> str:
    source = find_weights_source(name, prepared.loaded.encoders)
    assert source is not None
    if source.random_weights:
        return (
            f"encoder {name} is not trained: its weights are random until it is fine-tuned, and suites draw them anew "
            f"for each seed. To write it out as drawn with seed 0: rbench train {name} --out DIR."
        )
    return (
        f"encoder {name} is not trained by rbench: its weights are {source.base or source.name}'s, and suites take "
        f"them as they are. To train further, name an objective: rbench train simcse --base {name} --data CORPUS. "
        f"To write it out: rbench train {name} --out DIR."
    )


ENCODER_KEYS = ("pooling", "layers", "revision")
"""Keys of an encoder file that --set accepts besides those of its `train`."""
_NOT_SETTABLE = ("objective", "options", "data")


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


def build_ad_hoc_entry(
    what: str, args: AdHocArgs, registry: Registry, models: Sequence[Path] = (), *, exported: bool = False
) -> PositionedData | None:
    """Return the content of an encoder file for objective `what`; None if `what` is an encoder of the registry.

    Each value has the option that it comes from as its position in error messages. For an encoder that suites train on
    the texts of each task (`data: in-domain`), `--data` alone returns its file with that corpus.

    Args:
        models: the model search path, on which a base may lie.
        exported: whether the encoder is written out. Then `what` may also be a model without a file, which gives None.

    Raises:
        SuiteError: `what` is neither an encoder nor an objective; an encoder has options that would change it; an
            objective has no base or corpus; a corpus or --set key is unknown; the base is a path without a model; the
            name is taken.
    """
    encoders, known = registry.names("encoders"), registry.names("objectives")
    ad_hoc = args.base is not None or args.data is not None
    name = loading.parse_label(what).name
    if name in encoders and not (ad_hoc and what in known):
        if args.flags == ["--data"] and name == what and (located := _with_corpus(what, args, registry)) is not None:
            return located
        if args.flags:
            raise SuiteError(_changed_encoder_message(name, args, registry))
        return None
    if what not in known and ("/" in what or is_model(absolute_path(what, Path.cwd()))):
        if exported and not args.flags:
            return None
        raise SuiteError(
            f"{what} is a model, which suites take as it is. To train it further, name an objective: "
            f"rbench train simcse --base {what} --data CORPUS; see rbench list objectives."
        )
    if what not in known:
        raise SuiteError(unknown_message("encoder or objective", name, [*encoders, *known]))
    missing = [flag for flag, value in (("--base", args.base), ("--data", args.data)) if value is None]
    if missing:
        raise SuiteError(
            f"{what} is an objective: {' and '.join(missing)} missing. For instance: rbench train {what} --base "
            "mini-bert --data mini-corpus --set dropout=0.1"
        )
    if args.steps is not None and args.epochs is not None:
        raise SuiteError("--steps and --epochs exclude each other")
    return _build_entry(what, args, registry, models)


def _with_corpus(what: str, args: AdHocArgs, registry: Registry) -> PositionedData | None:
    """Return an in-domain encoder with the corpus of `--data`; None if the encoder `what` is not in-domain."""
    spec = loading.load_encoder(what, registry)
    if spec.train is None or spec.train.data != IN_DOMAIN:
        return None
    problems = Problems()
    data = _check_corpus(str(args.data), registry, problems)
    name = f"{what}-{Path(data).stem}"
    located = RegistryFiles(registry, problems).content("encoders", what)
    problems.raise_any()
    return located.put(("name",), PositionedData(name, "--data")).put(("train", "data"), PositionedData(data, "--data"))


def _changed_encoder_message(what: str, args: AdHocArgs, registry: Registry) -> str:
    """Say that an encoder with other settings would be another encoder, and the command that trains that one."""
    spec = loading.load_encoder(what, registry)
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


def _build_entry(objective: str, args: AdHocArgs, registry: Registry, models: Sequence[Path]) -> PositionedData:
    assert args.base is not None and args.data is not None
    problems = Problems()
    base, data = _absolute_base(args.base, registry, problems), _check_corpus(args.data, registry, problems)
    name = _encoder_name(objective, args, registry, problems)
    train: dict[str, Any] = {"objective": objective, "data": data}
    content: dict[str, Any] = {"name": name, "title": f"{objective} on {Path(base).name}", "base": base}
    content |= {"pooling": _base_pooling(base, registry, models), "train": train}
    located = PositionedData(content, "rbench train")
    for where, flag in ((("base",), "--base"), (("pooling",), "--base"), (("train", "data"), "--data")):
        located = located.put(where, PositionedData(located.sub(*where).data, flag))
    for key in ("steps", "epochs", "seed"):
        if (value := getattr(args, key)) is not None:
            located = located.put(("train", key), PositionedData(value, f"--{key}"))
    options = loading.open_checked(find("objectives", objective, registry)).Options.model_fields
    of_training = set(TrainSpec.model_fields) - set(_NOT_SETTABLE)
    known, what = {*options, *of_training, *ENCODER_KEYS}, f"option of {objective} or key of its training"
    for text in args.settings:
        if (parsed := parse_setting(text, "--set", "--set temperature=0.1", problems, known, what)) is not None:
            key, value, place = parsed
            path: tuple[str, ...] = (
                ("train", "options", key) if key in options else ("train", key) if key in of_training else (key,)
            )
            located = located.put(path, value, place)
    problems.raise_any()
    return located


def _absolute_base(base: str, registry: Registry, problems: Problems) -> str:
    """Make a folder's path absolute, so that the entry is valid wherever it is read. Other values stay as given.

    Add a problem where the base is written as a path, and no model lies there.
    """
    path = absolute_path(base, Path.cwd())
    if is_path(base) and (wrong := model_problem(str(path))) is not None:
        problems.add("--base", wrong)
    is_folder = is_path(base) or (is_model(path) and base not in registry.names("encoders"))
    return str(path.resolve()) if is_folder else base


def _base_pooling(base: str, registry: Registry, models: Sequence[Path]) -> str:
    """Return the pooling of a base: as its encoder's file or its model's own files say; else `cls`."""
    spec = EncoderSpec(name=base, base=base)
    if base in registry.names("encoders"):
        spec = loading.load_encoder(base, registry, place="--base")
        if "pooling" in spec.model_fields_set or spec.base is None or spec.train is not None:
            return "cls" if spec.pooling == "cls+mlp" else spec.pooling
    try:
        metadata = read_metadata(locate(spec, models).where, revision=spec.revision)
    except ResourceError:
        return "cls"  # planning says what is missing or wrong
    return str(metadata.fields["pooling"]) if metadata.complete else "cls"


def _check_corpus(data: str, registry: Registry, problems: Problems) -> str:
    """Return the corpus as an encoder file names it. Adds a problem if it is unknown."""
    path = Path(data).expanduser()
    if is_text_file(data):
        return str(path.resolve()) if path.is_file() else data
    if path.is_file():
        problems.add("--data", f"{data}: a corpus file ends in .txt (one text a line) or .jsonl (column text)")
    elif data not in registry.names("tasks"):
        message = unknown_message("corpus", data, registry.names("tasks"))
        problems.add("--data", f"{message} A file of your own ends in .txt or .jsonl.")
    return data


def _encoder_name(objective: str, args: AdHocArgs, registry: Registry, problems: Problems) -> str:
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
