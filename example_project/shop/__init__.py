"""A small real shop whose orders are fulfilled by durable workflows (see workflows.py)."""
