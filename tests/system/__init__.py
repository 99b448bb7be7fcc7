"""What needs root or packages of Debian: `python -m tests.system [pytest's arguments]`, no part of `make test`."""
