"""One module for each semantic version, called ``v<number>``; it is there, so the version is known.

Each defines ``KINDS`` (its kinds by name) and, but for the first, ``from_previous`` (how a payload of the version
before reads under it; pure). Its schemas are in ``schema/semantic/v<number>/``. Nothing else has to be told of a new
version: the newest is what is written, and it and the one before are what is read.
"""
