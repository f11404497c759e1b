"""What the user wants by default: one TOML file, the environment above it, a command's flags above both.

Every value knows where it came from. Nothing here knows what the values are used for.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

Value: TypeAlias = str | int | float


class SettingsError(Exception):
    """A setting cannot be used or the file cannot be read or written; the message is a sentence."""


class Layer(StrEnum):
    """Who decides a value; the later ones win."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: ``where`` is the file, the variable or the flag, and empty for a default."""

    layer: Layer
    where: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings as they hold now.

    ``model`` is a name, a path or a server's address, "" the best available; ``home`` is where weights lie,
    "" the platform's folder; ``context`` and ``threads`` 0 leave the number to the engine; ``temperature``
    is that of repairs; ``keep_warm`` is how many minutes a model stays in memory for the next command. The
    ``run_…`` ones bound a program that is run or tested.
    """

    model: str = ""
    home: str = ""
    attempts: int = 3
    max_tokens: int = 768
    max_seconds: float = 600.0
    context: int = 0
    threads: int = 0
    temperature: float = 0.4
    keep_warm: float = 0.0
    run_seconds: float = 10.0
    run_memory_mb: int = 1024
    run_output_kb: int = 256
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False)

    @property
    def home_path(self) -> Path:
        """The folder of the weights."""
        from models.shelf import default_home  # the store costs 20 ms that `ocamler check` need not pay

        return default_home({"OCAMLER_HOME": self.home})

    def origin(self, key: str) -> Origin:
        """Return where a value came from."""
        return self.origins.get(key, Origin(Layer.DEFAULT))


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: what it may be, in words, and how a value from outside becomes one (None: it does not)."""

    name: str
    help: str
    kind: str
    accept: Callable[[object], Value | None]
    may_be_auto: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"OCAMLER_{self.name.upper()}"


def load_settings(
    flags: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    path: Path | None = None,
) -> Settings:
    """Return the settings; ``flags`` are the command's, None among them meaning not given.

    Raises SettingsError with one sentence that names the file and line, the variable or the flag.
    """
    environment = os.environ if environment is None else environment
    path = settings_path(environment) if path is None else path
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for name, (value, origin) in {
        **_from_file(path),
        **_from_environment(environment),
        **_from_flags(flags or {}),
    }.items():
        values[name], origins[name] = value, origin
    return Settings(**values, origins=origins)


def settings_path(environment: Mapping[str, str] | None = None) -> Path:
    """Return where the file is: ``OCAMLER_CONFIG``, else in the platform's folder for configuration."""
    environment = os.environ if environment is None else environment
    if chosen := environment.get("OCAMLER_CONFIG", "").strip():
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir("ocamler", appauthor=False)) / "config.toml"


def set_setting(name: str, text: str, path: Path) -> Value:
    """Write one setting into the file, whose other lines and comments stay; return the value."""
    key = find_key(name)
    value = key.accept(text)
    if value is None:
        raise SettingsError(f"{key.name} is {key.kind}, not {_quoted(text)}.")
    _edit(path, lambda document: document.update({key.name: _as_written(key, value)}))
    return value


def unset_setting(name: str, path: Path) -> None:
    """Remove one setting from the file, so that its default holds again."""
    key = find_key(name)
    _edit(path, lambda document: document.pop(key.name, None))


def _text(value: object) -> str | None:
    return value.strip() if isinstance(value, str) and value.isprintable() else None


def _whole(least: int, most: int) -> Callable[[object], int | None]:
    def accept(value: object) -> int | None:
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}", value.strip(), re.ASCII):
            value = int(value)
        good = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return value if good and isinstance(value, int) else None

    return accept


def _number(least: float, most: float) -> Callable[[object], float | None]:
    def accept(value: object) -> float | None:
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if least <= value <= most else None  # also refuses nan

    return accept


def _auto_or_whole(least: int, most: int) -> Callable[[object], int | None]:
    def accept(value: object) -> int | None:
        is_auto = value == "auto" or _whole(0, 0)(value) == 0
        return 0 if is_auto else _whole(least, most)(value)

    return accept


def _as_written(key: Key, value: Value) -> Value:
    """Return a value as a person would write it: ``120``, not ``120.0``."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return "auto" if key.may_be_auto and value == 0 else value


_YEAR_SECONDS = 365 * 24 * 3600

KEYS: tuple[Key, ...] = (
    Key("model", "model to use: a name, a path or a server; empty: the best available", "a text", _text),
    Key("home", "folder of the weights; empty: the platform's", "a path", _text),
    Key("attempts", "answers to try", "a whole number from 1 to 100", _whole(1, 100)),
    Key("max_tokens", "tokens an answer may have", "a whole number from 1 to 131072", _whole(1, 131072)),
    Key(
        "max_seconds", "time to solve a problem", "a number of seconds above 0", _number(0.001, _YEAR_SECONDS)
    ),
    Key(
        "context",
        "tokens of prompt and answer; auto: what fits",
        "“auto” or a whole number from 256 to 1048576",
        _auto_or_whole(256, 1 << 20),
        may_be_auto=True,
    ),
    Key(
        "threads",
        "threads of the engine; auto: it decides",
        "“auto” or a whole number up to 1024",
        _auto_or_whole(0, 1024),
        may_be_auto=True,
    ),
    Key(
        "keep_warm",
        "minutes a model stays in memory unused; 0: it ends with the command",
        "a number of minutes from 0",
        _number(0, _YEAR_SECONDS / 60),
    ),
    Key("temperature", "how freely repairs are drawn", "a number from 0 to 2", _number(0, 2)),
    Key(
        "run_seconds", "time a program may run", "a number of seconds above 0", _number(0.001, _YEAR_SECONDS)
    ),
    Key("run_memory_mb", "memory a program may take", "a whole number of MB from 16", _whole(16, 1 << 24)),
    Key(
        "run_output_kb", "output of a program that is kept", "a whole number of kB from 1", _whole(1, 1 << 20)
    ),
)
"""Every setting, in the order they are shown."""


def shown(name: str, value: Value) -> str:
    """Return a value as the user writes it."""
    if value == 0 and find_key(name).may_be_auto:
        return "auto"
    if isinstance(value, str):
        return _without_secrets(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def find_key(name: str) -> Key:
    """Return the setting of that name; raise SettingsError naming the nearest."""
    wanted = name.strip().lower().replace("-", "_")
    for key in KEYS:
        if key.name == wanted:
            return key
    raise SettingsError(f"There is no setting “{name}”{_nearest(wanted)}.")


def as_json(settings: Settings, keys: Iterable[Key] = KEYS) -> dict[str, dict[str, Value | str | None]]:
    """Return each value and where it comes from, as ``ocamler settings --json`` prints it."""
    return {
        key.name: {
            "value": _without_secrets(value)
            if isinstance(value := getattr(settings, key.name), str)
            else value,
            "origin": settings.origin(key.name).layer.value,
            "where": settings.origin(key.name).where or None,
        }
        for key in keys
    }


def _without_secrets(text: str) -> str:
    """Return a value as it may be shown: a server's address without its password."""
    from models.address import is_address, shown_address

    return shown_address(text) if is_address(text) else text


def _nearest(name: str) -> str:
    names = [key.name for key in KEYS]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    # A table [run] or a bare "memory" is short of a whole name.
    near = near or [known for known in names if name in known.split("_")][:1]
    return f": did you mean {near[0]}?" if near else f": there are {', '.join(names)}"


_Found: TypeAlias = dict[str, tuple[Value, Origin]]


def _from_file(path: Path) -> _Found:
    text = _read(path)
    found: _Found = {}
    for name, raw in _parse(text, path).items():
        key = next((key for key in KEYS if key.name == name), None)
        place = f"{path}{_line_of(name, text)}"
        if key is None:
            hint = _nearest(name.lower())
            raise SettingsError(
                f"{place}: there is no setting “{name}”{hint}{'' if hint.endswith('?') else '.'}"
            )
        value = key.accept(raw) if _has_right_type(key, raw) else None
        if value is None:
            raise SettingsError(
                f"{place}: {name} is {key.kind}, not {_quoted(raw)}: "
                f"mend it or run `ocamler settings unset {name}`."
            )
        found[name] = (value, Origin(Layer.FILE, str(path)))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8.") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(f"{path} cannot be read ({reason}): mend that or set OCAMLER_CONFIG.") from error


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason, line = str(error), ""
        if match := re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", reason):
            reason, line = reason[: match.start()], f", line {match[1]}" if match[1] else ", at its end"
        raise SettingsError(f"{path}{line} is not TOML ({reason}): mend it.") from error


def _line_of(name: str, text: str) -> str:
    """Return where a key of the top level stands, as far as a look at the lines tells."""
    bare = re.escape(name)
    pattern = re.compile(rf"""^\s*\[*\s*(?:{bare}|"{bare}"|'{bare}')\s*[=.\]]""")
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.match(line):
            return f", line {number}"
    return ""


def _has_right_type(key: Key, raw: object) -> bool:
    """Numbers in quotes are a mistake in the file, though the environment knows nothing else."""
    return isinstance(raw, str) == (key.accept is _text) or (key.may_be_auto and raw == "auto")


def _quoted(raw: object) -> str:
    match raw:
        case bool():
            return str(raw).lower()
        case str():
            return f"“{' '.join(raw.split())[:40]}”"
        case dict():
            return "a table"
        case list():
            return "a list"
        case _:
            return str(raw)


def _from_environment(environment: Mapping[str, str]) -> _Found:
    found: _Found = {}
    for key in KEYS:
        text = environment.get(key.variable, "").strip()
        if not text:
            continue  # set to nothing is not set
        value = key.accept(text)
        if value is None:
            raise SettingsError(
                f"{key.variable} is {key.kind}, not {_quoted(text)}: set it anew or unset it."
            )
        found[key.name] = (value, Origin(Layer.ENVIRONMENT, key.variable))
    return found


def _from_flags(flags: Mapping[str, object]) -> _Found:
    found: _Found = {}
    for name, raw in flags.items():
        if raw is None:
            continue
        key = find_key(name)
        flag = f"--{key.name.replace('_', '-')}"
        value = key.accept(raw)
        if value is None:
            raise SettingsError(f"{flag} is {key.kind}, not {_quoted(raw)}.")
        found[key.name] = (value, Origin(Layer.FLAG, flag))
    return found


def _edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change the file in one step; what the user wrote around the change stays as it is."""
    import tomlkit

    from app.files import FileProblem, write_file

    text = _read(path)
    _parse(text, path)  # its sentence is better than tomlkit's
    document = tomlkit.parse(text or "# Settings of ocamler; `ocamler settings` shows them all.\n")
    change(document)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, tomlkit.dumps(document))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(
            f"{path} cannot be written ({reason}): mend that or set OCAMLER_CONFIG."
        ) from error
    except FileProblem as error:
        raise SettingsError(str(error)) from error
