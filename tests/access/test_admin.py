"""Operators see and revoke tokens; neither a token nor its digest is shown anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axes.models import AccessAttempt
from django.test import Client

from access.models import Token

if TYPE_CHECKING:
    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
LIST = "/admin/access/token/"


@pytest.fixture
def operator(bob: Api) -> Client:
    """Bob, who may do everything."""
    bob.user.is_staff = bob.user.is_superuser = True
    bob.user.save()
    client = Client()
    client.force_login(bob.user)
    return client


def test_the_list_finds_by_user_and_shows_no_digest(operator: Client, ada: Api, bob: Api):
    page = operator.get(LIST, {"q": "ada"}).content.decode()

    assert ada.token[:8] in page
    assert bob.token[:8] not in page
    for token in Token.objects.all():
        assert token.digest not in page


def test_the_page_of_a_token_shows_no_digest_and_changes_nothing(operator: Client, ada: Api):
    token = Token.objects.get(user=ada.user)
    path = f"{LIST}{token.pk}/change/"

    page = operator.get(path).content.decode()
    refused = operator.post(path, {"name": "renamed", "user": token.user_id})

    assert token.digest not in page
    assert ada.token not in page
    assert refused.status_code == 403


def test_an_operator_revokes(operator: Client, ada: Api):
    token = Token.objects.get(user=ada.user)

    asked = operator.post(
        LIST, {"action": "delete_selected", "_selected_action": token.pk, "post": "yes"}
    )

    assert asked.status_code == 302
    assert ada.get("/budget").status_code == 401
    history = operator.get(f"/admin/auth/user/{ada.user_id}/history/")
    assert token.digest not in history.content.decode()


def test_nobody_makes_a_token_for_somebody_else(operator: Client):
    assert operator.get(f"{LIST}add/").status_code == 403


def test_an_operator_ends_a_lock(operator: Client):
    for number in range(5):
        Client().post("/login/", {"username": "ada", "password": f"wrong {number}"})
    attempt = AccessAttempt.objects.get()
    path = "/admin/axes/accessattempt/"

    listed = operator.get(path).content.decode()
    shown = operator.get(f"{path}{attempt.pk}/change/").content.decode()
    operator.post(
        path, {"action": "delete_selected", "_selected_action": attempt.pk, "post": "yes"}
    )

    assert "127.0.0.1" in listed
    assert "password" not in shown.partition('id="content"')[2]
    assert Client().post("/login/", {"username": "ada", "password": "no"}).status_code == 200


def test_knoxs_own_page_which_shows_digests_is_not_there(operator: Client):
    assert operator.get("/admin/knox/authtoken/").status_code == 404
