"""Session files on a real disk: making, appending, what others did meanwhile, limits, refusals."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from hashlib import sha256
from threading import Thread
from types import MappingProxyType

import pytest

from bridge.transcripts.sessionfile import MAX_ENTRIES, MAX_FILE_BYTES, MAX_LINE_BYTES, SessionFile, SessionTree
from bridge.transcripts.sessionfile.errors import (
    SessionDuplicateId,
    SessionEntryMissing,
    SessionFileError,
    SessionFileExists,
    SessionFileLocked,
    SessionFileMissing,
    SessionFileReplaced,
    SessionFileTooLarge,
    SessionInvalidEntry,
    SessionInvalidHeader,
    SessionInvalidJson,
    SessionInvalidMessage,
    SessionLineTooLarge,
    SessionNotRegular,
    SessionParentMissing,
    SessionRecoveryRequired,
    SessionToolMismatch,
    SessionTooManyEntries,
    SessionUnsupportedVersion,
)
from tests.sessionfiles import beside, calling, create, entry_line, header_line, options, result, user


@pytest.fixture
def path(tmp_path):
    (tmp_path / "files").mkdir()
    return tmp_path / "files" / "talk.jsonl"


def load(path, **changes):
    return SessionFile.load(path, **options(**changes))


def write(path, *lines, end=b"\n"):
    path.write_bytes(b"".join(line + end for line in lines))


def test_a_new_file_holds_its_header_alone(path):
    file = create(path)
    assert path.read_bytes() == (
        b'{"id":"session-1","timestamp":"2026-01-02T03:04:05.000000Z","type":"session","version":1}\n'
    )
    assert (file.header.id, file.entries, file.path) == ("session-1", (), str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert beside(path) == []
    assert load(path).header == file.header


def test_a_file_is_made_where_nothing_is(path):
    create(path).append(None, user())
    before = path.read_bytes()
    with pytest.raises(SessionFileExists):
        create(path)
    assert path.read_bytes() == before
    assert beside(path) == []
    link = path.with_name("link")
    link.symlink_to("nowhere")
    with pytest.raises(SessionFileExists):
        create(link)
    with pytest.raises(SessionFileMissing):
        create(path.parent / "none" / "x")
    with pytest.raises(SessionFileMissing):
        create(f"{path.parent}/..")
    with pytest.raises(SessionInvalidHeader):
        SessionFile.create(path.with_name("other"), session_id="")
    assert not path.with_name("other").exists()


def test_what_it_makes_up_by_itself(path):
    file = SessionFile.create(path)
    first = file.append(None, user())
    assert first.id != file.append(first.id, user()).id
    assert SessionFile.load(path).entries == file.entries


def test_an_abandoned_branch_stays(path):
    file = create(path)
    tree = SessionTree(file)
    root = tree.append(user("root"))
    old = tree.append(user("old branch"))
    before = path.read_bytes()
    tree.move_to(root.id)
    assert path.read_bytes() == before
    new = tree.append(user("new branch"))
    assert (new.parent_id, tree.active_leaf_id) == (root.id, new.id)
    assert [message["content"] for message in tree.active_messages] == ["root", "new branch"]
    assert [entry.id for entry in tree.entries] == ["entry-001", "entry-002", "entry-003"]
    assert tree.entries[1] is old
    assert path.read_bytes().startswith(before)
    tree.move_to(None)
    assert (tree.active_entries, tree.active_leaf_id) == ((), None)
    other = tree.append(user("another root"))
    assert other.parent_id is None
    with pytest.raises(SessionEntryMissing):
        tree.move_to("nowhere")
    assert tree.active_leaf_id == other.id
    assert SessionTree(load(path)).active_leaf_id == other.id
    assert load(path).entries == file.entries


def test_nothing_that_is_handed_out_can_be_changed(path):
    message = {"role": "user", "content": [{"type": "text", "text": "a"}], "details": {"n": [1, {"x": 1.50}]}}
    tree = SessionTree(create(path))
    entry = tree.append(message)
    message["content"][0]["text"] = "b"
    message["details"]["n"].append(2)
    assert entry.message["content"] == ({"type": "text", "text": "a"},)
    assert isinstance(entry.message["details"], MappingProxyType)
    with pytest.raises(TypeError):
        entry.message["role"] = "system"
    with pytest.raises(AttributeError):
        entry.id = "x"
    copy = entry.to_json()
    copy["message"]["role"] = "system"
    assert tree.active_messages[0]["role"] == "user"
    assert tree.append(entry.message).message == entry.message
    assert isinstance(tree.active_entries, tuple)


class Hostile(dict):
    def __getitem__(self, key):
        raise AssertionError("an accessor was called")


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        "text",
        {},
        {"role": "user"},
        {"role": "user", "content": float("nan")},
        {"role": "user", "content": "\ud800"},
        Hostile(role="user", content=""),
        {"role": "user", "content": "", "details": Hostile()},
        {1: 2},
        {"role": "user", "content": "", "details": {"x": object()}},
        {"role": "user", "content": "", "more": 1},
    ],
)
def test_a_message_that_breaks_the_contract_changes_nothing(path, message):
    file = create(path)
    before = path.read_bytes()
    with pytest.raises(SessionInvalidMessage):
        file.append(None, message)
    loop = {"role": "user", "content": "", "details": {}}
    loop["details"]["x"] = loop
    with pytest.raises(SessionInvalidMessage):
        file.append(None, loop)
    assert path.read_bytes() == before
    file.append(None, user())


def test_what_does_not_fit_changes_nothing_and_the_next_append_works(path):
    file = create(path)
    root = file.append(None, user())
    call = file.append(root.id, calling(("t", "grep")))
    before = path.read_bytes()
    with pytest.raises(SessionParentMissing):
        file.append("nowhere", user())
    with pytest.raises(SessionToolMismatch):
        file.append(root.id, result("t", "grep"))
    with pytest.raises(SessionToolMismatch):
        file.append(call.id, result("t", "sed"))
    assert path.read_bytes() == before
    answer = file.append(call.id, result("t", "grep"))
    assert load(path).entries == (root, call, answer)


def test_a_source_of_ids_that_repeats_itself_is_refused(path):
    given = iter(["a", "a", "", 7, "b"])
    file = create(path, new_id=lambda: next(given))
    file.append(None, user())
    for error in (SessionDuplicateId, SessionInvalidEntry, SessionInvalidEntry):
        with pytest.raises(error):
            file.append("a", user())
    assert file.append("a", user()).id == "b"
    assert len(load(path).entries) == 2


def test_what_is_too_large_is_refused_by_its_id_and_never_cut(path):
    file = create(path)
    room = MAX_LINE_BYTES - len(file.append(None, user("")).line)
    file.append(None, user("x" * room))
    before = path.read_bytes()
    with pytest.raises(SessionLineTooLarge) as caught:
        file.append(None, user("x" * (room + 1)))
    assert (caught.value.details["id"], caught.value.details["bytes"]) == ("entry-003", MAX_LINE_BYTES + 1)
    assert path.read_bytes() == before


def test_a_file_that_would_be_too_large(path):
    file = create(path)
    bare = len(file.append(None, user("")).line)
    full = [entry_line(f"e{number:02}", None, user("x" * 65_000)) for number in range(64)]
    write(path, header_line(), *full)
    file = load(path)
    room = MAX_FILE_BYTES - path.stat().st_size - 1
    assert bare < room < MAX_LINE_BYTES
    with pytest.raises(SessionFileTooLarge) as caught:
        file.append(None, user("x" * (room - bare + 1)))
    assert caught.value.details["id"] == "entry-001"
    file.append(None, user("x" * (room - bare)))
    assert path.stat().st_size == MAX_FILE_BYTES
    assert len(load(path).entries) == 65


def test_so_many_entries_and_no_more(path):
    write(path, header_line(), *(entry_line(f"e{number}") for number in range(MAX_ENTRIES - 1)))
    file = load(path)
    file.append(None, user())
    with pytest.raises(SessionTooManyEntries):
        file.append(None, user())
    assert len(load(path).entries) == MAX_ENTRIES


def test_fc_09_a_torn_tail_is_kept_aside_and_the_next_entry_stands_alone(path):
    torn = b'{"type":"message","id":"e9","parentId":"e8","te'
    path.write_bytes(header_line() + b"\r\n" + entry_line("e1") + b"\r\n" + torn)
    before = path.read_bytes()
    file = load(path)
    assert file.torn_tail.data == torn
    assert file.torn_tail.offset == before.index(torn)
    assert path.read_bytes() == before
    file.append("e1", user())
    assert file.torn_tail is None
    assert path.read_bytes() == b"\n".join([header_line(), entry_line("e1"), file.entries[1].line, b""])
    assert beside(path) == [f"talk.jsonl.torn-{sha256(torn).hexdigest()[:12]}"]
    assert (path.parent / beside(path)[0]).read_bytes() == torn
    assert load(path).torn_tail is None


def test_a_missing_last_line_feed_is_no_damage(path):
    path.write_bytes(header_line() + b"\n" + entry_line("e1"))
    load(path).append("e1", user())
    assert len(load(path).entries) == 2
    assert beside(path) == []


def test_fc_12_damage_in_the_middle_refuses_all(path):
    write(path, header_line(), b"not-json", entry_line())
    before = path.read_bytes()
    with pytest.raises(SessionInvalidJson):
        load(path)
    assert path.read_bytes() == before


def test_fc_13_a_torn_header_gets_no_second_one(path):
    torn = b'{"type":"session","version":3,"id":"s'
    for data in (b"", b"\n\n", torn):
        path.write_bytes(data)
        with pytest.raises(SessionFileError) as caught:
            load(path)
        assert caught.value.code == "session_empty"
        with pytest.raises(SessionFileExists):
            create(path)
        assert path.read_bytes() == data


def test_fc_14_fc_16_a_line_of_ours_is_one_line_to_every_reader(path):
    text = "a\u2028b\u0085c\u2029d\x0b\x0c\x1ce\r\nf\x00"
    file = create(path)
    file.append(None, user(text, **{"\u2028": "\u0085"}))
    assert len(path.read_bytes().decode().splitlines()) == 2
    assert load(path).entries[0].message["content"] == text


def test_fc_62_another_version_is_refused_and_no_byte_changes(path):
    for lines in ([header_line(version=99)], [header_line(), entry_line(version=2)]):
        write(path, *lines)
        before = path.read_bytes()
        with pytest.raises(SessionUnsupportedVersion):
            load(path)
        assert path.read_bytes() == before


def test_what_is_no_regular_file_is_not_read(path):
    with pytest.raises(SessionFileMissing):
        load(path)
    create(path.with_name("real"))
    path.symlink_to("real")
    pipe = path.with_name("pipe")
    os.mkfifo(pipe)
    for odd in (path, pipe, path.parent):
        with pytest.raises(SessionNotRegular):
            load(odd)
    with pytest.raises(SessionFileMissing):
        load(path.with_name("real") / "x")


def test_a_directory_may_be_reached_in_many_ways(path, monkeypatch):
    create(path)
    way = path.parent.parent / "way"
    way.symlink_to(path.parent)
    file = load(way / path.name)
    assert file.path == str(path)
    file.append(None, user())
    monkeypatch.chdir(path.parent)
    assert load(path.name).entries == file.entries


def test_another_file_of_the_same_name_is_not_gone_on_with(path):
    file = create(path)
    file.append(None, user("one"))
    path.rename(path.with_name("away"))
    create(path)
    before = path.read_bytes()
    with pytest.raises(SessionFileReplaced):
        file.append(None, user("two"))
    assert path.read_bytes() == before
    path.unlink()
    with pytest.raises(SessionFileMissing):
        file.append(None, user("two"))
    path.with_name("away").rename(path)
    file.append(None, user("two"))
    assert len(load(path).entries) == 2


def test_a_file_that_was_changed_in_place_is_not_gone_on_with(path):
    file = create(path)
    file.append(None, user("one"))
    path.write_bytes(path.read_bytes().replace(b'"one"', b'"two"'))
    with pytest.raises(SessionFileReplaced):
        file.append(None, user())
    path.write_bytes(b"")
    with pytest.raises(SessionFileError):
        file.append(None, user())


def test_another_directory_of_the_same_name_is_not_gone_on_with(path):
    file = create(path)
    path.parent.rename(path.parent.with_name("away"))
    path.parent.mkdir()
    path.write_bytes((path.parent.with_name("away") / path.name).read_bytes())
    with pytest.raises(SessionFileReplaced):
        file.append(None, user())
    with pytest.raises(SessionFileReplaced):
        file.refresh()


def test_what_others_added_is_taken_over(path):
    first = create(path, new_id=iter(["a", "c"]).__next__)
    second = load(path, new_id=iter(["b"]).__next__)
    tree = SessionTree(first)
    root = tree.append(user("root"))
    assert second.entries == ()
    other = second.append(root.id, user("theirs"))
    mine = tree.append(user("mine"))
    assert [entry.id for entry in first.entries] == ["a", "b", "c"]
    assert first.entries[0] is root
    assert (mine.parent_id, other.parent_id) == ("a", "a")
    second.refresh()
    assert second.entries == first.entries


def test_a_lock_is_waited_for_so_long(path):
    file = create(path, lock_seconds=0.05)
    held = create(path.with_name("other"))
    with held._opened() as directory, directory.locked(1):
        file.append(None, user())
    with file._opened() as directory, directory.locked(1):
        with pytest.raises(SessionFileLocked):
            file.append(None, user())
        with pytest.raises(SessionFileLocked):
            create(path, lock_seconds=0)
        assert load(path).entries == file.entries
    file.append(None, user())


def test_a_lock_file_that_was_removed_keeps_nobody_out(path):
    file = create(path)
    (path.parent / ".talk.jsonl.lock").unlink()
    file.append(None, user())


def test_threads_append_in_turn(path):
    file = create(path)
    tree = SessionTree(file)

    def work():
        for _ in range(8):
            tree.append(user())

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = load(path).entries
    assert len(entries) == 32
    assert [entry.parent_id for entry in entries[1:]] == [entry.id for entry in entries[:-1]]


def test_a_marker_of_a_commit_that_ended_half_way_is_settled(path):
    file = create(path)
    file.append(None, user("one"))
    marker = path.parent / ".talk.jsonl.recovery"
    for make in (
        lambda: os.link(path, marker),
        lambda: marker.write_bytes(header_line(timestamp="2026-01-02T03:04:05.000000Z")),
    ):
        make()
        if marker.stat().st_nlink == 1:
            marker.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
        loaded = load(path)
        assert loaded.entries == file.entries[: len(loaded.entries)]
        assert marker.exists()
        file.append(None, user("more"))
        assert not marker.exists()
    (path.parent / ".talk.jsonl.next").write_bytes(b"half")
    file.append(None, user("more"))
    assert beside(path) == []


def test_a_marker_that_holds_more_than_the_file_is_for_a_person(path):
    file = create(path)
    older = path.read_bytes()
    file.append(None, user("one"))
    marker = path.parent / ".talk.jsonl.recovery"
    path.rename(marker)
    path.write_bytes(older)
    for act in (lambda: load(path), lambda: create(path.with_name("x")) and load(path)):
        with pytest.raises(SessionRecoveryRequired) as caught:
            act()
        assert caught.value.details["marker"] == str(marker)
        path.with_name("x").unlink(missing_ok=True)
    path.unlink()
    for act in (load, create):
        with pytest.raises(SessionRecoveryRequired):
            act(path)
    marker.rename(path)
    assert load(path).entries == file.entries


def test_permissions_stay(path):
    file = create(path)
    path.chmod(0o640)
    file.append(None, user())
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_the_library_knows_neither_database_nor_git():
    code = (
        "import sys, bridge.transcripts.sessionfile as s; s.SessionTree; "
        "print([n for n in sys.modules if n.split('.')[0] in ('sqlalchemy', 'sqlite3', 'pygit2', 'psycopg') "
        "or n.startswith(('bridge.storage', 'bridge.git', 'bridge.control', 'bridge.conversations'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
