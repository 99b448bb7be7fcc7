"""A warehouse that is told what to pack, packs it a little later and calls back until somebody listens.

``python -m warehouse --port 8002 --state warehouse.jsonl``
"""
