"""What servers stream, odd as it is: the reply is whole, or one sentence says why not; and their keys."""

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import GREEDY, complete, complete_all, deltas_of
from stranger import Answer, Stranger, answered, refused, said, streamed

from models.engines.openai import OpenAIEngine
from models.engines.openai_http import Patience
from models.engines.options import EngineOptions
from models.engines.protocol import Finish, Message, Prompt, Role
from models.errors import EngineError

HURRY = Patience(connect=1.0, answer=2.0, loading=3.0, restart=0.3)
KEY = "sk-s3cret-0123456789"
REPLY = [said("let x "), said("= 1"), said("", "stop")]
USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
TEXT = "let x = 1"


@pytest.fixture
def stranger() -> Iterator[Callable[..., Stranger]]:
    made: list[Stranger] = []

    def make(chat: Answer = b"", models: object = None, **more: Any) -> Stranger:
        listed = models if isinstance(models, bytes) else answered(json.dumps(models or _listing("one")))
        made.append(Stranger({"/v1/models": listed, "/v1/chat/completions": chat}, **more))
        return made[-1]

    yield make
    for one in made:
        one.socket.close()


def _listing(name: str, owner: str = "somebody") -> object:
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner}]}


def engine(server: Stranger, patience: Patience = HURRY, **environment: str) -> OpenAIEngine:
    return OpenAIEngine(server.url, EngineOptions(), environment, patience=patience)


def _raw(text: str) -> bytes:
    return answered(text, "text/event-stream; charset=utf-8")


def _ollama(content: str, **more: object) -> object:
    choice = {"index": 0, "delta": {"role": "assistant", "content": content}, "finish_reason": None}
    chunk = {"id": "chatcmpl-923", "object": "chat.completion.chunk", "system_fingerprint": "fp_ollama"}
    return chunk | {"created": 1756921364, "model": "llama3.2:3b", "choices": [choice | more]}


def _lm_studio(delta: object, finish: str | None = None) -> object:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {"id": "chatcmpl-abc", "object": "chat.completion.chunk", "system_fingerprint": "qwen2.5-coder"}
    return chunk | {"created": 1756921364, "model": "qwen2.5-coder", "choices": [choice]}


LINES = [json.dumps(event) for event in REPLY]
ODD_BUT_WHOLE = {
    "no [DONE]": streamed(*REPLY),
    "nothing after [DONE]": streamed(*REPLY, "[DONE]", said("more")),
    "no blank after data:": _raw("".join(f"data:{line}\n\n" for line in LINES)),
    "no last newline": _raw("\n\n".join(f"data: {line}" for line in LINES)),
    "keep-alive comments": _raw(": OPENROUTER PROCESSING\n\n" + ": ping\n\n".join(f"data: {one}\n\n" for one in LINES)),
    "\\r\\n": _raw("".join(f"data: {line}\r\n\r\n" for line in LINES)),
    "\\r": _raw("".join(f"data: {line}\r\r" for line in LINES)),
    "a BOM": _raw("\ufeff" + "".join(f"data: {line}\n\n" for line in LINES)),
    "names, ids and retries": _raw("".join(f"event: message\nid: 7\nretry: 10\ndata: {one}\n\n" for one in LINES)),
    "usage only": streamed({"choices": [], "usage": None}, *REPLY, USAGE, "[DONE]"),
    "usage in every part": streamed(*({**event, "usage": USAGE["usage"]} for event in REPLY)),
    "no choices": streamed({"id": "x"}, {"choices": None}, *REPLY),
    "null and absent content": streamed(
        {"choices": [{"delta": {"role": "assistant", "content": None}}]},
        {"choices": [{"delta": None}]},
        {"choices": [{"index": 0}]},
        *REPLY,
    ),
    "thoughts": streamed(
        {"choices": [{"delta": {"reasoning_content": "hm", "content": None}}]},
        {"choices": [{"delta": {"reasoning": "hm", "content": ""}}]},
        *REPLY,
    ),
    "tool calls": streamed(
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]}, *REPLY
    ),
    "huge numbers": streamed(
        {"created": 10**300, "id": 10**30, "choices": [{"delta": {"content": ""}, "index": 10**40}]},
        {"choices": [{"delta": {}, "logprobs": {"content": [{"token": "", "logprob": -(10**400), "top_logprobs": [{"logprob": -(10**400)}]}]}}]},
        *REPLY,
    ),
    "an unknown finish": streamed(*REPLY[:2], said("", "satisfied")),
    "an empty finish as long as it goes on": streamed(said("let x ", ""), said("= 1", ""), said(None, "stop")),
    "an error that is none": streamed(*({**event, "error": ""} for event in REPLY)),
    "not streamed": answered(json.dumps({"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}]})),
    "not streamed, in capitals": answered(
        json.dumps({"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}]}), "Application/JSON"
    ),
    "Ollama's": streamed(_ollama("let x "), _ollama("= 1"), _ollama("", finish_reason="stop"), _ollama("") | USAGE, "[DONE]"),
    "LM Studio's": streamed(
        _lm_studio({"role": "assistant", "content": "let x "}),
        _lm_studio({"role": "assistant", "content": "= 1"}),
        _lm_studio({}, "stop"),
        "[DONE]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("chat", ODD_BUT_WHOLE.values(), ids=ODD_BUT_WHOLE)
async def test_an_odd_stream_is_read_whole(stranger, chat: bytes):
    completion = await complete(engine(stranger(chat)))
    assert (completion.text, completion.finish) == (TEXT, Finish.STOP)


async def test_a_line_that_breaks_after_the_end_is_no_loss(stranger):
    server = stranger(streamed(*REPLY).replace(b"Content-Length: ", b"Content-Length: 9"))
    assert (await complete(engine(server))).text == TEXT
    assert len(server.bodies()) == 1


async def test_a_line_that_is_left_open_after_the_end_is_not_waited_for(stranger):
    chat = streamed(*REPLY, USAGE).replace(b"Content-Length: ", b"Content-Length: 9")  # and more, never sent
    patience = Patience(answer=60.0)
    one = engine(stranger(chat + b": ping\n\n", packet=400), patience)
    assert (await asyncio.wait_for(complete(one), 5)).prompt_tokens == 7


@pytest.mark.parametrize("packet", [1, 7])
async def test_characters_and_lines_cut_between_packets_are_whole(stranger, packet: int):
    events = [json.dumps(said(text), ensure_ascii=False) for text in ("naïve → ", "🐫\r\n")]
    chat = _raw("".join(f"data: {event}\r\n\r\n" for event in [*events, json.dumps(said("", "stop"))]))
    assert (await complete(engine(stranger(chat, packet=packet)))).text == "naïve → 🐫\r\n"


@pytest.mark.parametrize(
    ("chat", "words"),
    [
        (streamed(*REPLY[:2], '{"error": {"code": 500, "message": "CUDA out of memory"}}'), "CUDA out of memory"),
        (streamed(REPLY[0], {"object": "error", "message": "too bad", "code": 500}), "too bad"),
        (_raw('data: {"choices": []}\n\nerror: {"message": "too bad"}\n\n'), "too bad"),
        (answered('{"error": "Unexpected endpoint or method. (POST /v1/chat/completions)"}'), "Unexpected endpoint"),
        (streamed(said("x", ""), said("y", "")), "broke off"),
        (streamed(said("x"), {"choices": [], "usage": {"prompt_tokens": 10**30}}), "no count"),
        (streamed('{"choices": [{"delta": {"content": "x"}}], "n": ' + "9" * 5000 + "}"), "not JSON"),
        (streamed({"choices": {"0": {}}}), "no list"),
        (refused(500, "oops"), "failed"),
        (answered("", status=500), "it says 500"),
        (answered("\ufeff<!doctype html>", "TEXT/HTML"), "web page"),
    ],
)  # fmt: skip
async def test_what_cannot_be_a_reply_is_one_sentence(stranger, chat: bytes, words: str):
    with pytest.raises(EngineError) as caught:
        await complete(engine(stranger(chat)))
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_when_it_says(stranger, status: int):
    busy = refused(status, "slow down", "Retry-After: 0\r\n")
    assert (await complete(engine(stranger([busy, busy, streamed(*REPLY)])))).text == TEXT


@pytest.mark.parametrize(
    "after", ["", "Retry-After: 3600\r\n", "Retry-After: soon\r\n", "Retry-After: -1\r\n"]
)
async def test_a_server_that_is_busy_for_long_is_not_waited_for(stranger, after: str):
    with pytest.raises(EngineError, match=r"too many requests \(slow down\): try again later\."):
        await complete(engine(stranger(refused(429, "slow down", after))))


async def test_of_several_models_none_that_embeds_is_taken(stranger):
    models = {"data": [{"id": "text-embedding-nomic-embed-text-v1.5"}, {"id": "qwen2.5-coder"}]}
    server = stranger(streamed(*REPLY), models)
    await complete(engine(server))
    assert server.bodies()[0]["model"] == "qwen2.5-coder"


async def test_tokens_wait_for_the_character_that_they_are_part_of(stranger):
    chat = streamed(said("a", ids=[1]), said("", ids=[2]), said("é", ids=[3]), said("", "stop", ids=[4]))
    deltas = await deltas_of(engine(stranger(chat, _listing("one", "vllm"))))
    assert [(delta.text, delta.tokens) for delta in deltas] == [("a", (1,)), ("é", (2, 3)), ("", ())]


async def test_a_first_token_within_a_character_is_asked_for_with_the_rest_of_it(stranger):
    parts = [streamed(said("\ufffd", "length", [2])), streamed(said("é", "length", [2, 3])), streamed(*REPLY)]
    server = stranger(parts, _listing("one", "vllm"))
    assert (await complete(engine(server), forbidden_first=[1])).text == "é" + TEXT
    bodies = server.bodies()
    assert [(body["max_tokens"], "logit_bias" in body) for body in bodies] == [
        (1, True),
        (2, True),
        (38, False),
    ]
    assert bodies[2]["messages"][-1] == {"role": "assistant", "content": "é"}


async def test_a_first_token_that_repeats_what_was_accepted_is_no_part_of_the_reply(stranger):
    accepted = "let rec sum x "
    chat = [streamed(said("let", "length")), streamed(said(accepted), said("= 1", "stop"))]
    assert (await complete(engine(stranger(chat)), prefix=accepted, forbidden_first=[1])).text == "= 1"


async def test_a_server_that_forbids_no_tokens_is_told_at_once(stranger):
    server = stranger(refused(400, "Unknown field: logit_bias"))
    one = engine(server)
    with pytest.raises(EngineError, match="logit_bias"):
        await complete(one, forbidden_first=[1])
    assert len(server.bodies()) == 1


async def test_closing_ends_a_load_at_once(stranger):
    one = engine(stranger(models=answered("{}"), delay=5.0), Patience())
    loading = asyncio.create_task(one.load())
    await asyncio.sleep(0.05)
    await one.cancel()
    await one.close()
    with pytest.raises(EngineError, match="closed"):
        await asyncio.wait_for(loading, 1)


async def test_one_refused_prompt_is_the_error_of_its_batch(stranger):
    def answer(request: bytes) -> bytes:
        return refused(400, "that I will not say") if b"bad" in request else streamed(*REPLY)

    one = engine(stranger(answer))
    good, bad = (Prompt((Message(Role.USER, text),), sampling=GREEDY) for text in ("good", "bad"))
    with pytest.raises(EngineError, match="that I will not say"):
        await complete_all(one, [good, good, bad, good, good, good])
    assert (await complete(one)).text == TEXT


async def test_one_engine_serves_several_loops(stranger):
    server = stranger(streamed(*REPLY))
    one = engine(server)

    def thrice() -> list[str]:
        return [asyncio.run(complete(one)).text for _ in range(3)]

    assert await asyncio.to_thread(thrice) == [TEXT] * 3
    assert (await complete(one)).text == TEXT


# Keys


@pytest.mark.parametrize(
    "models",
    [
        refused(400, f"what is {KEY}"),
        refused(404, "x" * 190 + KEY),
        refused(500, "y" * 195 + KEY),
        answered("z" * 50 + KEY),
        answered('{"data": "' + "v" * 45 + KEY + '"}'),
        answered(json.dumps({"data": [{"id": 7, "x": KEY}]})),
        answered("", status=302, more=f"Location: http://elsewhere/{KEY}\r\n"),
        answered(json.dumps({"error": {"detail": {"key": KEY}}}), status=418),
    ],
)
async def test_the_key_shows_nowhere(stranger, models: bytes):
    one = engine(stranger(models=models), OCAMLER_API_KEY=KEY)
    with pytest.raises(EngineError) as caught:
        await one.load()
    told = "".join(traceback.format_exception(caught.value)) + repr(one) + repr(vars(caught.value))
    assert KEY[:5] not in told.replace(f'KEY = "{KEY}"', "")


async def test_the_key_goes_to_no_proxy_and_no_stranger(stranger, monkeypatch: pytest.MonkeyPatch):
    proxy = stranger()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = stranger(streamed(*REPLY))
    assert (await complete(OpenAIEngine(server.url, patience=HURRY))).text == TEXT
    assert KEY.encode() in server.asked[-1]
    with pytest.raises(EngineError):
        await OpenAIEngine("http://model.example", patience=HURRY).load()
    assert proxy.asked[0].startswith(b"GET http://model.example/v1/models")
    assert KEY.encode() not in b"".join(proxy.asked)


@pytest.mark.parametrize(
    "proxy", ["http://127.0.0.1:9", "socks5://127.0.0.1:9", "nonsense://x", "http://[::"]
)
async def test_a_proxy_that_is_no_help_is_one_sentence(monkeypatch: pytest.MonkeyPatch, proxy: str):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("NO_PROXY", "")
    with pytest.raises(EngineError, match=r"model\.example.*\.$") as caught:
        await OpenAIEngine("http://model.example", patience=HURRY).load()
    assert "Nothing listens at http://model" not in str(caught.value)


# Certificates


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate that nobody has signed, with its key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificate")
    path = tmp_path_factory.mktemp("tls") / "own.pem"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    name = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*make, *name, "-keyout", path, "-out", path.with_suffix(".crt")], check=True, capture_output=True
    )
    path.write_text(path.read_text() + path.with_suffix(".crt").read_text())
    return path


@pytest.fixture
def tls(stranger, certificate: Path) -> Stranger:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return stranger(streamed(*REPLY), tls=context)


async def test_an_untrusted_certificate_is_told_before_the_key_is(tls: Stranger):
    with pytest.raises(EngineError, match=r"certificate .* cannot be trusted.*SSL_CERT_FILE"):
        await engine(tls, OCAMLER_API_KEY=KEY).load()
    assert tls.asked == []


async def test_a_certificate_that_its_owner_trusts_will_do(tls: Stranger, certificate: Path):
    program = "import asyncio; from asking import complete; from models.engines.openai import OpenAIEngine; "
    program += f"print(asyncio.run(complete(OpenAIEngine({tls.url!r}))).text)"
    paths = f"{Path(__file__).parents[2]}:{Path(__file__).parents[1] / 'nano'}"
    environment = {**os.environ, "PYTHONPATH": paths, "SSL_CERT_FILE": str(certificate.with_suffix(".crt"))}
    told = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True
    )
    assert told.stdout.strip() == TEXT, told.stderr


@pytest.mark.parametrize("content", [None, b"no certificate"])
async def test_authorities_that_cannot_be_read_are_one_sentence(tmp_path: Path, content: bytes | None):
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    program = "import asyncio; from models.engines.openai import OpenAIEngine; from models.errors import EngineError\n"
    program += "try: asyncio.run(OpenAIEngine('https://127.0.0.1:9').load())\n"
    program += "except EngineError as error: print(error)"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "SSL_CERT_FILE": str(file)}
    told = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True
    )
    assert told.stdout.strip().endswith("check the file in SSL_CERT_FILE."), told


async def test_a_port_without_tls_is_told(stranger):
    with pytest.raises(EngineError, match=r"speaks no TLS: write http:// instead"):
        await OpenAIEngine(stranger().url.replace("http:", "https:"), patience=HURRY).load()


async def test_a_port_with_tls_that_is_asked_without_is_one_sentence(tls: Stranger):
    with pytest.raises(EngineError, match=r"\.$"):
        await OpenAIEngine(tls.url.replace("https:", "http:"), patience=HURRY).load()
