"""The app that the documentation's examples live in; each document's blocks take the place of its `workflows.py`."""
