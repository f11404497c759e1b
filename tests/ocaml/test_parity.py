"""Both judges say the same of the same programs: stages, places, words."""

import json
from pathlib import Path

import pytest

from ocaml.diagnostics import Severity
from ocaml.judge import Checked, PlainJudge, Source
from ocaml.served import ServedJudge

HERE = Path(__file__).parent
CORPUS = sorted((HERE / "corpus").glob("c*.json"))
HOSTILE = sorted((HERE / "hostile").glob("*.ml"))


def sources() -> list[tuple[str, bytes]]:
    """Programs that compilers complain of, and programs that mean harm."""
    corpus = (json.loads(path.read_text())["files"] for path in CORPUS)
    found = [
        (Path(name).stem, text.encode())
        for files in corpus
        for name, text in files.items()
        if name.endswith(".ml")
    ]
    return found + [(path.stem, path.read_bytes()) for path in HOSTILE if path.stem != "type_bomb"]


def until_first_error(checked: Checked) -> list[object]:
    """The plain compiler stops at its first error, where the server goes on."""
    kept = []
    for diagnostic in checked.diagnostics:
        kept.append(diagnostic)
        if diagnostic.severity is Severity.ERROR:
            break
    return kept


@pytest.mark.parametrize(("name", "data"), sources(), ids=[name for name, _ in sources()])
async def test_a_file_is_checked_alike(
    plain_judge: PlainJudge, served_judge: ServedJudge, name: str, data: bytes
) -> None:
    (plain,) = await plain_judge.check([Source("program.ml", data)])
    (served,) = await served_judge.check([Source("program.ml", data)])
    assert (served.stage, served.signature, served.limit) == (plain.stage, plain.signature, plain.limit)
    assert until_first_error(served) == until_first_error(plain)
