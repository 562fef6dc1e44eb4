"""Migrations by Alembic, run by store/migrate.py. There is no way back: a backup is the way back.

After a change of store/tables:   python -m store.migrations.write "what changes"
Before the first release only:    python -m store.migrations.write --first
"""
