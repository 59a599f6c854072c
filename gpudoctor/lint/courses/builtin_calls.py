"""One rank's way through a program: what Python's own functions give."""

import ast

from gpudoctor.lint.courses.making_calls import MakingCalls
from gpudoctor.lint.courses.values import (
    Thing,
    Value,
    cast,
    gives_own,
    is_known,
    is_own,
    key_of,
    number,
    set_of,
    unknown,
)


def is_loader(value: Value) -> bool:
    return isinstance(value, Thing) and value.kind == "loader"


class BuiltinCalls(MakingCalls):
    def _builtin(self, name: str, node: ast.Call, given: list[Value]) -> Value:
        if name in ("int", "float", "str", "bool") and len(given) == 1:
            made = cast(name, given[0])
            return number(made) if name in ("int", "float") else made
        if name in ("iter", "reversed") and given and isinstance(given[0], Thing):
            return given[0]
        if name == "next" and given:
            return self._items_of(node, given[0])
        if name in ("enumerate", "zip") and any(gives_own(each) or is_loader(each) or is_own(each) for each in given):
            return Thing(
                "counted",
                key_of(unknown(node, *given)),
                {
                    "sharded": any(gives_own(each) or is_own(each) for each in given) or None,
                    "first": name == "enumerate",
                    "of": given,
                },
                node,
            )
        if name in ("isinstance", "hasattr", "getattr") and len(given) > 1 and isinstance(given[0], Thing):
            return self.asked_of_wrapper(name, node, given)
        if name == "len" and given and (isinstance(given[0], Thing) or self.is_marked(given[0], "divided")):
            length = number(unknown(node, "length"))
            return self.mark(length, "whole") if self.is_marked(given[0], "divided") else length
        if name == "set" and given and isinstance(given[0], (list, tuple)):
            return set_of(node, list(given[0]))
        if name == "open" and given:
            return self._opened(node, given, "")
        if (
            name in ("range", "len", "max", "min", "sum", "abs", "list", "tuple", "sorted")
            and is_known(given)
            and given
        ):
            try:
                made = {
                    "range": range,
                    "len": len,
                    "max": max,
                    "min": min,
                    "sum": sum,
                    "abs": abs,
                    "list": list,
                    "tuple": tuple,
                    "sorted": sorted,
                }[name](*given)  # type: ignore[operator]
            except (TypeError, ValueError, OverflowError):
                return unknown(node, *given)
            return made if name != "list" or len(made) <= 64 else unknown(node, *given)
        if name == "range" and len(given) == 3 and ast.unparse(node.args[1]).startswith("len("):
            return self.dealt(unknown(node, *given), given[0], given[2])
        if name in ("list", "tuple") and len(given) == 1 and isinstance(given[0], range) and len(given[0]) <= 64:
            return list(given[0])
        return NotImplemented
