"""Make TextAttack's recipes use rbench's resources: a recipe built inside `binding` gets them in its constructors.

Components of a recipe become subclasses that have the name of their TextAttack class and the same semantics. Two things
differ. Words, tags and vectors come from the resources. And nothing is computed twice: sentence vectors and tags are
remembered by text as long as the resources live, and texts too short for the similarity window are not encoded.

`dry_build` builds a recipe without resources, to find its components, their parameters and the resources that it needs.
"""

from __future__ import annotations

import inspect
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, NoReturn

import nltk
import numpy as np
import textattack
import torch
import transformers
from textattack import Attack
from textattack.constraints.grammaticality import PartOfSpeech as _PartOfSpeech
from textattack.constraints.pre_transformation import StopwordModification as _StopwordModification
from textattack.constraints.semantics.sentence_encoders import SBERT as _SBERT
from textattack.constraints.semantics.sentence_encoders import MultilingualUniversalSentenceEncoder as _MultilingualUSE
from textattack.constraints.semantics.sentence_encoders import SentenceEncoder as _SentenceEncoder
from textattack.constraints.semantics.sentence_encoders import UniversalSentenceEncoder as _USE
from textattack.shared import WordEmbedding
from textattack.shared.utils import is_one_word
from textattack.transformations import CompositeTransformation
from textattack.transformations import WordSwapHomoglyphSwap as _WordSwapHomoglyphSwap
from textattack.transformations import WordSwapWordNet as _WordSwapWordNet

from rbench.config.registry import unknown
from rbench.encoders.vectors import WordVectors
from rbench.errors import ResourceError, SuiteError
from rbench.recipes._textattack import swapped
from rbench.recipes.cached import GreedyWordSwapWIR
from rbench.recipes.masked_lm import WordSwapMaskedLM, current
from rbench.schema import AttackSpec, ResourceKind

VERSION = 1
USES = ("recipes.cached",)
"""attack.masked_lm and encoders.vectors are not listed, because only some recipes use them."""


# ------------------------------------------------------------------------------------------------------- word vectors


class Embedding(WordEmbedding):  # type: ignore[misc]
    """The resource's word vectors, in place of TextAttack's counter-fitted ones."""

    def __init__(self, vectors: WordVectors) -> None:
        super().__init__(vectors.matrix, vectors.index, vectors.words)
        self._vectors, self._rows = vectors, torch.from_numpy(vectors.matrix)

    def nearest_neighbours(self, index: int | str, topn: int) -> list[int]:
        """Return the indices of the `topn` nearest words, nearest first.

        TextAttack's own cache ignores `topn`, so that a second call may get the result of another `topn`. This method
        does not.
        """
        place = self._vectors.index[index] if isinstance(index, str) else int(index)
        neighbours: list[int] = self._vectors.nearest_ids(place, topn).tolist()
        return neighbours

    def get_cos_sim(self, a: int | str, b: int | str) -> float:
        """Return the cosine of two words, computed as TextAttack does, and remember it."""
        first, second = sorted(self._vectors.index[w] if isinstance(w, str) else int(w) for w in (a, b))
        known = self._cos_sim_mat[first].get(second)
        if known is None:
            known = torch.cosine_similarity(self._rows[first], self._rows[second], dim=0).item()
            self._cos_sim_mat[first][second] = known
        return float(known)


_embeddings: weakref.WeakKeyDictionary[WordVectors, Embedding] = weakref.WeakKeyDictionary()


def embedding() -> Embedding:
    """Return the bound word vectors. Components with the same vectors share one object."""
    vectors = current.get().word_vectors
    if vectors not in _embeddings:
        _embeddings[vectors] = Embedding(vectors)
    return _embeddings[vectors]


# ---------------------------------------------------------------------------------------------------------- lexical


class WordSwapWordNet(_WordSwapWordNet):  # type: ignore[misc]
    """Takes synonyms of one word from the bound resource, as TextAttack does from WordNet."""

    def __init__(self, language: str = "eng") -> None:
        if language != "eng":
            raise ResourceError(f"WordSwapWordNet: rbench has English synonyms, and the recipe asks for {language!r}")
        self.language, self._synonyms = language, current.get().synonyms
        self._known: dict[str, list[str]] = {}

    def _get_replacement_words(self, word: str, random: bool = False) -> list[str]:
        if word not in self._known:
            self._known[word] = [other for other in self._synonyms(word) if other != word and is_one_word(other)]
        return self._known[word]


LONGEST = 1000
"""Letters of the longest word of which each letter is swapped. No language has one so long; hostile texts do."""


class WordSwapHomoglyphSwap(_WordSwapHomoglyphSwap):  # type: ignore[misc]
    """TextAttack's swap, which also works if TextAttack was installed from its wheel.

    The constructor reads `shared/intentional_homoglyphs.txt` last, and the wheel of 0.3.11 lacks that file. Only the
    differential-evolution search of BadCharacters needs it; word swaps use another table.
    """

    def __init__(self, random_one: bool = False, **kwargs: Any) -> None:
        try:
            super().__init__(random_one=random_one, **kwargs)
        except FileNotFoundError:
            self.homos_intentional: dict[str, list[str]] = {}

    def _get_replacement_words(self, word: str) -> list[str]:
        """Return a word for each letter that can be swapped; none for a word of more than LONGEST letters.

        So many words, each as long as that one, would fill the memory: a megabyte of letters needs a terabyte.
        """
        return super()._get_replacement_words(word) if len(word) <= LONGEST else []


class StopwordModification(_StopwordModification):  # type: ignore[misc]
    """Uses the bound stop words, unless the recipe brings its own."""

    def __init__(self, stopwords: Sequence[str] | None = None, language: str = "english") -> None:
        if stopwords is None and language != "english":
            raise ResourceError(f"StopwordModification: rbench has English stop words, not {language!r}")
        super().__init__(stopwords=current.get().stopwords if stopwords is None else stopwords)


class PartOfSpeech(_PartOfSpeech):  # type: ignore[misc]
    """Takes tags from the bound tagger, which remembers them from example to example."""

    def __init__(
        self,
        tagger_type: str = "nltk",
        tagset: str = "universal",
        allow_verb_noun_swap: bool = True,
        compare_against_original: bool = True,
        language_nltk: str = "eng",
        language_stanza: str = "en",
    ) -> None:
        if (tagger_type, tagset, language_nltk) != ("nltk", "universal", "eng"):
            raise ResourceError(
                "PartOfSpeech: rbench tags with the resource pos_tagger and the universal tag set; the recipe asks for "
                f"{tagger_type}, {tagset}, {language_nltk}"
            )
        super().__init__(allow_verb_noun_swap=allow_verb_noun_swap, compare_against_original=compare_against_original)
        self._pos_tag = current.get().pos_tag

    def clear_cache(self) -> None:
        """Do nothing: the resource keeps the tags, and they do not depend on the example."""

    def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:
        # Chinese text is segmented again after a replacement, so the modified index may no longer be a word.
        modified = transformed_text.attack_attrs["newly_modified_indices"]
        if any(i >= min(transformed_text.num_words, reference_text.num_words) for i in modified):
            return False
        return bool(super()._check_constraint(transformed_text, reference_text))

    def _get_pos(self, before_ctx: list[str], word: str, after_ctx: list[str]) -> str:
        words = [*before_ctx, word, *after_ctx]
        tag: str = self._pos_tag(words, words.index(word))  # the first occurrence in the window, as TextAttack
        return tag


# ------------------------------------------------------------------------------------------------------- similarity


class _BoundSimilarity(_SentenceEncoder):  # type: ignore[misc]
    """Compares texts by the bound sentence encoder, with TextAttack's windows, metrics and thresholds."""

    def encode(self, sentences: Sequence[str]) -> torch.Tensor:
        """Return vectors (n, dim). The resource remembers them by text."""
        vectors: torch.Tensor = self._sentences.vectors(sentences)
        return vectors

    def _score_list(self, starting_text: Any, transformed_texts: Sequence[Any]) -> torch.Tensor:
        windows: dict[int, str] = {}
        before, after = [], []
        for text in transformed_texts:
            try:
                place = next(iter(text.attack_attrs["newly_modified_indices"]))
            except KeyError as error:
                raise KeyError("a similarity constraint needs to know which word was modified") from error
            if place not in windows:
                windows[place] = starting_text.text_window_around_index(place, self.window_size)
            before.append(windows[place])
            after.append(text.text_window_around_index(place, self.window_size))
        vectors = self.encode([*before, *after])
        scores: torch.Tensor = self.sim_metric(vectors[: len(before)], vectors[len(before) :])
        return scores

    def _check_constraint_many(self, transformed_texts: Sequence[Any], reference_text: Any) -> list[Any]:
        texts = list(transformed_texts)
        scores = torch.ones(len(texts))
        shortest = self.window_size if self.skip_text_shorter_than_window else 0
        long = [i for i, text in enumerate(texts) if len(text.words) >= shortest]
        if long:
            scores[long] = self._score_list(reference_text, [texts[i] for i in long])
        for text, score in zip(texts, scores.tolist(), strict=True):
            text.attack_attrs["similarity_score"] = score
        return [text for text, good in zip(texts, (scores >= self.threshold).tolist(), strict=True) if good]


class UniversalSentenceEncoder(_BoundSimilarity, _USE):  # type: ignore[misc]
    """TextAttack's USE constraint with the bound sentence encoder."""

    def __init__(self, threshold: float = 0.8, large: bool = False, metric: str = "angular", **kwargs: Any) -> None:
        _SentenceEncoder.__init__(self, threshold=threshold, metric=metric, **kwargs)
        self._sentences = current.get().sentence_encoder


class MultilingualUniversalSentenceEncoder(UniversalSentenceEncoder, _MultilingualUSE):  # type: ignore[misc]
    """TextAttack's multilingual USE constraint with the bound sentence encoder."""


class SBERT(_BoundSimilarity, _SBERT):  # type: ignore[misc]
    """TextAttack's SBERT constraint with the bound sentence encoder. The recipe's model name is ignored."""

    def __init__(self, threshold: float = 0.7, metric: str = "cosine", model_name: str = "", **kwargs: Any) -> None:
        _SentenceEncoder.__init__(self, threshold=threshold, metric=metric, **kwargs)
        self._sentences = current.get().sentence_encoder


# -------------------------------------------------------------------------------------------------- building recipes


SUBSTITUTES: tuple[type, ...] = (
    WordSwapWordNet,
    WordSwapHomoglyphSwap,
    StopwordModification,
    PartOfSpeech,
    UniversalSentenceEncoder,
    MultilingualUniversalSentenceEncoder,
    SBERT,
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
        resources: the resources of a set, or an object with the same attributes.
        parameters: constructor arguments by name of the component; they override those of the recipe.

    Raises:
        ResourceError: a recipe tries to download something that no resource provides. Nothing is downloaded.
    """
    with _lock, ExitStack() as stack:
        token = current.set(resources)
        stack.callback(current.reset, token)
        for owner, name, value in _swaps(resources):
            stack.enter_context(swapped(owner, name, value))
        # Every class that a recipe module names. Inside this block these are rbench's subclasses.
        built = {v.__name__: v for module in recipe_modules() for v in vars(module).values() if isinstance(v, type)}
        for component, arguments in parameters.items():
            cls = built[component]
            stack.enter_context(swapped(cls, "__init__", _overriding(cls, arguments)))
        yield


def recipe_modules() -> list[Any]:
    """Return the modules that define TextAttack's recipes."""
    loaded = list(sys.modules)  # in one step: the thread that asks endpoints imports things meanwhile
    return [sys.modules[name] for name in sorted(one for one in loaded if one.startswith("textattack.attack_recipes."))]


def _swaps(resources: Any) -> Iterator[tuple[Any, str, Any]]:
    # Only the base class of the same name is replaced: the multilingual encoder also inherits from the plain one.
    ours = {
        base: cls
        for cls in SUBSTITUTES
        for base in cls.__mro__
        if base.__module__.startswith("textattack.") and base.__name__ == cls.__name__
    }
    for module in recipe_modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value in ours:
                yield module, name, ours[value]
    yield WordEmbedding, "counterfitted_GLOVE_embedding", staticmethod(embedding)
    yield transformers.AutoModelForMaskedLM, "from_pretrained", lambda *a, **k: resources.masked_lm.model
    yield transformers.AutoModelForCausalLM, "from_pretrained", lambda *a, **k: resources.masked_lm.model
    yield transformers.AutoTokenizer, "from_pretrained", lambda *a, **k: resources.masked_lm.tokenizer
    for auto in (transformers.AutoModelForSequenceClassification, transformers.AutoModelForSeq2SeqLM):
        yield auto, "from_pretrained", _refused
    yield transformers.PreTrainedModel, "from_pretrained", _refused
    yield textattack.shared.utils, "download_from_s3", _refused
    yield textattack.shared.utils, "download_from_url", _refused
    yield nltk, "download", lambda *a, **k: True


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
            form = "" if dot else " (parameters are written Component.parameter)"
            raise SuiteError(f"attack {spec.name}: " + unknown("component", component, components) + form)
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
