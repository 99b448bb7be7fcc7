"""Hands that have a keyboard and nothing else, and eyes that follow where it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from playwright.sync_api import Locator, Page

from tests.browser.shapes import LEAST, ring_here

STOPS = 300
"""More than a page has."""


@dataclass
class Keyboard:
    page: Page
    stops: list[str] = field(default_factory=list)
    """What has had the focus; empty for the window itself."""

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)

    def go_to(self, wanted: Locator, key: str = "Tab") -> None:
        """Press ``key`` until it has the focus. Raises AssertionError where it never does, or where one does not see
        on the way what has."""
        # Without its stylesheets a page shows other rings.
        self.page.wait_for_load_state()
        for _ in range(STOPS):
            self._go(key)
            if has_focus(wanted):
                return
        raise AssertionError(f"{key} does not come to {wanted}")

    def use(self, wanted: Locator, key: str = "Enter") -> None:
        """Go there, and press that key."""
        self.go_to(wanted)
        self.press(key)

    def fill(self, wanted: Locator, text: str) -> None:
        """Go there, and write that in place of what is there."""
        self.go_to(wanted)
        self.press("Control+a")
        self.type(text)

    def leave(self) -> list[str]:
        """Go on with Tab until the page is left; the stops on the way. Raises AssertionError where it is not."""
        before = len(self.stops)
        while self._go("Tab"):
            assert len(self.stops) < before + STOPS, f"Tab does not leave the page: {self.stops[-5:]}"
        return self.stops[before:-1]

    def walk(self, key: str, steps: int) -> list[str]:
        """Press ``key`` so often; the stops on the way."""
        return [self._go(key) for _ in range(steps)]

    def _go(self, key: str) -> str:
        self.press(key)
        name, contrast = ring_here(self.page)
        assert contrast >= LEAST, f"one does not see that {name} has the focus: {contrast}"
        self.stops.append(name)
        return name


def has_focus(wanted: Locator) -> bool:
    return bool(wanted.evaluate_all("(all) => all.includes(document.activeElement)"))
