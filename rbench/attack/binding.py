"""Make TextAttack's recipes use rbench's resources: a recipe built inside `binding` gets them in its constructors.

`dry_build` builds one without resources, to find its components, their parameters and the resources that it needs.
"""

from __future__ import annotations

import inspect
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, NoReturn

import nltk
import numpy as np
import textattack
import transformers
from textattack import Attack
from textattack.shared import WordEmbedding
from textattack.transformations import CompositeTransformation

from rbench.attack import components
from rbench.attack._textattack import swapped
from rbench.attack.cached import GreedyWordSwapWIR
from rbench.attack.components import current
from rbench.attack.masked_lm import WordSwapMaskedLM
from rbench.encoders.vectors import WordVectors
from rbench.errors import ResourceError, SuiteError
from rbench.load.registry import unknown
from rbench.spec import AttackSpec, ResourceKind

VERSION = 1
USES = ("attack.components", "attack.cached")
"""attack.masked_lm is not listed, because only recipes with a masked LM use it."""

SUBSTITUTES: tuple[type, ...] = (
    components.WordSwapWordNet,
    components.WordSwapHomoglyphSwap,
    components.StopwordModification,
    components.PartOfSpeech,
    components.UniversalSentenceEncoder,
    components.MultilingualUniversalSentenceEncoder,
    components.SBERT,
    GreedyWordSwapWIR,
    WordSwapMaskedLM,
)
"""Each is a subclass of TextAttack's class of the same name, and replaces it inside `binding`."""

_lock = threading.Lock()

OURS = {"embedding", "masked_language_model", "tokenizer", "model_name", "model_wrapper", "query_budget"}
"""Constructor arguments that rbench sets, and a suite cannot."""

CHOICES = {
    "GreedyWordSwapWIR.wir_method": ("unk", "weighted-saliency", "delete", "gradient", "random"),
    "WordSwapMaskedLM.method": ("bae", "bert-attack"),
}
RANGES = {
    "WordEmbeddingDistance.min_cos_sim": (-1.0, 1.0),
    "WordSwapMaskedLM.min_confidence": (0.0, 1.0),
    "MaxWordsPerturbed.max_percent": (0.001, 1.0),  # TextAttack takes 0 for no limit
}
COUNTS = ("WordSwapMaskedLM.piece_candidates", "WordSwapMaskedLM.max_combinations")
"""Values that TextAttack does not check: beyond them an attack has no candidates, or fails on each example."""
THRESHOLD, METRIC = "UniversalSentenceEncoder.threshold", "UniversalSentenceEncoder.metric"
"""A threshold is a similarity in -1..1, unless the metric is a distance."""


@contextmanager
def binding(resources: Any, parameters: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Build recipes inside this block: they use `resources`, and their components get `parameters`.

    TextAttack's modules are patched inside the block and restored after it. One thread at a time can be inside.

    Args:
        resources: the resources of a profile, or an object with the same attributes.
        parameters: constructor arguments by name of the component; they override those of the recipe.

    Raises:
        ResourceError: a recipe tries to download something that no resource provides. Nothing is downloaded.
    """
    with _lock, ExitStack() as stack:
        token = current.set(resources)
        stack.callback(current.reset, token)
        for owner, name, value in _swaps(resources):
            stack.enter_context(swapped(owner, name, value))
        built = component_classes()
        for component, arguments in parameters.items():
            cls = built[component]
            stack.enter_context(swapped(cls, "__init__", _overriding(cls, arguments)))
        yield


def recipe_modules() -> list[Any]:
    """Return the modules that define TextAttack's recipes."""
    loaded = list(sys.modules.items())  # in one step: the thread that asks endpoints imports things meanwhile
    return [module for name, module in sorted(loaded) if name.startswith("textattack.attack_recipes.")]


def component_classes() -> dict[str, type]:
    """Return every class that a recipe module names, by name. Inside `binding` these are rbench's subclasses."""
    return {v.__name__: v for module in recipe_modules() for v in vars(module).values() if isinstance(v, type)}


def _swaps(resources: Any) -> Iterator[tuple[Any, str, Any]]:
    ours = {_upstream(cls): cls for cls in SUBSTITUTES}
    for module in recipe_modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value in ours:
                yield module, name, ours[value]
    yield WordEmbedding, "counterfitted_GLOVE_embedding", staticmethod(components.embedding)
    yield transformers.AutoModelForMaskedLM, "from_pretrained", lambda *a, **k: resources.masked_lm.model
    yield transformers.AutoModelForCausalLM, "from_pretrained", lambda *a, **k: resources.masked_lm.model
    yield transformers.AutoTokenizer, "from_pretrained", lambda *a, **k: resources.masked_lm.tokenizer
    for auto in (transformers.AutoModelForSequenceClassification, transformers.AutoModelForSeq2SeqLM):
        yield auto, "from_pretrained", _refused
    yield transformers.PreTrainedModel, "from_pretrained", _refused
    yield textattack.shared.utils, "download_from_s3", _refused
    yield textattack.shared.utils, "download_from_url", _refused
    yield nltk, "download", lambda *a, **k: True


def _upstream(cls: type) -> type:
    return next(
        base for base in cls.__mro__ if base.__module__.startswith("textattack.") and base.__name__ == cls.__name__
    )


def _refused(*wanted: Any, **options: Any) -> NoReturn:
    what = next((w for w in wanted if isinstance(w, str)), "something")
    raise ResourceError(f"the recipe tries to download {what!r}, and no resource of rbench provides it")


def _overriding(cls: Any, arguments: Mapping[str, Any]) -> Callable[..., None]:
    """Return a constructor for `cls` in which `arguments` override those that the recipe passes."""
    original = cls.__init__
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(original).parameters.values() if p.kind in kinds][1:]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, **(dict(zip(names, args, strict=False)) | kwargs | dict(arguments)))

    return __init__


def _stub_masked_lm() -> Any:
    config = SimpleNamespace(model_type="bert", max_position_embeddings=512)
    model = SimpleNamespace(config=config, to=lambda device: None, eval=lambda: None)
    return SimpleNamespace(model=model, tokenizer=SimpleNamespace(), memo=None)


_STUBS: dict[str, tuple[ResourceKind, Callable[[], Any]]] = {
    "word_vectors": ("word_vectors", lambda: WordVectors(["a", "b"], np.eye(2, dtype=np.float32))),
    "synonyms": ("synonyms", lambda: lambda word: []),
    "pos_tag": ("pos_tagger", lambda: lambda words, place: "X"),
    "stopwords": ("stopwords", frozenset),
    "sentence_encoder": ("sentence_encoder", lambda: None),
    "masked_lm": ("masked_lm", _stub_masked_lm),
}
"""By attribute of `Resources`: the kind of the resource, and what makes an empty one."""


class _StubResources:
    """Stands in for resources: gives empty answers without weights, and records which resources were used."""

    def __init__(self) -> None:
        self.asked: set[ResourceKind] = set()

    def __getattr__(self, name: str) -> Any:
        if name not in _STUBS:
            raise AttributeError(name)
        kind, made = _STUBS[name]
        self.asked.add(kind)
        return made()


def dry_build(
    spec: AttackSpec, recipe: Any, parameters: dict[str, dict[str, Any]] | None = None
) -> tuple[Attack, set[ResourceKind]]:
    """Build the recipe's attack without victim and weights. Return it with the resources that it needs.

    Raises:
        SuiteError: a constructor refuses its parameters, or does not support an encoder as victim.
    """
    stub = _StubResources()
    try:
        with binding(stub, parameters or {}):
            attack = recipe.build(SimpleNamespace(model=None, max_length=512))
    except Exception as error:
        raise SuiteError(f"attack {spec.name}: {recipe.__name__} cannot be built: {error}") from error
    return attack, stub.asked


def parts(attack: Attack) -> Iterator[Any]:
    """Yield all components of an attack. For a composite transformation, also its members."""
    yield attack.search_method
    yield attack.goal_function
    yield from attack.pre_transformation_constraints
    yield from attack.constraints
    yield attack.transformation
    if isinstance(attack.transformation, CompositeTransformation):
        yield from attack.transformation.transformations


def arguments(attack: Attack, spec: AttackSpec) -> dict[str, dict[str, Any]]:
    """Group `spec.parameters` by component, and check each value against the recipe's own value in `attack`.

    Raises:
        SuiteError: an unknown component or parameter, or a value of another type or out of range.
    """
    components: dict[str, Any] = {type(part).__name__: part for part in parts(attack)}
    grouped: dict[str, dict[str, Any]] = {}
    for key, value in spec.parameters.items():
        component, dot, name = key.partition(".")
        if component not in components or not dot:
            raise SuiteError(f"attack {spec.name}: " + unknown("component", component, components) + _form(dot))
        known = _constructor(type(components[component]))
        if name not in known:
            raise SuiteError(f"attack {spec.name}: " + unknown(f"parameter of {component}", name, known))
        _typed(spec, key, value, getattr(components[component], name, known[name]), known[name])
        _in_range(spec, key, value)
        grouped.setdefault(component, {})[name] = value
    return grouped


def _in_range(spec: AttackSpec, key: str, value: Any) -> None:
    """Raise SuiteError for a value of the right type that TextAttack takes, and with which nothing is attacked."""
    if key in CHOICES and value not in CHOICES[key]:
        raise SuiteError(f"attack {spec.name}: {key} must be one of {', '.join(CHOICES[key])}, not {value!r}")
    low, high = RANGES.get(key, (-math.inf, math.inf))
    if key == THRESHOLD and spec.parameters.get(METRIC, "cosine") != "max_euclidean":
        low, high = -1.0, 1.0
    if isinstance(value, int | float) and not low <= value <= high:
        raise SuiteError(f"attack {spec.name}: {key} must be from {low:g} to {high:g}, not {value!r}")
    if key in COUNTS and value is not None and not (type(value) is int and value >= 1):
        raise SuiteError(f"attack {spec.name}: {key} must be a whole number from 1, not {value!r}")


def _form(dot: str) -> str:
    return "" if dot else " (parameters are written Component.parameter)"


def _constructor(cls: type) -> dict[str, Any]:
    """Return a constructor's parameters with their defaults; with **kwargs, also those of its base classes."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        init = vars(base).get("__init__")
        if init is None or base is object:
            continue
        signature = inspect.signature(init).parameters.values()
        named = [p for p in signature if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)][1:]
        for parameter in named:
            found.setdefault(parameter.name, parameter.default)
        if not any(p.kind is p.VAR_KEYWORD for p in signature):
            break
    return {name: default for name, default in found.items() if name not in OURS}


def _typed(spec: AttackSpec, key: str, value: Any, published: Any, default: Any) -> None:
    """Raise SuiteError for a value whose type or range does not match the published one."""
    if value is None and default is None:
        return
    sample = published if not (isinstance(published, float) and math.isinf(published)) else 1
    fits: bool
    match sample:
        case bool():
            fits, what = isinstance(value, bool), "true or false"
        case int():
            fits, what = isinstance(value, int) and not isinstance(value, bool) and value >= 1, "a whole number from 1"
        case float():
            fits, what = isinstance(value, int | float) and not isinstance(value, bool), "a number"
            fits = fits and math.isfinite(value)
        case str():
            fits, what = isinstance(value, str), "a text"
        case list() | tuple() | set() | frozenset():
            fits, what = isinstance(value, list | tuple), "a list"
        case _:
            fits, what = isinstance(value, str | int | float | bool | list | tuple | None), "a plain value"
    if not fits:
        raise SuiteError(f"attack {spec.name}: {key} must be {what}, not {value!r}; the recipe has {published!r}")
