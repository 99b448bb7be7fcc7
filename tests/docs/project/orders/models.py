from django.db import models


class Order(models.Model):
    email = models.EmailField(blank=True, default="")
    status = models.CharField(max_length=20, default="new")
    tracking = models.CharField(max_length=20, blank=True, default="")
    run_id = models.UUIDField(null=True)

    def __str__(self) -> str:
        return f"order {self.pk}"
