"""The API: fires events and starts runs over HTTP, for programs that hold a key. What it promises is in docs/api.md.

It decides nothing about events and runs; `hermes/firing.py`, `starting.py` and `operations.py` do, for the command line
too.
"""
