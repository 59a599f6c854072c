"""One rank's way through a program: what calls of accelerate, transformers, Ray, Ignite, samplers and loaders do."""

import ast
import re
from pathlib import PurePosixPath
from typing import TypeGuard

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.group_calls import SHARDED_STATE, GroupCalls
from gpudoctor.lint.courses.values import (
    FollowedFunction,
    Names,
    OpenValue,
    Thing,
    Value,
    gives_own,
    is_own,
    key_of,
    shared,
    unknown,
)

OF_ACCELERATOR = frozenset(("wait_for_everyone", "gather", "gather_for_metrics", "reduce", "pad_across_processes"))
OF_ACCELERATE = lazy_re(
    r"accelerate\.utils\.(?:\w+\.)?(gather_object|gather|broadcast|broadcast_object_list|reduce|pad_across_processes"
    r"|wait_for_everyone)"
)
TRAINERS = lazy_re(r"(?:transformers|trl|sentence_transformers|setfit)\.(?:\w+\.)*\w*Trainer")
ARGUMENTS = lazy_re(r"(?:transformers|trl)\.(?:\w+\.)*(?:\w*TrainingArguments|[A-Z]\w*Config)")
OF_TRAINER = frozenset(("train", "evaluate", "predict"))
"""Of transformers' Trainer: each step, and each gathering of predictions, is of all processes."""
OF_FSDP = lazy_re(
    r"torch\.distributed\.fsdp\.(?:\w+\.)*FullyShardedDataParallel\.(?:optim_state_dict|full_optim_state_dict"
    r"|sharded_optim_state_dict|scatter_full_optim_state_dict|optim_state_dict_to_load)"
)
"""They gather or deal out the optimizer's shards: fsdp/_optim_utils.py."""
ZERO3 = lazy_re(r"(?:z(?:ero)?|stage)[-_]?3", re.IGNORECASE)
SAVES_SHARDS = frozenset(("save_model", "_save_checkpoint", "save_state"))
IGNITE = "ignite.distributed."
OF_IGNITE = frozenset(("barrier", "all_reduce", "all_gather", "broadcast"))
ENGINES = lazy_re(r"ignite\.engine\.(?:Engine|create_supervised_\w+)")
RAY = lazy_re(r"ray\.(?:train|air\.session)\.")
PASSES = lazy_re(r"tqdm\.(?:\w+\.)*\w+|(?:itertools\.(?:cycle|islice))|rich\.progress\.track|alive_progress\.\w+")
"""What hands on the items of its first argument."""
DATA_PARALLEL = frozenset(("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"))
FABRICS = lazy_re(r"(?:lightning(?:\.fabric)?|lightning_fabric)\.Fabric")
OF_FABRIC = frozenset(("barrier", "all_gather", "all_reduce", "broadcast", "save", "load", "clip_gradients"))
LOADERS = frozenset(("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"))
MODELS = lazy_re(r"(?:^|[._])(?:\w*model|\w*net|transformer|policy)(?:\(.*\))?$", re.IGNORECASE)
"""Usual names of what is trained."""
SHUFFLES = lazy_re(r"random\.shuffle|numpy\.random\.(?:shuffle|permutation)|torch\.randperm")
SAMPLERS = lazy_re(r"torch\.utils\.data\.(?:distributed\.)?DistributedSampler")


class LibraryCalls(GroupCalls):
    def _of_library(self, whole: str, node: ast.Call, given: list[Value], named: Names) -> Value:
        """NotImplemented: of none of these."""
        last = whole.rpartition(".")[2]
        made = self.made(whole, node, given, named)
        if made is not NotImplemented:
            return made
        if SHUFFLES.fullmatch(whole) and given and self.environment.get(" seeded") is not True:
            if last == "shuffle":
                self.mark(given[0], "drawn")
            elif not named:
                return self.mark(OpenValue(unknown(node, "own", self.seat.rank).key, True), "drawn")
        if SAMPLERS.fullmatch(whole):
            return self._sampler(node, given, named)
        if whole in LOADERS:
            return self._loader(node, given, named)
        if PASSES.fullmatch(whole) and given:
            return self._progress(node, given[0], named)
        if whole.startswith("torch.distributed.checkpoint.") and last in SHARDED_STATE:
            self.meet(last, node)
            return unknown(node, *given)
        if OF_FSDP.fullmatch(whole):
            self.meet(last, node)
            return unknown(node, *given)
        if last == "fully_shard" and whole.startswith("torch.distributed.") and given:
            self.sharded.add(key_of(given[0]))
            self.wraps = True
            return given[0]
        if whole.startswith("torchvision.datasets.") and last[:1].isupper():
            root = given[0] if given else named.get("root")
            self.do("written" if named.get("download") is True else "read", node, root)
        if whole in ("pathlib.Path", "pathlib.PosixPath") and given and all(isinstance(each, str) for each in given):
            return str(PurePosixPath(*given))
        if whole == "torch.utils.data.random_split":
            seed = named.get("generator", given[2] if len(given) > 2 else None)
            self.do("split", node, "generator" if seed is not None else self.environment.get(" seed"))
            return unknown(node, *given)
        if (found := OF_ACCELERATE.fullmatch(whole)) is not None:
            self.meet(found[1], node)
            return shared(unknown(node, *given))
        if whole in ("accelerate.PartialState", "accelerate.state.PartialState"):
            self.has_group = True
            return Thing("accelerator", key_of(unknown(node)), {}, node)
        if ARGUMENTS.fullmatch(whole):
            told = named.get("fsdp")
            engine = named.get("deepspeed")
            is_sharded = bool(told) and not isinstance(told, OpenValue)
            is_sharded = is_sharded or (isinstance(engine, str) and ZERO3.search(engine) is not None)
            own: Names = {"local_rank": self.seat.local, "process_index": self.seat.rank,
                             "local_process_index": self.seat.local, "world_size": self.seat.world}  # fmt: skip
            return Thing("training arguments", key_of(unknown(node)), {**own, "sharded": is_sharded or None}, node)
        if whole.startswith("torch.distributed.pipelining."):
            return self._pipeline(last, node, given, named)
        if whole == "wandb.init":
            self.do("logs a run", node, bool(named.keys() & {"group", "mode", "id", "settings"}) or "**" in named)
            return unknown(node, *given)
        if whole in DATA_PARALLEL:
            ids = named.get("device_ids", given[1] if len(given) > 1 else None)
            self.do("data parallel", node, ids)
            return unknown(node, *given)
        if whole.startswith("torch.optim.") and last[:1].isupper() and ".lr_scheduler" not in whole:
            return Thing("optimizer", key_of(unknown(node)), {}, node)
        if FABRICS.fullmatch(whole):
            self.has_group = True
            seat = self.seat
            places: Names = {"global_rank": seat.rank, "local_rank": seat.local, "is_global_zero": seat.rank == 0,
                             "world_size": seat.world}  # fmt: skip
            return Thing("fabric", key_of(unknown(node)), places, node)
        if TRAINERS.fullmatch(whole):
            self.has_group = True
            arguments = next((each for each in (*named.values(), *given) if _is(each, "training arguments")), None)
            is_sharded = self.environment.get(" sharded") is True or (
                arguments is not None and arguments.fields.get("sharded") is True
            )
            accelerator = Thing("accelerator", key_of(unknown(node, "accelerator")), {}, node)
            fields: Names = {"sharded": is_sharded, "accelerator": accelerator, "args": arguments or unknown(node, 1)}
            return Thing("trainer", key_of(unknown(node)), fields, node)
        if whole.startswith(IGNITE):
            return self._of_ignite(last, node, given, named)
        if ENGINES.fullmatch(whole):
            has_metrics = named.get("metrics") is not None and last != "create_supervised_trainer"
            return Thing("ignite engine", key_of(unknown(node)), {"metrics": has_metrics or None}, node)
        if RAY.match(whole):
            return self._of_ray(last, node, given, named)
        return NotImplemented

    def _sampler(self, node: ast.Call, given: list[Value], named: Names) -> Value:
        if not self.has_group and "num_replicas" not in named and len(given) < 2:
            self.do("early", node, "DistributedSampler")
        replicas = named.get("num_replicas", given[1] if len(given) > 1 else None)
        rank = named.get("rank", given[2] if len(given) > 2 else None)
        seed = named.get("seed", given[4] if len(given) > 4 else 0)
        if given and _is(given[0], "instance") and given[0].fields.get(" iterable") is True:
            self.do(
                "refused",
                node,
                "a DistributedSampler asks its data for a length, and an IterableDataset has none",
                "Split the stream in its own __iter__, by rank and by worker.",
            )
        if given:
            self.mark(given[0], "divided")
        self.do("sampler", node, (self.world if replicas is None else replicas, self.rank if rank is None else rank))
        self.do("sampler's seed", node, seed)
        shuffle = named.get("shuffle", given[3] if len(given) > 3 else True)
        fields: Names = {"sharded": True, "draws": shuffle is True}
        return Thing("sampler", key_of(unknown(node, self.seat.rank, *given)), fields, node)

    def _loader(self, node: ast.Call, given: list[Value], named: Names) -> Value:
        told = (*given[3:5], named.get("sampler"), named.get("batch_sampler"))
        data = given[0] if given else named.get("dataset")
        if _is(data, "instance") and data.fields.get(" iterable") is True:
            for name in ("sampler", "batch_sampler", "shuffle"):
                value = named.get(name)
                if value is not None and value is not False and not isinstance(value, OpenValue):
                    self.do(
                        "refused",
                        node,
                        f"DataLoader is told {name} for an IterableDataset, whose order is its own",
                        f"Leave {name} out; let the stream shuffle and split itself.",
                    )
                    break
        is_split = any(gives_own(each) for each in told) or gives_own(data)
        by_itself = any(_is(each, "own sampler") for each in told)
        is_plain = all(each is None or each is False or _is(each, "own sampler") for each in told)
        workers = named.get("num_workers", given[5] if len(given) > 5 else 0)
        has_workers = type(workers) is int and workers > 0
        if has_workers and _is(data, "instance"):
            if data.fields.get(" stream") is True and named.get("worker_init_fn") is None:
                self.do("workers of a stream", node, data)
            if named.get("persistent_workers") is True:
                self.put(data.fields, " lasting", True)
        if is_split and data is not None:
            self.mark(data, "divided")
        batches = named.get("batch_sampler")
        fields: Names = {"sharded": True if is_split else None, "plain": is_plain, "data": data, "dataset": data,
                         "by itself": by_itself or None,
                         "shuffles": named.get("shuffle"), "batches": batches,
                         "sampler": next((each for each in told if _is(each, "sampler")), None)}  # fmt: skip
        return Thing("loader", key_of(unknown(node, *given)), fields, node)

    def _progress(self, node: ast.Call, items: Value, named: Names) -> Value:
        """A bar that is switched off counts nothing (tqdm.std.update: `if self.disable: return`)."""
        if isinstance(items, Thing):
            return items
        return Thing(
            "progress",
            key_of(unknown(node, items)),
            {"n": 0 if named.get("disable") is True else unknown(node, "n"), "items": items},
            node,
        )

    def _of_accelerate(self, node: ast.Call, name: str, holder: Thing, given: list[Value], named: Names) -> Value:
        sharded = holder.fields.get("sharded") is True
        if name in OF_ACCELERATOR or (name in ("save_state", "get_state_dict", "load_state") and sharded):
            self.meet(name, node)
            result = shared(unknown(node, *given))
            return self.mark(result, "graphless") if name.startswith("gather") else result
        if name == "prepare":
            self.wraps = True
            kinds = {each.kind if isinstance(each, Thing) else "" for each in given}
            self.do("prepares", node, bool(kinds) and kinds <= {"optimizer", "loader", "schedule of rates"})
            is_plain = holder.fields.get("plain") is True and self.environment.get(" plain") is True
            made = tuple(self._prepared(node, place, each, is_plain) for place, each in enumerate(given))
            return made[0] if len(made) == 1 else made
        if name in ("prepare_data_loader", "skip_first_batches") and given:
            return self._prepared(node, 0, given[0])
        if name == "backward":
            self.do("backward", node)
            if given and self.is_marked(given[0], "graphless"):
                self.do("backward without a graph", node)
            self.meet("backward", node, is_weak=True)
            return None
        if name == "unwrap_model" and given and isinstance(given[0], Thing):
            return given[0].fields.get("inner", given[0])
        return unknown(node, holder, *given)

    def _prepared(self, node: ast.Call, place: int, value: Value, is_plain: bool = False) -> Value:
        named = ast.unparse(node.args[place]) if place < len(node.args) else ""
        if isinstance(value, OpenValue) and MODELS.search(named):
            value = Thing("moved", value.key, {}, node)
        if _is(value, "model") or _is(value, "moved"):
            self.put(value.fields, " wrapped", True)
            by_torch = is_plain and self.seat.world > 1 and not self.seat.is_assumed
            return Thing("ddp", key_of(unknown(node, place)), {"inner": value, "of torch": by_torch or None}, node)
        if _is(value, "loader"):
            fields: Names = {"sharded": True, "draws together": value.fields.get("shuffles")}
            return Thing("loader", key_of(unknown(node, place, self.seat.rank)), fields, node)
        return value

    def _of_trainer(self, node: ast.Call, name: str, holder: Thing) -> Value:
        if name in ("is_world_process_zero", "is_local_process_zero"):
            return (self.seat.rank if "world" in name else self.seat.local) == 0
        if name in OF_TRAINER or (name in SAVES_SHARDS and holder.fields.get("sharded") is True):
            self.meet(f"trainer.{name}", node)
        return unknown(node, holder)

    def _of_lightning(self, node: ast.Call, name: str, kind: str, named: Names) -> Value:
        waits = (
            name in ("barrier", "broadcast", "reduce", "all_gather", "reduce_boolean_decision")
            if kind == "lightning strategy"
            else name in ("save_checkpoint", "validate", "test", "predict", "fit")
            if kind == "lightning trainer"
            else name == "all_gather" or (name in ("log", "log_dict") and named.get("sync_dist") is True)
        )
        if waits and named.get("rank_zero_only") is not True:
            self.meet(f"self.{name}" if kind == "lightning" else name, node)
        return unknown(node, "alike")

    def _of_fabric(self, node: ast.Call, name: str, holder: Thing, given: list[Value]) -> Value:
        if name in OF_FABRIC:
            self.meet(name, node)
            return unknown(node, "alike")
        if name == "backward":
            self.do("backward", node)
            self.meet("backward", node, is_weak=True)
            return None
        if name in ("setup", "setup_dataloaders", "setup_module"):
            self.wraps = True
            made = tuple(self._prepared(node, place, each) for place, each in enumerate(given))
            return made[0] if len(made) == 1 else made
        return unknown(node, holder, *given)

    def _of_ignite(self, name: str, node: ast.Call, given: list[Value], named: Names) -> Value:
        places = {"get_rank": self.seat.rank, "get_local_rank": self.seat.local, "get_world_size": self.seat.world,
                  "get_node_rank": self.seat.node}  # fmt: skip
        if name in places:
            return places[name]
        if name in OF_IGNITE:
            self.meet(name, node)
            return unknown(node, "alike")
        if name == "auto_dataloader":
            return Thing("loader", key_of(unknown(node, self.seat.rank)), {"sharded": True}, node)
        if name == "auto_model":
            self.wraps = True
            return Thing("ddp", key_of(unknown(node)), {"inner": given[0] if given else None}, node)
        if name == "auto_optim" and given:
            return given[0]
        if name == "Parallel":
            return Thing("parallel", key_of(unknown(node)), {"count": named.get("nproc_per_node")}, node)
        return unknown(node, *given)

    def _of_parallel(self, node: ast.Call, holder: Thing, given: list[Value]) -> Value:
        """idist.Parallel(...).run(function, ...) hands it the local rank first."""
        count = holder.fields.get("count")
        if given and isinstance(given[0], FollowedFunction):
            if type(count) is int and 1 < count <= 64:
                self.spawned += [(given[0], (index, *given[1:]), node) for index in range(count)]
            elif count is None:
                self.called_by(given[0], (self.seat.local, *given[1:]), node)
        return unknown(node)

    def called_by(self, function: Value, given: tuple[Value, ...], node: ast.Call) -> None:
        raise NotImplementedError

    def _of_ray(self, name: str, node: ast.Call, given: list[Value], named: Names) -> Value:
        places = {
            "get_world_rank": self.seat.rank,
            "get_local_rank": self.seat.local,
            "get_world_size": self.seat.world,
        }
        if name == "get_context":
            return Thing("ray context", key_of(unknown(node)), dict(places), node)
        if name in places:
            return places[name]
        if name == "report":
            self.meet("train.report", node)
            return None
        if name == "prepare_data_loader":
            return Thing("loader", key_of(unknown(node, self.seat.rank)), {"sharded": True}, node)
        if name == "prepare_model":
            self.wraps = True
            inner = given[0] if given else None
            return Thing("ddp", key_of(unknown(node)), {"inner": inner, "name": "the model"}, node)
        if name == "ScalingConfig":
            count = named.get("num_workers", given[1] if len(given) > 1 else None)
            return Thing("scaling", key_of(unknown(node)), {"count": count}, node)
        if name == "TorchTrainer":
            function = given[0] if given else named.get("train_loop_per_worker")
            scaling = next((each for each in (*named.values(), *given) if _is(each, "scaling")), None)
            count = scaling.fields.get("count") if scaling is not None else None
            config = named.get("train_loop_config", unknown(node, "config"))
            if isinstance(function, FollowedFunction):
                takes = (config,) if function.node.args.args else ()
                self.spawned += [(function, takes, node) for _ in range(count if _is_some(count) else 2)]
        return unknown(node, *given)

    def _items_of(self, node: ast.AST, items: Value) -> Value:
        """One item of what is gone through: of a sharded loader it is this rank's own."""
        if gives_own(items):
            return OpenValue(unknown(node, "item", items).key, True)
        found = unknown(node, "item", items)
        return found if not isinstance(items, Thing) or is_own(items) else shared(found)


def _is(value: Value, kind: str) -> TypeGuard[Thing]:
    return isinstance(value, Thing) and value.kind == kind


def _is_some(count: Value) -> TypeGuard[int]:
    return type(count) is int and 1 < count <= 64
