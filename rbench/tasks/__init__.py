"""Tasks: examples with labels, from a local folder, the Hugging Face Hub or the embedded world.

`open_task` finds the data, divides and cleans it; `locate_task` only says where it is. Each step is a module: `local`
and `online` read rows, `split` holds the seeded rules, `clean` turns rows into examples. Imports no torch.
"""

from __future__ import annotations

from rbench.tasks.clean import Example
from rbench.tasks.data import TaskData, locate_task, open_task

__all__ = ["Example", "TaskData", "locate_task", "open_task"]
