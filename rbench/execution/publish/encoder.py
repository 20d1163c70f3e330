"""Publish an encoder: a folder that `SentenceTransformer(path)` loads (safetensors, no pickle), with its model card."""

from __future__ import annotations

import inspect
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import yaml

import rbench
from rbench.errors import PlanError
from rbench.plan.lineage import chain, portable
from rbench.schema import EncoderSpec, Record, TaskSpec, TrainSpec, base_of, bases
from rbench.system.hub import is_repo_id
from rbench.train import batches, objectives
from rbench.train.objectives import ObjectiveModule, option_defaults

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder


TOLERANCE = 1e-5
"""Largest allowed difference between vectors of rbench and of sentence-transformers, relative to the largest number
(or absolute, if that is below 1)."""

PROBES = ("a", "The film was good, and its ending better.", "Zwölf Boxkämpfer? 3 + 4 = 7. " * 40)
"""Texts for comparing the vectors: a short one, a usual one, and one that is cut."""

PARTS = (
    *("config.json", "modules.json", "*_config.json", "config_sentence_transformers.json", "trained.json"),
    *("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin", "pytorch_model.bin.index.json"),
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.model"),
    *("README.md", "LICENSE*", ".gitattributes", "training_args.bin", "transform", "[0-9]_*", "onnx", "openvino"),
)
"""Patterns of the names that files and folders of an encoder have, as transformers, sentence-transformers and rbench
write them. `--force` removes no others."""


def occupied(folder: Path) -> bool:
    """Whether a folder that shall be written has something in it.

    Raises:
        PlanError: `folder` is a file, or in a place that cannot be written.
    """
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".rbench-export-", dir=above):
            pass
    except OSError as error:
        raise PlanError(f"{folder}: cannot write in {above} ({error.strerror}); name another folder") from error
    if folder.exists() and not folder.is_dir():
        raise PlanError(f"{folder} is a file; name a folder")
    return folder.is_dir() and any(folder.iterdir())


def check_place(folder: Path, *, force: bool = False) -> None:
    """Check that an encoder may be written to `folder`: it is new or empty, or, with `force`, has an encoder alone.

    Raises:
        PlanError: `folder` is a file, is not empty, or is in a place that cannot be written. With `force`, it has files
            in it but no encoder, or others beside one.
    """
    if not occupied(folder):
        return
    if not force:
        raise PlanError(f"{folder} is not empty; name another folder, or add --force to replace the encoder in it")
    modules, config = _json(folder / "modules.json"), _json(folder / "config.json")
    listed = isinstance(modules, list) and any(isinstance(one, dict) and "type" in one for one in modules)
    if not listed and not (
        isinstance(config, dict) and "model_type" in config
    ):  # other programs have a config.json too
        raise PlanError(f"{folder} has files in it but no encoder; --force replaces encoders only")
    others = sorted(one.name for one in folder.iterdir() if not any(fnmatch(one.name, part) for part in PARTS))
    if others:
        shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise PlanError(
            f"{folder} has more in it than an encoder ({shown}); --force replaces encoders only. Name another folder, "
            "or move the rest away"
        )


def _json(path: Path) -> Any:
    """Return the content of a file, or None where it cannot be read as JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def check_spec(spec: EncoderSpec) -> None:
    """Check that sentence-transformers can express the encoder, given as `rbench.plan.lineage.effective` returns it.

    Raises:
        PlanError: it cannot; gives the reason.
    """
    from rbench.train.models import EXPRESSIBLE

    if spec.trust_remote_code:
        raise PlanError(
            f"encoder {spec.name} cannot be exported: it needs its own Python code, which SentenceTransformer(path) "
            "does not run"
        )
    if spec.pooling not in EXPRESSIBLE:
        raise PlanError(
            f"encoder {spec.name} cannot be exported: it has pooling {spec.pooling}, and a SentenceTransformer can "
            f"have {' or '.join(EXPRESSIBLE)}. To export it with another pooling, write an encoder file with `base: "
            f"{spec.name}` and that `pooling`."
        )


def write(
    spec: EncoderSpec, where: Path | str, folder: Path, card: Callable[[Path], None], *, force: bool = False
) -> int:
    """Write the encoder with the weights at `where` to `folder`, and return the length of its vectors.

    Random weights are written as drawn with seed 0.

    The encoder is first written to a temporary folder beside `folder`, loaded from there with sentence-transformers,
    and its vectors are compared; then it is moved to `folder`.

    Args:
        spec: the encoder as it is loaded.
        where: the place of the weights, as `encoders.load` takes it.
        card: a function that writes the model card into a given folder.

    Raises:
        PlanError: as `check_place` and `check_spec`, or sentence-transformers gives other vectors.
        ResourceError: the weights cannot be read.
    """
    from rbench import encoders
    from rbench.train import models

    check_place(folder, force=force)
    check_spec(spec)
    encoder = encoders.load(spec, where)
    if reason := models.obstacle(encoder):
        raise PlanError(f"encoder {spec.name} cannot be exported: {reason}")
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".rbench-export-", dir=folder.parent) as name:
        staged = Path(name)
        by_kind = {} if isinstance(spec.prompt, str) else spec.prompt
        # transformers would write the place of the weights, a path on this machine, into the config.
        encoder.model.config._name_or_path = ""
        models.save(staged, encoder, {str(kind): prompt for kind, prompt in by_kind.items()})
        card(staged)
        _compare(encoder, staged)
        if folder.is_dir():
            for old in folder.iterdir():
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        folder.mkdir(exist_ok=True)
        for new in staged.iterdir():
            new.rename(folder / new.name)
    return encoder.dim


def _compare(encoder: SentenceEncoder, folder: Path) -> None:
    import numpy as np
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder), device="cpu").encode(list(PROBES), show_progress_bar=False)
    ours = encoder.encode(PROBES)
    apart = float(np.abs(ours - theirs).max()) if ours.shape == theirs.shape else float("inf")
    if not apart <= TOLERANCE * max(1.0, float(np.abs(ours).max())):
        raise PlanError(
            f"sentence-transformers gives other vectors for the exported encoder (they differ by up to {apart:.2g}); "
            "nothing was written"
        )


LICENCES = (
    *("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "gpl-2.0", "gpl-3.0", "lgpl-3.0", "mpl-2.0"),
    *("cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0"),
    *("cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0"),
)
"""Licence identifiers of the hub. Any other licence is written as `other`, with its name as `license_name`."""


@dataclass(frozen=True)
class About:
    """The content of a card. Specs come from jobs or the registry, and have only the last part of each path."""

    encoder: EncoderSpec
    """The encoder as it is loaded, with its name and pooling."""
    origin: EncoderSpec
    """The entry whose weights the encoder has: trained by rbench, or from a folder or the hub."""
    base: EncoderSpec | None
    """The registry entry that the training of `origin` started from; None if there is none."""
    hub_id: str | None
    """The hub model that the weights descend from; None if there is none."""
    data: TaskSpec | None
    """The registry entry of the training corpus; None if there is none."""
    record: Record | None
    """The record of the training, if there is one."""
    version: str
    """The version of rbench that writes the card."""
    objective: ObjectiveModule | None = None
    """The module of the training objective; None: the installed module of its name."""
    dim: int | None = None
    """Length of the vectors, if known."""
    normalized: bool = False
    """Whether the vectors are scaled to length 1."""
    max_length: int | None = None
    """Longest input in tokens, if known."""

    @property
    def module(self) -> ObjectiveModule:
        """The module of the training objective. The encoder must be one that rbench trained."""
        assert self.origin.train is not None
        return self.objective or objectives.find(self.origin.train.objective)


def render_card(about: About) -> str:
    """Return the card as markdown. Texts of the entries are escaped, so they cannot leave their YAML value or cell."""
    encoder = about.encoder
    return rendered(
        "card.md.jinja",
        front=yaml.safe_dump(_front(about), sort_keys=False, allow_unicode=True),
        name=cell(encoder.name),
        title=cell(encoder.title or about.origin.title or encoder.name),
        version=about.version,
        train=about.origin.train,
        facts=[(label, cell(value)) for label, value in _facts(about) if value],
        options=_options(about),
        scores=_scores(about.record),
        flags=_flags(about.record),
        notes=[cell(note) for note in dict.fromkeys((*encoder.notes, *about.origin.notes))],
    )


def _front(about: About) -> dict[str, Any]:
    """Return the metadata block; see the hub's documentation of model cards."""
    front: dict[str, Any] = {"library_name": "sentence-transformers", "pipeline_tag": "sentence-similarity"}
    front |= licensed(_licence(about))
    if about.hub_id is not None:
        front["base_model"] = about.hub_id
    if about.data is not None and about.data.hub is not None:
        front["datasets"] = [source.id for source in about.data.hub.sources if "train" in source.splits]
    trained = [about.origin.train.objective] if about.origin.train is not None else []
    front["tags"] = ["sentence-transformers", "feature-extraction", "sentence-similarity", "rbench", *trained]
    return front


def licensed(licence: str) -> dict[str, str]:
    """Return what the front matter says of a licence; empty: unknown."""
    identifier = licence.lower().replace(" ", "-")
    if licence and identifier not in LICENCES:
        return {"license": "other", "license_name": licence}
    return {"license": identifier or "unknown"}


def _licence(about: About) -> str:
    """Return the licence of the encoder, or else of `origin`, or else of `base`."""
    base = about.base.licence if about.base is not None else ""
    return " ".join((about.encoder.licence or about.origin.licence or base).split())


def _facts(about: About) -> list[tuple[str, str]]:
    encoder, origin = about.encoder, about.origin
    size = f", vectors of {about.dim} numbers" if about.dim else ""
    cut = f"; texts are cut at {about.max_length} tokens" if about.max_length else ""
    facts = [
        ("made from", origin.name if origin.name != encoder.name else ""),
        ("pooling", f"{encoder.pooling}{size}, {'' if about.normalized else 'not '}normalised{cut}"),
        ("layers", f"the first {encoder.layers}" if encoder.layers else ""),
        ("licence", _licence(about) or "not stated"),
        ("reference", encoder.reference or origin.reference),
    ]
    if origin.train is None:
        return [("weights", _weights(origin)), *facts]
    return [("objective", _objective(about)), ("base", _base(about)), *facts, *_training(about)]


def _weights(origin: EncoderSpec) -> str:
    if origin.random_weights:
        return "random: an architecture that nobody trained, as drawn with seed 0"
    return f"{origin.base or origin.name}" + (f" at {origin.revision}" if origin.revision else "")


def _objective(about: About) -> str:
    assert about.origin.train is not None
    said = inspect.getdoc(about.module) or ""
    return f"{about.origin.train.objective}: {said.partition(chr(10))[0]}".removesuffix(": ")


def _base(about: About) -> str:
    origin, base = about.origin, about.base
    if origin.base is None:
        return "none: an architecture with random weights"
    if base is None:
        return _weights(origin)
    how = "trained by rbench" if base.train is not None else _weights(base)
    return base.name + _said(base.title, base.licence, how)


def _training(about: About) -> list[tuple[str, str]]:
    """Return data, steps and settings of the training, from the record if there is one."""
    train, record = about.origin.train, about.record
    assert train is not None
    job = record.job.pretraining if record is not None else None
    n = record.counts.get("n", 0) if record is not None else 0
    facts = [("data", _data(about, n))]
    if job is not None:
        facts += [("data fingerprint", job.data_fingerprint), ("base fingerprint", job.base_fingerprint or "")]
    counts = sorted(record.counts.items()) if record is not None else []
    facts += [(name.replace("_", " "), f"{value:,}") for name, value in counts]
    if batches.stepwise(about.module):
        rate = f"{train.learning_rate:g}, falling linearly to 0, warm-up {train.warmup:.0%} of the steps"
        facts += [
            (
                "steps",
                f"{_steps(about, n)} planned, {_batches(train)} each, texts cut at {train.max_length} tokens",
            ),
            ("learning rate", rate),
            ("weight decay", f"{train.weight_decay:g}"),
        ]
    facts.append(("seed", str(record.job.seed if record is not None else train.seed)))
    if record is not None:
        source = record.provenance
        facts += [
            (
                "trained with",
                f"rbench {source.rbench}, torch {source.packages.get('torch', 'unknown')}, {source.device}",
            ),
            ("precision", source.precision),
            ("weights hash", source.weights_hash or ""),
        ]
    return [fact for fact in facts if fact[0] != "n"]


def _batches(train: TrainSpec) -> str:
    many = f"{train.gradient_accumulation} batches of " if train.gradient_accumulation > 1 else ""
    return f"{many}{train.batch_size} sentences"


def _steps(about: About, n: int) -> str:
    train = about.origin.train
    assert train is not None
    if not n and train.steps is None:
        return f"{train.epochs or 1:g} epochs"
    near = batches.neighbours(about.module.Options(**train.options))
    return f"{batches.steps(train, batches.trained(n, near), not batches.whole(about.module)):,}"


def _data(about: About, n: int) -> str:
    train, data = about.origin.train, about.data
    assert train is not None
    said = _said(data.title, data.licence) if data is not None else ""
    return f"{train.data}{said}" + (f", {n:,} sentences" if n else "")


def _said(title: str, licence: str, *more: str) -> str:
    """Return title, licence and other facts of a base or corpus in brackets, or the empty string if there are none."""
    parts = (title, *more, f"licence: {licence}" if licence else "")
    known = "; ".join(part for part in parts if part)
    return f" ({known})" if known else ""


def _options(about: About) -> list[tuple[str, str, str]]:
    """Return name, value and default of each option of the objective. Values that differ from the default are bold."""
    if about.origin.train is None:
        return []
    kind = about.module.Options
    values, defaults = kind(**about.origin.train.options).model_dump(), option_defaults(kind)
    models: Sequence[str] = getattr(kind, "MODELS", ())
    rows = []
    for name, value in values.items():
        shown = cell(_short(value) if name in models else value)
        rows.append((name, f"**{shown}**" if value != defaults[name] else shown, cell(defaults[name])))
    return rows


def _short(value: Any) -> Any:
    """Return a model's name; for a path, its last part."""
    text = str(value)
    return value if value is None or is_repo_id(text) else Path(text).name


def _scores(record: Record | None) -> list[tuple[str, str, str]]:
    if record is None:
        return []
    return [
        (cell(score.name), "none" if score.value is None else f"{score.value:.4f}", f"{score.n:,}")
        for score in record.scores
    ]


def _flags(record: Record | None) -> list[tuple[str, str]]:
    """Return each flag of the training, with the numbers that raised it."""
    if record is None or record.health is None:
        return []
    return [(cell(raised.flag), cell(raised.because)) for raised in record.health.flags]


def rendered(template: str, **values: Any) -> str:
    """Return a card as markdown, from a template that is beside this module."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(template).render(values)


def cell(value: Any) -> str:
    """Return a value as one line of markdown, with all characters escaped that could end a table cell or begin HTML."""
    text = " ".join(str(value).split())
    for mark in "\\|`*[]#":
        text = text.replace(mark, "\\" + mark)
    return text.replace("<", "&lt;").replace("---", "\\-\\-\\-")


CARD = "README.md"


def write_card(
    folder: Path,
    name: str,
    encoders: Mapping[str, EncoderSpec],
    tasks: Mapping[str, TaskSpec],
    record: Record | None = None,
    objective: Any = None,
) -> None:
    """Write the card of encoder `name` into its `folder`, and replace one that is there.

    Args:
        folder: the encoder, in SentenceTransformer layout or as transformers saves it.
        encoders, tasks: the registry entries that it depends on, by name.
        record: the record of the training, if rbench trained the weights.
        objective: the module of the training objective; None: the installed module of its name.
    """
    origin = chain(name, encoders)[-1]
    base = base_of(origin, encoders)  # none where nothing was trained: `chain` ends at the last base
    dim, normalized = _vectors(folder)
    about = About(
        encoder=portable(encoders[name]),
        origin=portable(origin),
        base=portable(base) if base is not None else None,
        hub_id=hub_id(origin, encoders),
        data=tasks.get(origin.train.data) if origin.train is not None else None,
        record=record,
        objective=objective,
        version=rbench.__version__,
        dim=dim,
        normalized=normalized,
        max_length=(_json(folder / "sentence_bert_config.json") or {}).get("max_seq_length"),
    )
    (folder / CARD).write_text(render_card(about), encoding="utf-8")


def hub_id(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> str | None:
    """Return the hub id (`owner/name`) of the model that an encoder's weights descend from; None if there is none."""
    *_, first = bases(spec, encoders)
    base = portable(first).base
    return base if base is not None and base == first.base and "/" in base and is_repo_id(base) else None


def _vectors(folder: Path) -> tuple[int | None, bool]:
    """Return how long the vectors are that the modules of `folder` make (None: they do not say), and whether they are
    scaled to length 1."""
    dim: int | None = None
    normalized = False
    for module in _json(folder / "modules.json") or ():
        config = (_json(folder / module["path"] / "config.json") or {}) if module["path"] else {}
        named = (
            config[key] for key in ("out_features", "word_embedding_dimension", "embedding_dimension") if key in config
        )
        dim = next(named, dim)
        normalized = normalized or module["type"].endswith(".Normalize")
    cut = (_json(folder / "config_sentence_transformers.json") or {}).get("truncate_dim")
    return (min(dim, cut) if dim is not None and cut else dim), normalized
