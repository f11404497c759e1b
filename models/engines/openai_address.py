"""Where a server is, and the key that it may be told.

The key is a secret: it goes into a request's header and nowhere else, to no host but the one that was named.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from models.address import shown_address
from models.errors import EngineError

OUR_KEY = "OCAMLER_API_KEY"
OPENAI_KEY = "OPENAI_API_KEY"

_TELLTALE = 4  # characters; fewer of a key tell nothing
_ENDINGS = ("/chat/completions", "/completions", "/models")  # what people copy along with the address


@dataclass(frozen=True, slots=True)
class Address:
    """A server: ``root`` is what comes before ``/v1``; ``model`` is empty where the server is to choose."""

    root: str
    api: str
    model: str
    is_loopback: bool
    is_encrypted: bool


@dataclass(frozen=True, slots=True)
class Key:
    """A secret, empty where there is none, that shows in no trace."""

    secret: str = field(default="", repr=False)

    def hide(self, text: str) -> str:
        """Return a server's words without the key, which some quote."""
        if not self.secret:
            return text
        text = text.replace(self.secret, "…")
        whole = text.rstrip("…")
        for size in range(len(self.secret) - 1, _TELLTALE - 1, -1):
            if whole.endswith(self.secret[:size]):  # cut off with what it stood in
                return whole[:-size] + "…"
        return text


def parse_address(text: str) -> Address:
    """Parse ``http://host:port``, with or without ``/v1`` and ``#model``; raise ``EngineError``."""
    text = text.strip()
    if not text.isprintable() or " " in text:
        raise EngineError("The server's address holds blanks or control characters: write it without.")
    shown = shown_address(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise EngineError(f"{shown} is no address ({error}): write http://localhost:8080, say.") from None
    if parts.username is not None or parts.password is not None:
        raise EngineError(f"The server's address holds a password: put the key into {OUR_KEY} instead.")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise EngineError(f"{shown} is no server's address: write http://localhost:8080, say.")
    if parts.query:
        raise EngineError(f"The address {shown} has a query: write it without, and the key into {OUR_KEY}.")
    path = parts.path.rstrip("/")
    for ending in _ENDINGS:
        path = path.removesuffix(ending)
    root = f"{parts.scheme}://{parts.netloc}{path}"
    # A version other than 1, as of some gateways, is theirs to choose.
    has_version = path.rpartition("/")[2][:1] == "v" and path.rpartition("/")[2][1:2].isdigit()
    return Address(
        root=root.rpartition("/")[0] if has_version else root,
        api=root if has_version else f"{root}/v1",
        model=unquote(parts.fragment),
        is_loopback=_is_loopback(parts.hostname),
        is_encrypted=parts.scheme == "https",
    )


def find_key(address: Address, environment: Mapping[str, str]) -> Key:
    """Return the key for a server; OpenAI's own is for no host that might be overheard."""
    for name in (OUR_KEY, OPENAI_KEY):
        may_be_told = name == OUR_KEY or address.is_encrypted or address.is_loopback
        if may_be_told and (secret := environment.get(name, "").strip()):
            if not (secret.isascii() and secret.isprintable()):
                raise EngineError(f"{name} holds characters that no key has: set it anew.")
            return Key(secret)
    return Key()


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
