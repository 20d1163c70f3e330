"""Loads what a suite names, each entry once, or one entry alone: a task, an encoder, an attack, a classifier.

`Entries` holds the loaders of each kind. They share one set of files and one list of problems. The functions below it
load one entry for whoever names it without a suite. They raise SuiteError where a name is unknown or its file, or what
the caller says of it, is wrong; `place` is where the name stands, for messages.

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

from rbench.config.attacks import Attacks, asks_for_gradients
from rbench.config.check import check
from rbench.config.code import Module, Modules
from rbench.config.encoders import Encoders
from rbench.config.files import Files, Listed
from rbench.config.overrides import Chosen, choices, items, names
from rbench.config.positions import Positioned, Problems, listed, read
from rbench.config.registry import NAME, Registry, unknown
from rbench.config.tasks import ContrastSets, Tasks
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


class Entries:
    """Loads what one suite names, each entry once. Everything wrong goes to `problems`.

    Each kind has a loader, whose `found` holds what was loaded. `own` holds encoders by name that have no file.
    """

    def __init__(self, registry: Registry, problems: Problems, own: Mapping[str, Positioned] | None = None) -> None:
        self.files = files = Files(registry, problems)
        self.problems = problems
        self.modules = Modules(registry, problems)
        self.tasks = Tasks(files)
        self.contrast = ContrastSets(files, self.tasks)
        self.encoders = Encoders(files, self.modules, self.tasks, {} if own is None else own)
        self.attacks = Attacks(files, self.modules)
        self.victims: dict[str, VictimSpec] = {}
        """The suite's classifiers that exist, by name."""
        self.strategies: dict[str, StrategyNeeds] = {}
        """What fine-tuning strategies need, by label."""
        self.merged = Positioned({})
        """The suite as it will run, and in `suite` the same if its types are right."""
        self.suite: Suite | None = None

    def load_axes(self) -> None:
        """Load the encoders, tasks, attacks and strategies of the suite, and check the options of its figures."""
        for choice in choices(self.merged, "encoders"):
            self.encoders.choose(choice)
        for place, name in names(self.merged, "tasks"):
            self.tasks.load(name, place)
        for choice in choices(self.merged, "attacks"):
            self.attacks.load(choice)
        for choice in choices(self.merged, "finetune"):
            self.strategy(choice)
        if "finetune" not in self.merged.data:
            self.modules.open("finetune", CLEAN, self.merged.at())
        for choice in choices(self.merged, "figures"):
            self.modules.check("figures", choice.name, choice.place, choice.options)

    def strategy(self, choice: Chosen) -> None:
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
        own = {*module.Options.model_fields}
        further = {*Training.model_fields} - own
        for key in choice.options.data:
            if key not in own | further:
                what = unknown(f"option of {choice.name}", key, own | further)
                self.problems.add(choice.options.key_at((key,)), what)
        training = choice.options.only(further)
        made = self.modules.check("finetune", choice.name, choice.place, choice.options.only(own))
        if made is None or check(Training, training, self.problems) is None:
            return
        attack: Choice | None = getattr(made, "attack", None)
        if attack is not None:
            place = choice.options.at(("attack",)) if "attack" in choice.options.data else choice.place
            self.attacks.load(Chosen(attack.name, attack.label, place, Positioned(attack.options, place)))
            self.modules.open("finetune", CLEAN, place)  # it makes the victim of that attack
        self.strategies[choice.label] = StrategyNeeds(
            resources=self.modules.needs("finetune", choice.name, made),
            attack=attack.label if attack is not None else None,
            training=training.data,
        )

    def _by_task(self, choice: Chosen) -> None:
        settings = choice.options.sub(BY_TASK)
        known = {*self.files.registry.names("tasks"), *(name for _, name in names(self.merged, "tasks"))}
        if not isinstance(settings.data, dict) or not all(isinstance(own, dict) for own in settings.data.values()):
            self.problems.add(settings.at(), f"`{BY_TASK}`: expected options by task, {{TASK: {{OPTION: VALUE}}}}")
            return
        rest = choice.options.only({*choice.options.data} - {BY_TASK})
        for task in (None, *settings.data):
            options = rest
            if task is not None and task not in known:
                self.problems.add(settings.key_at((task,)), unknown("task", task, known))
            for key in settings.data[task] if task is not None else ():
                options = options.put((key,), settings.sub(task, key), settings.sub(task).key_at((key,)))
            one = Choice(name=choice.name, options=options.data)
            self.strategy(Chosen(one.name, one.label, choice.place, options))


@contextmanager
def _entries(registry: Registry) -> Iterator[Entries]:
    """Give loaders, and raise what they found to be wrong when the block ends."""
    entries = Entries(registry, Problems())
    yield entries
    entries.problems.raise_any()


def load_task(task: str | Mapping[str, Any], registry: Registry, *, place: str = "task") -> TaskSpec:
    """Return the task with this name, or of this table, as a suite names it."""
    with _entries(registry) as entries:
        written = Positioned({"tasks": [dict(task) if isinstance(task, Mapping) else task]}, place)
        (name,) = entries.tasks.tables.renamed(written, Path()).data["tasks"]
        entries.tasks.load(name, place)
    return entries.tasks.found[name]


def load_contrast(name: str, registry: Registry, *, place: str = "contrast set") -> ContrastSpec:
    """Return the contrast set with this name."""
    with _entries(registry) as entries:
        entries.contrast.load(name, place)
    return entries.contrast.found[name]


def load_encoder(name: str, registry: Registry, *, place: str = "encoder") -> EncoderSpec:
    """Return the encoder with this name, after checking its bases, corpora and resources too."""
    with _entries(registry) as entries:
        entries.encoders.load(name, place)
    return entries.encoders.found[name]


def load_resources(choice: ResourceChoice | str, registry: Registry, *, place: str = "resources") -> ResourceSet:
    """Return the resource set of this name or choice, with the choice's single resources put in."""
    choice = ResourceChoice(set=choice) if isinstance(choice, str) else choice
    with _entries(registry) as entries:
        found = entries.encoders.resources(choice, Positioned({}, place))
    assert found is not None
    return found


def load_attack(choice: Choice | str, registry: Registry, *, place: str = "attack") -> AttackSpec:
    """Return the attack of this name or choice, which is a registry file or a TextAttack recipe."""
    choice = Choice(name=choice) if isinstance(choice, str) else choice
    with _entries(registry) as entries:
        entries.attacks.load(Chosen(choice.name, choice.label, place, Positioned(dict(choice.options), place)))
    return entries.attacks.found[choice.label]


@dataclass(frozen=True)
class ChosenAttack:
    """An attack, its name with options, and its Python file if it has one."""

    label: str
    spec: AttackSpec
    module: Module | None

    @property
    def gradients(self) -> bool:
        """Whether it asks the victim for gradients."""
        return asks_for_gradients(self.spec, self.module)


def chosen_attack(choice: str | Mapping[str, Any], registry: Registry) -> ChosenAttack:
    """Load the attack of this name, or of this name with options: `{"bertattack": {"max_words": 5}}`."""
    found = [*choices(Positioned({"attacks": [choice]}, "attack"), "attacks")]
    if len(found) != 1:
        raise SuiteError(f"attack: {choice!r} is neither a name nor a mapping of one name to its options")
    (chosen,) = found
    with _entries(registry) as entries:
        entries.attacks.load(chosen)
    spec = entries.attacks.found[chosen.label]
    return ChosenAttack(chosen.label, spec, entries.modules.found.get(("attacks", chosen.name)))


def with_needs(attacks: Iterable[Listed], registry: Registry) -> list[Listed]:
    """Return the entries of attacks with what each needs as it is. Of a file that cannot be read nothing is told."""
    found = []
    for one in attacks:
        with suppress(SuiteError):
            attack = chosen_attack(one.name, registry)
            kinds = (RESOURCE_NAMES[kind] for kind in RESOURCE_KINDS if kind in attack.spec.needs)
            one = replace(one, needs=(*kinds, *(["gradients"] if attack.gradients else [])))
        found.append(one)
    return found


def chosen_victim(entry: str | Mapping[str, Any], registry: Registry) -> VictimSpec:
    """Load a classifier that exists: what a suite has under `victims`, a text or a mapping (JSON types).

    Functions and endpoints need no `version`, because a call stores no answers.
    """
    if isinstance(entry, Mapping) and "model" not in entry:
        entry = {"version": "given", **entry}
    with _entries(registry) as entries:
        _, found = load_victims(Positioned({"victims": [entry]}, "victim"), entries.files)
    (spec,) = found.values()
    return spec


def chosen_judge(name: str, registry: Registry) -> JudgeSpec:
    """Load a judge, by its name or by the path of its YAML file."""
    with _entries(registry) as entries:
        found = load_judge(name, entries.files)
    assert found is not None
    return found


V = TypeVar("V", bound=VictimSpec)

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""The form of `module:function`."""
_FILE = re.compile(r"(?:(?P<folder>.*)[/\\])?(?P<module>[A-Za-z_]\w*)\.py:(?P<function>[A-Za-z_]\w*)")
_PLACE = re.compile(r"(.+?):\d+:\d+")


def load_victims(merged: Positioned, files: Files) -> tuple[Positioned, dict[str, VictimSpec]]:
    """Return the suite with the names of its `victims` in their place, and their specifications by name.

    A name is that of the file, or the entry's `name`, or is made of its folder, hub id, function or address. Where two
    made names are the same, both get one more part. Add a problem for each entry that is wrong.
    """
    problems = files.problems
    found: dict[str, VictimSpec] = {}
    # The check of the suite reports entries that are neither texts nor mappings.
    written = [item for item in items(merged, "victims") if isinstance(item.data, str | dict)]
    entries = [(item, _content(item, files)) for item in written]
    short = Counter(victim_name(content.data) for _, content in entries if content is not None)
    taken = {choice.label for choice in choices(merged, "encoders")}
    chosen: list[Positioned] = []
    for item, content in entries:
        name = victim_name(item.data if content is None else content.data)
        if content is not None and "name" not in content.data and (short[name] > 1 or name in taken):
            name = victim_name(content.data, longer=True)
        chosen.append(Positioned(name, item.place))
        if content is None or not isinstance(name, str):
            continue
        if not NAME.fullmatch(name):
            problems.add(
                content.at(("name",)),
                f"{name!r}: a name has letters, digits and . _ + - and begins with a letter or digit",
            )
        elif name in taken:
            problems.add(item.at(), f"there is an encoder {name} here already; give the classifier another `name`")
        elif name in found:
            problems.add(item.at(), f"`victims` lists {name} twice; remove one, or give it another `name`")
        elif (spec := check(VictimSpec, content.put(("name",), Positioned(name)), problems)) is not None:
            found[name] = _with_path(spec, content)
    if not entries:
        return merged, found
    return merged.put(("victims",), listed(chosen, merged.at(("victims",)))), found


def load_judge(name: str, files: Files) -> JudgeSpec | None:
    """Return the judge of a name, or of a path that ends in .yaml; None where it is wrong, which adds a problem."""
    from rbench.schema.judges import JudgeSpec

    item = Positioned(name, "--by")
    if name.endswith((".yaml", ".yml")):
        content = _of_file(item, files, "judge")
    else:
        content = files.named("judges", name) if files.path("judges", name, item.at()) is not None else None
    if content is None:
        return None
    for question in ("label", "meaning"):
        if isinstance(content.data.get(question), dict):
            content = content.put((question, "name"), Positioned(content.data["name"]))
    spec = check(JudgeSpec, content, files.problems)
    if spec is None:
        return None
    asked = {name: getattr(spec, name) for name in ("label", "meaning")}
    located = {
        name: _with_path(one, Positioned({"model": one.model}, content.at((name, "model"))))
        for name, one in asked.items()
        if one is not None
    }
    return spec.model_copy(update=located)


def _content(item: Positioned, files: Files) -> Positioned | None:
    """Return an entry as a mapping of VictimSpec's keys; None where something is wrong, which adds a problem."""
    if isinstance(item.data, dict):
        return item
    text = item.data
    if text in (*files.registry.names("victims"), *files.registry.fragments("victims")):
        return files.named("victims", text) if files.path("victims", text, item.at()) is not None else None
    if text.endswith((".yaml", ".yml")):
        return _of_file(item, files)
    if (by_file := named_by_file(text)) is not None:
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
    return Positioned({"model": text}, item.at())


def _of_file(item: Positioned, files: Files, what: str = "victim") -> Positioned | None:
    """Return the content of a file that is given by its path; its name is the file's where it has none."""
    path = _below(item.at(), item.data)
    if not path.is_file():
        files.problems.add(item.at(), f"there is no {what}'s file {item.data}")
        return None
    try:
        found = read(path, files.problems)
    except SuiteError as error:
        files.problems.take(error)
        return None
    return found if "name" in found.data else found.put(("name",), Positioned(path.stem, found.at()))


def named_by_file(text: str) -> str | None:
    """Say how to name a Python function that `text` names by its file, as in predict.py:f; None for other texts."""
    found = _FILE.fullmatch(text)
    if found is None:
        return None
    function = f"{found['module']}:{found['function']}"
    where = f", and run rbench in {found['folder']}" if found["folder"] not in (None, ".") else ""
    return f"{text} names a function by its file; write {function}, without .py{where}"


def _below(place: str, path: str) -> Path:
    """Return a path as it is meant where it stands: relative to the folder of its file, or to the current folder."""
    file = _PLACE.match(place)
    return (Path(file[1]).parent if file is not None else Path()) / Path(path).expanduser()


def _with_path(spec: V, content: Positioned) -> V:
    """Return a model whose relative path is one below the folder of the file that names it.

    Text that is not written as a path (`./mine`) means a folder beside that file if there is one.
    """
    if spec.model is None or spec.model.startswith(("/", "~")):
        return spec
    beside = _below(content.at(("model",)), spec.model)
    if not spec.model.startswith(".") and not (beside / "config.json").is_file():
        return spec
    return spec.model_copy(update={"model": str(beside.resolve())})
