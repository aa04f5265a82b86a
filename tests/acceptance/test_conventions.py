"""What holds for every command: help, JSON, usage errors, pipes, start-up cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bridge import __version__
from bridge.cli.registry import COMMANDS, CommandSpec, GroupSpec


def words_of(specs=COMMANDS, path=()):
    for spec in specs:
        if isinstance(spec, GroupSpec):
            yield from words_of(spec.commands, (*path, spec.name))
        else:
            yield (*path, spec.name), spec


EVERY_COMMAND = [pytest.param(words, spec, id=" ".join(words)) for words, spec in words_of()]
#: Commands to which every word is a word to look for.
TAKE_ANY_WORDS = {("find",), ("recall",)}
#: Modules that start-up must not pay for.
HEAVY = {"sqlalchemy", "pydantic", "structlog", "rich", "jsonschema_rs", "anyio"}


def test_version(installed_cli):
    assert installed_cli("--version").ok().stdout == f"bridge {__version__}\n"


def test_version_as_json(installed_cli):
    assert installed_cli("--version", "--json").ok().json() == {"version": __version__}


def test_help_lists_every_command_with_its_line(installed_cli):
    listed = " ".join(installed_cli("--help").ok().stdout.split())
    for spec in COMMANDS:
        assert f"{spec.name} {spec.help[:30]}" in listed


def test_without_words_the_help_is_printed(installed_cli):
    assert installed_cli().ok().stdout == installed_cli("--help").ok().stdout


@pytest.mark.parametrize(("words", "spec"), EVERY_COMMAND)
def test_every_command_explains_itself_and_takes_json(installed_cli, words: tuple[str, ...], spec: CommandSpec):
    shown = installed_cli(*words, "--help").ok()
    assert f"Usage: bridge {' '.join(words)}" in shown.stdout
    assert "--json " in shown.stdout
    assert "--quiet" in shown.stdout
    assert spec.help.split()[0] in shown.stdout
    assert shown.stderr == ""


@pytest.mark.parametrize("words", [words for words, _ in words_of() if words not in TAKE_ANY_WORDS], ids=" ".join)
def test_every_command_refuses_an_unknown_option_as_json(bridge_cli, words: tuple[str, ...]):
    refused = bridge_cli(*words, "--no-such-option", "--json")
    assert refused.status == 2
    assert refused.stdout == ""
    assert refused.error()["code"] == "usage"


@pytest.mark.parametrize("words", sorted(TAKE_ANY_WORDS), ids=" ".join)
def test_to_a_search_what_looks_like_an_option_is_a_word(bridge_cli, repository, words: tuple[str, ...]):
    bridge_cli("session", "new", cwd=repository.path).ok()
    bridge_cli("append", "@", "--kind", "user.message", "--text", "why --no-such-option", cwd=repository.path).ok()
    found = bridge_cli(*words, "--no-such-option", "--json", cwd=repository.path).ok().json()
    assert len(found.get("chats") or found.get("hits")) == 1


@pytest.mark.parametrize(
    "words", [("no-such-command", "--json"), ("--json", "no-such-command"), ("--json", "--nonsense")]
)
def test_a_usage_error_is_json_wherever_json_was_asked_for(installed_cli, words):
    refused = installed_cli(*words)
    assert refused.status == 2
    error = refused.error()
    assert error["code"] == "usage"
    assert error["hint"].startswith("See: bridge")
    assert error["details"]["usage"].startswith("bridge")


def test_json_after_the_end_of_options_is_a_value(installed_cli):
    refused = installed_cli("doctor", "--", "--json")
    assert refused.status == 2
    assert refused.stderr.startswith("error: ")


def test_a_mistyped_command_is_answered_with_the_nearest(installed_cli):
    refused = installed_cli("doctr")
    assert refused.status == 2
    assert refused.stdout == ""
    assert refused.stderr == ("error: No such command 'doctr'. Did you mean 'doctor'?\nhint: See: bridge --help\n")


def test_options_cannot_be_abbreviated(installed_cli):
    assert installed_cli("doctor", "--jso").status == 2
    assert installed_cli("--vers").status == 2


@pytest.mark.parametrize("words", [("doctor", "--json"), ("doctor",), ("--help",), ("doctor", "--help")])
def test_a_reader_that_goes_away_ends_the_command_quietly(installed_cli, words):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*installed_cli.command, *words],
            stdout=writing,
            stderr=subprocess.PIPE,
            cwd=installed_cli.directory,
            env=installed_cli.environment(),
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_and_not_success(installed_cli):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*installed_cli.command, "doctor", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=installed_cli.directory,
            env=installed_cli.environment(),
            timeout=60,
            check=False,
        )
    assert done.returncode == 119
    assert json.loads(done.stderr)["error"]["code"] == "output_failed"


def test_closed_streams_do_not_crash(installed_cli):
    shell = f"{' '.join(installed_cli.command)} doctor >&- 2>&-"
    done = subprocess.run(
        ["sh", "-c", shell], cwd=installed_cli.directory, env=installed_cli.environment(), timeout=60, check=False
    )
    assert done.returncode == 119


def test_json_is_utf8_and_help_is_printable_in_an_ascii_locale(installed_cli):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    report = installed_cli("doctor", "--json", environment=ascii_only).json()
    encoding = next(check for check in report["checks"] if check["name"] == "encoding")
    assert encoding["status"] == "warning"
    assert installed_cli("--help", environment=ascii_only).status == 0


def test_an_unusable_setting_is_a_typed_error(installed_cli):
    refused = installed_cli("doctor", "--json", environment={"BRIDGE_LOG": "loud"})
    assert refused.status == 5
    assert refused.error()["code"] == "invalid_configuration"


def test_verbose_logs_to_stderr_only(installed_cli):
    assert installed_cli("doctor", "--verbose", "--json").json()["version"] == __version__


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("no-such-command",)])
def test_start_up_does_not_pay_for_what_it_does_not_use(installed_cli, words):
    code = (
        "import sys; from bridge.cli.main import main; main(sys.argv[1:]); "
        "sys.stderr.write('\\n' + ' '.join(m for m in sys.modules if '.' not in m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        cwd=installed_cli.directory,
        env=installed_cli.environment({"PYTHONPATH": os.pathsep.join(sys.path)}),
        timeout=60,
        check=True,
    )
    assert HEAVY.isdisjoint(done.stderr.rpartition("\n")[2].split())


def test_the_program_also_runs_as_a_module(installed_cli):
    done = subprocess.run(
        [sys.executable, "-m", "bridge", "--version"],
        capture_output=True,
        text=True,
        cwd=installed_cli.directory,
        env=installed_cli.environment({"PYTHONPATH": os.pathsep.join(sys.path)}),
        timeout=60,
        check=True,
    )
    assert done.stdout == f"bridge {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(installed_cli, shell):
    script = installed_cli(environment={"_BRIDGE_COMPLETE": f"source_{shell}"}).ok()
    assert "_BRIDGE_COMPLETE" in script.stdout


def test_completion_of_commands_and_options(installed_cli):
    def complete(words: str) -> list[str]:
        asked = {
            "_BRIDGE_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        return installed_cli(environment=asked).ok().stdout.split()

    assert "doctor" in complete("bridge doc")
    assert "--json" in complete("bridge doctor --")
