"""Tasks: examples with labels, from a local folder, the Hugging Face Hub or the embedded world; and contrast sets.

`open_task` finds the data, divides and cleans it; `locate_task` only says where it is. Each step is a module: `local`
and `online` read rows, `split` holds the seeded rules, `clean` turns rows into examples. `open_contrast` and
`locate_contrast` do the same for a contrast set. Imports no torch.
"""

from __future__ import annotations

from rbench.tasks.clean import Example
from rbench.tasks.contrast import Bundle, ContrastData, open_contrast
from rbench.tasks.contrast_rows import locate_contrast
from rbench.tasks.data import TaskData, locate_task, open_task

__all__ = [
    "Bundle",
    "ContrastData",
    "Example",
    "TaskData",
    "locate_contrast",
    "locate_task",
    "open_contrast",
    "open_task",
]
