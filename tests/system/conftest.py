"""Real processes with short promises; what a module's tests may share is started once for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

from tests.support import processes as support
from tests.support.provider import Answer, Provider
from tests.system.parts import SHORT
from tools import valkey

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@pytest.fixture(scope="session")
def provider_for_all() -> Generator[Provider]:
    """One address that every process of the session can be started with."""
    with Provider() as provider:
        yield provider


@pytest.fixture
def stand_in(provider_for_all: Provider) -> Generator[Provider]:
    """The provider, with an empty call log; answers `hello` unless it is scripted otherwise."""
    provider_for_all.script(Answer())
    provider_for_all.release()
    yield provider_for_all
    provider_for_all.release()


@pytest.fixture(scope="module")
def shared(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory, provider_for_all: Provider
) -> Generator[support.Processes]:
    """Starts processes that serve all tests of a module."""
    environment = support.environment(**SHORT, INFERENCE_URL=provider_for_all.url)
    started = support.Processes(tmp_path_factory.mktemp("shared"), environment)
    yield started
    started.close()


@pytest.fixture
def crew(processes: support.Processes, stand_in: Provider) -> Generator[support.Processes]:
    """Starts processes for one test, which ends them hard: leaving well has tests of its own."""
    processes.environment.update(SHORT, INFERENCE_URL=stand_in.url)
    yield processes
    stand_in.release()
    for process in processes.started:
        if process.child.poll() is None:
            process.kill()


@pytest.fixture(scope="module")
def valkey_of_module(tmp_path_factory: pytest.TempPathFactory) -> Generator[valkey.Valkey]:
    """A broker that may be broken."""
    with valkey.running(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def own_broker(valkey_of_module: valkey.Valkey) -> Generator[valkey.Valkey]:
    """The module's own broker, whole and empty before and after the test."""
    yield valkey_of_module
    if valkey_of_module.child.poll() is not None:
        valkey_of_module.start()
    with redis.Redis.from_url(valkey_of_module.url) as client:
        client.config_set("maxmemory", 0)
        client.flushall()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Where the processes of this test write."""
    return tmp_path
