"""A deployment of the released version, for workers and clients beside those of this checkout: its wheel, settings, and
an app with workflows that it can work on."""
