"""Parse every Python, JSON and TOML file of the repository; change nothing."""

from __future__ import annotations

import ast
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path

PARSERS: dict[str, Callable[[str], object]] = {".py": ast.parse, ".json": json.loads, ".toml": tomllib.loads}


def check(suffix: str, parse: Callable[[str], object]) -> dict[str, str]:
    """Parse all files of one suffix; return one row for the result's ``tests``."""
    paths = sorted(path for path in Path.cwd().rglob(f"*{suffix}") if path.is_file() and ".git" not in path.parts)
    broken: list[str] = []
    for path in paths:
        try:
            parse(path.read_text(encoding="utf-8"))
        except (ValueError, SyntaxError, RecursionError) as error:
            broken.append(f"{path.relative_to(Path.cwd())}: {type(error).__name__}")
    status = "skipped" if not paths else "failed" if broken else "passed"
    detail = "; ".join(broken[:5]) or f"{len(paths)} files"
    return {"command": f"parse *{suffix}", "status": status, "detail": detail}


def main() -> None:
    tests = [check(suffix, parse) for suffix, parse in PARSERS.items()]
    failed = [row["command"] for row in tests if row["status"] == "failed"]
    result = {
        "status": "completed",
        "summary": f"Checked {len(tests)} kinds of files, {len(failed)} with faults.",
        "files_changed": [],
        "tests": tests,
        "risks": [f"{command} found files that do not parse." for command in failed],
    }
    Path(os.environ["BRIDGE_RESULT"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
