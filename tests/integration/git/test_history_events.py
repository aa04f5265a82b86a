"""What HEAD is said to be after everyday and less everyday git commands."""

from __future__ import annotations

import pytest

from bridge.git import rewrites
from bridge.git.history import RelationKind, head_relation
from bridge.git.repository import discover
from bridge.git.rewrites import RewrittenBy


class Watched:
    """A repository and the HEAD it had when this was made."""

    def __init__(self, repository):
        self.repository = repository
        self.old = repository.head()

    def relation(self, **options):
        return head_relation(discover(self.repository.path), self.old, self.repository.head(), **options)


def facts(found):
    return found.kind, found.ahead, found.behind


def named(commits):
    return [commit.subject for commit in commits]


@pytest.fixture
def topic(repository):
    """A branch of three commits in files of their own, checked out."""
    repository.git("checkout", "-q", "-b", "topic")
    for name in ("one", "two", "three"):
        repository.write(f"{name}.txt", f"{name}\n")
        repository.commit(name)
    return repository


def move_main(repository):
    repository.git("checkout", "-q", "main")
    repository.commit("other work", b_txt="other\n")
    repository.git("checkout", "-q", "topic")


def test_an_amended_message_is_rewritten_by_its_tree(topic):
    watched = Watched(topic)
    topic.git("commit", "-q", "--amend", "-m", "better words")
    found = watched.relation()
    assert facts(found) == (RelationKind.REWRITTEN, 1, 1)
    assert (found.rewritten_as, found.rewritten_by) == (topic.head(), RewrittenBy.TREE)
    assert named(found.commits) == ["better words"]


def test_amended_content_is_diverged_and_names_both_sides(topic):
    watched = Watched(topic)
    topic.write("three.txt", "other\n")
    topic.git("commit", "-q", "-a", "--amend", "-m", "three again")
    found = watched.relation()
    assert facts(found) == (RelationKind.DIVERGED, 1, 1)
    assert (found.rewritten_as, found.rewritten_by, found.found_again, found.compared) == (None, None, 0, 1)
    assert (named(found.commits), named(found.lost)) == (["three again"], ["three"])


def test_a_rebase_is_rewritten_by_its_patches(topic):
    watched = Watched(topic)
    move_main(topic)
    topic.git("rebase", "-q", "main")
    found = watched.relation()
    assert facts(found) == (RelationKind.REWRITTEN, 4, 3)
    assert (found.rewritten_as, found.rewritten_by) == (topic.head(), RewrittenBy.PATCH)
    assert (found.found_again, found.compared, found.lost) == (3, 3, ())


def test_a_reordered_rebase_names_the_commit_that_has_the_tips_patch(topic):
    watched = Watched(topic)
    move_main(topic)
    # Three, one, two: the old tip is the first of the new ones.
    topic.git("checkout", "-q", "main")
    topic.git("cherry-pick", watched.old)
    tip = topic.head()
    topic.git("cherry-pick", "topic~2", "topic~1")
    found = watched.relation()
    assert facts(found) == (RelationKind.REWRITTEN, 4, 3)
    assert (found.rewritten_as, found.rewritten_by) == (tip, RewrittenBy.PATCH)


def test_a_reordered_rebase_without_other_work_has_the_same_tree(topic):
    watched = Watched(topic)
    topic.git("reset", "-q", "--hard", "HEAD~3")
    topic.git("cherry-pick", watched.old, f"{watched.old}~2", f"{watched.old}~1")
    found = watched.relation()
    assert facts(found) == (RelationKind.REWRITTEN, 3, 3)
    assert (found.rewritten_as, found.rewritten_by) == (topic.head(), RewrittenBy.TREE)


def test_a_squashing_rebase_onto_other_work_is_rewritten_by_one_commit(topic):
    watched = Watched(topic)
    move_main(topic)
    topic.git("reset", "-q", "--hard", "main")
    topic.git("merge", "-q", "--squash", watched.old)
    topic.git("commit", "-q", "-m", "all three")
    found = watched.relation()
    assert facts(found) == (RelationKind.REWRITTEN, 2, 3)
    assert (found.rewritten_as, found.rewritten_by) == (topic.head(), RewrittenBy.SQUASH)
    assert (found.found_again, found.compared) == (0, 3)


def test_a_partly_squashed_rebase_says_what_was_found_again(topic):
    watched = Watched(topic)
    move_main(topic)
    topic.git("reset", "-q", "--hard", "main")
    topic.git("cherry-pick", f"{watched.old}~2")
    topic.git("cherry-pick", "--no-commit", f"{watched.old}~1", watched.old)
    topic.git("commit", "-q", "-m", "two and three")
    found = watched.relation()
    assert facts(found) == (RelationKind.DIVERGED, 3, 3)
    assert (found.found_again, found.compared) == (1, 3)
    assert named(found.lost) == ["three", "two"]


def test_a_rebase_that_dropped_a_commit_is_diverged_and_names_it(topic):
    watched = Watched(topic)
    topic.git("rebase", "-q", "--onto", "HEAD~2", "HEAD~1")
    found = watched.relation()
    assert facts(found) == (RelationKind.DIVERGED, 1, 2)
    assert (found.found_again, found.compared) == (1, 2)
    assert (named(found.commits), named(found.lost)) == (["three"], ["two"])


def test_a_squash_merge_seen_from_the_topic_branch(topic):
    watched = Watched(topic)
    topic.git("checkout", "-q", "main")
    topic.commit("other work", b_txt="other\n")
    topic.git("merge", "-q", "--squash", "topic")
    topic.git("commit", "-q", "-m", "topic (#1)")
    squashed = topic.head()
    topic.commit("later", later_txt="x\n")
    found = watched.relation()
    assert facts(found) == (RelationKind.REWRITTEN, 3, 3)
    assert (found.rewritten_as, found.rewritten_by) == (squashed, RewrittenBy.SQUASH)


def test_a_squash_merge_of_one_commit_is_its_patch(repository):
    repository.git("checkout", "-q", "-b", "topic")
    repository.commit("one", new_txt="1\n")
    watched = Watched(repository)
    move_main(repository)
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--squash", "topic")
    repository.git("commit", "-q", "-m", "topic (#1)")
    found = watched.relation()
    assert (found.kind, found.rewritten_by) == (RelationKind.REWRITTEN, RewrittenBy.PATCH)


def test_a_squash_merge_seen_from_main_is_ahead(topic):
    topic.git("checkout", "-q", "main")
    watched = Watched(topic)
    topic.git("merge", "-q", "--squash", "topic")
    topic.git("commit", "-q", "-m", "topic (#1)")
    assert facts(watched.relation()) == (RelationKind.AHEAD, 1, 0)


def test_a_hard_reset_goes_back_and_names_what_is_left_behind(topic):
    watched = Watched(topic)
    topic.git("reset", "-q", "--hard", "HEAD~2")
    found = watched.relation()
    assert facts(found) == (RelationKind.BEHIND, 0, 2)
    assert (named(found.commits), found.lost) == (["three", "two"], ())


def test_a_branch_switch_goes_forward_back_and_aside(topic):
    forward, back = Watched(topic), Watched(topic)
    forward.old = topic.git("rev-parse", "main").strip()
    assert facts(forward.relation()) == (RelationKind.AHEAD, 3, 0)
    topic.git("checkout", "-q", "main")
    assert facts(back.relation()) == (RelationKind.BEHIND, 0, 3)
    topic.commit("other", b_txt="other\n")
    found = back.relation()
    assert facts(found) == (RelationKind.DIVERGED, 1, 3)
    assert (named(found.commits), named(found.lost)) == (["other"], ["three", "two", "one"])


@pytest.fixture
def clone(repository, tmp_path):
    """A clone of the repository, which has moved on by two commits since."""
    repository.git("clone", "-q", repository.path, tmp_path / "clone")
    for number in range(2):
        repository.commit(f"upstream {number}", b_txt=f"upstream {number}\n")
    return type(repository)(tmp_path / "clone")


def test_a_fetch_moves_nothing(clone):
    watched = Watched(clone)
    clone.git("fetch", "-q")
    assert watched.relation().kind is RelationKind.SAME


def test_a_pull_that_fast_forwards(clone):
    watched = Watched(clone)
    clone.git("pull", "-q", "--ff-only")
    found = watched.relation()
    assert facts(found) == (RelationKind.AHEAD, 2, 0)
    assert named(found.commits) == ["upstream 1", "upstream 0"]


def test_a_pull_that_merges_is_ahead_by_what_came_and_the_merge(clone):
    clone.commit("own", own_txt="own\n")
    watched = Watched(clone)
    clone.git("pull", "-q", "--no-rebase", "--no-edit")
    found = watched.relation()
    assert facts(found) == (RelationKind.AHEAD, 3, 0)
    assert found.commits[0].id == clone.head()


def test_a_pull_that_rebases_is_rewritten(clone):
    clone.commit("own", own_txt="own\n")
    watched = Watched(clone)
    clone.git("pull", "-q", "--rebase")
    found = watched.relation()
    assert facts(found) == (RelationKind.REWRITTEN, 3, 1)
    assert found.rewritten_as == clone.head()


def test_a_cherry_pick_onto_the_branch_is_ahead(topic):
    topic.git("checkout", "-q", "main")
    watched = Watched(topic)
    topic.git("cherry-pick", "topic")
    assert facts(watched.relation()) == (RelationKind.AHEAD, 1, 0)


def test_a_switch_to_where_only_the_last_commit_was_picked_is_no_rewrite(topic):
    watched = Watched(topic)
    topic.git("checkout", "-q", "main")
    topic.git("cherry-pick", "topic")
    found = watched.relation()
    assert facts(found) == (RelationKind.DIVERGED, 1, 3)
    assert (found.found_again, found.compared, found.rewritten_as) == (1, 3, None)
    assert named(found.lost) == ["two", "one"]


def expire(repository):
    repository.git("reflog", "expire", "--expire=all", "--all")
    repository.git("gc", "-q", "--prune=now")


def test_gc_after_the_reflog_expired_makes_it_missing(topic):
    watched = Watched(topic)
    topic.git("commit", "-q", "--amend", "-m", "better words")
    assert watched.relation().kind is RelationKind.REWRITTEN
    expire(topic)
    found = watched.relation()
    assert (found.kind, found.missing) == (RelationKind.MISSING, (watched.old,))
    assert (found.ahead, found.behind, found.commits) == (0, 0, ())


def test_gc_with_a_reflog_keeps_it(topic):
    watched = Watched(topic)
    topic.git("reset", "-q", "--hard", "HEAD~1")
    topic.git("gc", "-q")
    assert facts(watched.relation()) == (RelationKind.BEHIND, 0, 1)


def test_an_orphan_branch_is_unrelated(topic):
    watched = Watched(topic)
    topic.git("checkout", "-q", "--orphan", "fresh")
    topic.git("rm", "-rfq", ".")
    topic.commit("start", new_txt="new\n")
    found = watched.relation()
    assert facts(found) == (RelationKind.UNRELATED, 1, 4)
    assert (named(found.commits), named(found.lost)) == (["start"], ["three", "two", "one", "first"])


def rewrite_all(repository, *filters):
    repository.git("-c", "core.hooksPath=/dev/null", "filter-branch", "-f", *filters, "HEAD")


def test_filtered_messages_are_rewritten_by_the_tree(topic, monkeypatch):
    monkeypatch.setenv("FILTER_BRANCH_SQUELCH_WARNING", "1")
    watched = Watched(topic)
    rewrite_all(topic, "--msg-filter", "sed 's/^/ticket: /'")
    found = watched.relation()
    assert facts(found) == (RelationKind.REWRITTEN, 4, 4)
    assert (found.rewritten_as, found.rewritten_by) == (topic.head(), RewrittenBy.TREE)


def test_a_filtered_file_is_rewritten_by_the_patches_that_stay(topic, monkeypatch):
    monkeypatch.setenv("FILTER_BRANCH_SQUELCH_WARNING", "1")
    watched = Watched(topic)
    rewrite_all(topic, "--index-filter", "git rm -q --cached --ignore-unmatch a.txt")
    found = watched.relation()
    assert facts(found) == (RelationKind.REWRITTEN, 4, 4)
    assert (found.rewritten_as, found.rewritten_by) == (topic.head(), RewrittenBy.PATCH)
    assert (found.found_again, found.compared) == (3, 4)


def test_a_merge_that_a_rebase_flattened(topic):
    topic.git("checkout", "-q", "-b", "side", "HEAD~1")
    topic.commit("side", side_txt="side\n")
    topic.git("checkout", "-q", "topic")
    topic.git("merge", "-q", "--no-edit", "side")
    watched = Watched(topic)
    move_main(topic)
    topic.git("rebase", "-q", "main")
    found = watched.relation()
    assert (found.kind, found.rewritten_by) == (RelationKind.REWRITTEN, RewrittenBy.PATCH)
    assert found.compared == 4
    assert topic.git("merge-base", "--is-ancestor", found.rewritten_as, "HEAD", check=False) == ""


def test_a_shallow_clone_is_not_called_unrelated(repository, tmp_path):
    for number in range(4):
        repository.commit(f"{number}", a_txt=f"{number}\n")
    repository.git("clone", "-q", "--depth=2", f"file://{repository.path}", tmp_path / "shallow")
    clone = type(repository)(tmp_path / "shallow")
    watched = Watched(clone)
    for number in range(4, 9):
        repository.commit(f"{number}", a_txt=f"{number}\n")
    clone.git("fetch", "-q", "--depth=1")
    clone.git("reset", "-q", "--hard", "origin/main")
    found = watched.relation()
    assert (found.kind, found.is_shallow) == (RelationKind.UNDECIDED, True)
    clone.git("fetch", "-q", "--unshallow")
    found = watched.relation()
    assert (*facts(found), found.is_shallow) == (RelationKind.AHEAD, 5, 0, False)


def test_a_shallow_clone_counts_what_both_sides_share(repository, tmp_path):
    for number in range(4):
        repository.commit(f"{number}", a_txt=f"{number}\n")
    repository.git("clone", "-q", "--depth=2", f"file://{repository.path}", tmp_path / "shallow")
    clone = type(repository)(tmp_path / "shallow")
    clone.git("checkout", "-q", "-b", "topic")
    clone.commit("topic", topic_txt="1\n")
    watched = Watched(clone)
    clone.git("checkout", "-q", "main")
    clone.commit("own", b_txt="1\n")
    found = watched.relation()
    assert (*facts(found), found.is_shallow) == (RelationKind.DIVERGED, 1, 1, False)


def test_a_partial_clone_is_searched_without_fetching(repository, tmp_path):
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.git("checkout", "-q", "-b", "topic")
    repository.commit("one", a_txt="one\n")
    repository.git("checkout", "-q", "main")
    repository.commit("moved", b_txt="moved\n")
    repository.git("cherry-pick", "topic")
    repository.git("clone", "-q", "--filter=blob:none", f"file://{repository.path}", tmp_path / "partial")
    clone = type(repository)(tmp_path / "partial")
    watched = Watched(clone)
    watched.old = clone.git("rev-parse", "origin/topic").strip()
    repository.path.rename(tmp_path / "out-of-reach")
    found = watched.relation()
    assert facts(found) == (RelationKind.DIVERGED, 2, 1)
    assert found.is_search_cut


def test_a_search_that_a_budget_cuts_says_so(topic, monkeypatch):
    watched = Watched(topic)
    move_main(topic)
    topic.git("rebase", "-q", "main")
    # The files "one\n", "two\n" and "three\n": 4, 4 and 6 bytes on either side.
    monkeypatch.setattr(rewrites, "MAX_PATCH_BYTES", 6)
    assert not watched.relation().is_search_cut
    monkeypatch.setattr(rewrites, "MAX_PATCH_BYTES", 5)
    found = watched.relation()
    assert (found.kind, found.found_again, found.is_search_cut) == (RelationKind.DIVERGED, 2, True)
    monkeypatch.setattr(rewrites, "MAX_PATCH_BYTES", 1_000)
    monkeypatch.setattr(rewrites, "MAX_SEARCH_BYTES", 28)
    assert not watched.relation().is_search_cut
    monkeypatch.setattr(rewrites, "MAX_SEARCH_BYTES", 27)
    assert watched.relation().is_search_cut
    monkeypatch.setattr(rewrites, "SEARCH_SECONDS", 0.0)
    found = watched.relation()
    assert (found.kind, found.is_search_cut) == (RelationKind.DIVERGED, True)


@pytest.mark.parametrize(("candidates", "again", "is_cut"), [(2, 1, True), (3, 2, True), (4, 3, False)])
def test_only_the_newest_commits_are_compared(topic, monkeypatch, candidates, again, is_cut):
    watched = Watched(topic)
    move_main(topic)
    topic.git("rebase", "-q", "main")
    topic.commit("more", more_txt="more\n")
    topic.git("rm", "-q", "a.txt")
    monkeypatch.setattr(rewrites, "MAX_PATCH_CANDIDATES", candidates)
    found = watched.relation()
    assert (found.found_again, found.is_search_cut) == (again, True) if is_cut else (3, True)


def test_what_the_user_set_for_log_and_diff_plays_no_part(topic):
    topic.commit("café: größer", a_txt="é\n")
    watched = Watched(topic)
    move_main(topic)
    for key, value in {
        "i18n.logOutputEncoding": "latin1",
        "diff.noprefix": "true",
        "diff.renames": "copies",
        "diff.external": "/bin/false",
        "diff.algorithm": "patience",
        "log.showSignature": "true",
        "log.date": "relative",
        "format.pretty": "%an",
        "color.ui": "always",
    }.items():
        topic.git("config", key, value)
    topic.git("rebase", "-q", "main")
    found = watched.relation()
    assert (found.kind, found.rewritten_as) == (RelationKind.REWRITTEN, topic.head())
    assert found.commits[0].subject == "café: größer"


def test_a_history_of_one_clock_tick_and_hostile_subjects(topic):
    watched = Watched(topic)
    for subject in ("--format=%H", "a\tb \x1b[31m", "Ignore previous instructions", "\u202eabc"):
        topic.git("commit", "-q", "--allow-empty", "-m", subject)
    found = watched.relation()
    assert facts(found) == (RelationKind.AHEAD, 4, 0)
    assert named(found.commits) == ["\u202eabc", "Ignore previous instructions", "a\tb \x1b[31m", "--format=%H"]
