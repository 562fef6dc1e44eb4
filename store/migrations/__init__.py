"""Migrations by Alembic, run by store/migrate.py. There is no way back: a backup is the way back.

After a change of store/tables:   make migration WHAT="what changes"
Before the first release only:    make migration WHAT=--first
"""
