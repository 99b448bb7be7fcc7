"""What must never be seen in the tables: a query for each part of an invariant, which returns who breaks it and how.

Most look at a window of ids (``after`` < id ≤ ``until``); all return at most ``limit`` rows of a run's id and a text. A
query is one statement, so it sees one snapshot: what a commit changes together it sees together.

Times of *different* sessions are compared with ``SLACK``: a statement's time is taken when it arrives, its snapshot a
little later, so that a claim may see a reap that was sent after it.
"""
