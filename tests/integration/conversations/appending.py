"""A process that appends to one session and prints nothing but its tally. Started by the tests next to it.

Usage: ``appending.py URL SESSION COUNT MODE NAME [PARENT]``; modes: ``expect`` (pass the head last seen, retry
when refused), ``branch`` (under PARENT, then each under the last), ``plain`` (whatever the head is), ``large``
(plain, some over 100 kB).
"""

from __future__ import annotations

import sys

from bridge.control.recording import Recorder
from bridge.conversations import store as queries
from bridge.conversations.errors import HeadMoved
from bridge.conversations.models import EntryDraft
from bridge.foundation.clock import SystemClock
from bridge.storage.store import Store


def main(url: str, session_id: str, count: int, mode: str, name: str, parent: str | None = None) -> int:
    retries = 0
    with Store.open(url, create=False, busy_timeout_seconds=90) as store:
        recorder = Recorder(store, SystemClock())

        def append(number: int, **options: str | None) -> str:
            text = f"{name} {number}" + ("x" * 150_000 if mode == "large" and number % 10 == 0 else "")
            draft = EntryDraft(kind="user.message", payload={"text": text}, **options)
            return recorder.append_now(session_id, draft).id

        with store.read() as connection:
            head = queries.get_head(connection, session_id)
        assert head is not None
        seen, own = head.entry_id, parent
        for number in range(count):
            if mode == "branch":
                own = append(number, parent_entry_id=own)
            elif mode == "expect":
                while True:
                    try:
                        seen = append(number, expected_head=seen)
                        break
                    except HeadMoved as moved:
                        seen = moved.details["actual"]
                        retries += 1
            else:
                append(number)
    print(f"{name} {count} {retries}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
