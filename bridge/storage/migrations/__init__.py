"""The steps from each schema version to the next, as Alembic revisions; see ``docs/storage.md``.

Nothing in here is imported by an ordinary opening: Alembic alone takes 200 ms. A revision that was released never
changes: the digests of all files of ``versions`` are pinned, and an altered one is refused.
"""
