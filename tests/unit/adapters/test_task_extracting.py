"""The one block of JSON in what an agent said."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.adapters.tasks.extracting import result_block

OBJECT = '{"status": "completed", "summary": "done"}'


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{OBJECT}\n```",
        f"I did it.\n\n```json\n{OBJECT}\n```\nThat is all.",
        f"~~~JSON\n{OBJECT}\n~~~",
        f"````json\n{OBJECT}\n````",
        f"  ```json title=result\n{OBJECT}\n  ```",
        f"```python\nprint('x')\n```\n```json\n{OBJECT}\n```",
        f"```json\n{OBJECT}\n```\n```text\nbye\n```",
        f"```\n{OBJECT}\n```",
        f"\n  {OBJECT}\n",
        f"```json\n{OBJECT}",
    ],
)
def test_a_block_is_found_however_it_stands(text):
    assert result_block(text) == OBJECT.encode()


def test_of_several_marked_blocks_the_last_one_counts():
    assert result_block(f'```json\n{{"status": "failed"}}\n```\nNo:\n```json\n{OBJECT}\n```') == OBJECT.encode()


def test_a_marked_block_that_is_no_json_is_taken_so_that_its_author_is_told():
    assert result_block("```json\n{status: done,}\n```") == b"{status: done,}"


@pytest.mark.parametrize(
    "text", ["", "all done", f"the result is {OBJECT}", "```\nnothing\n```", "[1, 2]", "```text\n[1]\n```", "`{}`"]
)
def test_prose_is_no_result(text):
    assert result_block(text) is None


def test_a_fence_inside_a_longer_one_does_not_close_it():
    inner = json.dumps({"status": "completed", "summary": "x\n```\ny"})
    assert result_block(f"````json\n{inner}\n````") == inner.encode()


@given(st.text(max_size=300))
def test_whatever_is_said_a_block_is_a_part_of_it(text):
    found = result_block(text)
    assert found is None or found.decode("utf-8", "surrogatepass") in text
