"""Who works in the admin."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client


@pytest.fixture
def operator(db: None) -> Client:
    """A superuser, signed in: whatever is refused here is refused to everybody."""
    return signed_in(get_user_model().objects.create_superuser("operator"))


@pytest.fixture
def watcher(db: None) -> Client:
    """Somebody of the staff who may look at jobs and do nothing else."""
    return staff("watcher", "view_reportjob")


def staff(name: str, *permissions: str) -> Client:
    """Somebody of the staff, signed in, with these permissions."""
    user = get_user_model().objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    assert user.user_permissions.count() == len(permissions)
    return signed_in(user)


def signed_in(user) -> Client:
    """A browser with that user's session."""
    client = Client(headers={"Accept": "text/html"})
    client.force_login(user)
    return client
