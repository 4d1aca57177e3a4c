"""What a data request asks for: everything that is kept of one user, or its end.

Every table that refers to a user is found by that reference, so that one added later is not missed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import ForeignObjectRel, ManyToManyRel, Q

from budgets import caps
from reports import retention, transitions
from reports.models import ReportJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import User
    from django.db.models import Model, QuerySet

CHUNK = 200
# Secrets and their hashes, and the names of other people.
NOT_TOLD = frozenset({"password", "digest", "token_key", "prompt_digest", "claim_id"})
NOT_TOLD |= {"seed", "old_seed"}
NOT_TOLD |= {"by_id", "by_name", "object_repr", "change_message"}
# A change of somebody else's allowance is about them.
OF_OTHERS = frozenset({"by"})


@dataclass(slots=True)
class Erased:
    """What an erasure did, in numbers of jobs and as a fact."""

    cancelled: int = 0
    erased: int = 0
    deleted: int = 0
    is_account_gone: bool = False


def export(user: User) -> Iterator[str]:
    """Everything that is kept of a user as pieces of one JSON document; a few rows at a time."""
    account = _columns(user) | {"groups": [group.name for group in user.groups.all()]}
    yield f'{{\n"account": {_json(account)}'
    for relation in _relations():
        rows = _rows(relation, user)
        yield f',\n"{relation.related_model._meta.label_lower}": ['
        for number, row in enumerate(rows.iterator(CHUNK)):
            yield ("\n" if number == 0 else ",\n") + _json(_columns(row))
        yield "]"
    yield "\n}\n"


def erase(user: User, *, delete: bool = False) -> Erased:
    """Cancel what is active and erase all texts; with `delete` end the rows and the account too.

    Call it again for the same effect. Nobody can sign in any more before rows are deleted.
    """
    done = Erased()
    jobs = ReportJob.objects.owned_by(user.pk)
    if delete:
        get_user_model().objects.filter(pk=user.pk).update(is_active=False)
    for job in jobs.filter(finished_at=None):
        done.cancelled += transitions.cancel(job, by="a data request")
    with_texts = jobs.terminal().filter(erased_at=None)
    while some := retention.erase_some(with_texts, most=retention.BATCH):
        done.erased += some
    if delete:
        while some := retention.delete_some(jobs, most=retention.BATCH):
            done.deleted += some
        caps.forget(user)
        LogEntry.objects.filter(_about(user)).update(object_repr=caps.FORGOTTEN)
        user.delete()
        done.is_account_gone = True
    return done


def _relations() -> list[ForeignObjectRel]:
    fields = get_user_model()._meta.get_fields(include_hidden=True)
    return [
        field
        for field in fields
        if isinstance(field, ForeignObjectRel)
        and not isinstance(field, ManyToManyRel)
        and field.field.name not in OF_OTHERS
    ]


def _rows(relation: ForeignObjectRel, user: User) -> QuerySet[Any]:
    model: Any = relation.related_model
    rows: QuerySet[Any] = model._base_manager.filter(**{relation.field.name: user})  # noqa: SLF001
    return rows.order_by("pk")


def _columns(row: Model) -> dict[str, Any]:
    names = [field.attname for field in row._meta.concrete_fields]
    return {name: getattr(row, name) for name in names if name not in NOT_TOLD}


def _json(value: object) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)


def _about(user: User) -> Q:
    """The entries of the admin's history that name this user."""
    return Q(content_type=ContentType.objects.get_for_model(user), object_id=str(user.pk))
