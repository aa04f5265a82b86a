"""The checks of ``bridge doctor`` on machines that are not well."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections import namedtuple

import pytest

from bridge.cli import health


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def by_name(checks):
    return {check.name: check for check in checks}


def test_an_old_python(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    assert health.check_python().status == "failed"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("git version 2.38.0", "ok"),
        ("git version 2.50.1 (Apple Git-155)", "ok"),
        ("git version 2.37.9", "failed"),
        ("git version 2.39.2.windows.1", "ok"),
        ("something else", "warning"),
    ],
)
def test_versions_of_git(tmp_path, monkeypatch, words, status):
    script(tmp_path / "git", f"echo '{words}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    check = health.check_git(dict(os.environ))
    assert check.status == status
    assert check.status == "ok" or check.hint


def test_a_git_that_fails(tmp_path, monkeypatch):
    script(tmp_path / "git", "echo 'license not accepted' >&2; exit 69")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    check = health.check_git(dict(os.environ))
    assert check.status == "failed"
    assert "license not accepted" in check.detail


def test_an_old_sqlite(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 9))
    assert health.check_sqlite().status == "failed"
    monkeypatch.setattr(sqlite3, "sqlite_version_info", health.MINIMUM_SQLITE)
    assert health.check_sqlite().status == "ok"


def test_iproute2_in_front_and_brg_to_the_rescue(tmp_path, monkeypatch):
    own = tmp_path / "own"
    script(own / "bridge", "")
    script(own / "brg", "")
    script(tmp_path / "sbin" / "bridge", "")
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(own))
    check = health.check_command_path({"PATH": f"{tmp_path / 'sbin'}:{own}"})
    assert check.status == "warning"
    assert "Type brg" in check.hint
    assert health.check_command_path({"PATH": f"{own}:{tmp_path / 'sbin'}"}).status == "ok"
    missing = health.check_command_path({"PATH": str(tmp_path)})
    assert missing.status == "warning"
    assert str(own / "bridge") in missing.hint


def test_a_link_to_our_own_command_is_ours(tmp_path, monkeypatch):
    own, linked = tmp_path / "own", tmp_path / "linked"
    script(own / "bridge", "")
    linked.mkdir()
    (linked / "bridge").symlink_to(own / "bridge")
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(own))
    assert health.check_command_path({"PATH": str(linked)}).status == "ok"


def test_a_state_directory_others_can_read(tmp_path):
    tmp_path.chmod(0o755)
    check = by_name(health.check_state_directory(tmp_path))["state_directory"]
    assert check.status == "warning"
    assert "chmod 700" in check.hint
    tmp_path.chmod(0o700)
    assert by_name(health.check_state_directory(tmp_path))["state_directory"].status == "ok"


def test_a_state_directory_of_another_user(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert by_name(health.check_state_directory(tmp_path))["state_directory"].status == "warning"


def test_a_state_directory_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert health.check_state_directory(tmp_path / "new")[0].status == "failed"


Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("free", "status"),
    [
        (health.NO_SPACE_BYTES - 1, "failed"),
        (health.NO_SPACE_BYTES, "warning"),
        (health.LOW_SPACE_BYTES - 1, "warning"),
        (health.LOW_SPACE_BYTES, "ok"),
    ],
)
def test_free_space(tmp_path, monkeypatch, free, status):
    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage(free, 0, free))
    assert by_name(health.check_state_directory(tmp_path))["disk_space"].status == status


Mount = namedtuple("Mount", "mountpoint fstype")


@pytest.mark.parametrize(("kind", "status"), [("ext4", "ok"), ("nfs4", "warning"), ("tmpfs", "warning")])
def test_kinds_of_file_system(tmp_path, monkeypatch, kind, status):
    mounts = [Mount("/", "btrfs"), Mount(str(tmp_path), "ext3"), Mount(str(tmp_path), kind)]
    monkeypatch.setattr("psutil.disk_partitions", lambda **_: mounts)
    assert health.file_system_of(tmp_path / "x") == (kind, str(tmp_path))
    assert by_name(health.check_state_directory(tmp_path))["file_system"].status == status


def test_an_unknown_file_system(tmp_path, monkeypatch):
    monkeypatch.setattr("psutil.disk_partitions", lambda **_: [])
    assert by_name(health.check_state_directory(tmp_path))["file_system"].status == "warning"
