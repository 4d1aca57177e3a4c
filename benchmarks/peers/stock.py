"""The same job the stock way: DRF, the ORM, persistent connections, Celery threads, gunicorn.

The web process is `gunicorn benchmarks.peers.stock:application`, the worker
`celery -A benchmarks.peers.stock worker`.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qs, urlsplit

import django
from celery import Celery
from django.conf import settings

parts = urlsplit(os.environ["DATABASE_URL"])
settings.configure(
    SECRET_KEY="of a benchmark",  # noqa: S106  # signs nothing
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="benchmarks.peers.stock",
    USE_TZ=True,
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "rest_framework",
        "benchmarks.peers",
    ],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path.strip("/"),
            "USER": parts.username,
            "HOST": parse_qs(parts.query)["host"][0],
            "CONN_MAX_AGE": None,
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

import requests  # noqa: E402  # Django must be set up first
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.db.models import F  # noqa: E402
from django.urls import path  # noqa: E402
from rest_framework import serializers  # noqa: E402
from rest_framework.authentication import BaseAuthentication  # noqa: E402
from rest_framework.exceptions import AuthenticationFailed  # noqa: E402
from rest_framework.generics import get_object_or_404  # noqa: E402
from rest_framework.request import Request  # noqa: E402, TC002  # beside its like
from rest_framework.response import Response  # noqa: E402
from rest_framework.views import APIView  # noqa: E402

from benchmarks.peers.models import Budget, Job  # noqa: E402

SCHEME = "Bearer user-"

celery = Celery("stock", broker=os.environ["REDIS_URL"])
celery.conf.update(task_ignore_result=True, task_default_queue="stock")


class User:
    """Who asks."""

    is_authenticated = True

    def __init__(self, pk: int) -> None:
        self.pk = pk


class TokenAuthentication(BaseAuthentication):
    """No statement: what tokens cost is not compared."""

    def authenticate(self, request: Request) -> tuple[User, None]:
        """The user that the token names."""
        header = request.headers.get("Authorization", "")
        if not header.startswith(SCHEME):
            raise AuthenticationFailed
        return User(int(header.removeprefix(SCHEME))), None


class PromptSerializer(serializers.Serializer[Any]):
    """What is posted."""

    prompt = serializers.CharField(max_length=8000, trim_whitespace=False)


class JobSerializer(serializers.ModelSerializer[Job]):
    """What is read."""

    class Meta:
        model = Job
        fields = ("id", "status", "http_status", "result_text", "error_code", "created_at")


class Reports(APIView):
    """Submit."""

    authentication_classes = (TokenAuthentication,)

    def post(self, request: Request) -> Response:
        """Look, insert, reserve, publish."""
        given = PromptSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        prompt = given.validated_data["prompt"]
        key = request.headers["Idempotency-Key"]
        job = Job._default_manager.filter(user_id=request.user.pk, idempotency_key=key).first()
        if job is None:
            tokens = max(1, len(prompt) // 4)
            with transaction.atomic():
                job = Job._default_manager.create(
                    user_id=request.user.pk,
                    idempotency_key=key,
                    prompt=prompt,
                    token_estimate=tokens,
                )
                mine = Budget._default_manager.filter(user_id=request.user.pk)
                if not mine.filter(daily_tokens__gte=F("spent_tokens") + tokens).update(
                    spent_tokens=F("spent_tokens") + tokens
                ):
                    transaction.set_rollback(True)
                    return Response({"error": "budget_exhausted"}, status=429)
            run.delay(str(job.pk))
        return Response({"job_id": str(job.pk), "status": job.status}, status=202)


class Report(APIView):
    """Read."""

    authentication_classes = (TokenAuthentication,)

    def get(self, request: Request, job_id: str) -> Response:
        """The row."""
        job = get_object_or_404(Job, pk=job_id, user_id=request.user.pk)
        return Response(JobSerializer(job).data)


@celery.task(name="stock.run")
def run(job_id: str) -> None:
    """Claim, ask, finish."""
    if not Job._default_manager.filter(pk=job_id, status="queued").update(status="running"):
        return
    job = Job._default_manager.get(pk=job_id)
    answer = requests.post(
        os.environ["INFERENCE_URL"],
        json={"prompt": job.prompt},
        headers={"Idempotency-Key": job_id},
        timeout=45,
    )
    with transaction.atomic():
        job.status, job.http_status, job.result_text = "succeeded", 200, answer.json()["text"]
        job.save()
        Budget._default_manager.filter(user_id=job.user_id).update(
            spent_tokens=F("spent_tokens") + 1
        )


def make_tables() -> None:
    """Once, before anything else."""
    with connection.schema_editor() as editor:
        editor.create_model(Job)
        editor.create_model(Budget)


urlpatterns = [path("reports", Reports.as_view()), path("reports/<uuid:job_id>", Report.as_view())]
application = get_wsgi_application()

if __name__ == "__main__":
    make_tables()
