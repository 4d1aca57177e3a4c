"""What a supervisor asks: is the process serving."""

from django.http import HttpRequest, JsonResponse


def healthz(_request: HttpRequest) -> JsonResponse:
    """200 while the process serves; it asks nobody else."""
    return JsonResponse({"status": "ok"})
