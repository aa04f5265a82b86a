"""What ``make`` says on a machine that lacks something."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "set_up.sh"
SH = shutil.which("sh") or "/bin/sh"


@pytest.fixture
def machine(tmp_path):
    """A search path with only what a test puts there."""
    binaries = tmp_path / "bin"
    binaries.mkdir()

    def install(name, text):
        (binaries / name).write_text(f"#!{SH}\n{text}\n")
        (binaries / name).chmod(0o755)

    def set_up(*words):
        done = subprocess.run(
            [SH, str(SCRIPT), str(tmp_path / "env"), *words],
            env={"PATH": str(binaries)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return done.returncode, done.stderr

    set_up.install = install
    install("git", "exit 0")
    (binaries / "head").symlink_to(shutil.which("head") or "/usr/bin/head")
    return set_up


OLD = 'if [ "$1" = -V ]; then echo "Python 3.9.2"; elif [ -n "$2" ]; then exit 1; fi'
NO_VENV = f'case "$2" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"'


def test_no_python(machine):
    status, told = machine()
    assert status == 1
    assert "No Python 3.11 or newer was found (python3 is missing)" in told


def test_an_old_python(machine):
    machine.install("python3", OLD)
    status, told = machine()
    assert status == 1
    assert "python3 is Python 3.9.2" in told
    assert "make PYTHON=" in told


def test_a_newer_python_beside_an_old_one_is_found(machine):
    machine.install("python3", OLD)
    machine.install("python3.13", f'[ "$2" = venv ] && exit 0\nexec {sys.executable} "$@"')
    status, told = machine()
    assert status == 0, told
    assert told.startswith("making ")


def test_the_named_python_is_old(machine):
    machine.install("mine", OLD)
    assert "mine is Python 3.9.2; Bridge needs Python 3.11 or newer." in machine("mine")[1]


def test_the_named_python_is_missing(machine):
    assert "nosuch was not found" in machine("nosuch")[1]


def test_the_named_python_does_not_run(machine):
    machine.install("shim", "echo 'shim: not installed' >&2; echo more; exit 127")
    assert "shim does not run: shim: not installed" in machine("shim")[1]


def test_venv_is_missing(machine):
    machine.install("python3", NO_VENV)
    status, told = machine()
    assert status == 1
    assert f"apt-get install python{sys.version_info[0]}.{sys.version_info[1]}-venv" in told


def test_git_is_missing(machine, tmp_path):
    (tmp_path / "bin" / "git").unlink()
    assert "git was not found" in machine()[1]


def test_ci_needs_no_standard_input_and_stops_at_the_first_failure(tmp_path):
    make = tmp_path / "make"
    make.write_text(f'#!{SH}\necho "make $*"\n[ "$1" != types ]\n')
    make.chmod(0o755)
    done = subprocess.run(
        [ROOT / ".ci" / "run"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "make lint" in done.stdout
    assert "make test" not in done.stdout
