"""Let a network that has one tensor under two names be stored with the first alone, as T5's table of tokens.

safetensors refuses to write such a tensor twice, and the checkpoints of a training are written with it.
"""

from __future__ import annotations

from typing import Any

from torch import nn


def stored_once(network: nn.Module) -> nn.Module:
    """Return the network, whose state has each of its parameters once from now on. It reads such states too."""
    names: dict[int, list[str]] = {}
    for name, weight in network.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(name)
    again = {name: first for first, *others in names.values() for name in others}
    if again:
        network.register_state_dict_post_hook(_Left(again))  # type: ignore[no-untyped-call]
        network.register_load_state_dict_pre_hook(_Filled(again))  # type: ignore[no-untyped-call]
    return network


class _Left:
    """Leaves out the further names of a state."""

    def __init__(self, again: dict[str, str]) -> None:
        self.again = again

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, about: Any) -> None:
        for name in self.again:
            state.pop(prefix + name, None)


class _Filled:
    """Puts the further names into a state that is read."""

    def __init__(self, again: dict[str, str]) -> None:
        self.again = again

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, *more: Any) -> None:
        for name, first in self.again.items():
            if prefix + first in state:
                state.setdefault(prefix + name, state[prefix + first])
