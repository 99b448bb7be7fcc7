"""The step functions of the shop's workflows: ordinary Django code, each safe to run a second time.

A step runs at least once: a process may die after the work and before the journal knows. So each one either finds
what it did before (a unique row, an idempotency key) or is declared ``atomic`` by its workflow.
"""
