"""mlx-lm, imported without what costs a start most of its time and us nothing: its tokenizers.

They come with transformers, which takes 1.4 s to import, and where torch is installed 4 s; ours come from
``hf_folder``. What is imported here is good for loading and computing, not for ``mlx_lm.load``.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_TRANSFORMERS = ("transformers", "transformers.tokenization_utils_base")


class _Obliging(type):
    """The type of classes that have every method, none of which does anything."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


class _StandIn(ModuleType):
    """A module in which every name is a class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Obliging(name, (), {})


@contextmanager
def _without_transformers() -> Iterator[None]:
    sys.modules.update({name: _StandIn(name) for name in _TRANSFORMERS})
    try:
        yield
    finally:
        for name in _TRANSFORMERS:
            del sys.modules[name]


def _import() -> None:
    if not {"mlx_lm", "transformers"} & sys.modules.keys():
        try:
            with _without_transformers():
                import mlx_lm.utils
            return
        except Exception:  # a release that asks more of transformers gets it
            for name in [name for name in sys.modules if name.partition(".")[0] == "mlx_lm"]:
                del sys.modules[name]
    import mlx_lm.utils  # noqa: F401


_import()

from mlx_lm.models import cache as caches  # noqa: E402
from mlx_lm.utils import _get_classes as classes_of  # noqa: E402
from mlx_lm.utils import load_config, load_model, maybe_set_recommended_wired_limit  # noqa: E402

__all__ = ["caches", "classes_of", "load_config", "load_model", "maybe_set_recommended_wired_limit"]
