"""llama.cpp's C functions as llama-cpp-python binds them, without the rest of that package.

Importing the package itself runs its high-level half, which we do not use: numpy, jinja2 and diskcache take
0.2 s of a start, two of which are imported while the weights are being read.
"""

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING

__all__ = ["native"]


def _import_bindings() -> object:
    if "llama_cpp" in sys.modules:
        return importlib.import_module("llama_cpp.llama_cpp")
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None:
        raise ModuleNotFoundError("No module named 'llama_cpp'", name="llama_cpp")
    # The package, not run: a place to find the module in. Who imports the package later gets the real one.
    sys.modules["llama_cpp"] = importlib.util.module_from_spec(spec)
    try:
        return importlib.import_module("llama_cpp.llama_cpp")
    finally:
        del sys.modules["llama_cpp"]


if TYPE_CHECKING:
    from llama_cpp import llama_cpp as native
else:
    native = _import_bindings()
