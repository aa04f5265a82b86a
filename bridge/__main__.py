"""Runs the command line as ``python -m bridge``."""

from __future__ import annotations

import sys

from bridge.cli.main import main

sys.exit(main())
