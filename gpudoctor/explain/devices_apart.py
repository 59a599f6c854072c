"""What torch says where tensors that must lie on one device lie on two: which fix it is of a program's error.

In which words is read from the libraries of torch 1.0 to 2.14. Before 1.6 each operator had its own; since then most
say "Expected all tensors to be on the same device", and what is left says of two named things that they are not "on
the same device".
"""

import ast
import re

from gpudoctor.lazy import lazy_re

_DEVICE = r"(?:cpu|[a-z]{2,20}:\d{1,4}|cuda|mps|xpu|xla|hpu|npu|meta)"
OF_DATA_PARALLEL = lazy_re(
    rf"module must have its parameters and buffers on device (?P<device>{_DEVICE}) \(device_ids\[0\]\) but found one "
    rf"of them on device: (?P<other>{_DEVICE})"
)
"""torch nn/parallel/data_parallel.py; DistributedDataParallel has other words."""
_TYPE = r"(?:torch\.(?:cuda\.)?\w{1,20}Tensor|(?:Variable\[)?(?:CUDA|CPU)\w{1,20}?(?:Type|Tensor)\]?)"
OF_TYPES = lazy_re(
    rf"[Ii]nput type \((?P<other>{_TYPE})\) and (?P<argument>weight|bias) type \((?P<device>{_TYPE})\) should be|"
    rf"[Ee]xpected (?:object of )?type (?P<device2>{_TYPE}) but (?:found|got)(?: type)? (?P<other2>{_TYPE})"
    r"(?: for argument #\d{1,3} '(?P<argument2>\w{1,40})')?"
)
"""ATen native/Convolution.cpp, to this day; what checked the arguments of torch up to 1.0 (Type.cpp)."""
OF_ONE_DEVICE = lazy_re(
    r"\b(?:[Ee]xpect(?:s|ed)?|must|should|needs?|not)\b[^\n]{0,160}\b(?:on|in|at|have|be) (?:the )?same (?:GPU |CUDA )?"
    r"device\b|is not on the expected device|found two different devices|"
    r"\b(?:located on|are on) different (?:GPU|device)s|but expected (?:it|them) to be on GPU|"
    r"[Ee]xpected (?:object of )?(?:backend|device type|device) \S{3,20}(?: and dtype \w{1,20})? but got |"
    r"must be on the current device"
)
OF_OTHER_THINGS = lazy_re(
    r"^(?:Events|Expected all futures|\S{0,40}storages)\b|\bon the same devices\b|"
    r"\b(?:must not|should not|may not|cannot|can't) (?:all )?be (?:on|in|at) (?:the )?same\b|"
    r"\b(?:ranks\b|processes\b|rank \d+ and )[^\n]{0,80}\bsame (?:GPU |CUDA )?device\b"
)
"""Also what is said of ranks: each of them has a device of its own."""
OF_ARGUMENT = (
    lazy_re(
        rf"found at least two devices, (?P<device>{_DEVICE}) and (?P<other>{_DEVICE})! "
        r"\(when checking aru?gu?ment for argument (?P<argument>\w{1,40})(?: in method (?P<method>\w{1,80}))?"
    ),
    lazy_re(
        rf"but got (?P<argument>\w{{1,40}}) is on (?P<other>{_DEVICE}), different from other tensors on "
        rf"(?P<device>{_DEVICE})(?: \(when checking argument in method (?P<method>\w{{1,80}}))?"
    ),
    lazy_re(
        r"tensor for argument #\d{1,3} '(?P<argument>\w{1,40})' to have the same device as tensor for argument #\d{1,3}"
        r" '\w{1,40}'; but device (?P<other>\d{1,3}) does not equal (?P<device>\d{1,3})"
        r"(?: \(while checking arguments for (?P<method>\w{1,80}))?"
    ),
    lazy_re(
        r"Tensor for argument #\d{1,3} '(?P<argument>\w{1,40})' is on (?P<other>CPU), but expected it to be on "
        r"(?P<device>GPU)(?: \(while checking arguments for (?P<method>\w{1,80}))?"
    ),
    lazy_re(
        r"[Ee]xpected object of (?:backend|device type) (?P<device>\w{3,20}) but got (?:backend|device type) "
        r"(?P<other>\w{3,20}) for argument #\d{1,3} '(?P<argument>\w{1,40})'(?: in call to (?P<method>\w{1,80}))?"
    ),
)
"""Those that name an argument: it is on `other`, and those that were looked at before it on `device`. ATen
core/adaption.cpp, TensorUtils.cpp (checkSameGPU, checkBackend), LegacyTHFunctions of torch up to 1.11."""
ANY_DEVICE = lazy_re(rf"(?<![\w.']){_DEVICE}(?![\w'])|\b(?:CPU|GPU|CUDA)\b(?! tensor)")
EITHER = "either on cpu or "
"""TensorAdvancedIndexing: the one device that is right for any other."""
INPUTS = frozenset({"mat1", "input"})
EMBEDS = "index_select"
"""The operator of an embedding, whose input is called index."""
LAYERS = frozenset({"weight", "bias", "running_mean", "running_var"})
"""Arguments of a layer's operators (native_functions.yaml): mat1 of addmm is what a Linear is given."""
LONGEST = 1_000


def devices_apart(message: str, *, alone: bool, source: str = "") -> tuple[str, dict[str, str]] | None:
    """The variant of the cause program-error, and values for its text; None where a message says nothing of it.
    `alone`: nothing speaks of several ranks, of which each has a GPU of its own. `source`: the line of the program."""
    message = message[:LONGEST]
    if match := OF_DATA_PARALLEL.search(message):
        return "data-parallel", match.groupdict()
    devices = _told(message)
    if devices is None:
        return None
    if not alone:
        return "two-devices-of-a-rank", {"device": devices["device"], "other": devices["other"]}
    name = devices.get("argument", "")
    met = f"{name} is on {devices['other']}, the rest on {devices['device']}" if name else ""
    met = met or f"{devices['device']} and {devices['other']} met"
    line = _to_write(devices, source)
    if not line and (call := _call(source)):
        line = f"{call[0]}({call[1]}.to(next({call[0]}.parameters()).device))"
    return ("two-devices-line", {"met": met, "line": line}) if line else ("two-devices", {"met": met})


def is_of_two_devices(message: str) -> bool:
    """Whether that is what a message tells."""
    return "must have its parameters and buffers on device" in message or _told(message[:LONGEST]) is not None


def _told(message: str) -> dict[str, str] | None:
    """The two devices, and the argument and the operator where they are named."""
    if match := OF_TYPES.search(message):
        device, other = (_device(match[name] or match[f"{name}2"]) for name in ("device", "other"))
        argument = match["argument2"] or ""
        if match["argument"]:  # the layer's: it is the input that is other
            argument = "input"
        return {"device": device, "other": other, "argument": argument} if device != other else None
    if not OF_ONE_DEVICE.search(message) or OF_OTHER_THINGS.search(message):
        return None
    if match := next((match for words in OF_ARGUMENT if (match := words.search(message))), None):
        values = {name: value for name, value in match.groupdict().items() if value}
        return values | {name: _device(values[name]) for name in ("device", "other")}
    named = [_device(text) for text in ANY_DEVICE.findall(message.replace(EITHER, ""))]
    every = list(dict.fromkeys(named))
    if "but got device" in message and len(every) < 2:  # of one device: it is the dtype that differs
        return None
    return {"device": every[0] if every else "one device", "other": every[1] if len(every) > 1 else "another"}


def _device(word: str) -> str:
    """ "cuda:1" of a number, "cuda" of GPU and torch.cuda.FloatTensor, "cpu" of torch.FloatTensor."""
    if word.isdecimal():
        return f"cuda:{word}"
    if re.fullmatch(_DEVICE, word):
        return word
    return "cuda" if re.search(r"cuda|GPU", word, re.IGNORECASE) else "cpu"


def _to_write(values: dict[str, str], source: str) -> str:
    """The call with its argument moved, where it is certain which side is the layer; else empty."""
    argument, method = values.get("argument", ""), values.get("method", "")
    of_loss = "loss" in method
    if argument == "index" and method.endswith(EMBEDS):
        argument = "input"
    if of_loss and argument == "target":
        return f'labels.to("{values["device"]}")'
    if of_loss or argument not in INPUTS | LAYERS:
        return ""
    layer, given = ("device", "other") if argument in INPUTS else ("other", "device")
    if values[layer] == "cpu":  # what was forgotten is the model
        return f'model.to("{values[given]}")'
    call = _call(source)
    return f'{call[0]}({call[1]}.to("{values[layer]}"))' if call else f'x.to("{values[layer]}")'


def _call(source: str) -> tuple[str, str] | None:
    """("self.second", "x") of `return self.second(x)`: the one call of a line, of a part of the model by one name."""
    try:
        tree = ast.parse(source.strip().removeprefix("return ").strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if len(calls) != 1 or len(calls[0].args) != 1 or calls[0].keywords or not isinstance(calls[0].args[0], ast.Name):
        return None
    own = isinstance(calls[0].func, ast.Attribute) and isinstance(calls[0].func.value, ast.Name)
    if own and isinstance(calls[0].func, ast.Attribute) and getattr(calls[0].func.value, "id", "") == "self":
        return ast.unparse(calls[0].func), calls[0].args[0].id
    return None
