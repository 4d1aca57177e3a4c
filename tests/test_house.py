"""Rules about the code itself: one room writes a status, and nothing is left undocumented."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from reports import errors
from reports.errors import ErrorCode, Refusal
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGES = (
    "access",
    "budgets",
    "openapi",
    "operations",
    "reports",
    "reports_project",
    "responses",
    "streams",
    "telemetry",
    "webhooks",
)
PRODUCT = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "migrations" not in path.parts
)
# The birth of a job, every change of it, and the SQL that only the latter sends.
WRITE_A_STATUS = {
    "reports/acceptance.py",
    "reports/statements.py",
    "reports/transitions.py",
}
IN_SQL = re.compile(r"(?i)\bupdate\s+\"?reports_reportjob|\bset\s+status\s*=")
# There a status is HTTP's; it can import no model, as import-linter says.
OF_HTTP = "reports/provider/"
WRITING_CALLS = {"ReportJob", "create", "update", "bulk_create", "update_or_create", "ending"}
WRITING_CALLS |= {"get_or_create", "bulk_update", "aupdate", "acreate"}
READS_VARIABLES = "reports_project/env.py"


def name_of(path: Path) -> str:
    """Relative to the project."""
    return path.relative_to(ROOT).as_posix()


def called(node: ast.Call) -> str:
    """The last word of what is called."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def status_writes(tree: ast.AST) -> Iterator[int]:
    """Lines that assign a status, give one to a call that writes rows, or put one into SQL."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "status":
            if isinstance(node.ctx, ast.Store | ast.Del):
                yield node.lineno
        elif isinstance(node, ast.Call):
            words = {keyword.arg for keyword in node.keywords}
            if called(node) in WRITING_CALLS and "status" in words:
                yield node.lineno
            if called(node) == "save" and "'status'" in ast.unparse(node):
                yield node.lineno
        elif isinstance(node, ast.Constant) and IN_SQL.search(str(node.value)):
            yield node.lineno


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_a_status_is_written_in_one_room(path: Path):
    lines = list(status_writes(ast.parse(path.read_text())))

    if name_of(path) not in WRITE_A_STATUS and not name_of(path).startswith(OF_HTTP):
        assert lines == []


@pytest.mark.parametrize(
    "source",
    [
        "job.status = 'failed'",
        "job.status, other = 'failed', 1",
        "ReportJob.objects.filter(pk=1).update(status='failed')",
        "ReportJob(status='failed')",
        "ending(rows, status='failed')",
        "job.save(update_fields=['status'])",
        "cursor.execute('UPDATE reports_reportjob SET x = 1')",
        "cursor.execute(f'... SET status = {word}')",
    ],
)
def test_the_search_for_status_writes_finds_them(source: str):
    assert list(status_writes(ast.parse(source))) == [1]


def test_the_rooms_that_write_a_status_do():
    for name in WRITE_A_STATUS:
        assert list(status_writes(ast.parse((ROOT / name).read_text())))


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_the_product_imports_no_test_and_no_tool(path: Path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")

    roots = {name.split(".")[0] for name in imported}
    assert roots & {"tests", "tools", "conftest", "pytest", "unittest", "benchmarks"} == set()


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_the_environment_is_read_in_one_room(path: Path):
    read = set(re.findall(r"\bos\.(?:environ|getenv)[^,]*", path.read_text()))

    # Every process names its settings; nothing else is looked up.
    assert name_of(path) == READS_VARIABLES or read <= {
        'os.environ.setdefault("DJANGO_SETTINGS_MODULE"'
    }


def variables() -> list[str]:
    """Every variable that settings.py reads."""
    tree = ast.parse((ROOT / "reports_project" / "settings.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    readers = [
        node
        for node in calls
        if isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
        and node.func.attr not in {"load_dotenv", "BadVariable"}
    ]
    return sorted({str(ast.literal_eval(node.args[0])) for node in readers})


def test_the_search_for_variables_finds_them():
    assert {"SECRET_KEY", "DATABASE_URL", "INFERENCE_TIMEOUT_S", "PORT"} <= set(variables())
    assert len(variables()) >= 27


@pytest.mark.parametrize("name", variables())
def test_a_variable_is_in_the_table_of_the_readme(name: str):
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line[:1] == "|"]

    assert any(f"`{name}`" in row.split("|")[1] for row in rows)


@pytest.mark.parametrize("name", variables())
def test_a_variable_is_in_the_example(name: str):
    lines = (ROOT / ".env.example").read_text().splitlines()

    assert any(line.lstrip("# ").startswith(f"{name}=") for line in lines)


def codes() -> list[str]:
    """Every error code: of answers, and of jobs."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    refusals = {kind.code for kind in kinds if issubclass(kind, Refusal) and kind is not Refusal}
    return sorted(refusals | set(ErrorCode))


@pytest.mark.parametrize("code", codes())
def test_an_error_code_is_documented(code: str):
    assert f"`{code}`" in (ROOT / "docs" / "api.md").read_text()


@pytest.mark.parametrize("code", ErrorCode)
def test_an_error_code_of_a_job_has_a_line_of_meaning(code: ErrorCode):
    source = (ROOT / "reports" / "errors.py").read_text()

    assert re.search(rf'{code.name} = "{code.value}"  # \S.+', source)


def test_every_command_is_documented():
    files = [path for path in PRODUCT if path.parent.name == "commands"]
    commands = [path.stem for path in files if path.stem != "__init__"]

    readme = (ROOT / "README.md").read_text()
    assert commands
    assert [name for name in commands if f"manage.py {name}" not in readme] == []


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_a_file_of_the_product_stays_small(path: Path):
    source = path.read_text()
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]

    assert len(source.splitlines()) <= 300
    for function in functions:
        assert (function.end_lineno or 0) - function.lineno < 60, function.name
