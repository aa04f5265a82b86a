"""What can go wrong between Bridge and git, one class per condition (exit statuses 26 to 40)."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class GitError(BridgeError):
    """Base of the conditions of this package; never raised itself."""


class GitFailed(GitError):
    """Raised when git ends with a status that the call does not expect; details carry its words."""

    code = "git_failed"
    exit_status = 26
    summary = "A git command ended with an error; details hold its exit status and the end of its stderr."
    default_hint = "Run the git command by hand in that folder; Bridge can go on once it works."


class CommitRefused(GitFailed):
    """Raised when git does not make a commit in the user's name: a hook refuses, or it cannot be signed."""

    code = "commit_refused"
    exit_status = 26
    summary = "A hook of the repository refused a commit in the user's name, or it could not be signed."
    default_hint = "Mend what it complains about, or leave it out: --no-verify for hooks, --no-gpg-sign for signing."


class GitTimedOut(GitError):
    """Raised when git does not answer within the time limit; it was ended with everything it had started."""

    code = "git_timed_out"
    exit_status = 27
    summary = "A git command took longer than the time limit and was ended."
    default_hint = "Raise git_timeout_seconds in config.toml, or find out what makes git slow here."


class GitMissing(GitError):
    """Raised when there is no git program on the search path."""

    code = "git_missing"
    exit_status = 28
    summary = "The git program was not found."
    default_hint = "Install git 2.38 or newer and see to it that it is on PATH."


class NotARepository(GitError):
    """Raised when a path lies in no git repository."""

    code = "not_a_repository"
    exit_status = 29
    summary = "The path is not inside a git repository."
    default_hint = "Name a folder inside a repository, or make one with git init."


class BareRepository(GitError):
    """Raised when files are needed and the repository has no work tree at that place."""

    code = "bare_repository"
    exit_status = 30
    summary = "The repository has no work tree at that path."
    default_hint = "Name one of its worktrees instead: git worktree list."


class WorktreeNotRegistered(GitError):
    """Raised when a folder is not the top level of a worktree that its repository knows."""

    code = "worktree_not_registered"
    exit_status = 31
    summary = "A folder is not a registered worktree of its own; git would act on an enclosing repository."
    default_hint = "See which worktrees the repository knows: git worktree list."


class WorktreeMismatch(GitError):
    """Raised when a new worktree is not what was asked for."""

    code = "worktree_mismatch"
    exit_status = 32
    summary = "A newly created worktree stands at another commit or top level than asked for."
    default_hint = "Nothing was started in it. Look with git worktree list, then try again."


class WorktreePathTaken(GitError):
    """Raised when a new worktree would stand where something is already."""

    code = "worktree_path_taken"
    exit_status = 33
    summary = "Something already exists at the path meant for a new worktree, or git has it registered."
    default_hint = "Choose another path, or remove what is there: git worktree list, git worktree prune."


class BranchCheckedOut(GitError):
    """Raised when a git branch is needed that another worktree has checked out."""

    code = "branch_checked_out"
    exit_status = 34
    summary = "The git branch is checked out in another worktree; details name it."
    default_hint = "Switch that worktree to another branch, or work there."


class CommitMissing(GitError):
    """Raised when a commit that Bridge knows about is not in the repository."""

    code = "commit_missing"
    exit_status = 35
    summary = "A commit is not in the repository (never fetched, or removed by gc)."
    default_hint = "Fetch it from where it still exists."


class UnbornHead(GitError):
    """Raised when a commit is needed and HEAD has none yet."""

    code = "unborn_head"
    exit_status = 36
    summary = "The repository has no commit yet where one is needed."
    default_hint = "Make the first commit, then try again."


class RefMoved(GitError):
    """Raised when a ref is not where the caller last saw it; nothing was written."""

    code = "ref_moved"
    exit_status = 37
    summary = "A git ref is not at the commit it was expected at; nothing was written."
    default_hint = "Look where it is now, then decide anew."


class GitIdentityMissing(GitError):
    """Raised when a commit must carry the user's name and git knows none."""

    code = "git_identity_missing"
    exit_status = 38
    summary = "git knows no name or email address for the user's own commit."
    default_hint = "Set them: git config --global user.name NAME; git config --global user.email ADDRESS."


class CheckoutBlocked(GitError):
    """Raised when bringing a commit into a checkout would overwrite work; nothing was changed."""

    code = "checkout_blocked"
    exit_status = 39
    summary = "Uncommitted, untracked or ignored files stand in the way; details list them; nothing was changed."
    default_hint = "Commit or move these files, then try again."


class NotAFastForward(GitError):
    """Raised when a checkout's HEAD is not an ancestor of the commit it should move to."""

    code = "not_a_fast_forward"
    exit_status = 40
    summary = "HEAD of the checkout is not an ancestor of the commit; nothing was changed."
    default_hint = "HEAD moved since the merge was made: merge anew."


class ObjectsNotTaken(GitFailed):
    """Raised when the objects of a worker's own folder cannot be lent to, or brought into, its repository."""

    code = "objects_not_taken"
    summary = "A worker's objects could not be lent to its repository or brought into it; they stay where they are."
    default_hint = "Look at the folder that the message names: git fsck says which objects are damaged."
