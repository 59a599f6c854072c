"""JSON, with everything that the other formats say in comments."""

from typing import Any

import msgspec

from gpudoctor.knowledge.suggest.advice import Advice


def as_json(advice: Advice) -> str:
    """The advice as JSON. Bytes of the environment that are no UTF-8 are spelled out."""
    return msgspec.json.format(msgspec.json.encode(advice), indent=2).decode() + "\n"


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the answer."""
    return msgspec.json.schema(Advice)
