"""Sources as bytes: from text of any origin, and places in them."""

from ocaml.diagnostics import Position, Span


def to_bytes(text: str) -> bytes:
    """Encode a text that came from bytes of any kind, and any other as well as can be."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")


def span_of(source: bytes, start: int, end: int) -> Span:
    """The span between two byte offsets."""
    return Span(_position(source, start), _position(source, end))


def _position(source: bytes, offset: int) -> Position:
    line_start = source.rfind(b"\n", 0, offset) + 1
    column = len(source[line_start:offset].decode(errors="replace"))
    return Position(source.count(b"\n", 0, offset) + 1, column)
