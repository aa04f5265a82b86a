"""Plans run with real processes, real git and a store on disk."""

from __future__ import annotations

from typing import Any

from bridge.control.tasks import task_details

from .conftest import RunPlan, toml_worker  # type: ignore[import-not-found]


def test_smoke(run: RunPlan, controller: Any, repository: Any) -> None:
    text = toml_worker(
        "one",
        "pathlib.Path('new.txt').write_text('hello')\nhand_in(summary='wrote', files_changed=['new.txt'])",
    )
    text += toml_worker(
        "two",
        "e = task['evidence'][0]\nraw = pathlib.Path(e['path']).read_bytes()\nhand_in(summary='read', data={'sha': hashlib.sha256(raw).hexdigest()})",
        needs=["one"],
    )
    outcome = run(text)
    one, two = (task_details(controller, task).to_json() for task in outcome.delegations)
    assert outcome.is_completed, (one, two)
    assert one["result"]["files_changed"] == ["new.txt"]
