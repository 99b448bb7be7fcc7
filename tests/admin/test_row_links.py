"""What the links of the list's rows are called where they are listed without their rows."""

from __future__ import annotations

import re

from django.test import Client

from tests.admin.pages import list_url, run_url
from tests.admin.world import make_run

LINK = re.compile(r'<th class="field-workflow_name">\s*<a href="([^"?]*)[^"]*">(.*?)</a>', re.DOTALL)


def test_runs_of_one_workflow_are_told_apart_by_the_ends_of_their_ids(boss: Client) -> None:
    runs = [make_run("waiting") for _ in range(3)]
    found = {url: re.sub("<.*?>", "", name) for url, name in LINK.findall(boss.get(list_url()).content.decode())}
    assert found == {run_url(run): f"app.doubling {str(run.pk)[-12:]}" for run in runs}
