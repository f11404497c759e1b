"""The process that owns a loaded model, started as ``python -P -m models.engines.child ENGINE``.

Requests come on the descriptor that was stdin, answers leave on the one that was stdout. Native
libraries print where they like, so 1 and 2 both lead to the parent's log from the first moment on.
With ``--warm SOCKET SECONDS`` it outlives who started it: clients come through the socket, one after the
other, until none has come for so long.
"""

import os
import sys
import time
from pathlib import Path
from typing import BinaryIO, NoReturn

from models.engines import machine
from models.engines.backend import Backend, Interrupt
from models.engines.serving import Client, Server, start
from models.errors import EngineError

_PARENT_CHECK_SECONDS = 1.0


def main(arguments: list[str]) -> NoReturn:
    """Serve requests until the parent closes the pipe or dies, or nobody comes any more."""
    match arguments:
        case [engine, "--warm", socket, seconds]:
            from models.engines.warm_child import serve_socket

            serve_socket(Server(lambda interrupt: _backend(engine, interrupt)), Path(socket), float(seconds))
        case [engine]:
            _serve_parent(Server(lambda interrupt: _backend(engine, interrupt)))
        case _:
            sys.exit(f"usage: python -m models.engines.child ENGINE, not {' '.join(arguments)}")


def _serve_parent(server: Server) -> NoReturn:
    requests, answers = _take_the_wire()
    parent = os.getppid()

    def listen() -> None:
        server.listen(Client(answers), requests)
        # The parent is gone or has closed us: not sys.exit, which would wait for the main thread to be done.
        os._exit(0)

    start(listen, "listen")
    start(lambda: _watch_parent(parent), "watch parent")
    server.run()


def _take_the_wire() -> tuple[BinaryIO, BinaryIO]:
    """Move the pipes away from 0 and 1, where libraries would read and write."""
    requests, responses = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb"), os.fdopen(responses, "wb")


def _watch_parent(parent: int) -> None:
    """End with the parent also where another process inherited its end of the pipe."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(0)


def _backend(engine: str, interrupt: Interrupt) -> Backend:
    try:
        match engine:
            case "llama":
                from models.engines.llama import LlamaBackend

                return LlamaBackend(interrupt)
            case "mlx":
                from models.engines.mlx import MlxBackend

                return MlxBackend(interrupt)
            case "transformers":
                from models.engines.transformers import TransformersBackend

                return TransformersBackend(interrupt)
            case other:
                raise EngineError(f"There is no engine called {other}: use llama, mlx or transformers.")
    except ImportError as error:
        raise EngineError(f"{_PACKAGES[engine]} is not installed ({error}): {_remedy(engine)}.") from error
    except (OSError, RuntimeError) as error:
        package = _PACKAGES[engine]
        raise EngineError(
            f"{package} is broken ({error}): reinstall it with "
            f"`pip install --force-reinstall --no-cache-dir {package}`."
        ) from error


def _remedy(engine: str) -> str:
    if engine == "mlx" and not machine.is_apple_silicon():
        return "it is made for Apple silicon, so use the llama or the transformers engine"
    return f"run `pip install 'ocamler[{engine}]'`"


_PACKAGES = {"llama": "llama-cpp-python", "mlx": "mlx-lm", "transformers": "transformers"}


if __name__ == "__main__":
    main(sys.argv[1:])
