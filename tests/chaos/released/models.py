from django.db import models


class Counter(models.Model):
    """The table is that of `tests.app`."""

    name = models.CharField(max_length=200, unique=True)
    value = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
