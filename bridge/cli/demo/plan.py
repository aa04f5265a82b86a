"""The plan of the demonstration, as a person would write it."""

from __future__ import annotations

import json
import sys
from importlib.resources import as_file, files
from pathlib import Path

_TEMPLATE = """\
# Two workers side by side, and a third that builds on what the first one found.
label = "demonstration"

[[worker]]
id = "inventory"
role = "documentation"
objective = "Count the files of this repository by suffix and write the table down"
command = {inventory}
owned_paths = ["BRIDGE-INVENTORY.md"]
timeout_seconds = 60

[worker.output_schema]
type = "object"
required = ["files", "lines"]

[[worker]]
id = "check"
role = "verification"
objective = "Parse every Python, JSON and TOML file; change nothing"
command = {check}
write = "read_only"
timeout_seconds = 60

[[worker]]
id = "report"
role = "documentation"
objective = "Write a report from the inventory's exact result"
command = {report}
needs = ["inventory"]
owned_paths = ["BRIDGE-REPORT.md"]
timeout_seconds = 60

[worker.output_schema]
type = "object"
required = ["evidence_sha256"]
"""
WORKERS = ("inventory", "check", "report")


def write_plan(folder: Path) -> Path:
    """Write the plan and copies of its workers into a folder, and return the plan's path."""
    commands = {}
    for name in WORKERS:
        script = folder / f"{name}.py"
        with as_file(files("bridge.cli.demo") / "workers" / f"{name}.py") as source:
            script.write_bytes(source.read_bytes())
        commands[name] = json.dumps([sys.executable, str(script)], ensure_ascii=False)
    path = folder / "plan.toml"
    path.write_text(_TEMPLATE.format(**commands), encoding="utf-8")
    return path
