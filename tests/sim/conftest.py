"""The simulation is imported as it is when `simulate.py` runs as a script."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
