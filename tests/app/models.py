from django.db import models


class Counter(models.Model):
    """What a step changed, counted: the tests ask afterwards how often it really happened."""

    name = models.CharField(max_length=200, unique=True)
    value = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
