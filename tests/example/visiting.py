"""Pages over HTTP, as somebody without scripts has them: to read, and with buttons to press."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

PATIENCE = 60


@dataclass
class Form:
    """``buttons`` are called as somebody hears them who does not see the page."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[str] = field(default_factory=list)


class Visitor:
    """Whoever stands before one page of a site; the site knows them by their cookies."""

    def __init__(self, site: str) -> None:
        self.url, self.text = site, ""
        self._forms: list[Form] = []
        # Between two processes of one machine no proxy of the environment's has to stand.
        self._opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(CookieJar()))

    def open(self, url: str) -> Visitor:
        """Go there. Raises HTTPError where there is nothing to see."""
        return self._go(url, None)

    def press(self, button: str, **filled: str) -> Visitor:
        """Send the form of that button, filled in so. Raises ValueError where there is not just one."""
        [form] = [form for form in self._forms if button in form.buttons]
        return self._go(form.action, urlencode({**form.fields, **filled}).encode())

    def _go(self, url: str, data: bytes | None) -> Visitor:
        with self._opener.open(urljoin(self.url, url), data, timeout=PATIENCE) as answer:
            self.url, reader = answer.url, _Reader()
            reader.feed(answer.read().decode())
        self.text, self._forms = " ".join(" ".join(reader.texts).split()), reader.forms
        return self


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.forms: list[Form] = []
        self._form: Form | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = Form(given.get("action", ""))
            self.forms.append(self._form)
        elif self._form is None:
            return
        elif tag == "button":
            self._form.buttons.append(given.get("aria-label", ""))
        elif tag == "input" and given.get("type") == "submit":
            self._form.buttons.append(given.get("value", ""))
        elif tag == "input" and "name" in given:
            self._form.fields[given["name"]] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
