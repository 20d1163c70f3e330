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
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, NoReturn

import nltk
import numpy as np
import textattack
import torch
import transformers
from numpy.typing import NDArray
from textattack import Attack
from textattack.constraints.grammaticality import PartOfSpeech as _PartOfSpeech
from textattack.constraints.pre_transformation import StopwordModification as _StopwordModification
from textattack.constraints.semantics import WordEmbeddingDistance as _WordEmbeddingDistance
from textattack.constraints.semantics.sentence_encoders import SBERT as _SBERT
from textattack.constraints.semantics.sentence_encoders import MultilingualUniversalSentenceEncoder as _MultilingualUSE
from textattack.constraints.semantics.sentence_encoders import SentenceEncoder as _SentenceEncoder
from textattack.constraints.semantics.sentence_encoders import UniversalSentenceEncoder as _USE
from textattack.shared import WordEmbedding
from textattack.shared.utils import is_one_word
from textattack.transformations import CompositeTransformation
from textattack.transformations import WordSwapHomoglyphSwap as _WordSwapHomoglyphSwap
from textattack.transformations import WordSwapWordNet as _WordSwapWordNet

from rbench.config.registry import unknown_message
from rbench.encoders.inference import BatchedModel
from rbench.encoders.vectors import WordVectors
from rbench.errors import ResourceError, SuiteError
from rbench.recipes._textattack import swap_attribute
from rbench.recipes.cached import GreedyWordSwapWIR
from rbench.recipes.masked_lm import WordSwapMaskedLM, current_resources
from rbench.schema import AttackSpec, ResourceKind

VERSION = 1
USES = ("recipes.cached",)
"""attack.masked_lm and encoders.vectors are not listed, because only some recipes use them."""


# ------------------------------------------------------------------------------------------------------- word vectors


class BoundEmbedding(WordEmbedding):  # type: ignore[misc]
    """The resource's word vectors, in place of TextAttack's counter-fitted ones."""

    def __init__(self, vectors: WordVectors) -> None:
        super().__init__(vectors.matrix, vectors.index, vectors.words)
        self._vectors, self._rows = vectors, torch.from_numpy(vectors.matrix)
        self._search: BatchedModel[tuple[int, int], bool] = BatchedModel(self._search_nearest)

    def nearest_neighbours(self, index: int | str, topn: int) -> list[int]:
        """Return the indices of the `topn` nearest words, nearest first.

        TextAttack's own cache ignores `topn`, so that a second call may get the result of another `topn`. This method
        does not.
        """
        place = self._vectors.index[index] if isinstance(index, str) else int(index)
        if not self._vectors.knows_nearest(place, topn):
            self._search([(place, topn)])  # together with the words that other examples wait for
        neighbours: list[int] = self._vectors.nearest_ids(place, topn).tolist()
        return neighbours

    def _search_nearest(self, wanted: list[tuple[int, int]]) -> list[bool]:
        self._vectors.search_nearest([place for place, _ in wanted], max(topn for _, topn in wanted))
        return [True] * len(wanted)

    def near_cosines(self, a: int, others: Sequence[int]) -> NDArray[np.float32]:
        """Return the cosines of word `a` and others at once. They differ from those of `get_cos_sim` by rounding."""
        cosines: NDArray[np.float32] = self._vectors.unit[others] @ self._vectors.unit[a]
        return cosines

    def get_cos_sim(self, a: int | str, b: int | str) -> float:
        """Return the cosine of two words, computed as TextAttack does, and remember it."""
        first, second = sorted(self._vectors.index[w] if isinstance(w, str) else int(w) for w in (a, b))
        cosine = self._cos_sim_mat[first].get(second)
        if cosine is None:
            cosine = torch.cosine_similarity(self._rows[first], self._rows[second], dim=0).item()
            self._cos_sim_mat[first][second] = cosine
        return float(cosine)


_EMBEDDINGS: weakref.WeakKeyDictionary[WordVectors, BoundEmbedding] = weakref.WeakKeyDictionary()


def share_embedding() -> BoundEmbedding:
    """Return the bound word vectors. Components with the same vectors share one object."""
    vectors = current_resources.get().word_vectors
    if vectors not in _EMBEDDINGS:
        _EMBEDDINGS[vectors] = BoundEmbedding(vectors)
    return _EMBEDDINGS[vectors]


class WordEmbeddingDistance(_WordEmbeddingDistance):  # type: ignore[misc]
    """TextAttack's limit on the cosine of a word and its replacement, for all words tried at a place at once."""

    def _check_constraint_many(self, transformed_texts: Sequence[Any], reference_text: Any) -> list[Any]:
        if not isinstance(self.embedding, BoundEmbedding) or not self.min_cos_sim or self.cased:
            texts: list[Any] = super()._check_constraint_many(transformed_texts, reference_text)
            return texts
        kept: dict[int, bool] = {}
        for place, swaps in swaps_by_place(transformed_texts, reference_text).items():
            ids = self.embedding._word2index
            old = ids.get(reference_text.words[place].lower())
            new = {i: ids.get(word.lower()) for i, word in swaps.items()}
            known = {} if old is None else {i: other for i, other in new.items() if other is not None}
            kept |= {i: self.include_unknown_words for i in new if i not in known}
            if old is None or not known:
                continue
            cosines = self.embedding.near_cosines(old, list(known.values())).tolist()
            for (i, other), cosine in zip(known.items(), cosines, strict=True):
                if abs(cosine - self.min_cos_sim) < ROUNDING:
                    cosine = self.get_cos_sim(old, other)
                kept[i] = cosine >= self.min_cos_sim
        return [
            text
            for i, text in enumerate(transformed_texts)
            if (kept[i] if i in kept else self._check_constraint(text, reference_text))
        ]


ROUNDING = 1e-4
"""Cosines this near to a limit are computed again as TextAttack does."""


def swaps_by_place(texts: Sequence[Any], reference_text: Any) -> dict[int, dict[int, str]]:
    """Return by place in `reference_text` the new words of texts that differ from their parents in one word.

    The words are by index in `texts`. Other texts are left out.
    """
    places: dict[int, dict[int, str]] = defaultdict(dict)
    num_words = reference_text.num_words
    for i, text in enumerate(texts):
        swapped = getattr(text, "swapped", None)
        if swapped is not None and swapped.place < num_words and swapped.new != swapped.parent.words[swapped.place]:
            places[swapped.place][i] = swapped.new
    return places


# ---------------------------------------------------------------------------------------------------------- lexical


class WordSwapWordNet(_WordSwapWordNet):  # type: ignore[misc]
    """Takes synonyms of one word from the bound resource, as TextAttack does from WordNet."""

    def __init__(self, language: str = "eng") -> None:
        if language != "eng":
            raise ResourceError(f"WordSwapWordNet: rbench has English synonyms, and the recipe asks for {language!r}")
        self.language, self._synonyms = language, current_resources.get().synonyms
        self._known: dict[str, list[str]] = {}

    def _get_replacement_words(self, word: str, random: bool = False) -> list[str]:
        if word not in self._known:
            self._known[word] = [other for other in self._synonyms(word) if other != word and is_one_word(other)]
        return self._known[word]


MAX_SWAPPED_LETTERS = 1000
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
        return super()._get_replacement_words(word) if len(word) <= MAX_SWAPPED_LETTERS else []


class StopwordModification(_StopwordModification):  # type: ignore[misc]
    """Uses the bound stop words, unless the recipe brings its own."""

    def __init__(self, stopwords: Sequence[str] | None = None, language: str = "english") -> None:
        if stopwords is None and language != "english":
            raise ResourceError(f"StopwordModification: rbench has English stop words, not {language!r}")
        super().__init__(stopwords=current_resources.get().stopwords if stopwords is None else stopwords)


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
        self._pos_tag = current_resources.get().pos_tag
        self._tags_tried = current_resources.get().tags_tried

    def clear_cache(self) -> None:
        """Do nothing: the resource keeps the tags, and they do not depend on the example."""

    def _check_constraint_many(self, transformed_texts: Sequence[Any], reference_text: Any) -> list[Any]:
        kept: dict[int, bool] = {}
        words = reference_text.words
        for place, swaps in swaps_by_place(transformed_texts, reference_text).items():
            before, after = words[max(place - 4, 0) : place], words[place + 1 : place + 4]
            # A word that also stands before the place gets the tag that it has there, as in TextAttack.
            tried = {i: word for i, word in swaps.items() if word not in before}
            if words[place] in before or not tried:
                continue
            old, *new = self._tags_tried(before, [words[place], *tried.values()], after)
            kept |= {i: self._can_replace_pos(old, tag) for i, tag in zip(tried, new, strict=True)}
        return [
            text
            for i, text in enumerate(transformed_texts)
            if (kept[i] if i in kept else self._check_constraint(text, reference_text))
        ]

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
        old_windows: list[int] = []
        new_windows: list[str] = []
        for text in transformed_texts:
            place = next(iter(text.attack_attrs["newly_modified_indices"]))
            if place not in windows:
                windows[place] = starting_text.text_window_around_index(place, self.window_size)
            old_windows.append(list(windows).index(place))
            new_windows.append(text.text_window_around_index(place, self.window_size))
        vectors = self.encode([*windows.values(), *new_windows])
        scores: torch.Tensor = self.sim_metric(vectors[old_windows], vectors[len(windows) :])
        return scores

    def _check_constraint_many(self, transformed_texts: Sequence[Any], reference_text: Any) -> list[Any]:
        texts = list(transformed_texts)
        scores = torch.ones(len(texts))
        shortest = self.window_size if self.skip_text_shorter_than_window else 0
        long_enough = [i for i, text in enumerate(texts) if len(text.words) >= shortest]
        if long_enough:
            scores[long_enough] = self._score_list(reference_text, [texts[i] for i in long_enough])
        for text, score in zip(texts, scores.tolist(), strict=True):
            text.attack_attrs["similarity_score"] = score
        return [text for text, passes in zip(texts, (scores >= self.threshold).tolist(), strict=True) if passes]


class UniversalSentenceEncoder(_BoundSimilarity, _USE):  # type: ignore[misc]
    """TextAttack's USE constraint with the bound sentence encoder."""

    def __init__(self, threshold: float = 0.8, large: bool = False, metric: str = "angular", **kwargs: Any) -> None:
        _SentenceEncoder.__init__(self, threshold=threshold, metric=metric, **kwargs)
        self._sentences = current_resources.get().sentence_encoder


class MultilingualUniversalSentenceEncoder(UniversalSentenceEncoder, _MultilingualUSE):  # type: ignore[misc]
    """TextAttack's multilingual USE constraint with the bound sentence encoder."""


class SBERT(_BoundSimilarity, _SBERT):  # type: ignore[misc]
    """TextAttack's SBERT constraint with the bound sentence encoder. The recipe's model name is ignored."""

    def __init__(self, threshold: float = 0.7, metric: str = "cosine", model_name: str = "", **kwargs: Any) -> None:
        _SentenceEncoder.__init__(self, threshold=threshold, metric=metric, **kwargs)
        self._sentences = current_resources.get().sentence_encoder


# -------------------------------------------------------------------------------------------------- building recipes


SUBSTITUTES: tuple[type, ...] = (
    WordEmbeddingDistance,
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

_PATCH_LOCK = threading.Lock()

SET_BY_RBENCH = {"embedding", "masked_language_model", "tokenizer", "model_name", "model_wrapper", "query_budget"}
"""Constructor arguments that rbench sets, and a suite cannot."""

PARAMETER_CHOICES = {
    "GreedyWordSwapWIR.wir_method": ("unk", "weighted-saliency", "delete", "gradient", "random"),
    "WordSwapMaskedLM.method": ("bae", "bert-attack"),
}
PARAMETER_RANGES = {
    "WordEmbeddingDistance.min_cos_sim": (-1.0, 1.0),
    "WordSwapMaskedLM.min_confidence": (0.0, 1.0),
    "MaxWordsPerturbed.max_percent": (0.001, 1.0),  # TextAttack takes 0 for no limit
}
POSITIVE_PARAMETERS = ("WordSwapMaskedLM.piece_candidates", "WordSwapMaskedLM.max_combinations")
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
    with _PATCH_LOCK, ExitStack() as stack:
        token = current_resources.set(resources)
        stack.callback(current_resources.reset, token)
        for owner, name, value in _list_swaps(resources):
            stack.enter_context(swap_attribute(owner, name, value))
        # Every class that a recipe module names. Inside this block these are rbench's subclasses.
        classes = {v.__name__: v for module in recipe_modules() for v in vars(module).values() if isinstance(v, type)}
        # `__init__` is swapped on the class for the build alone: recipes pass their own values, which are overridden.
        for component, arguments in parameters.items():
            cls = classes[component]
            stack.enter_context(swap_attribute(cls, "__init__", _override_arguments(cls, arguments)))
        yield


def recipe_modules() -> list[Any]:
    """Return the modules that define TextAttack's recipes."""
    loaded = list(sys.modules)  # in one step: the thread that asks endpoints imports things meanwhile
    return [
        sys.modules[name]
        for name in sorted(module for module in loaded if module.startswith("textattack.attack_recipes."))
    ]


def _list_swaps(resources: Any) -> Iterator[tuple[Any, str, Any]]:
    # Only the base class of the same name is replaced: the multilingual encoder also inherits from the plain one.
    substitutes = {
        base: cls
        for cls in SUBSTITUTES
        for base in cls.__mro__
        if base.__module__.startswith("textattack.") and base.__name__ == cls.__name__
    }
    # Names of modules, not classes alone: a recipe holds what it imported, so patching the defining module misses it.
    for module in recipe_modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value in substitutes:
                yield module, name, substitutes[value]
    yield WordEmbedding, "counterfitted_GLOVE_embedding", staticmethod(share_embedding)
    yield transformers.AutoModelForMaskedLM, "from_pretrained", lambda *a, **k: resources.masked_lm.model
    yield transformers.AutoModelForCausalLM, "from_pretrained", lambda *a, **k: resources.masked_lm.model
    yield transformers.AutoTokenizer, "from_pretrained", lambda *a, **k: resources.masked_lm.tokenizer
    for auto in (transformers.AutoModelForSequenceClassification, transformers.AutoModelForSeq2SeqLM):
        yield auto, "from_pretrained", _refuse_download
    yield transformers.PreTrainedModel, "from_pretrained", _refuse_download
    yield textattack.shared.utils, "download_from_s3", _refuse_download
    yield textattack.shared.utils, "download_from_url", _refuse_download
    yield nltk, "download", lambda *a, **k: True


def _refuse_download(*wanted: Any, **options: Any) -> NoReturn:
    asked_for = next((w for w in wanted if isinstance(w, str)), "something")
    raise ResourceError(f"the recipe tries to download {asked_for!r}, and no resource of rbench provides it")


def _override_arguments(cls: Any, arguments: Mapping[str, Any]) -> Callable[..., None]:
    """Return a constructor for `cls` in which `group_parameters` override those that the recipe passes."""
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
    "tags_tried": ("pos_tagger", lambda: lambda before, tried, after: ["X"] * len(tried)),
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
        kind, make_stub = _STUBS[name]
        self.asked.add(kind)
        return make_stub()


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


def list_components(attack: Attack) -> Iterator[Any]:
    """Yield all components of an attack. For a composite transformation, also its members."""
    yield attack.search_method
    yield attack.goal_function
    yield from attack.pre_transformation_constraints
    yield from attack.constraints
    yield attack.transformation
    if isinstance(attack.transformation, CompositeTransformation):
        yield from attack.transformation.transformations


def group_parameters(attack: Attack, spec: AttackSpec) -> dict[str, dict[str, Any]]:
    """Group `spec.parameters` by component, and check each value against the recipe's own value in `attack`.

    Raises:
        SuiteError: an unknown component or parameter, or a value of another type or out of range.
    """
    components: dict[str, Any] = {type(part).__name__: part for part in list_components(attack)}
    grouped: dict[str, dict[str, Any]] = {}
    for key, value in spec.parameters.items():
        component, dot, name = key.partition(".")
        if component not in components or not dot:
            form = "" if dot else " (parameters are written Component.parameter)"
            raise SuiteError(f"attack {spec.name}: " + unknown_message("component", component, components) + form)
        known = _constructor_defaults(type(components[component]))
        if name not in known:
            raise SuiteError(f"attack {spec.name}: " + unknown_message(f"parameter of {component}", name, known))
        _check_type(spec, key, value, getattr(components[component], name, known[name]), known[name])
        _check_range(spec, key, value)
        grouped.setdefault(component, {})[name] = value
    return grouped


def _check_range(spec: AttackSpec, key: str, value: Any) -> None:
    """Raise SuiteError for a value of the right type that TextAttack takes, and with which nothing is attacked."""
    if key in PARAMETER_CHOICES and value not in PARAMETER_CHOICES[key]:
        raise SuiteError(f"attack {spec.name}: {key} must be one of {', '.join(PARAMETER_CHOICES[key])}, not {value!r}")
    low, high = PARAMETER_RANGES.get(key, (-math.inf, math.inf))
    if key == THRESHOLD and spec.parameters.get(METRIC, "cosine") != "max_euclidean":
        low, high = -1.0, 1.0
    if isinstance(value, int | float) and not low <= value <= high:
        raise SuiteError(f"attack {spec.name}: {key} must be from {low:g} to {high:g}, not {value!r}")
    if key in POSITIVE_PARAMETERS and value is not None and not (type(value) is int and value >= 1):
        raise SuiteError(f"attack {spec.name}: {key} must be a whole number from 1, not {value!r}")


def _constructor_defaults(cls: type) -> dict[str, Any]:
    """Return a constructor's parameters with their defaults; with **kwargs, also those of its base classes."""
    defaults: dict[str, Any] = {}
    for base in cls.__mro__:
        init = vars(base).get("__init__")
        if init is None or base is object:
            continue
        signature = inspect.signature(init).parameters.values()
        named_parameters = [p for p in signature if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)][1:]
        for parameter in named_parameters:
            defaults.setdefault(parameter.name, parameter.default)
        if not any(p.kind is p.VAR_KEYWORD for p in signature):
            break
    return {name: default for name, default in defaults.items() if name not in SET_BY_RBENCH}


def _check_type(spec: AttackSpec, key: str, value: Any, published: Any, default: Any) -> None:
    """Raise SuiteError for a value whose type or range does not match the published one."""
    if value is None and default is None:
        return
    example = published if not (isinstance(published, float) and math.isinf(published)) else 1
    fits: bool
    match example:
        case bool():
            fits, expected = isinstance(value, bool), "true or false"
        case int():
            fits, expected = (
                isinstance(value, int) and not isinstance(value, bool) and value >= 1,
                "a whole number from 1",
            )
        case float():
            fits, expected = isinstance(value, int | float) and not isinstance(value, bool), "a number"
            fits = fits and math.isfinite(value)
        case str():
            fits, expected = isinstance(value, str), "a text"
        case list() | tuple() | set() | frozenset():
            fits, expected = isinstance(value, list | tuple), "a list"
        case _:
            fits, expected = isinstance(value, str | int | float | bool | list | tuple | None), "a plain value"
    if not fits:
        raise SuiteError(f"attack {spec.name}: {key} must be {expected}, not {value!r}; the recipe has {published!r}")
