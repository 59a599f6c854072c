"""One rank's way through a program: what the calls of torch, accelerate, deepspeed, os and the program itself do."""

import ast

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.file_calls import FileCalls
from gpudoctor.lint.courses.making_calls import WRAPPERS
from gpudoctor.lint.courses.own_data import OF_OWN, READS_INSIDE, SEEDS, computes
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
    number,
    prefix_of,
    shared,
    unknown,
)
from gpudoctor.lint.courses.writers import written_by_method
from gpudoctor.lint.python_code import FUNCTIONS
from gpudoctor.lint.python_text import last_name

SELF = frozenset(("eval", "train", "float", "half", "bfloat16", "requires_grad_", "share_memory", "compile", "detach",
                  "contiguous", "clone"))  # fmt: skip
MOVES = frozenset(("to", "cuda", "cpu"))
MAKES_TENSORS = lazy_re(r"torch\.(?:tensor|zeros|ones|randn?|empty|full|arange|FloatTensor|LongTensor|as_tensor)")
HAS_BUFFERS = lazy_re(r"BatchNorm|register_buffer")
RESNETS = lazy_re(r"torchvision\.models\.\w+")
BARE_OR_WRAPPED = ("ddp", "model", "moved")
NAMES_ITS_RANK = lazy_re(r"rank|main|master|chief|gpu|device")
"""In the name of a parameter that gets what nobody knows: it differs from rank to rank."""
CHANGES = frozenset(
    ("extend", "insert", "pop", "remove", "clear", "update", "setdefault", "sort", "reverse", "popitem")
)
"""Of lists and mappings: what is in them behind is not known."""


class FollowedCalls(FileCalls):
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
        given, named = self._handed(node, frame)
        self.note(whole, node, holder, function, given, named)
        result = self._called(node, whole, holder, function, given, named, frame)
        self.computed(node, whole, function, result, [holder, *given, *named.values()])
        return result

    def _handed(self, node: ast.Call, frame: tuple[Names, ...]) -> tuple[list[Value], Names]:
        """Its arguments, those behind known stars too; "**" stands for what is not known of them."""
        given: list[Value] = []
        named: Names = {}
        for each in node.args:
            value = self.value(each.value if isinstance(each, ast.Starred) else each, frame)
            if isinstance(each, ast.Starred) and isinstance(value, (list, tuple)):
                given += value
            else:
                given.append(value)
                if isinstance(each, ast.Starred):
                    named["**"] = value
        for keyword in node.keywords:
            value = self.value(keyword.value, frame)
            if keyword.arg is None and isinstance(value, dict) and all(isinstance(name, str) for name in value):
                named |= value
            else:
                named[keyword.arg or "**"] = value
        return given, named

    def _called(
        self,
        node: ast.Call,
        whole: str,
        holder: Value,
        function: Value,
        given: list[Value],
        named: Names,
        frame: tuple[Names, ...],
    ) -> Value:
        has_stars = "**" in named
        if isinstance(node.func, ast.Attribute) and node.func.attr == "state_dict" and key_of(holder) in self.sharded:
            return Thing("state of shards", key_of(unknown(node)), {}, node)
        if isinstance(holder, Thing) and holder.kind in BARE_OR_WRAPPED and isinstance(node.func, ast.Attribute):
            if node.func.attr == "state_dict":
                return Thing("state", key_of(unknown(node, holder)), {"prefix": prefix_of(holder)}, node)
            loaded = given[0] if given and node.func.attr == "load_state_dict" else None
            if isinstance(loaded, Thing) and loaded.kind == "loaded":
                self.do("takes a state", node, loaded.fields["place"], prefix_of(holder))
        if isinstance(function, (Thing, OpenValue)) and key_of(function) in self.sharded:
            self.meet("the sharded model's forward", node)
        if isinstance(function, FollowedFunction):
            return self._own(function, given, named, node, has_stars)
        if isinstance(function, ClassOf):
            return self._made_of(function, given, named, node, has_stars)
        past = holder if isinstance(node.func, ast.Attribute) and node.func.attr not in READS_INSIDE else function
        if isinstance(past, Thing) and past.fields.get(" wrapped") is True and self.has_grad:
            self.do("past the wrapper", node)
        if isinstance(function, Thing):
            return self._of_called_thing(function, given, named, node, has_stars)
        if isinstance(holder, Thing) and isinstance(node.func, ast.Attribute):
            found = self._method(node, node.func.attr, holder, given, named)
            if found is not NotImplemented:
                return found
        if isinstance(holder, list) and isinstance(node.func, ast.Attribute) and node.func.attr == "append" and given:
            if isinstance(node.func.value, ast.Name):
                self.store(node.func.value, [*holder, given[0]], frame)
            return None
        if isinstance(holder, (list, dict)) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            if isinstance(node.func.value, ast.Name):
                self.store(node.func.value, unknown(node, holder, *given, *named.values()), frame)
            return unknown(node, holder)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "full_tensor" and not given and self.has_group:
            self.meet("full_tensor", node)  # of a DTensor: it gathers the shards
            return shared(unknown(node, holder))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and not given:
            self.joined()
        if isinstance(node.func, ast.Attribute) and node.func.attr == "backward" and not whole:
            self.do("backward", node, None, "" if self.syncs else "no sync")
            if self.is_marked(holder, "graphless"):
                self.do("backward without a graph", node)
            if self.is_marked(holder, "times the ranks") and self.wraps:
                self.do("backward of as many times", node)
            if self.wraps:
                self.meet("backward", node, is_weak=True)
        found = self._named(whole, node, given, named, frame)
        if found is not NotImplemented:
            return found
        if isinstance(node.func, ast.Attribute) and (file := written_by_method(node.func.attr, holder, given)):
            self.do("save" if is_own(file[1]) else "written", node, *file)
        if isinstance(node.func, ast.Attribute) and isinstance(holder, OpenValue) and node.func.attr in MOVES:
            return self._moved(node, node.func.attr, Thing("moved", holder.key, {"own": holder.is_own}), given, named)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "optimize" and self.code.brings("optuna"):
            for each in given[:1]:
                self.called_by(each, (unknown(node, "trial"),), node)
        place = self._place_of(last_name(node.func)) if not given and isinstance(function, OpenValue) else None
        if place is not None:
            return place
        for each in (*given, *named.values()):  # a function of another file may move what it is given
            if isinstance(each, Thing) and each.kind == "model" and each.fields.get("device") == "cpu":
                self.put(each.fields, "device", unknown(node, each))
        result = unknown(node, function, holder, *given, *named.values())
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr.startswith("suggest_")
            and self.code.brings("optuna")
        ):
            return OpenValue(result.key, "TorchDistributedTrial" not in self.code.text)
        result = self.handed_on(last_name(node.func), result if computes(node, whole) else shared(result),
                                None if whole else holder, given)  # fmt: skip
        is_item = isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args
        return number(result) if is_item else result

    def called_by(self, function: Value, given: tuple[Value, ...], node: ast.Call) -> None:
        """What a process does that was started with a function of the text."""
        if isinstance(function, FollowedFunction):
            self._own(function, list(given), {}, node, False)

    def _own(
        self, function: FollowedFunction, given: list[Value], named: Names, node: ast.Call, has_stars: bool
    ) -> Value:
        if self.is_left_out(function):
            return None
        of, method = function.own, getattr(function.node, "name", "")
        if isinstance(of, Thing) and of.fields.get(" lasting") is True and method == "set_epoch":
            self.do("epoch for lasting workers", node, of)
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
                hidden = unknown(node, name, *values, named["**"])
                taken[name] = OpenValue(hidden.key, hidden.is_own or NAMES_ITS_RANK.search(name) is not None)
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
            return Thing(
                "model",
                key_of(unknown(node)),
                {"buffers": True if HAS_BUFFERS.search(text) else None, "norm": True if "BatchNorm" in text else None},
                node,
            )
        instance = Thing("instance", key_of(unknown(node, *given)), {"": made.outer}, made.node)
        if any(base.rpartition(".")[2] == "IterableDataset" for base in bases):
            instance.fields[" stream"] = True
            instance.fields[" iterable"] = not any(
                isinstance(each, FUNCTIONS) and each.name == "__len__" for each in made.node.body
            )
        self._class_fields(made, instance, given, named)
        starts = self.method_of(instance, "__init__")
        if starts is not None:
            self._own(starts, given, named, node, has_stars)
        return instance

    def _of_called_thing(
        self, thing: Thing, given: list[Value], named: Names, node: ast.Call, has_stars: bool
    ) -> Value:
        """A model that is called, or an object with __call__."""
        if thing.kind == "instance" and (method := self.method_of(thing, "__call__")) is not None:
            return self._own(method, given, named, node, has_stars)
        if thing.kind == "ddp" and self.has_grad:
            self.do("forward", node, thing, "" if self.syncs else "no sync")
        if thing.kind in ("ddp", "fsdp", "engine"):
            inner = thing.fields.get("inner")
            buffers = isinstance(inner, Thing) and inner.fields.get("buffers") is True
            if thing.kind == "fsdp" or buffers:
                self.meet(f"{thing.fields.get('name', 'model')}'s forward", node)
            else:
                self.meet("forward", node, is_weak=True)
            fields: Names = {"from": thing}
            if (self.has_grad and thing.kind != "engine") or any(map(is_own, (*given, *named.values()))):
                fields["own"] = True  # of this rank's part of the data
            return Thing("tensor", key_of(unknown(node, *given)), fields)
        if thing.kind == "model":
            fields = {"from": thing} | ({"own": True} if any(map(is_own, given)) else {})
            return Thing("tensor", key_of(unknown(node, *given)), fields)
        return shared(unknown(node, thing, *given)) if thing.kind == "part" else unknown(node, thing, *given)

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
        if kind == "mesh":
            return self._of_mesh(node, name, holder, given, named)
        if kind == "schedule" and name == "step" and not self.has_grad:
            self.do("refused", node, "step() of a schedule that goes backward stands below no_grad", "Write eval().")
        if kind == "fabric":
            return self._of_fabric(node, name, holder, given)
        if kind == "trainer":
            return self._of_trainer(node, name, holder)
        if kind.startswith("lightning"):
            return self._of_lightning(node, name, kind, named)
        if kind == "parallel" and name == "run":
            return self._of_parallel(node, holder, given)
        if kind == "ignite engine":
            if name == "run" and holder.fields.get("metrics") is True:
                self.meet("the evaluator's run", node)
            return unknown(node, holder)
        if kind == "ray context":
            return holder.fields.get(name, unknown(node, holder))
        if kind == "ddp" and name == "no_sync":
            return Thing("no sync", key_of(unknown(node)), {}, node)
        if name == "requires_grad_" and kind in ("ddp", "part"):
            self.do("frozen behind", node)
        if name == "requires_grad_" and kind == "model" and (given or list(named.values()))[:1] == [False]:
            self.put(holder.fields, "frozen", True)
        if name in SELF:
            return holder
        if name in MOVES and kind in ("model", "tensor", "ddp", "moved", "metric"):
            return self._moved(node, name, holder, given, named)
        if kind in ("tensor", "moved") and name == "item":
            return number(OpenValue(key_of(unknown(node, holder)), is_own(holder)))
        if kind in ("model", "ddp", "fsdp", "part") and name in ("parameters", "named_parameters"):
            return Thing("parameters", key_of(unknown(node)), {"of": holder}, node)
        if name == "backward" and kind == "engine":
            self.meet("backward", node, is_weak=True)
            return None
        if kind == "file" or kind == "path":
            return unknown(node, holder, *given)
        return holder if kind == "stream" else NotImplemented

    def _moved(self, node: ast.Call, name: str, holder: Thing, given: list[Value], named: Names) -> Value:
        told = given[0] if given else named.get("device", None)
        device: Value = "cpu" if name == "cpu" else told
        if name == "cuda" and told is None:
            device = "cuda"
        number = device_number(device)
        if holder.kind == "moved" and number is None and not isinstance(told, (OpenValue, Thing)):
            return OpenValue(holder.key, is_own(holder))
        if isinstance(told, str) and number is None and holder.kind == "model":
            self.put(holder.fields, "device", unknown("device", told))
        if name == "to" and (told is None or (number is None and not isinstance(told, (OpenValue, Thing)))):
            return holder
        copy = Thing(holder.kind, holder.key, dict(holder.fields), holder.node)
        copy.fields["device"] = self._current(number) if number is not None else unknown("device", device)
        if isinstance(number, int):
            self.do("device", node, number)
        if number == "cuda" and holder.kind != "tensor":
            self.do("current GPU", node, self._current(number))
        if holder.kind == "ddp" and device == "cpu":
            self.do("off the GPU", node, holder.fields.get("name"))
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
            if node.func.id == "dict" and not given and "**" not in named:
                return dict(named)
            return self._builtin(node.func.id, node, given)
        if whole in ("os.getenv", "os.environ.get") and given and isinstance(given[0], str):
            found = self.variable(given[0])
            return found if found is not None else given[1] if len(given) > 1 else named.get("default")
        if whole == "argparse.ArgumentParser":
            return Thing("parser", key_of(unknown(node)))
        found = self._of_library(whole, node, given, named)
        if found is not NotImplemented:
            return found
        if whole.startswith("torch.distributed") and "fsdp" not in whole:
            return self._distributed(last, node, given, named, frame)
        if last in WRAPPERS and whole.startswith(("torch.nn", "torch.distributed.fsdp")):
            return self._wrapped(WRAPPERS[last], node, given, named)
        if whole == "deepspeed.initialize":
            self.wraps = True
            self.meet(last, node)
            engine = Thing("engine", key_of(unknown(node)), {"inner": named.get("model")}, node)
            schedule = Thing("engine's schedule", key_of(unknown(node, 3)), {}, node)
            return (engine, unknown(node, 1), unknown(node, 2), schedule)
        if whole in ("accelerate.Accelerator", "accelerate.accelerator.Accelerator"):
            self.has_group = True
            steps = named.get("gradient_accumulation_steps")
            plain = not named.keys() & {"parallelism_config", "fsdp_plugin", "deepspeed_plugin", "**"}
            of_it: Names = {"plain": plain, "sharded": self.environment.get(" sharded", None), "accumulates": steps}
            return Thing("accelerator", key_of(unknown(node)), of_it, node)
        if whole == "torch.cuda.device_count":
            return (
                self.seat.gpus
                if self.seat.gpus is not None
                else self.seat.each
                if self.seat.each > 1
                else unknown("gpus")
            )
        if whole == "signal.signal" and len(given) > 1 and isinstance(given[1], FollowedFunction):
            self.may_come_any_time(node, given[1])
        if whole == "torch.cuda.is_available":
            return True
        if whole == "torch.cuda.current_device":
            return self._current("cuda")
        if whole == "torch.cuda.set_device" and given:
            gpu = device_number(given[0])
            self.do("device", node, gpu)
            self.put(self.environment, " current device", gpu if isinstance(gpu, int) else unknown(node, *given))
            return None
        if whole in ("torch.device", "torch.cuda.device"):
            index = given[1] if len(given) > 1 else named.get("index")
            kind = given[0] if given else named.get("type")
            return Thing(
                "device", hash(("device", key_of(kind), key_of(index))), {"index": index if index is not None else kind}
            )
        file = self._of_files(whole, node, given, named)
        if file is not NotImplemented:
            return file
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
                place = "cpu" if "device" not in named and "**" not in named else unknown(node, "device")
                drawn = True if any(map(is_own, (*given, *named.values()))) else None
                has_norm = True if "BatchNorm" in last or any(_has_norm(each) for each in given) else None
                fields = {"buffers": buffers, "device": place, "own": drawn, "norm": has_norm}
                return Thing("model", key_of(unknown(node)), fields, node)
            return self.handed_on(last, unknown(node, *given, *named.values()), None, given)
        if whole.endswith(".from_pretrained"):
            has = {"buffers": True}  # position_ids, inv_freq: DistributedDataParallel broadcasts them in each forward
            return Thing("model", key_of(unknown(node)), has, node) if "Model" in whole else unknown(node, *given)
        if whole == "torch.compile" and given:
            return self.compiled(given[0])
        if whole == "torch.nn.SyncBatchNorm.convert_sync_batchnorm" and given:
            return given[0]
        if SEEDS.search(last):
            self.put(self.environment, " seeded", True)
            if not whole.startswith(("random.", "numpy.")):
                self.put(self.environment, " seed", given[0] if given else unknown(node))
            self.do("seed", node, given[0] if given else None, whole)
        if OF_OWN.fullmatch(whole):
            own_draw = unknown(node, "own", self.seat.rank, *given)
            is_alike = "random" in whole and self.environment.get(" seeded") is True and not self.has_own_seed(whole)
            return own_draw if is_alike else OpenValue(own_draw.key, True)
        return NotImplemented


def _has_norm(value: Value) -> bool:
    return isinstance(value, Thing) and value.fields.get("norm") is True
