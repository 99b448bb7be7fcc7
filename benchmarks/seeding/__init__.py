"""A database as a busy installation has it after some weeks: what `benchmarks/seed.py` makes."""
