"""Coverage-guided fuzzing of everything that parses what other programs wrote (needs ``pip install '.[fuzz]'``).

``python tests/soak/fuzz_transcripts.py [-max_total_time=SECONDS] [CORPUS]``: options are those of libFuzzer. An input
is a reader's number and the bytes of a file; whatever they are, nothing but a refusal by name may come out, and every
entry must be one that can be recorded.
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import atheris
import orjson

with atheris.instrument_imports(include=["bridge.transcripts"]):
    from bridge.transcripts.claude.reading import ClaudeReader
    from bridge.transcripts.codex.reading import CodexReader
    from bridge.transcripts.foreign.lines import lines_of
    from bridge.transcripts.foreign.neutral import Hints, Neutral
    from bridge.transcripts.foreign.records import pieces_of
    from bridge.transcripts.gemini.reading import GeminiReader
    from bridge.transcripts.opencode.reading import OpenCodeReader
    from bridge.transcripts.pi.reading import PiReader
    from bridge.transcripts.sessionfile.reading import read as read_session_file

from bridge.foundation.errors import BridgeError
from bridge.semantics.validation import payload_errors

READERS = (ClaudeReader, CodexReader, PiReader, GeminiReader, OpenCodeReader)
FIXTURES = Path(__file__).parents[1] / "fixtures" / "transcripts"


def one(data: bytes) -> None:
    if not data:
        return
    number, data = data[0] % (len(READERS) + 1), data[1:]
    try:
        if number == len(READERS):
            read_session_file(data, "fuzzed")
            return
        reader = READERS[number](Hints("x"))
        taken = b""
        for piece in pieces_of(lines_of(BytesIO(data)), lambda value: "id" in value):
            taken += b"".join(line.data for line in piece.lines)
            for record in piece.records:
                for item in reader.read(record):
                    if isinstance(item, Neutral):
                        errors = payload_errors(2, item.kind, item.payload)
                        if errors:
                            raise AssertionError(f"{item} does not fit: {errors}")
        if taken != data:
            raise AssertionError("bytes were lost")
        orjson.dumps(reader.state())
    except BridgeError:
        return


def main() -> None:
    corpus = Path(sys.argv[-1]) if len(sys.argv) > 1 and not sys.argv[-1].startswith("-") else None
    if corpus is not None:
        corpus.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(("claude-code", "codex", "pi", "gemini")):
            for file in (FIXTURES / name).rglob("*.jsonl"):
                (corpus / f"{number}-{file.stem}").write_bytes(bytes([number]) + file.read_bytes()[:6000])
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
