"""The Django project: configuration, routes and the processes of the Procfile."""

from reports_project.celery import app as celery_app

__all__ = ["celery_app"]
