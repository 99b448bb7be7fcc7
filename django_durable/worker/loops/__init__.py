"""Maintenance: a file for each loop. A tick owns work and returns how much it did; the runner owns timing.

Any number of processes may run any of them: each tick is a bounded batch of guarded statements.
"""
