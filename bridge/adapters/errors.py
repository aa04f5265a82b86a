"""What keeps a harness from being asked. How a run ended is an outcome (see ``base``), not an error."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class HarnessUnfit(BridgeError):
    """Base of what makes a harness none for a task; the classes share its exit status."""

    exit_status = 110


class UnknownHarness(HarnessUnfit):
    """Raised when a harness is named that this Bridge has no adapter for."""

    code = "unknown_harness"
    summary = "A harness is named that this Bridge has no adapter for."
    default_hint = "bridge doctor lists the harnesses of this installation."


class CommandMissing(HarnessUnfit):
    """Raised when a task names no command for a harness that only runs one."""

    code = "command_missing"
    summary = "A task is for a harness that runs a command, and names none."
    default_hint = "Name an agent's harness, or a command; bridge doctor lists the harnesses of this installation."


class EvidenceMismatch(BridgeError):
    """Raised when evidence that is about to be handed to a worker is not what its digest says."""

    code = "evidence_mismatch"
    exit_status = 111
    summary = "Evidence for a worker does not have the digest it was resolved with."
    default_hint = "Run bridge verify on the session that the evidence was cited from."


class TaskFolderUnusable(BridgeError):
    """Raised when the request cannot be written where the worker would read it."""

    code = "task_folder_unusable"
    exit_status = 112
    summary = "The folder that holds a worker's request and result cannot be written."
    default_hint = "Check free space and permissions of the state directory (BRIDGE_HOME)."


class HarnessStartFailed(BridgeError):
    """Raised when a harness was started but does not come to a session."""

    code = "harness_start_failed"
    exit_status = 113
    summary = "A harness was started but ended, kept silent or reported an error before a session was open."
    default_hint = "Run its command by hand in the same folder to see what it lacks; bridge doctor names the command."


class HarnessProtocolBroken(BridgeError):
    """Raised when a harness does not speak the protocol: another version, no JSON, oversized messages."""

    code = "harness_protocol_broken"
    exit_status = 114
    summary = "A harness does not speak the Agent Client Protocol as Bridge knows it."
    default_hint = "Check that the command of the harness is the one for ACP (docs/configuration.md), and its version."


class NativeResumeFailed(BridgeError):
    """Raised when a harness cannot take up one of its own sessions; ``details["reason"]`` is the typed cause."""

    code = "native_resume_failed"
    exit_status = 216
    summary = "A harness cannot take up its own earlier session again."
    default_hint = "The conversation goes on from what is recorded instead."


class HarnessLoginNeeded(BridgeError):
    """Raised when a harness wants somebody to log in first; ``details["methods"]`` are those it offers."""

    code = "harness_login_needed"
    exit_status = 217
    summary = "A harness wants a login before it opens a session."
    default_hint = "Log in with the program's own command, then try again."


class PathOutsideDirectory(BridgeError):
    """Raised when an agent asks for a file or a folder that it may not reach; nothing was read or written."""

    code = "path_outside_directory"
    exit_status = 218
    summary = "An agent asked for a path outside its directory, through a symlink, or inside .git."
    default_hint = "Agents reach regular files of their own directory, by paths without symlinks."


class ModelNotOffered(BridgeError):
    """Raised when a harness does not offer the model that was asked for; ``details["offered"]`` lists them."""

    code = "model_not_offered"
    exit_status = 219
    summary = "A harness does not offer the model that was asked for, or does not let it be chosen."
    default_hint = "Choose one of those it offers, or leave --model out."


class ConversationEnded(BridgeError):
    """Raised when something is said to a conversation whose process has ended. Nothing was sent."""

    code = "conversation_ended"
    exit_status = 220
    summary = "The agent's process has ended, so nothing can be said to it."
    default_hint = "Open a new conversation; what was said before is recorded."


class ScriptInvalid(BridgeError):
    """Raised when the script of the scripted agent cannot be played."""

    code = "script_invalid"
    exit_status = 221
    summary = "A script of the scripted agent is unreadable, no JSON or TOML, or has a step that does not exist."
    default_hint = "docs/scripted-agent.md describes every step."


class AgentFileUnusable(BridgeError):
    """Raised when a file that an agent asks for is none it can have: missing, too large, no text, no file."""

    code = "agent_file_unusable"
    exit_status = 222
    summary = "A file that an agent asked Bridge for is missing, too large, not text, or no regular file."
    default_hint = "The agent was told; nothing was changed."


class AgentFileMissing(AgentFileUnusable):
    """Raised when an agent asks for a file that is not there; agents ask so before they make one."""

    code = "agent_file_missing"
    exit_status = 222
    summary = "A file that an agent asked Bridge for does not exist."
