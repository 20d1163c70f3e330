"""Find the weights of encoders (`locate`) and load the network with its pooling (`load`).

`classifier` adds a linear head, and `classify` predicts with it. Importing this package does not import torch; calling
`load` does.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rbench.encoders.foreign import as_resource_error as reading_files
from rbench.encoders.locate import EMBEDDED_TOKENIZER, TOKENIZER_FILES, find_transformer_folder, has_vectors
from rbench.encoders.locate import locate as locate
from rbench.errors import ResourceError
from rbench.schema import KINDS, EncoderSpec, KindName

if TYPE_CHECKING:
    from rbench.encoders.classifier import OnEncoder
    from rbench.encoders.sentence import SentenceEncoder

    AnyVictim: TypeAlias = OnEncoder
    """What a fine-tuning makes: the kind of task says which module of this package has it (`TaskKind.victim`)."""


def load(
    spec: EncoderSpec, where: str | Path, *, device: str = "cpu", seed: int = 0, kind: KindName | None = None
) -> SentenceEncoder:
    """Load the encoder `spec` with the weights at `where`: a folder, `id@commit` (or `id`) on the hub, or word vectors.
    One behind an endpoint has no weights; it is asked.

    An encoder that keeps random weights has them drawn with `seed`, and reads with the tokenizer at `where`. Any other
    encoder has the same weights for each seed.

    If `spec.layers` is set, only that many transformer layers are kept, counted from the first. Of a
    sentence-transformers model the transformer and the modules after its pooling are used. Pooling, normalisation,
    prompt and all else are those of `spec`, whatever the folder's files say (`rbench.encoders.model_metadata`).

    Args:
        kind: the kind of task whose texts are read, where `spec.prompt` has a prompt for each; None: of no task.

    Raises:
        ResourceError: there are no weights, they are damaged or incomplete, or the network has fewer layers or does not
            support the pooling.
    """
    from rbench.encoders.reading import ReadingSettings
    from rbench.encoders.sentence import SentenceEncoder

    settings = ReadingSettings.of(spec, kind)
    if spec.endpoint is not None:
        from rbench.encoders.remote import RemoteEncoder

        return RemoteEncoder.of(spec, settings).to(device)
    if spec.random_weights:
        from rbench.encoders.random_weights import draw_encoder

        return draw_encoder(spec, _load_tokenizer(spec, str(where)), seed, kind).to(device)
    if has_vectors(str(where)):
        from rbench.encoders.static import read_static

        if spec.layers is not None:
            raise ResourceError(f"encoder `{spec.name}`: word vectors have no layers; leave out `layers`")
        network, tokenizer = read_static(str(where))
        encoder = SentenceEncoder(network, tokenizer, spec.pooling, spec.max_length, spec.name, settings=settings)
        return encoder.eval().to(device)
    try:
        folder = fetch_folder(str(where), trust_remote_code=spec.trust_remote_code, revision=spec.revision)
    except ResourceError as error:
        raise ResourceError(f"encoder `{spec.name}`: {error}") from error
    return SentenceEncoder.open(
        folder,
        pooling=spec.pooling,
        layers=spec.layers,
        max_length=spec.max_length,
        trust_remote_code=spec.trust_remote_code,
        name=spec.name,
        settings=settings,
    ).to(device)


def load_victim(folder: Path, device: str = "cpu") -> tuple[AnyVictim, dict[str, Any]]:
    """Read the victim that a fine-tuning saved. Return it, in eval mode on `device`, with its meta.

    Raises:
        ResourceError: there is no such folder, no victim was saved in it, or it is damaged.
    """
    from rbench.encoders.classifier import ABOUT, EncoderClassifier

    try:
        kind = json.loads((folder / ABOUT).read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError):
        kind = None  # `EncoderClassifier.load` says what is wrong
    if kind not in {task_kind.victim for task_kind in KINDS.values()}:  # also None, which is what a classifier states
        return EncoderClassifier.load(folder, device)
    saved: type[AnyVictim] = importlib.import_module(f"{__name__}.{kind}").VICTIM
    return saved.load(folder, device)


def _load_tokenizer(spec: EncoderSpec, where: str) -> Any:
    """Return the tokenizer in a folder, of a model on the hub (`id@commit`), or of the embedded world."""
    from transformers import AutoTokenizer

    if where == EMBEDDED_TOKENIZER:
        from rbench.encoders.architecture import build_embedded_tokenizer

        return build_embedded_tokenizer()
    repo, _, commit = where.partition("@")
    with reading_files(f"encoder `{spec.name}`: the tokenizer of {where} cannot be read"):
        if Path(where).is_dir():
            return AutoTokenizer.from_pretrained(find_transformer_folder(Path(where)))
        from rbench.system import hub

        tokenizer = AutoTokenizer.from_pretrained(repo, revision=commit or None)  # downloads no weights
        hub.remember_commit(repo, spec.revision, commit)
        return tokenizer


def fetch_folder(where: str, *, trust_remote_code: bool = False, revision: str | None = None) -> Path:
    """Return the folder at `where`, or download `id@commit` (or `id` at `revision`) from the hub into its cache.

    The download has config, tokenizer and one set of weights; it has Python files only with `trust_remote_code`.

    Raises:
        ResourceError: there is no such folder, and neither the hub nor its cache has the model.
    """
    if Path(where).is_dir():
        return Path(where)
    from huggingface_hub import HfApi, snapshot_download

    from rbench.system import hub

    repo, _, commit = where.partition("@")
    if not hub.is_repo_id(repo):
        raise ResourceError(f"{where} is neither a folder nor a model on the hub")
    try:
        commit = hub.commit(repo, commit or revision)
        cached = hub.cached_snapshot(repo, commit)
        if cached is not None and (any(cached.rglob("*.safetensors")) or any(cached.rglob("pytorch_model*.bin"))):
            return cached
        names = [file.rfilename for file in HfApi().model_info(repo, revision=commit).siblings or ()]
        folder = snapshot_download(repo, revision=commit, allow_patterns=_select_files(names, trust_remote_code))
        hub.remember_commit(repo, revision, commit)
        return Path(folder)
    except hub.failure_types() as error:
        raise ResourceError(f"{where} could not be downloaded: {error}") from error


def _select_files(names: list[str], with_code: bool) -> list[str]:
    """Return the files to download: safetensors weights if there are any, else PyTorch's, and config and tokenizer.

    Weights in other formats (ONNX, OpenVINO, TensorFlow, Flax) are left out.
    """
    kept_names = [name for name in names if not name.startswith(("onnx/", "openvino/", "coreml/"))]
    has_safetensors = any(name.endswith(".safetensors") for name in kept_names)
    endings = (".json", *((".safetensors",) if has_safetensors else ()), *((".py",) if with_code else ()))
    selected = []
    for name in kept_names:
        file = name.rsplit("/", 1)[-1]
        is_weights = not has_safetensors and file.startswith("pytorch_model")
        if name.endswith(endings) or is_weights or file in TOKENIZER_FILES:
            selected.append(name)
    return selected
