"""Expressions in words."""

from __future__ import annotations

import pytest
from django.utils import translation

from django_durable.admin.cron_words import in_words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("30 7 * * 1-5", "at 07:30 on weekdays"),
        ("30 7 * * mon-fri", "at 07:30 on weekdays"),
        ("0 6 * * *", "at 06:00 every day"),
        ("0 6,18 ? * ?", "at 06:00 and 18:00 every day"),
        ("0,30 9 * * *", "at 09:00 and 09:30 every day"),
        ("0 12 * * * 30", "at 12:00:30 every day"),
        ("0 6 * * sat,sun", "at 06:00 on Saturday and Sunday"),
        ("0 8 * * fri-mon", "at 08:00 on Monday, Friday, Saturday and Sunday"),
        ("0 8 * * 7", "at 08:00 on Sunday"),
        ("0 8 * * 0-6", "at 08:00 every day"),
        ("0 8 * * fri#2", "at 08:00 on the second Friday of the month"),
        ("0 8 * * L5", "at 08:00 on the last Friday of the month"),
        ("0 0 1,15 * *", "at 00:00 on day 1 and day 15 of the month"),
        ("0 0 1,L * *", "at 00:00 on day 1 and the last day of the month"),
        ("0 0 15W * *", "at 00:00 on the weekday nearest to day 15 of the month"),
        ("0 0 24 12 *", "at 00:00 on day 24 of December"),
        ("0 9 * 6-8 mon", "at 09:00 on Monday in June, July and August"),
        ("0 6 * jan,jul *", "at 06:00 in January and July"),
        ("0 0 13 * fri", "at 00:00 on day 13 of the month, and also on Friday"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0-59/15 * * * *", "every 15 minutes"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45 on weekdays"),
        ("*/30 9,17 * * *", "at 09:00, 09:30, 17:00 and 17:30 every day"),
        ("0 */5 * * *", "at 00:00, 05:00, 10:00, 15:00 and 20:00 every day"),
        ("* 9 * * *", "every minute from 09:00 to 09:59"),
        ("0 * * * *", "every hour"),
        ("5/20 * * * *", "every hour at :05, :25 and :45"),
        ("0 */6 * * *", "every 6 hours"),
        ("30 */2 * * *", "every 2 hours at :30"),
        ("30 9-17 * * *", "every hour from 09:30 to 17:30"),
        ("* * * * * */15", "every 15 seconds"),
        ("* * * * * *", "every second"),
        (" @daily ", "at 00:00 every day"),
        ("@weekly", "at 00:00 on Sunday"),
        ("@yearly", "at 00:00 on day 1 of January"),
    ],
)
def test_common_expressions(expression: str, words: str) -> None:
    assert in_words(expression) == words


@pytest.mark.parametrize(
    "expression",
    [
        "*/7 * * * *",  # after :56 comes :00
        "0 8,9,10,11,13,14,15 * * *",
        "0 0 */2 * *",
        "*/15 9,17 * * *",
        "* * * * * 30",
        "0 * * * * 30",
        "* * * * * */7",
        "0 0 1 1 fri",
        "1,2,3,5,8,13,21 * * * *",
        "61 * * * *",
        "0 0 30 2 *",
        "nonsense",
        "",
        "<hostile>",
    ],
)
def test_nothing_is_said_where_words_would_be_long_or_wrong(expression: str) -> None:
    assert in_words(expression) == ""


def test_names_of_days_are_those_of_the_language() -> None:
    with translation.override("de"):
        assert "Freitag" in in_words("0 8 * * fri")
