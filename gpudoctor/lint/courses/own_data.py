"""What one rank alone knows: what it draws, and what it computes from its part of the data."""

import ast

from gpudoctor.lazy import lazy_re

OF_OWN = lazy_re(
    r"(?:random\.|datetime\.(?:datetime|date)\.(?=now|utcnow|today)|numpy\.random\.|secrets\.|uuid\.|time\.|os\.(?:getpid|urandom)|socket\.|tempfile\.(?!gettempdir))\w*"
)
"""What each process draws or finds for itself."""
SEEDS = lazy_re(r"seed(?:_\w+)?$")
OF_ITS_ARGUMENTS = lazy_re(r"(?:math|numpy|os\.path|torch(?!\.(?:distributed|multiprocessing|hub|jit)\b))\.[\w.]+")
"""Functions whose result is computed from what they are given, and from nothing of other ranks."""
BUILTINS = frozenset(("abs", "all", "any", "bool", "float", "int", "len", "list", "max", "min", "round", "sum"))
METHODS = frozenset(
    ("abs", "all", "any", "clone", "cpu", "cuda", "detach", "double", "float", "isfinite", "isinf", "isnan", "item",
     "max", "mean", "min", "norm", "numpy", "square", "sqrt", "std", "sum", "to", "tolist", "view", "pow", "exp", "log",
     "argmax", "argmin", "eq", "ne", "flatten", "reshape", "squeeze", "unsqueeze", "softmax", "log_softmax", "long",
     "strftime", "isoformat", "numel", "nelement", "size", "count_nonzero",
     "topk", "sigmoid", "clamp", "relu", "transpose", "var")
)  # fmt: skip
"""Of tensors and arrays, likewise."""
OF_WRAPPER = frozenset(
    ("module", "no_sync", "join", "register_comm_hook", "forward", "training", "device", "device_ids", "output_device",
     "find_unused_parameters", "broadcast_buffers", "reducer", "logger", "static_graph", "process_group", "dim",
     "add_module", "apply", "bfloat16", "buffers", "children", "compile", "cpu", "cuda", "double", "eval",
     "extra_repr", "float", "get_buffer", "get_extra_state", "get_parameter", "get_submodule", "half", "ipu",
     "load_state_dict", "modules", "named_buffers", "named_children", "named_modules", "named_parameters",
     "parameters", "register_buffer", "register_forward_hook", "register_forward_pre_hook",
     "register_full_backward_hook", "register_backward_hook", "register_load_state_dict_post_hook", "register_module",
     "register_parameter", "register_state_dict_pre_hook", "requires_grad_", "set_extra_state", "set_submodule",
     "share_memory", "state_dict", "to", "to_empty", "train", "type", "xpu", "zero_grad", "gradient_as_bucket_view",
     "require_forward_param_sync", "will_sync_module_buffers", "dump_patches", "require_backward_grad_sync",
     "parameters_to_ignore", "mixed_precision", "bucket_bytes_cap")
)  # fmt: skip
"""What DistributedDataParallel has itself: anything else is its module's, and the wrapper hands nothing on."""
READS_INSIDE = frozenset(
    ("state_dict", "load_state_dict", "parameters", "named_parameters", "buffers", "named_buffers", "modules",
     "named_modules", "eval", "train", "save_pretrained", "to", "cuda", "cpu", "zero_grad", "config", "device", "dtype",
     "children", "named_children", "requires_grad_", "apply", "push_to_hub", "save", "half", "float", "generate")
)  # fmt: skip
"""Methods of a model below its wrapper that are no part of a training step."""


def computes(call: ast.Call, whole: str) -> bool:
    """Whether a call computes from its arguments alone. Any other may talk to the other ranks, and what it gives is
    then alike on all."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in METHODS:
        return True
    if isinstance(call.func, ast.Name) and not whole:
        return call.func.id in BUILTINS
    return OF_ITS_ARGUMENTS.fullmatch(whole) is not None
