"""The commands by name: one line of help each, and where the function lives.

This module is data. It is read on every start, so it imports no command: a command's module is imported when
the command is used. Adding a command means writing its function and adding one line here; tests check that each
target exists, that no module in ``commands/`` is forgotten and that the help here is the docstring's first line.
Clients of the resident controller read it before anything else, so it imports nothing: dataclasses alone would
cost them more than the rest of their work.
"""

from __future__ import annotations


class CommandSpec:
    """A command that is imported when it is used.

    Parameters
    ----------
    name
        What people type.
    help
        One line, imperative, no full stop; the first line of the function's docstring.
    target
        ``module:function`` below ``bridge.cli.commands``.
    """

    __slots__ = ("help", "name", "target")

    def __init__(self, name: str, help: str, target: str) -> None:  # noqa: A002 - what it is
        self.name = name
        self.help = help
        self.target = target


class GroupSpec:
    """A command with subcommands, such as ``bridge session``."""

    __slots__ = ("commands", "help", "name")

    def __init__(self, name: str, help: str, commands: tuple[CommandSpec, ...]) -> None:  # noqa: A002 - what it is
        self.name = name
        self.help = help
        self.commands = commands


#: The commands that a resident controller may run for its clients: short ones that neither ask nor show progress, go
#: by no part of the process but what :class:`bridge.cli.context.Cli` gives them, and write no file but the store's.
RESIDENT = frozenset(
    {
        "append",
        "approvals",
        "approve",
        "back",
        "branches",
        "context",
        "deny",
        "diff",
        "find",
        "fork",
        "goto",
        "label",
        "log",
        "note",
        "notes",
        "recall",
        "result",
        "root",
        "session lineage",
        "session list",
        "session new",
        "session show",
        "show",
        "status",
        "task diff",
        "task list",
        "task log",
        "task path",
        "task resume",
        "task send",
        "task show",
        "tree",
        "wake",
    }
)


COMMANDS: tuple[CommandSpec | GroupSpec, ...] = (
    CommandSpec("demo", "Show the main job on a clone of a real repository, offline", "demo:demo"),
    CommandSpec("init", "Register a repository as a workspace", "init:init"),
    GroupSpec(
        "session",
        "Start, list and look at sessions",
        (
            CommandSpec("new", "Start a session", "session:new"),
            CommandSpec("list", "List the sessions of this workspace", "session:list_"),
            CommandSpec("show", "Show a session with its workspace, labels and cursors", "session:show"),
            CommandSpec("prune", "Remove all but the chats touched last", "erase:prune"),
            CommandSpec(
                "lineage",
                "Draw the sessions that a session descends from, and those that descend from it",
                "lineage:lineage",
            ),
        ),
    ),
    CommandSpec("append", "Append an entry to a session", "append:append"),
    CommandSpec("log", "List the entries of a session's active path", "log:log"),
    CommandSpec("tree", "Draw the tree of a session", "tree:tree"),
    CommandSpec("show", "Show an entry with its payload, stamp and hashes", "show:show"),
    CommandSpec("branches", "List the branches of a session", "branches:branches"),
    CommandSpec("goto", "Go to another entry of a session; no file is touched", "goto:goto"),
    CommandSpec("back", "Go back to the entry before the head; no file is touched", "goto:back"),
    CommandSpec("label", "Name an entry, or take a name from it", "label:label"),
    CommandSpec("fork", "Start a session that goes on from an entry of another one", "fork:fork"),
    CommandSpec("wake", "Start a session that continues the one before it", "wake:wake"),
    CommandSpec("note", "Leave a note in a session", "note:note"),
    CommandSpec("notes", "List the notes of a session, and of those it continues", "note:notes"),
    CommandSpec("context", "Print the context that a session's active path restores", "context:context"),
    CommandSpec("status", "Compare the files with the last entry of each session", "status:status"),
    CommandSpec("diff", "Show which paths differ between an entry's stamp and now", "diff:diff"),
    CommandSpec("files", "Put the files behind an entry's stamp into a new worktree", "files:files"),
    CommandSpec("chat", "Talk to an agent", "chat:chat"),
    CommandSpec("delegate", "Delegate one task to a worker in a worktree of its own", "delegate:delegate"),
    CommandSpec("run", "Run the workers of a plan file, each in a worktree of its own", "run:run"),
    GroupSpec(
        "task",
        "Look at tasks, end them, adopt or discard what they did",
        (
            CommandSpec("list", "List tasks, oldest first", "task:list_"),
            CommandSpec("show", "Show a task with its request, decision, attempts and result", "task:show"),
            CommandSpec("log", "Print what a task's worker said, did, printed and handed in", "steer:log"),
            CommandSpec(
                "diff",
                "Show what a task's worker changed since it started, uncommitted work included",
                "steer:diff",
            ),
            CommandSpec("path", "Print the path of a task's worktree", "task:path"),
            CommandSpec("send", "Say something to a running worker, without ending its turn", "steer:send"),
            CommandSpec("retry", "Have an ended task tried again, with what was wrong", "delegate:retry"),
            CommandSpec("resume", "Go on with a paused credential before its quota resets", "steer:resume"),
            CommandSpec("cancel", "Ask for the end of a task; its worker gets a moment to stop", "task:cancel"),
            CommandSpec("adopt", "Bring tasks' commits onto the git branch that they were asked for on", "task:adopt"),
            CommandSpec(
                "discard",
                "Give up a task's changes and its worktree; they stay under a ref of Bridge's own",
                "task:discard",
            ),
        ),
    ),
    CommandSpec("approvals", "List what workers want allowed", "steer:approvals"),
    CommandSpec("approve", "Allow what a worker wants", "steer:approve"),
    CommandSpec("deny", "Deny what a worker wants", "steer:deny"),
    GroupSpec(
        "hooks",
        "Record the conversations with coding agents that you start yourself",
        (
            CommandSpec("install", "Write Bridge's hooks into a coding agent's settings", "hooks:install"),
            CommandSpec(
                "status",
                "Say of each coding agent whether its hooks are installed, trusted, and record",
                "hooks:status",
            ),
            CommandSpec("uninstall", "Take Bridge's hooks out of a coding agent's settings", "hooks:uninstall"),
        ),
    ),
    CommandSpec("result", "Print a worker's result, checked as evidence is", "result:result"),
    CommandSpec("export", "Write a session as a file", "export:export"),
    CommandSpec("import", "Take in sessions: exported ones, and transcripts of other programs", "importing:import_"),
    CommandSpec("recall", "Find again what was said in a session", "recall:recall"),
    CommandSpec("find", "Find a chat by what was spoken of in it, and when", "find:find"),
    CommandSpec("verify", "Recompute the hashes of entries, audit chains, their log, and states", "verify:verify"),
    CommandSpec("root", "Print the hash that fixes a whole session", "verify:root"),
    CommandSpec("proof", "Write what proves an entry to somebody without this store", "verify:proof"),
    CommandSpec("anchor", "Keep size and root of the log of all events outside the database", "verify:anchor"),
    CommandSpec("erase", "Erase what an entry says, for good; its hash stays", "erase:erase"),
    CommandSpec("serve", "Run the resident controller, or look at it, stop it, replace it", "serve:serve"),
    CommandSpec("rpc", "Answer JSON-RPC on standard input and output, or call one method", "rpc:rpc"),
    CommandSpec("mcp", "Give an agent its tools on standard input and output, or attach one", "mcp:mcp"),
    GroupSpec(
        "db",
        "Look after the store: schema, upgrade, backups, soundness",
        (
            CommandSpec("status", "Show the schema of the store, its size, who uses it, and its backups", "db:status"),
            CommandSpec("upgrade", "Bring the store to the schema of this Bridge, after a backup", "db:upgrade"),
            CommandSpec("backup", "Write a backup of the store into one file, while it is used", "db:backup"),
            CommandSpec("restore", "Put a backup in the place of the store, and say what is lost", "db:restore"),
            CommandSpec("check", "Check the database and the shape of every session", "db:check"),
            CommandSpec("reindex", "Build the search index anew", "db:reindex"),
            CommandSpec("copy", "Copy the store to another database, and prove that the copy is equal", "db:copy"),
        ),
    ),
    CommandSpec("doctor", "Check this machine, this installation and the state directory", "doctor:doctor"),
)
