"""Training objectives: losses and gradients of two steps, what is left in buffers, scores and vectors afterwards.

In float64, with dropout masks from a fixed seed. The first setting of an objective has the defaults of its options but
for sizes; others turn up terms whose default weight is too small to be seen, and take the other branches.
"""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rbench.train import objectives
from tests.golden import formula, world
from tests.golden.case import Case, Value
from tests.golden.world import SENTENCES

FOLDER = "rbench/train/objectives"
QUEUE = {"queue": 6}
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "simcse": ({}, {"temperature": 0.5}),
    "ct": ({}, {"negatives": 2}),
    "sgopt": ({"width": 6}, {"width": 6, "temperature": 0.5, "lam": 0.0}),
    "atcl": ({}, {"temperature": 0.5, "norm": "linf", "epsilon": 0.1, "weight": 0.5}),
    "uscal": ({}, {"temperature": 0.5, "norm": "l1", "epsilon": 2.0, "weight": 0.5}),
    "consert": ({}, {"views": ["token-cutoff", "dropout"]}, {"views": ["adversarial", "shuffle"]}),
    "vadvcse": (
        {},
        {"lam": 1.0, "temperature": 0.5, "K": 2, "divergence": "kl", "direction": "gradient"},
        {"lam": 1.0, "head": "mlp", "distribution": "dimensions", "norm": "linf"},
        *({"lam": 1.0, "temperature": 0.5, "divergence": name} for name in ("js", "symmetric-kl")),
    ),
    "robustembed": (
        {"lambda1": 1.0},
        {"lambda1": 1.0, "tracks": "separate", "norm": "l2", "epsilon": 0.5, "beta": 0.1, "alpha": 0.2, "rho": 0.3},
        {"lambda1": 1.0, "delta": "vector", "norm": "l1", "epsilon": 2.0, "beta": 0.5, "alpha": 0.5, "T": 2, "K": 3},
    ),
    "robustsentembed": (
        {"lambda1": 1.0, "lambda2": 0.1},
        {"lambda1": 1.0, "scaling": "gradient", "detection": "mean", "norm": "l2", "gamma": 0.1, "epsilon": 0.5},
        {"lambda1": 1.0, "lambda2": 0.1, "scaling": "perturbation"},
        {"variant": "released", "generator": None, "lambda1": 1.0, "lambda2": 0.1},
    ),
    "mlm": ({}, {"mask": 0.4}),
    "declutr": (
        {"min_span": 2},
        {"min_span": 1, "anchors": 1, "positives": 3, "sampling": "adjacent", "temperature": 0.5},
        {"min_span": 1, "anchors": 1, "sampling": "subsumed", "mlm": False, "temperature": 0.5},
    ),
    "cline": (
        {},
        {"anchor": "masked", "detection": "sum", "synonym_share": 0.8},
        {"hard_negative": False},
        {"variant": "released"},
    ),
    "adcl": (
        QUEUE,
        {**QUEUE, "min_cosine": -1.0, "ranked_by": "key", "similarity": "cosine", "max_words": 2},
        {**QUEUE, "variant": "released", "queue_start": "empty", "max_words": 2, "share": 0.4},
        {**QUEUE, "source": "neighbours", "min_cosine": 0.0, "max_words": 2, "share": 0.4},
    ),
    "btcl": ({**QUEUE, "paraphraser": "mini"}, {**QUEUE, "paraphraser": "mini", "momentum": 0.5, "output": "plain"}),
    "distillation": (
        {},
        {"substitutions": "hard", "max_words": 2, "weight": 2.0},
        {"source": "neighbours", "min_cosine": 0.0, "max_words": 2},
    ),
    "flow": ({}, {"levels": 2, "depth": 1, "hidden": 8}),
}
NEW = ("head.", "flow.", "parts.detection.original", "replaced.", "pooler.", "weights.", "parts.projection.")
"""Parameters that do not come from the base: transformers draws them, and another version might draw otherwise."""


def module(name: str) -> Any:
    return importlib.import_module(f"rbench.train.objectives.{name}")


def defaults(name: str) -> Value:
    """The options as they are where a suite says nothing: such defaults are in no key."""
    return module(name).Options().model_dump(mode="json")


# ---------------------------------------------------------------------------------------------------- with steps


def stepped(name: str, folder: Path) -> Value:
    settings = [setting(name, options, folder) for options in SETTINGS[name]]
    return {"defaults": defaults(name), "settings": settings}


def setting(name: str, options: dict[str, Any], folder: Path) -> Value:
    with formula.portable_dropout():
        built = build(name, options, folder)
        built.model.train()
        torch.manual_seed(1)
        steps = [step(built, SENTENCES[:4]), step(built, SENTENCES[4:])]
    scores = built.scores(SENTENCES)
    return {
        "options": options,
        "steps": steps,
        "buffers": {key: formula.digest(x) for key, x in built.model.named_buffers() if telling(key, x)},
        "scores": {key: float(value) for key, value in scores.items()},
        "vectors": formula.digest(built.encode(SENTENCES)),
    }


def build(name: str, options: dict[str, Any], folder: Path) -> Any:
    """The objective in float64 on the formula's network, all of its parameters given by formula."""
    torch.manual_seed(0)
    base = world.network(folder)
    made, spec = objectives.find(name), world.spec(name, base, options=options)
    resources = world.resources(folder) if made.resources else None
    built: Any = made.build(made.Options(**options), spec, base, resources)
    if hasattr(built, "prepare"):
        built.prepare(SENTENCES, folder / f"prepared-{name}", None)
    built.model.double()
    settle(built.model)
    return built


def settle(model: nn.Module) -> None:
    """Numbers by formula in place of those that were drawn when `model` was made."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(NEW):
                drawn = formula.tensor(name, *parameter.shape, size=0.5)
                parameter.copy_(drawn + 1 if parameter.ndim == 1 and name.endswith("weight") else drawn)
        for name, buffer in model.named_buffers():
            if name == "parts.table.V":
                buffer.copy_(formula.tensor(name, *buffer.shape, size=0.01))
            if name.endswith(".perm"):
                order = torch.from_numpy(np.argsort(formula.numbers(name, len(buffer))))
                buffer.copy_(order)
                model.get_buffer(name.replace(".perm", ".inv_perm")).copy_(order.argsort())
        if hasattr(model, "key_head"):
            model.key_head.load_state_dict(model.head.state_dict())


def step(built: Any, texts: list[str]) -> Value:
    """A step of length 0.25 down the gradient: the losses before it, each with its gradient by part of the network."""
    inputs = built.collate([built.features(text) for text in texts])
    losses: dict[str, Tensor] = built.model(**inputs)
    trained = {name: p for name, p in built.model.named_parameters() if p.requires_grad}
    found: dict[str, Value] = {}
    slopes: dict[str, dict[str, Tensor]] = {}
    for part, value in losses.items():
        found[part] = {"value": value.item()}
        if value.requires_grad:
            gradients = torch.autograd.grad(value, list(trained.values()), retain_graph=True, allow_unused=True)
            slopes[part] = {name: g for name, g in zip(trained, gradients, strict=True) if g is not None and g.any()}
            found[part]["gradients"] = grouped(slopes[part])
    length = torch.cat([g.flatten() for g in slopes["loss"].values()]).norm()
    with torch.no_grad():
        for name, gradient in slopes["loss"].items():
            trained[name].sub_(gradient / (4 * length))
    return found


def grouped(gradients: dict[str, Tensor]) -> dict[str, list[float]]:
    groups: dict[str, list[Tensor]] = {}
    for name, gradient in gradients.items():
        groups.setdefault(group_of(name), []).append(gradient.flatten())
    return {name: formula.digest(torch.cat(parts)) for name, parts in groups.items()}


def group_of(name: str) -> str:
    """`encoder.model.embeddings`, `encoder.model.encoder.layer.1`, `head`: a part of the network."""
    parts = name.split(".")
    for mark in ("embeddings", "layer"):
        if mark in parts:
            return ".".join(parts[: parts.index(mark) + (2 if mark == "layer" else 1)])
    return parts[0]


def telling(name: str, buffer: Tensor) -> bool:
    """Whether a buffer is the objective's own, not a constant of a network or of a flow."""
    return buffer.is_floating_point() and not name.startswith("flow.")


# ------------------------------------------------------------------------------------------------- without steps


def whitening(folder: Path) -> Value:
    """Of fixed vectors the map W W^T (the signs of W's columns are the solver's choice); of an encoder the whole."""
    made = module("whitening")
    vectors = formula.tensor("whitening", 40, 6).numpy() @ formula.tensor("mix", 6, 6, size=2.0).numpy() + 1
    found: dict[str, Value] = {"defaults": defaults("whitening")}
    for k in (None, 3):
        mean, W, share = made.whiten(vectors, k)
        found[f"dim {k}"] = {"mean": formula.digest(mean), "map": formula.digest(W @ W.T), "kept_variance": share}
    base = world.network(folder)
    spec = world.spec("whitening", base, steps=None)
    built = made.WhiteningObjective(made.Options(dim=4), spec, base)
    scores = built.fit([*SENTENCES, *(text for pair in world.PAIRS for text in pair)], "cpu", None)
    vectors = built.encoder.encode(SENTENCES)
    return found | {"scores": scores, "products": formula.digest(vectors @ vectors.T)}


def forget(folder: Path) -> Value:
    """Of fixed weights what they become; of an encoder the whole. Random numbers are drawn by torch."""
    made, found = module("forget"), dict[str, Value](defaults=defaults("forget"))
    weight, random = formula.tensor("forget", 6, 4), formula.tensor("random", 6, 4)
    mixed = made.forget_weight(made.Options(amount=0.3), weight, random)
    base = world.network(folder)
    spec = world.spec("forget", base, steps=None)
    for by in ("mixing", "noise"):
        torch.manual_seed(3)
        built = made.ForgettingObjective(made.Options(by=by, amount=0.4), spec, base)
        scores = built.fit([*SENTENCES, *(text for pair in world.PAIRS for text in pair)], "cpu", None)
        found[by] = {"scores": scores, "vectors": formula.digest(built.encoder.encode(SENTENCES))}
    return found | {"mixed": formula.digest(mixed)}


def retrofit(folder: Path) -> Value:
    """Of fixed vectors the graph and what words become; of an encoder the whole, in the embedded world."""
    made, found = module("retrofit"), dict[str, Value](defaults=defaults("retrofit"))
    unit = torch.nn.functional.normalize(formula.tensor("words", 9, 4), dim=1).numpy()
    graph = made.link_nearest(unit, 2, 0.1)
    own = formula.tensor("retrofit", 9, 3).numpy()
    found["words"] = {
        "graph": formula.digest(graph.toarray()),
        "become": formula.digest(made.solve_retrofit(own, graph, 2.0)),
    }
    base = world.network(folder)
    spec = world.spec("retrofit", base, steps=None)
    for neighbours in ("near", "random"):
        options = made.Options(strength=3.0, candidates=4, neighbours=neighbours)
        built = made.RetrofitObjective(options, spec, base, resources=world.resources(folder))
        scores = built.fit(SENTENCES, "cpu", None)
        found[neighbours] = {"scores": scores, "vectors": formula.digest(built.encoder.encode(SENTENCES))}
    return found


def cases() -> list[Case]:
    made = [Case(f"objectives/{name}", (f"{FOLDER}/{name}.py",), partial(stepped, name)) for name in SETTINGS]
    fitted = {"whitening": whitening, "forget": forget, "retrofit": retrofit}
    return [*made, *(Case(f"objectives/{name}", (f"{FOLDER}/{name}.py",), f) for name, f in fitted.items())]
