"""What the server that forks worker processes imports (`workers.Workers.warm_up`).

Modules hold half a million objects that stay for good. Searching them for garbage takes a fifth of the time of imports,
and half a second more whenever a worker searches all its objects. So nothing is searched during imports, and what is
there after them is never searched again. Workers share its memory, which a search would copy.
"""

import gc

gc.disable()

import rbench.recipes.workers  # noqa: E402, F401

gc.freeze()
gc.enable()
