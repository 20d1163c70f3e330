"""Choose what computes a network: plain PyTorch, PyTorch with oneDNN's linear layers, or OpenVINO.

On the same cores, PyTorch's float32 linear layers reach half the speed of oneDNN's, which PyTorch ships too. The
fastest back-end depends on the processor, so "auto" measures each on the network itself, once for each machine.
It counts in what each takes to open.

All back-ends compute in float32. Their outputs differ by rounding, by about 1e-6. With each of them a row's output has
the same bits in any batch and for any number of threads. For that, matrix products are padded to multiples of eight
rows and to sixteen at least, because few rows would be computed by other code: a single row in oneDNN, the rows of a
thread beyond a multiple of four in MKL, and fewer than sixteen in MKL with AVX-512.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import platform
import sys
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import filelock
import torch
from torch import Tensor, nn

from rbench.errors import ResourceError, StoreError
from rbench.system.below import SMALL_BYTES, SafeFolder

NetworkInputs = dict[str, Tensor]
ComputeCall = Callable[[NetworkInputs], Tensor]
ReadOutput = Callable[..., Tensor]
SampleInputs = Callable[[int, int], NetworkInputs]
"""Gives inputs of so many rows of so many tokens."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
BACKENDS = ("torch", "onednn", "openvino")
SHARING_WEIGHTS = ("torch", "onednn")
"""Those that compute with the module's own weights. They are ready at once, and follow a module that is trained."""
ROUNDS = 8
"""Number of times that "auto" measures a batch with each back-end; the fastest time counts."""
SAMPLE_SHAPE = (4, 24)
"""Rows and tokens of the batch that "auto" measures with: an attack on short sentences asks for four rows of one length
at once (`benchmarks/questions.py`). With so few, what a call costs besides arithmetic counts too."""
TRACED_SHAPE = (2, 8)
"""Rows and tokens of the batch with which OpenVINO traces a network. A network that it traces for these alone gives
other answers for SAMPLE, and is not taken."""
BATCHES_A_CELL = 1000
"""Number of batches like SAMPLE for which a back-end is opened: an attack of 100 texts asks for as many. OpenVINO takes
a second to open, which it does not win back on a tiny network."""
SLOWER_BY = 1.05
"""A back-end that has to be opened is taken where its time times this is less, so that runs choose the same."""
TOLERANCE = 1e-4
"""Largest deviation of a back-end's outputs from PyTorch's, relative to the largest output."""


def choose_backend(
    module: nn.Module,
    read: ReadOutput,
    *,
    device: torch.device,
    wanted: str = "auto",
    sample: SampleInputs | None = None,
) -> tuple[str, ComputeCall]:
    """Choose the back-end for `read(module, **inputs)`; return its name and a function that computes it.

    `sample` gives inputs of the network to measure with; None: random token ids.

    An encoder that is asked over HTTP has the back-end `remote`, and nothing is measured.

    Raises:
        ResourceError: the back-end is unknown, is not installed, or cannot compute this network.
    """
    if find_remote_part(module) is not None:
        return "remote", partial(_compute_remote, module, read)
    sample = sample or partial(_sample, module)
    if wanted in ("auto", "fastest"):
        return _find_fastest(module, read, device, BACKENDS if wanted == "auto" else SHARING_WEIGHTS, sample)
    if wanted not in usable(device):
        remedy = "; `pip install openvino` installs it" if wanted == "openvino" else ""
        raise ResourceError(
            f"the back-end {wanted} cannot be used on {device.type} here{remedy}; there are auto, {', '.join(BACKENDS)}"
        )
    return wanted, _build(wanted, module, read, sample)


def find_remote_part(module: nn.Module) -> Any:
    """Return the part of a network that asks for its vectors over HTTP; None where there is none."""
    return next((part for part in module.modules() if getattr(part, "REMOTE", False)), None)


def _compute_remote(module: nn.Module, read: ReadOutput, inputs: NetworkInputs) -> Tensor:
    with torch.inference_mode():
        return read(module, **inputs)


def usable(device: torch.device) -> list[str]:
    """Return the back-ends that this machine has for a device. On a GPU there is only PyTorch."""
    names = ["torch"]
    if device.type == "cpu":
        available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        if available and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
            names.append("onednn")
        if importlib.util.find_spec("openvino") is not None:
            names.append("openvino")
    return names


# ------------------------------------------------------------------------------------------------------ linear layers


ROWS = 8
"""Products have a multiple of this number of rows. MKL gives threads rows in fours and has other code for the rest."""
LEAST = 16
"""Products have at least this number of rows. With AVX-512, MKL has other code for fewer."""


class _SteadyLinear(nn.Module):
    """A linear layer that computes multiples of ROWS rows, at least LEAST. It shares the weights of the given layer."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        rows = x.numel() // x.shape[-1]
        computed = max(rows + -rows % ROWS, LEAST)
        if rows in (0, computed):
            return self.product(x)
        flat = x.reshape(rows, -1)
        filled = torch.cat([flat, flat[:1].expand(computed - rows, -1)])
        return self.product(filled)[:rows].reshape(*x.shape[:-1], -1)

    def product(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


class _OneDnnLinear(_SteadyLinear):
    activation = ""

    def product(self, x: Tensor) -> Tensor:
        if self.activation:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, self.activation, [], "none")
        else:
            y = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return y


def _replace_linear(linear: type[_SteadyLinear], module: nn.Module) -> nn.Module:
    """Return the same network with other linear layers. The weights are shared."""
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    tokenizers = (getattr(submodule, "tokenizer", None) for submodule in module.modules())
    shared |= {id(tokenizer): tokenizer for tokenizer in tokenizers if tokenizer is not None}
    for submodule in module.modules():
        # Each part has about ten empty dicts of hooks. deepcopy would spend most of its time on them, at every step of
        # a training that attacks its texts.
        containers = (
            value for value in vars(submodule).values() if type(value) in (dict, OrderedDict, set) and not value
        )
        shared |= {id(value): type(value)() for value in containers}
    twin = copy.deepcopy(module, shared)
    for name, layer in list(twin.named_modules()):
        if type(layer) is nn.Linear:
            parent, _, attribute = name.rpartition(".")
            if not name:
                return linear(layer)
            setattr(twin.get_submodule(parent), attribute, linear(layer))
    if linear is _OneDnnLinear:
        _fuse_gelu(twin)
    return twin


def make_steady(module: nn.Module) -> nn.Module:
    """Return the same network for PyTorch with outputs and gradients that do not depend on the batch.

    The weights are shared.
    """
    return _replace_linear(_SteadyLinear, module)


def _fuse_gelu(module: nn.Module) -> None:
    """Fuse the dense layer and the exact GELU that follows it in models like BERT."""
    for block in module.modules():
        activation, dense = getattr(block, "intermediate_act_fn", None), getattr(block, "dense", None)
        is_exact_gelu = type(activation).__name__ == "GELUActivation" or (
            isinstance(activation, nn.GELU) and activation.approximate == "none"
        )
        if isinstance(dense, _OneDnnLinear) and is_exact_gelu:
            dense.activation = "gelu"
            block.intermediate_act_fn = nn.Identity()


def _build(name: str, module: nn.Module, read: ReadOutput, sample: SampleInputs) -> ComputeCall:
    if name == "openvino":
        return _compile_openvino(module, read, sample)
    twin = _replace_linear(_OneDnnLinear if name == "onednn" else _SteadyLinear, module)

    def call(inputs: NetworkInputs) -> Tensor:
        with torch.inference_mode():
            return read(twin, **inputs)

    return call


# ----------------------------------------------------------------------------------------------------------- OpenVINO


class _TracedModule(nn.Module):
    def __init__(self, module: nn.Module, read: ReadOutput) -> None:
        super().__init__()
        self.module, self.read = module, read

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return self.read(self.module, input_ids=input_ids, attention_mask=attention_mask, **types)


def _compile_openvino(module: nn.Module, read: ReadOutput, sample: SampleInputs, precision: str = "f32") -> ComputeCall:
    # OpenVINO tells Google Analytics of each conversion, from a forked child, unless this package cannot be imported.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino  # type: ignore[import-untyped]

    sampled = sample(*TRACED_SHAPE)
    example = tuple(sampled[name] for name in INPUTS if name in sampled)
    try:
        with warnings.catch_warnings():
            # Tracing warns of what it may lose. Outputs are compared with PyTorch's instead.
            warnings.filterwarnings("ignore", module="torch|transformers|sentence_transformers")
            with _trace_without_check():
                graph = openvino.convert_model(_TracedModule(module, read).eval(), example_input=example)
        settings = {
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "ENABLE_CPU_PINNING": False,  # with pinning, several workers share the first core
            "CPU_RUNTIME_CACHE_CAPACITY": 300,  # the code for each batch shape takes a megabyte; the default is 5,000
        }
        compiled = openvino.Core().compile_model(graph, "CPU", settings)
    except Exception as error:  # tracing an arbitrary module may raise anything
        raise ResourceError(
            f"OpenVINO cannot compute a {type(module).__name__} ({type(error).__name__}: {error}); use --backend onednn"
        ) from error

    names = [next(name for name in INPUTS if name in port.names) for port in compiled.inputs]

    def call(inputs: NetworkInputs) -> Tensor:
        sampled = {"token_type_ids": torch.zeros_like(inputs["input_ids"])} | inputs
        return torch.from_numpy(compiled([sampled[name].numpy() for name in names])[0])

    return call


@contextmanager
def _trace_without_check() -> Iterator[None]:
    """Trace without tracing a second time to compare the two graphs, which takes half of the time of opening."""
    trace = torch.jit.trace
    torch.jit.trace = partial(trace, check_trace=False)
    try:
        yield
    finally:
        torch.jit.trace = trace


# -------------------------------------------------------------------------------------------------------- measurement


def _find_fastest(
    module: nn.Module, read: ReadOutput, device: torch.device, allowed: Sequence[str], sample: SampleInputs
) -> tuple[str, ComputeCall]:
    names = [name for name in usable(device) if name in allowed]
    if names == ["torch"]:
        return "torch", _build("torch", module, read, sample)
    setting = "/".join([_describe_setting(module), *(allowed if allowed != BACKENDS else ())])
    with _lock_file():  # one process measures; others wait and use its result
        choice = _read_choices().get(setting)
        if choice not in names:
            choice = _measure(module, read, names, sample)
            _write_choice(setting, choice)
    return choice, _build(choice, module, read, sample)


def _measure(module: nn.Module, read: ReadOutput, names: Sequence[str], sample: SampleInputs) -> str:
    """Return the back-end with which a cell ends first, of some whose outputs agree with PyTorch's."""
    # CPU seconds: other work on the machine must not decide.
    inputs = sample(*SAMPLE_SHAPE)
    calls: dict[str, ComputeCall] = {}
    opening_seconds: dict[str, float] = {}
    reference = None
    for name in names:
        start = time.process_time()
        try:
            call = _build(name, module, read, sample)
            opening_seconds[name] = time.process_time() - start
            answer = call(inputs)
        except ResourceError:
            continue  # this back-end cannot compute this network
        except RuntimeError:
            if reference is None:
                raise  # PyTorch itself
            continue  # nor on this processor
        reference = answer if reference is None else reference
        # Where a processor lacks the instructions that it needs, oneDNN's product is empty and raises nothing.
        if answer.shape != reference.shape:
            continue
        deviation, largest = float((answer - reference).abs().max()), float(reference.abs().max())
        if deviation <= TOLERANCE * largest:
            calls[name] = call
    # All back-ends in turns, so that a change of the clock rate meets each of them.
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.process_time()
            call(inputs)
            # Other work can only make a measurement longer, so the shortest one is closest to the truth.
            seconds[name] = min(seconds[name], time.process_time() - start)
    total_seconds = {
        name: opening_seconds[name] + BATCHES_A_CELL * seconds_a_batch for name, seconds_a_batch in seconds.items()
    }
    return min(total_seconds, key=lambda name: total_seconds[name] * (1.0 if name in SHARING_WEIGHTS else SLOWER_BY))


def _sample(module: nn.Module, rows: int, tokens: int) -> NetworkInputs:
    table = next((submodule for submodule in module.modules() if isinstance(submodule, nn.Embedding)), None)
    vocabulary = table.num_embeddings if table is not None else 100
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(min(5, vocabulary - 1), vocabulary, (rows, tokens), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}


def _describe_setting(module: nn.Module) -> str:
    """Describe what a measurement holds for: the shape of the network, the machine, and the versions of the back-ends.

    The number of threads is left out, because one process with two threads must use the same back-end as two processes
    with one thread each.
    """
    from importlib.metadata import version

    num_weights = sum(parameter.numel() for parameter in module.parameters())
    package_versions = [version("openvino")] if importlib.util.find_spec("openvino") else []
    machine = [platform.machine(), str(os.cpu_count()), torch.__version__, *package_versions]
    return "/".join([type(module).__name__, str(num_weights), str(len(list(module.modules()))), *machine])


_found: dict[str, str] = {}
_choices_file: list[Path] = []


def remember_in(file: Path | None) -> None:
    """Keep the choices of "auto" in `file`, so that all processes of a run, and its resume, use the same back-end.

    None keeps them in this process only.
    """
    _choices_file[:] = [] if file is None else [file]


@contextmanager
def _lock_file() -> Iterator[None]:
    for file in _choices_file:
        SafeFolder(file.parent).make_folder(file.parent)
        with filelock.FileLock(file.with_suffix(".lock")):
            yield
        return
    yield


def _read_choices() -> dict[str, str]:
    """Return the choices in the file, which all processes share; without a readable file, those of this process."""
    for file in _choices_file:
        try:
            table = json.loads(SafeFolder(file.parent).read(file, SMALL_BYTES))
            if isinstance(table, dict):
                return _found | {str(k): str(v) for k, v in table.items()}
        except (OSError, StoreError, ValueError):
            continue  # missing or damaged: it only caches measurements and is written again
    return _found


def _write_choice(setting: str, name: str) -> None:
    _found[setting] = name
    for file in _choices_file:
        content = json.dumps(_read_choices() | {setting: name}, indent=1, sort_keys=True) + "\n"
        SafeFolder(file.parent).replace(file, content.encode())
