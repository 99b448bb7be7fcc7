"""Two hundred expressions: every form that docs/schedules.md names, in every field that it is allowed in."""

from __future__ import annotations

from itertools import product


def listed(text: str) -> list[str]:
    return [one.strip() for line in text.strip().splitlines() for one in line.split("|")]


HOURLY_AND_MORE = listed("""
    * * * * * | */2 * * * * | */7 * * * * | */15 * * * * | */40 * * * * | 5/20 * * * * | 10-50/20 * * * *
    0,30 * * * * | 1,2,3,5,8,13,21,34,55 * * * * | 50-10 * * * * | 20-25,40-45 * * * * | 0 * * * * | 30 * * * *
    59 * * * * | 45 * * * * | 0 */2 * * * | 30 */2 * * * | 15,45 */3 * * * | 0 */5 * * * | 0 */6 * * *
    1 */12 * * * | * */2 * * * | */10 */4 * * *
""")
FIXED_HOURS = listed("""
    * 2 * * * | * 0-3 * * * | */5 1,2 * * * | */20 0-4 * * * | 0,15,30,45 23,0,1 * * * | 5 0-23 * * * | 0 0-23/2 * * *
    30 1-23/2 * * * | 30 22-2 * * * | 0 23-1 * * * | 0 1,2,3 * * * | 15 1,3 * * * | 0,59 2-3 * * * | 10-20/5 2 * * *
    0 2/3 * * * | 45 0/6 * * * | 1 0 * * * | 44 0,1,2 * * * | */30 0,12 * * * | 30 2,2,2 * * *
    0 0-2,22-23 * * * | 29,31 1-3/2 * * * | 0 6,18 * * * | 7 9-17 * * * | */15 9-17 * * * | 0,30 00-02 * * *
    55-5 1-3 * * * | 30 3-1 * * * | 17 17 * * * | 0 0-5/5,12 * * *
""")
EACH_HOUR = [f"{minute} {hour} * * *" for minute, hour in product((0, 30, 59), (*range(6), 12, 22, 23))]
DAYS = listed("""
    * * 0 | * * 7 | * * sun | * * 1-5 | * * sat,sun | * * fri-mon | * * 5-7 | * * */2 | 1 * * | 29-31 * *
    L * * | 1,L * * | 15W * * | 28W * * | */2 * * | * 3 * | * mar,oct * | * 3-4,10-11 * | 25-31 3,10 sun | 1-7 * sun
    */10 * mon | ? * sat | * * sun#1 | * * sun#2,sun#4 | * * L0 | * * L6,L0 | L * fri | 30,31,1 12,1 * | 29 2 *
    1 jan,apr,sep * | * nov-feb 3/2
""")
ON_DAYS = [f"{time} {days}" for time, days in product(("30 2", "0 0", "15 *"), DAYS)]
WITH_SECONDS = listed("""
    * * * * * * | * * * * * */7 | * * * * * 0,30 | 0 * * * * 30 | */5 * * * * 59 | 59 * * * * 50-59
    * 2 * * * */15 | 59 1,2,3 * * * 58 | 30 0-3 * * * 0 | 0 2 * * * * | 0 0,3 * * * 0,59 | 59 23 * * * 59
    0 0 * * * 0 | 0 0 * * sun 1 | 1-5 0-4 * * * 10/20 | * */2 * * sat,sun 55-5 | 0,59 22-2 * * * 0-59/20
    * * * 3,10 * */13 | 30,31 1-2 * * * 29-31 | 0 1-3 25-31 * 7 0
""")
NAMED = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"]

EXPRESSIONS = [*HOURLY_AND_MORE, *FIXED_HOURS, *EACH_HOUR, *ON_DAYS, *WITH_SECONDS, *NAMED]
