/* When an expression fires, while somebody types it.

   <div data-durable-preview="URL">…</div> stands in a form with fields "expression" and "timezone", and shows what URL
   answers to these. Without this script a button of the form does the same. */

"use strict";

(() => {
    const PAUSE = 300;

    function start(element) {
        const form = element.closest("form"), fields = [form.elements.expression, form.elements.timezone];
        let timer = 0, asking = null, shown = texts();

        function texts() {
            return fields.map((field) => field.value).join("\n");
        }

        function later() {
            clearTimeout(timer);
            timer = setTimeout(ask, PAUSE);
        }

        async function ask() {
            if (asking) asking.abort();
            const wanted = texts();
            if (wanted === shown) return;
            const mine = asking = new AbortController();
            const query = new URLSearchParams(fields.map((field) => [field.name, field.value]));
            try {
                const response = await fetch(`${element.dataset.durablePreview}?${query}`, {
                    credentials: "same-origin",
                    // Where it leads to is the page to log in.
                    redirect: "manual",
                    signal: mine.signal,
                });
                if (!response.ok) return;
                const text = await response.text();
                if (mine.signal.aborted) return;
                element.innerHTML = text;
                shown = wanted;
            } catch {
                // The next letter asks again.
            }
        }

        for (const field of fields) field.addEventListener("input", later);
    }

    document.querySelectorAll("[data-durable-preview]").forEach(start);
})();
