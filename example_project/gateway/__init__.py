"""A payment gateway as bad as real ones: it answers 503, and it takes the money and then does not answer.

``python -m gateway --port 8001 --ledger ledger.jsonl --seed 7``
"""
