"""Write a report computed from the exact bytes of another worker's result."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

REPORT = Path("BRIDGE-REPORT.md")


def main() -> None:
    task = json.loads(Path(os.environ["BRIDGE_TASK"]).read_bytes())
    evidence = task["evidence"][0]
    payload = Path(evidence["path"]).read_bytes()
    digest = hashlib.sha256(payload).hexdigest()
    if digest != evidence["digest"]:
        raise SystemExit("the evidence file does not match its digest")
    data = json.loads(payload)["data"]
    largest = max(data["lines"], key=lambda suffix: data["lines"][suffix])
    REPORT.write_text(
        f"# Report\n\nBuilt from evidence {evidence['reference']} ({digest}).\n\n"
        f"{sum(data['files'].values())} files; most lines in {largest} ({data['lines'][largest]}).\n",
        encoding="utf-8",
    )
    result = {
        "status": "completed",
        "summary": f"Most lines are in {largest} files.",
        "files_changed": [str(REPORT)],
        "data": {"evidence": evidence["reference"], "evidence_sha256": digest, "largest": largest},
    }
    Path(os.environ["BRIDGE_RESULT"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
