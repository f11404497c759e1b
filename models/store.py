"""The weights on this machine: what is here, getting more, using the user's own, and throwing away."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from models import catalogue as catalogues
from models import choice, manifest, pulling
from models.address import is_address, shown_address
from models.catalogue import Catalogue, FileSource, Format, Model
from models.errors import DownloadFailed, NotAModel, NotConverted, NotPulled, StoreError, UnknownModel
from models.manifest import Manifest
from models.progress import Progress, Silent, progress_on
from models.shelf import Shelf, default_home, free_bytes
from models.sources.fetching import Fetching
from models.weights import Weights, recognise


@dataclass(frozen=True, slots=True)
class Removal:
    """What removing a name would do: these models, and so many bytes freed (none for weights in place)."""

    name: str
    models: tuple[Model, ...]
    freed: int


@dataclass(frozen=True)
class Store:
    """The models of one home.

    ``engines`` are those that are installed; a method's own ``formats`` stand in for what they load.
    ``environment`` is what child processes get, ``free_bytes`` asks the disk.
    """

    home: Path = field(default_factory=default_home)
    catalogue: Catalogue = field(default_factory=catalogues.load)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    progress: Progress = field(default_factory=Silent)
    free_bytes: Callable[[Path], int] = free_bytes
    engines: tuple[str, ...] = field(default_factory=choice.engines_here)

    @property
    def formats(self) -> tuple[Format, ...]:
        """What the engines here load, the preferred first."""
        return choice.loadable(self.engines)

    def installed(self) -> list[Model]:
        """Every model that is here, pulled or added, in the order of names."""
        return [known.model for known in self._shelf.manifests()]

    def resolve(self, wanted: str | None, formats: Sequence[Format] = ()) -> Model:
        """Return the model of that name or at that path, in the first of ``formats``.

        None or "" is the default model. Checks cheaply that the weights are whole; damaged ones are named
        and pulled again. Raises ``NotPulled`` (with the name to pull) when the catalogue alone knows it,
        ``NotConverted`` when no engine here loads it, ``UnknownModel``, ``NotAModel`` or ``DamagedFile``.
        """
        formats = formats or self.formats
        if is_address(wanted or ""):
            raise UnknownModel(
                f"{shown_address(wanted or '')} is a server's address and no weights: "
                "give it to --model, or make it the default with `ocamler models use`."
            )
        if not wanted:
            wanted = self.default(formats).name
        here = self._find(wanted)
        if here:
            usable = [known for form in formats for known in here if known.model.format is form]
            if usable:
                return self._checked(usable[0])
        entry = self.catalogue.find(wanted)
        if entry is not None and (not here or set(entry.formats) & set(formats)):
            entry.sources_in(formats)  # raises when no source has such a format
            raise NotPulled(
                entry.name,
                f"{entry.name} is not on this machine yet: run `ocamler models pull {entry.name}`.",
            )
        if here:
            raise NotConverted(_not_loadable(here[0].model, formats))
        if _is_path(wanted):
            model = _at(recognise(Path(wanted), self.home))
            if model.format not in formats:
                raise NotConverted(_not_loadable(model, formats))
            return model
        raise UnknownModel(catalogues.unknown(wanted, self._names()))

    def default(self, formats: Sequence[Format] = (), memory_bytes: int | None = None) -> catalogues.Entry:
        """Return the catalogue's entry that is used when nobody names one."""
        engines = self._engines_for(formats)
        formats = formats or self.formats
        return choice.default_model(
            self.catalogue,
            choice.memory_here() if memory_bytes is None else memory_bytes,
            sys.platform,
            engines,
            {known.name for known in self.installed() if known.format in formats},
        )

    def pull(self, name: str, formats: Sequence[Format] = ()) -> Model:
        """Fetch a model of the catalogue unless it is here and whole; raises as ``models.pulling`` says."""
        entry = self.catalogue.get(name, also=self._names())
        return pulling.pull(entry, formats or self.formats, self._shelf, self._fetching).model

    def pull_default(self, formats: Sequence[Format] = (), memory_bytes: int | None = None) -> Model:
        """Fetch the best model that this machine can both run and reach."""
        memory = choice.memory_here() if memory_bytes is None else memory_bytes
        engines = self._engines_for(formats)
        ranked = choice.defaults(self.catalogue, memory, sys.platform, engines)
        for entry, following in zip(ranked, [*ranked[1:], None], strict=True):
            try:
                return self.pull(entry.name, formats)
            except DownloadFailed as error:
                if following is None or not following.writes_ocaml:
                    raise
                self.progress.say(f"{error} Trying {following.name} instead.")
        raise AssertionError("a catalogue has entries")

    def obtain(self, wanted: str | None, formats: Sequence[Format] = ()) -> Model:
        """``resolve``, and ``pull`` what is not here yet."""
        try:
            return self.resolve(wanted, formats)
        except NotPulled as missing:
            return self.pull(missing.name, formats) if wanted else self.pull_default(formats)

    def add(self, path: Path, name: str) -> Model:
        """Use the user's own weights where they lie, under a name of their own."""
        self._check_name(name)
        weights = recognise(path, self.home)
        folder = self._shelf.folder(name, weights.format)
        with self._shelf.lock(name, self.progress.say), self._shelf.writing():
            here = self._shelf.manifest(name, weights.format)
            if here is not None and here.model.path != weights.path:
                raise StoreError(
                    f"{name} is the name of {here.model.path} already: choose another, "
                    f"or run `ocamler models remove {name}` first."
                )
            folder.mkdir(parents=True, exist_ok=True)
            added = _added(folder, name, weights)
            manifest.write(added)
        return added.model

    def bytes_here(self, name: str) -> int:
        """Return what lies on disk under a name, whole or not."""
        return self._shelf.bytes_of(name)

    def removal(self, name: str) -> Removal:
        """Return what ``remove`` would do; raises ``UnknownModel`` when nothing of that name is here."""
        name = self._name_here(name)
        models = tuple(known.model for known in self._find(name))
        return Removal(name, models, self._shelf.bytes_of(name))

    def remove(self, name: str) -> Removal:
        """Delete what was pulled under a name, also half of it; forget weights that were used in place."""
        removal = self.removal(name)
        with self._shelf.lock(removal.name, self.progress.say), self._shelf.writing():
            shutil.rmtree(self._shelf.models / removal.name)
        return removal

    def _engines_for(self, formats: Sequence[Format]) -> tuple[str, ...]:
        """Return the engines here that load one of these formats; when none does, those elsewhere."""
        able = choice.engines_for(formats) if formats else self.engines
        return tuple(engine for engine in able if engine in self.engines) or able

    @property
    def _shelf(self) -> Shelf:
        return Shelf(self.home)

    @property
    def _fetching(self) -> Fetching:
        return Fetching(self.environment, self.progress, self.free_bytes)

    def _names(self) -> list[str]:
        return [
            *(entry.name for entry in self.catalogue.entries),
            *(known.name for known in self.installed()),
        ]

    def _find(self, name: str) -> list[Manifest]:
        wanted = name.casefold()
        return [known for known in self._shelf.manifests() if known.model.name.casefold() == wanted]

    def _checked(self, here: Manifest) -> Model:
        """Return the model, if it is as it was; else what can be done about it."""
        if here.is_pulled:
            files = manifest.damage(here)
            if not files:
                return here.model
            if self.catalogue.find(here.model.name) is None:
                raise NotAModel(
                    f"{pulling.damage_told(here, files)} Run `ocamler models remove {here.model.name}`: "
                    "the catalogue no longer has it."
                )
            return self.pull(here.model.name, [here.model.format])
        has_base = here.model.base is None or here.model.base.is_dir()
        if has_base and not manifest.changed(here):
            return here.model
        if not here.model.path.exists():
            raise NotAModel(
                f"{here.model.name} is {here.model.path}, which is gone: put it back, "
                f"or run `ocamler models remove {here.model.name}`."
            )
        renewed = _added(here.folder, here.model.name, recognise(here.model.path, self.home))
        manifest.restamp(renewed)
        return renewed.model

    def _check_name(self, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", name) or name.endswith((".gguf", ".")):
            raise StoreError(
                f"“{name}” cannot be a model's name: use letters, digits, dots, dashes and underscores."
            )
        if self.catalogue.find(name) is not None:
            raise StoreError(f"{name} is a model of the catalogue: choose another name with --name.")

    def _name_here(self, name: str) -> str:
        """Return the name as its folder has it, for one that is here at least in part."""
        folders = self._shelf.models.iterdir() if self._shelf.models.is_dir() else ()
        for folder in folders:
            if folder.name.casefold() == name.casefold() and folder.is_dir():
                return folder.name
        if (entry := self.catalogue.find(name)) is not None:
            raise UnknownModel(f"{entry.name} is not on this machine: there is nothing to remove.")
        raise UnknownModel(catalogues.unknown(name, (known.name for known in self.installed())))


def pull(name: str, formats: Sequence[Format] = ()) -> Model:
    """Fetch a model into the user's own store, telling on stderr how far it is."""
    return Store(progress=progress_on()).pull(name, formats)


def _is_path(text: str) -> bool:
    looks = os.sep in text or "/" in text or text.startswith(("~", ".")) or text.endswith(".gguf")
    return looks or Path(text).exists()


def _at(weights: Weights) -> Model:
    """Weights that are only pointed at, as a model named after their file."""
    name = weights.path.stem if weights.format is Format.GGUF else weights.path.name
    return _model(name, weights)


def _added(folder: Path, name: str, weights: Weights) -> Manifest:
    model = _model(name, weights)
    bare = Manifest(folder, model, ())
    stamps = tuple(
        manifest.stamp(bare.base, os.path.relpath(file, bare.base), None) for file in weights.files
    )
    return Manifest(folder, model, stamps)


def _model(name: str, weights: Weights) -> Model:
    return Model(
        name=name,
        format=weights.format,
        path=weights.path,
        licence=weights.licence or "unknown",
        prompt_format=weights.prompt_format,
        context=weights.context,
        source=FileSource(weights.path),
        sha256=None,
        size=weights.size,
        base=weights.base,
    )


def _not_loadable(model: Model, formats: Iterable[Format]) -> str:
    loads = " and ".join(form.value for form in formats) or "nothing"
    if model.format is Format.GGUF:
        return f"{model.name} is GGUF, and the engine here loads {loads}: install llama-cpp-python for it."
    if model.format is Format.LORA:
        return (
            f"{model.name} is a LoRA adapter, and the engine here loads {loads}: "
            "install ocamler with its `transformers` extra."
        )
    return (
        f"{model.name} is {model.format.value} weights, and the engine here loads {loads}: "
        "install an engine that loads them (`ocamler doctor` names it), "
        "or wait until `ocamler convert` can make a GGUF of it."
    )
