from django.db import models


class Order(models.Model):
    status = models.CharField(max_length=20, default="new")
    charges = models.IntegerField(default=0)
    reminded_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.pk}: {self.status}"
