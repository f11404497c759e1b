"""The process that owns a loaded model, started as ``python -P -m models.engines.child ENGINE``.

Requests come on the descriptor that was stdin, answers leave on the one that was stdout. Native
libraries print where they like, so 1 and 2 both lead to the parent's log from the first moment on.
One thread listens, so that a cancel and the parent's death are heard at any time; the main thread
does everything else, because a model must be used in the thread that loaded it.
"""

import os
import sys
import threading
import time
import traceback
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, NoReturn

from models.engines.backend import Backend, Interrupt
from models.engines.wire import (
    Cancel,
    Failed,
    Generate,
    Load,
    Loaded,
    Piece,
    Request,
    Response,
    decode_request,
    encode,
)
from models.errors import EngineError

_PARENT_CHECK_SECONDS = 1.0


def main(engine: str) -> NoReturn:
    """Serve requests until the parent closes the pipe or dies."""
    requests, responses = _take_the_wire()
    interrupt = Interrupt()
    inbox: SimpleQueue[Request] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests, inbox, interrupt), daemon=True).start()
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    server = _Server(engine, interrupt, responses)
    while True:
        server.answer(inbox.get())


class _Server:
    """Answers requests one after the other."""

    def __init__(self, engine: str, interrupt: Interrupt, responses: BinaryIO) -> None:
        self._engine = engine
        self._interrupt = interrupt
        self._responses = responses
        self._backend: Backend | None = None

    def answer(self, request: Request) -> None:
        """Answer whatever happens: a request without an answer would hang the parent."""
        self._interrupt.begin(request.id)
        try:
            self._answer(request)
        except EngineError as error:
            self._send(Failed(request.id, str(error)))
        except MemoryError:
            self._send(Failed(request.id, "There is not enough memory: choose a smaller model or context."))
        except Exception as error:
            traceback.print_exc()
            self._send(Failed(request.id, f"The engine failed ({error!r}): please report this."))

    def _answer(self, request: Request) -> None:
        if self._backend is None:
            self._backend = _backend(self._engine, self._interrupt)
        match request:
            case Load():
                self._backend.load(Path(request.path), request.options)
                self._send(Loaded(request.id))
            case Generate():
                for delta in self._backend.generate(request):
                    self._send(Piece(request.id, delta))

    def _send(self, response: Response) -> None:
        try:
            self._responses.write(encode(response))
            self._responses.flush()
        except BrokenPipeError:
            os._exit(0)


def _take_the_wire() -> tuple[BinaryIO, BinaryIO]:
    """Move the pipes away from 0 and 1, where libraries would read and write."""
    requests, responses = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb"), os.fdopen(responses, "wb")


def _listen(requests: BinaryIO, inbox: "SimpleQueue[Request]", interrupt: Interrupt) -> None:
    try:
        for line in requests:
            request = decode_request(line)
            if isinstance(request, Cancel):
                interrupt.cancel(request.id)
            else:
                inbox.put(request)
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    # The parent is gone or has closed us: not sys.exit, which would wait for the main thread to be done.
    os._exit(0)


def _watch_parent(parent: int) -> None:
    """End with the parent also where another process inherited its end of the pipe."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(0)


def _backend(engine: str, interrupt: Interrupt) -> Backend:
    match engine:
        case "llama":
            try:
                from models.engines.llama import LlamaBackend
            except ImportError as error:
                raise EngineError(
                    f"llama-cpp-python is not installed ({error}): run `pip install 'ocamler[llama]'`."
                ) from error
            except (OSError, RuntimeError) as error:
                raise EngineError(
                    f"llama-cpp-python is broken ({error}): reinstall it with "
                    "`pip install --force-reinstall --no-cache-dir llama-cpp-python`."
                ) from error
            return LlamaBackend(interrupt)
        case other:
            raise EngineError(f"There is no engine called {other}: use llama.")


if __name__ == "__main__":
    main(sys.argv[1])
