"""Runs one command and ends it when the process that asked for it is gone, however that one went.

Started by `guarded.py` as a script. It lives in a session of its own, so neither Ctrl-C nor a kill of the test run's
process group reaches it before its work is done. (PR_SET_PDEATHSIG would need no helper, but it is Linux only, follows
the starting *thread*, and is cleared when the child changes its user.)
"""

import argparse
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

PATIENCE = 5.0


def main() -> None:
    options = parse(sys.argv[1:])
    child = start(options)
    os.write(options.pid_pipe, b"%d" % child.pid)
    os.close(options.pid_pipe)
    threading.Thread(target=end_with_parent, args=(child, options), daemon=True).start()
    leave_like(child.wait())


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--pid-pipe", type=int, required=True)
    parser.add_argument("--ending", type=int, default=signal.SIGKILL)
    parser.add_argument("--user")
    parser.add_argument("command", nargs="+")
    return parser.parse_args(arguments)


def start(options: argparse.Namespace) -> "subprocess.Popen[bytes]":
    as_user = {"user": options.user, "group": group_of(options.user), "extra_groups": []} if options.user else {}
    return subprocess.Popen(options.command, stdin=subprocess.DEVNULL, start_new_session=True, **as_user)


def group_of(user: str) -> int:
    import pwd

    return pwd.getpwnam(user).pw_gid


def end_with_parent(child: "subprocess.Popen[bytes]", options: argparse.Namespace) -> None:
    # A fork of the parent may hold our pipe open after the parent's death, so its id is looked at as well.
    while os.getppid() == options.parent and not select.select([sys.stdin], [], [], 1.0)[0]:
        pass
    signal_group(child.pid, options.ending)
    time.sleep(PATIENCE)
    signal_group(child.pid, signal.SIGKILL)


def signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def leave_like(returncode: int) -> None:
    """End with the child's own exit status, so that who waits for the guard sees how the child went."""
    if returncode >= 0:
        os._exit(returncode)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # SIGKILL takes no handler and needs none
        signal.signal(-returncode, signal.SIG_DFL)
    os.kill(os.getpid(), -returncode)


if __name__ == "__main__":
    main()
