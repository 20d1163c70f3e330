from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import yaml

from rbench.errors import ResourceError, SuiteError
from rbench.schema import ResourceKind, ResourceSet, ResourceSource
from rbench.words import resources
from rbench.words.resources import lexical
from rbench.words.resources.locate import _FINDERS
from tests.refusals import refusal

FOLDER = Path(resources.__file__).parent
PROFILES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def profile(name: str) -> ResourceSet:
    return ResourceSet.model_validate(yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))


def one(what: ResourceKind, **source: Any) -> ResourceSet:
    return ResourceSet.model_validate({"name": "it", what: source})


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no data, no cache and no network."""
    import nltk

    from rbench.system import hub

    monkeypatch.setenv("TA_CACHE_DIR", str(tmp_path / "ta"))
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk")])

    def unreachable(*args: Any) -> str:
        raise ResourceError("the hub cannot be reached")

    monkeypatch.setattr(hub, "commit", unreachable)
    return tmp_path


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_binds_every_resource_to_a_loader_that_exists(name: str) -> None:
    bound = profile(name)
    assert bound.name == name and bound.title
    for kind in get_args(ResourceKind):
        source = getattr(bound, kind)
        assert source is not None and source.kind in _FINDERS[kind]
        if source.kind in ("hub",) or (source.name or "").count("/"):
            assert len(source.revision or "") == 40


def test_everything_missing_is_named_at_once_with_its_users_and_remedy(nothing: Path) -> None:
    users: dict[ResourceKind, list[str]] = {
        "word_vectors": ["textfooler", "textbugger"],
        "synonyms": ["pwws"],
        "masked_lm": ["bae"],
        "sentence_encoder": ["textfooler"],
        "pos_tagger": ["bae"],
        "stopwords": ["pwws"],
    }
    with pytest.raises(ResourceError) as caught:
        resources.locate(profile("standard"), users, [nothing])
    lines = str(caught.value).splitlines()
    assert len(lines) == 6 and "`rbench status --environment SUITE --fix` fetches" in lines[-1]
    for kind, labels in users.items():
        (line,) = (line for line in lines if line.startswith(f"{kind} of resource set standard"))
        assert f"(needed by {', '.join(labels)})" in line
    for remedy in (
        "WordEmbedding.counterfitted_GLOVE_embedding()",
        "python -m nltk.downloader wordnet",
        "python -m nltk.downloader averaged_perceptron_tagger_eng",
        "python -m nltk.downloader universal_tagset",
        "python -m nltk.downloader stopwords",
        "NLTK_DATA",
        "hf download google-bert/bert-base-uncased --revision 86b5e0934494bd15c9632b12f734a8a67f723594",
        "--models",
    ):
        assert remedy in str(caught.value), remedy


def test_only_what_is_needed_is_looked_for(nothing: Path) -> None:
    assert resources.locate(profile("standard"), set(), []) == {}
    with refusal(ResourceError, "synonyms", "standard", "wordnet"):
        resources.locate(profile("standard"), {"synonyms"}, [])


def test_mini_needs_nothing_at_all(nothing: Path) -> None:
    found = resources.locate(profile("mini"), set(get_args(ResourceKind)), [])
    assert set(found) == set(get_args(ResourceKind))
    assert found["word_vectors"].fingerprint == found["synonyms"].fingerprint
    assert found["masked_lm"].fingerprint == "encoder:mini-bert" and "mini-bert" in found["masked_lm"].where


def test_places_are_equal_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a worker process would load its resources anew for each attack."""
    module = importlib.import_module("rbench.words.resources.locate")
    monkeypatch.setattr(module, "nltk_package", lambda package: (f"nltk/{package}", "00"))
    found = resources.locate(profile("standard"), {"synonyms", "pos_tagger", "stopwords"}, [])
    found |= resources.locate(profile("mini"), {"word_vectors", "masked_lm"}, [])
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301 (our own bytes)


def test_the_universal_sentence_encoder_is_never_replaced_silently(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusal(ResourceError, "pip install 'rbench[use]'"):
        resources.locate(profile("standard-use"), {"sentence_encoder"}, [nothing])
    monkeypatch.setattr(importlib.import_module("rbench.words.resources.locate"), "_installed", lambda name: True)
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(nothing / "hub"))
    with pytest.raises(ResourceError, match="TFHUB_CACHE_DIR"):
        resources.locate(profile("standard-use"), {"sentence_encoder"}, [nothing])
    (nothing / "universal-sentence-encoder").mkdir()
    (nothing / "universal-sentence-encoder" / "saved_model.pb").write_bytes(b"x")
    found = resources.locate(profile("standard-use"), {"sentence_encoder"}, [nothing])["sentence_encoder"]
    assert found.where == str(nothing / "universal-sentence-encoder")


def test_doctor_sees_what_is_and_what_is_not_and_raises_nothing(nothing: Path) -> None:
    lines = resources.checks(profile("mini"), [])
    assert len(lines) == 6 and all(ok and where and not remedy for _, _, ok, where, remedy in lines)
    lines = resources.checks(profile("standard"), [nothing])
    assert len(lines) == 6 and not any(ok for _, _, ok, _, _ in lines) and all(line[4] for line in lines)
    odd = ResourceSet(name="it", synonyms=ResourceSource(kind="wordnett"))
    assert resources.checks(odd, [])[0][2:4] == (False, "")


def test_an_unknown_kind_of_source_is_named_with_the_nearest() -> None:
    with refusal(SuiteError, "wordnett", "wordnet"):
        resources.locate(one("synonyms", kind="wordnett"), {"synonyms"}, [])
    with pytest.raises(ResourceError, match="stopwords"):
        resources.locate(one("synonyms", kind="mini"), {"stopwords"}, [])


# ------------------------------------------------------------------------------------------------------------ folders


def vectors(folder: Path, value: float = 1.0) -> Path:
    folder.mkdir(parents=True)
    np.save(folder / "vectors.npy", np.full((2, 2), value, dtype=np.float32))
    (folder / "words.txt").write_text("a\nb\n")
    return folder


def test_folders_are_found_in_order_and_fingerprinted_by_content(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    vectors(second / "mine")
    bound = one("word_vectors", kind="folder", name="mine")
    late = resources.locate(bound, {"word_vectors"}, [first, second])["word_vectors"]
    assert late.where == str(second / "mine")
    vectors(first / "mine")
    early = resources.locate(bound, {"word_vectors"}, [first, second])["word_vectors"]
    assert early.where == str(first / "mine") and early.fingerprint == late.fingerprint
    vectors(tmp_path / "three" / "mine", 2.0)
    assert (
        resources.locate(bound, {"word_vectors"}, [tmp_path / "three"])["word_vectors"].fingerprint != late.fingerprint
    )
    assert resources.Resources(bound, [first]).word_vectors.words == ["a", "b"]
    named = one("word_vectors", kind="textattack-counterfitted", name="mine")  # a suite's override
    assert resources.Resources(named, [first]).word_vectors.words == ["a", "b"]


@pytest.mark.parametrize("name", ["../two/mine", "mine/../../two/mine"])
def test_a_name_does_not_leave_the_search_path(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors(tmp_path / "two" / "mine")
    for folder in ("one", "here/now"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "now")
    with pytest.raises(ResourceError, match="mine"):
        resources.locate(one("word_vectors", kind="folder", name=name), {"word_vectors"}, [tmp_path / "one"])


def test_listed_synonyms_go_both_ways(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "synonyms.txt").write_text("good fine\ngood\tgreat\nbad poor\ngood good\n")
    bound = resources.Resources(one("synonyms", kind="folder", name="mine"), [tmp_path])
    assert bound.synonyms("good") == ["fine", "great"]
    assert bound.synonyms("great") == ["good"] and bound.synonyms("x") == []
    (tmp_path / "mine" / "synonyms.txt").write_text("good fine\ngood as gold\n")
    with refusal(ResourceError, "synonyms.txt:2"):
        resources.Resources(one("synonyms", kind="folder", name="mine"), [tmp_path]).synonyms("good")


# --------------------------------------------------------------------------------------------------------------- NLTK


def stopwords(root: Path) -> Path:
    folder = root / "corpora" / "stopwords"
    folder.mkdir(parents=True)
    (folder / "english").write_text("the\na\n")
    return folder


def test_wordnet_with_a_list_changes_when_either_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = one("synonyms", kind="wordnet-and-folder", name="list")
    content = {"wordnet": "a"}
    module = importlib.import_module("rbench.words.resources.locate")
    monkeypatch.setattr(module, "nltk_package", lambda name: ("there", content[name]))
    with refusal(ResourceError, "list/synonyms.txt"):
        resources.locate(both, ["synonyms"], [tmp_path])
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "synonyms.txt").write_text("good fine\n")
    found = resources.locate(both, ["synonyms"], [tmp_path])["synonyms"]
    assert found.where == str(tmp_path / "list" / "synonyms.txt")
    content["wordnet"] = "b"
    other = resources.locate(both, ["synonyms"], [tmp_path])["synonyms"]
    (tmp_path / "list" / "synonyms.txt").write_text("good fine\nlake pond\n")
    third = resources.locate(both, ["synonyms"], [tmp_path])["synonyms"]
    assert len({found.fingerprint, other.fingerprint, third.fingerprint}) == 3


def test_nltk_data_is_found_also_in_its_zip_file(nothing: Path) -> None:
    import zipfile

    folder = stopwords(nothing / "nltk")
    where, digest = lexical.nltk_package("stopwords")
    assert where == str(folder)
    with zipfile.ZipFile(folder.parent / "stopwords.zip", "w") as archive:
        archive.write(folder / "english", "stopwords/english")
    (folder / "english").unlink()
    folder.rmdir()
    where, zipped = lexical.nltk_package("stopwords")
    assert "stopwords.zip" in where and zipped == digest


def test_data_that_nltk_refuses_comes_with_the_command_that_helps(nothing: Path) -> None:
    folder = stopwords(nothing / "nltk")
    (folder / "english").chmod(0o666)
    try:
        lexical.nltk_package("stopwords")
    except ResourceError as error:
        assert "chmod go-w" in str(error)
    else:
        pytest.skip("this NLTK reads what others may write")


def test_importing_and_locating_does_not_import_torch() -> None:
    script = (
        "import sys; from rbench.words import resources; from rbench.schema import ResourceSet, ResourceSource; "
        "resources.checks(ResourceSet(name='it', synonyms=ResourceSource(kind='mini'), "
        "masked_lm=ResourceSource(kind='encoder', name='mini-bert')), []); assert 'torch' not in sys.modules and "
        "'nltk' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
