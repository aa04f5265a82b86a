"""Chats that real agents wrote, and questions about them: imported beside the chats of ``search_corpus.py``.

Twelve matters, each of a kind that the templates do not have, talked about with a real agent (Claude Code, Codex, Pi)
that read a file on the way; what its model said was scripted. Written, with the questions, before anything was asked
about them. Matters of an even number are for tuning, those of an odd number are held out; nothing was tuned with either.

The transcripts are in ``transcripts/`` as the agents left them, but for long texts, which were cut, and the paths of
the folders it was done in. Made anew where the agents of ``make e2e`` are installed:

    python tests/e2e/namespace.py python tests/benchmarks/search_real.py record
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    sys.path.insert(0, str(Path(__file__).parent))

from search_corpus import Asked

FOLDER = Path(__file__).parent / "transcripts"
#: Transcripts of other real runs, about next to nothing: they are imported as well.
OTHERS = Path(__file__).parents[1] / "fixtures" / "transcripts"
#: When the questions about these chats are asked: they took place on Monday, 30 November 2026.
ASKED_AT = datetime(2026, 12, 2, 14, 30, tzinfo=UTC)
AGENTS = ("claude-code", "codex", "pi")
WHEN = ("on monday", "2 days ago", "since 2026-11-29", "last 3 days", "2026-11-30", "this week")
#: Longer texts and lists in a transcript are the agent's own, and cut.
MAX_CHARACTERS, MAX_MEMBERS = 240, 6
DIRECTORY = "/tmp/demo-project"

# prompt | reply | prompt | reply | exact | partial | vague
MATTERS = """
The nightly backup of the wiki stops with exit status 23, please look at backup.sh | rsync returns 23 because /srv/wiki/cache is owned by www-data and cannot be read; I excluded it | Can it run without sudo then? | Yes, as the user wiki, in that user's crontab | backup.sh | wiki rsync cach owned | copying our documentation site at night broke off
Add a --dry-run flag to release.py so that nobody publishes by accident | release.py prints the tag and the changelog now, and stops before git push when --dry-run is given | And in the pipeline? | The pipeline calls it with --dry-run on every branch but main | --dry-run | releas changelog tag accident | trying out the publishing without really doing it
Why is the thermometer on the greenhouse board reading minus 127 degrees? | minus 127 is what the DS18B20 library gives when the sensor does not answer: the pull-up resistor of 4.7 kOhm is missing | How many can hang on one wire? | About ten on three metres of cable, each with its own address | DS18B20 | greenhouse sensor pull-up resistors | wrong temperature from the gadget among the plants
Translate the menu of the bookshop kiosk into Portuguese | I added locale/pt.json with 84 strings and left ISBN and EAN as they are | Is anything too long for the buttons? | Two are, so those buttons wrap now | pt.json | kiosk translat menu buttons | making the shop terminal understandable for customers from Lisbon
Our ferry timetable parser fails for sailings after midnight | A departure at 24:15 was taken for 00:15 of the same day; parse_sailing takes hours up to 29 now | Does the export still validate? | Yes, the GTFS validator reports no errors | parse_sailing | ferry timetables midnight departure | late boats are missing from the schedule
Draw a sequence diagram of the loan approval for the handbook | It is in docs/loan.mmd as Mermaid, with the credit bureau as a participant of its own | Can you add the case of a refusal? | Added as an alternative block, with the letter to the applicant | loan.mmd | loan diagrams handbook refusal | picture of how somebody gets credit
Compress the satellite tiles, the bucket costs us 900 euros a month | Re-encoded as Cloud Optimized GeoTIFF with zstd level 9 and predictor 2, 61 percent smaller | Do the maps still load as quickly? | Yes, the first tile takes 140 ms as before | GeoTIFF | satellite tiles compres bucket | storing the pictures from space got too expensive
Players can walk through walls in the dungeon when they move diagonally | collide_at only tested the target cell; both orthogonal neighbours must be free as well now | Add a test with a closed corner | Done, it fails without the change | collide_at | dungeon walls diagonaly neighbours | cheating by slipping through corners in our game
Convert the choir's sheet music from Sibelius to MusicXML in bulk | convert_scores.sh calls the export plug-in without a window; 212 of 214 files came through, two have broken ties | Which two? | The Kyrie and the second Agnus Dei | convert_scores.sh | choir sheet musik ties | getting all the songs into an open file format
The hospital rota solver gives two night shifts in a row | The rest of eleven hours was a soft constraint; made it hard with AddForbiddenAssignments in CP-SAT | Is there still a solution for August? | Yes, in 40 seconds, with one wish of holiday refused | AddForbiddenAssignments | rota solver nights constraint | nurses got an illegal plan
Rename the column custmer_nr everywhere, it is misspelt since 2014 | Renamed in 17 files; a view keeps custmer_nr for the old exports to the warehouse | When can the view go? | After the exports of December, I left a note in the changelog | custmer_nr | column renam view misspelt | that embarrassing typo in the table
Estimate how long copying 40 terabytes to the tape library takes | LTO-8 writes 360 megabytes a second, so 31 hours on one drive, and about 60 with verifying | And with two drives? | Half of that, if the disks keep up | LTO-8 | tape terabytes copying drives | how many days for archiving everything on cassettes
""".strip().splitlines()


@dataclass(frozen=True)
class Matter:
    number: int
    prompts: tuple[str, str]
    replies: tuple[str, str]
    questions: tuple[str, str, str]

    @property
    def agent(self) -> str:
        return AGENTS[self.number % len(AGENTS)]

    @property
    def path(self) -> Path:
        return FOLDER / self.agent / f"{self.number:02d}.jsonl"


def matters() -> Iterator[Matter]:
    for number, line in enumerate(MATTERS):
        first, reply, second, last, *questions = (part.strip() for part in line.split(" | "))
        yield Matter(number, (first, second), (reply, last), tuple(questions))


def asked() -> list[Asked]:
    """Return the questions; what is wanted is the path of a transcript."""
    found = []
    for matter in matters():
        _, partial, _ = matter.questions
        bounded = f"{' '.join(partial.split()[:2])} {WHEN[matter.number % len(WHEN)]}"
        for group, text in zip(
            ("exact", "partial", "vague", "time-bounded"), (*matter.questions, bounded), strict=True
        ):
            found.append(Asked(text, group, str(matter.path), is_for_tuning=matter.number % 2 == 0))
    return found


def transcripts() -> list[Path]:
    """Return every transcript that is imported."""
    others = [path for path in OTHERS.rglob("*.jsonl") if "subagents" not in path.parts]
    return sorted([*(matter.path for matter in matters()), *others])


# Making them


def record() -> None:
    """Have the real agents talk, and keep what they write."""
    from tests.e2e.agents import install
    from tests.e2e.modelserver import ModelServer, Say, Scenario

    installed = install(AGENTS)
    with tempfile.TemporaryDirectory() as root, ModelServer() as server:
        for matter in matters():
            home, work = Path(root) / f"home{matter.number}", Path(root) / f"work{matter.number}"
            work.mkdir()
            (work / "notes.txt").write_text("nothing of note\n")
            server.add(
                Scenario(matter.prompts[0], [_reading(matter.agent, work), Say(matter.replies[0])]),
                Scenario(matter.prompts[1], [Say(matter.replies[1])]),
            )
            _talk(installed[matter.agent], matter, home, work, server.url)
            (written,) = home.rglob(_WRITTEN[matter.agent])
            lines = [json.loads(line) for line in written.read_text().splitlines()]
            text = "".join(json.dumps(_cut(line), ensure_ascii=False) + "\n" for line in lines)
            for folder, instead in ((work, DIRECTORY), (home, "/tmp/demo-home")):
                text = text.replace(str(folder), instead)
                text = text.replace(str(folder).replace("/", "-"), instead.replace("/", "-"))
            matter.path.parent.mkdir(parents=True, exist_ok=True)
            matter.path.write_text(text)
            print(matter.path.relative_to(FOLDER), len(text), flush=True)


_WRITTEN = {
    "claude-code": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/**/*.jsonl",
    "pi": ".pi/agent/sessions/*/*.jsonl",
}


def _reading(agent: str, work: Path) -> Any:
    from tests.e2e.agents import shell_call
    from tests.e2e.modelserver import Call

    if agent == "claude-code":
        return Call("Read", {"file_path": str(work / "notes.txt")})
    return shell_call(agent, "cat notes.txt") if agent == "codex" else Call("read", {"path": "notes.txt"})


def _talk(installed: Any, matter: Matter, home: Path, work: Path, url: str) -> None:
    from tests.e2e.agents import set_up

    environment = {**set_up(matter.agent, home, url), "TZ": "UTC"}
    environment["PATH"] = os.pathsep.join((installed.path, os.environ["PATH"]))
    for number, prompt in enumerate(matter.prompts):
        words = {
            "claude-code": ["-p", prompt, *(["--continue"] if number else [])],
            "codex": ["exec", *(["resume", "--last"] if number else []), "--skip-git-repo-check", prompt],
            "pi": ["-p", *(["--continue"] if number else []), prompt],
        }[matter.agent]
        subprocess.run(
            [str(installed.cli), *words],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=120,
        )


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MAX_CHARACTERS else value[:MAX_CHARACTERS] + " [cut]"
    if isinstance(value, list):
        return [_cut(one) for one in value[:MAX_MEMBERS]]
    if isinstance(value, dict):
        return {key: _cut(one) for key, one in value.items()}
    return value


if __name__ == "__main__":
    if sys.argv[1:] != ["record"]:
        sys.exit("usage: search_real.py record")
    shutil.rmtree(FOLDER, ignore_errors=True)
    record()
