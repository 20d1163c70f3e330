"""Read a task's data from the Hugging Face Hub, through the `datasets` client and its cache."""

from __future__ import annotations

import inspect
import logging
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rbench.errors import ResourceError
from rbench.schema import HubData, TaskSpec, is_text_file
from rbench.system import hub
from rbench.system.own_code import failing_in
from rbench.tasks import lines, local, split
from rbench.tasks.clean import ColumnsOfSplits, SourceColumns, SourceRow

logger = logging.getLogger("rbench")
AnswerT = TypeVar("AnswerT")

ONLY_SPLIT = "*"
"""Stands for the only split of a data set."""


def read(source: HubData) -> tuple[str, dict[str, list[SourceRow]]]:
    """Return the origin of the data (a description) and the rows of each split, with ids `<hub split>:<row>`.

    If `source.revision` is a commit that is in the cache, the hub is not asked. Otherwise the hub resolves the revision
    to a commit. If the hub cannot be reached, a revision that is not a commit (`main`) means the commit that was cached
    last. The origin names the commit.

    Raises:
        ResourceError: there is no network and no cache; or no such data set, revision, config or split; or the data
            set needs code from the hub.
    """
    import datasets

    if _has_plain_files(source):
        return _read_files(source)
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        builder, commit = _wanted_builder(source)
        if builder is None:
            builder = datasets.load_dataset_builder(source.id, source.config, revision=commit, **_forbid_code())
        builder.download_and_prepare()
        rows = _read_rows(builder, source)
    except (*hub.failure_types(), datasets.exceptions.DatasetsError, RuntimeError, ValueError) as error:
        raise ResourceError(f"{source.id} on the hub: {_explain(error)}") from error
    return _describe_origin(source, commit), rows


def locate(source: HubData) -> str:
    """Describe where `read` would take the data from, without downloading it.

    Raises:
        ResourceError: there is no network and no cache, or no such data set or revision.
    """
    if _has_plain_files(source):
        return _locate_files(source)
    builder, commit = _wanted_builder(source)
    return f"{_describe_origin(source, commit)}, {'in the cache' if builder is not None else 'not downloaded yet'}"


def read_task(spec: TaskSpec, data_path: Sequence[Path]) -> tuple[str, ColumnsOfSplits, dict[str, list[SourceRow]]]:
    """Return the origin of a task's rows on the hub, the columns of each split, and the rows by split.

    Raises:
        ResourceError: the hub does not have them either; names the folders that were searched, and the remedy.
    """
    answers = _ask_each(spec, data_path, read)
    return (
        _join_origins([(source, origin) for source, (origin, _) in answers]),
        {
            name: SourceColumns.of(spec, source.columns, source.label_map)
            for source, (_, rows_of_splits) in answers
            for name in rows_of_splits
        },
        {name: rows for _, (_, rows_of_splits) in answers for name, rows in rows_of_splits.items()},
    )


def locate_task(spec: TaskSpec, data_path: Sequence[Path]) -> str:
    """Describe where `read_task` would take the rows from, without downloading them. Raises as it does."""
    return _join_origins(_ask_each(spec, data_path, locate))


def _join_origins(origins: Sequence[tuple[HubData, str]]) -> str:
    """Return one description of several data sets: the first, and the splits that each of the others has."""
    (_, first), *others = origins
    return "; ".join([first, *(f"{', '.join(source.splits)}: {origin}" for source, origin in others)])


def _ask_each(
    spec: TaskSpec, data_path: Sequence[Path], ask: Callable[[HubData], AnswerT]
) -> list[tuple[HubData, AnswerT]]:
    """Return each data set that holds splits of the task, with what `ask` answers for it."""
    partial = local.describe_partial(spec, data_path)
    if spec.hub is None:
        raise ResourceError(_not_found_message(spec, data_path, f"{partial}and it is not on the hub"))
    try:
        answers = [(source, ask(source)) for source in spec.hub.sources]
    except ResourceError as error:
        raise ResourceError(_not_found_message(spec, data_path, f"{partial}{error}")) from error
    if partial:
        logger.warning("task %s: %sthe hub's copy is used", spec.name, partial)
    return answers


def _not_found_message(spec: TaskSpec, data_path: Sequence[Path], reason: str) -> str:
    searched = ", ".join(str(path) for path in data_path) or "the data path, which is empty"
    choices = [layout.sources for layout in local.list_layouts(spec)]
    usual_layout = choices[-2:][0]
    shown_layouts = choices[:1] if set(choices[0]) <= set(usual_layout) else [choices[0], usual_layout]
    files = ", or ".join(" + ".join(map(local.file_of_source, sources)) for sources in shown_layouts)
    optional = f"{spec.name}/validation.jsonl may be left out; " if f"{spec.name}/validation" in usual_layout else ""
    columns = ", ".join(filter(None, (*spec.columns, spec.of_kind.label_column)))
    return (
        f"task `{spec.name}`: no complete copy in {searched}; {reason}. Put {files} ({optional}columns {columns}) into "
        "a folder DIR and pass --data DIR or set RBENCH_DATA=DIR."
    )


# ------------------------------------------------------------------------------------------------- plain files


def _has_plain_files(source: HubData) -> bool:
    """Return whether the splits are files of the repository.

    rbench reads such files itself, because `datasets` only reads repositories whose files have one format.
    """
    return any(map(is_text_file, source.splits.values()))


_TAR = ".tar/"
"""What divides the name of a table in an archive: `senteval.tar/SICK/SICK_trial.txt`."""


def _repository_file(name: str) -> str:
    """Return the file of the repository that holds a split: the file itself, or the archive around it."""
    archive, separator, _ = name.partition(_TAR)
    return archive + _TAR[:-1] if separator else name


def _read_lines(path: Path, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and values of each row of a downloaded file, or of the table that `name` means in it.

    A table has a row a line, its values between tabs, and the names of its columns in the first line. Its path in the
    archive may begin with folders that `name` leaves out. Nothing is unpacked.

    Raises:
        ResourceError: the archive has no such table, or several; or a row has another number of values than the first.
    """
    member = name.partition(_TAR)[2]
    if not member:
        yield from lines.read(path)
        return
    with tarfile.open(path) as archive:
        tables = [
            member_file
            for member_file in archive
            if member_file.isfile() and f"/{member_file.name}".endswith(f"/{member}")
        ]
        if len(tables) != 1:
            raise ResourceError(f"{name}: the archive has {len(tables)} files with this path; expected one")
        file = archive.extractfile(tables[0])
        assert file is not None  # it is a regular file
        text = file.read().decode("utf-8")
    column_names, *rows = (line.rstrip("\r").split("\t") for line in text.split("\n") if line.strip())
    for number, row in enumerate(rows, start=2):
        with failing_in(f"{name}:{number}"):
            values = dict(zip(column_names, row, strict=True))
        yield number, values


def _read_files(source: HubData) -> tuple[str, dict[str, list[SourceRow]]]:
    from huggingface_hub import hf_hub_download

    try:  # the client would ask five times more, and tell the user each time
        hub.ask(source.id, "dataset", source.revision)
        unreachable = None
    except hub.HubUnreachable as error:
        unreachable = error
    rows, commits = {}, set()
    for part, name in source.splits.items():
        try:
            path = hf_hub_download(
                source.id,
                _repository_file(name),
                repo_type="dataset",
                revision=source.revision,
                etag_timeout=hub.TIMEOUT,
                local_files_only=unreachable is not None,
            )
        except hub.failure_types() as error:
            reason = (
                f"is not in the cache; {unreachable}" if unreachable is not None else f"on the hub: {_explain(error)}"
            )
            raise ResourceError(f"{source.id}, file {name}, {reason}") from error
        commits.add(_commit_of_path(path))
        rows[part] = [
            SourceRow(f"{part}:{i}", f"{source.id} {name}:{line}", values)
            for i, (line, values) in enumerate(_read_lines(Path(path), name))
        ]
    return f"{_describe_origin(source, '+'.join(sorted(commits)))}, {', '.join(source.splits.values())}", rows


def _locate_files(source: HubData) -> str:
    from huggingface_hub import try_to_load_from_cache

    cached = [
        try_to_load_from_cache(source.id, _repository_file(name), revision=source.revision, repo_type="dataset")
        for name in source.splits.values()
    ]
    paths = [path for path in cached if isinstance(path, str)]
    if len(paths) == len(cached):
        return f"{_describe_origin(source, _commit_of_path(paths[0]))}, in the cache"
    return f"{_describe_origin(source, hub.ask(source.id, 'dataset', source.revision))}, not downloaded yet"


def _commit_of_path(path: str) -> str:
    """Return the commit in the path of a file in the hub cache, `.../snapshots/<commit>/...`."""
    parts = Path(path).parts
    return parts[len(parts) - parts[::-1].index("snapshots")]


# ------------------------------------------------------------------------------------------------------ data sets


def _describe_origin(source: HubData, commit: str) -> str:
    return f"hub {source.id}@{commit}" + (f" ({source.config})" if source.config else "")


def _wanted_builder(source: HubData) -> tuple[Any | None, str]:
    """Return the `datasets` builder that has the wanted commit in the cache, or None, and that commit."""
    pinned = hub.COMMIT.fullmatch(source.revision) is not None
    cached = _cached_builder(source)
    # A branch such as `main` moves, so only a commit proves that the cache has what the task asks for.
    held_commit = str(cached.hash) if cached is not None else ""
    if pinned and held_commit == source.revision:
        return cached, held_commit
    try:
        commit = hub.ask(source.id, "dataset", source.revision)
    except hub.HubUnreachable as error:
        if cached is None:
            raise ResourceError(f"{source.id} is not in the cache; {error}") from error
        if pinned:
            raise ResourceError(f"the cache holds {source.id}@{held_commit}, not {source.revision}; {error}") from error
        return cached, held_commit
    return (cached if held_commit == commit else None), commit


def _cached_builder(source: HubData) -> Any | None:
    """Return the builder of the data that `datasets` has in its cache, or None. Its attribute `hash` is the commit."""
    import datasets

    try:
        with _offline():
            return datasets.load_dataset_builder(source.id, source.config, **_forbid_code())
    except (OSError, ValueError):
        return None


def _forbid_code() -> dict[str, bool]:
    """Return the arguments that forbid `datasets` to run code from the hub.

    Versions before 4 can run such code, and ask for permission on the terminal unless they are told.
    """
    import datasets

    known = inspect.signature(datasets.load_dataset_builder).parameters
    return {"trust_remote_code": False} if "trust_remote_code" in known else {}


@contextmanager
def _offline() -> Iterator[None]:
    """Keep `datasets` from using the network inside the block, and silence its warning about that."""
    import datasets

    before, verbosity = datasets.config.HF_HUB_OFFLINE, datasets.logging.get_verbosity()
    datasets.config.HF_HUB_OFFLINE = True
    datasets.logging.set_verbosity_error()
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before
        datasets.logging.set_verbosity(verbosity)


def _read_rows(builder: Any, source: HubData) -> dict[str, list[SourceRow]]:
    split_names = list(builder.info.splits or ())
    tables: dict[str, list[dict[str, Any]]] = {}
    rows = {}
    for part, name in source.splits.items():
        wanted = split_names[0] if name == ONLY_SPLIT and len(split_names) == 1 else split.strip_holdout(name)[0]
        if wanted not in tables:
            columns = builder.as_dataset(split=wanted)[:]
            for column in source.columns.values():
                parts = column.split(" + ")
                if column in columns or not {*parts} <= {*columns}:
                    continue
                # `title + text` names two columns whose texts are joined.
                texts = zip(*(columns[name] for name in parts), strict=True)
                columns[column] = [" ".join(text.strip() for text in row_texts if text) for row_texts in texts]
            tables[wanted] = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        table = tables[wanted]
        numbers = split.select_rows(name, source.splits.values(), len(table))
        rows[part] = [SourceRow(f"{wanted}:{n}", f"{source.id} {wanted} row {n}", table[n]) for n in numbers]
    return rows


def _explain(error: Exception) -> str:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "scripts are no longer supported" in text or "trust_remote_code" in text:
        return "its rows are made by a script, and rbench runs no code from the hub"
    return text
