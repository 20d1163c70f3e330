"""Read the examples of tasks, and sets of texts, from local folders, the Hugging Face Hub or the embedded world.

`open_task` finds a task's data, divides it into splits and cleans it; `locate_task` only finds it. Each step has a
module: `local` and `online` read rows, `split` has the seeded rules of division, `clean` turns rows into examples.
`open_contrast` and `adversarial.open_set` read sets of texts that victims classify as they are. Imports no torch.
"""

from __future__ import annotations

from rbench.tasks.clean import Example, SetData
from rbench.tasks.data import TaskData, locate_task, open_task
