"""One rank's way through a program: where the program refuses what it was started with, by a check of its own."""

import ast
import re

from gpudoctor.lint.courses.calls import FollowedCalls
from gpudoctor.lint.courses.values import Names, Thing, is_known, truth
from gpudoctor.lint.python_text import walked

_ENDS = frozenset(("sys.exit", "os._exit", "exit", "quit", "os.abort"))
_WANTED = ("NotImplementedError", "StopIteration", "SystemExit", "KeyboardInterrupt")
"""Raised for another reason than a refusal: what a class leaves to others, an end that is meant."""


class RefusingCourse(FollowedCalls):
    """An assertion, a `raise`, an exit with a status or argparse's `error`, below conditions of which all is known."""

    def ends(self, call: ast.Call, frame: tuple[Names, ...]) -> bool:
        """Whether a call ends the process."""
        if ast.unparse(call.func) in _ENDS:
            status = call.args[0] if call.args else None
            if isinstance(status, ast.JoinedStr) or (isinstance(status, ast.Constant) and status.value):
                self._refuses(call, status, frame)
            return True
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "error":
            return False
        parser = self.value(call.func.value, frame)
        if not isinstance(parser, Thing) or parser.kind != "parser":
            return False
        self._refuses(call, call.args[0] if call.args else None, frame)
        return True

    def raises(self, node: ast.Raise, frame: tuple[Names, ...]) -> None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if node.exc is not None and raised is not None and ast.unparse(raised) not in _WANTED:
            self._refuses(node.exc, node.exc, frame)

    def _refuses(self, node: ast.expr, says: ast.expr | None, frame: tuple[Names, ...]) -> None:
        if self.choices and "__name__" not in ast.unparse(self.choices[-1]):
            self.fails(node, self.choices[-1], says, frame)

    def fails(self, node: ast.expr, test: ast.expr, says: ast.expr | None, frame: tuple[Names, ...]) -> None:
        if self.is_sure and not self.tries and not self.loops and self.ended.issuperset(self.conditions):
            names = {ast.unparse(each): each for each in walked(test) if isinstance(each, (ast.Name, ast.Attribute))}
            values = {name: self.value(each, frame) for name, each in names.items()}
            if any(isinstance(each, (list, dict)) and self._is_filled(name) for name, each in values.items()):
                return  # in a loop, whose turns are not all followed
            told = {name: value for name, value in values.items() if is_known(value) and value is not None}
            self.do("its own check", node, told, (test, truth(self.value(test, frame)), says))

    def _is_filled(self, name: str) -> bool:
        filled = (
            rf"\b{re.escape(name)}(?:\.(?:append|add|update|extend|insert|setdefault)\(|\[[^\]\n]*\]\s*[-+*|]?=[^=])"
        )
        return re.search(filled, self.code.text) is not None
