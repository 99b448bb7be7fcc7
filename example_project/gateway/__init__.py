"""A payment gateway as bad as real ones: it answers 503, and it takes the money and then does not answer.

A POST to ``/break`` makes it answer 503 to all that would move money, until one to ``/repair``.

``python -m gateway --port 8001 --ledger ledger.jsonl --seed 7``
"""
