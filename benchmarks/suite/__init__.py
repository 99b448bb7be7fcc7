"""Every durable engine that a Django team might pick, measured side by side in one run: ``python -m benchmarks.suite``.

``systems`` says who takes part, ``environments`` gives each its own virtual environment, ``stage`` starts the servers;
a ``bench`` is a system that ``prepared`` has made ready, ``client`` and ``workers`` are its processes. ``scenarios``
has S0 to S4, S6 and S9, ``repeating`` says how often each is measured, ``rest`` has what takes longer (S5, S7, S8, S10,
the growth). They yield a ``sample`` each time, of which ``meter`` reads the cost; ``ledger`` keeps all of them,
``goals`` divides them, ``report``, ``chart``, ``lines`` and ``page`` show them.
"""
