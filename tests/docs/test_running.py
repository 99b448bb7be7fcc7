"""What the documents' examples leave behind: nothing."""

from __future__ import annotations

import pytest
from django.contrib import admin

from tests.docs.reading import ROOT
from tests.docs.running import run


@pytest.mark.django_db
def test_models_that_a_document_registers_are_in_no_admin_afterwards(request: pytest.FixtureRequest) -> None:
    before = dict(admin.site._registry)
    run(ROOT / "docs" / "pages.md", request)
    assert admin.site._registry == before
