"""Deliberate faults in the engine, one line each: `python -m tests.mutants` sees whether some test notices them."""
