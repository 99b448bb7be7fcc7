"""A soak: a load that the workers can keep up with, for an hour, and whether anything of theirs grows meanwhile.

`python -m tests.soak --minutes 60` (see `__main__.py`).
"""
