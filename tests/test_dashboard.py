"""The dashboard and the alert rules name numbers that exist, and count no process twice."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from reports.errors import ErrorCode
from reports_project import scrape
from telemetry import meters
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = re.compile(r"\breports_[a-z_]+")
ONCE = re.compile(r"max without \(instance, pod\) \(\s*(?:rate|increase)\(")
GROWING = re.compile(r"\b(?:rate|increase)\(")


def alerts() -> list[dict[str, Any]]:
    """Every rule."""
    document = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Every panel that shows something."""
    document = json.loads((ROOT / "deploy" / "grafana" / "reports.json").read_text())
    return [panel for panel in document["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[str]:
    """Everything that is asked of Prometheus."""
    yield from (str(rule["expr"]) for rule in alerts())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


@pytest.fixture
def told(db: None) -> set[str]:
    """The name of every number that /metrics tells once everything has happened."""
    meters.requests.labels("budget", "GET", "2xx")
    meters.postponed.labels("provider_unreachable")
    meters.tokens.labels("prompt")
    scrape.forget()
    text = Client().get("/metrics").content.decode()
    families = text_string_to_metric_families(text)
    return {sample.name for family in families for sample in family.samples}


def test_every_number_that_is_asked_for_is_told(told: set[str]):
    asked = {name for expression in expressions() for name in NAME.findall(expression)}

    assert asked
    assert asked - told == set()


def test_every_number_that_is_told_is_on_the_dashboard(told: set[str]):
    shown = {
        name
        for panel in panels()
        for target in panel["targets"]
        for name in NAME.findall(target["expr"])
    }

    stems = {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in told} - stems == set()


@pytest.mark.parametrize("expression", list(expressions()))
def test_what_several_processes_tell_is_not_added_up(expression: str):
    growing = len(GROWING.findall(expression))

    assert (
        len(re.findall(r"max without \(instance, pod\) \(\s*(?:rate|increase)\(", expression))
        == growing
    )
    assert growing or re.match(r"(absent|(max|min)\b)", expression)


def test_codes_that_are_asked_for_exist():
    asked = {code for text in expressions() for code in re.findall(r'code="(\w+)"', text)}

    assert asked
    assert asked <= {code.value for code in ErrorCode}


def test_every_alert_says_how_bad_it_is_and_what_it_means():
    for rule in alerts():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"]["summary"].endswith((".", "?"))
