"""Checks of what is being typed: for each buffer only its newest text matters."""

import asyncio
from collections.abc import Sequence

from ocaml.judge import Checked, Judge, Source


class LiveChecks:
    """Asks ``judge`` about buffers; a new request for one cancels the one before."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._under_way: dict[str, asyncio.Task[tuple[Checked, ...]]] = {}

    async def check(
        self, buffer: str, sources: Sequence[Source], *, warnings: Sequence[str] = ()
    ) -> tuple[Checked, ...] | None:
        """Check the text that ``buffer`` has now; None when a newer request has taken its place."""
        before = self._under_way.get(buffer)
        if before is not None:
            before.cancel()
        task = asyncio.ensure_future(self._judge.check(sources, warnings=warnings))
        self._under_way[buffer] = task
        try:
            return await task
        except asyncio.CancelledError:
            if self._under_way.get(buffer) is not task:  # by a newer request, not by whoever waits here
                return None
            task.cancel()
            raise
        finally:
            if self._under_way.get(buffer) is task:
                del self._under_way[buffer]
