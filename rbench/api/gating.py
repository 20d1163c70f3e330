"""Attack a model and check it against a baseline in one call: what the fixture `rbench_gate` of pytest does."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rbench.api.attacking import classifier
from rbench.api.call_options import expand_path, resolve_options
from rbench.api.contestants import recognize_model
from rbench.api.encoder_watch import check_encoder, write_encoder_baseline
from rbench.api.judging import check, write_baseline
from rbench.api.suites import run as run_suite
from rbench.config import parse_label
from rbench.config.registry import Registry
from rbench.errors import JobError, PlanError
from rbench.gate import baseline as baselines
from rbench.gate.baseline import Baseline
from rbench.gate.check import CheckResult
from rbench.gate.vector_baseline import FORMAT as VECTORS
from rbench.gate.vector_check import VectorCheck
from rbench.plan.prepare import Options
from rbench.schema import AS_IS
from rbench.system.progress import Progress

EXAMPLES = 100
"""How many texts a new baseline attacks."""
ATTACKS = ("textfooler",)
"""The attacks of a new baseline."""


def gate(
    baseline: str | Path,
    model: Any = None,
    *,
    suite: Any = None,
    task: Any = None,
    attacks: str | Sequence[Any] | None = None,
    n: int | None = None,
    resources: Any = None,
    labels: Mapping[str, str] | None = None,
    write: bool = False,
    tolerance: float | str | Mapping[str, float] = 2.0,
    alpha: float = 0.05,
    allow_undecided: bool = False,
    about_these_weights: bool = True,
    progress: Progress | bool = False,
    **settings: Any,
) -> CheckResult | VectorCheck:
    """Attack a model as a baseline says, and check it against the baseline, text by text.

    What was attacked before and is the same stands in the RUN `out`, and is not attacked again.

    An encoder with no task, attacks or suite is not attacked: the baseline has its vectors of fixed texts, and the
    check says whether it still gives them (`rbench.api.check_encoder`). So has a function.

    Args:
        baseline: a file of `rbench baseline`, or a new one with `write`.
        model: an encoder or a classifier: a name, folder, hub id, address or "module:function"; a function that a
            module defines at its top level, from texts to rows of probabilities; or `(model, tokenizer)`.
        suite: in place of what follows, a suite by name, by path or as a mapping; `model` is then left out.
        task: a task's name, or a table; None: those of the baseline.
        attacks: names, or {name: {option: value}}; None: those of the baseline, and of a new one ATTACKS.
        n: how many texts are attacked; None: as many as in the baseline, and in a new one EXAMPLES.
        resources: what stands behind attacks; None: `mini` for tasks of the embedded world, else `standard`.
        labels: what a classifier's labels mean, `{"LABEL_0": "negative"}`; None: they are matched by name.
        write: make the baseline of this model, which then passes its own check.
        tolerance, alpha, allow_undecided, about_these_weights: as of `rbench.api.check`.
        progress: as of `rbench.run`.
        settings: single fields of `Options`; `out` is the RUN.

    Raises:
        RbenchError: the baseline, the model or a name is wrong, or the baseline is of other texts or attacks.
        JobError: an attack failed as a whole.
    """
    options = resolve_options(None, settings)
    where = expand_path(baseline)
    of_vectors = suite is None and task is None and attacks is None and _has_vectors(model, labels, options)
    if of_vectors if write else baselines.read_format(where) == VECTORS:
        return _watch(where, model, write, options)
    before = None if write else baselines.read_baseline(where)
    with _place_of(model) as name:
        asked = suite
        if asked is None:
            asked = _composed(_named(name), before, task, attacks, n, resources, labels, options)
        result = run_suite(asked, options, progress=progress)
    if result.failed:
        raise JobError(result.failed[0].error or f"{result.failed[0].job.name} failed")
    if write:
        write_baseline([result.run], where)
    return check(
        result.run,
        where,
        tolerance=tolerance,
        alpha=alpha,
        allow_undecided=allow_undecided,
        about_these_weights=about_these_weights,
        include=options.include,
    )


def _has_vectors(model: Any, labels: Mapping[str, str] | None, options: Options) -> bool:
    """Whether a model gives vectors: an encoder, a function, or an object that encodes."""
    if isinstance(model, str | Path):
        if ":" in str(model) and "/" not in str(model):
            return labels is None
        return recognize_model(str(model), None, Registry(options.include), options.models).kind == "encoders"
    return labels is None and (callable(model) or hasattr(model, "encode"))


def _watch(where: Path, model: Any, write: bool, options: Options) -> VectorCheck:
    settings: dict[str, Any] = {"models": options.models, "include": options.include, "device": options.device}
    if write:
        write_encoder_baseline(model, where, **settings)
    return check_encoder(model, where, **settings)


def _named(name: str | None) -> str:
    if name is None:
        raise PlanError("name the model, or the suite that has it: rbench_gate('baseline.json', model)")
    return name


def _composed(
    model: str,
    before: Baseline | None,
    task: Any,
    attacks: str | Sequence[Any] | None,
    n: int | None,
    resources: Any,
    labels: Mapping[str, str] | None,
    options: Options,
) -> dict[str, Any]:
    """Return the suite that attacks a model as the baseline's was attacked."""
    cells = [cell for cell in before.cells if cell.attack] if before is not None else []
    encoders = list(dict.fromkeys(cell.encoder for cell in cells))
    if len(encoders) > 1:
        raise PlanError(f"the baseline has {len(encoders)} encoders, {', '.join(encoders)}; give its suite: suite=...")
    tasks = [task] if task is not None else list(dict.fromkeys(cell.task for cell in cells))
    if not tasks:
        raise PlanError("say what a new baseline is about: task='mr'")
    chosen: Sequence[Any] = [attacks] if isinstance(attacks, str | Mapping) else attacks or ()
    chosen = chosen or [_entry_of(label) for label in dict.fromkeys(cell.attack for cell in cells)] or ATTACKS
    jobs = [job for cell in cells for job in cell.jobs]
    sizes = [len(before.examples[job.examples]) for job in jobs] if before is not None else []
    mini = all(isinstance(one, str) and one.startswith("mini-") for one in tasks)
    suite: dict[str, Any] = {
        "name": "gate",
        "tasks": tasks,
        "attacks": list(chosen),
        "num_examples": n or max(sizes, default=EXAMPLES),
        "seeds": sorted({job.seed for job in jobs}) or [0],
        "resources": resources or ("mini" if mini else "standard"),
    }
    registry = Registry(options.include)
    meant = recognize_model(model, None, registry, options.models)
    if meant.kind == "encoders":
        strategies = dict.fromkeys(cell.finetune for cell in cells if cell.finetune != AS_IS)
        tuning = {"finetune": [_entry_of(label) for label in strategies]} if strategies else {}
        return {**suite, "encoders": [meant.entry], **tuning}
    entry = classifier(model, None, registry)
    if isinstance(entry, str):
        return {**suite, "victims": [entry]}
    meaning = {"labels": dict(labels)} if labels is not None else {}
    return {**suite, "victims": [{**entry, **meaning, "name": encoders[0] if encoders else meant.name}]}


def _entry_of(label: str) -> Any:
    """Return the choice that a label names as a suite has it."""
    choice = parse_label(label)
    return {choice.name: dict(choice.options)} if choice.options else choice.name


@contextmanager
def _place_of(model: Any) -> Iterator[str | None]:
    """Give a model that Python has at hand a name by which a suite finds it: `module:function`, or a folder."""
    if model is None or isinstance(model, str | Path):
        yield None if model is None else str(model)
    elif isinstance(model, list | tuple) and len(model) == 2 and hasattr(model[0], "save_pretrained"):
        with tempfile.TemporaryDirectory(prefix="rbench-gate-") as folder:
            where = Path(folder) / "model"
            for part in model:
                part.save_pretrained(where)
            yield str(where)
    elif callable(model):
        yield _importable_name(model)
    else:
        raise PlanError(f"model={model!r}: expected a name, a folder, a function of a module, or (model, tokenizer)")


def _importable_name(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or "<" in name or not name:
        raise PlanError(
            f"{name or function!r} cannot be imported by its name, because it is defined inside a function. Define it "
            "at the top level of a module, so that a RUN can name it"
        )
    return f"{module}:{name}"
