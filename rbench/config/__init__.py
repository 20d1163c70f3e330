"""Loads YAML files into specs. All checks happen here, before anything runs, and every error names its place.

`load` returns a suite with everything that it names. `load_task`, `load_encoder`, `load_contrast`, `load_resources`
and `load_attack` each return one entry.
"""

from __future__ import annotations

from rbench.config.attacks import list_recipes
from rbench.config.code import open_checked
from rbench.config.entries import load_attack, load_contrast, load_encoder, load_resources, load_task
from rbench.config.files import ListedFile, as_yaml, catalogue, file_content
from rbench.config.overrides import label_as_yaml, parse_label
from rbench.config.suite import LoadedSuite, find_suite, load, load_mapping
