"""The faults that there are, by what they are aimed at."""

from __future__ import annotations

DEADLY = ("kill", "kill_group", "poison")
"""A process dies by SIGKILL: one of a supervisor's, all of them with it, or one whose own step kills it."""

FREEZE, DRAIN = "freeze", "drain"
"""A supervisor with its processes is stopped and goes on later; it is told to end, and another one comes."""

LEAVES = ("kill_group", DRAIN)
"""A supervisor goes with all of its processes, and another one is started in its place."""

OUTAGES = ("restart_postgres", "freeze_postgres", "cut_postgres")
"""For a while nobody gets an answer from PostgreSQL, or everybody loses the connection."""

DELAY = "delay_postgres"
"""Every message to PostgreSQL and back comes late: a commit of several statements takes half a second."""

PARTIAL = ("terminate_backends", DELAY, "cut_after")
"""What hits some of the connections to PostgreSQL, or only slows them down."""

OF_POSTGRES = (*OUTAGES, *PARTIAL)
OF_REDIS = ("kill_redis", "flush_redis", "freeze_redis", "cut_redis")
