"""A server's address where a model's name may stand, and how it is shown: never with a password or a key."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit


@dataclass(frozen=True, slots=True)
class Server:
    """A model behind an address; ``name`` is what may be told of it."""

    spelled: str = field(repr=False)

    @property
    def address(self) -> str:
        """The address with its scheme in small letters."""
        scheme, colon, rest = self.spelled.strip().partition(":")
        return scheme.lower() + colon + rest

    @property
    def name(self) -> str:
        """The address without what is secret in it."""
        return shown_address(self.spelled)


def is_address(name: str) -> bool:
    """Whether a model's name is a server's address: nothing on disk is meant then."""
    return name.lstrip().lower().startswith(("http://", "https://"))


def shown_address(address: str) -> str:
    """Return an address without user, password and query, where keys stand; what follows # is a model."""
    try:
        parts = urlsplit(address.strip())
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:  # no port, or a bracket too many: whatever stands there may be a secret
        return f"{address.strip().partition(':')[0].lower()}://…"
    host = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", parts.fragment))
