"""The wheel, built and installed into an empty environment without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from bridge import __version__

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str | Path, environment: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, env=environment, cwd=cwd, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture
def installed(tmp_path: Path, bridge_home: Path) -> tuple[Path, dict[str, str], Path]:
    """The binaries' directory of an environment that holds the wheel, its environment, and a place to stand."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    environment["PIP_CONFIG_FILE"] = os.devnull
    place = tmp_path / "elsewhere"
    place.mkdir()
    wheels = tmp_path / "wheels"
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", wheels, ROOT, environment=environment, cwd=place)
    (wheel,) = wheels.glob("bridge_controller-*.whl")
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    # pip works on another environment and still needs no network: what Bridge depends on is lent by this one.
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel, environment=environment, cwd=place)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    purelib = Path(run(python, "-c", where, environment=environment, cwd=place).strip())
    (purelib / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return tmp_path / "env" / "bin", environment, place


def test_the_wheel_is_complete(installed):
    binaries, environment, place = installed
    for name in ("bridge", "brg"):
        shown = run(binaries / name, "--version", environment=environment, cwd=place)
        assert shown == f"bridge {__version__}\n"
    report = json.loads(run(binaries / "bridge", "doctor", "--json", environment=environment, cwd=place))
    assert report["version"] == __version__
    package = Path(
        run(
            binaries / "python", "-c", "import bridge; print(bridge.__path__[0])", environment=environment, cwd=place
        ).strip()
    )
    assert package.is_relative_to(binaries.parent)
    shipped = {path.relative_to(package / "schema") for path in (package / "schema").rglob("*") if path.is_file()}
    wanted = {path.relative_to(ROOT / "schema") for path in (ROOT / "schema").rglob("*") if path.is_file()}
    assert shipped == wanted
    assert (package / "py.typed").exists()
    migrations = "bridge/storage/migrations"
    wanted = {path.name for path in (ROOT / migrations).rglob("*") if path.suffix in {".py", ".sql", ".json"}}
    assert {"v7.sql", "digests.json", "env.py"} <= wanted
    assert {path.name for path in (package / "storage" / "migrations").rglob("*") if path.suffix != ".pyc"} >= wanted
    # What was installed is what was pinned, line ends and all.
    check = "from bridge.storage.migrations.running import require_unaltered; require_unaltered()"
    run(binaries / "python", "-c", check, environment=environment, cwd=place)
