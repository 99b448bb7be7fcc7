"""The SQL that the ORM cannot say: named blocks by topic, rendered with a dialect's fragments.

Tables are named here as Django names them. ``status`` is written in these blocks and in ``transitions`` only.
"""
