"""A server's address as a model's name: known as one, and shown without what is secret."""

import pytest

from models.address import Server, is_address, shown_address
from models.errors import UnknownModel


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("http://localhost:8080", True),
        ("HTTPS://example.org/v1", True),
        ("http:/x", False),
        ("httpx", False),
        ("./http://x", False),
        ("", False),
    ],
)
def test_an_address_is_known_by_its_scheme(name, is_one) -> None:
    assert is_address(name) is is_one


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://localhost:8080/v1/", "http://localhost:8080/v1"),
        ("https://me:secret@example.org/v1", "https://example.org/v1"),
        ("https://secret@example.org", "https://example.org"),
        ("https://example.org/v1?api_key=secret#qwen", "https://example.org/v1#qwen"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
        ("http://me:secret@host:port", "http://…"),
        ("http://me:secret@[host", "http://…"),
    ],
)
def test_what_is_secret_is_never_shown(address, shown) -> None:
    assert shown_address(address) == shown
    assert Server(address).name == shown
    assert "secret" not in repr(Server(address))


def test_a_scheme_in_capitals_is_meant_as_any() -> None:
    assert Server(" HTTP://Host:1/V1 ").address == "http://Host:1/V1"


def test_the_store_does_not_look_for_an_address_on_disk(store) -> None:
    with pytest.raises(UnknownModel, match="a server's address and no weights") as caught:
        store.resolve("http://me:secret@localhost:8080")
    assert "secret" not in str(caught.value)
