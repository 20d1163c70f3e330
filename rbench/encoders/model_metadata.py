"""Say what a model's own files state about its encoder, in a folder or on the hub: what sentence-transformers encodes.

It also says whether a folder holds a fine-tuned classifier, whose head an encoder would drop. It reads JSON files and
the headers of weights, downloads no weights, and imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

from rbench.encoders.foreign import WHY_NOT_READ, read_modules, read_object, read_tensor_headers, unread_keys
from rbench.encoders.locate import ENCODER_HALVES, find_transformer_folder
from rbench.encoders.reading import ReadingSettings
from rbench.errors import ResourceError
from rbench.schema import KINDS, Attention, Dtype, Pooling, Similarity
from rbench.system.own_code import failing_in

POOLING_OF_MODE: dict[str, Pooling] = {
    "cls": "cls",
    "mean": "mean",
    "max": "max",
    "mean_sqrt_len_tokens": "sqrt-mean",
    "weightedmean": "weighted-mean",
    "lasttoken": "last",
}
"""Maps the pooling modes of sentence-transformers to rbench's."""
MODE_OF_FLAG = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Maps the keys with which sentence-transformers before 5.4 says the modes to the modes."""
VICTIM_FILE = "rbench.json"
"""The file in which `rbench.encoders.classifier` says what a victim's encoder is."""
KIND_OF_PROMPT = {name: key for kind in KINDS.values() for name, key in kind.prompts.items()}
"""Names of prompts in a model's files, the better ones last, and the kinds of texts before which they are read."""
OVERALL_FILE = "config_sentence_transformers.json"
MODEL_TYPE = "SentenceTransformer"
"""The `model_type` of OVERALL of models that give one dense vector for each text."""
_OVERALL_KEYS = frozenset(
    {*("__version__", "model_type", "prompts", "default_prompt_name"), *("similarity_fn_name", "truncate_dim")}
)
_TRANSFORMER_KEYS = frozenset(
    {
        *("max_seq_length", "do_lower_case", "transformer_task", "modality_config", "module_output_name"),
        *("processing_kwargs", "model_kwargs", "model_args", "processor_kwargs", "tokenizer_args"),
        *("config_kwargs", "config_args", "unpad_inputs"),
    }
)
_LOADING_KEYS = {
    ("model_kwargs", "model_args"): frozenset(
        {*("dtype", "torch_dtype", "attn_implementation"), "trust_remote_code", "add_pooling_layer"}
    ),
    ("processor_kwargs", "tokenizer_args"): frozenset({"model_max_length", "trust_remote_code", "padding_side"}),
    ("config_kwargs", "config_args"): frozenset({"trust_remote_code"}),
}
"""What settings of a Transformer module may pass on to transformers, by its present and its earlier name: what rbench
honours, and what changes no vector. Padding is always masked; code of a model runs only where a user's file says so."""
TRANSFORMER_TASK = "feature-extraction"
"""What a Transformer module does that gives hidden states."""
SETTINGS_FILES = tuple(
    f"sentence_{kind}config.json"
    for kind in ("bert_", "roberta_", "distilbert_", "camembert_", "albert_", "xlm-roberta_", "xlnet_")
)
"""The names that sentence-transformers has had for the settings of its Transformer module."""


HEADED_ENDING = "ForSequenceClassification"
"""The end of the names of transformers' classes that have a head for classification."""
_HEADS = ("classifier.", "score.", "classification_head.", "sequence_summary.", "logits_proj.")
"""How the names of a head's weights begin in these classes."""


class MetadataFields(NamedTuple):
    """What the files of a model say."""

    fields: dict[str, Any]
    """Fields of an EncoderSpec by name; see `read_fields`."""
    complete: bool
    """Whether they say how texts become vectors: files of sentence-transformers, or of a victim that rbench saved. A
    folder of transformers alone says nothing of pooling; that in `fields` is what sentence-transformers would take."""


def read_metadata(
    where: str, *, revision: str | None = None, trust_remote_code: bool = False, given: Collection[str] = ()
) -> MetadataFields:
    """Return what the files of a model say; `where` is a folder, or `id@commit` on the hub.

    `revision` is what stood for the commit; None: main. `given` is as for `read_fields`.

    Raises:
        ResourceError: the files are damaged or ask for something that rbench does not do, the model needs Python code
            of its own without `trust_remote_code`, or neither the hub nor its cache has the files.
    """
    if not (folder := Path(where)).is_dir():
        from rbench.system import hub

        repo, _, commit = where.rpartition("@")
        try:
            folder = hub.fetch_configs(repo, commit, revision)
        except ResourceError:
            if "pooling" in given:  # without a network, a cache may lack the files that only sentence-transformers has
                return MetadataFields({}, complete=False)
            raise
    check_own_code(folder, trusted=trust_remote_code)
    return MetadataFields(
        read_fields(folder, given), any((folder / name).is_file() for name in ("modules.json", VICTIM_FILE))
    )


def check_own_code(folder: Path, *, trusted: bool = False) -> None:
    """Raise ResourceError where the model in a folder needs Python code of its own, and that is not `trusted`."""
    try:
        config = read_object(find_transformer_folder(folder) / "config.json")
        auto_map = config.get("auto_map", {})
        code_file, model_type = auto_map.get("AutoModel") or auto_map.get("AutoConfig"), config.get("model_type")
    except (ResourceError, AttributeError):
        return  # whoever opens the files says what is wrong
    if trusted or not code_file:
        return
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if model_type not in CONFIG_MAPPING_NAMES:  # else transformers has the network
        raise ResourceError(
            f"it needs Python code of its own ({code_file}), which rbench runs only where the file of an encoder says "
            "so. Read that code; then write DIR/encoders/NAME.yaml with its `base`, its `pooling` and "
            "`trust_remote_code: true`, pass --include DIR, and name the encoder NAME"
        )


def read_fields(folder: Path, given: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of an EncoderSpec that the folder's own files state. Fields that are `given` elsewhere may be
    left out, and what the files say of them need not be something that rbench does.

    Of a SentenceTransformer these are `pooling`, and `normalize`, `max_length`, `prompt`, `include_prompt`,
    `lowercase`, `truncate_dim`, `similarity`, `dtype` and `attention` where they are not the defaults. `prompt` is the
    default prompt: sentence-transformers uses others only when asked to (`read_prompts` lists them all). Where there is
    none, those of queries and documents are read before texts of rankings. Of a transformers folder it is only
    `pooling`: `last` for a causal language model, else `mean`, as in sentence-transformers. Of a victim that
    rbench saved it is all that the victim's encoder has.

    Raises:
        ResourceError: a file is damaged, or asks for something that rbench does not do; names it and the remedy.
    """
    root = find_transformer_folder(folder)
    if (root / "adapter_config.json").is_file():
        raise ResourceError(
            f"{root} holds an adapter (PEFT), not a whole network; merge it into its base (`merge_and_unload()` of the "
            "package peft), save the result, and name that folder"
        )
    config = read_object(root / "config.json")
    if config.get("is_encoder_decoder") is True and config.get("model_type") not in ENCODER_HALVES:
        raise ResourceError(
            f"{root} is an encoder-decoder model ({config.get('model_type')}), and rbench reads the encoders of "
            f"{', '.join(ENCODER_HALVES)} alone. To measure its vectors, give its answers as a callable or an endpoint"
        )
    folders = {kind: folder / part for kind, part in read_modules(folder)}
    architectures = config.get("architectures") or [""]
    causal = (
        isinstance(architectures, list)
        and str(architectures[0]).endswith("ForCausalLM")
        and config.get("is_causal", True)
    )
    fields: dict[str, Any] = {"pooling": "last" if causal else "mean"}  # where a folder states none
    if not folders:
        return fields | _read_victim(folder, config)
    pooling = read_object(folders["Pooling"] / "config.json") if "Pooling" in folders else {}
    fields |= {"pooling": _read_pooling(pooling, folder, "pooling" in given)} if "Pooling" in folders else {}
    fields |= _read_transformer(root) | _read_overall(folder, "similarity" in given)
    if pooling.get("include_prompt") is False:
        fields["include_prompt"] = False
    return fields


def read_prompts(folder: Path) -> dict[str, str]:
    """Return all prompts that the folder's files list, by name; empty ones are left out.

    Raises ResourceError where the file is damaged.
    """
    listed = read_object(folder / OVERALL_FILE).get("prompts")
    return {str(k): v for k, v in listed.items() if isinstance(v, str) and v} if isinstance(listed, dict) else {}


def _read_pooling(config: dict[str, Any], folder: Path, given: bool) -> Pooling:
    # Before 5.4 each mode had a flag of its own, and several of them could be true.
    flagged = [mode for flag, mode in MODE_OF_FLAG.items() if config.get(flag)]
    named_modes = config.get("pooling_mode", flagged or "mean")
    modes = named_modes if isinstance(named_modes, list) else [named_modes]
    if len(modes) != 1 or modes[0] not in POOLING_OF_MODE:
        if given:
            return "mean"
        raise ResourceError(
            f"{folder}: its vectors are made by {' and '.join(map(str, modes))} together, and rbench does one of "
            f"{', '.join(POOLING_OF_MODE)}. Name one of these as the encoder's `pooling` in an encoder file with this "
            "folder as `base`; its vectors are then others than those of sentence-transformers"
        )
    return POOLING_OF_MODE[modes[0]]


def _read_transformer(root: Path) -> dict[str, Any]:
    path = next((root / name for name in SETTINGS_FILES if (root / name).is_file()), root / SETTINGS_FILES[0])
    config = read_object(path)
    modalities = config.get("modality_config") or {"text": {}}
    text = modalities.get("text") if isinstance(modalities, dict) else None
    unsupported = [
        *(
            []
            if config.get("transformer_task", TRANSFORMER_TASK) == TRANSFORMER_TASK
            else [f"the task {config['transformer_task']}"]
        ),
        *(["a chat template"] if "message" in modalities else []),
        *([] if isinstance(text, dict) else ["something other than text"]),
        *(["settings for its tokenizer (processing_kwargs)"] if config.get("processing_kwargs") else []),
        *_find_unlike_plain(config, text if isinstance(text, dict) else {}),
    ]
    if unsupported:
        raise ResourceError(
            f"{root}: its Transformer module asks for {', '.join(unsupported)}; rbench encodes plain texts with a "
            "network's last hidden states. To measure such a model, give its answers as a callable or an endpoint"
        )
    model_settings, tokenizer_settings, _ = (_find_passed_on(config, names) for names in _LOADING_KEYS)
    unknown_keys = [
        f"`{name}.{key}`"
        for names, known in _LOADING_KEYS.items()
        for name, key in _find_passed_beyond(config, names, known)
    ]
    if unknown_keys := [*(f"`{key}`" for key in unread_keys(config, _TRANSFORMER_KEYS)), *unknown_keys]:
        raise ResourceError(f"{path} states {', '.join(unknown_keys)}, {WHY_NOT_READ}")
    dtype = str(model_settings.get("dtype", model_settings.get("torch_dtype", ""))).removeprefix("torch.")
    attention = model_settings.get("attn_implementation")
    max_length = tokenizer_settings.get("model_max_length", config.get("max_seq_length"))
    fields: dict[str, Any] = {"max_length": max_length} if _is_count(max_length) else {}
    fields |= {"lowercase": True} if config.get("do_lower_case") is True else {}
    fields |= {"dtype": dtype} if dtype in get_args(Dtype) and dtype != "float32" else {}
    return fields | ({"attention": attention} if attention in get_args(Attention) else {})


def _find_unlike_plain(config: dict[str, Any], text: dict[str, Any]) -> Iterator[str]:
    """Yield what a Transformer module does with texts, where that is something else than its last hidden states."""
    expected = {"method": "forward", "method_output_name": "last_hidden_state"}
    for key, wanted in expected.items():
        if text.get(key, wanted) != wanted:
            yield f"`{key}: {text[key]}`"
    if (output := config.get("module_output_name") or "token_embeddings") != "token_embeddings":
        yield f"`module_output_name: {output}`"


def _find_passed_on(config: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings that are passed on to transformers under one of some names."""
    candidates = (config.get(name) for name in names)
    return next((settings for settings in candidates if isinstance(settings, dict) and settings), {})


def _find_passed_beyond(
    config: dict[str, Any], names: tuple[str, ...], known: frozenset[str]
) -> Iterator[tuple[str, str]]:
    for name in names:
        stated = config.get(name)
        yield from ((name, key) for key in unread_keys(stated if isinstance(stated, dict) else {}, known))


def _read_victim(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Return what the file says that rbench writes beside a victim's weights; nothing where there is none."""
    about = read_object(folder / VICTIM_FILE)
    if about.get("format") != 1 or about.get("pooling") not in get_args(Pooling):
        return {}
    with failing_in(folder / VICTIM_FILE):
        settings = ReadingSettings.model_validate(about.get("settings", {})).stated()
    fields = {"pooling": about["pooling"], **settings}
    longest, network = about.get("encoder_max_length"), config.get("max_position_embeddings")
    shorter = type(longest) is int and 0 < longest < (network if type(network) is int else math.inf)
    return fields | ({"max_length": longest} if shorter else {})


def _read_overall(folder: Path, given: bool) -> dict[str, Any]:
    """Return what is done before the transformer and after pooling, and how vectors are compared."""
    path = folder / OVERALL_FILE
    config = read_object(path)
    if (kind := config.get("model_type") or MODEL_TYPE) != MODEL_TYPE:
        raise ResourceError(f"{path}: a {kind} gives no dense vector for each text; name a {MODEL_TYPE}")
    if unknown_keys := unread_keys(config, _OVERALL_KEYS):
        raise ResourceError(f"{path} states {', '.join(f'`{key}`' for key in unknown_keys)}, {WHY_NOT_READ}")
    kinds = [kind for kind, _ in read_modules(folder) if kind != "Dropout"]
    fields: dict[str, Any] = {"normalize": True} if kinds[-1:] == ["Normalize"] else {}
    prompts_by_name, default_name = read_prompts(folder), config.get("default_prompt_name")
    if default_name is not None and default_name not in (config.get("prompts") or {}):
        raise ResourceError(
            f"{path}: its `default_prompt_name` is {default_name!r}, and `read_prompts` has no such prompt, which "
            "sentence-transformers refuses, too. Add the prompt, or write null"
        )
    if prompt := prompts_by_name.get(str(default_name)):
        fields |= {"prompt": prompt}
    else:
        # Without a default prompt, sentence-transformers reads these before queries and documents of rankings.
        prompts_by_kind = {
            key: prompts_by_name[name] for name, key in KIND_OF_PROMPT.items() if name in prompts_by_name
        }
        fields |= {"prompt": prompts_by_kind} if prompts_by_kind else {}
    fields |= {"truncate_dim": config["truncate_dim"]} if _is_count(config.get("truncate_dim")) else {}
    similarity = config.get("similarity_fn_name") or "cosine"
    if similarity not in get_args(Similarity):
        if given:
            return fields
        raise ResourceError(
            f"{path}: its `similarity_fn_name` is {similarity!r}, and rbench compares vectors by one of "
            f"{', '.join(get_args(Similarity))}; say which, as the encoder's `similarity`"
        )
    return fields | ({"similarity": similarity} if similarity != "cosine" else {})


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def has_head(config: dict[str, Any]) -> bool:
    """Return whether the class that wrote a config.json has a head for classification."""
    class_names = config.get("architectures")
    return isinstance(class_names, list) and any(
        isinstance(name, str) and name.endswith(HEADED_ENDING) for name in class_names
    )


def check_base(name: str, where: str) -> None:
    """Refuse a fine-tuned classifier as the base of an encoder, which would lose its head without a word.

    Args:
        name: the encoder, for the message.
        where: a folder, or `id@commit` on the hub; of the hub only what its cache has is looked at.

    Raises:
        ResourceError: config.json names a class with a head, and the weights, where they are here, have one.
    """
    folder: Path | None = Path(where)
    if not Path(where).is_dir():
        from rbench.system import hub

        repo, _, commit = where.partition("@")
        folder = hub.cached_snapshot(repo, commit) if commit else None
    if folder is None or not (folder / "config.json").is_file():
        return
    try:
        config = read_object(folder / "config.json")
    except ResourceError:
        return  # opening the encoder says what is wrong
    if not has_head(config) or not _weights_have_head(folder):
        return
    shown_name = where if folder == Path(where) else repo
    raise ResourceError(
        f"encoder `{name}`: {shown_name} is a fine-tuned classifier ({', '.join(map(str, config['architectures']))}). "
        "As an encoder it loses its head, and a new one is trained. To measure the classifier as it is, name it in a "
        f"suite under `victims: [{shown_name}]`, or with --classifier {shown_name}. To take the network below its head "
        "all the same, write `head: drop` into the encoder's file"
    )


def _weights_have_head(folder: Path) -> bool:
    """Return whether a folder's safetensors have weights of a head; True where that cannot be seen."""
    files = sorted(folder.glob("*.safetensors"))
    try:
        return not files or any(
            name.startswith(_HEADS) for file in files for name in read_tensor_headers(folder, file.name)
        )
    except (OSError, ResourceError):
        return True
