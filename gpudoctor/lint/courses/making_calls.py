"""One rank's way through a program: what opens files, wraps models and starts processes."""

import ast

from gpudoctor.lint.courses.library_calls import LibraryCalls
from gpudoctor.lint.courses.values import (
    ClassOf,
    FollowedFunction,
    Names,
    OpenValue,
    Thing,
    Value,
    device_number,
    is_own,
    key_of,
    unknown,
)
from gpudoctor.lint.python_text import walked

CHECKPOINT = "torch.utils.checkpoint.checkpoint"
WRAPPERS = {"DistributedDataParallel": "ddp", "FullyShardedDataParallel": "fsdp"}

ON_FIRST = frozenset(
    ("is_main_process", "is_main", "is_master", "is_master_process", "is_rank_zero", "is_rank0", "is_primary")
)
"""Usual names of what holds on rank 0."""


def is_list(value: Value) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0


class MakingCalls(LibraryCalls):
    def _opened(self, node: ast.Call, given: list[Value], named_mode: Value) -> Value:
        mode = given[1] if len(given) > 1 else named_mode or "r"
        if isinstance(mode, str):
            self.do("read" if mode.startswith("r") else "written", node, given[0])
        return unknown(node, *given)

    def _wrapped(self, kind: str, node: ast.Call, given: list[Value], named: Names) -> Value:
        self.wraps = True
        self.meet(ast.unparse(node.func).rpartition(".")[2], node)
        inner = given[0] if given else named.get("module")
        if isinstance(inner, OpenValue):
            inner = Thing("moved", inner.key, {"device": unknown("device", inner)})
        ids = named.get("device_ids", given[1] if len(given) > 1 else None)
        if kind == "ddp" and isinstance(inner, Thing) and isinstance(ids, (list, tuple)) and len(ids) == 1:
            self.do("wrap", node, device_number(ids[0]), inner.fields.get("device"))
        on_cpu = kind == "ddp" and isinstance(inner, Thing) and inner.fields.get("device") == "cpu"
        if on_cpu and (is_list(ids) or self.backend == "nccl"):
            self.do("wrapped on the CPU", node, "device_ids is given" if is_list(ids) else "the backend is NCCL")
        if (
            kind == "ddp"
            and isinstance(ids, (list, tuple))
            and len(ids) > 1
            and not isinstance(node.args[1:2], ast.List)
        ):
            self.do(
                "refused",
                node,
                f"device_ids has {len(ids)} GPUs, and each process has one",
                "Write device_ids=[local_rank].",
            )
        if named.get("find_unused_parameters") is True and not named.get("static_graph"):
            for call in (each for each in self.code.calls if self.code.name(each.func) == CHECKPOINT):
                if not any(each.arg in ("use_reentrant", None) for each in call.keywords):
                    self.do(
                        "refused",
                        node,
                        f"find_unused_parameters=True beside checkpoint() of line {self.code.line_of(call)},"
                        " which is reentrant: DistributedDataParallel cannot see what it uses",
                        "Write checkpoint(..., use_reentrant=False), or static_graph=True in the place of"
                        " find_unused_parameters.",
                    )
                    break
        if kind == "ddp" and isinstance(inner, Thing) and inner.fields.get("frozen") is True:
            self.do(
                "refused",
                node,
                "no parameter of this model requires a gradient, and DistributedDataParallel refuses it",
                "Leave it unwrapped: what is not trained needs no DistributedDataParallel.",
            )
        self.do("wrapped", node, isinstance(inner, Thing) and inner.kind == "model" and is_own(inner))
        if isinstance(inner, Thing):
            self.put(inner.fields, " wrapped", True)
        name = ast.unparse(node.args[0]) if node.args else "the model"
        fields: Names = {"inner": inner, "name": name, "of torch": True if kind == "ddp" else None}
        return Thing(kind, key_of(unknown(node)), fields, node)

    def _spawns(self, node: ast.Call, given: list[Value], named: Names) -> Value:
        function = given[0] if given else named.get("fn")
        arguments = given[1] if len(given) > 1 else named.get("args", ())
        count = given[2] if len(given) > 2 else named.get("nprocs", 1)
        if isinstance(function, FollowedFunction) and (
            isinstance(function.node, ast.Lambda) or (len(function.outer) > 1 and function.own is None)
        ):
            self.do(
                "refused",
                node,
                "spawn is given a function that stands inside of another one",
                "Define it at the top of the module: spawned processes find it there by its name.",
            )
        if isinstance(function, FollowedFunction) and isinstance(arguments, (list, tuple)):
            if isinstance(count, OpenValue):
                count = 2
            if type(count) is int and 1 < count <= 64:
                for index in range(count):
                    self.spawned.append((function, (index, *arguments), node))
                if (given[3] if len(given) > 3 else named.get("join", True)) is True:
                    self.joined()
        return unknown(node)

    def joined(self) -> None:
        if self.until_joined is None and self.spawned:
            self.until_joined = len(self.spawned)

    def may_come_any_time(self, node: ast.Call, handler: FollowedFunction) -> None:
        """What a signal's handler sets is seen by each rank in a turn of its own."""
        own = OpenValue(unknown(node, "signal", self.seat.rank).key, True)
        for each in walked(handler.node):
            target = each.targets[0] if isinstance(each, ast.Assign) else None
            if isinstance(target, ast.Name) and target.id in self.module:
                self.put(self.module, target.id, own)
            if isinstance(target, ast.Attribute) and isinstance(handler.own, Thing):
                self.put(handler.own.fields, target.attr, own)

    def _process(self, node: ast.Call, named: Names) -> Value:
        function, arguments = named.get("target"), named.get("args", ())
        if isinstance(function, FollowedFunction) and isinstance(arguments, (list, tuple)):
            self.spawned.append((function, tuple(arguments), node))
        return Thing("process", key_of(unknown(node)), {}, node)

    def _place_of(self, name: str) -> Value:
        """What a function of another file gives that is called as everybody calls it; None of any other name."""
        seat = self.seat
        places = {"get_rank": seat.rank, "get_global_rank": seat.rank, "get_local_rank": seat.local}
        return places.get(name, seat.rank == 0 if name in ON_FIRST else None)

    def is_left_out(self, function: FollowedFunction) -> bool:
        """Lightning's rank_zero_only and accelerate's on_main_process do nothing on the other ranks."""
        marks = [ast.unparse(each) for each in getattr(function.node, "decorator_list", ())]
        return self.seat.rank != 0 and any(each.endswith(("rank_zero_only", ".on_main_process")) for each in marks)

    def has_own_seed(self, drawing: str) -> bool:
        """Whether what draws so was seeded by another number on this rank than on the first."""
        package = drawing.partition(".")[0]
        return any(
            deed.value != self.seeds.get(id(deed.node), deed.value)
            for deed in self.deeds
            if deed.what == "seed" and str(deed.more).partition(".")[0] not in {"torch", "random", "numpy"} - {package}
        )

    def _class_fields(self, made: ClassOf, instance: Thing, given: list[Value], named: Names) -> None:
        """What stands in the class itself, and a dataclass' arguments."""
        names = []
        for each in made.node.body:
            if isinstance(each, ast.AnnAssign):
                target: ast.expr | None = each.target
            else:
                target = each.targets[0] if isinstance(each, ast.Assign) and len(each.targets) == 1 else None
            if isinstance(target, ast.Name) and isinstance(each, (ast.Assign, ast.AnnAssign)):
                names += [target.id] if isinstance(each, ast.AnnAssign) else []
                value = self.value(each.value, made.outer) if each.value is not None else unknown(each)
                instance.fields[target.id] = value
        if any("dataclass" in ast.unparse(each) for each in made.node.decorator_list):
            instance.fields |= dict(zip(names, given, strict=False)) | {
                name: value for name, value in named.items() if name in names
            }
