"""A reference to a model instance, for payloads: what is stored is which row, not what was in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db.models import Model

from ..core.payloads.tags import register_tag


@dataclass(frozen=True, slots=True)
class ModelRef:
    """``label`` is ``app_label.model``, ``pk`` a primary key that the codec can store.

    The row is read by ``get()``, each time anew: a replay that reads it sees it as it is then.
    """

    label: str
    pk: Any

    @classmethod
    def of(cls, instance: Model) -> ModelRef:
        """The reference to ``instance``. Raises ValueError for one that has no primary key yet."""
        if instance.pk is None:
            raise ValueError(f"{instance!r} has not been saved: there is no row to refer to.")
        return cls(instance._meta.label_lower, instance.pk)

    def get(self) -> Model:
        """The instance as it is now. Raises the model's DoesNotExist, LookupError for a model that is gone."""
        model: type[Model] = apps.get_model(self.label)
        return model._default_manager.get(pk=self.pk)

    async def aget(self) -> Model:
        """As ``get``."""
        model: type[Model] = apps.get_model(self.label)
        return await model._default_manager.aget(pk=self.pk)


def _from_data(data: Any) -> ModelRef:
    label, pk = data
    if not isinstance(label, str):
        raise TypeError(f"a model's label is a string, not {label!r}")
    return ModelRef(label, pk)


register_tag("model", ModelRef, lambda ref: [ref.label, ref.pk], _from_data)
