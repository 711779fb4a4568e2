"""The JSON models of the broker's own values, for the OpenAPI description.

A value that the broker hands out as a named tuple is described by its own fields, so that they are not listed
twice. Models of what is upstream's are written out, beside their routes.

    HoleModel = model_of(Hole)
    ProgressModel = model_of(Progress, hole=HoleModel | None)
"""

from __future__ import annotations

from typing import Any, get_type_hints

from pydantic import BaseModel, create_model


def model_of(value: type[tuple[Any, ...]], **inner: Any) -> type[BaseModel]:
    """A model with the fields of a named tuple; `inner` are the models of those that hold others."""
    hints = get_type_hints(value)
    fields: dict[str, Any] = {name: (inner.get(name, kind), ...) for name, kind in hints.items()}
    return create_model(f"{value.__name__}Model", __doc__=value.__doc__, **fields)
