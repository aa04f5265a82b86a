"""Whether a worker may do what it asks for: the rules, their order, and files outside of its worktree."""

from __future__ import annotations

import pytest

from bridge.agents.approval import ApprovalPolicy, ApprovalQuestion, ApprovalRule, Permission, judge

ALLOW, DENY, ASK = Permission.ALLOW, Permission.DENY, Permission.ASK


def question(tool="edit", *paths, role="implementation", mode="isolated"):
    return ApprovalQuestion(tool, paths, role, mode, "/w/tree")


def answer(asked, *rules, default=ALLOW):
    return judge(asked, ApprovalPolicy(rules=rules, default=default)).permission


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (question("edit", "/w/tree/a.py"), ALLOW),
        (question("edit", "a.py"), ALLOW),
        (question("execute"), ALLOW),
        (question("edit", "/w/tree2/a.py"), ASK),
        (question("edit", "../other"), ASK),
        (question("edit", "a.py", "/etc/passwd"), ASK),
        (question("edit", "src/../../x"), ASK),
        (question("edit", ".git/config"), ASK),
        (question("edit", "sub/.GIT/hooks/x"), ASK),
        (question("edit", "a.py", mode="read_only"), DENY),
        (question("delete", mode="read_only"), DENY),
        (question("read", "a.py", mode="read_only"), ALLOW),
    ],
)
def test_without_rules(asked, expected):
    assert answer(asked) is expected


def test_the_first_rule_that_fits_decides():
    rules = (ApprovalRule(DENY, tools=("execute",)), ApprovalRule(ALLOW), ApprovalRule(ASK))
    assert answer(question("execute"), *rules) is DENY
    assert answer(question("edit", "a"), *rules) is ALLOW
    verdict = judge(question("edit", "a"), ApprovalPolicy(rules=rules))
    assert verdict.because == "rule 2"


def test_paths_all_of_them_to_allow_and_any_to_deny():
    allow, deny = ApprovalRule(ALLOW, paths=("src",)), ApprovalRule(DENY, paths=("secret",))
    assert answer(question("edit", "src/a"), allow, default=ASK) is ALLOW
    assert answer(question("edit", "src/a", "docs/b"), allow, default=ASK) is ASK
    assert answer(question("edit", "src2/a"), allow, default=ASK) is ASK
    assert answer(question("edit", "src/a", "secret/b"), deny) is DENY
    assert answer(question("execute"), allow, default=ASK) is ASK, "a call without files fits no rule with paths"
    assert answer(question("execute"), deny) is ALLOW


def test_no_rule_allows_what_lies_outside():
    assert answer(question("edit", "/etc/passwd"), ApprovalRule(ALLOW)) is ASK
    assert answer(question("edit", "/etc/passwd"), ApprovalRule(DENY)) is DENY
    assert answer(question("edit", "/etc/passwd"), default=DENY) is DENY


def test_roles_and_calls_of_no_kind():
    rule = ApprovalRule(DENY, tools=("other",), roles=("research",))
    assert answer(question("", role="research"), rule) is DENY
    assert answer(question("other", role="research"), rule) is DENY
    assert answer(question("", role="planning"), rule) is ALLOW
