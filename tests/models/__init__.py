"""The protocols of the engine as SPIN models: what holds in every order of events, and the shorter forms that fail.

`lease.pml` is the lease and its fence, `wake.pml` suspending and waking, `limits.pml` claims under a limit. Each is
checked in variants (`variants.py`); the wrong ones have to keep failing, else the right ones prove nothing. `spin` and
`gcc` are needed: `python -m tests.models [part of a name]`, and `python -m tests.system` does it with all the rest.
"""
