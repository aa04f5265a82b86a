"""Where a controller is found, and which build it is of."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs
import pytest

from bridge import __version__
from bridge.cli import remote
from bridge.rpc.resident.builds import build_id, is_older
from bridge.rpc.resident.endpoint import MAX_SOCKET_PATH_BYTES, Endpoint, is_short_enough


def test_the_state_directorys_own_database_needs_no_digest():
    assert Endpoint("/x").socket_path == "/x/run/controller.sock"
    assert Endpoint("/x", "").name == Endpoint("/x", "sqlite:////x/bridge.db").name == "controller"


def test_another_database_has_another_controller():
    one, other = (Endpoint("/x", f"postgresql+psycopg://h/{name}").name for name in "ab")
    assert one != other
    assert one.startswith("controller-")


def test_the_longest_path_of_a_socket():
    assert is_short_enough("/" + "x" * (MAX_SOCKET_PATH_BYTES - 1))
    assert not is_short_enough("/" + "x" * MAX_SOCKET_PATH_BYTES)
    assert not is_short_enough("/" + "ä" * (MAX_SOCKET_PATH_BYTES // 2 + 1))


def test_without_files_there_is_no_controller(tmp_path):
    assert Endpoint(str(tmp_path)).find_socket() is None


def test_broken_facts_are_no_facts(tmp_path):
    endpoint = Endpoint(str(tmp_path))
    (tmp_path / "run").mkdir()
    for text in ("", "{", "[]", '{"socket": 1}'):
        Path(endpoint.info_path).write_text(text)
        assert endpoint.find_socket() is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the library itself is asked")
@pytest.mark.parametrize("base", [None, "", " ", "/somewhere/state"])
def test_the_default_state_directory_is_the_librarys(monkeypatch, base):
    monkeypatch.undo()
    if base is None:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_STATE_HOME", base)
    assert remote.home_of(os.environ) == platformdirs.user_state_dir("bridge", appauthor=False)


def test_a_relative_home_is_for_the_command_itself_to_refuse():
    assert remote.home_of({"BRIDGE_HOME": "relative"}) is None
    assert remote.home_of({"BRIDGE_HOME": "/x//y/"}) == "/x/y"


def test_a_build_shows_every_change_of_a_file(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.py", "sub/b.py"):
        (tmp_path / name).write_text("1")
        os.utime(tmp_path / name, ns=(10**18, 10**18))
    before = build_id(str(tmp_path))
    assert before.startswith(f"{__version__}+")
    assert build_id(str(tmp_path)) == before
    (tmp_path / "sub" / "__pycache__").mkdir()
    (tmp_path / "sub" / "__pycache__" / "b.py").write_text("")
    assert build_id(str(tmp_path)) == before
    os.utime(tmp_path / "sub" / "b.py", ns=(10**18, 10**18 + 1))
    touched = build_id(str(tmp_path))
    assert touched != before
    assert is_older(before, touched)
    assert not is_older(touched, before)
    (tmp_path / "c.py").write_text("")
    os.utime(tmp_path / "c.py", ns=(10**17, 10**17))
    assert build_id(str(tmp_path)) != touched


@pytest.mark.parametrize(
    ("one", "other"),
    [("0.1.0+ff.1.1", "0.2.0+01.1.1"), ("0.9.0+1.1.1", "0.10.0+1.1.1"), ("0.1.0+1.1.1", "0.1.0+2.1.1")],
)
def test_which_build_is_older(one, other):
    assert is_older(one, other)
    assert not is_older(other, one)
    assert not is_older(one, one)


def test_nonsense_is_older_than_any_build():
    assert is_older("nonsense", "0.1.0+1.1.1")
    assert is_older("0.1.0+zz", "0.1.0+1.1.1")
