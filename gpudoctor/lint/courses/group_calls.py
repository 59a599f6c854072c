"""One rank's way through a program: what the calls of torch.distributed do, and which of them torch refuses."""

import ast
from collections.abc import Callable

from gpudoctor.lint.courses.mesh_calls import MeshCalls
from gpudoctor.lint.courses.values import Names, OpenValue, Thing, Value, cast, is_nothing, unknown
from gpudoctor.lint.programs import COLLECTIVES

ROOTED = {"broadcast": ("src", 1), "reduce": ("dst", 1), "gather": ("dst", 2), "scatter": ("src", 2),
          "broadcast_object_list": ("src", 1), "gather_object": ("dst", 2)}  # fmt: skip
"""Collectives with a root, and where it stands."""
TO_ONE = {"send": ("dst", 1), "isend": ("dst", 1), "recv": ("src", 1), "irecv": ("src", 1)}
"""Calls between two ranks, and where the other one stands."""
SAME_AFTER = frozenset(("broadcast", "all_reduce", "broadcast_object_list", "all_gather_object", "all_gather"))
OF_TENSORS = {"all_reduce": 0, "broadcast": 0, "reduce": 0, "all_gather": 1, "gather": 0, "reduce_scatter": 0}
"""What takes a tensor, and where it stands."""
SAME_SHAPES = frozenset(("all_reduce", "all_gather", "gather", "reduce"))
"""What wants a tensor of the same shape from every rank."""
LISTS = {"all_gather": "tensor_list", "all_gather_object": "object_list"}
"""What takes a list as long as the world."""
SHARDED_STATE = frozenset(
    ("get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
     "set_optimizer_state_dict", "set_state_dict", "save", "load", "async_save", "save_state_dict", "load_state_dict")
)  # fmt: skip
"""Of torch.distributed.checkpoint: every rank brings its part."""
SECONDS = "torch wants a datetime.timedelta: write timeout=datetime.timedelta(seconds={})."


class GroupCalls(MeshCalls):
    def _distributed(
        self, name: str, node: ast.Call, given: list[Value], named: Names, frame: tuple[Names, ...]
    ) -> Value:
        def told(argument: str, place: int) -> Value:
            return named.get(argument, given[place] if place < len(given) else None)

        if name == "init_process_group":
            self.is_gone = False
            return self._joined(node, told)
        if name == "destroy_process_group" and not given and not named and self.is_sure:
            self.is_gone = True
        timeout = named.get("timeout")
        if name == "new_group" and isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
            self.do("refused", node, "its timeout is a number", SECONDS.format(timeout))
        if name == "init_device_mesh":
            return self._mesh(node, given, named)
        if name in ("get_rank", "get_world_size", "is_initialized", "is_available", "get_node_local_rank"):
            if name.startswith("is_"):
                there = True if name == "is_available" or self.has_group or self.world is not None else unknown(name)
                return there if name == "is_available" or not self.is_gone else False
            if not self.has_group and name != "get_node_local_rank":
                self.do("early", node, name)
            if told("group", 0) is not None:
                return unknown(node, self.seat.rank, *given)
            own = self.seat.local if name == "get_node_local_rank" else self.rank if name == "get_rank" else self.world
            return own if own is not None else unknown(name, self.seat.rank if name != "get_world_size" else 0)
        if name == "new_group":
            ranks = told("ranks", 0)
            known = (
                tuple(sorted(set(ranks)))
                if isinstance(ranks, (list, tuple, range)) and all(type(each) is int for each in ranks)
                else None
            )
            self.meet(f"new_group({list(known)})" if known is not None else "new_group", node)
            return Thing("group", key_of_group(node, ranks), {"ranks": known})
        if name in TO_ONE and told(*TO_ONE[name]) is not None:
            other = told(*TO_ONE[name])
            self.do("peer to peer", node, name, other)
            if other == self.rank:
                does = "sends to" if name.endswith("send") else "receives from"
                self.do("refused", node, f"rank {other} {does} itself", "Name the rank at the other end.")
        if name == "monitored_barrier" and self.backend == "nccl" and told("group", 0) is None:
            self.do(
                "refused",
                node,
                "monitored_barrier is gloo's alone, and the group's backend is NCCL",
                "Give it a group of its own: dist.new_group(backend='gloo').",
            )
        if name in COLLECTIVES:
            if not self.has_group:
                self.do("early", node, name)
            return self._collective(name, node, given, named, frame)
        return unknown(node, *given, *named.values())

    def _collective(
        self, name: str, node: ast.Call, given: list[Value], named: Names, frame: tuple[Names, ...]
    ) -> Value:
        group = next(
            (each for each in (*named.values(), *given) if isinstance(each, Thing) and each.kind == "group"), None
        )
        members = group.fields.get("ranks") if group is not None else None
        is_of_group = group is not None or named.get("group") is not None
        rank = self.rank if self.rank is not None else self.seat.rank
        nothing: Value = unknown(node, *given)
        if name in COLLECTIVES and named.get("async_op") in (None, False):
            nothing = Thing("nothing", nothing.key, {"call": name}, node)
        if is_of_group and members is None:
            first = node.args[0] if node.args else None
            if name in SAME_AFTER and isinstance(first, (ast.Name, ast.Attribute)):
                self.store(first, unknown(node, "alike"), frame)
            return nothing
        if members is not None and rank not in members:
            return None
        root, place = ROOTED.get(name, ("", 99))
        peer = named.get(root, given[place] if place < len(given) else None)
        if type(peer) is int:
            self.do("peer", node, peer, members)
        tensor = given[0] if given else named.get("tensor")
        if isinstance(tensor, Thing) and tensor.kind == "tensor" and not name.endswith(("object", "object_list")):
            self.do("tensor", node, tensor.fields.get("device"), self.backend)
        self._of_shape(name, node, given, named, len(members) if members is not None else self.world)
        self.meet(name, node, members)
        first = node.args[0] if node.args else None
        sent = given[OF_TENSORS[name]] if name in SAME_SHAPES and len(given) > OF_TENSORS[name] else None
        for mark in ("ragged", "dealt"):
            if self.is_marked(sent, mark) and (mark == "ragged" or name != "all_reduce"):
                self.do(mark, node, name)
        if name == "all_gather" and given and isinstance(given[0], Thing):
            self.mark(given[0], "graphless")
        if name == "reduce" and isinstance(first, (ast.Name, ast.Attribute)):
            part = unknown(node, "part", rank)
            self.store(first, Thing("tensor", part.key, {"own": True} if rank != (peer or 0) else {}), frame)
        if name in SAME_AFTER and isinstance(first, (ast.Name, ast.Attribute)):
            kept = tensor.fields.get("device") if isinstance(tensor, Thing) else None
            same = unknown(node, "alike")
            self.store(first, Thing("tensor", same.key, {"device": kept}) if kept is not None else same, frame)
            if name == "all_gather":
                self.mark(same, "graphless")
            ops = [each.value for each in node.keywords if each.arg == "op"] or node.args[1:2]
            sums = not ops or self.code.name(ops[0]).endswith("SUM")
            if name == "all_reduce" and sums and self.is_marked(tensor, "share"):
                self.mark(same, "summed share")
                self.summed[same.key] = node
        return nothing

    def _of_shape(self, name: str, node: ast.Call, given: list[Value], named: Names, world: int | None) -> None:
        """What it is given is a tensor, or a list as long as the world."""
        place = OF_TENSORS.get(name, 99)
        tensor = given[place] if place < len(given) else None
        is_number = isinstance(tensor, (int, float)) or (isinstance(tensor, OpenValue) and tensor.is_number)
        if is_number or is_nothing(tensor):
            self.do(
                "refused",
                node,
                f"{name} gets a number, and takes a tensor",
                "Give it torch.tensor([value], device='cuda'), and read that afterwards: it is changed in place.",
            )
        lists = {"gather": "gather_list", "scatter": "scatter_list"}.get(name)
        root = named.get(*{"gather": ("dst",), "scatter": ("src",)}.get(name, ("",)), given[2] if len(given) > 2 else 0)
        told = named.get(lists, given[1] if len(given) > 1 else None) if lists is not None else ()
        if told is None and root == self.rank and "**" not in named:
            self.do("refused", node, f"rank {root} is the root of {name} and gives no {lists}",
                    f"Give it there: {lists}=[...] of a tensor for each rank, and None on the others.")  # fmt: skip
        if name == "all_gather" and given and any(given[0] is each for each in self.repeated):
            self.do("refused", node, "its list holds one tensor in all places: [x] * n copies nothing",
                    "Make one for each rank: [torch.empty_like(x) for _ in range(dist.get_world_size())].")  # fmt: skip
        parts = given[0] if given and name in LISTS else None
        if isinstance(parts, list) and world is not None and len(parts) != world and not self.seat.is_assumed:
            self.do(
                "refused",
                node,
                f"the list of {name} has {len(parts)} places, and the world {world} ranks",
                "Make it as long as the world: dist.get_world_size().",
            )
        ops = [each.value for each in node.keywords if each.arg == "op"] or node.args[1:2]
        if self.backend == "gloo" and any(self.code.name(each).endswith("ReduceOp.AVG") for each in ops):
            self.do(
                "refused",
                node,
                "ReduceOp.AVG is NCCL's alone, and the group's backend is gloo",
                "Sum them (the default), and divide by dist.get_world_size().",
            )
        if name == "broadcast_object_list" and given and isinstance(given[0], list):
            self.do("list", node, len(given[0]))

    def _joined(self, node: ast.Call, told: Callable[[str, int], Value]) -> Value:
        method = told("init_method", 1)
        by_environment = method is None or (isinstance(method, str) and method.startswith("env://"))
        rank, world, timeout = told("rank", 4), told("world_size", 3), told("timeout", 2)
        if isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
            self.do("refused", node, "its timeout is a number", SECONDS.format(timeout))
        if rank in (None, -1) and by_environment:
            if self.variable("RANK") is None and told("store", 5) is None and told("backend", 0) != "mpi":
                self.do("unset", node, "RANK")
            rank = cast("int", self.variable("RANK"))
        if world in (None, -1) and by_environment:
            world = cast("int", self.variable("WORLD_SIZE"))
        place = (self.variable("MASTER_ADDR"), self.variable("MASTER_PORT")) if by_environment else (method,)
        backend = told("backend", 0)
        self.backend = backend if isinstance(backend, str) else ""
        self.rank = rank if type(rank) is int else self.rank
        self.world = world if type(world) is int else None
        self.has_group = True
        self.do("join", node, (rank, world), place)
        self.meet("init_process_group", node)
        return None


def key_of_group(node: ast.Call, ranks: Value) -> int:
    return unknown(node, ranks).key
