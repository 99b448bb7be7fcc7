"""Why a run does not run now, word for word: ``test_why`` takes any sentence that every language has."""

from __future__ import annotations

import pytest

from django_durable.client.why import why
from tests.client.test_why import AT, SEEN, Scene, row, running, waiting

pytestmark = pytest.mark.django_db
WHEN = f"{SEEN} UTC"

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
]


@pytest.mark.parametrize(("scene", "reason", "text"), SCENES)
def test_each_is_told_in_words_of_its_own(scene: Scene, reason: str, text: str) -> None:
    found = why(scene())
    assert (found.reason, found.text) == (reason, text)
