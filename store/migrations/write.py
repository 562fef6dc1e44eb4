"""For developers: writes the migration from what the newest one makes to what store/tables say.

python -m store.migrations.write "what changes"     the next one; read it before it is committed
python -m store.migrations.write --first            the first one anew, while nobody has a database to keep
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from alembic import command

from hermes.clock import SystemClock
from store.database import Database
from store.migrate import FOLDER, alembic_config, upgrade


def write(message: str, *, first: bool = False) -> Path:
    """Returns the file."""
    versions = FOLDER / "versions"
    if first:
        for old in versions.glob("v*.py"):
            old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/hermes.db", SystemClock())
        upgrade(database)
        number = len(list(versions.glob("v*.py"))) + 1
        with database.engine.connect() as connection:
            config = alembic_config(connection)
            made = command.revision(config, message, autogenerate=True, rev_id=f"{number:04}")
        database.close()
    if made is None or isinstance(made, list):
        raise RuntimeError("there is more than one branch of migrations")
    path = Path(made.path)
    for fix in (["check", "--fix", "--exit-zero", "--silent"], ["format", "--quiet"]):
        subprocess.run(["ruff", *fix, str(path)], check=True)  # noqa: S603, S607 -- a developer's tool
    return path


if __name__ == "__main__":
    anew = sys.argv[1:] == ["--first"]
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(f"{write('The first tables' if anew else sys.argv[1], first=anew)}\n")
