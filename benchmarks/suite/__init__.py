"""Every durable engine that a Django team might pick, measured side by side in one run: ``python -m benchmarks.suite``.

``systems`` says who takes part, ``environments`` gives each its own virtual environment, ``stage`` starts the servers,
``client`` and ``workers`` are the processes of a system, ``meter`` reads what they cost, ``scenarios`` does S1 to S9,
``ledger`` keeps every figure, ``goals`` divides them, ``report`` and ``chart`` show them.
"""
