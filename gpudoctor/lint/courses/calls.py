"""One rank's way through a program: what the calls of torch, accelerate, deepspeed, os and the program itself do."""

import ast
import re
from pathlib import PurePosixPath

from gpudoctor.lint.courses.expressions import Expressions
from gpudoctor.lint.courses.own_data import OF_OWN, SEEDS, computes
from gpudoctor.lint.courses.values import (
    ClassOf,
    FollowedFunction,
    Names,
    OpenValue,
    Thing,
    Value,
    cast,
    device_number,
    is_known,
    is_own,
    key_of,
    shared,
    unknown,
)
from gpudoctor.lint.programs import COLLECTIVES
from gpudoctor.lint.python_code import FUNCTIONS

ROOTED = {"broadcast": ("src", 1), "reduce": ("dst", 1), "gather": ("dst", 2), "scatter": ("src", 2),
          "broadcast_object_list": ("src", 1), "gather_object": ("dst", 2)}  # fmt: skip
"""Collectives with a root, and where it stands."""
TO_ONE = {"send": ("dst", 1), "isend": ("dst", 1), "recv": ("src", 1), "irecv": ("src", 1)}
"""Calls between two ranks, and where the other one stands."""
SAME_AFTER = frozenset(("broadcast", "all_reduce", "broadcast_object_list", "all_gather_object", "all_gather"))
OF_ACCELERATOR = frozenset(("wait_for_everyone", "gather", "gather_for_metrics", "reduce", "pad_across_processes"))
SELF = frozenset(("eval", "train", "float", "half", "bfloat16", "requires_grad_", "share_memory", "compile", "detach",
                  "contiguous", "clone"))  # fmt: skip
MOVES = frozenset(("to", "cuda", "cpu"))
MAKES_TENSORS = re.compile(r"torch\.(?:tensor|zeros|ones|randn?|empty|full|arange|FloatTensor|LongTensor|as_tensor)")
HAS_BUFFERS = re.compile(r"BatchNorm|register_buffer")
RESNETS = re.compile(r"torchvision\.models\.\w+")
WRAPPERS = {"DistributedDataParallel": "ddp", "FullyShardedDataParallel": "fsdp"}
SAVES = re.compile(r"torch\.save|safetensors\.torch\.save_file|pickle\.dump")


class FollowedCalls(Expressions):
    def called(self, node: ast.Call, frame: tuple[Names, ...]) -> Value:
        whole = self.code.name(node.func)
        holder = self.value(node.func.value, frame) if isinstance(node.func, ast.Attribute) else None
        if isinstance(node.func, ast.Name):
            function: Value = self.value(node.func, frame)
        else:
            function = (
                self.attribute(node.func, holder)
                if isinstance(node.func, ast.Attribute)
                else self.value(node.func, frame)
            )
        given = [self.value(each.value if isinstance(each, ast.Starred) else each, frame) for each in node.args]
        named = {each.arg or "**": self.value(each.value, frame) for each in node.keywords}
        has_stars = any(isinstance(each, ast.Starred) for each in node.args) or "**" in named
        if isinstance(function, FollowedFunction):
            return self._own(function, given, named, node, has_stars)
        if isinstance(function, ClassOf):
            return self._made_of(function, given, named, node, has_stars)
        if isinstance(function, Thing):
            return self._of_called_thing(function, given, node)
        if isinstance(holder, Thing) and isinstance(node.func, ast.Attribute):
            found = self._method(node, node.func.attr, holder, given, named)
            if found is not NotImplemented:
                return found
        if isinstance(holder, list) and isinstance(node.func, ast.Attribute) and node.func.attr == "append" and given:
            if isinstance(node.func.value, ast.Name):
                self.store(node.func.value, [*holder, given[0]], frame)
            return None
        if isinstance(node.func, ast.Attribute) and node.func.attr == "backward" and not whole:
            self.do("backward", node)
            if self.wraps:
                self.meet("backward", node, is_weak=True)
        found = self._named(whole, node, given, named, frame)
        if found is not NotImplemented:
            return found
        result = unknown(node, function, holder, *given, *named.values())
        return result if computes(node, whole) else shared(result)

    def called_by(self, function: Value, given: tuple[Value, ...], node: ast.Call) -> None:
        """What a process does that was started with a function of the text."""
        if isinstance(function, FollowedFunction):
            self._own(function, list(given), {}, node, False)

    def _own(
        self, function: FollowedFunction, given: list[Value], named: Names, node: ast.Call, has_stars: bool
    ) -> Value:
        arguments = function.node.args
        plain = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        decorators = [ast.unparse(each) for each in getattr(function.node, "decorator_list", ())]
        values = (
            [function.own, *given] if function.own is not None and "staticmethod" not in decorators else list(given)
        )
        taken: Names = {}
        defaults = dict(zip(reversed(plain), reversed(arguments.defaults), strict=False))
        for name, default in defaults.items():
            taken[name] = self.value(default, function.outer)
        for each, default_of in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            taken[each.arg] = (
                self.value(default_of, function.outer) if default_of is not None else unknown(node, each.arg)
            )
        for place, name in enumerate(plain):
            if has_stars and place >= len(values):
                taken[name] = unknown(node, name, *values)
            elif place < len(values):
                taken[name] = values[place]
            else:
                taken.setdefault(name, unknown(node, name))
        taken |= {name: value for name, value in named.items() if name != "**"}
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                taken[star.arg] = unknown(node, star.arg, *values, *named.values())
        return self.inlined(function, taken, node)

    def _made_of(self, made: ClassOf, given: list[Value], named: Names, node: ast.Call, has_stars: bool) -> Value:
        bases = [self.code.name(base) or ast.unparse(base) for base in made.node.bases]
        if any(base.rpartition(".")[2] in ("Module", "PreTrainedModel") for base in bases):
            text = self.code.text_of(made.node)
            return Thing("model", key_of(unknown(node)), {"buffers": True if HAS_BUFFERS.search(text) else None}, node)
        instance = Thing("instance", key_of(unknown(node, *given)), {"": made.outer}, made.node)
        starts = next(
            (each for each in made.node.body if isinstance(each, FUNCTIONS) and each.name == "__init__"), None
        )
        if starts is not None:
            self._own(FollowedFunction(starts, made.outer, instance), given, named, node, has_stars)
        return instance

    def _of_called_thing(self, thing: Thing, given: list[Value], node: ast.Call) -> Value:
        """A model that is called."""
        if thing.kind in ("ddp", "fsdp", "engine"):
            inner = thing.fields.get("inner")
            buffers = isinstance(inner, Thing) and inner.fields.get("buffers") is True
            if thing.kind == "fsdp" or buffers:
                self.meet(f"{thing.fields.get('name', 'model')}'s forward", node)
            else:
                self.meet("forward", node, is_weak=True)
            fields: Names = {"from": thing}
            if self.has_grad and thing.kind != "engine":
                fields["own"] = True  # of this rank's part of the data
            return Thing("tensor", key_of(unknown(node, *given)), fields)
        if thing.kind == "model":
            fields = {"from": thing} | ({"own": True} if any(map(is_own, given)) else {})
            return Thing("tensor", key_of(unknown(node, *given)), fields)
        return unknown(node, thing, *given)

    def _method(self, node: ast.Call, name: str, holder: Thing, given: list[Value], named: Names) -> Value:
        kind = holder.kind
        if kind == "environ":
            if name in ("get", "setdefault", "pop") and given and isinstance(given[0], str):
                found = self.variable(given[0])
                if name == "setdefault" and len(given) > 1 and found is None:
                    self.put(self.environment, given[0], given[1])
                return found if found is not None else given[1] if len(given) > 1 else None
            return unknown(node, holder, *given)
        if kind == "parser":
            if name == "parse_args" and not given and not named:
                return Thing("arguments", hash(("arguments", holder.key)))
            if name == "parse_known_args":
                return (Thing("arguments", hash(("arguments", holder.key))), unknown(node))
            return holder if name.startswith("add_") and name != "add_argument" else unknown(node, *given)
        if kind == "accelerator":
            return self._of_accelerate(node, name, holder, given, named)
        if name in SELF:
            return holder
        if name in MOVES and kind in ("model", "tensor", "ddp"):
            return self._moved(node, name, holder, given, named)
        if name == "backward" and kind == "engine":
            self.meet("backward", node, is_weak=True)
            return None
        if kind == "fsdp" and name in ("state_dict", "full_optim_state_dict"):
            self.meet(name, node)
        if kind == "engine" and name in ("save_checkpoint", "load_checkpoint", "save_16bit_model"):
            self.meet(name, node)
        if kind == "file" or kind == "path":
            return unknown(node, holder, *given)
        return NotImplemented

    def _of_accelerate(self, node: ast.Call, name: str, holder: Thing, given: list[Value], named: Names) -> Value:
        sharded = holder.fields.get("sharded") is True
        if name in OF_ACCELERATOR or (name in ("save_state", "get_state_dict", "load_state") and sharded):
            self.meet(name, node)
            return shared(unknown(node, *given))
        if name == "prepare":
            self.wraps = True
            made = tuple(
                Thing("ddp", key_of(unknown(node, place)), {"inner": each}, node)
                if isinstance(each, Thing) and each.kind == "model" else each
                for place, each in enumerate(given)
            )  # fmt: skip
            return made[0] if len(made) == 1 else made
        if name == "backward":
            self.meet("backward", node, is_weak=True)
            return None
        if name == "unwrap_model" and given and isinstance(given[0], Thing):
            return given[0].fields.get("inner", given[0])
        return unknown(node, holder, *given)

    def _moved(self, node: ast.Call, name: str, holder: Thing, given: list[Value], named: Names) -> Value:
        told = given[0] if given else named.get("device", None)
        device: Value = "cpu" if name == "cpu" else told
        if name == "cuda" and told is None:
            device = "cuda"
        number = device_number(device)
        if name == "to" and (told is None or (number is None and not isinstance(told, (OpenValue, Thing)))):
            return holder
        copy = Thing(holder.kind, holder.key, dict(holder.fields), holder.node)
        copy.fields["device"] = self._current(number) if number is not None else unknown("device", device)
        if isinstance(number, int):
            self.do("device", node, number)
        if holder.kind == "model":
            self.put(holder.fields, "device", copy.fields["device"])
            return holder
        return copy

    def _current(self, number: int | str) -> Value:
        """The number behind "cuda": what set_device has said, GPU 0 without it."""
        return self.environment.get(" current device", 0) if number == "cuda" else number

    def _named(self, whole: str, node: ast.Call, given: list[Value], named: Names, frame: tuple[Names, ...]) -> Value:
        last = whole.rpartition(".")[2]
        if not whole and isinstance(node.func, ast.Name):
            return self._builtin(node.func.id, node, given)
        if whole in ("os.getenv", "os.environ.get") and given and isinstance(given[0], str):
            found = self.variable(given[0])
            return found if found is not None else given[1] if len(given) > 1 else named.get("default")
        if whole == "argparse.ArgumentParser":
            return Thing("parser", key_of(unknown(node)))
        if whole.startswith("torch.distributed") and "fsdp" not in whole:
            return self._distributed(last, node, given, named, frame)
        if last in WRAPPERS and whole.startswith(("torch.nn", "torch.distributed.fsdp")):
            return self._wrapped(WRAPPERS[last], node, given, named)
        if whole == "deepspeed.initialize":
            self.wraps = True
            self.meet(last, node)
            engine = Thing("engine", key_of(unknown(node)), {"inner": named.get("model")}, node)
            return (engine, unknown(node, 1), unknown(node, 2), unknown(node, 3))
        if whole in ("accelerate.Accelerator", "accelerate.accelerator.Accelerator"):
            return Thing(
                "accelerator", key_of(unknown(node)), {"sharded": self.environment.get(" sharded", None)}, node
            )
        if whole == "torch.cuda.device_count":
            return (
                self.seat.gpus
                if self.seat.gpus is not None
                else self.seat.each
                if self.seat.each > 1
                else unknown("gpus")
            )
        if whole == "torch.cuda.is_available":
            return True
        if whole == "torch.cuda.current_device":
            return self._current("cuda")
        if whole == "torch.cuda.set_device" and given:
            number = device_number(given[0])
            self.do("device", node, number)
            self.put(self.environment, " current device", number if isinstance(number, int) else unknown(node, *given))
            return None
        if whole in ("torch.device", "torch.cuda.device"):
            index = given[1] if len(given) > 1 else named.get("index")
            kind = given[0] if given else named.get("type")
            return Thing(
                "device", hash(("device", key_of(kind), key_of(index))), {"index": index if index is not None else kind}
            )
        if SAVES.fullmatch(whole):
            self.do(
                "save",
                node,
                given[1] if len(given) > 1 else named.get("f", named.get("filename")),
                given[0] if given else None,
            )
            return None
        if whole == "torch.load":
            self.do("load", node, given[0] if given else named.get("f"), "map_location" in named or len(given) > 1)
            return unknown(node, *given)
        if whole in ("os.makedirs", "os.mkdir") and given:
            self.do("folder", node, given[0])
            return None
        if whole == "os.path.join" and is_known(given) and all(isinstance(each, str) for each in given) and given:
            return str(PurePosixPath(*given))
        if whole == "os.path.join" and given and isinstance(given[0], str):
            return Thing("path", key_of(unknown(node, *given)), {"folder": given[0]})
        if MAKES_TENSORS.fullmatch(whole):
            device = named.get("device")
            number = "cpu" if device is None else device_number(device)
            place = self._current(number) if number is not None else unknown("device", device)
            fields: Names = {"device": place} | ({"own": True} if any(map(is_own, given)) else {})
            return Thing("tensor", key_of(unknown(node, *given)), fields)
        if whole.startswith("torch.multiprocessing.") and last in ("spawn", "start_processes"):
            return self._spawns(node, given, named)
        if whole in ("torch.multiprocessing.Process", "multiprocessing.Process"):
            return self._process(node, named)
        if whole.startswith(("torchvision.models.", "torch.nn.")):
            if last[:1].isupper() or RESNETS.fullmatch(whole):
                buffers = True if "BatchNorm" in last or last.startswith(("resnet", "densenet", "mobilenet")) else None
                buffers = buffers or next((each.fields.get("buffers") for each in given if isinstance(each, Thing)
                                           and each.kind == "model" and each.fields.get("buffers")), None)  # fmt: skip
                return Thing("model", key_of(unknown(node)), {"buffers": buffers, "device": "cpu"}, node)
            return unknown(node, *given, *named.values())
        if whole.endswith(".from_pretrained"):
            return Thing("model", key_of(unknown(node)), {}, node) if "Model" in whole else unknown(node, *given)
        if whole == "torch.compile" and given:
            return given[0]
        if whole == "torch.nn.SyncBatchNorm.convert_sync_batchnorm" and given:
            return given[0]
        if SEEDS.search(last):
            self.put(self.environment, " seeded", True)
        if OF_OWN.fullmatch(whole):
            drawn = unknown(node, "own", self.seat.rank, *given)
            is_alike = "random" in whole and self.environment.get(" seeded") is True
            return drawn if is_alike else OpenValue(drawn.key, True)
        return NotImplemented

    def _builtin(self, name: str, node: ast.Call, given: list[Value]) -> Value:
        if name in ("int", "float", "str", "bool") and len(given) == 1:
            return cast(name, given[0])
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
        if name in ("list", "tuple") and len(given) == 1 and isinstance(given[0], range) and len(given[0]) <= 64:
            return list(given[0])
        return NotImplemented

    def _distributed(
        self, name: str, node: ast.Call, given: list[Value], named: Names, frame: tuple[Names, ...]
    ) -> Value:
        def told(argument: str, place: int) -> Value:
            return named.get(argument, given[place] if place < len(given) else None)

        if name == "init_process_group":
            return self._joined(node, told)
        if name in ("get_rank", "get_world_size", "is_initialized", "is_available", "get_node_local_rank"):
            if name.startswith("is_"):
                return True if name == "is_available" or self.world is not None else unknown(name)
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
            return Thing("group", key_of(unknown(node, ranks)), {"ranks": known})
        if name in TO_ONE and (other := told(*TO_ONE[name])) is not None and other == self.rank:
            does = "sends to" if name.endswith("send") else "receives from"
            self.do("refused", node, f"rank {other} {does} itself")
        if name == "monitored_barrier" and self.backend == "nccl" and told("group", 0) is None:
            self.do("refused", node, "monitored_barrier is gloo's alone, and the group's backend is NCCL")
        if name in COLLECTIVES:
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
        if is_of_group and members is None:
            return unknown(node, *given)
        if members is not None and rank not in members:
            return None
        root, place = ROOTED.get(name, ("", 99))
        peer = named.get(root, given[place] if place < len(given) else None)
        if type(peer) is int:
            self.do("peer", node, peer, members)
        tensor = given[0] if given else named.get("tensor")
        if isinstance(tensor, Thing) and tensor.kind == "tensor" and not name.endswith(("object", "object_list")):
            self.do("tensor", node, tensor.fields.get("device"), self.backend)
        self.meet(name, node, members)
        first = node.args[0] if node.args else None
        if name in SAME_AFTER and isinstance(first, (ast.Name, ast.Attribute)):
            kept = tensor.fields.get("device") if isinstance(tensor, Thing) else None
            same = unknown(node, "alike")
            self.store(first, Thing("tensor", same.key, {"device": kept}) if kept is not None else same, frame)
            for each in node.args[1:2] if name == "all_gather" else ():
                self.store(each, unknown(node, self.seat.rank), frame)
        return unknown(node, *given)

    def _joined(self, node: ast.Call, told) -> Value:  # type: ignore[no-untyped-def]
        method = told("init_method", 1)
        by_environment = method is None or (isinstance(method, str) and method.startswith("env://"))
        rank, world = told("rank", 4), told("world_size", 3)
        if rank in (None, -1) and by_environment:
            rank = cast("int", self.variable("RANK"))
        if world in (None, -1) and by_environment:
            world = cast("int", self.variable("WORLD_SIZE"))
        place = (self.variable("MASTER_ADDR"), self.variable("MASTER_PORT")) if by_environment else (method,)
        backend = told("backend", 0)
        self.backend = backend if isinstance(backend, str) else ""
        self.rank = rank if type(rank) is int else self.rank
        self.world = world if type(world) is int else None
        self.do("join", node, (rank, world), place)
        self.meet("init_process_group", node)
        return None

    def _wrapped(self, kind: str, node: ast.Call, given: list[Value], named: Names) -> Value:
        self.wraps = True
        self.meet(ast.unparse(node.func).rpartition(".")[2], node)
        inner = given[0] if given else named.get("module")
        ids = named.get("device_ids", given[1] if len(given) > 1 else None)
        if kind == "ddp" and isinstance(inner, Thing) and isinstance(ids, (list, tuple)) and len(ids) == 1:
            self.do("wrap", node, device_number(ids[0]), inner.fields.get("device"))
        name = ast.unparse(node.args[0]) if node.args else "the model"
        return Thing(kind, key_of(unknown(node)), {"inner": inner, "name": name}, node)

    def _spawns(self, node: ast.Call, given: list[Value], named: Names) -> Value:
        function = given[0] if given else named.get("fn")
        arguments = given[1] if len(given) > 1 else named.get("args", ())
        count = given[2] if len(given) > 2 else named.get("nprocs", 1)
        if isinstance(function, FollowedFunction) and isinstance(arguments, (list, tuple)):
            if isinstance(count, OpenValue):
                count = 2
            if type(count) is int and 1 < count <= 64:
                for index in range(count):
                    self.spawned.append((function, (index, *arguments), node))
        return unknown(node)

    def _process(self, node: ast.Call, named: Names) -> Value:
        function, arguments = named.get("target"), named.get("args", ())
        if isinstance(function, FollowedFunction) and isinstance(arguments, (list, tuple)):
            self.spawned.append((function, tuple(arguments), node))
        return unknown(node)
