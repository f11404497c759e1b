"""Settings: flag over environment over file over default, and one sentence for each mistake."""

import json
import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli.settings import settings as command
from app.settings import (
    KEYS,
    Layer,
    Settings,
    SettingsError,
    find_key,
    load_settings,
    set_setting,
    settings_path,
    shown,
    unset_setting,
)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "config.toml"


def load(path: Path, text: str | bytes = "", **variables: str) -> Settings:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_settings(environment=variables, path=path)


def test_a_servers_password_is_not_shown() -> None:
    assert shown("model", "http://me:secret@localhost:8080") == "http://localhost:8080"


def test_without_a_file_everything_is_as_documented(tmp_path) -> None:
    now = load_settings(environment={}, path=tmp_path / "none.toml")
    assert (now.attempts, now.max_tokens, now.max_seconds, now.context) == (3, 768, 600, 0)
    assert (now.threads, now.temperature, now.model, now.home) == (0, 0.4, "", "")
    assert (now.run_seconds, now.run_memory_mb, now.run_output_kb) == (10, 1024, 256)
    assert {now.origin(key.name).layer for key in KEYS} == {Layer.DEFAULT}


def test_every_field_is_a_setting_and_every_setting_a_field() -> None:
    fields = [name for name in Settings.__dataclass_fields__ if name != "origins"]
    assert sorted(fields) == sorted(key.name for key in KEYS)


def test_a_flag_wins_over_the_environment_and_that_over_the_file(path) -> None:
    path.write_text("attempts = 5\nmax_tokens = 100\nmax_seconds = 30\n")
    environment = {"OCAMLER_MAX_TOKENS": "200", "OCAMLER_MAX_SECONDS": "60"}
    now = load_settings({"max_seconds": 90, "model": None}, environment, path)
    assert (now.attempts, now.max_tokens, now.max_seconds, now.context) == (5, 200, 90, 0)
    layers = [now.origin(name).layer for name in ("attempts", "max_tokens", "max_seconds", "context")]
    assert layers == [Layer.FILE, Layer.ENVIRONMENT, Layer.FLAG, Layer.DEFAULT]
    wheres = [now.origin(name).where for name in ("attempts", "max_tokens", "max_seconds", "context")]
    assert wheres == [str(path), "OCAMLER_MAX_TOKENS", "--max-seconds", ""]


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("OCAMLER_MODEL", "smollm2-135m", "model", "smollm2-135m"),
        ("OCAMLER_HOME", "/weights", "home", "/weights"),
        ("OCAMLER_ATTEMPTS", "1", "attempts", 1),
        ("OCAMLER_MAX_TOKENS", " 64 ", "max_tokens", 64),
        ("OCAMLER_MAX_SECONDS", "1.5", "max_seconds", 1.5),
        ("OCAMLER_THREADS", "auto", "threads", 0),
        ("OCAMLER_THREADS", "8", "threads", 8),
        ("OCAMLER_CONTEXT", "8192", "context", 8192),
        ("OCAMLER_CONTEXT", "auto", "context", 0),
        ("OCAMLER_CONTEXT", "0", "context", 0),
        ("OCAMLER_TEMPERATURE", "0", "temperature", 0),
        ("OCAMLER_RUN_SECONDS", "0.5", "run_seconds", 0.5),
        ("OCAMLER_RUN_MEMORY_MB", "64", "run_memory_mb", 64),
        ("OCAMLER_RUN_OUTPUT_KB", "1", "run_output_kb", 1),
        ("OCAMLER_ATTEMPTS", "", "attempts", 3),
        ("OCAMLER_ATTEMPTS", "  ", "attempts", 3),
    ],
)
def test_the_environment_sets_each(path, variable, text, name, value) -> None:
    assert getattr(load(path, **{variable: text}), name) == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("OCAMLER_ATTEMPTS", "many"),
        ("OCAMLER_ATTEMPTS", "0"),
        ("OCAMLER_ATTEMPTS", "-1"),
        ("OCAMLER_ATTEMPTS", "1.5"),
        ("OCAMLER_ATTEMPTS", "9" * 5000),
        ("OCAMLER_MAX_SECONDS", "nan"),
        ("OCAMLER_MAX_SECONDS", "inf"),
        ("OCAMLER_MAX_SECONDS", "0"),
        ("OCAMLER_THREADS", "some"),
        ("OCAMLER_TEMPERATURE", "3"),
        ("OCAMLER_MODEL", "a\nb"),
    ],
)
def test_a_wrong_value_in_the_environment_is_one_sentence(path, variable, text) -> None:
    with pytest.raises(SettingsError, match=f"^{variable} is .*, not ") as caught:
        load(path, **{variable: text})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# a comment\natempts = 3\n", "line 2: there is no setting “atempts”: did you mean attempts?"),
        (
            'attempts = 3\n"max-tokens" = 3\n',
            "line 2: there is no setting “max-tokens”: did you mean max_tokens?",
        ),
        ("[run]\nseconds = 3\n", "line 1: there is no setting “run”: did you mean run_seconds?"),
        ("run.seconds = 3\n", "line 1: there is no setting “run”: did you mean run_seconds?"),
        ("zzz = 1\n", "there is no setting “zzz”: there are model, home, attempts"),
        ('\n\nattempts = "3"\n', "line 3: attempts is a whole number from 1 to 100, not “3”"),
        ("attempts = true\n", "line 1: attempts is a whole number from 1 to 100, not true"),
        ("attempts = 3.0\n", "attempts is a whole number"),
        ("attempts = [3]\n", "not a list"),
        ("[attempts]\nx = 1\n", "line 1: attempts is a whole number from 1 to 100, not a table"),
        ("model = 3\n", "line 1: model is a text, not 3"),
        ("context = 255\n", "context is “auto” or a whole number from 256"),
        ("context = false\n", "context is “auto” or a whole number from 256"),
        ("threads = -1\n", "threads is “auto” or a whole number"),
        ('threads = "8"\n', "threads is “auto” or a whole number up to 1024, not “8”"),
        ("temperature = nan\n", "temperature is a number from 0 to 2, not nan"),
        ("run_seconds = 2026-01-01\n", "run_seconds is a number of seconds above 0, not 2026-01-01"),
        ("attempts = \n", "line 1 is not TOML"),
        ("attempts = 3\nattempts = 4\n", "line 2 is not TOML"),
        ('model = "unclosed\n', "line 1 is not TOML"),
        ('model = """unclosed\n', "is not TOML"),
        (b"model = '\xff'\n", "is not UTF-8 text (byte 9)"),
        (b"\x00\x01", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_with_its_place(path, text, words) -> None:
    with pytest.raises(SettingsError) as caught:
        load(path, text)
    sentence = str(caught.value)
    assert words in sentence
    assert sentence.startswith(str(path))
    assert "\n" not in sentence


def test_a_file_that_an_editor_marked_as_utf8_is_read(path) -> None:
    assert load(path, b"\xef\xbb\xbfattempts = 4\r\n").attempts == 4


def test_whole_numbers_serve_as_numbers(path) -> None:
    assert load(path, "max_seconds = 30\nthreads = 'auto'\n").max_seconds == 30.0


def test_a_folder_in_the_place_of_the_file_is_one_sentence(tmp_path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(environment={}, path=tmp_path)


def test_the_path_is_that_of_the_environment_or_the_platforms(tmp_path) -> None:
    assert settings_path({"OCAMLER_CONFIG": str(tmp_path / "c.toml")}) == tmp_path / "c.toml"
    assert settings_path({}).name == "config.toml"
    assert settings_path({}).parent.name == "ocamler"


def test_the_home_is_the_chosen_folder_or_the_platforms(tmp_path) -> None:
    assert Settings(home=str(tmp_path)).home_path == tmp_path
    assert Settings(home="~/weights").home_path == Path.home() / "weights"
    assert Settings().home_path.is_absolute()


def test_setting_one_keeps_comments_and_the_rest(path) -> None:
    path.write_text("# mine\nattempts = 3 # three\n\n# the model\nmodel = 'a'\n")
    set_setting("attempts", "4", path)
    set_setting("max-seconds", "120", path)
    assert path.read_text() == "# mine\nattempts = 4 # three\n\n# the model\nmodel = 'a'\nmax_seconds = 120\n"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("threads", "auto", 'threads = "auto"'),
        ("context", "auto", 'context = "auto"'),
        ("threads", "4", "threads = 4"),
        ("temperature", "0.25", "temperature = 0.25"),
        ("model", "/a path/m.gguf", 'model = "/a path/m.gguf"'),
        ("MODEL", "x", 'model = "x"'),
    ],
)
def test_a_value_is_written_as_a_person_would(path, name, text, line) -> None:
    set_setting(name, text, path)
    assert path.read_text().splitlines()[-1] == line
    assert shown(name.lower(), getattr(load_settings(environment={}, path=path), name.lower())) == text


def test_a_value_can_be_set_though_another_is_wrong(path) -> None:
    path.write_text("attempts = 'three'\n")
    set_setting("attempts", "4", path)
    assert load_settings(environment={}, path=path).attempts == 4


def test_a_value_can_be_taken_back(path) -> None:
    path.write_text("# keep\nattempts = 9\n")
    unset_setting("attempts", path)
    unset_setting("model", path)
    assert path.read_text() == "# keep\n"


def test_a_setting_goes_before_a_table_that_is_in_the_file(path) -> None:
    path.write_text("[other]\nx = 1\n")
    set_setting("attempts", "4", path)
    assert path.read_text().index("attempts") < path.read_text().index("[other]")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("atempts", "3", "did you mean attempts?"),
        ("attempts", "three", "attempts is a whole number from 1 to 100, not “three”"),
        ("attempts", "0", "whole number from 1"),
        ("memory", "3", "did you mean run_memory_mb?"),
    ],
)
def test_what_cannot_be_set_is_one_sentence_and_nothing_is_written(path, name, text, words) -> None:
    with pytest.raises(SettingsError) as caught:
        set_setting(name, text, path)
    assert words in str(caught.value)
    assert not path.exists()


def test_a_file_that_is_not_toml_is_never_overwritten(path) -> None:
    path.write_text("attempts = \n")
    with pytest.raises(SettingsError, match="line 1 is not TOML"):
        set_setting("attempts", "3", path)
    assert path.read_text() == "attempts = \n"


def test_a_link_stays_a_link_and_a_mode_a_mode(tmp_path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("attempts = 3\n")
    real.chmod(0o600)
    link = tmp_path / "config.toml"
    link.symlink_to(real)
    set_setting("attempts", "4", link)
    assert link.is_symlink()
    assert real.read_text() == "attempts = 4\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be"):
        set_setting("attempts", "3", tmp_path / "file" / "config.toml")


def test_a_setting_is_found_by_its_name_however_written() -> None:
    assert find_key("Max-Tokens").variable == "OCAMLER_MAX_TOKENS"


# The command


@pytest.fixture
def run(path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("OCAMLER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OCAMLER_CONFIG", str(path))

    def invoke(*arguments: str):
        return CliRunner().invoke(command, arguments, catch_exceptions=False)

    return invoke


def test_the_command_shows_each_value_and_where_it_comes_from(run, path, monkeypatch) -> None:
    path.write_text("attempts = 5\n")
    monkeypatch.setenv("OCAMLER_CONTEXT", "2048")
    lines = run().stdout.splitlines()
    assert len(lines) == len(KEYS)
    assert any(line.split()[:3] == ["attempts", "5", str(path)] for line in lines)
    assert any(line.split()[:3] == ["context", "2048", "OCAMLER_CONTEXT"] for line in lines)
    assert any(line.split()[:3] == ["threads", "auto", "default"] for line in lines)


def test_the_command_prints_json(run, path) -> None:
    path.write_text("attempts = 5\n")
    whole = json.loads(run("--json").stdout)
    assert whole["path"] == str(path)
    assert whole["settings"]["attempts"] == {"value": 5, "origin": "file", "where": str(path)}
    assert whole["settings"]["model"] == {"value": "", "origin": "default", "where": None}
    assert set(whole["settings"]) == {key.name for key in KEYS}


def test_the_command_sets_and_unsets(run, path) -> None:
    done = run("set", "attempts", "7")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "attempts = 7" in path.read_text()
    run("unset", "attempts")
    assert "attempts" not in path.read_text()


def test_the_command_says_when_the_environment_hides_what_was_set(run, monkeypatch) -> None:
    monkeypatch.setenv("OCAMLER_ATTEMPTS", "2")
    assert "OCAMLER_ATTEMPTS is set and wins: 2" in run("set", "attempts", "7").stderr


def test_a_negative_value_reaches_the_sentence(run) -> None:
    with pytest.raises(SettingsError, match="not “-3”"):
        run("set", "--", "attempts", "-3")


def test_the_command_prints_the_path(run, path) -> None:
    assert run("path").stdout == f"{path}\n"
