"""What two model libraries enforce of a question's limits, against a scripted server (decision 0135).

    pip install llm 'pydantic-ai-slim[openai]' && python tests/benchmarks/model_libraries.py

Each is asked the same with the strictest settings it has: a tool that may run three times, two rounds more for the
answer, a thousand tokens to write, and an answer of a certain form. The server's model goes beyond each in turn.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.scriptedmodel import ModelServer, call, calls, say

LOOK = call("look", words="x")
CASES = {
    "four look-ups at once": [calls(*[("look", {"words": "x"})] * 4), say("done")],
    "look-ups without end": [LOOK],
    "an answer of another form": [say("It is the one about staging.")],
    "5,000 tokens written": [LOOK, say("done")],
    "429": [429],
}
IMPORTS = {
    "pydantic-ai-slim": "import pydantic_ai, pydantic_ai.models.openai, pydantic_ai.providers.openai",
    "llm": "import llm, llm.default_plugins.openai_models",
}


def with_pydantic_ai(url: str, look: Callable[[str], str]) -> str:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, UsageLimits
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
    agent = Agent(model, output_type=list[dict[str, str]], retries=0)
    agent.tool_plain(look, retries=0)
    limits = UsageLimits(request_limit=5, tool_calls_limit=3, output_tokens_limit=1000)
    return repr(asyncio.run(agent.run("which?", usage_limits=limits)).output)


def with_llm(url: str, look: Callable[[str], str]) -> str:
    from llm.default_plugins.openai_models import Chat

    model = Chat("scripted", model_name="scripted", api_base=url, supports_tools=True, supports_schema=True)
    talk = model.conversation(tools=[look], chain_limit=5)
    response = talk.chain("which?", key="none", stream=False, options={"max_tokens": 1000})
    return repr(response.text())


WAYS = {"pydantic-ai-slim": with_pydantic_ai, "llm": with_llm}


def main() -> None:
    os.environ["LLM_USER_PATH"] = tempfile.mkdtemp()  # it keeps a database of its own
    for name, way in WAYS.items():
        print(f"{name} {version(name)}: import {import_seconds(IMPORTS[name]):.1f} s of processor time")
        for case, steps in CASES.items():
            looked = []

            def look(words: str) -> str:
                """Look something up."""
                looked.append(words)  # noqa: B023 - called before the next round
                return "nothing"

            written = 5000 if "tokens" in case else 10
            with ModelServer(*steps, output_tokens=written) as server:
                try:
                    came = "answered " + way(server.url, look)
                except Exception as error:  # noqa: BLE001 - whatever a library makes of it is the finding
                    came = f"{type(error).__module__}.{type(error).__name__}: {str(error)[:90]}"
                print(f"  {case}: {len(looked)} look-ups, {len(server.bodies)} requests; {came}")


def import_seconds(statement: str) -> float:
    """Return the processor time of an import, less that of starting Python, the best of three."""

    def once(code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    return min(once(statement) for _ in range(3)) - min(once("pass") for _ in range(3))


if __name__ == "__main__":
    main()
