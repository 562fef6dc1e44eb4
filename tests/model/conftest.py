"""The model is imported as it is when `explore.py` runs as a script."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
