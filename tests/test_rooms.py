import ast
import subprocess
import sys
from pathlib import Path

import ocaml

ROOT = Path(__file__).parents[1]
LINT = """
import sys
from importlinter.cli import lint_imports
sys.exit(lint_imports(no_cache=True, no_logo=True))
"""


def test_every_contract_between_the_rooms_is_kept() -> None:
    result = subprocess.run(
        [sys.executable, "-P", "-c", LINT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 broken" in result.stdout


def test_the_judge_needs_nothing_but_the_standard_library() -> None:
    outsiders = {
        f"{path.name}: {name}"
        for path in Path(*ocaml.__path__).rglob("*.py")
        for name in _imported(ast.parse(path.read_text(encoding="utf-8")))
        if name not in sys.stdlib_module_names and name != "ocaml"
    }
    assert outsiders == set()


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a room is imported by its name"
            names.add((node.module or "").partition(".")[0])
    return names
