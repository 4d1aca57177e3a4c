"""Bearer tokens: what is kept of them, when they end, and when they were last used."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from access.models import NOTED_EVERY, Token
from tests.support.expect import assert_problem
from tests.support.statements import recorded
from tests.support.threads import together

if TYPE_CHECKING:
    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
LOOK = "SELECT access_token"
NOTE = "UPDATE access_token"


def used(ada: Api, ago: timedelta | None) -> None:
    """Her token was last used so long ago; None: never."""
    Token.objects.update(last_used_at=None if ago is None else timezone.now() - ago)


def test_of_a_token_a_hash_and_its_first_characters_are_kept(ada: Api):
    [stored] = Token.objects.values()

    assert stored["token_key"] == ada.token[:8]
    assert ada.token[:9] not in str(stored)
    assert len(stored["digest"]) == 128


def test_a_tokens_words_show_neither_it_nor_its_digest(ada: Api):
    token = Token.objects.get()

    assert str(token) == f"{ada.token[:8]}…"
    assert token.digest not in repr(token)


@pytest.mark.parametrize("ago", [None, NOTED_EVERY + timedelta(minutes=1), timedelta(days=400)])
def test_a_use_after_an_hour_is_noted_by_one_statement(ada: Api, ago: timedelta | None):
    used(ada, ago)

    with recorded() as statements:
        assert ada.get("/reports/none").status_code == 404
        assert ada.get("/reports/none").status_code == 404

    assert statements == [LOOK, NOTE, LOOK]
    noted = Token.objects.get().last_used_at
    assert noted is not None
    assert timezone.now() - noted < timedelta(minutes=1)


def test_a_use_within_the_hour_writes_nothing(ada: Api):
    used(ada, NOTED_EVERY - timedelta(minutes=1))

    with recorded() as statements:
        ada.get("/reports/none")

    assert statements == [LOOK]


@pytest.mark.parametrize("how", ["unknown", "ended", "inactive"])
def test_what_is_refused_is_no_use_and_deletes_nothing(ada: Api, how: str):
    used(ada, None)
    if how == "ended":
        Token.objects.update(expiry=timezone.now() - timedelta(seconds=1))
    if how == "inactive":
        ada.user.is_active = False
        ada.user.save()
    before = Token.objects.values().get()

    with recorded() as statements:
        response = ada.get("/budget", Authorization=f"Bearer {ada.token}{'x' * (how == 'unknown')}")

    assert assert_problem(response, 401, "not_authenticated") == {}
    assert statements == [LOOK]
    assert Token.objects.values().get() == before


def test_a_token_ends_when_it_was_told_to(ada: Api):
    row, token = Token.objects.create(ada.user, timedelta(days=30), name="laptop")

    assert (row.name, row.has_ended) == ("laptop", False)
    assert row.expiry is not None
    assert timedelta(days=29, hours=23) < row.expiry - timezone.now() <= timedelta(days=30)
    assert Token.objects.presented(token) == row


def test_each_of_a_users_tokens_is_good_and_revoking_one_leaves_the_others(ada: Api):
    second, token = Token.objects.create(ada.user)

    assert ada.get("/budget", Authorization=f"Bearer {token}").status_code == 200
    second.delete()

    assert ada.get("/budget", Authorization=f"Bearer {token}").status_code == 401
    assert ada.get("/budget").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_however_many_come_at_once_one_notes_the_use(ada: Api):
    used(ada, None)
    copies = [Token.objects.get() for _ in range(8)]

    noted = together(lambda token: token.note_use(), copies)

    assert sorted(map(str, noted)) == ["False"] * 7 + ["True"]
