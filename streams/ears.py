"""Listens for hints on one connection to the broker, whatever number of jobs is watched.

A broker that is away costs nothing but time: the hub looks at the rows by itself.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from redis import RedisError, asyncio as redis

from reports import hints

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from redis.asyncio.client import PubSub

CONNECT_S = 1.0
# A connection that says nothing for so long is asked whether it still lives.
SILENCE_S = 10.0
PAUSE_S = 1.0
# Its subscription keeps the connection open while no job is watched.
IDLE = "reports.jobs"

logger = logging.getLogger(__name__)


class Ears:
    """The one subscriber of this process."""

    def __init__(self, heard: Callable[[UUID, str], None]) -> None:
        self._heard = heard
        self._wanted: Callable[[], Collection[UUID]] = tuple
        self._broker: redis.Redis | None = None
        self._changed = asyncio.Event()
        self._is_deaf = False
        self._is_over = False

    async def texts(self, job_ids: Collection[UUID]) -> dict[UUID, str]:
        """What there is of these texts; nothing while the broker is away."""
        ids = list(job_ids)
        if self._broker is None or not ids:
            return {}
        try:
            found: list[Any] = await self._broker.mget(map(hints.text_key, ids))
        except (RedisError, OSError):
            return {}
        return {job_id: text.decode() for job_id, text in zip(ids, found, strict=True) if text}

    def follow(self, wanted: Callable[[], Collection[UUID]]) -> None:
        """Ask this, from now on, which jobs to listen for."""
        self._wanted = wanted

    def stop(self) -> None:
        """Listen no more. A cancellation alone may be taken for a lost connection."""
        self._is_over = True

    def look_again(self) -> None:
        """What is wanted has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Listen until it is told to stop, over a new connection whenever one ends."""
        while not self._is_over:
            try:
                await self._listen()
            except* (RedisError, OSError) as errors:
                self._say(type(errors.exceptions[0]).__name__)
            await asyncio.sleep(PAUSE_S)

    async def _listen(self) -> None:
        async with (
            redis.Redis.from_url(
                settings.CELERY_BROKER_URL,
                socket_connect_timeout=CONNECT_S,
                health_check_interval=SILENCE_S,
            ) as broker,
            broker.pubsub() as listener,
        ):
            self._broker = broker
            await listener.subscribe(IDLE)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_up(listener))
                tasks.create_task(self._hear(listener))

    async def _keep_up(self, listener: PubSub) -> None:
        followed: set[UUID] = set()
        while True:
            wanted = set(self._wanted())
            if new := wanted - followed:
                await listener.subscribe(*map(hints.channel, new))
            if old := followed - wanted:
                await listener.unsubscribe(*map(hints.channel, old))
            followed = wanted
            await self._changed.wait()
            self._changed.clear()

    async def _hear(self, listener: PubSub) -> None:
        while True:
            message = await listener.get_message(timeout=SILENCE_S)
            self._say("")
            if message is None:
                continue
            name = message["channel"].decode()
            if name.startswith(hints.CHANNEL):
                # What happened before we listened is seen by looking once more.
                is_hint = message["type"] == "message"
                word = message["data"].decode() if is_hint else hints.CHANGED
                with suppress(ValueError):
                    self._heard(UUID(name.removeprefix(hints.CHANNEL)), word)

    def _say(self, problem: str) -> None:
        if bool(problem) is not self._is_deaf:
            self._is_deaf = bool(problem)
            if problem:
                logger.warning("no hints are heard (%s); rows are looked at all the same", problem)
