"""Define transforms of sentence vectors after pooling.

A linear map (whitening) or a normalising flow (BERT-flow) is fitted on the vectors of a corpus without labels
(`rbench.train.objectives`, whitening and flow). A chain holds the modules that a SentenceTransformer has after its
pooling. A transform is frozen: gradients of fine-tuning pass through it and change only the network, because the papers
compare it as a fixed step after an encoder. On disk it is a folder beside the network: weights
(safetensors) and `rbench.json`, which has its kind and pooling.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rbench.encoders.foreign import ACTIVATIONS, modules_after_pooling, read_activation
from rbench.encoders.locate import TRANSFORM, TRANSFORM_ABOUT, why_no_flow
from rbench.errors import ResourceError
from rbench.schema import Pooling
from rbench.system.own_code import failing_in

# Part of the key of every job on an encoder with a transform (config/versions.py): raising it trains whitenings and
# flows anew, and all that stands on them.
VERSION = 1

WEIGHTS_FILE = "model.safetensors"


class Transform(nn.Module):
    """Maps vectors (batch, width) to vectors (batch, dim). `KIND` is its name on disk."""

    KIND = ""
    width: int
    dim: int

    def about(self) -> dict[str, Any]:
        """Return the constructor's arguments except the weights, as JSON values."""
        return {}

    def module_config(self) -> dict[str, Any]:
        """Return the config.json of the module of sentence-transformers that computes the same; empty: there is none,
        or it needs no file."""
        return {}

    def save(self, folder: Path, pooling: Pooling) -> None:
        """Write weights and `rbench.json` to `folder`. `pooling` made the vectors on which the transform was fitted."""
        self.save_module(folder)
        about = {"kind": self.KIND, "pooling": pooling, **self.about()}
        (folder / TRANSFORM_ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")

    def save_module(self, folder: Path) -> None:
        """Write weights and `module_config` to `folder`, each if there are any."""
        folder.mkdir(parents=True, exist_ok=True)
        if weights := {name: tensor.contiguous() for name, tensor in self.state_dict().items()}:
            save_file(weights, folder / WEIGHTS_FILE)
        if config := self.module_config():
            (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


class TransformChain(Transform):
    """Applies transforms one after the other. `LinearTransform`, `DenseTransform`, `LayerNormTransform` and
    `NormalizeTransform` can be its steps.

    Args:
        steps: at least one; each takes vectors as long as the one before gives them.
    """

    KIND = "chain"

    def __init__(self, steps: Sequence[Transform]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)
        self.width, self.dim = steps[0].width, steps[-1].dim
        self.requires_grad_(False)

    def about(self) -> dict[str, Any]:
        return {"steps": [{"kind": step.KIND, **step.about()} for step in self.parts]}

    @property
    def parts(self) -> list[Transform]:
        """The steps, in order."""
        return [step for step in self.steps if isinstance(step, Transform)]

    def forward(self, vectors: Tensor) -> Tensor:
        for step in self.parts:
            vectors = step(vectors)
        return vectors


class DenseTransform(Transform):
    """Computes f(x W^T + b), as a Dense module of sentence-transformers.

    Args:
        weight: W, (dim, width).
        bias: b, (dim,); None: there is none.
        activation: f, the name of a class in torch.nn, one of `rbench.encoders.foreign.ACTIVATIONS`.
    """

    KIND = "dense"

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: str) -> None:
        super().__init__()
        if activation not in ACTIVATIONS.values():
            raise ValueError(f"there is no activation {activation}")
        self.dim, self.width = weight.shape
        # A layer, because back-ends make the rows of layers independent of their batch.
        self.linear = nn.Linear(self.width, self.dim, bias=bias is not None)
        with torch.no_grad():
            self.linear.weight.copy_(weight)
            if bias is not None:
                self.linear.bias.copy_(bias)
        self.name = activation
        self.activation: nn.Module = getattr(nn, activation)()

    def about(self) -> dict[str, Any]:
        return {"activation": self.name}

    def module_config(self) -> dict[str, Any]:
        return {
            "in_features": self.width,
            "out_features": self.dim,
            "bias": self.linear.bias is not None,
            "activation_function": next(full for full, name in reversed(ACTIVATIONS.items()) if name == self.name),
        }

    def forward(self, vectors: Tensor) -> Tensor:
        mapped: Tensor = self.activation(self.linear(vectors))
        return mapped


class LayerNormTransform(Transform):
    """Layer normalisation of vectors with `weight` and `bias`, each (width,)."""

    KIND = "layer-norm"

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.width = self.dim = len(weight)
        self.norm = nn.LayerNorm(self.width)
        with torch.no_grad():
            self.norm.weight.copy_(weight)
            self.norm.bias.copy_(bias)

    def module_config(self) -> dict[str, Any]:
        return {"dimension": self.width}

    def forward(self, vectors: Tensor) -> Tensor:
        normed: Tensor = self.norm(vectors)
        return normed


class NormalizeTransform(Transform):
    """Scales vectors of `width` numbers to unit length."""

    KIND = "normalize"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = self.dim = width

    def about(self) -> dict[str, Any]:
        return {"width": self.width}

    def forward(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=1)


class LinearTransform(DenseTransform):
    """Computes x W^T + b. Its folder is also a Dense module of sentence-transformers.

    Args:
        weight: W, (dim, width).
        bias: b, (dim,).
    """

    KIND = "linear"

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__(weight, bias, "Identity")
        self.requires_grad_(False)

    def about(self) -> dict[str, Any]:
        return {}


class FlowTransform(Transform):
    """Maps sentence vectors u to Gaussian vectors z = f^-1(u), where u = f(z) (BERT-flow, Li et al. 2020, section 3.2).

    The layout is that of Glow (Kingma and Dhariwal 2018). Each level has steps of activation normalisation, permutation
    and coupling. After each level but the last, the second half of the dimensions goes to z unchanged.

    Glow has affine couplings and learned 1x1 convolutions. As in the released code of BERT-flow (bohanli/BERT-flow,
    flow/glow_ops_1x1.py and flow/config), couplings are additive and permutations are fixed. Here permutations are
    random; the released code reverses the order of the dimensions. In both, the network in a coupling has two hidden
    layers with ReLU. The released code also has activation normalisation in these layers; here they have none.

    Args:
        width: length of the vectors and of z; at least 2 ** levels.
        levels: number of levels.
        depth: number of steps in a level.
        hidden: width of the hidden layers of a coupling. The paper does not print `levels`, `depth` and `hidden`.

    Raises:
        ResourceError: normflows is not installed, or `width` is below 2 ** levels.
    """

    KIND = "flow"

    def __init__(self, width: int, levels: int, depth: int, hidden: int) -> None:
        super().__init__()
        if lacking := why_no_flow():
            raise ResourceError(lacking)
        import normflows as nf

        if width < 2**levels:
            raise ResourceError(f"vectors of {width} numbers cannot be halved in {levels} levels; take fewer levels")
        self.width = self.dim = width
        self._shape = {"width": width, "levels": levels, "depth": depth, "hidden": hidden}
        steps: list[list[Any]] = []
        sizes: list[int] = []
        for _ in range(levels):
            steps.append([part for _ in range(depth) for part in _build_flow_step(width, hidden)])
            sizes.append(width // 2)
            width -= width // 2
        # `sizes` says how many dimensions go to z at each level, `width` how many are left for the next.
        sizes[-1] += width  # the last level is not halved
        # normflows counts levels from z, and within a level from z too.
        self.flow = nf.MultiscaleFlow(
            [nf.distributions.DiagGaussian(size, trainable=False) for size in reversed(sizes)],
            [level[::-1] for level in reversed(steps)],
            [nf.flows.Merge() for _ in range(levels - 1)],
            class_cond=False,
        )
        self._sizes = [self.flow.q0[i].shape[0] for i in range(levels)]

    def about(self) -> dict[str, Any]:
        return dict(self._shape)

    def forward(self, vectors: Tensor) -> Tensor:
        """Map u (batch, width) to z (batch, width)."""
        parts, _ = self.flow.inverse_and_log_det(vectors)
        return torch.cat(parts, dim=1)

    def inverse(self, z: Tensor) -> Tensor:
        """Map z (batch, width) to u (batch, width)."""
        vectors: Tensor = self.flow.forward_and_log_det(list(torch.split(z, self._sizes, dim=1)))[0]
        return vectors

    def log_prob(self, vectors: Tensor) -> Tensor:
        """Compute log p(u) = log N(z; 0, I) + log |det dz/du| in nats, (batch,), for u (batch, width)."""
        parts, log_det = self.flow.inverse_and_log_det(vectors)
        logs: Tensor = log_det + sum(prior.log_prob(part) for prior, part in zip(self.flow.q0, parts, strict=True))
        return logs


def _build_flow_step(width: int, hidden: int) -> tuple[nn.Module, nn.Module, nn.Module]:
    """Make the parts of one step, in order from u to z. The coupling starts as the identity (Glow, section 3.3)."""
    import normflows as nf

    half = width - width // 2
    shift = nf.nets.MLP([half, hidden, hidden, width - half], init_zeros=True)
    return nf.flows.ActNorm((width,)), nf.flows.Permute(width), nf.flows.AffineCouplingBlock(shift, scale=False)


def read_folder_transform(folder: Path, pooling: Pooling, width: int, name: str = "encoder") -> Transform | None:
    """Read what a model's folder has after its pooling, frozen: its modules, or its folder `TRANSFORM`; None: nothing.

    One linear Dense module is a `LinearTransform`. All other modules make a `TransformChain`, without a normalisation
    that ends them.

    Args:
        folder: the model's.
        pooling: the pooling of the encoder.
        width: length of the pooled vectors.
        name: the encoder's name, for error messages.

    Raises:
        ResourceError: as `read_transform`, or a module has no safetensors weights.
    """
    later_modules = modules_after_pooling(folder)
    if not later_modules:
        transform_folder = folder / TRANSFORM
        return (
            read_transform(transform_folder, pooling, name) if (transform_folder / TRANSFORM_ABOUT).is_file() else None
        )
    if [kind for kind, _ in later_modules] == ["Dense"] and read_activation(later_modules[0][1]) == "Identity":
        return read_transform(later_modules[0][1], pooling, name)
    steps: list[Transform] = []
    remedy = "rbench reads safetensors only; `SentenceTransformer(FOLDER).save(OTHER)` writes them"
    with failing_in(f"encoder `{name}`: the modules after the pooling in {folder}", remedy=remedy):
        for kind, module_folder in later_modules:
            step_width = steps[-1].dim if steps else width
            about = {"kind": _KIND_OF_MODULE[kind], "width": step_width, "activation": read_activation(module_folder)}
            steps.append(_restore(about, {} if kind == "Normalize" else load_file(module_folder / WEIGHTS_FILE)))
        return TransformChain(steps).eval()


_KIND_OF_MODULE = {
    "Dense": DenseTransform.KIND,
    "LayerNorm": LayerNormTransform.KIND,
    "Normalize": NormalizeTransform.KIND,
}
"""The kinds of transforms by those of sentence-transformers' modules."""


def _restore(about: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Transform:
    """Return a transform, of what `Transform.about` says of it and its weights."""
    match about["kind"]:
        case LinearTransform.KIND:
            weight = weights["linear.weight"]
            return LinearTransform(weight, weights.get("linear.bias", torch.zeros(len(weight))))
        case DenseTransform.KIND:
            return DenseTransform(weights["linear.weight"], weights.get("linear.bias"), about["activation"])
        case LayerNormTransform.KIND:
            return LayerNormTransform(weights["norm.weight"], weights["norm.bias"])
        case NormalizeTransform.KIND:
            return NormalizeTransform(about["width"])
        case TransformChain.KIND:
            steps = []
            for i, step in enumerate(about["steps"]):
                prefix = f"steps.{i}."
                step_weights = {
                    key.removeprefix(prefix): tensor for key, tensor in weights.items() if key.startswith(prefix)
                }
                steps.append(_restore(step, step_weights))
            return TransformChain(steps)
        case FlowTransform.KIND:
            flow = FlowTransform(*(about[name] for name in ("width", "levels", "depth", "hidden")))
            flow.load_state_dict(weights)
            return flow
    raise ValueError(f"there is no step {about['kind']!r} after a pooling")


def read_transform(folder: Path, pooling: Pooling, name: str = "encoder") -> Transform:
    """Read what `Transform.save` wrote, or the Dense module of another sentence-transformers model; it is frozen.

    Args:
        folder: holds the transform's files.
        pooling: the pooling of the encoder that has the transform.
        name: the encoder's name, for error messages.

    Raises:
        ResourceError: the folder is damaged, holds an unknown kind, or was fitted on vectors of another pooling.
    """
    file = folder / TRANSFORM_ABOUT
    with failing_in(f"encoder `{name}`: the {TRANSFORM} in {folder}"):
        about: dict[str, Any] = {"kind": LinearTransform.KIND}
        if file.is_file():
            about = json.loads(file.read_text(encoding="utf-8"))
        fitted_pooling = about.get("pooling", pooling)
        transform = _restore(about, load_file(folder / WEIGHTS_FILE))
    if fitted_pooling != pooling:
        raise ResourceError(
            f"encoder `{name}`: its {transform.KIND} transform was fitted on vectors of pooling {fitted_pooling} and "
            f"it has pooling {pooling}; write `pooling: {fitted_pooling}`"
        )
    return transform.requires_grad_(False)
