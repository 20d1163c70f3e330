"""Check and name the experiment trackers (TensorBoard, Weights & Biases, ...) to which transformers reports."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from rbench.errors import ResourceError, SuiteError
from rbench.load.registry import unknown

_PACKAGES = {"azure_ml": "azureml-core", "comet_ml": "comet-ml", "dvclive": "dvclive"}
"""Packages of the trackers whose name differs from that of their package."""


class Reports(NamedTuple):
    """The trackers of a training, by transformers' names, and the folder for their files."""

    to: tuple[str, ...]
    folder: Path


def check(names: Collection[str]) -> None:
    """Raise SuiteError if transformers does not know a tracker, ResourceError if a tracker is not installed."""
    if not names:
        return
    from transformers.integrations import get_available_reporting_integrations
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise SuiteError(unknown("tracker", name, sorted(INTEGRATION_TO_CALLBACK)))
        if name not in get_available_reporting_integrations():
            raise ResourceError(f"tracker {name} is not installed: pip install {_PACKAGES.get(name, name)}")
