"""issue_token: one token alone on its line, and only its hash kept."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from access.models import Token
from tests.support import processes
from tests.support.clients import Api


def issue(*words: str) -> str:
    """What the command prints."""
    out = StringIO()
    call_command("issue_token", *words, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_a_token_is_alone_on_its_line_and_works(ada: Api):
    printed = issue("ada")

    assert re.fullmatch(r"[0-9a-f]{64}\n", printed)
    assert Api(ada.user, printed.strip()).get("/budget").status_code == 200


@pytest.mark.django_db
def test_only_the_hash_of_a_token_is_stored(ada: Api):
    token = issue("ada").strip()

    assert Token.objects.filter(user=ada.user).count() == 2
    assert token not in str(list(Token.objects.values()))


@pytest.mark.django_db
def test_every_token_is_a_new_one_and_the_older_ones_stay(ada: Api):
    tokens = [ada.token, issue("ada").strip(), issue("ada").strip()]

    assert len(set(tokens)) == 3
    assert [Api(ada.user, token).get("/budget").status_code for token in tokens] == [200] * 3


@pytest.mark.django_db
def test_an_unknown_user_is_created_only_when_asked():
    token = issue("grace", "--create").strip()

    grace = get_user_model().objects.get(username="grace")
    assert not grace.has_usable_password()
    assert grace.is_active
    assert not grace.is_staff
    assert Api(grace, token).get("/budget").status_code == 200


@pytest.mark.django_db
def test_creating_a_known_user_changes_nothing_of_it(ada: Api):
    ada.user.set_password("a password that stays")
    ada.user.save()

    issue("ada", "--create")

    user = get_user_model().objects.get()
    assert user.pk == ada.user_id
    assert user.check_password("a password that stays")


@pytest.mark.django_db
def test_an_unknown_user_is_an_error():
    with pytest.raises(CommandError):
        issue("nobody")

    assert not get_user_model().objects.exists()
    assert not Token.objects.exists()


@pytest.mark.system
@pytest.mark.django_db(transaction=True)
def test_an_unknown_user_is_one_line_and_exit_1():
    done = subprocess.run(
        [sys.executable, "manage.py", "issue_token", "nobody"],
        check=False,
        cwd=processes.ROOT,
        env=processes.environment(),
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "CommandError: There is no user 'nobody'. Add --create to make one.\n"
