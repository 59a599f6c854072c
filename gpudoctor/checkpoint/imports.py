"""What a checkpoint's pickle may name: what torch.load allows, plain data of other packages, and what attacks use."""

from typing import Literal

from gpudoctor.checkpoint.values import ITEM_BYTES, Name
from gpudoctor.lazy import lazy_re

Standing = Literal["allowed", "plain data", "other code", "dangerous"]
"""allowed: torch.load(weights_only=True) takes it. plain data: harmless, and torch.load refuses it. other code: a class
or function of the training's own packages. dangerous: no checkpoint needs it, and attacks do."""

PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg", "cPickle": "pickle", "UserDict": "collections"}
"""Names of modules in pickles of protocol 2, which torch.save writes (pickle's IMPORT_MAPPING)."""

ALLOWED = {
    "collections.OrderedDict",
    "collections.Counter",
    "torch.nn.parameter.Parameter",
    "torch.nn.Parameter",
    "torch.serialization._get_layout",
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "torch._tensor._rebuild_from_type_v2",
    "_codecs.encode",
    "builtins.bytearray",
    "builtins.set",
    "builtins.complex",
    "torch.per_tensor_affine",
    "torch.per_tensor_symmetric",
    "torch.per_channel_affine",
    "torch.per_channel_symmetric",
    "torch.per_channel_affine_float_qparams",
    *(f"torch.{dtype}" for dtype in ITEM_BYTES),
}
"""torch/_weights_only_unpickler.py of torch 2.13; storages and _rebuild functions by pattern."""
ALLOWED_PATTERN = lazy_re(
    r"torch\.(cuda\.)?\w*Storage|torch\.storage\.(Untyped|Typed)Storage|torch\.(cuda\.)?(sparse\.)?\w*Tensor"
    r"|torch\.u?int[1-7]|torch\.bits\w+"
    r"|torch\._utils\._rebuild_(parameter|parameter_with_state|qtensor|tensor|tensor_v2|tensor_v3|sparse_tensor"
    r"|meta_tensor_no_storage|nested_tensor|wrapper_subclass|device_tensor_from_numpy|device_tensor_from_cpu_tensor)"
)
DISTRIBUTED = lazy_re(r"torch\.distributed\.(tensor|device_mesh|_mesh_layout|_tensor)\b.*")
"""Allowed once torch.distributed.tensor is imported."""

PLAIN = {
    "argparse.Namespace",
    "types.SimpleNamespace",
    "collections.defaultdict",
    "collections.deque",
    "copyreg._reconstructor",
    "copyreg.__newobj__",
    "decimal.Decimal",
    "fractions.Fraction",
    "uuid.UUID",
    "torch.torch_version.TorchVersion",
    "typing.Any",
    *(f"datetime.{name}" for name in ("datetime", "date", "time", "timedelta", "timezone")),
    *(f"pathlib.{name}" for name in ("Path", "PosixPath", "WindowsPath", "PurePath", "PurePosixPath")),
    *(f"pathlib._local.{name}" for name in ("Path", "PosixPath", "WindowsPath", "PurePosixPath")),
    *(
        f"builtins.{name}"
        for name in ("int", "float", "str", "bytes", "bool", "list", "dict", "tuple", "frozenset", "slice", "range")
    ),
    "builtins.object",
    *(f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *(f"numpy.{core}.numeric._frombuffer" for core in ("core", "_core")),
    "numpy.dtype",
    "numpy.ndarray",
}
PLAIN_PATTERN = lazy_re(
    r"numpy\.(dtypes\.\w+|(u?int|float|complex)\d+|bool_?|str_|bytes_)|omegaconf\.[\w.]+|(pytorch_)?lightning[\w.]*\.AttributeDict"
)

_MODULES = """
    os posix nt sys subprocess pty socket shutil runpy importlib imp ctypes _ctypes pickle _pickle codeop commands
    webbrowser bdb pdb timeit asyncio multiprocessing threading urllib urllib2 http ftplib smtplib telnetlib
    requests httpx pip pkgutil marshal cloudpickle dill posixpath ntpath tempfile linecache zipimport sysconfig
    cProfile idlelib _posixsubprocess _winapi winreg sqlite3 torch.hub torch.utils.cpp_extension
    torch.utils.collect_env torch.distributed.rpc torch._dynamo torch._inductor numpy.f2py numpy.testing
    numpy.distutils numpy.ctypeslib
"""
DANGEROUS_MODULES = frozenset(_MODULES.split())
"""Modules that start programs, open connections or load code; no training puts its own classes there."""
DANGEROUS = {
    *(
        f"builtins.{name}"
        for name in (
            "eval",
            "exec",
            "compile",
            "open",
            "getattr",
            "setattr",
            "delattr",
            "__import__",
            "globals",
            "vars",
        )
    ),
    *(f"builtins.{name}" for name in ("locals", "input", "breakpoint", "help", "apply", "execfile", "file", "map")),
    *(f"{module}.{name}" for module in ("operator", "_operator") for name in ("attrgetter", "methodcaller")),
    "code.interact",
    "code.InteractiveInterpreter",
    "code.InteractiveConsole",
    "profile.run",
    "trace.Trace",
    "types.FunctionType",
    "types.CodeType",
    "types.MethodType",
    "types.LambdaType",
    "torch.load",
    "torch.save",
    "torch.storage._load_from_bytes",
    "torch.serialization.load",
    "numpy.load",
    "numpy.save",
    "functools.reduce",
    "copyreg.add_extension",
}
"""Each runs, loads or imports something that another argument names."""


def standing(name: Name) -> Standing:
    """Which kind of name it is."""
    full = name.full
    if full in ALLOWED or ALLOWED_PATTERN.fullmatch(full) or DISTRIBUTED.fullmatch(full):
        return "allowed"
    if full in PLAIN or PLAIN_PATTERN.fullmatch(full):
        return "plain data"
    parts = full.split(".")
    if full in DANGEROUS or any(".".join(parts[:end]) in DANGEROUS_MODULES for end in range(1, len(parts))):
        return "dangerous"
    return "other code"
