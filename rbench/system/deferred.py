"""Import libraries without what hardly any process needs of them.

Transformers, sentence-transformers and NLTK import scikit-learn, SciPy's statistics, pandas, datasets, PyTorch's
compiler and others for single functions that no attack calls. This takes longer than PyTorch's own import, and each
command would wait for it. `deferred` is for the processes of commands and of executors alone: a notebook that imports
rbench gets the libraries as they are.

Inside the block, while a module of DEFERRED is imported, `sys.modules` holds a stand-in for each library named there.
It gives a class for each name that is asked of it. The class imports the library when it is called or an attribute is
read, and forwards; no object is an instance of it as long as nobody has imported the library. Afterwards the stand-in
is removed, so that `import sklearn.metrics` elsewhere gets the library. A library that is already there is taken as it
is, and a module that cannot be imported with stand-ins is imported again without them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

DEFERRED: dict[str, tuple[str, ...]] = {
    "accelerate.commands.config.sagemaker": ("boto3",),
    "nltk.classify.scikitlearn": ("sklearn.feature_extraction", "sklearn.preprocessing"),
    "nltk.metrics.association": ("scipy.stats",),
    "nltk.metrics.scores": ("-scipy.stats.stats",),
    "nltk.parse.transitionparser": ("scipy", "sklearn", "sklearn.datasets"),
    "nltk.translate.gale_church": ("scipy.stats",),
    "sentence_transformers.base.model_card": ("datasets",),
    "sentence_transformers.base.sampler": ("datasets",),
    "sentence_transformers.base.trainer": ("datasets", "peft"),
    "sentence_transformers.cross_encoder.fit_mixin": ("datasets",),
    "sentence_transformers.cross_encoder.model_card": ("datasets",),
    "sentence_transformers.cross_encoder.trainer": ("datasets",),
    "sentence_transformers.multi_vector_encoder.trainer": ("datasets",),
    "sentence_transformers.sentence_transformer.fit_mixin": ("datasets",),
    "sentence_transformers.sentence_transformer.trainer": ("datasets",),
    "sentence_transformers.sparse_encoder.trainer": ("datasets",),
    "sentence_transformers.util.hard_negatives": ("datasets",),
    "sentence_transformers.util.similarity": ("sklearn.metrics",),
    "textattack.datasets.helpers.ted_multi": ("datasets",),
    "textattack.datasets.huggingface_dataset": ("datasets",),
    "textattack.loggers.csv_logger": ("pandas",),
    "textattack.models.wrappers.sklearn_model_wrapper": ("pandas",),
    "textattack.search_methods.differential_evolution": ("scipy.optimize",),
    "textattack.transformations.sentence_transformations.back_translation": (
        "transformers.models.marian.modeling_marian",
    ),
    "textattack.transformations.word_swaps.chn_transformations.chinese_homophone_character_swap": ("pandas",),
    "transformers.data.metrics": ("scipy.stats", "sklearn.metrics"),
    "transformers.generation.candidate_generator": ("sklearn.metrics",),
    "transformers.generation.continuous_batching.cache": ("torch._dynamo",),
    "transformers.loss.loss_deformable_detr": ("scipy.optimize",),
    "transformers.loss.loss_for_object_detection": ("scipy.optimize",),
    "transformers.loss.loss_grounding_dino": ("scipy.optimize",),
    "transformers.loss.loss_lw_detr": ("scipy.optimize",),
    "transformers.integrations.deepgemm": ("torch._dynamo",),
    "transformers.loss.loss_rf_detr": ("scipy.optimize",),
    "transformers.loss.loss_rt_detr": ("scipy.optimize",),
    "transformers.masking_utils": (
        "torch._dynamo._trace_wrapped_higher_order_op",
        "torch.nn.attention.flex_attention",
    ),
    "transformers.model_debugging_utils": ("torch.distributed.tensor",),
    "transformers.modeling_utils": (
        "torch._dynamo",
        "torch.distributed.tensor",
        "transformers.integrations.flex_attention",
        "transformers.integrations.tensor_parallel",
    ),
    "transformers.trainer_utils": ("peft",),
}
"""By module: the libraries that it imports, and that its functions use only where somebody calls these. Each version of
transformers has some of them. transformers 5 makes objects of `torch.distributed.tensor` as it is imported, so there it
is not deferred.

One with a minus is refused: it has not had for years what the module looks for, and the module does without."""

MARKS = {("torch._dynamo", name) for name in ("allow_in_graph", "assume_constant_result", "disable")}
"""Decorators that tell PyTorch's compiler something. rbench compiles nothing, so a stand-in's decorate nothing."""


class _Forwarding(type):
    """The type of a stand-in's names."""

    library: str

    def _real(cls) -> Any:
        if isinstance(sys.modules.get(cls.library), _StandIn):  # it is used while a module is being imported
            del sys.modules[cls.library]
        return getattr(importlib.import_module(cls.library), cls.__name__)

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return cls._real()(*args, **options)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):  # Python and inspection look these up, not users
            raise AttributeError(name)
        return getattr(cls._real(), name)

    def __contains__(cls, key: object) -> bool:
        return key in cls._real()

    def __getitem__(cls, key: Any) -> Any:
        return cls._real()[key]

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.library in sys.modules and isinstance(instance, cls._real())

    def __subclasscheck__(cls, subclass: type) -> bool:
        return cls.library in sys.modules and issubclass(subclass, cls._real())


def _unchanged(decorated: Any, *_: Any, **__: Any) -> Any:
    return decorated


class _StandIn(ModuleType):
    """Stands in for a library: has whatever name it is asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)  # by which others see that the library is installed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made: Any = _Forwarding(name, (), {"library": self.__name__})
        if (self.__name__, name) in MARKS:
            made = _unchanged
        setattr(self, name, made)
        return made


def _installed(name: str) -> bool:
    top = name.lstrip("-").partition(".")[0]
    return top in sys.modules or PathFinder.find_spec(top) is not None


class _Loading(Loader):
    """Loads a module as another loader does, with stand-ins in `sys.modules`."""

    def __init__(self, loader: Loader, libraries: Sequence[str]) -> None:
        self._loader, self._libraries = loader, libraries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        absent = [name for name in self._libraries if name.lstrip("-") not in sys.modules and _installed(name)]
        made = {name.lstrip("-"): None if name.startswith("-") else _StandIn(name) for name in absent}
        sys.modules.update(made)  # type: ignore[arg-type]  # None makes an import fail
        try:
            self._loader.exec_module(module)
        except Exception:  # a version that does more with a library than today's: it gets all of them, as ever
            _remove(made)
            self._loader.exec_module(module)
        finally:
            _remove(made)


def _remove(made: Mapping[str, _StandIn | None]) -> None:
    """Remove the stand-ins that are still in `sys.modules`."""
    for name, stand_in in made.items():
        if sys.modules.get(name, made) is stand_in:
            del sys.modules[name]


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in DEFERRED:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((found for one in others if (found := one.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loading(spec.loader, DEFERRED[name])
        return spec


@contextmanager
def deferred() -> Iterator[None]:
    """Import the modules of DEFERRED without the libraries named there, inside the block and in this process."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
