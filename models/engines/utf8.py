"""Text out of tokens that may end within a character."""

import codecs


class Utf8Assembler:
    """Holds bytes back until they are whole characters; what can never be one becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""

    def feed(self, piece: bytes) -> str | None:
        """Take a token's bytes; return the text since the last return, or None within a character."""
        self._text += self._decoder.decode(piece)
        pending, _ = self._decoder.getstate()
        return None if pending else self._take()

    def end(self) -> str:
        """Return what is left; a character that never became whole is U+FFFD."""
        self._text += self._decoder.decode(b"", final=True)
        return self._take()

    def _take(self) -> str:
        text, self._text = self._text, ""
        return text
