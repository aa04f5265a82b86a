"""Plan files: what a good one means, and what each bad one is told, by line and key."""

from __future__ import annotations

import contextlib
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.policy_model import WriteMode
from bridge.control.errors import InvalidPlan
from bridge.control.plans.checking import _cycles
from bridge.control.plans.file import (
    DEFAULT_TIMEOUT_SECONDS,
    MAX_PLAN_BYTES,
    MAX_PROBLEMS,
    PLAN_SCHEMA,
    Plan,
    load_plan,
)
from bridge.semantics.results import MAX_OUTPUT_SCHEMA_BYTES
from bridge.semantics.schemas import load_schema

MINIMAL = '[[worker]]\nid = "a"\nobjective = "do it"\ncommand = ["true"]\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    return path


def load(text: str, root: Path, name: str = "plan.toml") -> Plan:
    return load_plan(text, path=root / name, repository_root=root)


def problems(text: str, root: Path) -> list[tuple[int, str, str]]:
    with pytest.raises(InvalidPlan) as caught:
        load(text, root)
    found = [(item["line"], item["key"], item["message"]) for item in caught.value.details["problems"]]
    for line, key, message in found:
        assert f"plan.toml:{line}: {key + ': ' if key else ''}{message}" in caught.value.message
    return found


def worker(**fields: Any) -> str:
    table = {"id": "a", "objective": "o", "command": ["true"]} | fields
    return "[[worker]]\n" + "".join(
        f"{key} = {json.dumps(value)}\n" for key, value in table.items() if value is not None
    )


def test_the_least_a_plan_can_say(root: Path) -> None:
    plan = load(MINIMAL, root)
    assert (plan.label, plan.dirty, plan.max_parallel) == (None, "refuse", None)
    (only,) = plan.workers
    assert (only.id, only.role, only.harness, only.command) == ("a", "implementation", "command", ("true",))
    assert (only.write, only.owned_paths, only.needs) == (WriteMode.ISOLATED, (), ())
    assert (only.output_schema, only.timeout_seconds, only.environment) == (None, DEFAULT_TIMEOUT_SECONDS, {})
    assert (only.evidence, only.attempts) == ((), 1)
    assert only.line == 1
    assert plan.path == root / "plan.toml"
    assert plan.text == MINIMAL
    assert plan.digest == sha256(MINIMAL.encode()).hexdigest()


def test_everything_a_plan_can_say(root: Path) -> None:
    (root / "schemas").mkdir()
    (root / "schemas" / "out.json").write_text('{"type": "object", "required": ["n"]}')
    plan = load(
        """
label = "release"
dirty = "carry"
max_parallel = 2

[[worker]]
id = "api"
role = "implementation"
objective = '''
Build it.
'''
command = "make api && make check"
acceptance_criteria = ["it builds"]
owned_paths = ["./src/api/", "docs"]
write = "shared"
timeout_seconds = 2.5
output_schema = "schemas/out.json"
environment = { LEVEL = "3", GIT_AUTHOR_NAME = "Somebody" }

[[worker]]
id = "check"
role = "verification"
harness = "command"
objective = "Check it"
command = ["python3", "-m", "check"]
needs = ["api"]
evidence = ["9f3a.31"]
attempts = 2
write = "read_only"
[worker.output_schema]
type = "object"
properties.n.type = "integer"
""",
        root,
    )
    assert (plan.label, plan.dirty, plan.max_parallel) == ("release", "carry", 2)
    api, check = plan.workers
    assert api.command == ("/bin/sh", "-c", "make api && make check")
    assert api.objective == "Build it.\n"
    assert (api.write, api.owned_paths, api.timeout_seconds) == (WriteMode.SHARED, ("src/api", "docs"), 2.5)
    assert api.output_schema == {"type": "object", "required": ["n"]}
    assert api.environment == {"LEVEL": "3", "GIT_AUTHOR_NAME": "Somebody"}
    assert api.acceptance_criteria == ("it builds",)
    assert (check.evidence, check.attempts) == (("9f3a.31",), 2)
    assert (check.needs, check.write, check.line) == (("api",), WriteMode.READ_ONLY, 20)
    assert check.output_schema == {"type": "object", "properties": {"n": {"type": "integer"}}}


def test_writers_with_overlapping_paths_are_not_the_plan_file_s_question(root: Path) -> None:
    text = worker(owned_paths=["src"]) + worker(id="b", owned_paths=["src/web"])
    assert len(load(text, root).workers) == 2


def test_every_problem_is_told_at_once_in_the_order_of_lines(root: Path) -> None:
    text = """
lable = "x"
dirty = "stash"

[[worker]]
id = "web"
objective = 5
command = []
needs = [
  "web2",
  "api",
]
owned_paths = ["/etc", "../x"]
timout_seconds = 3

[[worker]]
id = "api"
objective = "x"
command = ["true"]
harness = "comand"
needs = ["web"]
[worker.environment]
BRIDGE_TOKEN = "x"

[[worker]]
id = "api"
objective = "y"
command = [""]
timeout_seconds = true
"""
    assert problems(text, root) == [
        (2, "lable", "is not a known key; did you mean 'label'?"),
        (3, "dirty", "must be refuse, ignore or carry"),
        (7, "worker[0].objective", "must be a string"),
        (8, "worker[0].command", "must not be empty"),
        (9, "worker[0].needs", "form a cycle: web -> api -> web"),
        (10, "worker[0].needs[0]", "no worker has the id 'web2'; did you mean 'web'?"),
        (13, "worker[0].owned_paths[0]", "'/etc' must be relative to the repository root"),
        (13, "worker[0].owned_paths[1]", "'../x' must not contain '..'"),
        (14, "worker[0].timout_seconds", "is not a known key; did you mean 'timeout_seconds'?"),
        (20, "worker[1].harness", "there is no harness 'comand'; did you mean 'command'?"),
        (23, "worker[1].environment.BRIDGE_TOKEN", "is not a plan's to set; Bridge keeps BRIDGE_* and GIT_*"),
        (26, "worker[2].id", "'api' is already the id of the worker on line 16"),
        (28, "worker[2].command[0]", "names no program"),
        (29, "worker[2].timeout_seconds", "must be a number"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (1, "worker", "is missing")),
        ("worker = []", (1, "worker", "must not be empty")),
        ("\n[worker]\nid = 'a'", (2, "worker", "must be an array of tables: write [[worker]] instead of [worker]")),
        ("worker = [1]", (1, "worker[0]", "must be a table")),
        (
            "[[worker]]\nid = 'a'\nobjective = 'o'",
            (1, "worker[0].command", "is missing; the harness 'command' does nothing without one"),
        ),
        (worker(objective=None), (1, "worker[0].objective", "is missing")),
        (worker(objective=" "), (3, "worker[0].objective", "must not be empty")),
        (worker(command=""), (4, "worker[0].command", "must not be empty")),
        (worker(command=["a", 5]), (4, "worker[0].command[1]", "must be a string")),
        (worker(command={"a": 1}).replace(":", "="), (4, "worker[0].command", "must be a string or an array")),
        (worker(command=["a", "b\0"]), (4, "worker[0].command[1]", "holds a NUL character")),
        (worker(id="a b"), (2, "worker[0].id", "must be 1 to 64 letters, digits, hyphens or underscores")),
        (worker(needs=["a"]), (5, "worker[0].needs", "form a cycle: a -> a")),
        (worker(needs="b"), (5, "worker[0].needs", "must be an array")),
        (worker(write="full"), (5, "worker[0].write", "must be read_only, shared or isolated")),
        (worker(timeout_seconds=0), (5, "worker[0].timeout_seconds", "is below its limit (exclusiveMinimum 0)")),
        (worker() + "timeout_seconds = inf", (5, "worker[0].timeout_seconds", "must be a finite number")),
        (
            worker() + "objective2 = 1979-05-27",
            (5, "worker[0].objective2", "must not be a date or time; write it in quotation marks"),
        ),
        (
            "max_parallel = 99999999999999999999\n" + worker(),
            (1, "max_parallel", "must be a number of at most 64 bits"),
        ),
        (
            worker(environment={"A B": "x"}).replace('": "', '" = "'),
            (5, "worker[0].environment.A B", "cannot be the name of an environment variable"),
        ),
        (
            worker(output_schema="/etc/passwd"),
            (5, "worker[0].output_schema", "the path '/etc/passwd' must be relative to the plan file"),
        ),
        (
            worker(output_schema="../x.json"),
            (5, "worker[0].output_schema", "the path '../x.json' leads out of the repository"),
        ),
        (
            worker(output_schema="x.json"),
            (5, "worker[0].output_schema", "the file 'x.json' cannot be read: No such file or directory"),
        ),
        (worker(output_schema={"type": "objekt"}).replace('": "', '" = "'), (5, "worker[0].output_schema", "")),
        (
            worker(owned_paths=["src/*.py"]),
            (5, "worker[0].owned_paths[0]", "'src/*.py' is a pattern; owned paths are prefixes"),
        ),
        (worker(owned_paths=[".git/hooks"]), (5, "worker[0].owned_paths[0]", "'.git/hooks' lies in git's own folder")),
    ],
)
def test_one_problem(text: str, expected: tuple[int, str, str], root: Path) -> None:
    found = problems(text, root)
    assert found == [expected] or (not expected[2] and len(found) == 1 and found[0][:2] == expected[:2])


@pytest.mark.parametrize(
    ("text", "line", "beginning"),
    [("\nx = ", 2, "Invalid value"), ("x = 1\n\nx = 2", 3, "Cannot overwrite"), ("x = 1\ny = '", 2, "")],
)
def test_what_is_no_toml_is_told_with_its_line(text: str, line: int, beginning: str, root: Path) -> None:
    ((found, key, message),) = problems(text, root)
    assert (found, key) == (line, "")
    assert message.startswith(f"not TOML: {beginning}")
    assert "column" not in message


def test_a_plural_is_told_from_the_key(root: Path) -> None:
    assert problems("[[workers]]\nid = 'a'", root) == [
        (1, "worker", "is missing"),
        (1, "workers", "is not a known key; did you mean 'worker'?"),
    ]


def test_a_single_problem_is_one_sentence_with_its_place(root: Path) -> None:
    with pytest.raises(InvalidPlan) as caught:
        load(worker(needs=["b"]), root)
    assert caught.value.message == "plan.toml:5: worker[0].needs[0]: no worker has the id 'b'. Nothing was started."
    assert caught.value.details["path"] == str(root / "plan.toml")


def test_places_that_lead_out_of_the_repository_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "schema.json").write_text("{}")
    (root / "link").symlink_to(tmp_path / "outside")
    text = worker(owned_paths=["link/x"], output_schema="link/schema.json")
    assert [item[2] for item in problems(text, root)] == [
        "'link/x' leads out of the repository through a link",
        "the path 'link/schema.json' leads out of the repository",
    ]


def test_a_schema_file_counts_from_the_plan_s_folder(root: Path, tmp_path: Path) -> None:
    (root / "plans").mkdir()
    (root / "schema.json").write_text('{"type": "object"}')
    assert load(worker(output_schema="../schema.json"), root, "plans/p.toml").workers[0].output_schema == {
        "type": "object"
    }
    # A plan kept elsewhere may bring its schemas along.
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "s.json").write_text("{}")
    plan = load_plan(worker(output_schema="s.json"), path=tmp_path / "mine" / "p.toml", repository_root=root)
    assert plan.workers[0].output_schema == {}


@pytest.mark.parametrize(
    ("content", "reason"), [("{", "is not JSON"), ("[]", "not a JSON object"), ('{"$ref": "http://x.invalid/"}', "")]
)
def test_a_schema_file_that_cannot_be_used(root: Path, content: str, reason: str) -> None:
    (root / "s.json").write_text(content)
    ((line, key, message),) = problems(worker(output_schema="s.json"), root)
    assert (line, key) == (5, "worker[0].output_schema")
    assert reason in message


def test_limits_at_their_edge(root: Path) -> None:
    most = "".join(worker(id=f"w{number}") for number in range(64))
    assert len(load(most, root).workers) == 64
    assert problems(most + worker(id="one-more"), root) == [(1, "worker", "is above its limit (maxItems 64)")]

    padded = MINIMAL + "#" * (MAX_PLAN_BYTES - len(MINIMAL))
    assert load(padded, root)
    assert problems(padded + "#", root) == [(1, "", f"the plan is larger than {MAX_PLAN_BYTES} bytes")]
    assert problems(padded[:-1] + "é", root)

    names = [f"n{number}" for number in range(17)]
    others = "".join(worker(id=name) for name in names)
    assert load(others + worker(needs=names[:16]), root)
    assert [item[2] for item in problems(others + worker(needs=names), root)] == ["is above its limit (maxItems 16)"]

    assert load(worker(timeout_seconds=86400), root)
    assert problems(worker(timeout_seconds=86400.5), root)
    assert load("max_parallel = 64\n" + worker(), root)
    assert problems("max_parallel = 65\n" + worker(), root)
    assert problems("max_parallel = 0\n" + worker(), root)
    assert load(worker(attempts=5), root)
    assert problems(worker(attempts=6), root)
    assert load(worker(evidence=names[:16]), root)
    assert problems(worker(evidence=names), root)
    assert load(worker(id="x" * 64), root)
    assert problems(worker(id="x" * 65), root)

    schema = '{"a": "' + "x" * (MAX_OUTPUT_SCHEMA_BYTES - 9) + '"}'
    (root / "s.json").write_text(schema)
    assert load(worker(output_schema="s.json"), root)
    (root / "s.json").write_text(schema + " ")
    assert problems(worker(output_schema="s.json"), root)


def test_a_plan_wrong_all_over_is_not_listed_in_full(root: Path) -> None:
    text = worker() + "".join(f"x{number} = 1\n" for number in range(MAX_PROBLEMS + 3))
    with pytest.raises(InvalidPlan) as caught:
        load(text, root)
    assert len(caught.value.details["problems"]) == MAX_PROBLEMS
    assert caught.value.details["omitted"] == 3
    assert caught.value.message.endswith("… and 3 more")


def test_deep_nesting_is_a_problem_not_a_crash(root: Path) -> None:
    problems("x = " + "[" * 50_000 + "]" * 50_000, root)
    problems(worker() + "x = " + "[" * 150 + "]" * 150, root)


def test_the_schema_s_limits_are_those_tested_here() -> None:
    schema = load_schema(PLAN_SCHEMA)
    fields = schema["$defs"]["worker"]["properties"]
    assert schema["properties"]["worker"]["maxItems"] == 64
    assert fields["needs"]["maxItems"] == 16
    assert fields["timeout_seconds"]["maximum"] == 86400


@given(st.text(max_size=200) | st.text(st.sampled_from("[]{}\"=.,#\nworkeridn '1a-"), max_size=80))
def test_no_text_makes_it_crash(text: str) -> None:
    with contextlib.suppress(InvalidPlan):
        load_plan(text, path=Path("plan.toml"), repository_root=Path("/nowhere"))


NODES = "abcdef"


@given(st.dictionaries(st.sampled_from(NODES), st.lists(st.sampled_from(NODES), max_size=3)))
def test_cycles_are_real_disjoint_and_all_broken_when_mended(edges: dict[str, list[str]]) -> None:
    graph = {node: list(edges.get(node, [])) for node in NODES}
    cycles = list(_cycles(graph))
    seen = [name for cycle in cycles for name in cycle]
    assert len(seen) == len(set(seen))
    for cycle in cycles:
        assert all(after in graph[name] for name, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    # Without the workers named, nothing is left that waits for itself.
    left = {node: {need for need in needs if need not in seen} for node, needs in graph.items() if node not in seen}
    while ready := [node for node, needs in left.items() if not needs & left.keys()]:
        for node in ready:
            del left[node]
    assert not left
