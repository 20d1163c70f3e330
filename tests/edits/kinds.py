"""The kinds of edits that come with rbench."""

from __future__ import annotations

from rbench.config.code import find, open_checked
from rbench.config.registry import Registry
from rbench.edits import EditKind

KINDS: dict[str, EditKind] = {name: open_checked(find("edits", name)) for name in Registry().names("edits")}
