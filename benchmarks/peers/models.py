"""The stock sketch's two tables."""

import uuid

from django.db import models


class Job(models.Model):
    """One completion."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user_id = models.BigIntegerField()
    idempotency_key = models.CharField(max_length=255)
    prompt = models.TextField()
    status = models.CharField(max_length=16, default="queued", db_index=True)
    http_status = models.IntegerField(null=True)
    result_text = models.TextField(default="")
    error_code = models.CharField(max_length=32, default="")
    token_estimate = models.IntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = "peers"
        db_table = "stock_jobs"
        unique_together = (("user_id", "idempotency_key"),)

    def __str__(self) -> str:
        return str(self.pk)


class Budget(models.Model):
    """One user's day."""

    user_id = models.BigIntegerField(primary_key=True)
    daily_tokens = models.BigIntegerField()
    spent_tokens = models.BigIntegerField(default=0)
    day_utc = models.DateField(auto_now_add=True)

    class Meta:
        app_label = "peers"
        db_table = "stock_budgets"

    def __str__(self) -> str:
        return str(self.pk)
