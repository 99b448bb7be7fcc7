"""What a scenario yields: figures of one repetition, and what each of them cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

FROM_RELEASE = "from_release"
"""Stands among what a repetition cost: its figure, had time run from when the workers were let go. Who polls waits for
its next look then, and who has much in flight for the first of it to come back."""


@dataclass(frozen=True)
class Sample:
    """One figure of one repetition, of so many ``operations``. ``cost`` as ``Meter`` gives it; ``noise`` in cores that
    others used just before."""

    figure: str
    value: float
    cost: dict[str, float]
    noise: float
    operations: int = 1

    def as_of(self, prefix: str) -> Sample:
        """The same under another name: ``S2_drain`` is ``S5_with_drain``."""
        return replace(self, figure=f"{prefix}_{self.figure.partition('_')[2]}")


Once = Callable[[], Iterator[Sample]]
"""Measures a scenario that was entered, one time more."""
