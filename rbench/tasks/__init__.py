"""Tasks: examples with labels, from a local folder, the Hugging Face Hub or the embedded world.

`open_task` finds the data, divides and cleans it; each step is a module: `local` and `online` read rows, `split` holds
the seeded rules, `clean` turns rows into examples. Imports no torch.
"""

from __future__ import annotations

from rbench.tasks.clean import Example
from rbench.tasks.data import TaskData, open_task

__all__ = ["Example", "TaskData", "open_task"]
