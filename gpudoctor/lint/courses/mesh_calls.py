"""One rank's way through a program: device meshes, their groups, and stages of a pipeline."""

import ast
import math

from gpudoctor.lint.courses.contract_calls import ContractCalls
from gpudoctor.lint.courses.values import Names, Thing, Value, key_of, unknown

NARROW = "Write a mesh whose sizes multiply to the world size that is started."


class MeshCalls(ContractCalls):
    def _mesh(self, node: ast.Call, given: list[Value], named: Names) -> Value:
        self.has_group = True
        if self.world is None and self.seat.launch is not None:  # it joins by the launcher's variables itself
            self.rank, self.world = self.seat.rank, self.seat.world
        device = given[0] if given else named.get("device_type")
        shape = given[1] if len(given) > 1 else named.get("mesh_shape")
        names = named.get("mesh_dim_names", given[2] if len(given) > 2 else None)
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        dims = tuple(names) if isinstance(names, (tuple, list)) else None
        if isinstance(device, str) and ":" in device:
            self.do("refused", node, f"a mesh is told the device {device!r}, and takes a type alone", 'Write "cuda".')
        if dims is not None and isinstance(shape, (tuple, list)) and len(dims) != len(sizes):
            self.do("refused", node, f"the mesh has {len(sizes)} sizes and {len(dims)} names", "Name each dimension.")
        if dims is not None and all(isinstance(each, str) for each in dims) and len(set(dims)) < len(dims):
            self.do("refused", node, "two dimensions of the mesh have one name", "Name each dimension otherwise.")
        known = all(type(each) is int and each > 0 for each in sizes)
        world = self.world if self.world is not None else None if self.seat.is_assumed else self.seat.world
        total = math.prod(sizes) if known else None
        if total is not None and world is not None and total > world > 1 and not self.seat.is_assumed:
            shown = " x ".join(map(str, sizes))
            self.do("refused", node, f"the mesh of {shown} wants {total} ranks, and the world has {world}", NARROW)
        fields: Names = {"sizes": sizes if known else None, "dims": dims, "chosen": None}
        return Thing("mesh", key_of(unknown(node, shape, names)), fields, node)

    def part_of_mesh(self, node: ast.Subscript, mesh: Thing, place: Value) -> Value:
        """mesh["tp"]"""
        dims = mesh.fields.get("dims")
        wanted = place if isinstance(place, tuple) else (place,)
        if dims is None and mesh.fields.get("sizes") is not None and isinstance(place, str):
            self.do("refused", node, "a mesh without names is asked for a dimension by name",
                    "Give init_device_mesh mesh_dim_names.")  # fmt: skip
        elif dims is not None and all(isinstance(each, str) for each in (*dims, *wanted)):
            absent = next((each for each in wanted if each not in dims), None)
            if absent is not None and not mesh.fields.get("flattened"):
                self.do("refused", node, f"the mesh has no dimension {absent!r}: it has {', '.join(dims)}",
                        "Write a name that init_device_mesh was given.")  # fmt: skip
        fields = dict(mesh.fields) | {"chosen": wanted}
        return Thing("mesh", key_of(unknown(node, mesh, place)), fields, node)

    def _of_mesh(self, node: ast.Call, name: str, mesh: Thing, given: list[Value], named: Names) -> Value:
        if name == "_flatten":
            self.put(mesh.fields, "flattened", True)
            return unknown(node, mesh)
        dims, sizes, chosen = (mesh.fields.get(each) for each in ("dims", "sizes", "chosen"))
        at = given[0] if given else named.get("mesh_dim")
        if chosen is None and at is not None:
            chosen = (at,)
        if name == "get_group" and chosen is None and sizes is not None and len(sizes) > 1:
            self.do("refused", node, f"get_group of a mesh of {len(sizes)} dimensions is told none",
                    "Write mesh.get_group(\"dp\"), or mesh[\"dp\"].get_group().")  # fmt: skip
        place = self._place(dims, chosen)
        rank = self.rank if self.rank is not None else self.seat.rank
        if sizes is None or place is None or not 0 <= place < len(sizes) or math.prod(sizes) != self.seat.world:
            return unknown(node, mesh, self.seat.rank, *given)
        stride = math.prod(sizes[place + 1 :])
        own = rank // stride % sizes[place]
        if name == "get_local_rank":
            return own
        if name == "size":
            return sizes[place]
        if name == "get_group":
            first = rank - own * stride
            ranks = tuple(first + each * stride for each in range(sizes[place]))
            return Thing("group", key_of(unknown(node, mesh, ranks)), {"ranks": ranks})
        return unknown(node, mesh, self.seat.rank, *given)

    def _place(self, dims: Value, chosen: Value) -> int | None:
        if not isinstance(chosen, tuple) or len(chosen) != 1:
            return None
        if type(chosen[0]) is int:
            return chosen[0]
        return dims.index(chosen[0]) if isinstance(dims, tuple) and chosen[0] in dims else None

    def _pipeline(self, last: str, node: ast.Call, given: list[Value], named: Names) -> Value:
        """Calls of torch.distributed.pipelining."""
        if last == "PipelineStage":
            count = named.get("num_stages", given[2] if len(given) > 2 else None)
            return Thing("stage", key_of(unknown(node)), {"count": count}, node)
        if last == "Schedule1F1B":
            stage = given[0] if given else named.get("stage")
            parts = named.get("n_microbatches", given[1] if len(given) > 1 else None)
            count = stage.fields.get("count") if isinstance(stage, Thing) and stage.kind == "stage" else None
            if type(parts) is int and type(count) is int and parts < count:
                self.do("refused", node, f"{parts} microbatches are fewer than the {count} stages of the pipeline",
                        f"Write n_microbatches={count} or more.")  # fmt: skip
            return Thing("schedule", key_of(unknown(node)), {}, node)
        return unknown(node, *given)
