"""Why a run does not run now, word for word: ``test_why`` takes any sentence that every language has."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_durable.client.why import why
from tests.client.test_why import AT, LATE, SEEN, Scene, child, listening, queued, row, running, waiting

pytestmark = pytest.mark.django_db
WHEN = f"{SEEN} UTC"
AGAIN, ON = ", which tries again what failed.", ", which lets it go on from there."
SEEN_SO = ", and stays so: its parent has seen that. If the parent failed or was cancelled as well, resume that one."
REPLACED = ". Its parent was resumed, and has another in its place."
UNTIL_RESUMED = ", and stays so until somebody resumes it"
SUSPECT = {"suspect": True, "claims": 1}
COMES = "it goes on when what one of them waits for comes"
LEFT, RACING = "All that is left of its branches at 'at/here' waits", "All branches of its race at 'at/here' wait"
WAITS = {
    "sleep": ("It sleeps at 'at/here'.", f"It sleeps at 'at/here' until {WHEN}."),
    "poll": (
        "It asks at 'at/here', and would ask again only after its deadline.",
        f"It asks again at 'at/here', next at {WHEN}.",
    ),
    "event": ("It waits at 'at/here' for an event.", f"It waits at 'at/here' for an event, and gives up at {WHEN}."),
    "join": (f"{LEFT}; {COMES}.", f"{LEFT}; {COMES}, at {WHEN} at the latest."),
    "race": (f"{RACING}; {COMES}.", f"{RACING}; {COMES}, at {WHEN} at the latest."),
    "map": (
        "It waits for the items of 'at/here', and goes on as they end.",
        f"It waits for the items of 'at/here', the first of which is tried again at {WHEN}.",
    ),
    "child": (
        "It waits for its child run at 'at/here', and goes on when that is over.",
        f"It waits for its child run at 'at/here' until {WHEN}.",
    ),
}
"""Without a time, and with one."""
WAITS_TO_RETRY = {
    "retry:at/here": "Step 'at/here' failed, and would be tried again only after the deadline.",
    "retry:": "The run failed, and would be tried again only after its deadline.",
}
AT_HERE = " (at 'at/here')"
EVENTS: list[tuple[tuple[str, ...], str, str]] = [
    (("at/here",), "event 'at/here'", "that is sent"),
    (("packed",), f"event 'packed'{AT_HERE}", "that is sent"),
    (("packed", "lost"), f"events 'packed', 'lost'{AT_HERE}", "enough of them are sent"),
    (tuple("abcde"), f"events 'a', 'b', 'c', 'd', 'e'{AT_HERE}", "enough of them are sent"),
    (tuple("abcdef"), f"events 'a', 'b', 'c', 'd', 'e', …{AT_HERE}", "enough of them are sent"),
]
ASKED, PAUSED = {"cancel_requested_at": AT}, "; it goes on when somebody resumes it."
SCENES: list[tuple[Scene, str, str]] = [
    (row("paused"), "paused", f"Somebody paused it{PAUSED}"),
    (
        row("paused", wake_at=AT, claims=1),
        "paused",
        f"Somebody paused it before {WHEN}, when it would be woken{PAUSED}",
    ),
    (
        row("paused", wake_at=AT, claims=0),
        "paused",
        f"Somebody paused it before {WHEN}, when it was to start{PAUSED}",
    ),
    (
        running({}, pause_requested_at=AT),
        "running: pausing",
        f"It pauses at its next call, asked to at {WHEN}.",
    ),
    (running({}, **ASKED), "running: stopping", f"It stops at its next call, asked to at {WHEN}."),
    (
        running({}, phase="compensating", **ASKED),
        "running: stopping",
        f"It undoes what it did, asked to stop at {WHEN}.",
    ),
    *((waiting(f"{what}:at/here"), f"waiting: {what}", ever) for what, (ever, _) in WAITS.items()),
    *((waiting(f"{what}:at/here", wake_at=AT), f"waiting: {what}", until) for what, (_, until) in WAITS.items()),
    *(
        (waiting(f"{what}:at/here", **LATE), f"waiting: {what}", f"{ever} At its deadline, {WHEN}, it fails.")
        for what, (ever, _) in WAITS.items()
    ),
    *(
        (waiting(on, **LATE), "waiting: retry", f"{ever} At its deadline, {WHEN}, it fails.")
        for on, ever in WAITS_TO_RETRY.items()
    ),
    (
        waiting("sleep:at/here", wake_at=AT, deadline_at=AT + timedelta(seconds=1)),
        "waiting: sleep",
        f"It sleeps at 'at/here' until {WHEN}.",
    ),
    *(
        (listening(*names), "waiting: event", f"It waits for the {events}, and goes on when {comes}.")
        for names, events, comes in EVENTS
    ),
    *(
        (listening(*names, wake_at=AT), "waiting: event", f"It waits for the {events}, and gives up at {WHEN}.")
        for names, events, _ in EVENTS
    ),
    (
        waiting("retry:at/here", wake_at=AT),
        "waiting: retry",
        f"Step 'at/here' failed and is tried again at {WHEN}.",
    ),
    (waiting("retry:", wake_at=AT), "waiting: retry", f"The run failed and is tried again at {WHEN}."),
    (child("failed", "waiting"), "finished", f"It is over: failed at {WHEN}{UNTIL_RESUMED}{AGAIN}"),
    (child("cancelled", "waiting"), "finished", f"It is over: cancelled at {WHEN}{UNTIL_RESUMED}{ON}"),
    *((child(end, "failed"), "finished", f"It is over: {end} at {WHEN}{SEEN_SO}") for end in ("failed", "cancelled")),
    *(
        (child(end, "failed", ""), "finished", f"It is over: {end} at {WHEN}{REPLACED}")
        for end in ("failed", "cancelled")
    ),
    (child("succeeded", "failed"), "finished", f"It is over: succeeded at {WHEN}."),
    (
        queued({}, **SUSPECT),
        "queued: suspect",
        "Its process died; it runs next alone in a process of its own.",
    ),
    (
        queued(**SUSPECT),
        "queued: no worker",
        "No worker is alive; start one with manage.py durable_worker.",
    ),
    (queued({}, queue="vip", **SUSPECT), "queued: no worker", "No live worker serves the queue 'vip'."),
    (
        queued({}, {"queues": ["vip"], "is_isolated": True}, queue="vip", **SUSPECT),
        "queued: no worker",
        "No live worker serves the queue 'vip'.",
    ),
    (
        queued({}, workflow="app.gone", **SUSPECT),
        "queued: unknown workflow",
        "No live worker of its queue knows 'app.gone'.",
    ),
]


@pytest.mark.parametrize(("scene", "reason", "text"), SCENES)
def test_each_is_told_in_words_of_its_own(scene: Scene, reason: str, text: str) -> None:
    found = why(scene())
    assert (found.reason, found.text) == (reason, text)
