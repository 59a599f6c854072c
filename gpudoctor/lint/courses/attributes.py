"""One rank's way through a program: attributes, of parsed arguments, accelerators and wrapped models too."""

import ast

from gpudoctor.lint.courses.expressions import Expressions
from gpudoctor.lint.courses.own_data import OF_WRAPPER
from gpudoctor.lint.courses.seats import HANDS_LOCAL_RANK
from gpudoctor.lint.courses.values import Thing, Value, cast, is_nothing, unknown
from gpudoctor.lint.program_arguments import given_of, option_call
from gpudoctor.lint.python_code import argument

CLASSES_OF = {"ddp": "DistributedDataParallel", "fsdp": "FullyShardedDataParallel"}
WRAPPER_CLASSES = frozenset(("DataParallel", *CLASSES_OF.values()))


class Attributes(Expressions):
    def attribute(self, node: ast.Attribute, holder: Value) -> Value:
        if holder is None:
            self.do("nothing there", node)
        if is_nothing(holder) and node.attr != "wait":
            self.uses(node, holder)
        whole = self.code.name(node)
        if whole == "os.environ":
            return Thing("environ", hash("environ"))
        if not isinstance(holder, Thing):
            return unknown("attribute", node.attr, holder)
        if node.attr in holder.fields:
            return holder.fields[node.attr]
        if holder.kind == "arguments":
            return self._option(node, holder)
        if isinstance(holder.node, ast.ClassDef):
            method = self.method_of(holder, node.attr)
            if method is not None and not isinstance(method.node, ast.Lambda):
                if any(ast.unparse(each) == "property" for each in method.node.decorator_list):
                    return self.inlined(method, {"self": holder}, node)
                return method
        if holder.kind == "accelerator":
            return self._of_accelerator(node.attr, holder)
        if holder.fields.get("of torch") is True and node.attr not in OF_WRAPPER and node.attr[0] != "_":
            self.do("not the wrapper's", node)
        if holder.kind in ("ddp", "fsdp", "engine") and node.attr == "module":
            if self.has_grad and holder.kind == "ddp":
                self.do("inside", node, holder.fields.get("name"))
            return holder.fields.get("inner", unknown("module", holder))
        if (holder.fields.get(" wrapped") is True or holder.kind == "part") and node.attr not in OF_WRAPPER:
            return Thing("part", unknown("attribute", node.attr, holder).key)
        return unknown("attribute", node.attr, holder)

    def asked_of_wrapper(self, name: str, node: ast.Call, given: list[Value]) -> Value:
        """`model.module if isinstance(model, DDP) else model`, and hasattr and getattr of `module`."""
        model = given[0]
        is_wrapped = model.kind == "fsdp" or (model.kind == "ddp" and model.fields.get("of torch") is True)
        if not is_wrapped and model.kind != "model":
            return NotImplemented
        if name != "isinstance":
            if given[1] != "module":
                return NotImplemented
            if name == "hasattr":
                return is_wrapped
            return model.fields.get("inner", NotImplemented) if is_wrapped else (given[2:] or [NotImplemented])[0]
        types = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
        names = {self.code.name(each).rpartition(".")[2] for each in types}
        if not names <= WRAPPER_CLASSES:
            return NotImplemented
        return is_wrapped and CLASSES_OF[model.kind] in names

    def _of_accelerator(self, name: str, holder: Thing) -> Value:
        seat = self.seat
        known = {"is_main_process": seat.rank == 0, "is_local_main_process": seat.local == 0,
                 "process_index": seat.rank, "local_process_index": seat.local, "num_processes": seat.world,
                 "is_last_process": seat.rank == seat.world - 1,
                 "device": Thing("device", hash(("device", seat.local)), {"index": seat.local})}  # fmt: skip
        return known.get(name, unknown("attribute", name, holder))

    def _option(self, node: ast.Attribute, holder: Thing) -> Value:
        """`args.local_rank` as argparse makes it of the words of the start; an expression as default is followed."""
        call = option_call(self.code, node.attr)
        if call is None:
            return unknown("argument", node.attr)
        given, is_told = given_of(call, self.seat.launch)
        kind, action = argument(call, "type"), argument(call, "action")
        if action is not None:
            flag = action.value if isinstance(action, ast.Constant) else ""
            if not is_told or flag not in ("store_true", "store_false"):
                return unknown("argument", node.attr)
            return (given is not None) is (flag == "store_true")
        if not is_told or argument(call, "nargs") is not None:
            return unknown("argument", node.attr)
        name = kind.id if isinstance(kind, ast.Name) else "" if kind is not None else "str"
        if self.seat.launch is not None and self.seat.launch.launcher in HANDS_LOCAL_RANK and node.attr == "local_rank":
            return self.seat.local
        if given is not None:
            return cast(name, given) if name in ("int", "float", "str") else unknown("argument", node.attr, given)
        default = argument(call, "default")
        value = self.value(default, (self.module,)) if default is not None else None
        return cast(name, value) if isinstance(value, str) and name in ("int", "float") else value
