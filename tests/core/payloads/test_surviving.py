"""What a thread that has to go on makes of whatever it meets: a line of the log."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator

import pytest

from django_durable.core.payloads.surviving import survive, warn
from tests.hostile.rude import ERRORS

LOG = "tests.surviving"


@pytest.fixture
def logger(caplog: pytest.LogCaptureFixture) -> Iterator[logging.Logger]:
    """Whose handler passes on what goes wrong in it, as pytest's does."""
    caplog.set_level(logging.DEBUG, LOG)
    logger = logging.getLogger(LOG)
    filters = logger.filters[:]
    yield logger
    logger.filters = filters


@pytest.mark.parametrize("what", [what for what in ERRORS if what != "KeyboardInterrupt"])
def test_whatever_it_is_it_is_logged(what: str, logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ERRORS[what]()
    except BaseException as error:
        survive(error, logger, "loop %s stumbled", "Fire")
    assert caplog.records[-1].getMessage().startswith("loop Fire stumbled")
    assert caplog.records[-1].levelno == logging.ERROR


def test_what_cannot_be_formatted_is_told_in_brief(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    survive(ERRORS["attributes raise"](), logger, "it stumbled")
    assert caplog.messages[-1].startswith("it stumbled: ErrorAttributesRaise: ")


@pytest.mark.parametrize("what", ["SystemExit", "str raises"])
def test_a_filter_that_fails_is_survived(what: str, logger: logging.Logger) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise ERRORS[what]()

    logger.addFilter(refuse)
    survive(ValueError("x"), logger, "it stumbled")
    warn(logger, "it is away")


def test_who_types_ctrl_c_is_heard(logger: logging.Logger) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        survive(KeyboardInterrupt(), logger, "it stumbled")


def test_in_another_thread_nobody_has_typed_it(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    thread = threading.Thread(target=survive, args=(KeyboardInterrupt(), logger, "it stumbled"))
    thread.start()
    thread.join()
    assert caplog.messages == ["it stumbled"]


def test_nor_where_the_signal_is_handled(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.getsignal", lambda number: None)
    survive(KeyboardInterrupt(), logger, "it stumbled")
    assert caplog.messages == ["it stumbled"]
