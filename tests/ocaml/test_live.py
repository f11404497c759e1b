"""While somebody types, only the newest text of a buffer is judged."""

import asyncio

import pytest

from ocaml.judge import Judge, Source
from ocaml.live import LiveChecks

SLOW = b"let f0 x = (x, x)\n" + b"".join(
    b"let f%d x = f%d (f%d x)\n" % (n + 1, n, n) for n in range(5)
)  # a type that keeps the compiler busy


def text(number: int) -> list[Source]:
    return [Source("a.ml", b"let number = %d" % number)]


async def test_only_the_newest_request_for_a_buffer_is_answered(judge: Judge) -> None:
    live = LiveChecks(judge)
    found = await asyncio.gather(*(live.check("a", text(number)) for number in range(20)))
    assert [answer is None for answer in found] == [True] * 19 + [False]
    assert found[-1] is not None
    assert found[-1][0].signature == "val number : int\n"


async def test_buffers_do_not_cancel_each_other(judge: Judge) -> None:
    live = LiveChecks(judge)
    found = await asyncio.gather(*(live.check(f"{number}", text(number)) for number in range(6)))
    assert all(answer is not None for answer in found)


async def test_a_text_that_takes_long_does_not_hold_up_the_next(judge: Judge) -> None:
    live = LiveChecks(judge)
    slow = asyncio.create_task(live.check("a", [Source("a.ml", SLOW)]))
    await asyncio.sleep(0.3)
    async with asyncio.timeout(5):
        quick = await live.check("a", text(1))
    assert quick is not None
    assert quick[0].ok
    assert await slow is None


async def test_who_gives_up_waiting_cancels_the_check(judge: Judge) -> None:
    live = LiveChecks(judge)
    task = asyncio.create_task(live.check("a", [Source("a.ml", SLOW)]))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    found = await live.check("a", text(2))
    assert found is not None
    assert found[0].ok
