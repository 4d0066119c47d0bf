"""`python -m floatlens` is the command line."""

from __future__ import annotations

import sys

from floatlens.cli import main

sys.exit(main())
