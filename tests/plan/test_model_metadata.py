"""Tests what planning makes of encoders without a file: settings, keys, notes and what it refuses. Runs nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.encoders.locate import PACKAGED
from rbench.errors import ResourceError
from rbench.schema import AttackJob, FinetuneJob, Job, MeasureJob
from tests.hub import Hub, hub, python  # noqa: F401

SUITE = """\
encoders: {encoders}
tasks: [mini-sentiment]
attacks: [pwws]
evaluate: [mini-sts]
num_examples: 5
resources: mini
"""
WEIGHTS = PACKAGED / "mini-bert-packaged"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, for suites and models. No hub can be reached from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def model(folder: Path, pooling: Mapping[str, Any] | None = None, **files: object) -> Path:
    """A SentenceTransformer folder with real weights and that pooling (the default is cls), or one of transformers.

    `files` are further JSON files, such as `config={...}`, whose keys are added to those that are there.
    """
    shutil.copytree(WEIGHTS, folder)
    if pooling is not None:
        (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 96, **pooling}))
    for name, content in files.items():
        path = folder / f"{name}.json"
        before = json.loads(path.read_text()) if path.is_file() and isinstance(content, dict) else {}
        path.write_text(json.dumps({**before, **content} if isinstance(content, dict) else content))
    return folder


def plain(folder: Path) -> Path:
    """A folder as transformers saves it."""
    model(folder)
    for name in ("modules.json", "sentence_bert_config.json"):
        (folder / name).unlink()
    shutil.rmtree(folder / "1_Pooling")
    return folder


def planned(folder: Path, encoders: str, name: str = "suite", **options: Any) -> api.Planned:
    (folder / f"{name}.yaml").write_text(SUITE.format(encoders=encoders))
    return api.plan(folder / f"{name}.yaml", api.Options(**options))


def encoder(plan: api.Planned, label: str) -> Any:
    specs = [job.spec.encoder for job in plan.jobs if isinstance(job.spec, FinetuneJob) and job.parts[0] == label]
    assert specs and all(one == specs[0] for one in specs)
    return specs[0]


def keys(plan: api.Planned, label: str) -> list[str]:
    return sorted(job.key for job in plan.jobs if job.parts[0] == label)


def notes(plan: api.Planned, label: str) -> list[str]:
    return [note for note in plan.notes if note.startswith(f"{label}: ")]


MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
PROMPT = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}


def test_the_folders_own_files_say_how_it_is_encoded(here: Path) -> None:
    model(here / "mine", MEAN, config_sentence_transformers=PROMPT, sentence_bert_config={"max_seq_length": 48})
    plan = planned(here, "[./mine, {./mine: {pooling: cls, prompt: ''}}]")
    mine, set_here = encoder(plan, "mine"), encoder(plan, "mine[pooling=cls,prompt=]")
    assert (mine.pooling, mine.prompt, mine.max_length) == ("mean", "query: ", 48)
    assert (set_here.pooling, set_here.prompt, set_here.max_length) == ("cls", "", 48)
    assert notes(planned(here, "[{./mine: {pooling: cls}}]"), "mine") == []
    (said,) = notes(plan, "mine")
    assert said == 'mine: ./mine (pooling mean, prompt "query: ", max_length 48)'


def test_a_folder_of_transformers_is_pooled_as_sentence_transformers_would(here: Path) -> None:
    plain(here / "mine")
    plan = planned(here, "[./mine]")
    assert encoder(plan, "mine").pooling == "mean"
    (said,) = notes(plan, "mine")
    assert "pooling mean; a folder of transformers does not say how to pool" in said


def test_the_same_folder_elsewhere_has_the_same_keys(here: Path) -> None:
    model(here / "a/mine", MEAN)
    shutil.copytree(here / "a/mine", here / "b/c/mine")
    one, other = planned(here, "[./a/mine]"), planned(here / "b", "[c/mine]")
    assert keys(one, "mine") == keys(other, "mine") and len(keys(one, "mine")) == 4
    assert not any(str(here) in job.model_dump_json() for job in one.jobs)
    weights = here / "b/c/mine/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\1\2\3")
    changed = planned(here / "b", "[c/mine]")
    assert not {*keys(one, "mine")} & {*keys(changed, "mine")}


def test_a_longer_label_leaves_keys_as_they_are(here: Path) -> None:
    model(here / "a/mine")
    model(here / "b/mine", MEAN)
    model(here / "own/minilm")
    alone, both = planned(here, "[a/mine]"), planned(here, "[a/mine, b/mine]")
    assert both.plan.suite.encoders == ("a-mine", "b-mine")
    assert keys(alone, "mine") == keys(both, "a-mine") != keys(both, "b-mine")
    folders = [job.key[:16] for job in both.jobs]
    assert len({*folders}) == len(folders) == 8
    assert encoder(planned(here, "[own/minilm]"), "own-minilm").name == "minilm"


def test_two_copies_of_one_model_are_refused(here: Path) -> None:
    for folder in ("a/mine", "b/mine", "b/other"):
        model(here / folder)
    assert len(planned(here, "[a/mine, b/other, {b/mine: {pooling: mean}}]").jobs) == 12
    with pytest.raises(ResourceError) as caught:
        planned(here, "[a/mine, b/mine]")
    assert "a-mine and b-mine" in str(caught.value)


def test_a_link_has_a_name_of_its_own(here: Path) -> None:
    model(here / "runs/checkpoint-500")
    (here / "runs/best").symlink_to(here / "runs/checkpoint-500")
    plan = planned(here, "[runs/checkpoint-500, runs/best]")
    assert plan.plan.suite.encoders == ("checkpoint-500", "best")


def test_a_folder_of_the_search_path_is_not_taken_for_a_path(here: Path) -> None:
    """MODELS/mine may be another model than ./mine, whose label is `mine` too."""
    model(here / "mine", MEAN)
    model(here / "MODELS/mine")
    model(here / "MODELS/owner/e5", MEAN)
    plan = planned(here, "[./mine, owner/e5]", models=(here / "MODELS",))
    assert encoder(plan, "mine").pooling == "mean"
    assert notes(plan, "e5") == ["e5: ./MODELS/owner/e5 (pooling mean, max_length 128)"]


def test_a_hub_id_of_a_suite_elsewhere_is_no_folder_of_the_current_one(here: Path) -> None:
    model(here / "owner/e5")
    (here / "elsewhere").mkdir()
    with pytest.raises(ResourceError) as caught:
        planned(here / "elsewhere", "[owner/e5]")
    assert "owner/e5" in str(caught.value)


# ------------------------------------------------------------------------------------------------ files beside folders


def test_a_file_that_contradicts_the_folder_is_told_once_and_wins(here: Path) -> None:
    model(here / "DIR/encoders/mine", MEAN, config_sentence_transformers=PROMPT)
    file = here / "DIR/encoders/own.yaml"
    file.write_text("base: ./mine\npooling: cls\n")
    plan = planned(here, "[own, {own: {layers: 1}}]", include=(here / "DIR",))
    assert encoder(plan, "own").pooling == "cls" and encoder(plan, "own").prompt == "query: "
    (note,) = [note for note in plan.notes if note.startswith("own")]
    assert note == (
        "own: its file says pooling cls, and the model's own files say pooling mean (./DIR/encoders/mine). The file "
        "wins; to take what they say, write ./DIR/encoders/mine in place of own"
    )
    file.write_text('base: ./mine\npooling: mean\nprompt: "query: "\n')
    assert [n for n in planned(here, "[own]", include=(here / "DIR",)).notes if n.startswith("own")] == []


def test_a_note_says_all_that_differs_in_words(here: Path) -> None:
    modules = json.loads((WEIGHTS / "modules.json").read_text())
    normalize = {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
    overall = {**PROMPT, "truncate_dim": 32}
    model(here / "mine", modules=[*modules, normalize], config_sentence_transformers=overall)
    (here / "DIR/encoders").mkdir(parents=True)
    stated = "normalize: false\ntruncate_dim: null\nprompt: ''\nmax_length: 64\nsimilarity: dot\n"
    (here / "DIR/encoders/own.yaml").write_text(f"base: ../../mine\npooling: cls\n{stated}")
    plan = planned(here, "[./mine, own]", include=(here / "DIR",))
    theirs = 'normalisation, truncate_dim 32, prompt "query: ", max_length 128'
    assert notes(plan, "mine") == [f"mine: ./mine (pooling cls, {theirs})"]
    own = "no normalisation, no truncate_dim, no prompt, max_length 64, similarity dot"
    theirs += ", similarity cosine"
    (note,) = notes(plan, "own")
    assert note.startswith(f"own: its file says {own}, and the model's own files say {theirs} (./mine). ")


def test_a_file_cannot_contradict_what_a_folder_does_not_say(here: Path) -> None:
    plain(here / "DIR/encoders/mine")
    (here / "DIR/encoders/own.yaml").write_text("base: ./mine\npooling: cls\n")
    assert [n for n in planned(here, "[own]", include=(here / "DIR",)).notes if n.startswith("own")] == []


def test_a_base_that_is_not_there_is_refused_with_its_path(here: Path) -> None:
    (here / "DIR/encoders").mkdir(parents=True)
    (here / "DIR/encoders/own.yaml").write_text("base: ./mine\n")
    with pytest.raises(ResourceError) as caught:
        planned(here, "[own]", include=(here / "DIR",))
    assert f"{here}/DIR/encoders/mine" in str(caught.value)


# ------------------------------------------------------------------------------------------------------------ refused


def test_a_model_that_needs_code_of_its_own_is_refused_with_its_name(here: Path) -> None:
    code = {"model_type": "unheard_of", "auto_map": {"AutoModel": "modeling_unheard_of.UnheardOfModel"}}
    model(here / "mine", config=code)
    with pytest.raises(ResourceError) as caught:
        planned(here, "[./mine]")
    said = str(caught.value)
    assert f"encoder `{here}/mine`: it needs Python code of its own (modeling_unheard_of.UnheardOfModel)" in said
    assert "`trust_remote_code: true`" in said and "--include DIR" in said
    (here / "DIR/encoders").mkdir(parents=True)
    for name, more in {"own": "", "trained": "train: {objective: mlm, data: mini-corpus, steps: 1}\n"}.items():
        file = here / f"DIR/encoders/{name}.yaml"
        file.write_text(f"base: ../../mine\n{more}")
        with pytest.raises(ResourceError) as caught:
            planned(here, f"[{name}]", include=(here / "DIR",))
        assert f"`{name}`" in str(caught.value)
        file.write_text(f"base: ../../mine\ntrust_remote_code: true\n{more}")
        assert planned(here, f"[{name}]", include=(here / "DIR",)).jobs
    model(here / "known", config=code | {"model_type": "bert"})  # transformers has this network
    assert encoder(planned(here, "[./known]"), "known").pooling == "cls"


@pytest.mark.parametrize("damage", ["modules", "1_Pooling/config"])
def test_damaged_files_are_refused_before_work(here: Path, damage: str) -> None:
    model(here / "mine")
    (here / f"mine/{damage}.json").write_text("{")
    with pytest.raises(ResourceError) as caught:
        planned(here, "[./mine]")
    assert f"mine/{damage}.json" in str(caught.value)


def test_a_folder_without_weights_is_refused(here: Path) -> None:
    (model(here / "mine") / "model.safetensors").unlink()
    with pytest.raises(ResourceError):
        planned(here, "[./mine]")


# ------------------------------------------------------------------------------------------------------------ the hub

PLAN = """
import json, sys
from rbench import api
from rbench.errors import RbenchError
from rbench.schema import FinetuneJob

def answer(suite):
    try:
        plan = api.plan(suite)
    except RbenchError as error:
        return {"error": str(error)}
    specs = {job.parts[0]: job.spec for job in plan.jobs if isinstance(job.spec, FinetuneJob)}
    found = {label: [spec.encoder.pooling, spec.encoder_fingerprint] for label, spec in specs.items()}
    return {"found": found, "keys": sorted(job.key for job in plan.jobs), "notes": plan.notes}

answers = [answer(suite) for suite in sys.argv[1:]]
print(json.dumps(answers))
"""
NO_TORCH = "assert 'torch' not in sys.modules\n"


def on_hub(here: Path, env: dict[str, str], *encoders: str, fresh: bool = False) -> list[Any]:
    """What planning says of a suite for each, all in one process; a `fresh` one has not imported PyTorch by then."""
    suites = [here / f"suite{i}.yaml" for i in range(len(encoders))]
    for suite, written in zip(suites, encoders, strict=True):
        suite.write_text(SUITE.format(encoders=written))
    answers: list[Any] = python(PLAN + NO_TORCH * fresh, env, *map(str, suites), fresh=fresh)
    return answers


def cached(here: Path, name: str, commit: str, *files: str) -> None:
    """Put a snapshot into the hub cache with a config.json and other files, which are empty."""
    repository = here / "home/hub" / f"models--someone--{name}"
    (repository / "snapshots" / commit).mkdir(parents=True)
    shutil.copy(WEIGHTS / "config.json", repository / "snapshots" / commit)
    for file in files:
        (repository / "snapshots" / commit / file).write_text("")
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(commit)


@pytest.mark.parametrize("fresh", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_hub_id_is_planned_by_its_small_files_and_again_offline(
    hub: Hub,  # noqa: F811
    here: Path,
    fresh: bool,
) -> None:
    """Offline, the cache is trusted only where it can tell how a model pools. transformers downloads no modules.json,
    so that its absence says nothing (`half`); `hf download` takes all there is (`whole`)."""
    commit = hub.add_folder("model", "someone/toy", model(here / "uploaded", MEAN))
    transformers = hub.add_folder("model", "someone/plain", plain(here / "plain"))
    cached(here, "half", "a" * 40)
    cached(here, "whole", "b" * 40, ".gitattributes")
    env, written = hub.env(here / "home"), "[someone/toy, someone/plain]"
    first, wrong = on_hub(here, env, written, "[someone/toi]", fresh=fresh)
    assert first["found"] == {"toy": ["mean", commit], "plain": ["mean", transformers]}
    assert [note for note in first["notes"] if note.startswith(f"toy: someone/toy@{commit} (pooling mean")]
    fetched = {request.partition("/resolve/")[2].partition("/")[2] for request in hub.requests}
    assert {"config.json", "modules.json", "1_Pooling/config.json"} <= fetched
    assert not fetched & {"model.safetensors", "tokenizer.json", "vocab.txt"}
    assert "has no model someone/toi, or it is private" in wrong["error"] and "Check the id" in wrong["error"]
    hub.requests.clear()
    offline = env | {"HF_HUB_OFFLINE": "1"}
    again, wrong, half, whole = on_hub(here, offline, written, "[someone/toi]", "[someone/half]", "[someone/whole]")
    assert again == first and hub.requests == []
    assert "`hf download someone/toi`" in wrong["error"] and "--local-dir DIR" in wrong["error"]
    assert "lacks the files that say how someone/half encodes. Get them with `hf download someone/half" in half["error"]
    assert whole["found"] == {"whole": ["mean", "b" * 40]}


def test_every_job_of_an_encoder_without_a_file_is_found_by_its_label(here: Path) -> None:
    model(here / "a/mine")
    model(here / "b/mine", MEAN)
    jobs: dict[str, Job] = {job.name: job for job in planned(here, "[a/mine, b/mine]").jobs}
    for label in ("a-mine", "b-mine"):
        for name, kind in {
            f"measure/{label}/mini-sts/seed0": MeasureJob,
            f"finetune/{label}/mini-sentiment/clean/seed0": FinetuneJob,
            f"attack/{label}/mini-sentiment/clean/pwws/seed0": AttackJob,
        }.items():
            assert isinstance(jobs[name].spec, kind)
