"""The format `eval-results`: a file `.eval_results/NAME.yaml` of a model repository of the Hugging Face Hub.

The hub shows such results on the model's page, and on the leaderboard of the data set where this is a benchmark whose
eval.yaml has the `task_id` (https://huggingface.co/docs/hub/eval-results).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from rbench.errors import StoreError
from rbench.report.published import PublishedNumber


def render_eval_results(numbers: Sequence[PublishedNumber], link: str | None = None) -> str:
    """Return the content of the file, in YAML.

    Args:
        link: where the results lie, for `source`.

    Raises StoreError where a task's data are on no hub: an entry names its data set there.
    """
    return yaml.safe_dump([_build_entry(number, link) for number in numbers], sort_keys=False, allow_unicode=True)


def _build_entry(number: PublishedNumber, link: str | None) -> dict[str, Any]:
    if (origin := number.origin) is None:
        raise StoreError(
            f"the data of {number.task.name} are on no hub, and an entry of .eval_results names its data set there; "
            "ask for the format model-card, or leave the task out: --only"
        )
    task_id = "_".join(filter(None, [number.task.name, number.metric, number.attack, number.finetune]))
    return {
        "dataset": {"id": origin.id, "task_id": task_id, "revision": origin.revision},
        "value": number.value,
        **({"source": {"url": link, "name": "rbench"}} if link else {}),
        "notes": number.protocol,
    }
