"""What a run of chaos prints last, and how it exits: by what its rounds came to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import __main__ as chaos
from tests.chaos import rounds
from tests.chaos.checker import told
from tests.chaos.making import Making
from tests.servers import Servers

STUCK = "the last runs of each worker to succeed"


@pytest.mark.parametrize("stuck", [[], [STUCK]])
def test_the_last_line_is_one_object_that_says_whether_all_goals_hold(
    making: Making,
    stuck: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def play(*arguments: Any) -> None:
        arguments[-1].add(told(making.evidence), 60.0, 1.0, stuck)

    monkeypatch.setattr(rounds, "play", play)
    monkeypatch.setattr(chaos, "keep", lambda folder: folder / "kept")
    servers = Servers("postgres-redis", tmp_path)
    totals = chaos.trial(servers, chaos.parse(["--duration", "240"]), "7", [])
    printed = capsys.readouterr().out
    data = json.loads(printed.splitlines()[-1])
    # Much too little was done, and that is said; but only what is stuck is a violation, of each of the two rounds.
    assert (data["ok"], data["violations"]) == (False, 2 * len(stuck))
    assert [one.text for one in totals.violations] == 2 * stuck
    assert ("logs of 7-1: " in printed, STUCK in printed) == (bool(stuck), bool(stuck))


def test_where_all_goals_hold_it_says_so(totals: Any) -> None:
    from tests.chaos.report import as_data

    assert as_data(totals)["ok"]
