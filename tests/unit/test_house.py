"""Rules of the house that no linter has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted([*(ROOT / "bridge").rglob("*.py"), *(ROOT / "scripts").glob("*.py")])
MAX_FUNCTION_LINES = 70
MAX_MODULE_LINES = 600


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_keeps_the_rules(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "needs a docstring"
    assert len(text.splitlines()) <= MAX_MODULE_LINES
    if len(tree.body) > 1:
        assert "from __future__ import annotations" in text
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= MAX_FUNCTION_LINES, f"{node.name} has {lines} lines"
        if isinstance(node, ast.ExceptHandler):
            body = [item for item in node.body if not isinstance(item, ast.Pass)]
            assert body, f"line {node.lineno}: an except that hides"
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"#\s*(noqa|type:\s*ignore)", line):
            assert re.search(r"(noqa: [A-Z0-9, ]+|type: ignore\[[\w, -]+\])\s+(#|-) \S", line), (
                f"line {number}: name the rule and the reason: # noqa: X123 - why"
            )
