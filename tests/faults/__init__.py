"""Faults, one at each point where one can be made: `python -m tests.faults`.

A scenario is worked on by one worker that is pumped in one thread, so that the k-th statement, commit, Redis command
or named place is the same each time. For each action and each k a forked process meets that one fault, then a clean
worker finishes what is left and a checker looks at the tables and at what the steps were seen to do.
"""
