"""The shipped translations: complete, compiled, and with every placeholder in its place."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import polib
import pytest
from django.utils.translation import gettext as gettext_of
from django.utils.translation import override, pgettext
from django.utils.translation.template import templatize

from django_durable.admin.start_fields import PLAIN
from django_durable.models import Run

PACKAGE = Path(__file__).parent.parent / "django_durable"
LANGUAGES = ("de", "en", "es", "fr")
MARKS = frozenset({"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy"})
IN_CONTEXT = frozenset({"pgettext", "pgettext_lazy", "npgettext", "npgettext_lazy"})
"""Those that are first given what it is about: one word here may take two in another language."""
TEXT = r"""u?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
IN_TEMPLATE = re.compile(rf"\b(?:_|gettext|ngettext|(n?pgettext)\(\s*{TEXT}\s*,)\(?\s*{TEXT}")
PLACEHOLDER = re.compile(r"%\(\w+\)[sdifr]|%[sd]|\{\w*\}|</?\w+[^>]*>")
Text = tuple[str, str]
"""What is translated, and its context: mostly none."""


def catalogue(language: str) -> polib.POFile:
    return polib.pofile(str(PACKAGE / "locale" / language / "LC_MESSAGES" / "django.po"))


def marked() -> Iterator[Text]:
    """Every text that the package's Python and templates mark for translation."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS | IN_CONTEXT:
                texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
                if texts:
                    yield (texts[1], texts[0]) if node.func.id in IN_CONTEXT else (texts[0], "")
    for path in PACKAGE.rglob("templates/**/*.html"):
        for found in IN_TEMPLATE.finditer(templatize(path.read_text())):
            yield ast.literal_eval(found[3]), ast.literal_eval(found[2]) if found[1] else ""


def text_of(entry: polib.POEntry) -> Text:
    return entry.msgid, entry.msgctxt or ""


def test_texts_are_found_in_code_and_templates():
    found = set(marked())
    assert {("Cancel", ""), ("All runs", ""), ("Nothing is journaled yet.", "")} <= found
    assert {("held", "queue"), ("held", "workflow"), ("started", "runs"), ("until {}", "waits")} <= found
    assert len(found) > 300


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated(language: str):
    known = {text_of(entry): entry for entry in catalogue(language) if not entry.obsolete}
    assert sorted(set(marked()) - known.keys()) == []
    left = [entry.msgid for entry in known.values() if not entry.translated() or entry.fuzzy]
    assert left == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_placeholders_are_kept(language: str):
    wrong = []
    for entry in catalogue(language):
        whole = sorted(set(PLACEHOLDER.findall(entry.msgid_plural or entry.msgid)))
        alone = sorted(set(PLACEHOLDER.findall(entry.msgid)))
        for number, text in (entry.msgstr_plural or {1: entry.msgstr}).items():
            found = sorted(set(PLACEHOLDER.findall(text)))
            # The form for one may leave the number out, or say it where English does not.
            if found != whole and not (number == 0 and found == alone):
                wrong.append((entry.msgid, text))
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_compiled_is_what_is_written(language: str):
    with (PACKAGE / "locale" / language / "LC_MESSAGES" / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for entry in catalogue(language):
        if entry.msgid_plural:
            for count in (1, 2):
                form = entry.msgstr_plural[compiled.plural(count)]  # type: ignore[attr-defined]
                assert compiled.ngettext(entry.msgid, entry.msgid_plural, count) == form
        elif entry.msgctxt:
            assert compiled.pgettext(entry.msgctxt, entry.msgid) == entry.msgstr
        else:
            assert compiled.gettext(entry.msgid) == entry.msgstr


def test_english_says_what_the_source_says():
    wrong = []
    for entry in catalogue("en"):
        source = [entry.msgid, entry.msgid_plural] if entry.msgid_plural else [entry.msgid]
        said = [form for _, form in sorted(entry.msgstr_plural.items())] or [entry.msgstr]
        if said != source:
            wrong.append((entry.msgid, said))
    assert wrong == []


def test_django_finds_them():
    with override("de"):
        assert str(Run._meta.verbose_name) == "Lauf"


def test_what_is_made_once_is_in_the_language_of_who_looks():
    with override("de"):
        field = PLAIN[bool](required=True, initial=True)
    assert [str(label) for _, label in field.choices] == ["ja", "nein"]


@pytest.mark.parametrize(
    ("context", "text", "de", "fr"),
    [
        ("queue", "held", "zurückgehalten", "retenue"),
        ("workflow", "held", "zurückgehalten", "retenu"),
        ("runs", "started", "gestartet", "démarrées"),
        (None, "started", "gestartet", "démarrage"),
        ("share of runs", "failing", "Fehlerquote", "échecs"),
        (None, "failing", "schlägt fehl", "en échec"),
    ],
)
def test_one_word_for_two_things_is_two_where_it_has_to_be(context: str | None, text: str, de: str, fr: str):
    for language, wanted in {"de": de, "fr": fr}.items():
        with override(language):
            assert (pgettext(context, text) if context else gettext_of(text)) == wanted
