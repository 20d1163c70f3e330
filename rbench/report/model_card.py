"""The format `model-card`: metadata (`model-index`) and a section of a model card of the Hugging Face Hub.

The metadata are made by huggingface_hub (https://huggingface.co/docs/hub/model-cards). The section has each number with
its interval and n, for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from rbench.report.published import PublishedNumber
from rbench.schema import TaskSpec
from rbench.tables.formats import format_number, markdown_escape


def render_model_card(numbers: Sequence[PublishedNumber], link: str | None = None) -> str:
    """Return the beginning of a README.md: metadata between lines of `---`, then a section.

    Args:
        numbers: of one model, at least one.
        link: where the results lie, for both.
    """
    from huggingface_hub import ModelCardData

    results = [_build_result(number, link) for number in numbers]
    metadata = ModelCardData(model_name=numbers[0].encoder, eval_results=results).to_yaml()
    return f"---\n{metadata}\n---\n\n{_write_section(numbers, link)}"


def _build_result(number: PublishedNumber, link: str | None) -> Any:
    from huggingface_hub import EvalResult

    origin, limits = number.origin, number.limits
    interval = {} if limits is None else {"low": limits[0], "high": limits[1]}
    arguments = {"attack": number.attack, "finetune": number.finetune, "n": number.number.n, **interval}
    return EvalResult(
        task_type=_task_type(number.task),
        dataset_type=number.task.name if origin is None else origin.id,
        dataset_name=number.task.title or number.task.name,
        dataset_split="test",
        metric_type=number.metric,
        metric_name=number.title,
        metric_value=number.value,
        metric_args={name: value for name, value in arguments.items() if value not in ("", None)},
        dataset_config=None if origin is None else origin.config,
        dataset_revision=None if origin is None else origin.revision,
        source_name="rbench" if link else None,
        source_url=link,
    )


def _task_type(task: TaskSpec) -> str:
    """Return what the hub calls tasks of this kind."""
    if task.of_kind.has_documents:
        return "text-retrieval"
    return "sentence-similarity" if task.of_kind.has_scores else "text-classification"


def _write_section(numbers: Sequence[PublishedNumber], link: str | None) -> str:
    header = ["Task", "Number", "Attack", "Fine-tuning", "Value", "n"]
    rows = [
        [
            *map(markdown_escape, (number.task.title or number.task.name, number.meaning.title)),
            *map(markdown_escape, (number.attack or "none", number.finetune or "none")),
            format_number(number.number, intervals=True),
            number.number.n,
        ]
        for number in numbers
    ]
    table = tabulate(rows, headers=header, tablefmt="pipe", disable_numparse=True)
    definitions = dict.fromkeys(f"{number.meaning.title}: {number.meaning.definition}." for number in numbers)
    percent = ["Shares are in percent."] if any(number.meaning.percent for number in numbers) else []
    measured = f"Measured with [rbench]({link})." if link else "Measured with rbench."
    notes = " ".join([*map(markdown_escape, definitions), *percent, "Brackets hold 95% intervals.", measured])
    return f"## Robustness\n\n{table}\n\n{notes}"
