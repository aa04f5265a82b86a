"""The door for agents: the Model Context Protocol, over the one table of methods.

``proxy`` and this module cost next to nothing to import; ``tools`` is data; only ``serving`` loads the library.
"""
