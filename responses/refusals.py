"""What only OpenAI's clients can be refused for."""

from __future__ import annotations

from reports.errors import Refusal

LONGEST_NAMED = 64


class UnsupportedParameter(Refusal):
    """A parameter that asks for something that this service does not do."""

    status = 400
    code = "unsupported_parameter"
    detail = "This service does not know that parameter. Leave it out."

    def __init__(self, param: str, detail: str | None = None) -> None:
        if not param.isprintable() or len(param) > LONGEST_NAMED:
            super().__init__()
            return
        text = detail or f"This service does not do what {param} asks for. Leave it out."
        super().__init__(text, members={"param": param})


class ModelNotFound(Refusal):
    """Another model than the one that is served."""

    status = 404
    code = "model_not_found"
    detail = "There is one model here; GET /v1/models names it."

    def __init__(self, known: str) -> None:
        text = f"There is one model here, and its name is {known}. Send that, or no model."
        super().__init__(text, members={"param": "model"})
