"""Whatever is sent is answered, soon, and with a typed error at worst."""

from __future__ import annotations

import json

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.control.resident import end_resident
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.rpc.connection import Connection
from bridge.rpc.methods import openrpc
from bridge.rpc.roles import Caller, Role
from tests.integration.rpc.fuzzing import calls, messages

DOCUMENT = {method["name"]: method for method in openrpc.document()["methods"] if "x-doors" not in method}
#: Of these a few are enough for every run; ``make soak`` makes thousands.
EXAMPLES = 25
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.fixture
def scene(controller, repository):
    """A session with two entries, and everything that may be said of it."""
    session = controller.recorder.create_session(NewSession(label="fuzz")).id
    drafts = [EntryDraft(kind="user.message", payload={"text": text}) for text in ("one", "two")]
    entries = [controller.recorder.append_now(session, draft).id for draft in drafts]
    return controller, repository, session, [session, session[-4:], *entries, "1", "@", "fuzz", "user.message", "note"]


async def send(controller, caller, message):
    answers = []

    async def keep(answer):
        answers.append(json.loads(answer))

    connection = Connection(controller, caller, keep)
    try:
        with anyio.fail_after(90):
            await connection.receive(message)
            await connection.drain()
    finally:
        await connection.aclose()
        await end_resident(controller)
    for answer in answers:
        for one in answer if isinstance(answer, list) else [answer]:
            if "error" in one:
                assert one["error"]["data"]["code"] != "internal_error", (message, one)
                assert set(one["error"]["data"]) == {"code", "hint", "details"}
            else:
                assert "result" in one or one["method"].startswith("events/")
    return answers


def callers(repository, session):
    here = Standpoint(directory=repository.path)
    return [
        Caller(Role.OPERATOR, here),
        Caller(Role.OBSERVER, here),
        Caller(Role.AGENT, Standpoint(directory=repository.path, session=session), session),
    ]


@pytest.mark.parametrize("name", sorted(DOCUMENT))
def test_params_made_up_from_the_description(scene, name):
    controller, repository, session, known = scene

    @settings(max_examples=max(EXAMPLES, settings.default.max_examples // 100), suppress_health_check=QUIET)
    @given(st.sampled_from(callers(repository, session)), calls(DOCUMENT[name], known))
    def check(caller, request):
        answers = anyio.run(send, controller, caller, json.dumps(request).encode())
        # Null where the message as a whole is no canonical JSON.
        assert any("method" not in one and one["id"] in (1, None) for one in answers)

    check()


def test_messages_of_all_kinds(scene):
    controller, repository, session, known = scene
    reading = [calls(DOCUMENT[name], known) for name in ("sessions/list", "sessions/show", "sessions/log", "$/cancel")]

    @settings(max_examples=max(200, settings.default.max_examples), suppress_health_check=QUIET)
    @given(st.sampled_from(callers(repository, session)[1:]), messages(st.one_of(reading)))
    def check(caller, message):
        anyio.run(send, controller, caller, message)

    check()
