"""The client of servers: addresses and keys, and all that listens at a port and is not what was hoped for."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator

import pytest
from asking import GREEDY, QUESTION, complete
from stranger import Stranger, answered, refused, said, streamed

from models.engines.openai import OpenAIEngine
from models.engines.openai_address import find_key, parse_address
from models.engines.openai_http import Patience
from models.engines.options import EngineOptions
from models.engines.protocol import Finish, Prompt
from models.errors import EngineError

HURRY = Patience(connect=1.0, answer=1.0, loading=0.3, restart=0.3)
MODELS = {"data": [{"id": "one"}, {"id": "two"}]}


@pytest.fixture
def server() -> Iterator[Callable[..., Stranger]]:
    made: list[Stranger] = []

    def make(models: bytes = answered(json.dumps(MODELS)), chat: bytes = b"") -> Stranger:
        made.append(Stranger({"/v1/models": models, "/v1/chat/completions": chat}))
        return made[-1]

    yield make
    for one in made:
        one.socket.close()


def engine(url: str, **environment: str) -> OpenAIEngine:
    return OpenAIEngine(url, EngineOptions(), environment, patience=HURRY)


@pytest.mark.parametrize(
    ("text", "api", "model"),
    [
        ("http://localhost:8080", "http://localhost:8080/v1", ""),
        ("http://localhost:8080/", "http://localhost:8080/v1", ""),
        ("HTTP://localhost:8080/v1/", "http://localhost:8080/v1", ""),
        ("http://[::1]:8080/v1/chat/completions", "http://[::1]:8080/v1", ""),
        ("https://openrouter.ai/api/v1#qwen/qwen-2.5", "https://openrouter.ai/api/v1", "qwen/qwen-2.5"),
        ("https://x.example/v1#a%20b", "https://x.example/v1", "a b"),
    ],
)
def test_an_address_is_read_with_and_without_its_version(text: str, api: str, model: str):
    address = parse_address(text)
    assert (address.api, address.model) == (api, model)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:8080",
        "ftp://x",
        "http://",
        "http://x:0",
        "http://x:99999",
        "http://[::1",
        "http://a b",
        "http://x?key=s3cret",
        "http://me:s3cret@x",
    ],
)
def test_a_bad_address_is_one_sentence_without_its_secrets(text: str):
    with pytest.raises(EngineError) as caught:
        parse_address(text)
    assert str(caught.value).endswith(".")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "ours", "openai", "sent"),
    [
        ("http://10.0.0.1", "mine", "theirs", "mine"),
        ("http://10.0.0.1", "", "theirs", ""),
        ("http://localhost.example.org", "", "theirs", ""),
        ("https://10.0.0.1", "", "theirs", "theirs"),
        ("http://127.0.0.1", "", "theirs", "theirs"),
    ],
)
def test_openais_key_goes_to_no_host_that_may_be_overheard(url: str, ours: str, openai: str, sent: str):
    environment = {"OCAMLER_API_KEY": ours, "OPENAI_API_KEY": openai}
    assert find_key(parse_address(url), environment).secret == sent


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (refused(401, "key s3cret is wrong"), "OCAMLER_API_KEY"),
        (refused(403, "no"), "OCAMLER_API_KEY"),
        (refused(404, "no"), "OpenAI-compatible"),
        (refused(500, "oops s3cret\n\x1b[31m"), "look into its log"),
        (refused(503, "Loading model"), "not ready"),
        (answered("<!doctype html>", "text/html"), "web page"),
        (answered("{"), "not JSON"),
        (answered("[" * 100_000), "not JSON"),
        (answered('{"data": 7}'), "no list"),
        (answered('{"data": [{"id": 7}]}'), "no text"),
        (answered('{"data": []}'), "no model"),
        (answered("", status=302, more="Location: http://elsewhere/v1\r\n"), "http://elsewhere/v1"),
        (answered(b"\x1f\x8b", more="Content-Encoding: gzip\r\n"), "compressed"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP"),
        (b"", "broke off"),
    ],
)
async def test_whatever_else_listens_is_one_sentence_without_the_key(server, models: bytes, words: str):
    with pytest.raises(EngineError) as caught:
        await engine(server(models).url, OCAMLER_API_KEY="s3cret").load()
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert "s3cret" not in repr(caught.value)


async def test_where_nothing_listens_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(EngineError, match=r"^Nothing listens at http://127\.0\.0\.1:\d+: start the server"):
        await engine(f"http://127.0.0.1:{port}").load()


async def test_a_server_that_speaks_no_tls_is_told(server):
    with pytest.raises(EngineError, match=r"no TLS|no HTTP|broke"):
        await engine(server().url.replace("http", "https")).load()


async def test_an_unknown_model_is_told_with_those_there(server):
    with pytest.raises(EngineError, match=r"has no model three: name one of one, two\.$"):
        await engine(f"{server().url}#three").load()


async def test_a_proxy_does_not_swallow_localhost(server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    await engine(server().url).load()


async def test_the_key_is_sent_and_follows_no_redirection(server):
    elsewhere = server()
    here = server(answered("", status=307, more=f"Location: {elsewhere.url}/v1/models\r\n"))
    with pytest.raises(EngineError, match="name that address"):
        await engine(here.url, OCAMLER_API_KEY="s3cret").load()
    assert b"Bearer s3cret" in here.asked[0]
    assert elsewhere.asked == []


async def test_a_reply_that_begins_anew_is_cut_where_it_repeats_what_was_accepted(server):
    chat = streamed(said("let rec su"), said("m x = "), said("x"), said("", "stop"), "[DONE]")
    completion = await complete(engine(server(chat=chat).url), prefix="let rec sum x ")
    assert (completion.text, completion.finish) == ("= x", Finish.STOP)


async def test_a_reply_that_goes_on_is_left_alone(server):
    chat = streamed(said("= x"), said("", "length"), "[DONE]")
    completion = await complete(engine(server(chat=chat).url), prefix="let rec sum x ")
    assert (completion.text, completion.finish) == ("= x", Finish.LENGTH)


async def test_token_ids_that_a_server_never_told_are_refused(server):
    with pytest.raises(EngineError, match="give the text"):
        await complete(engine(server().url), prefix=[1, 2])


@pytest.mark.parametrize(
    ("chat", "words"),
    [
        (streamed(said("a"), said(7)), "no text"),
        (streamed(said("a"), "{"), "not JSON"),
        (streamed(said("a"), "NaN"), "no object"),
        (streamed(said("a"), {"error": {"message": "out of cheese"}}), "out of cheese"),
        (streamed(said("a")), "broke off"),
        (streamed({"choices": [], "usage": {"prompt_tokens": -1}}), "no count"),
        (streamed(said("x" * 200_000)), "does not end"),
        (answered(b"data: " + b"x" * 5_000_000, "text/event-stream"), "does not end"),
        (refused(400, "This model's maximum context length is 10 tokens"), "exceeds the context"),
    ],
)
async def test_a_hostile_reply_is_one_sentence(server, chat: bytes, words: str):
    with pytest.raises(EngineError) as caught:
        await complete(engine(server(chat=chat).url))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_silent_server_is_cancelled_at_once(server):
    chat = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    one = engine(server(chat=chat).url)
    reading = asyncio.create_task(complete(one))
    await asyncio.sleep(0.05)
    await one.close()
    with pytest.raises(EngineError):
        await reading
    with pytest.raises(EngineError, match="closed"):
        await one.load()
    await one.close()


async def test_the_replies_of_a_batch_come_side_by_side(server):
    chat = streamed(said("a"), said("", "stop"), "[DONE]")
    ends = [
        delta.index
        async for delta in engine(server(chat=chat).url).batch([Prompt(tuple(QUESTION), sampling=GREEDY)] * 6)
        if delta.delta.finish
    ]
    assert sorted(ends) == list(range(6))
