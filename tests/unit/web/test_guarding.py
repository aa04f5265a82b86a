"""Who is let in: names, origins, tokens and rates."""

from __future__ import annotations

import pytest

from bridge.control.standpoint import Standpoint
from bridge.rpc.roles import Caller, Role
from bridge.web.binding import Binding, listen
from bridge.web.errors import DoorNotOpened
from bridge.web.guarding import (
    CALLS_AT_ONCE,
    MAX_REMEMBERED,
    REFUSALS_AT_ONCE,
    Guard,
    Rate,
    Refusal,
    Tokens,
    bearer_of,
    token_of_protocols,
)

OPERATOR = Caller(Role.OPERATOR, Standpoint())


def guard(**binding):
    return Guard(Binding(port=8080, **binding), Tokens({"right": OPERATOR}))


def admit(given, host="127.0.0.1:8080", token="right", address="127.0.0.1", **headers):
    return given.admit({"host": host, **headers}, address, token=token)


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.0.0.1:9"])
def test_its_own_names_are_let_in(host):
    assert admit(guard(), host) is OPERATOR


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.",
        "[::1",
        "127.0.0.1:8080:1",
        "a b",
    ],
)
def test_a_name_that_only_resolves_to_here_is_not(host):
    assert admit(guard(), host) == Refusal(421, "host")


def test_further_names_and_addresses_are_said_explicitly():
    named = guard(host="10.0.0.5", names=frozenset({"Box.example"}))
    assert admit(named, "box.example:8080") is OPERATOR
    assert admit(named, "10.0.0.5") is OPERATOR
    assert admit(named, "localhost") == Refusal(421, "host")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:1", ""])
def test_pages_of_other_origins_are_refused(origin):
    assert admit(guard(), origin=origin) == Refusal(403, "origin")


def test_its_own_origin_and_named_ones_are_let_in():
    assert admit(guard(), origin="http://127.0.0.1:8080") is OPERATOR
    assert admit(guard(origins=frozenset({"https://ui.example"})), origin="https://ui.example") is OPERATOR


@pytest.mark.parametrize("token", [None, "", "wrong", "right ", "righ", "\udcff"])
def test_without_the_token_nobody_is(token):
    assert admit(guard(), token=token) == Refusal(401, "token")


def test_guessing_is_slowed_down_by_address():
    given = guard()
    for _ in range(REFUSALS_AT_ONCE):
        assert admit(given, token="wrong") == Refusal(401, "token")
    assert admit(given, token="wrong") == Refusal(429, "refusals")
    assert admit(given) == Refusal(429, "refusals")
    assert admit(given, address="127.0.0.2") is OPERATOR


def test_calls_have_a_rate():
    given = guard()
    for _ in range(CALLS_AT_ONCE):
        assert admit(given) is OPERATOR
    assert admit(given) == Refusal(429, "calls")


def test_a_rate_refills_and_forgets():
    now = [0.0]
    rate = Rate(2.0, 3, lambda: now[0])
    assert [rate.take("a") for _ in range(4)] == [True, True, True, False]
    assert rate.is_used_up("a")
    assert not rate.is_used_up("b")
    now[0] = 0.5
    assert [rate.take("a"), rate.take("a")] == [True, False]
    now[0] = 100.0
    assert [rate.take("a") for _ in range(4)] == [True, True, True, False]
    for number in range(MAX_REMEMBERED):
        rate.take(str(number))
    assert not rate.is_used_up("a")


@pytest.mark.parametrize(
    ("value", "token"),
    [("Bearer x", "x"), ("bearer  x ", "x"), ("Bearer", None), ("Bearer ", None), ("Basic x", None), ("", None)],
)
def test_a_token_in_a_header(value, token):
    assert bearer_of({"authorization": value}) == token


def test_a_token_among_protocols():
    assert token_of_protocols(["bridge", "bearer.abc"]) == "abc"
    assert token_of_protocols(["bridge"]) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.invalid"])
def test_beyond_loopback_only_if_told(host):
    with pytest.raises(DoorNotOpened, match="other machines"):
        listen(Binding(host=host))


def test_a_port_that_is_taken():
    first = listen(Binding())
    try:
        with pytest.raises(DoorNotOpened, match="cannot be listened on"):
            listen(Binding(port=first.getsockname()[1]))
    finally:
        first.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "::1"])
def test_what_is_loopback(host):
    assert Binding(host=host).is_loopback
