"""The admin in a real browser: `make test-browser` (tests/browser/__main__.py), no part of `make test`."""
