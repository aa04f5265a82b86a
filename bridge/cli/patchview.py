"""How text differences look to people: like a unified diff, with names escaped and reasons where there is no text."""

from __future__ import annotations

from typing import Final

from bridge.cli.divergenceview import detailed
from bridge.cli.rendering import one_line
from bridge.control.comparing import PatchedDivergence
from bridge.git.paths import display_path
from bridge.workspaces.patching import PatchStatus, PathPatch, line_text

_WORDS: Final = {
    PatchStatus.BINARY: "binary contents differ",
    PatchStatus.SAME: "the content is the same",
    PatchStatus.UNKNOWN: "the content is not known",
    PatchStatus.TOO_LARGE: "too large to show",
    PatchStatus.REPOSITORY: "a repository of its own",
}


def patched_text(patched: PatchedDivergence) -> str:
    """Return the divergence as ``bridge diff`` shows it, then one block per path."""
    parts = [detailed(patched.found, is_leaf=False)]
    parts += [_block(patch) for patch in patched.patches]
    if patched.omitted:
        parts.append(f"and {patched.omitted} more paths; name those you want to see")
    return "\n\n".join(parts)


def _block(patch: PathPatch) -> str:
    difference = patch.difference
    old = "/dev/null" if patch.then.is_absent else display_path(b"then/" + (difference.old_path or difference.path))
    new = "/dev/null" if patch.now.is_absent else display_path(b"now/" + difference.path)
    lines = [f"--- {old}", f"+++ {new}"]
    modes = (patch.then.mode, patch.now.mode)
    if None not in modes and modes[0] != modes[1]:
        lines.append(f"mode {modes[0]} -> {modes[1]}")
    if patch.patch is None:
        reason = f" ({one_line(patch.reason)})" if patch.reason else ""
        lines.append(f"({_WORDS[patch.status]}{reason})")
        return "\n".join(lines)
    for hunk in patch.patch.hunks:
        lines.append(hunk.header)
        # A carriage return would be shown as an escape anyway; so it is visible where only line ends differ.
        lines += [line.origin + line_text(line.content) for line in hunk.lines]
    return "\n".join(lines)
