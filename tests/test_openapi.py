"""The OpenAPI document: valid, whole, and true to what the API answers."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from django.test import Client
from django.urls import get_resolver
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator

from openapi import schemas
from openapi.document import document
from reports import serializers
from reports.errors import ErrorCode, InvalidRequest, KeyInvalid, KeyMissing
from reports.problems import API_ROOTS
from tests.support.expect import assert_problem, body_of
from tests.support.rows import job_in
from tests.support.statements import recorded
from tests.test_house import codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clients import Api

DOCUMENT = "/schema"
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
VALUES = [
    *(
        "",
        " ",
        "\t",
        "a",
        " a ",
        "a b",
        "a" * 255,
        "a" * 256,
        f" {'a' * 255}\t",
        "é",
        "a\x7f",
        "\x01",
    ),
    *(
        '""',
        '" "',
        '"  "\t',
        '"',
        '"a',
        'a"',
        '"a"',
        '" a"',
        '"a" b',
        f'"{"a" * 255}"',
        f'"{"a" * 256}"',
    ),
    *(
        '"\\""',
        '"\\\\"',
        '"\\a"',
        f'"{chr(92) * 510}"',
        f'"{chr(92) * 512}"',
        '"a"b"',
        '" \\" "',
        '"""',
    ),
]
PROMPTS = [
    *(
        "",
        " ",
        "a",
        " a ",
        "\n",
        "\x1c\x1d\x1e\x1f",
        "\x85",
        "\u2028",
        "\ufeff",
        "\u200b",
        "\x00",
        "a\x00",
    ),
    *("a" * 8000, "a" * 8001, "\U0001f600" * 8000, "\U0001f600" * 8001, "\u3000", "\u180e", "a\n"),
]


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and operation."""
    for path, item in document()["paths"].items():
        for method in METHODS & item.keys():
            yield path, method, item[method]


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Every object in the document."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node:
        if isinstance(child, dict | list):
            yield from nodes(child)


def checker(schema: dict[str, Any]) -> Draft202012Validator:
    """For a schema that refers into the document."""
    return Draft202012Validator(schema | {"components": document()["components"]})


def test_the_document_is_valid_openapi_3_1():
    assert document()["openapi"].startswith("3.1.")
    validate_schema(document())


def test_every_reference_leads_somewhere_and_every_schema_is_one():
    components = document()["components"]
    used = {node["$ref"] for node in nodes(document()) if "$ref" in node}

    known = [f"#/components/{kind}/{name}" for kind in components for name in components[kind]]
    assert used == {name for name in known if "/securitySchemes/" not in name}
    for schema in components["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_every_route_of_the_api_is_in_it():
    routes = get_resolver().url_patterns
    patterns = [str(route.pattern) for route in routes]
    regular = [re.sub(r"^\^|/\?\\Z$", "", text) for text in patterns]
    named = [re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", text) for text in regular]
    api = {f"/{text}" for text in named if text.partition("/")[0] in API_ROOTS}

    assert set(document()["paths"]) == api
    assert "/reports/{job_id}/cancel" in api


def test_every_method_of_a_view_is_in_it():
    for path, item in document()["paths"].items():
        allowed = Client().options(path).headers.get("Allow", "GET, HEAD")
        told = {method.upper() for method in METHODS & item.keys()}
        assert told <= set(allowed.split(", ")), path
    assert len({operation["operationId"] for _, _, operation in operations()}) == len(
        list(operations())
    )


@pytest.mark.parametrize("code", codes())
def test_every_error_code_is_in_it(code: str):
    enums = [node["enum"] for node in nodes(document()["paths"]) if "enum" in node]
    of_jobs = document()["components"]["schemas"]["FailedJob"]["allOf"][1]["properties"]

    known = set().union(*enums) | set(of_jobs["error_code"]["enum"])
    assert code in known
    assert set(ErrorCode) == set(of_jobs["error_code"]["enum"])


def test_every_example_fits_its_schema():
    contents = [node for node in nodes(document()["paths"]) if "schema" in node]
    looked_at = 0
    for content in contents:
        values = [example["value"] for example in content.get("examples", {}).values()]
        values += [content["example"]] if "example" in content else []
        for value in values:
            checker(content["schema"]).validate(value)
            looked_at += 1

    assert looked_at > 60


@pytest.mark.django_db(transaction=True)
def test_the_example_of_a_submission_works(ada: Api):
    submit = document()["paths"]["/reports"]["post"]
    [key] = [parameter["example"] for parameter in submit["parameters"]]
    [(media_type, content)] = submit["requestBody"]["content"].items()
    body = json.dumps(content["example"]).encode()

    response = ada.post_raw(body, key=key, content_type=media_type)

    assert response.status_code == 202
    checker(schemas.ref("Accepted")).validate(body_of(response))


@pytest.mark.parametrize("value", VALUES)
def test_the_pattern_of_a_key_says_what_the_parser_does(value: str):
    try:
        is_good = bool(serializers.parse_key(value))
    except (KeyMissing, KeyInvalid):
        is_good = False

    assert Draft202012Validator({"pattern": schemas.KEY_PATTERN}).is_valid(value) is is_good


@pytest.mark.parametrize("value", PROMPTS)
def test_the_schema_of_a_prompt_says_what_the_parser_does(value: str):
    try:
        is_good = bool(serializers.validate_prompt(value))
    except InvalidRequest:
        is_good = False

    assert checker(schemas.ref("Prompt")).is_valid({"prompt": value}) is is_good


def test_every_character_that_is_blank_is_blank_in_the_document():
    pattern = re.compile(schemas.PROMPT["properties"]["prompt"]["pattern"])
    both_planes = map(chr, [*range(1, 0xD800), *range(0xE000, 0x11000)])

    assert [
        found for found in both_planes if bool(found.strip()) is not bool(pattern.match(found))
    ] == []


@pytest.mark.django_db
@pytest.mark.parametrize("status", ["queued", "running", "succeeded", "failed"])
def test_a_job_is_answered_as_the_document_says_and_with_nothing_else(ada: Api, status: str):
    job = job_in(status, user=ada.user)
    known = document()["components"]["schemas"]
    name = f"{status.title()}Job"

    found = body_of(ada.get(f"/reports/{job.pk}"))
    page = body_of(ada.get("/reports"))

    checker(schemas.ref("Job")).validate(found)
    checker(schemas.ref("JobPage")).validate(page)
    own = known["AnyJob"]["properties"] | known[name]["allOf"][1]["properties"]
    assert found.keys() <= own.keys()
    assert page["results"][0].keys() <= own.keys()


@pytest.mark.django_db
def test_a_budget_is_answered_as_the_document_says_and_with_nothing_else(ada: Api):
    found = body_of(ada.get("/budget"))

    checker(schemas.ref("Budget")).validate(found)
    assert found.keys() == document()["components"]["schemas"]["Budget"]["properties"].keys()


@pytest.mark.django_db
@pytest.mark.parametrize("path", [DOCUMENT, f"{DOCUMENT}/"])
@pytest.mark.parametrize(
    ("accept", "query", "media_type"),
    [
        ("*/*", "", "application/json"),
        ("", "", "application/json"),
        ("application/json", "", "application/json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "", "application/json"),
        ("image/png", "", "application/json"),
        ("application/vnd.oai.openapi+json", "", "application/vnd.oai.openapi+json"),
        ("application/yaml", "", "application/yaml"),
        ("application/json;q=0.5, application/yaml", "", "application/yaml"),
        ("*/*", "?format=yaml", "application/yaml"),
        ("application/yaml", "?format=json", "application/json"),
    ],
)
def test_the_document_is_json_unless_yaml_is_asked_for(
    path: str, accept: str, query: str, media_type: str
):
    with recorded() as statements:
        response = Client().get(path + query, headers={"Accept": accept})

    assert (response.status_code, response.headers["Content-Type"]) == (200, media_type)
    read = yaml.safe_load if media_type.endswith("yaml") else json.loads
    assert read(response.content) == json.loads(json.dumps(document()))
    assert response.headers["Cache-Control"] == "public, no-cache"
    assert response.headers["Vary"] == "Accept"
    assert statements == []


def test_the_document_is_sent_once_to_whoever_has_it():
    first = Client().get(DOCUMENT)

    again = Client().get(DOCUMENT, headers={"If-None-Match": first.headers["ETag"]})
    other = Client().get(
        f"{DOCUMENT}?format=yaml", headers={"If-None-Match": first.headers["ETag"]}
    )

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert other.status_code == 200


@pytest.mark.parametrize("query", ["?format=", "?format=xml", "?format=%00"])
def test_another_format_is_refused(query: str):
    response = Client().get(DOCUMENT + query)

    assert list(assert_problem(response, 400, "invalid_request")["errors"]) == ["format"]


@pytest.mark.parametrize("path", [DOCUMENT, "/docs"])
def test_the_document_and_its_page_are_for_reading(path: str):
    response = Client().post(path)

    assert response.status_code == 405
    assert response.headers["Allow"] == "GET, HEAD"


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/docs", "/docs/"])
def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline(path: str):
    response = Client().get(path)
    page = response.content.decode()

    assert response.status_code == 200
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert [source for source in sources if source.startswith("/static/docs.js?v=")]
    assert all(source.startswith("/") and not source.startswith("//") for source in sources)
    assert "unsafe" not in response.headers["Content-Security-Policy"]
    assert re.findall(r"<script(?! src=)|<style|\son\w+=|\sstyle=", page) == []
    assert "csrftoken" not in response.cookies
