"""Loads what a suite names, each entry once, or one entry alone: a task, an encoder, an attack, a classifier.

`SuiteEntries` holds the loaders of each kind. They share one set of files and one list of problems. The functions below
it load one entry for whoever names it without a suite. They raise SuiteError where a name is unknown or its file, or
what the caller says of it, is wrong; `place` is where the name stands, for messages.

`load_victims` loads classifiers that exist: files of the kind, folders, hub ids, functions and endpoints.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rbench.config.attacks import AttackLoader, asks_for_gradients
from rbench.config.check import validate
from rbench.config.code import ModuleFile, ModuleLoader
from rbench.config.encoders import EncoderLoader
from rbench.config.files import ListedFile, RegistryFiles
from rbench.config.overrides import PlacedChoice, iter_choices, iter_items, iter_names
from rbench.config.positions import PositionedData, Problems, as_list, read_yaml
from rbench.config.registry import NAME, Registry, unknown_message
from rbench.config.tasks import ContrastLoader, TaskLoader
from rbench.errors import SuiteError
from rbench.schema import (
    BY_TASK,
    CLEAN,
    RESOURCE_KINDS,
    RESOURCE_NAMES,
    AttackSpec,
    Choice,
    ContrastSpec,
    EncoderSpec,
    ResourceChoice,
    ResourceSet,
    StrategyNeeds,
    Suite,
    TaskSpec,
    Training,
    VictimSpec,
    victim_name,
)

if TYPE_CHECKING:
    from rbench.schema.judges import JudgeSpec


class SuiteEntries:
    """Loads what one suite names, each entry once. Everything wrong goes to `problems`.

    Each kind has a loader, whose `found` holds what was loaded. `own` holds encoders by name that have no file.
    """

    def __init__(self, registry: Registry, problems: Problems, own: Mapping[str, PositionedData] | None = None) -> None:
        self.files = files = RegistryFiles(registry, problems)
        self.problems = problems
        self.modules = ModuleLoader(registry, problems)
        self.tasks = TaskLoader(files)
        self.contrast = ContrastLoader(files, self.tasks)
        self.encoders = EncoderLoader(files, self.modules, self.tasks, {} if own is None else own)
        self.attacks = AttackLoader(files, self.modules)
        self.victims: dict[str, VictimSpec] = {}
        """The suite's classifiers that exist, by name."""
        self.strategies: dict[str, StrategyNeeds] = {}
        """What fine-tuning strategies need, by label."""
        self.merged = PositionedData({})
        """The suite as it will run, and in `suite` the same if its types are right."""
        self.suite: Suite | None = None

    def load_axes(self) -> None:
        """Load the encoders, tasks, attacks and strategies of the suite, and check the options of its figures."""
        for choice in iter_choices(self.merged, "encoders"):
            self.encoders.choose(choice)
        for place, name in iter_names(self.merged, "tasks"):
            self.tasks.load(name, place)
        for choice in iter_choices(self.merged, "attacks"):
            self.attacks.load(choice)
        for choice in iter_choices(self.merged, "finetune"):
            self.strategy(choice)
        if "finetune" not in self.merged.data:
            self.modules.open("finetune", CLEAN, self.merged.at())
        for choice in iter_choices(self.merged, "figures"):
            self.modules.check("figures", choice.name, choice.place, choice.options)

    def strategy(self, choice: PlacedChoice) -> None:
        """Check a fine-tuning strategy's options, load the attack that they name, and keep what the strategy needs.

        With the option `by_task` it is checked and kept for each task as it is there.
        """
        self.strategies[choice.label] = StrategyNeeds()
        if BY_TASK in choice.options.data:
            self._by_task(choice)
            return
        module = self.modules.open("finetune", choice.name, choice.place)
        if module is None:
            return
        own_options = {*module.Options.model_fields}
        further = {*Training.model_fields} - own_options
        for key in choice.options.data:
            if key not in own_options | further:
                what = unknown_message(f"option of {choice.name}", key, own_options | further)
                self.problems.add(choice.options.key_at((key,)), what)
        training = choice.options.only(further)
        checked_options = self.modules.check("finetune", choice.name, choice.place, choice.options.only(own_options))
        if checked_options is None or validate(Training, training, self.problems) is None:
            return
        attack: Choice | None = getattr(checked_options, "attack", None)
        if attack is not None:
            place = choice.options.at(("attack",)) if "attack" in choice.options.data else choice.place
            self.attacks.load(PlacedChoice(attack.name, attack.label, place, PositionedData(attack.options, place)))
            self.modules.open("finetune", CLEAN, place)  # it makes the victim of that attack
        self.strategies[choice.label] = StrategyNeeds(
            resources=self.modules.needs("finetune", choice.name, checked_options),
            attack=attack.label if attack is not None else None,
            training=training.data,
        )

    def _by_task(self, choice: PlacedChoice) -> None:
        settings = choice.options.sub(BY_TASK)
        known = {*self.files.registry.names("tasks"), *(name for _, name in iter_names(self.merged, "tasks"))}
        if not isinstance(settings.data, dict) or not all(
            isinstance(task_options, dict) for task_options in settings.data.values()
        ):
            self.problems.add(settings.at(), f"`{BY_TASK}`: expected options by task, {{TASK: {{OPTION: VALUE}}}}")
            return
        shared_options = choice.options.only({*choice.options.data} - {BY_TASK})
        for task in (None, *settings.data):
            options = shared_options
            if task is not None and task not in known:
                self.problems.add(settings.key_at((task,)), unknown_message("task", task, known))
            for key in settings.data[task] if task is not None else ():
                options = options.put((key,), settings.sub(task, key), settings.sub(task).key_at((key,)))
            task_choice = Choice(name=choice.name, options=options.data)
            self.strategy(PlacedChoice(task_choice.name, task_choice.label, choice.place, options))


@contextmanager
def _entry_loaders(registry: Registry) -> Iterator[SuiteEntries]:
    """Give loaders, and raise what they found to be wrong when the block ends."""
    entries = SuiteEntries(registry, Problems())
    yield entries
    entries.problems.raise_any()


def load_task(task: str | Mapping[str, Any], registry: Registry, *, place: str = "task") -> TaskSpec:
    """Return the task with this name, or of this table, as a suite names it."""
    with _entry_loaders(registry) as entries:
        written = PositionedData({"tasks": [dict(task) if isinstance(task, Mapping) else task]}, place)
        (name,) = entries.tasks.tables.rename_tables(written, Path()).data["tasks"]
        entries.tasks.load(name, place)
    return entries.tasks.found[name]


def load_contrast(name: str, registry: Registry, *, place: str = "contrast set") -> ContrastSpec:
    """Return the contrast set with this name."""
    with _entry_loaders(registry) as entries:
        entries.contrast.load(name, place)
    return entries.contrast.found[name]


def load_encoder(name: str, registry: Registry, *, place: str = "encoder") -> EncoderSpec:
    """Return the encoder with this name, after checking its bases, corpora and resources too."""
    with _entry_loaders(registry) as entries:
        entries.encoders.load(name, place)
    return entries.encoders.found[name]


def load_resources(choice: ResourceChoice | str, registry: Registry, *, place: str = "resources") -> ResourceSet:
    """Return the resource set of this name or choice, with the choice's single resources put in."""
    choice = ResourceChoice(set=choice) if isinstance(choice, str) else choice
    with _entry_loaders(registry) as entries:
        resource_set = entries.encoders.resources(choice, PositionedData({}, place))
    assert resource_set is not None
    return resource_set


def load_attack(choice: Choice | str, registry: Registry, *, place: str = "attack") -> AttackSpec:
    """Return the attack of this name or choice, which is a registry file or a TextAttack recipe."""
    choice = Choice(name=choice) if isinstance(choice, str) else choice
    with _entry_loaders(registry) as entries:
        entries.attacks.load(
            PlacedChoice(choice.name, choice.label, place, PositionedData(dict(choice.options), place))
        )
    return entries.attacks.found[choice.label]


@dataclass(frozen=True)
class ChosenAttack:
    """An attack, its name with options, and its Python file if it has one."""

    label: str
    spec: AttackSpec
    module: ModuleFile | None

    @property
    def gradients(self) -> bool:
        """Whether it asks the victim for gradients."""
        return asks_for_gradients(self.spec, self.module)


def chosen_attack(choice: str | Mapping[str, Any], registry: Registry) -> ChosenAttack:
    """Load the attack of this name, or of this name with options: `{"bertattack": {"max_words": 5}}`."""
    parsed = [*iter_choices(PositionedData({"attacks": [choice]}, "attack"), "attacks")]
    if len(parsed) != 1:
        raise SuiteError(f"attack: {choice!r} is neither a name nor a mapping of one name to its options")
    (chosen,) = parsed
    with _entry_loaders(registry) as entries:
        entries.attacks.load(chosen)
    spec = entries.attacks.found[chosen.label]
    return ChosenAttack(chosen.label, spec, entries.modules.found.get(("attacks", chosen.name)))


def add_needs(attacks: Iterable[ListedFile], registry: Registry) -> list[ListedFile]:
    """Return the entries of attacks with what each needs as it is. Of a file that cannot be read nothing is told."""
    listing = []
    for entry in attacks:
        with suppress(SuiteError):
            attack = chosen_attack(entry.name, registry)
            kinds = (RESOURCE_NAMES[kind] for kind in RESOURCE_KINDS if kind in attack.spec.needs)
            entry = replace(entry, needs=(*kinds, *(["gradients"] if attack.gradients else [])))
        listing.append(entry)
    return listing


def chosen_victim(entry: str | Mapping[str, Any], registry: Registry) -> VictimSpec:
    """Load a classifier that exists: what a suite has under `victims`, a text or a mapping (JSON types).

    Functions and endpoints need no `version`, because a call stores no answers.
    """
    if isinstance(entry, Mapping) and "model" not in entry:
        entry = {"version": "given", **entry}
    with _entry_loaders(registry) as entries:
        _, victims = load_victims(PositionedData({"victims": [entry]}, "victim"), entries.files)
    (spec,) = victims.values()
    return spec


def chosen_judge(name: str, registry: Registry) -> JudgeSpec:
    """Load a judge, by its name or by the path of its YAML file."""
    with _entry_loaders(registry) as entries:
        judge = load_judge(name, entries.files)
    assert judge is not None
    return judge


V = TypeVar("V", bound=VictimSpec)

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""The form of `module:function`."""
_FILE = re.compile(r"(?:(?P<folder>.*)[/\\])?(?P<module>[A-Za-z_]\w*)\.py:(?P<function>[A-Za-z_]\w*)")
_PLACE = re.compile(r"(.+?):\d+:\d+")


def load_victims(merged: PositionedData, files: RegistryFiles) -> tuple[PositionedData, dict[str, VictimSpec]]:
    """Return the suite with the names of its `victims` in their place, and their specifications by name.

    A name is that of the file, or the entry's `name`, or is made of its folder, hub id, function or address. Where two
    made names are the same, both get one more part. Add a problem for each entry that is wrong.
    """
    problems = files.problems
    victims: dict[str, VictimSpec] = {}
    # The check of the suite reports entries that are neither texts nor mappings.
    written = [item for item in iter_items(merged, "victims") if isinstance(item.data, str | dict)]
    entries = [(item, _victim_content(item, files)) for item in written]
    short = Counter(victim_name(content.data) for _, content in entries if content is not None)
    taken = {choice.label for choice in iter_choices(merged, "encoders")}
    chosen: list[PositionedData] = []
    for item, content in entries:
        name = victim_name(item.data if content is None else content.data)
        if content is not None and "name" not in content.data and (short[name] > 1 or name in taken):
            name = victim_name(content.data, longer=True)
        chosen.append(PositionedData(name, item.place))
        if content is None or not isinstance(name, str):
            continue
        if not NAME.fullmatch(name):
            problems.add(
                content.at(("name",)),
                f"{name!r}: a name has letters, digits and . _ + - and begins with a letter or digit",
            )
        elif name in taken:
            problems.add(item.at(), f"there is an encoder {name} here already; give the classifier another `name`")
        elif name in victims:
            problems.add(item.at(), f"`victims` lists {name} twice; remove one, or give it another `name`")
        elif (spec := validate(VictimSpec, content.put(("name",), PositionedData(name)), problems)) is not None:
            victims[name] = _resolve_model_path(spec, content)
    if not entries:
        return merged, victims
    return merged.put(("victims",), as_list(chosen, merged.at(("victims",)))), victims


def load_judge(name: str, files: RegistryFiles) -> JudgeSpec | None:
    """Return the judge of a name, or of a path that ends in .yaml; None where it is wrong, which adds a problem."""
    from rbench.schema.judges import JudgeSpec

    item = PositionedData(name, "--by")
    if name.endswith((".yaml", ".yml")):
        content = _read_entry_file(item, files, "judge")
    else:
        content = files.named("judges", name) if files.path("judges", name, item.at()) is not None else None
    if content is None:
        return None
    for question in ("label", "meaning"):
        if isinstance(content.data.get(question), dict):
            content = content.put((question, "name"), PositionedData(content.data["name"]))
    spec = validate(JudgeSpec, content, files.problems)
    if spec is None:
        return None
    asked = {name: getattr(spec, name) for name in ("label", "meaning")}
    located = {
        name: _resolve_model_path(
            asked_question, PositionedData({"model": asked_question.model}, content.at((name, "model")))
        )
        for name, asked_question in asked.items()
        if asked_question is not None
    }
    return spec.model_copy(update=located)


def _victim_content(item: PositionedData, files: RegistryFiles) -> PositionedData | None:
    """Return an entry as a mapping of VictimSpec's keys; None where something is wrong, which adds a problem."""
    if isinstance(item.data, dict):
        return item
    text = item.data
    if text in (*files.registry.names("victims"), *files.registry.fragments("victims")):
        return files.named("victims", text) if files.path("victims", text, item.at()) is not None else None
    if text.endswith((".yaml", ".yml")):
        return _read_entry_file(item, files)
    if (by_file := file_naming_hint(text)) is not None:
        files.problems.add(item.at(), by_file)
        return None
    if FUNCTION.fullmatch(text):
        files.problems.add(
            item.at(),
            f"{text} is a Python function: write {{function: {text}, version: ...}}, where `version` is any text that "
            "you change when the function changes",
        )
        return None
    if text.startswith(("http://", "https://")):
        files.problems.add(
            item.at(), f"{text} is an address: write {{endpoint: {{url: ...}}, version: ...}}; see the guide"
        )
        return None
    return PositionedData({"model": text}, item.at())


def _read_entry_file(item: PositionedData, files: RegistryFiles, what: str = "victim") -> PositionedData | None:
    """Return the content of a file that is given by its path; its name is the file's where it has none."""
    path = _path_beside(item.at(), item.data)
    if not path.is_file():
        files.problems.add(item.at(), f"there is no {what}'s file {item.data}")
        return None
    try:
        content = read_yaml(path, files.problems)
    except SuiteError as error:
        files.problems.take(error)
        return None
    return content if "name" in content.data else content.put(("name",), PositionedData(path.stem, content.at()))


def file_naming_hint(text: str) -> str | None:
    """Say how to name a Python function that `text` names by its file, as in predict.py:f; None for other texts."""
    matched = _FILE.fullmatch(text)
    if matched is None:
        return None
    function = f"{matched['module']}:{matched['function']}"
    where = f", and run rbench in {matched['folder']}" if matched["folder"] not in (None, ".") else ""
    return f"{text} names a function by its file; write {function}, without .py{where}"


def _path_beside(place: str, path: str) -> Path:
    """Return a path as it is meant where it stands: relative to the folder of its file, or to the current folder."""
    file = _PLACE.match(place)
    return (Path(file[1]).parent if file is not None else Path()) / Path(path).expanduser()


def _resolve_model_path(spec: V, content: PositionedData) -> V:
    """Return a model whose relative path is one below the folder of the file that names it.

    Text that is not written as a path (`./mine`) means a folder beside that file if there is one.
    """
    if spec.model is None or spec.model.startswith(("/", "~")):
        return spec
    beside = _path_beside(content.at(("model",)), spec.model)
    if not spec.model.startswith(".") and not (beside / "config.json").is_file():
        return spec
    return spec.model_copy(update={"model": str(beside.resolve())})
