"""What an engine's process does with requests: one after the other, in the one thread that may use the model.

Each client has a thread that listens, so that a cancel or a client's end is heard at any time; the main
thread does everything else, because a model must be used in the thread that loaded it.
"""

import itertools
import os
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, NoReturn, TypeAlias

from models.engines.backend import Backend, Interrupt
from models.engines.protocol import CANCELLED
from models.engines.wire import (
    Cancel,
    Failed,
    Generate,
    KeepWarm,
    Load,
    Loaded,
    Piece,
    Response,
    decode_request,
    encode,
)
from models.errors import EngineError

MakeBackend: TypeAlias = Callable[[Interrupt], Backend]

_numbers = itertools.count()


class Client:
    """Somebody who sends requests and gets the answers; ``is_gone`` once nobody reads them any more.

    ``hang_up`` is called when an answer cannot be delivered: half of it may be, so no other may follow.
    """

    def __init__(self, answers: BinaryIO, hang_up: Callable[[], None] = lambda: None) -> None:
        self.number = next(_numbers)
        self.is_gone = False
        self._answers = answers
        self._hang_up = hang_up
        self._lock = threading.Lock()

    def send(self, response: Response) -> None:
        """Answer, unless nobody reads it."""
        with self._lock:
            if self.is_gone:
                return
            try:
                self._answers.write(encode(response))
                self._answers.flush()
            except (OSError, ValueError):  # a broken pipe, or closed by the listening thread
                self.is_gone = True
                self._hang_up()

    def close(self) -> None:
        """Send nothing more."""
        self.is_gone = True


class Server:
    """Answers the requests of all clients with one backend, which is made by the first of them.

    ``is_broken`` is whether that failed the last time: what is left of half an import serves nobody any more.
    """

    def __init__(self, make_backend: MakeBackend) -> None:
        self.is_broken = False
        self._make_backend = make_backend
        self._interrupt = Interrupt()
        self._inbox: SimpleQueue[tuple[Client, Load | Generate]] = SimpleQueue()
        self._waiting: dict[tuple[int, int], Load | Generate] = {}  # for their turn; taken out by one thread
        self._backend: Backend | None = None

    def listen(self, client: Client, lines: Iterable[bytes]) -> None:
        """Take a client's requests to their end; then what it still waits for is cancelled."""
        running: int | None = None
        try:
            for line in lines:
                match decode_request(line):
                    case Cancel(number, None):
                        self._interrupt.cancel((client.number, number))
                        self._answer_cancelled(client, number)
                    case Cancel(number, int() as index):
                        self._interrupt.drop((client.number, number), index)
                    case Load() | Generate() as request:
                        running = request.id
                        self._waiting[client.number, request.id] = request
                        self._inbox.put((client, request))
                    case KeepWarm():
                        pass  # this process ends with its parent
        finally:
            client.close()
            if running is not None:
                self._interrupt.cancel((client.number, running))

    def run(self) -> NoReturn:
        """Answer for ever; belongs to the main thread."""
        while True:
            client, request = self._inbox.get()
            is_wanted = self._waiting.pop((client.number, request.id), None) is not None
            if is_wanted and not client.is_gone:
                self._interrupt.begin((client.number, request.id))
                self._answer(client, request)

    def _answer_cancelled(self, client: Client, number: int) -> None:
        """Answer replies whose turn has not come: whoever has it may take longer than a cancel may."""
        key = client.number, number
        if not isinstance(self._waiting.get(key), Generate):
            return
        request = self._waiting.pop(key, None)
        if isinstance(request, Generate):
            for index in range(len(request.prompts)):
                client.send(Piece(number, CANCELLED, index))

    def _answer(self, client: Client, request: Load | Generate) -> None:
        """Answer whatever happens: a request without an answer would hang the client."""
        try:
            self._serve(client, request)
        except EngineError as error:
            client.send(Failed(request.id, str(error)))
        except MemoryError:
            client.send(Failed(request.id, "There is not enough memory: choose a smaller model or context."))
        except Exception as error:
            traceback.print_exc()
            client.send(Failed(request.id, f"The engine failed ({error!r}): please report this."))

    def _serve(self, client: Client, request: Load | Generate) -> None:
        if self._backend is None:
            try:
                self._backend = self._make_backend(self._interrupt)
            except Exception:
                self.is_broken = True
                raise
            self.is_broken = False
        match request:
            case Load(number, path, options):
                client.send(Loaded(number, self._backend.load(Path(path), options)))
            case Generate(number, prompts, is_batch=True):
                for part in self._backend.batch(prompts):
                    client.send(Piece(number, part.delta, part.index))
            case Generate(number, prompts):
                for delta in self._backend.generate(prompts[0]):
                    client.send(Piece(number, delta))


def start(serve: Callable[[], None], name: str) -> None:
    """Run ``serve`` on a thread of its own; when it fails the process ends, and the parent reads why."""

    def run() -> None:
        try:
            serve()
        except BaseException:
            traceback.print_exc()
            os._exit(70)

    threading.Thread(target=run, name=name, daemon=True).start()
