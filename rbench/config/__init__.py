"""Loads YAML files into specs. All checks happen here, before anything runs, and every error names its place.

`load` returns a suite with everything that it names. `load_task`, `load_encoder`, `load_contrast`, `load_resources`
and `load_attack` each return one entry.
"""

from __future__ import annotations

from rbench.config.attacks import recipes
from rbench.config.code import checked
from rbench.config.entries import load_attack, load_contrast, load_encoder, load_resources, load_task
from rbench.config.files import Listed, as_yaml, catalogue, content
from rbench.config.overrides import in_suite, of_label
from rbench.config.suite import Loaded, find_suite, load, load_mapping
