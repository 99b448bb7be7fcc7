"""What a browser complains of while a test looks at pages: nothing of it may be there at the end."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, ConsoleMessage, Response

FAVICON = "/favicon.ico"
"""What a browser asks of a site by itself, whoever made its pages."""

REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
    console.error(`CSP: ${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""
"""In every page before its own scripts: also of what the console would keep to itself."""

REPORT_BUT_OTHERS_SCRIPTS = """
document.addEventListener("securitypolicyviolation", (event) => {
    const script = (event.sourceFile ?? "").replace(location.origin + location.pathname, "");
    // What a stylesheet draws is put down to whichever script was at work just then.
    const isDrawn = event.blockedURI === "data";
    if (script && !script.includes("/static/django_durable/") && !isDrawn) return;
    const element = (event.target.outerHTML ?? "").replace(/\\s+/g, " ").slice(0, 80);
    console.error(`CSP: ${event.effectiveDirective} ${event.blockedURI} ${isDrawn ? "" : script || element}`);
});
"""
"""Likewise where a look has scripts of its own; in the same words on every page, so that two can be compared."""


def watch(context: BrowserContext, violations: str = REPORT_VIOLATIONS) -> list[str]:
    """The list grows while the pages of the context are used."""
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        url = str(message.location.get("url"))
        if message.type in ("error", "warning") and not url.endswith(FAVICON):
            complaints.append(f"console: {message.text} ({url})")

    def see(response: Response) -> None:
        if response.status >= 400 and not response.url.endswith(FAVICON):
            complaints.append(f"{response.status}: {response.request.method} {response.url}")

        is_page = response.request.resource_type == "document" and 200 <= response.status < 300
        if is_page and not {"content-security-policy", "content-security-policy-report-only"} & set(response.headers):
            complaints.append(f"no policy: {response.url}")

    context.add_init_script(violations)
    context.on("console", hear)
    context.on("weberror", lambda found: complaints.append(f"error in a script: {found.error}"))
    context.on("response", see)
    return complaints
