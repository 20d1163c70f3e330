"""Make TextAttack's recipes use rbench's resources: a recipe built inside `binding` gets them in its constructors."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

import nltk
import textattack
import transformers
from textattack.shared import WordEmbedding

from rbench.attack import components
from rbench.attack._textattack import swapped
from rbench.attack.cached import GreedyWordSwapWIR
from rbench.attack.components import current
from rbench.attack.masked_lm import WordSwapMaskedLM
from rbench.errors import ResourceError

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
