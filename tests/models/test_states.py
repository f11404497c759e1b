"""The states of system prompts on disk: found whole or not at all, bounded, and never in the way."""

import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from models.engines.backend import Interrupt
from models.engines.llama import LlamaBackend
from models.engines.options import EngineOptions
from models.engines.protocol import Delta, Finish, Message, Prompt, Role, Sampling
from models.engines.states import States, fingerprint, state_key

KEY = state_key(["engine", "1.0"], [1, 2, 3])
SYSTEM = Message(Role.SYSTEM, "You write OCaml, and you think before you do. " * 4)
PROMPT = Prompt((SYSTEM, Message(Role.USER, "Reverse a list.")), sampling=Sampling(max_tokens=20))
OTHER = Prompt((SYSTEM, Message(Role.USER, "Sort an array.")), sampling=Sampling(max_tokens=20))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "states"


@pytest.fixture
def states(folder: Path) -> States:
    return States(folder, 10_000)


def saving(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def test_what_was_written_is_found(states: States):
    states.write(KEY, saving(b"abc"))
    path = states.find(KEY)
    assert path is not None
    assert path.read_bytes() == b"abc"


def test_another_key_is_not(states: States):
    states.write(KEY, saving(b"abc"))
    assert states.find(state_key(["engine", "1.0"], [1, 2])) is None
    assert states.find(state_key(["engine", "1.1"], [1, 2, 3])) is None


def test_nothing_is_found_where_there_is_no_folder(states: States):
    assert states.find(KEY) is None


def test_folder_and_file_are_the_users_alone(states: States, folder: Path):
    states.write(KEY, saving(b"abc"))
    path = states.find(KEY)
    assert path is not None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_that_others_may_write_to_is_emptied_and_closed_to_them(states: States, folder: Path):
    states.write(KEY, saving(b"planted"))
    folder.chmod(0o777)
    assert states.find(KEY) is None
    states.write(state_key([], [1]), saving(b"abc"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (states.find(KEY), states.find(state_key([], [1])) is not None) == (None, True)


def test_a_folder_that_cannot_be_written_any_more_still_gives_what_it_holds(states: States, folder: Path):
    states.write(KEY, saving(b"abc"))
    (path,) = folder.iterdir()
    path.chmod(0o400)
    folder.chmod(0o500)
    assert states.find(KEY) == path
    states.write(state_key([], [1]), saving(b"abc"))
    folder.chmod(0o700)


@pytest.mark.parametrize("suffix", [".state", ".safetensors"])
def test_names_end_as_the_library_wants_them(folder: Path, suffix: str):
    seen: list[Path] = []
    states = States(folder, 10_000, suffix)
    states.write(KEY, lambda path: (seen.append(path), path.write_bytes(b"abc")))
    found = states.find(KEY)
    assert found is not None
    assert {path.suffix for path in (*seen, found)} == {suffix}


@pytest.mark.parametrize("length", [0, 1, 50, 99])
def test_a_state_cut_short_is_thrown_away(states: States, folder: Path, length: int):
    states.write(KEY, saving(bytes(range(100))))
    (path,) = folder.iterdir()
    os.truncate(path, length)
    assert states.find(KEY) is None
    assert not path.exists()


@pytest.mark.parametrize("at", [0, 7, 50, 99])
def test_a_state_with_a_flipped_bit_is_thrown_away(states: States, folder: Path, at: int):
    states.write(KEY, saving(bytes(100)))
    (path,) = folder.iterdir()
    flip(path, at)
    assert states.find(KEY) is None
    assert not path.exists()


def test_a_save_that_fails_leaves_nothing(states: States, folder: Path):
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    states.write(KEY, fail)
    assert list(folder.iterdir()) == []


def test_an_interrupt_from_the_keyboard_is_no_failed_save(states: States, folder: Path):
    def interrupt(path: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        states.write(KEY, interrupt)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("place", ["a file", "below a file"])
def test_a_folder_that_cannot_be_costs_only_the_saving(tmp_path: Path, place: str):
    (tmp_path / "a file").write_text("")
    states = States({"below a file": tmp_path / "a file" / "x"}.get(place, tmp_path / place), 10_000)
    states.write(KEY, saving(b"abc"))
    assert states.find(KEY) is None
    states.sweep()


def test_those_used_longest_ago_go_first(states: States, folder: Path):
    keys = [state_key(["engine"], [number]) for number in range(4)]
    for age, key in enumerate(keys[:3]):
        states.write(key, saving(bytes(3000)))
        (path,) = (path for path in folder.iterdir() if path.name.startswith(key))
        os.utime(path, (time.time() - 100 + age, time.time() - 100 + age))
    assert states.find(keys[0])
    states.write(keys[3], saving(bytes(3000)))
    assert [states.find(key) is not None for key in keys] == [True, False, True, True]


def test_engines_that_share_a_folder_share_its_limit(states: States, folder: Path):
    other = States(folder, 10_000, ".safetensors")
    other.write(KEY, saving(bytes(6000)))
    (path,) = folder.iterdir()
    os.utime(path, (time.time() - 100, time.time() - 100))
    states.write(KEY, saving(bytes(6000)))
    assert (other.find(KEY), states.find(KEY) is not None) == (None, True)


def test_a_state_larger_than_the_limit_is_not_kept_and_takes_no_other_with_it(states: States):
    states.write(KEY, saving(b"abc"))
    states.write(state_key([], [1]), saving(bytes(10_001)))
    assert states.find(KEY)
    assert states.find(state_key([], [1])) is None


def test_what_a_dead_process_left_is_swept_and_what_is_being_written_is_not(states: States, folder: Path):
    states.write(KEY, saving(b"abc"))
    old, new, foreign = (
        folder / name
        for name in (f"{KEY}-7-0123abcd.partial.state", f"{KEY}-8-0123abcd.partial.state", "notes.txt")
    )
    for path in (old, new, foreign):
        path.write_bytes(b"")
    os.utime(old, (time.time() - 3600, time.time() - 3600))
    states.sweep()
    assert [path.exists() for path in (old, new, foreign)] == [False, True, True]


def test_many_may_write_find_and_sweep_at_once(folder: Path):
    keys = [state_key([], [number]) for number in range(5)]
    wrong: list[bytes] = []

    def work() -> None:
        states = States(folder, 3500)
        for _ in range(20):
            for key in keys:
                states.write(key, saving(key.encode() * 20))
                if path := states.find(key):
                    try:
                        data = path.read_bytes()
                    except OSError:
                        continue  # swept by another: as good as not found
                    if data != key.encode() * 20:
                        wrong.append(data)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    States(folder, 3500).sweep()
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 3500


def test_a_fingerprint_changes_with_the_weights_and_only_then(tmp_path: Path):
    path = tmp_path / "m.gguf"
    path.write_bytes(bytes(1_000_000))
    first = fingerprint(path)
    assert fingerprint(path) == first
    times = path.stat()
    with path.open("r+b") as data:
        data.seek(500_000)
        data.write(b"x")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert fingerprint(path) != first


@pytest.mark.parametrize("changed", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_folders_fingerprint_is_that_of_all_in_it(tmp_path: Path, changed: str):
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        (tmp_path / name).write_text("1")
    (tmp_path / "deeper").mkdir()
    first = fingerprint(tmp_path)
    (tmp_path / changed).write_text("2")
    assert fingerprint(tmp_path) != first


def test_every_part_of_split_weights_counts(tmp_path: Path):
    parts = [tmp_path / f"m-0000{n}-of-00002.gguf" for n in (1, 2)]
    for part in parts:
        part.write_bytes(b"1")
    first = fingerprint(parts[0])
    parts[1].write_bytes(b"2")
    assert fingerprint(parts[0]) != first


def test_weights_that_are_gone_have_no_fingerprint(tmp_path: Path):
    with pytest.raises(OSError, match="No such file"):
        fingerprint(tmp_path / "gone.gguf")


# With llama.cpp: each backend below stands for a process of its own.


def loaded(nano: Path, folder: Path | None) -> LlamaBackend:
    backend = LlamaBackend(Interrupt())
    backend.load(nano, EngineOptions(context_tokens=2048, threads=1, states=folder and str(folder)))
    return backend


def ask(backend: LlamaBackend, prompt: Prompt = PROMPT) -> list[Delta]:
    return list(backend.generate(prompt))


def cached(deltas: list[Delta]) -> int:
    usage = deltas[-1].usage
    assert usage is not None
    return usage.cached_tokens


def without_usage(deltas: list[Delta]) -> list[object]:
    return [(delta.text, delta.tokens, delta.entropies, delta.finish) for delta in deltas]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << at % 8
    path.write_bytes(data)


def test_a_new_process_reads_a_system_prompt_it_has_a_state_of_no_more(nano: Path, folder: Path):
    assert cached(ask(loaded(nano, folder))) == 0
    assert len(list(folder.iterdir())) == 1
    assert cached(ask(loaded(nano, folder), OTHER)) > 100


def test_the_numbers_are_the_same_with_a_state_as_without(nano: Path, folder: Path):
    without = without_usage(ask(loaded(nano, None)))
    assert without_usage(ask(loaded(nano, folder))) == without
    assert without_usage(ask(loaded(nano, folder))) == without


def test_a_batch_finds_it_too(nano: Path, folder: Path):
    ask(loaded(nano, folder))
    finished = [piece.delta for piece in loaded(nano, folder).batch([PROMPT, OTHER]) if piece.delta.finish]
    assert all(cached([delta]) > 100 for delta in finished)


def test_what_is_in_memory_is_not_loaded_again(nano: Path, folder: Path):
    backend = loaded(nano, folder)
    first = cached(ask(backend, OTHER))
    for path in folder.iterdir():
        path.unlink()
    assert (first, cached(ask(backend)) > 100) == (0, True)
    assert list(folder.iterdir()) == []


def test_a_short_system_prompt_is_not_worth_a_file(nano: Path, folder: Path):
    ask(loaded(nano, folder), Prompt((Message(Role.SYSTEM, "Be."), Message(Role.USER, "?" * 100))))
    assert not folder.exists()


def test_other_weights_find_nothing(make_nano: Callable[..., Path], nano: Path, folder: Path):
    ask(loaded(nano, folder))
    assert cached(ask(loaded(make_nano(seed=1), folder))) == 0


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.001, 0.01, 0.3, 0.5, 0.9, 0.99999])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_state_is_replaced_and_the_reply_is_right(
    nano: Path, folder: Path, damage: str, share: float
):
    right = without_usage(ask(loaded(nano, folder)))
    (path,) = folder.iterdir()
    at = int(share * path.stat().st_size)
    os.truncate(path, at) if damage == "cut" else flip(path, at)
    deltas = ask(loaded(nano, folder))
    assert (without_usage(deltas), cached(deltas)) == (right, 0)
    assert cached(ask(loaded(nano, folder))) > 100


def test_a_state_that_lies_about_its_digest_is_refused_by_the_library(nano: Path, folder: Path):
    right = without_usage(ask(loaded(nano, folder)))
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    key = path.name.partition("-")[0]
    cuts = [whole[: len(whole) * share // 1000] for share in (0, 1, 2, 5, 100, 300, 500, 700, 900, 999)]
    for lie in (*cuts, whole[:1], whole[:-1], whole[4:], whole + b"x", b"\xff" * 1000, bytes(1000)):
        for old in folder.iterdir():
            old.unlink()
        States(folder, 1 << 30).write(key, saving(lie))
        assert without_usage(ask(loaded(nano, folder))) == right


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_saving(nano: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert without_usage(ask(loaded(nano, tmp_path / "file"))) == without_usage(ask(loaded(nano, None)))


def test_an_interrupt_while_the_system_prompt_is_read_saves_nothing(nano: Path, folder: Path):
    interrupt = Interrupt()
    backend = LlamaBackend(interrupt)
    backend.load(nano, EngineOptions(context_tokens=2048, threads=1, states=str(folder)))
    interrupt.begin(1)
    interrupt.cancel(1)
    assert ask(backend)[-1].finish is Finish.CANCELLED
    assert not folder.exists()
    interrupt.begin(2)
    assert without_usage(ask(backend)) == without_usage(ask(loaded(nano, None)))
