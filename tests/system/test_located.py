"""Tests that opening a place fails if its content has changed since it was found."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from rbench.errors import JobError, ResourceError
from rbench.system import digests
from rbench.system.digests import FingerprintedPlace, PlaceWatch


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "SETTLED", -(10**18))


@pytest.fixture
def place(tmp_path: Path) -> FingerprintedPlace:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("planned")
    return digests.locate_folder(tmp_path / "model")


def exchange(place: FingerprintedPlace, content: str = "another") -> str:
    """Another file for the one there; the fingerprint of the folder with it."""
    file = Path(place.where) / "weights"
    file.unlink()
    file.write_text(content)
    return digests.locate_folder(Path(place.where)).fingerprint


def test_a_place_that_changed_is_named_with_both_fingerprints(place: FingerprintedPlace) -> None:
    place.check()
    now = exchange(place)
    with pytest.raises(JobError) as caught:
        place.check()
    assert now != place.fingerprint
    assert all(said in str(caught.value) for said in (place.where, place.fingerprint, now))
    exchange(place, "planned")
    assert place.check() == place.fingerprint


def of_file(where: str) -> str:
    return digests.of_file(Path(where))


def refused(where: str) -> str:
    raise ResourceError("there are no weights")


@pytest.mark.parametrize(("mark", "why"), [(of_file, "No such file"), (refused, "there are no weights")])
def test_a_place_that_is_gone_is_named_with_its_fingerprint(tmp_path: Path, mark: object, why: str) -> None:
    place = FingerprintedPlace(str(tmp_path / "gone"), "f" * 64, mark)  # type: ignore[arg-type]
    with pytest.raises(JobError) as caught:
        place.check()
    assert all(value in str(caught.value) for value in (place.where, place.fingerprint, why))


def test_a_place_reaches_another_process(place: FingerprintedPlace) -> None:
    ours, theirs = multiprocessing.Pipe()
    ours.send(place)
    there = theirs.recv()
    assert there == place and there.check() == place.fingerprint


def test_what_changed_before_or_while_it_was_read_is_refused(place: FingerprintedPlace) -> None:
    watch = PlaceWatch()
    with watch.reading(place) as where:
        assert where == place.where
    with pytest.raises(JobError), watch.reading(place):
        exchange(place)
    read = False
    with pytest.raises(JobError), watch.reading(place):
        read = True
    assert not read


def test_an_exchange_is_said_to_be_why_reading_failed(place: FingerprintedPlace) -> None:
    with pytest.raises(JobError), PlaceWatch().reading(place):
        exchange(place)
        raise ResourceError("cannot be read")
    exchange(place, "planned")
    with pytest.raises(ResourceError), PlaceWatch().reading(place):
        raise ResourceError("cannot be read")


def test_a_place_in_use_is_read_again_only_where_it_was_touched(
    place: FingerprintedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = PlaceWatch()
    watch.open(place)
    count = 0
    real = digests.of_file

    def counted(path: Path) -> str:
        nonlocal count
        count += 1
        return real(path)

    monkeypatch.setattr(digests, "of_file", counted)
    watch.check()
    assert count == 0
    exchange(place, "planned")
    count = 0
    watch.check()
    watch.check()
    assert count == 1, "it is what it was, and known to be"
    exchange(place)
    with pytest.raises(JobError):
        watch.check()
