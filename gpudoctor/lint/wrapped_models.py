"""Where a program's models stand when DataParallel takes them, followed through its straight lines.

torch/nn/parallel/data_parallel.py of 2.13: forward wants every parameter on the first of device_ids, and gathers what
comes out on output_device, by default the same; of a single device __init__ moves the model itself. Inputs may be
anywhere: they are scattered.
"""

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, own_nodes
from gpudoctor.lint.python_values import PythonValues

CPU = "cpu"
NUMBERED = lazy_re(r"cuda:([0-9]{1,2})")
OFTEN_TAKEN = lazy_re(r"__name__|is_available\(\)|device_count\(\)|\blen\(")
"""Of conditions: whoever has several GPUs comes by."""
LOSSES = lazy_re(r"torch\.nn\.functional\.(?:\w+_loss|cross_entropy|binary_cross_entropy\w*|kl_div)")
LOSS_CLASSES = lazy_re(r"torch\.nn\.(?:modules\.loss\.)?\w+Loss")
MAKES_DEVICES = lazy_re(r"cuda|device|\bto\(")
DEEPEST = 40


class PlacedModel(Struct):
    """A model or tensor; names that mean the same share it."""

    device: str = ""
    """ "cuda:3", "cpu"; empty where nobody knows."""
    moved: ast.expr | None = None
    """What moved it there last."""
    wrapped: ast.Call | None = None
    """The call of DataParallel around it."""
    is_conditional: bool = False
    """It is wrapped below a condition."""
    devices: tuple[str, ...] = ()
    """Of that call; of all GPUs the first."""
    takes_all: bool = False
    """device_ids is not given."""
    output: str = ""
    """Where DataParallel puts what comes out."""
    is_told: bool = False
    is_loss: bool = False


class MisplacedModel(Struct, frozen=True):
    """A model that DataParallel will refuse."""

    wrapped: ast.Call
    moved: ast.expr | None
    device: str
    first: str
    takes_all: bool
    is_conditional: bool


class LossApart(Struct, frozen=True):
    """A loss of two tensors on two devices."""

    call: ast.Call
    value: ast.expr
    """What stands on the other device."""
    device: str
    output: str


Fault = MisplacedModel | LossApart


def faults(start: PythonValues) -> Iterator[Fault]:
    """Of a program in one of its starts, once each."""
    if "DataParallel" not in start.code.text:
        return
    functions = [node for node in start.code.nodes if isinstance(node, FUNCTIONS)]
    for scope in (start.code.tree, *functions):
        if any(isinstance(node, ast.Call) and _is_wrapper(start.code, node) for node in own_nodes(scope)):
            yield from _Follower(start, scope).faults()


def _is_wrapper(code: PythonCode, call: ast.Call) -> bool:
    name = code.name(call.func)
    return name.startswith("torch.nn.") and name.rpartition(".")[2] == "DataParallel"


class _Follower:
    """One function's or module's statements, in their order."""

    def __init__(self, start: PythonValues, scope: ast.AST) -> None:
        self.start, self.code, self.scope = start, start.code, scope
        self.places: dict[str, PlacedModel] = {}
        self.conditions = 0
        self.found: list[Fault] = []
        self.current = self._current_device()

    def faults(self) -> list[Fault]:
        self._body(getattr(self.scope, "body", []))
        for placed in {id(each): each for each in self.places.values()}.values():
            self._look(placed)
        return self.found

    def _current_device(self) -> str:
        """What "cuda" without a number means: cuda:0 until set_device says otherwise."""
        if re.search(r"torch\.cuda\.device\(|set_default_device|with torch\.device", self.code.text):
            return ""
        chosen = [call for call in self.code.calls if self.code.name(call.func) == "torch.cuda.set_device"]
        if not chosen:
            return "" if "set_device" in self.code.text else "cuda:0"
        told = {self._device(argument(call, "device", 0)) for call in chosen}
        return told.pop() if len(told) == 1 and not any(map(self.code.is_conditional, chosen)) else ""

    def _body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return
        if isinstance(statement, ast.If):
            self._branches(statement)
        elif isinstance(statement, (ast.For, ast.While, ast.With, ast.AsyncWith, ast.AsyncFor, ast.Try)):
            for child in ast.iter_child_nodes(statement):
                if isinstance(child, ast.stmt):
                    self._statement(child)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            made = self._placed(statement.value) if statement.value is not None else None
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                name = _named(target)
                if name and made is not None:
                    self.places[name] = made
                elif name:
                    self.places.pop(name, None)
        elif isinstance(statement, (ast.Expr, ast.Return, ast.AugAssign)) and statement.value is not None:
            self._placed(statement.value)

    def _branches(self, statement: ast.If) -> None:
        """A branch that whoever has several GPUs takes is followed; of others both, and what they leave apart is not
        known."""
        if OFTEN_TAKEN.search(ast.unparse(statement.test)):
            self._body(statement.body)
            return
        before = {id(each): (each, each.device) for each in self.places.values()}
        self.conditions += 1
        self._body(statement.body)
        self._body(statement.orelse)
        self.conditions -= 1
        for placed, device in before.values():
            if placed.device != device:
                placed.device = ""

    def _placed(self, node: ast.expr, depth: int = 0) -> PlacedModel | None:
        """What an expression is, with all that its calls move."""
        name = _named(node)
        if name:
            return self.places.get(name)
        if not isinstance(node, ast.Call) or depth > DEEPEST:
            if not isinstance(node, ast.Lambda) and depth <= DEEPEST:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._placed(child, depth + 1)
            return None
        if _is_wrapper(self.code, node):
            return self._wrapped(node, depth)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        whole = self.code.name(node.func)
        if method in ("cuda", "to", "cpu") and isinstance(node.func, ast.Attribute) and not whole.startswith("torch."):
            return self._moved(node, node.func.value, method, depth)
        given = [self._placed(each, depth + 1) for each in node.args]
        called = self.places.get(_named(node.func))
        if called is not None and called.wrapped is not None:
            self._look(called)
            return PlacedModel(called.output)
        if LOSSES.fullmatch(whole) or (called is not None and called.is_loss):
            self._compare(node, given)
        if LOSS_CLASSES.fullmatch(whole):
            return PlacedModel(is_loss=True)
        return PlacedModel(self._made_on(node))

    def _moved(self, node: ast.Call, what: ast.expr, method: str, depth: int) -> PlacedModel | None:
        device = CPU if method == "cpu" else self._target(node, method)
        placed = self._placed(what, depth + 1)
        if device is None:  # .to(torch.float16)
            return placed
        if placed is None:
            placed = PlacedModel()
            if name := _named(what):
                self.places[name] = placed
        if self.conditions and placed.device != device:
            device = ""
        placed.device, placed.moved = ("" if device == CPU else device), node
        return placed

    def _target(self, node: ast.Call, method: str) -> str | None:
        """The device of .to(...) and .cuda(...); empty where nobody knows, None where it names none."""
        told = argument(node, "device", 0)
        if told is None:
            return self.current if method == "cuda" else None
        device = self._device(told)
        is_type = method == "to" and re.search(r"float|half|double|int|bool|memory_format", ast.unparse(told))
        return None if not device and is_type else device

    def _device(self, node: ast.expr | None) -> str:
        """ "cuda:1" of 1, "cuda:1", torch.device("cuda", 1) and names of such."""
        for _ in range(DEEPEST):
            if isinstance(node, ast.Name) and (bound := self.start.behind(node)) is not None:
                node = bound
            elif isinstance(node, ast.IfExp) and OFTEN_TAKEN.search(ast.unparse(node.test)):
                node = node.body
            else:
                break
        if isinstance(node, ast.Call) and self.code.name(node.func) == "torch.device":
            index = argument(node, "index", 1)
            if index is not None:
                return self._numbered(self.start.value(index))
            return self._device(argument(node, "type", 0))
        return self._numbered(self.start.value(node))

    def _numbered(self, value: object) -> str:
        if type(value) is int:
            return f"cuda:{value}" if 0 <= value < 64 else ""
        if value == "cuda":
            return self.current if hasattr(self, "current") else ""
        return value if isinstance(value, str) and NUMBERED.fullmatch(value) else ""

    def _wrapped(self, call: ast.Call, depth: int) -> PlacedModel:
        inner = argument(call, "module", 0)
        placed = (self._placed(inner, depth + 1) if inner is not None else None) or PlacedModel()
        told = argument(call, "device_ids", 1)
        takes_all = told is None or (isinstance(told, ast.Constant) and told.value is None)
        value = self.start.value(told)
        listed = [self._numbered(each) for each in value] if isinstance(value, list) else []
        if "" in listed:
            listed = []
        output = self._device(argument(call, "output_device", 2))
        placed.wrapped, placed.devices, placed.takes_all = call, tuple(listed), takes_all
        placed.is_conditional = self.conditions > 0
        placed.output = output or ("cuda:0" if takes_all else listed[0] if listed else "")
        if len(listed) == 1:
            placed.device = listed[0]
        return placed

    def _made_on(self, call: ast.Call) -> str:
        """A model that is made without any word of a device is on the CPU."""
        whole = self.code.name(call.func)
        if MAKES_DEVICES.search(self.code.words(call)) or "set_default" in self.code.text:
            return ""
        own = next((node for node in self.code.nodes if isinstance(node, ast.ClassDef)
                    and isinstance(call.func, ast.Name) and node.name == call.func.id), None)  # fmt: skip
        stays = own is not None and not MAKES_DEVICES.search(self.code.text_of(own))
        return CPU if whole.startswith("torch.nn.") or stays else ""

    def _look(self, placed: PlacedModel) -> None:
        if placed.wrapped is None or placed.is_told or not placed.device:
            return
        first = "cuda:0" if placed.takes_all else placed.devices[0] if len(placed.devices) > 1 else ""
        if not first or placed.device == first or (placed.takes_all and placed.device == CPU):
            return
        placed.is_told = True
        self.found.append(
            MisplacedModel(placed.wrapped, placed.moved, placed.device, first, placed.takes_all, placed.is_conditional)
        )

    def _compare(self, call: ast.Call, given: list[PlacedModel | None]) -> None:
        """A loss of what a wrapped model gave and of something that is certainly elsewhere."""
        known = [each.device if each is not None and NUMBERED.fullmatch(each.device) else "" for each in given[:2]]
        if len(known) == 2 and all(known) and known[0] != known[1]:
            self.found.append(LossApart(call, call.args[1], known[1], known[0]))


def _named(node: ast.expr) -> str:
    """ "model", "self.net"."""
    if isinstance(node, ast.Name):
        return node.id
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return f"self.{node.attr}" if own and isinstance(node, ast.Attribute) else ""
