"""During whose turns a path changed, from values alone."""

from __future__ import annotations

from bridge.git.manifest import ContentKind, ManifestRow
from bridge.workspaces.attribution import Attributed, HeadMove, Sighting, Span, Step, View, attribute, steps_of

A, B = b"a.txt", b"b.txt"


def at(second):
    return f"2026-01-01T00:00:{second:02d}.000000Z"


def row(path, content):
    return ManifestRow(
        path=path,
        index_status=b".",
        worktree_status=b"M",
        submodule=b"N...",
        modes=(b"100644", b"100644"),
        worktree_mode=b"100644",
        object_ids=(b"1" * 40, b"1" * 40),
        content_kind=ContentKind.FILE,
        content_digest=content,
    )


class Timeline:
    """States by letters: each stamp says at which second which content the paths had, and at which HEAD."""

    def __init__(self, *stamps):
        self.sightings = []
        self.views = {}
        for second, head, contents in stamps:
            digest = f"{head}:{sorted(contents.items())}"
            rows = [row(path, content) for path, content in sorted(contents.items())]
            self.views[digest] = View.of(head, rows, {A, B})
            self.sightings.append(Sighting(at(second), digest))

    def attributed(self, *spans, moves=None, **options):
        steps = steps_of(self.sightings[0], self.sightings[1:-1], self.sightings[-1])
        return attribute(
            {A, B}, steps, spans, views=self.views, moves=moves or {}, since=self.sightings[0].observed_at, **options
        )


def span(session, begins, ends):
    return Span(session, f"{session}.{begins}", None if ends is None else f"{session}.{ends}", at(begins), end_of(ends))


def end_of(second):
    return None if second is None else at(second)


def names(attribution, path):
    return [one.entry_id for one in attribution.of(path).attributed_to]


def test_steps_are_neighbours_that_differ_after_the_base():
    base, now = Sighting(at(5), "x"), Sighting(at(9), "y")
    others = [Sighting(at(second), digest) for second, digest in [(8, "y"), (3, "q"), (6, "x"), (7, "z"), (11, "q")]]
    assert steps_of(base, others, now) == [
        Step(Sighting(at(6), "x"), Sighting(at(7), "z")),
        Step(Sighting(at(7), "z"), Sighting(at(8), "y")),
    ]


def test_a_change_between_two_stamps_of_a_turn_is_the_later_entrys():
    timeline = Timeline((1, "h", {}), (2, "h", {A: b"1"}), (3, "h", {A: b"1"}))
    found = timeline.attributed(span("s", 1, 2))
    assert found.of(A).attributed_to == (Attributed("s", "s.2", "s.1"),)
    assert (found.of(A).is_outside_turns, found.is_complete) == (False, True)
    assert found.of(B) == found.of(b"other")
    assert found.of(B).attributed_to == ()


def test_a_change_between_turns_is_nobodys():
    timeline = Timeline((1, "h", {}), (2, "h", {}), (3, "h", {A: b"1"}), (4, "h", {A: b"1"}))
    found = timeline.attributed(span("s", 1, 2), span("s", 3, 4))
    assert names(found, A) == []
    assert found.of(A).is_outside_turns


def test_a_change_after_the_last_stamp_is_nobodys_even_while_a_turn_runs():
    timeline = Timeline((1, "h", {}), (2, "h", {A: b"1"}))
    assert timeline.attributed().of(A).is_outside_turns
    found = timeline.attributed(span("s", 1, None))
    assert names(found, A) == []
    assert (found.of(A).running, found.of(A).is_outside_turns) == (("s",), False)


def test_turns_that_overlap_are_both_named():
    timeline = Timeline((1, "h", {}), (2, "h", {}), (3, "h", {A: b"1"}), (4, "h", {A: b"1"}))
    found = timeline.attributed(span("s", 1, 3), span("t", 2, 4))
    assert names(found, A) == ["s.3", "t.4"]


def test_another_sessions_stamp_in_between_narrows_it_down():
    # Before t began: the change was there when t's first stamp was taken.
    timeline = Timeline((1, "h", {}), (2, "h", {A: b"1"}), (3, "h", {A: b"1"}), (4, "h", {A: b"1"}))
    assert names(timeline.attributed(span("s", 1, 3), span("t", 2, 4)), A) == ["s.3"]


def test_a_turn_that_was_not_stamped_since_is_named_as_running():
    timeline = Timeline((1, "h", {}), (2, "h", {}), (3, "h", {A: b"1"}))
    found = timeline.attributed(span("s", 1, 3), span("t", 2, None))
    assert (names(found, A), found.of(A).running) == (["s.3"], ("t",))


def test_a_path_can_have_changed_in_several_windows_and_outside():
    timeline = Timeline(
        (1, "h", {}), (2, "h", {A: b"1"}), (3, "h", {A: b"2"}), (4, "h", {A: b"3"}), (5, "h", {A: b"3"})
    )
    found = timeline.attributed(span("s", 1, 2), span("s", 3, 4))
    assert names(found, A) == ["s.2", "s.4"]
    assert found.of(A).is_outside_turns


def test_a_pull_between_turns_is_nobodys_and_a_commit_in_one_is_the_entrys():
    timeline = Timeline((1, "h", {}), (2, "h", {}), (3, "i", {}), (4, "j", {}), (5, "j", {}))
    moves = {("h", "i"): HeadMove(frozenset({A}), at(0)), ("i", "j"): HeadMove(frozenset({B}), at(3))}
    found = timeline.attributed(span("s", 1, 2), span("s", 3, 4), moves=moves)
    assert (names(found, A), found.of(A).is_outside_turns) == ([], True)
    assert found.of(B).attributed_to == (Attributed("s", "s.4", "s.3"),)


def test_commits_older_than_the_window_are_said_to_be():
    timeline = Timeline((1, "h", {}), (3, "i", {}), (4, "i", {}))
    moves = {("h", "i"): HeadMove(frozenset({A}), at(0))}
    (one,) = timeline.attributed(span("s", 1, 3), moves=moves).of(A).attributed_to
    assert one.came_with_older_commits
    # HEAD went back: no commit is new, and none came.
    moves = {("h", "i"): HeadMove(frozenset({A}), None)}
    (one,) = timeline.attributed(span("s", 1, 3), moves=moves).of(A).attributed_to
    assert not one.came_with_older_commits


def test_an_own_edit_that_a_commit_took_up_did_not_come_with_older_ones():
    timeline = Timeline((1, "h", {A: b"1"}), (3, "i", {}), (4, "i", {}))
    moves = {("h", "i"): HeadMove(frozenset({A}), at(0))}
    (one,) = timeline.attributed(span("s", 1, 3), moves=moves).of(A).attributed_to
    assert not one.came_with_older_commits


def test_what_is_not_available_makes_it_incomplete():
    timeline = Timeline((1, "h", {}), (2, "i", {A: b"1"}), (3, "i", {A: b"1"}))
    found = timeline.attributed(span("s", 1, 2))
    assert (names(found, A), found.is_complete) == (["s.2"], False)
    timeline.views.pop(timeline.sightings[1].state_digest)
    assert not timeline.attributed(span("s", 1, 2)).is_complete
    whole = Timeline((1, "h", {}), (2, "h", {}))
    assert not whole.attributed(is_complete=False).is_complete


def test_a_rename_counts_under_both_names():
    timeline = Timeline((1, "h", {A: b"1"}), (2, "h", {}), (3, "h", {B: b"1"}))
    found = timeline.attributed(span("s", 1, 2), span("s", 2, 3))
    assert [one.entry_id for one in found.of(B, A).attributed_to] == ["s.3", "s.2"]
