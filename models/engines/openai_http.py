"""Talking to a server over HTTP: JSON there and back, streams of events, and a sentence for all that fails.

A server is a stranger: what it sends is bounded while it comes, and its own words are quoted cut and clean.
"""

import asyncio
import codecs
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from models.engines.openai_address import OUR_KEY, Address, Key
from models.engines.openai_wire import (
    Complaint,
    Malformed,
    complaint,
    is_complaint,
    parse_complaint,
    parse_json,
)
from models.errors import EngineError

_BODY_BYTES = 32 << 20  # of an answer that is no stream; a list of all the models of a gateway has 1 MB
_LINE_BYTES = 4 << 20  # of a stream; the longest, vLLM's first with the ids of a long prompt, has 1 MB
_REFUSAL_BYTES = 64 << 10
_LOADING_PAUSE = 0.2  # seconds
_LONGEST_PAUSE = 60.0  # that a busy server may ask for
_WRITE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait.

    They are: to connect, for the next word (prompts take minutes on a CPU), for a server that is still
    loading its model, and for one that died to be back.
    """

    connect: float = 5.0
    answer: float = 900.0
    loading: float = 300.0
    restart: float = 10.0


class ServerLost(EngineError):
    """The server is not there (any more); the same request may succeed once it is back."""


class Refused(EngineError):
    """The server answers, and will not; ``status`` is HTTP's, or 0 within a stream."""

    def __init__(self, sentence: str, status: int, complaint: Complaint) -> None:
        super().__init__(sentence)
        self.status = status
        self.complaint = complaint


class Server:
    """The connections to a server, within one event loop; closed like a file."""

    def __init__(self, address: Address, key: Key, patience: Patience) -> None:
        self.name = address.root
        self.api = address.api
        self.address = address
        self._key = key
        self._patience = patience
        headers = {"Accept-Encoding": "identity", "User-Agent": "ocamler"}
        if key.secret:
            headers["Authorization"] = f"Bearer {key.secret}"
        with self._in_sentences():
            self._client = httpx.AsyncClient(
                base_url=address.root,
                headers=headers,
                timeout=httpx.Timeout(
                    patience.answer, connect=patience.connect, write=_WRITE_SECONDS, pool=None
                ),
                follow_redirects=False,  # the key is for nobody else
                trust_env=not address.is_loopback,  # no proxy reaches our localhost
                verify=_trusted() if address.is_encrypted else _nothing(),
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(self, path: str) -> object:
        """Return the JSON at a path, or under a whole address."""
        async with self._open("GET", path, None) as response:
            return self._checked(await self._body(response))  # LM Studio refuses with status 200

    async def post(self, path: str, body: object) -> object:
        """Return the JSON that answers ``body``."""
        async with self._open("POST", path, body) as response:
            return self._checked(await self._body(response))

    async def events(self, path: str, body: object, most_bytes: int) -> AsyncGenerator[object, None]:
        """Yield the JSON of each event that answers ``body``; a server that does not stream has one."""
        async with self._open("POST", path, body) as response:
            if _kind(response).startswith("application/json"):
                yield self._checked(await self._body(response))
                return
            async with aclosing(self._lines(response, most_bytes)) as lines:
                async for line in lines:
                    if line == b"[DONE]":
                        return
                    yield self._checked(self._parsed(line))

    def sentence(self, what: str) -> EngineError:
        """Return the error for an answer that cannot be what it should."""
        return EngineError(
            f"The answer of the server at {self.name} cannot be used ({self._key.hide(what)}): "
            "name an OpenAI-compatible server."
        )

    def broke_off(self) -> "ServerLost":
        """Return the error for an answer that ended too early."""
        return ServerLost(f"The server at {self.name} broke off its answer: look into its log.")

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Turn ``Malformed`` into a sentence."""
        try:
            yield
        except Malformed as error:
            raise self.sentence(str(error)) from None

    def _checked(self, event: object) -> object:
        if is_complaint(event):
            raise self._refusal(0, complaint(event))
        return event

    @asynccontextmanager
    async def _open(self, method: str, path: str, body: object) -> AsyncIterator[httpx.Response]:
        """Yield an answer that is no refusal; waits while the server loads its model."""
        until = time.monotonic() + self._patience.loading
        with self._in_sentences():
            request = self._client.build_request(method, path, json=body)
            while True:
                response = await self._client.send(request, stream=True)
                try:
                    if response.is_success:
                        self._refuse_compressed(response)
                        yield response
                        return
                    refusal = await self._read_refusal(response)
                finally:
                    await response.aclose()
                pause = _pause(refusal, response.headers.get("retry-after", ""))
                if pause is None or time.monotonic() + pause > until:
                    raise refusal
                await asyncio.sleep(pause)

    async def _read_refusal(self, response: httpx.Response) -> Refused:
        if response.is_redirect:
            target = urlsplit(response.headers.get("location", ""))
            where = f"{target.scheme}://{target.netloc}{target.path}" if target.netloc else target.path
            where = "".join(char for char in where if char.isprintable())[:200]
            sentence = f"The server at {self.name} sends us on to {self._key.hide(where)}: name that address."
            return Refused(sentence, response.status_code, Complaint("", False))
        data = b""
        async for chunk in response.aiter_raw():
            data += chunk
            if len(data) > _REFUSAL_BYTES:
                break
        return self._refusal(response.status_code, parse_complaint(data[:_REFUSAL_BYTES]))

    def _refusal(self, status: int, complaint: Complaint) -> Refused:
        words = self._key.hide(complaint.words)
        complaint = replace(complaint, words=words)
        said = f" ({words})" if words else ""
        server = f"The server at {self.name}"
        if complaint.is_context:
            sentence = f"The prompt exceeds the context of the server at {self.name}{said}: shorten it."
        elif status in (401, 403) and self._key.secret:
            sentence = f"{server} refuses the key: put the right one into {OUR_KEY}."
        elif status in (401, 403):
            sentence = f"{server} wants a key: put it into {OUR_KEY}."
        elif status == 404:
            sentence = (
                f"{server} knows no such thing{said}: check that it is OpenAI-compatible, and its address."
            )
        elif status == 429:
            sentence = f"{server} has had too many requests{said}: try again later."
        elif status == 503:
            sentence = f"{server} is not ready{said}: try again later."
        else:
            failed = "refuses the request" if 400 <= status < 500 else "failed"
            sentence = f"{server} {failed}{said or f' (it says {status})'}: look into its log."
        return Refused(sentence, status, complaint)

    def _refuse_compressed(self, response: httpx.Response) -> None:
        # We asked for none: a few compressed bytes could fill the memory.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise self.sentence("it is compressed")

    async def _body(self, response: httpx.Response) -> object:
        data = bytearray()
        async for chunk in response.aiter_raw():
            data += chunk
            if len(data) > _BODY_BYTES:
                raise self.sentence("it does not end")
        if "html" in _kind(response):
            raise self.sentence("it is a web page")
        return self._parsed(bytes(data))

    def _parsed(self, data: bytes) -> object:
        with self.parsing():
            return parse_json(data)

    async def _lines(self, response: httpx.Response, most_bytes: int) -> AsyncGenerator[bytes, None]:
        """Yield the data of each event; comments, which keep the line alive, have none."""
        if "html" in _kind(response):
            raise self.sentence("it is a web page")
        rest, total = b"", 0
        async for chunk in response.aiter_raw():
            total += len(chunk)
            *lines, rest = re.split(rb"\r\n|\n|\r(?!\Z)", rest + chunk)
            for line in lines:
                if data := _event_data(line):
                    yield data
            if total > most_bytes or len(rest) > _LINE_BYTES:
                raise self.sentence("it does not end")
        if data := _event_data(rest):
            yield data

    @contextmanager
    def _in_sentences(self) -> Iterator[None]:
        """Turn what httpx raises into sentences; without its cause, which holds the request and its key."""
        try:
            yield
        except httpx.ConnectTimeout:
            seconds = self._patience.connect
            raise ServerLost(
                f"The server at {self.name} does not answer within {seconds:g} s: check the address."
            ) from None
        except httpx.TimeoutException:
            seconds = self._patience.answer
            raise EngineError(
                f"The server at {self.name} has said nothing for {seconds:g} s: look into its log."
            ) from None
        except httpx.ProxyError as error:
            raise EngineError(
                f"The proxy to {self.name} refuses ({_words(error)}): check the proxy variables."
            ) from None
        except httpx.ConnectError as error:
            raise self._not_connected(error) from None
        except httpx.NetworkError as error:
            raise ServerLost(
                f"The connection to the server at {self.name} broke{_said(error)}: look into its log."
            ) from None
        except httpx.RemoteProtocolError as error:
            if str(error).startswith(("Server disconnected", "peer closed")):
                raise self.broke_off() from None
            raise self.sentence("it is no HTTP") from None
        except OSError:  # only authorities are read
            raise EngineError(
                f"The certificates for {self.name} cannot be read: check the file in SSL_CERT_FILE."
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:
            raise EngineError(
                f"The server at {self.name} cannot be asked ({self._key.hide(_words(error))}): "
                "check the address and the proxy variables."
            ) from None

    def _not_connected(self, error: httpx.ConnectError) -> EngineError:
        words = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in words:
            return EngineError(
                f"The certificate of {self.name} cannot be trusted ({_words(error)}): "
                "name its authority's file in SSL_CERT_FILE."
            )
        if re.search("name or service|nodename|name resolution|no address associated", words, re.IGNORECASE):
            host = urlsplit(self.address.root).hostname
            return EngineError(f"There is no host called {host}: check the address.")
        if self.address.is_encrypted and "attempts failed" not in words:
            return EngineError(f"The server at {self.name} speaks no TLS: write http:// instead of https://.")
        if not self.address.is_loopback and {"all", urlsplit(self.name).scheme} & getproxies().keys():
            return ServerLost(
                f"The proxy to {self.name}, or the server, does not answer: check the proxy variables."
            )
        return ServerLost(f"Nothing listens at {self.name}: start the server, or name another address.")


def _pause(refusal: Refused, retry_after: str) -> float | None:
    """Return the seconds after which the server may answer; None where to wait is of no use."""
    if refusal.status == 503 and "loading" in refusal.complaint.words.lower():
        return _LOADING_PAUSE
    if refusal.status in (429, 503) and re.fullmatch(r"\d{1,3}(\.\d+)?", retry_after, re.ASCII):
        seconds = max(_LOADING_PAUSE, float(retry_after))
        return seconds if seconds <= _LONGEST_PAUSE else None
    return None


def _kind(response: httpx.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.lower()


def _event_data(line: bytes) -> bytes:
    name, colon, value = line.removeprefix(codecs.BOM_UTF8).partition(b":")
    if not colon:
        return b""
    if name == b"error":  # llama-server before 2025
        return b'{"error":' + value + b"}"
    return value.strip() if name == b"data" else b""


def _words(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__


def _said(error: Exception) -> str:
    return f" ({_words(error)})" if str(error) else ""


@cache
def _trusted() -> ssl.SSLContext:
    """The authorities that httpx brings, or those of SSL_CERT_FILE; reading them costs 20 ms."""
    return httpx.create_ssl_context()


@cache
def _nothing() -> ssl.SSLContext:
    """Trust nobody: no request goes over it, and no authority need be read."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
