"""Resolving names and paths, the user's own weights, and removing."""

import pytest

from models.catalogue import FileSource, Format
from models.errors import DamagedFile, NotAModel, NotConverted, NotPulled, StoreError, UnknownModel
from models.shelf import Shelf

GGUF = [Format.GGUF]


# Resolving


def test_a_model_of_the_catalogue_that_is_not_here_says_how_to_get_it(store) -> None:
    with pytest.raises(NotPulled, match="ocamler models pull tiny") as caught:
        store.resolve("Tiny", GGUF)
    assert caught.value.name == "tiny"


def test_nobody_named_is_the_default(store) -> None:
    with pytest.raises(NotPulled) as caught:
        store.resolve(None, GGUF)
    assert caught.value.name == "tiny"


def test_obtaining_pulls_what_is_not_here(store, tiny) -> None:
    assert store.obtain("", GGUF).path.read_bytes() == tiny.whole


def test_obtaining_takes_what_is_here(store, pulled, tiny) -> None:
    tiny.forget(1, 2, 3)
    assert store.obtain("tiny", GGUF).path == pulled
    assert store.obtain(None, GGUF).path == pulled


def test_a_path_is_used_where_it_lies(store, own) -> None:
    model = store.resolve(str(own), GGUF)
    assert (model.path, model.name, model.context) == (own, "My Model", 2048)
    assert model.source == FileSource(own)
    assert store.installed() == []


def test_a_path_may_be_relative(store, own, monkeypatch) -> None:
    monkeypatch.chdir(own.parent)
    assert store.resolve(own.name, GGUF).path == own


@pytest.mark.parametrize("name", ["nothing", "./nothing.gguf", "/nothing", "~/nothing-there", "a/b"])
def test_what_is_neither_a_name_nor_a_path_is_one_sentence(store, name) -> None:
    with pytest.raises((UnknownModel, NotAModel), match="There is no"):
        store.resolve(name, GGUF)


def test_weights_that_no_engine_here_loads_say_so(store, own) -> None:
    with pytest.raises(NotConverted, match="GGUF"):
        store.resolve(str(own), [Format.MLX])


def test_an_installed_name_that_no_engine_here_loads_says_so(store, own) -> None:
    store.add(own, "mine")
    with pytest.raises(NotConverted, match="mine is GGUF"):
        store.resolve("mine", [Format.MLX, Format.HF])


# The user's own


def test_own_weights_are_used_in_place(store, own) -> None:
    model = store.add(own, "mine")
    assert store.resolve("mine", GGUF) == model
    assert (model.path, model.licence, model.context) == (own, "mit", 2048)
    assert store.installed() == [model]
    assert store.bytes_here("mine") < 10_000


def test_adding_the_same_again_changes_nothing(store, own) -> None:
    assert store.add(own, "mine") == store.add(own, "mine")


def test_a_name_in_use_is_not_taken_over(store, own, own_gguf) -> None:
    store.add(own, "mine")
    other = own.with_name("other.gguf")
    other.write_bytes(own_gguf)
    with pytest.raises(StoreError, match="mine is the name of"):
        store.add(other, "mine")


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", ".hidden", "with space", "x.gguf", "-x", "é", "a" * 65, "tiny", "TINY"]
)
def test_names_that_cannot_be_are_refused(store, own, name) -> None:
    with pytest.raises(StoreError):
        store.add(own, name)


def test_own_weights_that_are_gone_say_what_can_be_done(store, own) -> None:
    store.add(own, "mine")
    own.unlink()
    with pytest.raises(NotAModel, match="gone: put it back, or run `ocamler models remove mine`"):
        store.resolve("mine", GGUF)


def test_own_weights_that_changed_are_looked_at_again(store, own, own_gguf) -> None:
    store.add(own, "mine")
    own.write_bytes(own_gguf + bytes(64))
    assert store.resolve("mine", GGUF).size == len(own_gguf) + 64
    own.write_bytes(own_gguf[:-64])
    with pytest.raises(DamagedFile, match="truncated: 64 bytes"):
        store.resolve("mine", GGUF)


# Removing


def test_removing_frees_what_it_says(store, pulled, tiny) -> None:
    assert len(tiny.whole) < store.removal("tiny").freed < len(tiny.whole) + 5_000
    store.remove("tiny")
    assert store.installed() == []
    assert not (store.home / "models" / "tiny").exists()


def test_removing_own_weights_forgets_them_and_leaves_them(store, own) -> None:
    store.add(own, "Mine")
    store.remove("mine")
    assert own.exists()
    assert store.installed() == []


def test_half_a_pull_can_be_removed(store, tiny) -> None:
    partial = Shelf(store.home).partial("tiny", Format.GGUF, "pypi")
    partial.mkdir(parents=True)
    (partial / "tiny.gguf").write_bytes(tiny.parts[0])
    assert store.bytes_here("tiny") == len(tiny.parts[0])
    assert store.remove("tiny").freed == len(tiny.parts[0])
    assert store.bytes_here("tiny") == 0


@pytest.mark.parametrize("name", ["tiny", "nothing", "..", ""])
def test_what_is_not_here_cannot_be_removed(store, name) -> None:
    with pytest.raises(UnknownModel):
        store.remove(name)
