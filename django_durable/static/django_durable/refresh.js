/* Parts of a page that refresh themselves.

   <div data-durable-refresh="URL" data-durable-every="5">…</div>
       is asked for anew every so many seconds. 304 changes nothing, 200 replaces its contents, and of those only what
       differs: focus, selection, scrolling and what somebody opened or typed stay. Its data-durable-state is "live",
       "paused", "stale" (no answer; asked on, less and less often), "stopped" (nobody is logged in any more, or may not
       look) or "done" (the answer said X-Durable-Done: 1). It tells of each answer by the event "durable:answered",
       with the status in its detail.
   <button data-durable-pause aria-pressed="false" hidden>…</button>
       pauses them all. Shown only where this script runs.
   <p data-durable-when="stale" hidden>…</p>
       is shown while a part of the page is in that state.

   Nothing is asked for while the page is hidden. */

"use strict";

(() => {
    const SLOWEST = 60, PATIENCE = 30, RESTS = "rests";
    let isPaused = false;

    class Part {
        constructor(element) {
            this.element = element;
            this.every = Math.max(Number(element.dataset.durableEvery) || 5, 1);
            this.etag = "";
            this.misses = 0;
            this.timer = 0;
            this.asking = null;
            this.say("live");
        }

        get isOver() {
            return ["stopped", "done"].includes(this.element.dataset.durableState) || !this.element.isConnected;
        }

        say(state) {
            this.element.dataset.durableState = state;
            tellOfStates();
        }

        later() {
            clearTimeout(this.timer);
            if (this.isOver || isPaused || document.hidden) return;
            const seconds = this.misses ? Math.min(this.every * 2 ** this.misses, Math.max(SLOWEST, this.every)) : this.every;
            this.timer = setTimeout(() => this.ask(), seconds * 1000);
        }

        rest() {
            clearTimeout(this.timer);
            if (this.asking) this.asking.abort(RESTS);
        }

        async ask() {
            clearTimeout(this.timer);
            if (this.asking || this.isOver || isPaused || document.hidden) return;
            const asking = this.asking = new AbortController();
            const patience = setTimeout(() => asking.abort(), PATIENCE * 1000);
            let status = 0;
            try {
                const response = await fetch(this.element.dataset.durableRefresh, {
                    credentials: "same-origin",
                    cache: "no-store",
                    // Where it leads to is the page to log in.
                    redirect: "manual",
                    headers: this.etag ? { "If-None-Match": this.etag } : {},
                    signal: asking.signal,
                });
                const text = response.status === 200 ? await response.text() : "";
                if (asking.signal.aborted) return;
                status = this.take(response, text);
            } catch {
                if (asking.signal.reason === RESTS) return;
                this.miss();
            } finally {
                clearTimeout(patience);
                this.asking = null;
                this.later();
            }
            this.element.dispatchEvent(new CustomEvent("durable:answered", { bubbles: true, detail: { status } }));
        }

        take(response, text) {
            const isRefused = response.type === "opaqueredirect" || [401, 403, 404].includes(response.status);
            if (isRefused) {
                this.say("stopped");
            } else if (response.status === 200 || response.status === 304) {
                this.misses = 0;
                if (response.status === 200) {
                    this.etag = response.headers.get("ETag") || "";
                    replace(this.element, text);
                }
                this.say(response.headers.get("X-Durable-Done") === "1" ? "done" : "live");
            } else {
                this.miss();
            }
            return response.status;
        }

        miss() {
            this.misses += 1;
            this.say("stale");
        }
    }

    // --- replacing what differs ---------------------------------------------------------------

    function replace(element, text) {
        // A document would drop the blanks that it begins with, and nothing would stand where it stood.
        const fresh = document.createElement("template");
        fresh.innerHTML = text;
        const focused = element.contains(document.activeElement) ? document.activeElement : null;
        updateChildren(element, fresh.content);
        // A node that is moved loses the focus.
        if (focused && focused.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
    }

    function updateChildren(old, fresh) {
        const named = new Map();
        for (const child of old.children) if (child.id) named.set(child.id, child);
        let place = old.firstChild;
        for (const wanted of [...fresh.childNodes]) {
            const known = wanted.id ? named.get(wanted.id) : null;
            if (known && known.nodeName === wanted.nodeName) {
                if (known === place) place = place.nextSibling;
                else old.insertBefore(known, place);
                update(known, wanted);
            } else if (place && isAlike(place, wanted)) {
                const next = place.nextSibling;
                update(place, wanted);
                place = next;
            } else {
                old.insertBefore(document.importNode(wanted, true), place);
            }
        }
        while (place) {
            const next = place.nextSibling;
            place.remove();
            place = next;
        }
    }

    function isAlike(old, wanted) {
        return old.nodeType === wanted.nodeType && old.nodeName === wanted.nodeName && !old.id && !wanted.id;
    }

    function update(old, wanted) {
        if (old.nodeType !== Node.ELEMENT_NODE) {
            if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
            return;
        }
        // Whether it is open is up to who looks at it.
        const isTheirs = (name) => old.nodeName === "DETAILS" && name === "open";
        for (const { name } of [...old.attributes])
            if (!isTheirs(name) && !wanted.hasAttribute(name)) old.removeAttribute(name);
        for (const { name, value } of wanted.attributes)
            if (!isTheirs(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
        updateChildren(old, wanted);
    }

    // --- the page -----------------------------------------------------------------------------

    const parts = [];

    function tellOfStates() {
        const states = new Set(parts.map((part) => part.element.dataset.durableState));
        for (const note of document.querySelectorAll("[data-durable-when]"))
            note.hidden = !states.has(note.dataset.durableWhen);
    }

    function pause(button) {
        isPaused = !isPaused;
        for (const one of document.querySelectorAll("[data-durable-pause]"))
            one.setAttribute("aria-pressed", String(isPaused));
        for (const part of parts.filter((one) => !one.isOver)) {
            if (isPaused) part.rest();
            part.say(isPaused ? "paused" : "live");
            if (!isPaused) part.ask();
        }
        button.focus();
    }

    function start() {
        for (const element of document.querySelectorAll("[data-durable-refresh]")) parts.push(new Part(element));
        tellOfStates();
        for (const part of parts) part.later();
        for (const button of document.querySelectorAll("[data-durable-pause]")) {
            button.hidden = parts.length === 0;
            button.addEventListener("click", () => pause(button));
        }
        document.addEventListener("visibilitychange", () => {
            for (const part of parts) document.hidden ? part.rest() : part.ask();
        });
    }

    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
    else start();
})();
