"""The repository's root on the path, for ``model_checking``, and Hypothesis's profile: never a time limit in a test."""

import os
import sys
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

settings.register_profile("stallproof", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("stallproof")
