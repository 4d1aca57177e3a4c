"""Where things are in the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import html

if TYPE_CHECKING:
    from reports.models import ReportJob
    from tests.support.expect import Answer

FRONT = "/admin/"
USAGE = "/admin/usage/"
JOBS = "/admin/reports/reportjob/"
BUDGETS = "/admin/budgets/inferencebudget/"
ALLOWANCES = "/admin/budgets/groupallowance/"
CHANGES = "/admin/budgets/capchange/"


def page_of(job: ReportJob) -> str:
    """One job's page."""
    return f"{JOBS}{job.pk}/change/"


def listed(response: Answer) -> list[str]:
    """The ids of the jobs in a list, from the top."""
    assert response.status_code == 200
    links = [path for path in html.read(response).links(JOBS) if "/change/" in path]
    return [path.split("/")[4] for path in links]
