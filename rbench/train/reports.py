"""Experiment trackers (TensorBoard, Weights & Biases, ...) that follow a training through transformers' callbacks."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from rbench.errors import ResourceError, SuiteError
from rbench.load.registry import unknown

_PACKAGES = {"azure_ml": "azureml-core", "comet_ml": "comet-ml", "dvclive": "dvclive"}
"""Of trackers that are not called like their package."""


class Reports(NamedTuple):
    """Who is told of a training: trackers, by the names that transformers gives them, and where their files go."""

    to: tuple[str, ...]
    folder: Path


def check(names: Collection[str]) -> None:
    """Raises SuiteError on a tracker that transformers does not know, ResourceError on one that is not installed."""
    if not names:
        return
    from transformers.integrations import get_available_reporting_integrations
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise SuiteError(unknown("tracker", name, sorted(INTEGRATION_TO_CALLBACK)))
        if name not in get_available_reporting_integrations():
            raise ResourceError(f"tracker {name} is not installed: pip install {_PACKAGES.get(name, name)}")
