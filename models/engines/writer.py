"""One reply in the making, whichever library computes it."""

from collections.abc import Callable, Sequence

from models.engines.draw import Drawer, Logits
from models.engines.fitting import Fitted
from models.engines.protocol import Delta, Finish, Prompt, Usage
from models.engines.reply import Reply
from models.engines.vocabulary import Vocabulary


class Writer:
    """What a reply goes on from, what is drawn, and ``following``, the token to be read next.

    ``left`` is how many tokens may still be drawn, the last of which need not be read, and ``longest`` how
    many prompt and reply may be at the end. Those from ``size`` on,
    which fill up some networks' logits, never are.
    """

    def __init__(
        self, index: int, prompt: Prompt, fitted: Fitted, vocabulary: Vocabulary, *, capacity: int, size: int
    ) -> None:
        self.index = index
        self.tokens = fitted.tokens
        self.following = self.tokens[-1]
        self.left = max(0, min(prompt.sampling.max_tokens, capacity - len(self.tokens) + 1))
        self.longest = len(self.tokens) + self.left
        self.finish: Finish | None = None
        self._usage: Usage = fitted.usage(0)
        self._fitted = fitted
        self._vocabulary = vocabulary
        self.size = min(size, vocabulary.size)
        self.drawer = Drawer(prompt.sampling, self.size, prompt.forbidden_first)
        self._reply = Reply(fitted.accepted)

    def begin(self, cached_tokens: int) -> None:
        """Note how many of the tokens need not be read."""
        self._usage = self._fitted.usage(cached_tokens)

    def draw(self, logits: Logits) -> Delta | None:
        """Draw a token; return a delta where that makes whole characters. Sets ``finish`` at the end."""
        if self.left == 0:
            self.finish = Finish.LENGTH
            return None
        return self.take(*self.drawer.draw(logits[: self.size]))

    def take(self, token: int, entropy: float) -> Delta | None:
        """Go on with a token that was drawn, as ``draw`` does."""
        if self._vocabulary.ends_turn(token):
            self.finish = Finish.STOP
            return None
        self.following = token
        self.left -= 1
        if self.left == 0:
            self.finish = Finish.LENGTH
        return self._reply.add(token, entropy, self._vocabulary.piece(token))

    def end(self, remember: Callable[[Sequence[int]], None]) -> Delta:
        """Return the last delta, and hand over the tokens of the whole reply."""
        remember(self._reply.tokens)
        return self._reply.end(self.finish or Finish.CANCELLED, self._usage)
