"""Chaos: random programs under a nemesis, and a checker that joins what steps, clients and the database say of them.

`python -m tests.chaos --duration 60 --seed N` (see `__main__.py`).
"""
