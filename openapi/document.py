"""The OpenAPI document: drf-spectacular finds the routes, the tables beside say what they do."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django.urls import NoReverseMatch, reverse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema

from openapi import headers, hooks, operations, probes, response_shapes, responses, schemas

if TYPE_CHECKING:
    from drf_spectacular.plumbing import ComponentRegistry


class Described(AutoSchema):
    """The views parse by hand, so nothing is guessed from them: an operation stands in a table."""

    def get_operation(
        self,
        path: str,
        path_regex: str,
        path_prefix: str,
        method: str,
        registry: ComponentRegistry,
    ) -> dict[str, Any]:
        """The operation as it goes into the document. Raises KeyError for one without words."""
        return (operations.BY_VIEW | hooks.BY_VIEW | responses.BY_VIEW)[
            type(self.view).__name__, method
        ]


@cache
def document() -> dict[str, Any]:
    """The whole document, made once a process."""
    generator: Any = SchemaGenerator
    generated: dict[str, Any] = generator().get_schema(public=True)
    return generated


def complete(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """drf-spectacular's last step: add what its search for views does not find."""
    # A final slash is allowed everywhere and belongs to no path.
    paths = {path.rstrip("/"): path_item for path, path_item in result["paths"].items()}
    for name, path_item in probes.BY_ROUTE.items():
        try:
            paths[reverse(name)] = path_item
        except NoReverseMatch:
            continue
    result["paths"] = paths
    result["components"] = {
        "schemas": schemas.ALL | hooks.SCHEMAS | response_shapes.SCHEMAS,
        "headers": headers.COMPONENTS,
        "securitySchemes": operations.SECURITY_SCHEMES,
    }
    return result
