"""Not collected by itself: `test_processes.py` runs it to see what a failure shows."""

from tests.processes import Command


def test_that_fails():
    command = Command("shell", "-c", "print('said by the ' + 'process')")
    assert command.wait() == 1
