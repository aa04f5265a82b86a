"""``bridge files``: the files behind a stamp in a new worktree, exactly, or said what is missing."""

from __future__ import annotations

import hashlib
import os

import pytest


@pytest.fixture
def desk(bridge_cli, bridge_home, repository):
    """Runs ``bridge`` in the repository, with a session; contents are kept unless a test says otherwise."""
    bridge_home.mkdir()
    (bridge_home / "config.toml").write_text('snapshots = "dirty"\n')

    class Desk:
        path = repository.path

        def __call__(self, *words, **options):
            return bridge_cli(*words, **{"cwd": repository.path, **options})

        def append(self):
            return self("append", "@", "--kind", "note", "--text", "x", "--json").ok().json()["id"]

        def files(self, entry, into, status=0):
            ran = self("files", entry, "--into", into, "--json")
            assert ran.status == status, ran.stderr
            return ran.json()

    built = Desk()
    built("session", "new").ok()
    return built


@pytest.fixture
def into(tmp_path):
    return tmp_path / "restored" / "here"


def tree(folder):
    """Every file, symlink and its mode below a folder, but for ``.git``."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name.parts[0] == ".git" or (path.is_dir() and not path.is_symlink()):
            continue
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        found[bytes(name)] = (path.lstat().st_mode & 0o111, content)
    return found


def fingerprint(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = os.lstat(path)
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (mode.st_mode, mode.st_mtime_ns if path.is_file() else 0, content)
    return found


def user_owned(repository):
    """What is the user's own in the git directory: index, refs, HEAD, configuration, logs."""
    git = repository.path / ".git"
    return {name: content for name, content in fingerprint(git).items() if not name.startswith(str(git / "worktrees"))}


def make_a_mess(repository):
    repository.commit("files", d__gone="gone\n", d__kept="kept\n", swap__inner="inner\n", mode="mode\n", ren="ren\n")
    (repository.path / "dir" / "sub").mkdir(parents=True)
    repository.write("file-to-dir", "was a file\n")
    repository.git("add", "-A")
    repository.git("commit", "-qm", "more")
    repository.write("a.txt", "modified\n")
    (repository.path / "d/gone").unlink()
    repository.write("staged", "staged\n")
    repository.git("add", "staged")
    repository.write("half", "first\n")
    repository.git("add", "half")
    repository.write("half", "first\nsecond\n")
    repository.git("rm", "-q", "--cached", "ren")
    (repository.path / "mode").chmod(0o755)
    (repository.path / "swap/inner").unlink()
    (repository.path / "swap").rmdir()
    repository.write("swap", "a file now\n")
    (repository.path / "file-to-dir").unlink()
    repository.write("file-to-dir/inner", "a folder now\n")
    (repository.path / "link").symlink_to("nowhere/at all")
    repository.write("new\nline \xff".encode("latin-1").decode("utf-8", "surrogateescape"), b"odd\0bytes\r\n")
    repository.git("mv", "b.txt", "moved.txt")


def test_everything_comes_back_as_it_was(desk, repository, into):
    make_a_mess(repository)
    entry = desk.append()
    then, status = tree(repository.path), repository.git("status", "--porcelain", "-z")
    repository.git("add", "-A")
    repository.git("commit", "-qm", "later")
    repository.git("rm", "-rqf", ".")
    head = repository.git("rev-parse", "HEAD~1").strip()
    mine = user_owned(repository)
    made = desk.files(entry, into)
    assert user_owned(repository) == mine
    assert made["complete"] is True
    assert made["missing"] == []
    assert made["head"] == head
    assert tree(into) == then
    new = type(repository)(into)
    assert new.git("status", "--porcelain", "-z") == status
    assert new.git("symbolic-ref", "-q", "HEAD", check=False) == ""
    assert new.head() == head
    assert str(into) in repository.git("worktree", "list")
    assert new.git("show", ":half") == "first\n"


def test_a_clean_stamp_needs_no_snapshot(desk, bridge_home, repository, into):
    (bridge_home / "config.toml").write_text('snapshots = "off"\n')
    entry = desk.append()
    repository.commit("later", a_txt="later\n", c="new\n")
    assert desk.files(entry, into)["complete"] is True
    assert tree(into) == {b"a.txt": (0, b"alpha\n"), b"b.txt": (0, b"beta\n")}


def test_without_snapshots_what_is_nowhere_is_listed_and_not_guessed(desk, bridge_home, repository, into):
    (bridge_home / "config.toml").write_text("")
    repository.write("a.txt", "lost\n")
    repository.write("still", "still there\n")
    repository.write("staged", "staged\n")
    repository.git("add", "staged")
    repository.write("committed", "committed\n")
    entry = desk.append()
    repository.git("add", "committed")
    repository.git("commit", "-qm", "c", "committed")
    (repository.path / "staged").unlink()
    (repository.path / "committed").unlink()
    repository.write("a.txt", "another\n")
    made = desk.files(entry, into, status=1)
    assert made["missing"] == [{"path": "a.txt", "reason": "not_kept", "detail": ""}]
    assert made["sources"] == {"kept": 0, "disk": 1, "objects": 2}
    assert made["complete"] is False
    assert tree(into) == {
        b"b.txt": (0, b"beta\n"),
        b"still": (0, b"still there\n"),
        b"staged": (0, b"staged\n"),
        b"committed": (0, b"committed\n"),
    }
    shown = desk("files", entry, "--into", f"{into}-2")
    assert shown.status == 1
    assert '"a.txt"  its content was not kept and is nowhere to be found' in shown.stdout


def test_staged_content_is_known_through_filters(desk, bridge_home, repository, into):
    (bridge_home / "config.toml").write_text("")
    repository.git("config", "filter.up.clean", "tr a-z A-Z")
    repository.git("config", "filter.up.smudge", "tr A-Z a-z")
    repository.commit("attributes", _gitattributes="*.up filter=up\n*.crlf text eol=crlf\n")
    repository.write("x.up", "small\n")
    repository.write("y.crlf", b"one\r\ntwo\r\n")
    repository.git("add", "-A")
    entry = desk.append()
    repository.git("reset", "-q", "--hard")
    made = desk.files(entry, into)
    assert made["complete"] is True
    assert (into / "x.up").read_bytes() == b"small\n"
    assert (into / "y.crlf").read_bytes() == b"one\r\ntwo\r\n"


@pytest.mark.parametrize("place", ["worktree", "git directory", "taken", "file", "link"])
def test_a_place_that_is_not_free_is_refused_before_anything_is_written(desk, repository, tmp_path, place):
    repository.write("a.txt", "changed\n")
    entry = desk.append()
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    places = {
        "worktree": repository.path / "sub" / "folder",
        "git directory": repository.path / ".git" / "folder",
        "taken": taken,
        "file": tmp_path / "file",
        "link": tmp_path / "link",
    }
    before = fingerprint(tmp_path / "repository"), fingerprint(taken)
    refused = desk("files", entry, "--into", places[place], "--json")
    assert refused.status == 71
    assert refused.error()["code"] == "destination_unusable"
    assert (fingerprint(tmp_path / "repository"), fingerprint(taken)) == before


def test_an_empty_folder_is_as_good_as_none(desk, into):
    entry = desk.append()
    into.mkdir(parents=True)
    assert desk.files(entry, into)["complete"] is True


def test_what_was_over_the_limit_is_named(desk, bridge_home, repository, into):
    (bridge_home / "config.toml").write_text('snapshots = "dirty"\nsnapshot_limit_bytes = 5\n')
    repository.write("large", "more than five\n")
    repository.write("small", "tiny\n")
    appended = desk("append", "@", "--kind", "note", "--text", "x")
    assert appended.status == 0
    assert "warning: 1 of 2 contents behind this stamp were not kept" in appended.stderr
    entry = desk.append()
    (repository.path / "large").unlink()
    (repository.path / "small").unlink()
    made = desk.files(entry, into, status=1)
    assert made["missing"] == [{"path": "large", "reason": "over_limit", "detail": ""}]
    assert made["kept"]["limit_bytes"] == 5
    assert made["kept"]["omitted_bytes"] == 15


def test_a_commit_that_a_gc_took_is_reported_and_what_was_kept_is_there(desk, repository, into):
    repository.commit("second", c="second\n")
    repository.write("a.txt", "dirty\n")
    entry = desk.append()
    gone = repository.head()
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "-q", "--prune=now")
    ran = desk("files", entry, "--into", into, "--json")
    assert ran.status == 1
    made = ran.json()
    assert made["worktree"] is False
    assert made["missing"] == [
        {"path": None, "reason": "commit_missing", "detail": f"commit {gone} is not in the repository"}
    ]
    assert tree(into) == {b"a.txt": (0, b"dirty\n")}
    assert b"plain_folder" in ran.stderr_bytes


def test_before_the_first_commit(bridge_cli, bridge_home, tmp_path, into):
    from bridge.git.process import run_git

    bridge_home.mkdir()
    (bridge_home / "config.toml").write_text('snapshots = "dirty"\n')
    path = tmp_path / "unborn"
    run_git(["init", "-q", str(path)], cwd=tmp_path)
    (path / "x").write_text("x\n")
    bridge_cli("session", "new", cwd=path).ok()
    (path / "x").unlink()
    made = bridge_cli("files", "@", "--into", into, "--json", cwd=path).ok().json()
    assert made["worktree"] is False
    assert tree(into) == {b"x": (0, b"x\n")}


def test_conflicts_come_back_with_their_stages(desk, repository, into):
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("side", a_txt="side\n")
    repository.git("checkout", "-q", "main")
    repository.commit("main", a_txt="main\n")
    repository.git("merge", "-q", "side", check=False)
    entry = desk.append()
    stages = repository.git("ls-files", "-s", "-z")
    repository.git("merge", "--abort")
    ran = desk("files", entry, "--into", into)
    assert ran.status == 0, ran.stdout
    assert "a merge was in progress then" in ran.stderr
    assert type(repository)(into).git("ls-files", "-s", "-z") == stages


def test_an_intended_addition_stays_one(desk, repository, into):
    repository.write("later", "later\n")
    repository.git("add", "-N", "later")
    entry = desk.append()
    status = repository.git("status", "--porcelain")
    assert desk.files(entry, into)["complete"] is True
    assert type(repository)(into).git("status", "--porcelain") == status


def test_staged_content_that_a_gc_took_is_listed(desk, repository, into):
    repository.write("a.txt", "staged\n")
    repository.git("add", "a.txt")
    repository.write("a.txt", "worktree\n")
    entry = desk.append()
    repository.git("reset", "-q", "--hard")
    repository.git("gc", "-q", "--prune=now")
    made = desk.files(entry, into, status=1)
    assert made["missing"] == [{"path": "a.txt", "reason": "staged_missing", "detail": ""}]
    assert (into / "a.txt").read_text() == "worktree\n"


def test_nested_repositories_and_submodules_are_listed(desk, repository, into, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    sub = type(repository)(other)
    sub.git("init", "-q")
    sub.commit("s", s="s\n")
    repository.git("submodule", "--quiet", "add", str(other), "module")
    repository.git("commit", "-qm", "module")
    (repository.path / "nested").mkdir()
    nested = type(repository)(repository.path / "nested")
    nested.git("init", "-q")
    nested.commit("n", n="n\n")
    made = desk.files(desk.append(), into, status=1)
    assert [(item["path"], item["reason"]) for item in made["missing"]] == [
        ("nested", "repository"),
        ("module", "repository"),
    ]


def test_a_symlink_in_the_place_of_a_folder_is_never_followed(desk, repository, into, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    repository.write("folder/file", "file\n")
    entry = desk.append()
    (repository.path / "folder/file").unlink()
    (repository.path / "folder").rmdir()
    repository.git("config", "core.symlinks", "true")
    (repository.path / "folder").symlink_to(outside)
    repository.git("add", "folder")
    repository.git("commit", "-qm", "link")
    second = desk.append()
    assert desk.files(entry, into)["complete"] is True
    assert desk.files(second, f"{into}-2")["complete"] is True
    assert not list(outside.iterdir())


def test_an_unknown_stamp_has_no_files(desk, bridge_cli, into):
    bridge_cli("session", "new", "--label", "nowhere").ok()
    refused = bridge_cli("files", "@", "--into", into, "--json")
    assert refused.status == 72
    assert refused.error()["details"]["reason"] == "no_path"
    assert not into.exists()


def test_a_repository_that_is_gone_is_said_to_be(desk, bridge_cli, repository, into, tmp_path):
    entry = desk.append()
    repository.path.rename(tmp_path / "elsewhere-now")
    refused = bridge_cli("files", entry, "--into", into, "--json")
    assert refused.status == 72
    assert "bridge init --relink" in refused.error()["hint"]


def test_the_files_of_a_worktree_that_is_gone_come_from_its_repository(desk, repository, into, tmp_path):
    linked = tmp_path / "linked"
    repository.git("worktree", "add", "-q", "-b", "side", str(linked))
    desk("session", "new", cwd=linked).ok()
    (linked / "a.txt").write_text("changed\n")
    entry = desk("append", "@", "--kind", "note", "--text", "x", "--json", cwd=linked).ok().json()["id"]
    repository.git("worktree", "remove", "--force", str(linked))
    assert desk.files(entry, into)["complete"] is True
    assert (into / "a.txt").read_text() == "changed\n"
