from __future__ import annotations

from django_durable.core.journal.annotations import merged, read_notes


def test_annotations_are_bounded_and_survive_what_cannot_be_read() -> None:
    stored = merged(None, {f"n{n}": str(n) for n in range(150)})
    stored = merged(stored, {"n60": '{"$":"gone","v":1}', "$": '"a mark"'})
    assert list(read_notes(stored)) == [f"n{n}" for n in range(51, 150) if n != 60] + ["n60", "$"]
    assert read_notes(stored)["n60"] == '{"$":"gone","v":1}'
    assert merged("damaged", {"a": "1"}) == '[["a",1]]'
