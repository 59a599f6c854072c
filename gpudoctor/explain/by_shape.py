"""Of what kind an exception is that no table knows, by its shape: whose attribute is missing, what a key looks like,
what a failed assert asks, and what the function that raised does. The names are Python's and those that programs have
by custom (cfg, args, load_state_dict): no library's messages.
"""

import builtins
import re

from gpudoctor.cause import Judged
from gpudoctor.explain.by_library_code import by_library_code
from gpudoctor.explain.kinds import ARGUMENT, CHECKPOINT, CONFIG, DATA, DIED, FILE, MISMATCH, NAN, NO_DEVICE, SHAPE
from gpudoctor.explain.stacks import LIBRARY
from gpudoctor.lazy import lazy_re

LACKS = lazy_re(r"^'(?P<owner>[\w.]{1,100})' object has no attribute '(?P<name>\w{1,100})'")
BUILTIN = frozenset(
    {
        *(name for name, value in vars(builtins).items() if isinstance(value, type)),
        *("NoneType", "function", "method", "builtin_function_or_method", "generator", "module", "Tensor", "ndarray"),
    }
)
SETTINGS_READ = frozenset({"Namespace", "ConfigDict", "DictConfig", "EasyDict", "AttrDict", "CfgNode", "Munch"})
"""Types of settings whose entries are what a file or a command line gave: argparse, mmcv and ml_collections, OmegaConf,
easydict, yacs, munch."""
OF_SETTINGS = lazy_re(r"(?:Namespace|Config|Conf|Cfg|Args|Arguments|Options|Settings|Params|Flags)$|Dict$")
"""How types of settings are called: argparse's Namespace, OmegaConf's DictConfig, AttrDict, EasyDict."""
SETTINGS = lazy_re(r"\b(?:cfg|config|conf|args|opts?|hparams|hps|params|settings|flags|FLAGS)\b\s?[.\[]")
WEIGHT = lazy_re(r"^['\"][\w.]+\.(?:weight|bias|scale|running_(?:mean|var)|in_proj_weight|lora_[AB])\S{0,40}['\"]$")
"""A parameter's name as a state dict has it."""
LOADS = lazy_re(
    r"(?i)(?:load|restor|resum|sav)\w{0,12}_?(?:state|checkpoint|ckpt|weight|model|optim|pretrained)|from_pretrained"
    r"|^(?:resume|restore)(?:_|$)"
)
OF_LOADING = lazy_re(
    r"[/\\](?:dist_checkpointing|distributed[/\\]checkpoint|checkpoint_engine|torch[/\\]serialization|"
    r"torch[/\\]optim)[/\\.]|"
    r"(?<!utils)(?<!activation_checkpointing)[/\\](?:serialization|checkpoint(?:ing|s|er|_utils)?)\.py$"
)
"""Where state is loaded, or used first as it was loaded: an optimizer's own is of its parameters' sizes."""
OF_A_PIPE = lazy_re(r"[/\\]multiprocessing[/\\](?:connection|managers|reduction|popen_\w{4,12})\.py$")
"""What another process was to send: that one has ended."""
REGISTRY = lazy_re(r"_auto\.py$|registry\.py$|[/\\]auto[/\\]")
"""Where a package looks up by a name what it has: a name that is missing is one of another release."""
OF_ASSERTS: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (lazy_re(asked), judged)
    for asked, judged in (
        (r"\bpath\.(?:exists|is(?:file|dir))\(|\.(?:exists|is_file|is_dir)\(\)", FILE),
        (r"\bis(?:nan|inf|finite)\b", NAN),
        (r"\bcuda\.(?:is_available|device_count)\b|\bis_cuda\b", NO_DEVICE),
        (r"__version__|\bversion\b", MISMATCH),
        (r"\b(?:missing|unexpected)(?:_keys)?\b|state_dict|\bcheckpoint|\bckpt", CHECKPOINT),
        (SETTINGS.pattern, CONFIG),
        (r"\.shape\b|\.size\(|\.ndim\b|\.dim\(\)", SHAPE),
        (r"\b(?:data\w*|samples?|labels?|images?|files|targets?)\b", DATA),
    )
)
"""What an assert's condition asks of, the first that fits."""


def by_shape(
    judged: Judged, type_name: str, message: str, raised_in: str, raised_by: str, called_by: str, code: str
) -> Judged:
    """`judged`: what the type and the message tell. `code`: the source of the innermost frame. See `judged_exception`
    for the others."""
    if of_place := by_library_code(type_name, message, raised_in, code):
        return DATA if of_place == "longer-than-positions" else MISMATCH
    name = type_name.rpartition(".")[2]
    is_own = not (raised_in and LIBRARY.search(raised_in))
    if name == "AttributeError" and judged in (MISMATCH, ARGUMENT) and (lacks := LACKS.match(message)):
        owner = lacks["owner"].rpartition(".")[2]
        if owner in BUILTIN and owner != "module":
            return ARGUMENT
        if owner in SETTINGS_READ or (OF_SETTINGS.search(owner) and is_own):
            return CONFIG
    elif judged == SHAPE and (OF_LOADING.search(raised_in) or LOADS.search(raised_by)):
        return CHECKPOINT
    elif name == "EOFError" and OF_A_PIPE.search(raised_in):
        return DIED
    elif name == "KeyError" and judged == DATA:
        if WEIGHT.match(message) or LOADS.search(raised_by) or LOADS.search(called_by):
            return CHECKPOINT
        if REGISTRY.search(raised_in):
            return MISMATCH
        if SETTINGS.search(code):
            return CONFIG
    elif name == "AssertionError" and judged.kind == "assertion":
        asked = code.partition("assert")[2].rpartition(",")[0] or code.partition("assert")[2]
        return next((of for words, of in OF_ASSERTS if words.search(asked)), judged)
    return judged
