"""The messages between an engine and its child: every one survives the trip, nothing else does."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.catalogue import PromptFormat
from models.engines.options import EngineOptions
from models.engines.protocol import Delta, Finish, Footprint, Message, Prompt, Role, Sampling, Usage
from models.engines.utf8 import Utf8Assembler
from models.engines.wire import (
    Cancel,
    Failed,
    Generate,
    KeepWarm,
    Load,
    Loaded,
    Piece,
    Request,
    Response,
    Welcome,
    WireError,
    decode_request,
    decode_response,
    encode,
)

ANY_TEXT = 'naïve 🐫\n\r\0\u2028 \ud800 "quoted" \\ </script>'

REQUESTS: list[Request] = [
    Load(1, "/a folder/mo\udcffdel.gguf", EngineOptions()),
    Load(2, "m", EngineOptions(1, 2, 3, 4, PromptFormat.CHATML, 5, "/home", "/states", 6)),
    Generate(3, ()),
    Generate(4, (Prompt((Message(Role.USER, ANY_TEXT),), ANY_TEXT, (1, 2), Sampling(0.7, 1, 5, -(2**70))),)),
    Generate(5, (Prompt(tuple(Message(role, "") for role in Role), (1, 2, 3)), Prompt(())), is_batch=True),
    Cancel(6),
    Cancel(7, 0),
    KeepWarm(8, 0.5),
]
RESPONSES: list[Response] = [
    Loaded(1, Footprint(4096, 10**10)),
    Welcome(0, 12345),
    Failed(2, ANY_TEXT),
    Piece(3, Delta(ANY_TEXT, (1, 2), 0.5, None, (0.25, 0.5))),
    *(Piece(4, Delta("", finish=finish, usage=Usage(10, 3, 2, 7)), 5) for finish in Finish),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_comes_out_as_it_went_in(request_: Request):
    assert decode_request(encode(request_)) == request_


@pytest.mark.parametrize("response", RESPONSES)
def test_a_response_comes_out_as_it_went_in(response: Response):
    assert decode_response(encode(response)) == response


@pytest.mark.parametrize("message", [*REQUESTS, *RESPONSES])
def test_a_message_is_one_line_of_ascii(message: Request | Response):
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert line.isascii()


@given(st.text(), st.lists(st.integers(min_value=0, max_value=2**31)), st.floats(0, 100))
def test_any_delta_survives(text: str, tokens: list[int], entropy: float):
    piece = Piece(1, Delta(text, tuple(tokens), entropy, entropies=(entropy,)))
    assert decode_response(encode(piece)) == piece


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"Segmentation fault\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"[" * 100_000 + b"\n",
        b"{}\n",
        b'{"is": "Loaded"}\n',
        b'{"is": "Loaded", "id": "1"}\n',
        b'{"is": "Loaded", "id": true}\n',
        b'{"is": "Cancel", "id": null}\n',
        b'{"is": "Reboot", "id": 1}\n',
        b'{"is": "Failed", "id": 1, "message": 3}\n',
        b'{"is": "Piece", "id": 1, "delta": []}\n',
        encode(RESPONSES[3]).replace(b'"entropies":[0.25,0.5]', b'"entropies":["a"]'),
        encode(RESPONSES[-1]).replace(b'"cancelled"', b'"bored"'),
        encode(REQUESTS[3]).replace(b'"user"', b'"wizard"'),
        encode(REQUESTS[1]).replace(b'"chatml"', b'"morse"'),
        encode(REQUESTS[4]).replace(b"[1,2,3]", b"7"),
        b'{"is": "KeepWarm", "id": 1, "seconds": 1' + b"0" * 400 + b"}\n",
    ],
)
def test_a_line_that_is_no_message_is_refused(line: bytes):
    for decode in (decode_request, decode_response):
        with pytest.raises(WireError):
            decode(line)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_bytes_cut_anywhere_give_the_text_of_the_whole(data: bytes, cuts: list[int]):
    assembler = Utf8Assembler()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    texts = [assembler.feed(data[start:end]) for start, end in pairwise(edges)]
    assert "".join(text or "" for text in texts) + assembler.end() == data.decode(errors="replace")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_text_between_whole_characters_is_itself(text: str):
    assembler = Utf8Assembler()
    assert [assembler.feed(character.encode()) for character in text] == list(text)
    assert assembler.end() == ""
