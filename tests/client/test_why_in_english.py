"""Why a run does not run now, word for word: ``test_why`` takes any sentence that every language has."""

from __future__ import annotations

import pytest

from django_durable.client.why import why
from tests.client.test_why import AT, SEEN, Scene, child, queued, row, running, waiting

pytestmark = pytest.mark.django_db
WHEN = f"{SEEN} UTC"
AGAIN, ON = ", which tries again what failed.", ", which lets it go on from there."
SEEN_SO = ", and stays so: its parent has seen that. If the parent failed or was cancelled as well, resume that one."
REPLACED = ". Its parent was resumed, and has another in its place."
UNTIL_RESUMED = ", and stays so until somebody resumes it"
SUSPECT = {"suspect": True, "claims": 1}
WAITS = {
    "sleep": "It sleeps at 'at/here'",
    "poll": "It asks again at 'at/here'",
    "event": "It waits at 'at/here' for an event",
    "join": "All that is left of its branches at 'at/here' waits",
    "race": "All branches of its race at 'at/here' wait",
    "map": "It waits for the items of 'at/here'",
    "child": "It waits for its child run at 'at/here'",
}
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
    *((waiting(f"{what}:at/here"), f"waiting: {what}", f"{text}.") for what, text in WAITS.items()),
    *(
        (waiting(f"{what}:at/here", wake_at=AT), f"waiting: {what}", f"{text} until {WHEN}.")
        for what, text in WAITS.items()
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
