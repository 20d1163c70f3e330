"""Read the examples of tasks and contrast sets from local folders, the Hugging Face Hub or the embedded world.

`open_task` finds a task's data, divides it into splits and cleans it; `locate_task` only finds it. Each step has a
module: `local` and `online` read rows, `split` has the seeded rules of division, `clean` turns rows into examples.
`open_contrast` and `locate_contrast` do the same for a contrast set. Imports no torch.
"""

from __future__ import annotations

from rbench.tasks.clean import Example
from rbench.tasks.contrast import Bundle, ContrastData, open_contrast
from rbench.tasks.contrast_rows import locate_contrast
from rbench.tasks.data import TaskData, locate_task, open_task
