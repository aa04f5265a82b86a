"""A model behind a vendor's interface, through pydantic-ai, which enforces limits on tools, requests and tokens.

The library is an optional extra (``deep``) and imported when a model is started: it takes seconds. Retries are off, on
every level: who asks has eight seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from anyio import to_thread

from bridge.adapters.models.port import (
    INSTRUCTIONS,
    LOOKUPS,
    MAX_LOOKUPS,
    MAX_OUTPUT_TOKENS,
    MAX_TOTAL_TOKENS,
    Answer,
    Lookup,
    ModelTrouble,
    Pick,
    Trouble,
    Usage,
)

#: Status of an answer that says that the account may not spend more now.
_QUOTA_STATUSES: Final = (402, 429)
#: Prefix of models that speak OpenAI's chat completions, whoever serves them.
OPENAI: Final = "openai:"
#: What an interface without a key is given; local servers ask for none.
_NO_KEY: Final = "none"


@dataclass(frozen=True, slots=True)
class LibraryModel:
    """A model by the name that the library knows it under.

    Parameters
    ----------
    name
        ``openai:NAME`` for whatever speaks chat completions; else as the library names it, where its part for that
        vendor is installed.
    base_url, api_key
        Where it is served, and the key; None leaves either to the library.
    timeout_seconds
        Longest wait for one answer.
    """

    name: str
    base_url: str | None = None
    api_key: str | None = None
    timeout_seconds: float = 10.0

    async def start(self) -> LibrarySession:
        try:
            return await to_thread.run_sync(self._start)
        except ImportError as error:
            raise ModelTrouble(
                Trouble.UNAVAILABLE, f"the model library is not installed ({error.name}): pip install 'bridge[deep]'"
            ) from error

    def _start(self) -> LibrarySession:
        # Imported here: an optional extra, which takes seconds.
        from pydantic_ai import Agent
        from pydantic_ai.exceptions import UserError

        try:
            model: Any = self.name if not self.name.startswith(OPENAI) else self._openai()
            agent = Agent(model, output_type=list[_Named], instructions=INSTRUCTIONS, retries=0)
        except (UserError, ValueError) as error:
            raise ModelTrouble(Trouble.START_FAILED, f"{self.name}: {error}") from error
        return LibrarySession(agent, self.timeout_seconds)

    def _openai(self) -> Any:
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        client = AsyncOpenAI(
            base_url=self.base_url, api_key=self.api_key or _NO_KEY, max_retries=0, timeout=self.timeout_seconds
        )
        return OpenAIChatModel(self.name.removeprefix(OPENAI), provider=OpenAIProvider(openai_client=client))


@dataclass(frozen=True)
class _Named:
    """A chat by its mark, and why it is the one."""

    mark: str
    why: str = ""


class LibrarySession:
    """A model with its three look-ups, ready for one question."""

    def __init__(self, agent: Any, timeout_seconds: float) -> None:
        self._agent = agent
        self._timeout_seconds = timeout_seconds
        self._used: Any = None

    @property
    def usage(self) -> Usage:
        used = self._used
        return Usage() if used is None else Usage(used.requests, used.input_tokens, used.output_tokens)

    async def ask(self, question: str, lookup: Lookup) -> Answer:
        from pydantic_ai import UsageLimits
        from pydantic_ai.exceptions import (
            AgentRunError,
            ModelHTTPError,
            UnexpectedModelBehavior,
            UsageLimitExceeded,
        )
        from pydantic_ai.usage import RunUsage

        for name, summary in LOOKUPS.items():
            self._agent.tool_plain(name=name, description=summary, retries=0)(_tool(name, lookup))
        limits = UsageLimits(
            request_limit=MAX_LOOKUPS + 2,
            tool_calls_limit=MAX_LOOKUPS,
            output_tokens_limit=MAX_OUTPUT_TOKENS,
            total_tokens_limit=MAX_TOTAL_TOKENS,
        )
        self._used = RunUsage()
        try:
            result = await self._agent.run(
                question,
                usage_limits=limits,
                usage=self._used,
                model_settings={"max_tokens": MAX_OUTPUT_TOKENS, "timeout": self._timeout_seconds},
            )
        except UsageLimitExceeded as error:
            raise ModelTrouble(Trouble.GREEDY, str(error)) from error
        except ModelHTTPError as error:
            is_quota = error.status_code in _QUOTA_STATUSES
            raise ModelTrouble(Trouble.QUOTA if is_quota else Trouble.FAILED, str(error)) from error
        except UnexpectedModelBehavior as error:
            raise ModelTrouble(Trouble.BROKEN, str(error)) from error
        except AgentRunError as error:
            raise ModelTrouble(Trouble.FAILED, str(error)) from error
        return Answer(tuple(Pick(one.mark, one.why) for one in result.output))

    async def close(self) -> None:
        """Nothing is held between questions."""


def _tool(name: str, lookup: Lookup) -> Any:
    call = partial(lookup, name)

    async def run(argument: str) -> str:
        return await call(argument)

    run.__name__ = name
    return run
