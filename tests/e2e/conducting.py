"""What the scripted models say: the orchestrator's, which delegates and waits, and those of its workers."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.e2e.agents import shell_call, write_call
from tests.e2e.modelserver import Asked, Call, Calls, Say, Scenario, Stall, Step

#: What the orchestrator is told.
CONDUCT: Final = "CONDUCT-THE-WORK"
#: Seconds that a wait of the orchestrator takes at most; below the patience of every agent's client.
WAIT_SECONDS: Final = 15
#: Seconds for which one of two workers waits until the other one is there too.
MEETING_SECONDS: Final = 40.0
#: A summary with everything that quoting and decoding could spoil.
AWKWARD: Final = 'Wrote it: “quotes” "plain" back\\slash \ttab\nline </tag> {{braces}} @here 🧵 naïve \u2028 end'

#: How the prompt begins that tells a worker to mend its result.
NOT_TAKEN: Final = "Your result was not taken."

#: Agents of which one worker hands in as a block of JSON in what it says, though it has a tool for that.
_IN_WORDS: Final = frozenset({"pi"})

_ANSWER: Final = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}, "padding": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
_WORKTREE: Final = re.compile(r"git worktree (\S+)\. Nobody")
_EVIDENCE: Final = re.compile(r", also in the file (\S+)\n\n(.*?)\n\n# Your result", re.DOTALL)
_ID: Final = re.compile(r'"id":\s*"(d[0-9a-f]{12})"')
_NAME: Final = re.compile(r'"name":\s*"([a-z_]+)"')
_REFERENCE: Final = re.compile(r'"reference":\s*"([^"]+)"')


def worktree(asked: Asked) -> str:
    """Return the worktree that a worker was told."""
    found = next(filter(None, (_WORKTREE.search(prompt) for prompt in asked.prompts)))
    return found[1]


def evidence(asked: Asked) -> tuple[str, str]:
    """Return the file and the text of the one piece of evidence that a worker was given."""
    found = next(filter(None, (_EVIDENCE.search(prompt) for prompt in asked.prompts)))
    return found[1], found[2]


@dataclass
class Company:
    """The scenarios of an orchestrator and its workers, all of them run by one agent program.

    Parameters
    ----------
    agent
        The worker's harness.
    """

    agent: str
    meeting: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    met: list[str] = field(default_factory=list)

    def scenarios(self) -> list[Scenario]:
        """Return all of them."""
        return [
            Scenario(CONDUCT, self.conduct),
            Scenario("TASK-first", [self._meet_and_write("first"), *self._handing_in("first", 1)]),
            Scenario("TASK-second", self._mending()),
            Scenario("TASK-big", [self._write("big.txt", "big\n"), *self._handing_in("big", 3, padding="x" * 70_000)]),
            Scenario("TASK-killed", [Stall()]),
            Scenario("TASK-stalled", [Stall()]),
            Scenario("TASK-rubbish", [Say("I would rather talk about the weather.")]),
            Scenario("TASK-outside", [self._write("elsewhere.txt", "oops\n"), *self._handing_in("outside", 4)]),
            Scenario("TASK-sibling", [self._derive, *self._handing_in("sibling", 5)]),
            Scenario("TASK-reader", [self._digest_file, *self._handing_in("reader", 6)]),
        ]

    # -- the orchestrator --------------------------------------------------------------------------------------

    def conduct(self, asked: Asked) -> Step:
        """Delegate, wait, build on what came, wait, and end: what to do next follows from what tools answered."""
        told = [text.replace('\\"', '"') for text in asked.results]
        ids: dict[str, str] = {}
        ended: dict[str, str] = {}
        for text in told:
            name, identity, reference = _NAME.search(text), _ID.search(text), _REFERENCE.search(text)
            if name is None or identity is None:
                continue
            ids[name[1]] = identity[1]
            if re.search(r'"ended":\s*true', text):
                ended[name[1]] = reference[1] if reference else ""
        for batch in _BATCHES:
            # One after the other, since agents call the tools of one batch in any order.
            if not ids.keys() >= batch.keys():
                return Calls(tuple(self._delegate(name, **more) for name, more in batch.items()))
        builds_on = {"sibling_a": "first", "sibling_b": "second", "reader": "big"}
        missing = [name for name in builds_on.values() if name not in ended]
        if not missing and "reader" not in ids:
            return Calls(
                tuple(
                    self._delegate(name, task=name.partition("_")[0], evidence=[ended[source]])
                    for name, source in builds_on.items()
                )
            )
        waiting = [*missing, *(name for name in ids if name not in ended)]
        if not waiting:
            return Say("All workers have ended.")
        return Call("wait_delegation", {"task": ids[waiting[0]], "seconds": WAIT_SECONDS})

    def _delegate(self, name: str, *, task: str | None = None, **more: Any) -> Call:
        request = {
            "objective": f"Do TASK-{task or name} as it is known.",
            "name": name,
            "harness": self.agent,
            "acceptance_criteria": ["It is written down."],
            "budget": {"seconds": 150},
            **more,
        }
        return Call("delegate", request)

    # -- the workers -------------------------------------------------------------------------------------------

    def _write(self, name: str, text: str) -> Any:
        return lambda asked: write_call(self.agent, self._path(asked, name), text)

    def _path(self, asked: Asked, name: str) -> str:
        return name if self.agent == "codex" else f"{worktree(asked)}/{name}"

    def _meet_and_write(self, name: str) -> Any:
        def step(asked: Asked) -> Step:
            # Neither goes on before the other is there: that they run at the same time is no accident of speed.
            try:
                self.meeting.wait(MEETING_SECONDS)
                self.met.append(name)
            except threading.BrokenBarrierError:
                return Say("The other one did not come.")
            return write_call(self.agent, self._path(asked, f"{name}.txt"), f"by {name}\n")

        return step

    def _derive(self, asked: Asked) -> Step:
        """Write what follows from the exact text of the evidence."""
        _, payload = evidence(asked)
        digest = hashlib.sha256(payload.encode()).hexdigest()
        name = "a" if json.loads(payload)["data"]["answer"] == 1 else "b"
        return write_call(self.agent, self._path(asked, f"derived-{name}.txt"), digest + "\n")

    def _digest_file(self, asked: Asked) -> Step:
        file, _ = evidence(asked)
        return shell_call(self.agent, f"cd {worktree(asked)} && sha256sum {file} | cut -c1-64 > derived-big.txt")

    def _handing_in(self, name: str, answer: int, **data: str) -> Sequence[Step]:
        return self._handed(_result(f"{name}: {AWKWARD}", answer, **data))

    def _mending(self) -> Any:
        """Hand in something whose data does not fit, be told, and hand in what does."""
        wrong: dict[str, Any] = {**_result("second", 2), "data": {"answer": "two"}}
        right = _result(f"second: {AWKWARD}", 2)
        write = self._meet_and_write("second")
        if self.agent not in _IN_WORDS:
            return [write, Call("submit_result", {"result": wrong}), *self._handed(right)]

        def conduct(asked: Asked) -> Step:
            if NOT_TAKEN in asked.prompts[-1]:
                assert "/data/answer" in asked.prompts[-1]
                assert "This is try 2 of 3." in asked.prompts[-1]
                return Say(_block(right))
            return Say(_block(wrong)) if asked.results else write(asked)

        return conduct

    def _handed(self, result: Mapping[str, Any]) -> Sequence[Step]:
        return [Call("submit_result", {"result": dict(result)}), Say("Handed in.")]


def _result(summary: str, answer: int, **data: str) -> dict[str, Any]:
    return {"status": "completed", "summary": summary, "data": {"answer": answer, **data}}


def _block(result: Mapping[str, Any]) -> str:
    return f"```json\n{json.dumps(result)}\n```"


#: The first delegations: two that work, one with a large result, and four that go wrong, each in its own way.
_BATCHES: Final[Sequence[Mapping[str, Mapping[str, Any]]]] = (
    {"first": {"output_schema": _ANSWER}, "second": {"output_schema": _ANSWER}},
    {"stalled": {}, "killed": {}},
    {"big": {"output_schema": _ANSWER}, "rubbish": {}, "outside": {"owned_paths": ["inside"]}},
)
