"""Threads of a worker do not wait long for the interpreter."""

import sys

import pytest
from celery.signals import worker_init

import reports_project.celery  # noqa: F401  # connects its signals
from reports_project import turns


@pytest.fixture
def switch_interval():
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_a_worker_that_starts_takes_short_turns(switch_interval: None):
    worker_init.send(sender=None)

    assert sys.getswitchinterval() == pytest.approx(turns.TURN_S)
