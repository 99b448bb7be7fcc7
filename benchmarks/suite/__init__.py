"""Every durable engine that a Django team might pick, measured side by side in one run: ``python -m benchmarks.suite``.

``systems`` says who takes part, ``environments`` gives each its own virtual environment, ``stage`` starts the servers,
``prepared`` makes a system ready, a ``bench``, ``client`` and ``workers`` are its processes, ``meter`` reads what they
cost, ``scenarios`` does S0 to S9, ``repeating`` as often as it takes, ``rest`` what takes longer (S5, S7, S8, S10, the
growth), ``ledger`` keeps every figure, ``goals`` divides them, ``report``, ``chart``, ``lines`` and ``page`` show them.
"""
