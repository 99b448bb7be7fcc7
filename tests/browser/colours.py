"""Colours as a browser shows them, in its own language: what the scripts of seeing.py and shapes.py begin with."""

from __future__ import annotations

READING = """
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const known = new Map();
    const read = (colour) => {
        if (!known.has(colour)) known.set(colour, drawn(colour));
        return [...known.get(colour)];
    };
    const drawn = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], under) => [r, g, b].map((part, i) => part * a + under[i] * (1 - a));
    const luminance = (colour) => {
        const [r, g, b] = colour.map((part) => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (one, other) => {
        const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
        return (light + 0.05) / (dark + 0.05);
    };
    const grounds = new Map();
    const behind = (element) => {
        if (!element) return read("Canvas").slice(0, 3);
        if (!grounds.has(element)) {
            const layer = read(getComputedStyle(element).backgroundColor);
            grounds.set(element, over(layer, behind(element.parentElement)));
        }
        return grounds.get(element);
    };
    const inked = (colour, element, ground) => {
        const ink = read(colour);
        for (let at = element; at; at = at.parentElement) ink[3] *= getComputedStyle(at).opacity;
        return over(ink, ground);
    };
    const isSeen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    const nameOf = (element) => {
        const name = `${element.tagName.toLowerCase()}.${[...element.classList].join(".")}`;
        const around = element.parentElement.className;
        return `${name} in .${around?.baseVal ?? around}`;
    };
    const found = new Map();
    const note = (key, contrast) => {
        if (!found.has(key) || contrast < found.get(key)) found.set(key, contrast);
    };
"""
"""To be put at the beginning of a function, which adds to ``found``: the least contrast of all that have one name."""
