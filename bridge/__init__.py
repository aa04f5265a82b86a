"""Bridge: a git-integrated agent orchestration controller. Importing this package costs nothing."""

from __future__ import annotations

__version__ = "0.1.0"
