"""Export an encoder to a folder that `SentenceTransformer(path)` loads, and write its model card.

Weights are stored as safetensors; nothing in the folder is a pickle.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import yaml

import rbench
from rbench.config.references import format_references
from rbench.errors import PlanError
from rbench.plan.lineage import chain_of_bases, portable_encoder
from rbench.schema import EncoderSpec, Record, TaskSpec, TrainSpec, base_encoder, iter_bases
from rbench.system.hub import is_repo_id
from rbench.train import batches, objectives
from rbench.train.objectives import TrainingObjective, option_defaults

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder


TOLERANCE = 1e-5
"""Largest difference allowed between the embeddings of rbench and of sentence-transformers. It is relative to the
largest absolute value in them, or absolute if that value is below 1."""

PROBES = ("a", "The film was good, and its ending better.", "Zwölf Boxkämpfer? 3 + 4 = 7. " * 40)
"""The texts whose embeddings are compared: a very short one, an ordinary one, and one long enough to be truncated."""

ENCODER_FILES = (
    *("config.json", "modules.json", "*_config.json", "config_sentence_transformers.json", "trained.json"),
    *("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin", "pytorch_model.bin.index.json"),
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.model"),
    *("README.md", "LICENSE*", ".gitattributes", "training_args.bin", "transform", "[0-9]_*", "onnx", "openvino"),
)
"""Name patterns of the files and folders that transformers, sentence-transformers and rbench write when they save an
encoder. `--force` does not remove anything else."""


def is_occupied(folder: Path) -> bool:
    """Return whether there is a file or a folder that is not empty, after checking that it can be written.

    Raises:
        PlanError: the nearest existing parent of `folder` is not writable.
    """
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".rbench-export-", dir=above):
            pass
    except OSError as error:
        raise PlanError(f"{folder}: cannot write in {above} ({error.strerror}); name another folder") from error
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def check_place(folder: Path, *, force: bool = False) -> None:
    """Check that an encoder may be written to `folder`.

    The folder must be new or empty. With `force` it may also hold an encoder, which is then replaced, but nothing else.

    Raises:
        PlanError: `folder` is a file, cannot be written, or is not empty. With `force`: it holds no encoder, or other
            files beside it.
    """
    if not is_occupied(folder):
        return
    if not force:
        raise PlanError(f"{folder} is there already; name another folder, or add --force to replace the encoder in it")
    modules, config = _read_json(folder / "modules.json"), _read_json(folder / "config.json")
    # Other programs write files with these names too, so the content decides.
    listed = modules if isinstance(modules, list) else []
    has_modules = any(isinstance(module, dict) and "type" in module for module in listed)
    has_model = isinstance(config, dict) and "model_type" in config
    has_encoder = has_modules or has_model
    # `--force` must never delete a user's own files that happen to lie beside an encoder.
    entries = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else [folder.name]
    others = [name for name in entries if not has_encoder or not any(fnmatch(name, p) for p in ENCODER_FILES)]
    if others:
        shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise PlanError(
            f"{folder} is no encoder, or has more in it ({shown}); --force replaces encoders only. Name another "
            "folder, or move the other files away"
        )


def _read_json(path: Path) -> Any:
    """Return the parsed content of a JSON file, or None if there is no such file or it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def check_spec(spec: EncoderSpec) -> None:
    """Check, before any weights are loaded, that the encoder can be saved as a SentenceTransformer.

    Args:
        spec: the encoder as `rbench.plan.lineage.as_loaded` returns it.

    Raises:
        PlanError: it needs Python code of its own, or its pooling does not exist in sentence-transformers.
    """
    from rbench.train.models import SAVABLE_POOLINGS

    if spec.trust_remote_code:
        raise PlanError(
            f"encoder {spec.name} cannot be exported: it needs its own Python code, which SentenceTransformer(path) "
            "does not run"
        )
    if spec.pooling not in SAVABLE_POOLINGS:
        raise PlanError(
            f"encoder {spec.name} cannot be exported: it has pooling {spec.pooling}, and a SentenceTransformer can "
            f"have {' or '.join(SAVABLE_POOLINGS)}. To export it with another pooling, write an encoder file with "
            f"`base: {spec.name}` and that `pooling`."
        )


def write_encoder(
    spec: EncoderSpec, where: Path | str, folder: Path, card: Callable[[Path], None], *, force: bool = False
) -> int:
    """Write the encoder with the weights at `where` to `folder`, and return its embedding dimension.

    The encoder is first written to a temporary folder beside `folder`. It is loaded from there with
    sentence-transformers, which must give the same embeddings as rbench. Only then is it moved to `folder`. If the
    encoder has random weights, those drawn with seed 0 are written.

    Args:
        spec: the encoder as `rbench.plan.lineage.as_loaded` returns it.
        where: the folder or hub id of the weights, as `encoders.load` takes it.
        card: a function that writes the model card into a given folder.
        force: whether an encoder that is in `folder` is replaced.

    Raises:
        PlanError: `check_place` or `check_spec` refuses, the encoder cannot be saved as a SentenceTransformer
            (`train.models.find_obstacle`), or sentence-transformers gives other embeddings.
        ResourceError: the weights cannot be read.
    """
    from rbench import encoders
    from rbench.train import models

    check_place(folder, force=force)
    check_spec(spec)
    encoder = encoders.load(spec, where)
    if reason := models.find_obstacle(encoder):
        raise PlanError(f"encoder {spec.name} cannot be exported: {reason}")
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".rbench-export-", dir=folder.parent) as name:
        staged = Path(name)
        prompts = {} if isinstance(spec.prompt, str) else {str(kind): text for kind, text in spec.prompt.items()}
        # Otherwise transformers would write a path of this machine, that of the weights, into config.json.
        encoder.model.config._name_or_path = ""
        models.save_encoder(staged, encoder, prompts)
        card(staged)
        # From disk and with the other library: what `models.save_encoder` could not express shows here, before anything
        # moves.
        _check_same_vectors(encoder, staged)
        # The old encoder is removed last, so that it is still there if anything above fails.
        if folder.is_dir():
            for old in folder.iterdir():
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        folder.mkdir(exist_ok=True)
        for new in staged.iterdir():
            new.rename(folder / new.name)
    return encoder.dim


def _check_same_vectors(encoder: SentenceEncoder, folder: Path) -> None:
    """Raise PlanError if sentence-transformers gives other embeddings of PROBES from `folder` than `encoder` gives."""
    import numpy as np
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder), device="cpu").encode(list(PROBES), show_progress_bar=False)
    ours = encoder.encode(PROBES)
    difference = float(np.abs(ours - theirs).max()) if ours.shape == theirs.shape else float("inf")
    # `not <=` instead of `>`, so that a difference of NaN is an error too.
    if not difference <= TOLERANCE * max(1.0, float(np.abs(ours).max())):
        raise PlanError(
            f"sentence-transformers gives other vectors for the exported encoder (they differ by up to "
            f"{difference:.2g}); nothing was written"
        )


LICENCES = (
    *("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "gpl-2.0", "gpl-3.0", "lgpl-3.0", "mpl-2.0"),
    *("cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0"),
    *("cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0"),
)
"""The licences that a card names by the Hugging Face Hub's identifiers. Any other licence becomes `license: other`,
with its name in `license_name`."""


@dataclass(frozen=True)
class CardFacts:
    """What a model card is made from. Of each path the specs hold the last part only
    (`plan.lineage.portable_encoder`)."""

    encoder: EncoderSpec
    """The encoder that is published, with its own name and pooling."""
    origin: EncoderSpec
    """The last encoder in its chain of bases, whose weights it has: trained by rbench, or from a folder or the hub."""
    base: EncoderSpec | None
    """The registered encoder from which the training of `origin` started; None if there is none."""
    hub_id: str | None
    """The hub id of the model from which the weights were derived; None if there is none."""
    data: TaskSpec | None
    """The task or corpus of the training data, if it is a registered one; otherwise None."""
    record: Record | None
    """The record of the training, if there is one."""
    version: str
    """The version of rbench that writes the card."""
    objective: TrainingObjective[Any] | None = None
    """The module of the training objective; if None, it is found by the objective's name."""
    dim: int | None = None
    """Embedding dimension, if known."""
    normalized: bool = False
    """Whether embeddings are scaled to length 1."""
    max_length: int | None = None
    """Longest input in tokens, if known."""

    @property
    def module(self) -> TrainingObjective[Any]:
        """The training objective. The encoder must be one that rbench trained."""
        assert self.origin.train is not None
        return self.objective or objectives.find(self.origin.train.objective)


def render_card(about: CardFacts) -> str:
    """Return the card as markdown. Titles, notes and other free text are escaped, so they cannot break its tables or
    its YAML."""
    encoder = about.encoder
    return render_template(
        "card.md.jinja",
        front=yaml.safe_dump(_front_matter(about), sort_keys=False, allow_unicode=True),
        name=escape_cell(encoder.name),
        title=escape_cell(encoder.title or about.origin.title or encoder.name),
        version=about.version,
        train=about.origin.train,
        facts=[(label, escape_cell(value)) for label, value in _encoder_facts(about) if value],
        options=_option_rows(about),
        scores=_score_rows(about.record),
        flags=_flag_rows(about.record),
        notes=[escape_cell(note) for note in dict.fromkeys((*encoder.notes, *about.origin.notes))],
    )


def _front_matter(about: CardFacts) -> dict[str, Any]:
    """Return the YAML front matter, as the Hugging Face Hub's documentation of model cards defines it."""
    front: dict[str, Any] = {"library_name": "sentence-transformers", "pipeline_tag": "sentence-similarity"}
    front |= licence_fields(_find_licence(about))
    if about.hub_id is not None:
        front["base_model"] = about.hub_id
    if about.data is not None and about.data.hub is not None:
        front["datasets"] = [source.id for source in about.data.hub.sources if "train" in source.splits]
    trained = [about.origin.train.objective] if about.origin.train is not None else []
    front["tags"] = ["sentence-transformers", "feature-extraction", "sentence-similarity", "rbench", *trained]
    return front


def licence_fields(licence: str) -> dict[str, str]:
    """Return the front matter's fields for a licence. An empty string means that the licence is unknown."""
    identifier = licence.lower().replace(" ", "-")
    if licence and identifier not in LICENCES:
        return {"license": "other", "license_name": licence}
    return {"license": identifier or "unknown"}


def _find_licence(about: CardFacts) -> str:
    """Return the licence of the encoder; if its file states none, that of `origin`, and then that of `base`."""
    base = about.base.licence if about.base is not None else ""
    return " ".join((about.encoder.licence or about.origin.licence or base).split())


def _encoder_facts(about: CardFacts) -> list[tuple[str, str]]:
    encoder, origin = about.encoder, about.origin
    size = f", vectors of {about.dim} numbers" if about.dim else ""
    cut = f"; texts are cut at {about.max_length} tokens" if about.max_length else ""
    facts = [
        ("made from", origin.name if origin.name != encoder.name else ""),
        ("pooling", f"{encoder.pooling}{size}, {'' if about.normalized else 'not '}normalised{cut}"),
        ("layers", f"the first {encoder.layers}" if encoder.layers else ""),
        ("licence", _find_licence(about) or "not stated"),
        ("reference", format_references(encoder.reference or origin.reference)),
    ]
    if origin.train is None:
        return [("weights", _describe_weights(origin)), *facts]
    return [("objective", _describe_objective(about)), ("base", _describe_base(about)), *facts, *_training_facts(about)]


def _describe_weights(origin: EncoderSpec) -> str:
    if origin.random_weights:
        return "random: an architecture that nobody trained, as drawn with seed 0"
    return f"{origin.base or origin.name}" + (f" at {origin.revision}" if origin.revision else "")


def _describe_objective(about: CardFacts) -> str:
    assert about.origin.train is not None
    return f"{about.origin.train.objective}: {about.module.said()['title']}".removesuffix(": ")


def _describe_base(about: CardFacts) -> str:
    origin, base = about.origin, about.base
    if origin.base is None:
        return "none: an architecture with random weights"
    if base is None:
        return _describe_weights(origin)
    origin_text = "trained by rbench" if base.train is not None else _describe_weights(base)
    return base.name + _in_brackets(base.title, base.licence, origin_text)


def _training_facts(about: CardFacts) -> list[tuple[str, str]]:
    """Return label and value of each fact about the training: data, steps and settings, and what the record adds."""
    train, record = about.origin.train, about.record
    assert train is not None
    job = record.job.pretraining if record is not None else None
    n = record.counts.get("n", 0) if record is not None else 0
    facts = [("data", _describe_data(about, n))]
    if job is not None:
        facts += [("data fingerprint", job.data_fingerprint), ("base fingerprint", job.base_fingerprint or "")]
    counts = sorted(record.counts.items()) if record is not None else []
    facts += [(name.replace("_", " "), f"{value:,}") for name, value in counts]
    if about.module.takes_steps:
        rate = f"{train.learning_rate:g}, falling linearly to 0, warm-up {train.warmup:.0%} of the steps"
        facts += [
            (
                "steps",
                f"{_describe_steps(about, n)} planned, {_describe_batches(train)} each, texts cut at "
                f"{train.max_length} tokens",
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
    return [fact for fact in facts if fact[0] != "n"]  # `_describe_data` has said n, the number of sentences


def _describe_batches(train: TrainSpec) -> str:
    many = f"{train.gradient_accumulation} batches of " if train.gradient_accumulation > 1 else ""
    return f"{many}{train.batch_size} sentences"


def _describe_steps(about: CardFacts, n: int) -> str:
    train = about.origin.train
    assert train is not None
    if not n and train.steps is None:
        return f"{train.epochs or 1:g} epochs"
    near = batches.group_size(about.module.Options(**train.options))
    return f"{batches.count_steps(train, batches.count_trained(n, near), not about.module.full_batches):,}"


def _describe_data(about: CardFacts, n: int) -> str:
    train, data = about.origin.train, about.data
    assert train is not None
    details = _in_brackets(data.title, data.licence) if data is not None else ""
    return f"{train.data}{details}" + (f", {n:,} sentences" if n else "")


def _in_brackets(title: str, licence: str, *more: str) -> str:
    """Return the title, licence and other facts that are known of a base or corpus, in brackets; empty if none is."""
    parts = (title, *more, f"licence: {licence}" if licence else "")
    known = "; ".join(part for part in parts if part)
    return f" ({known})" if known else ""


def _option_rows(about: CardFacts) -> list[tuple[str, str, str]]:
    """Return name, value and default of each option of the objective. Values that differ from the default are bold."""
    if about.origin.train is None:
        return []
    kind = about.module.Options
    values, defaults = kind(**about.origin.train.options).model_dump(), option_defaults(kind)
    models = about.module.model_options
    rows = []
    for name, value in values.items():
        shown = escape_cell(_model_name(value) if name in models else value)
        rows.append((name, f"**{shown}**" if value != defaults[name] else shown, escape_cell(defaults[name])))
    return rows


def _model_name(value: Any) -> Any:
    """Return an option that names a model as a card shows it: of a path, only the last part."""
    text = str(value)
    return value if value is None or is_repo_id(text) else Path(text).name


def _score_rows(record: Record | None) -> list[tuple[str, str, str]]:
    if record is None:
        return []
    return [
        (escape_cell(score.name), "none" if score.value is None else f"{score.value:.4f}", f"{score.n:,}")
        for score in record.scores
    ]


def _flag_rows(record: Record | None) -> list[tuple[str, str]]:
    """Return each flag of the training, with the numbers that raised it."""
    if record is None or record.health is None:
        return []
    return [(escape_cell(raised.flag), escape_cell(raised.because)) for raised in record.health.flags]


def render_template(template: str, **values: Any) -> str:
    """Return the card that a Jinja2 template in the folder of this module makes from `values`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(template).render(values)


def escape_cell(value: Any) -> str:
    """Return a value as one line of markdown. Characters that could end a table cell or begin HTML are escaped."""
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
    """Write the model card of encoder `name` to README.md in `folder`, over one that is there.

    Args:
        folder: the saved encoder, as sentence-transformers or as transformers writes it.
        encoders, tasks: by name, the encoders and tasks on which it depends, itself included.
        record: the record of the training, if rbench trained the weights.
        objective: the module of the training objective; if None, it is found by the objective's name.
    """
    origin = chain_of_bases(name, encoders)[-1]
    base = base_encoder(origin, encoders)  # None if `origin` was not trained: `chain` ends with it
    dim, normalized = _read_vector_facts(folder)
    about = CardFacts(
        encoder=portable_encoder(encoders[name]),
        origin=portable_encoder(origin),
        base=portable_encoder(base) if base is not None else None,
        hub_id=find_hub_id(origin, encoders),
        data=tasks.get(origin.train.data) if origin.train is not None else None,
        record=record,
        objective=objective,
        version=rbench.__version__,
        dim=dim,
        normalized=normalized,
        max_length=(_read_json(folder / "sentence_bert_config.json") or {}).get("max_seq_length"),
    )
    (folder / CARD).write_text(render_card(about), encoding="utf-8")


def find_hub_id(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> str | None:
    """Return the hub id (`owner/name`) of the model from which the weights were derived; None if there is none."""
    *_, first = iter_bases(spec, encoders)
    base = portable_encoder(first).base  # differs from `first.base` if that is a path, such as `./models/minilm`
    return base if base is not None and base == first.base and "/" in base and is_repo_id(base) else None


def _read_vector_facts(folder: Path) -> tuple[int | None, bool]:
    """Read two facts from the SentenceTransformer modules in `folder`: the embedding dimension (None if no module
    states it), and whether embeddings are scaled to length 1."""
    dim: int | None = None
    normalized = False
    for module in _read_json(folder / "modules.json") or ():
        config = (_read_json(folder / module["path"] / "config.json") or {}) if module["path"] else {}
        stated_dims = (
            config[key] for key in ("out_features", "word_embedding_dimension", "embedding_dimension") if key in config
        )
        dim = next(stated_dims, dim)
        normalized = normalized or module["type"].endswith(".Normalize")
    truncated = (_read_json(folder / "config_sentence_transformers.json") or {}).get("truncate_dim")
    return (min(dim, truncated) if dim is not None and truncated else dim), normalized
