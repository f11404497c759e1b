"""Everything that can go wrong with a model, each a sentence that ends in what to do."""


class ModelError(Exception):
    """A model cannot be found, fetched, trusted, loaded or kept alive."""


class UnknownModel(ModelError):
    """The name is neither installed, nor in the catalogue, nor a path."""


class NotPulled(ModelError):
    """The catalogue knows the model, whose weights are not here yet; ``name`` is what to pull."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class NotConverted(ModelError):
    """The model exists only in a format that the engines at hand cannot load."""


class NotAModel(ModelError):
    """A file or folder is not weights that we can read."""


class DownloadFailed(ModelError):
    """No source gave the weights."""


class SourceUnreachable(DownloadFailed):
    """One source did not answer; another may."""


class BrokeOff(DownloadFailed):
    """A source stopped half-way; what came is kept, and the same pull goes on from there."""


class DamagedFile(ModelError):
    """Bytes on disk, or bytes that came, are not the pinned ones."""


class NoSpace(ModelError):
    """The weights do not fit on the disk."""


class StoreError(ModelError):
    """The folder that holds the weights cannot be read or written."""


class EngineError(ModelError):
    """A model does not load, or its process died."""
