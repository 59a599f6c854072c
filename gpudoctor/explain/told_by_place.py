"""What an exception tells by where it was raised, and by the source line there: fixes of a program's error.

Python raises a TypeError of a wrong call where the call stands. A call that stands in an installed package, of what is
not there or takes other arguments, was written for another release of what it calls.
"""

import ast
import re

from gpudoctor.explain.own_fixes import command_fix
from gpudoctor.knowledge.hugging_face_arguments import PACKAGES, lost_argument
from gpudoctor.knowledge.pytorch.signatures import OF_APEX, SHORT, SIGNATURES, RefusedArgument, refused
from gpudoctor.knowledge.superseded import superseded
from gpudoctor.lazy import lazy_re

IN_PACKAGE = lazy_re(r"(?:site|dist)-packages[/\\](?P<package>[A-Za-z]\w{0,60})")
CALLED = lazy_re(
    r"got an unexpected keyword argument|takes (?:from )?\d+ (?:to \d+ )?positional arguments? but|"
    r"missing \d+ required (?:positional|keyword-only) arguments?|has no attribute '|^_?[a-z]\w{2,60}$"
)
"""Python's words for a call that does not fit (Python/ceval.c), and of what is not there (Objects/object.c)."""
OF_DATA = lazy_re(
    r"'(?:NoneType|str|bytes|dict|list|tuple|int|float|bool|set|Namespace|ConfigDict|DictConfig|EasyDict|AttrDict|"
    r"CfgNode|Munch)' object|^'?(?:forward|__getitem__)\b"
)
"""Of a value that is of no class of a package: what was handed in."""
OF_TORCH = lazy_re(r"(?:^|[/\\])torch[/\\]")
OF_SETTINGS = lazy_re(
    r"(?:^|[/\\])(?:\w{0,40}config(?:s|uration|uration_utils|_utils)?|\w{0,30}arguments?|\w{0,20}_args|argparser|"
    r"hparams|cli|launch(?:er)?|runner|dataclasses|connector|parser)\.py$"
)
"""Files in which packages read and hold settings, by the names that they give them."""
CHECKS = lazy_re(
    r"_{0,2}(?:post_init__|(?:validate|verify|sanity_check|check)(?:_\w{0,50})?|parse_args\w{0,20}|"
    r"set_defaults\w{0,30})$"
)
"""Functions that hold what was set against what may be."""
OF_FRAMEWORKS = lazy_re(
    r"(?:^|[/\\])(?:lightning|pytorch_lightning|lightning_fabric|accelerate|deepspeed|megatron|vllm|trl|litgpt|"
    r"torchtune|nemo|ray|fairseq|axolotl|llamafactory|verl|swift|colossalai|composer|mmengine|mmcv|detectron2|horovod|"
    r"sglang|transformers[/\\](?:trainer\w{0,20}|training_args\w{0,20}|integrations|generation|modeling_utils|"
    r"quantizers))(?:[/\\.]|$)"
)
"""Programs that are told by settings what they are to do."""
OF_SOURCES = lazy_re(
    r"(?:^|[/\\])(?P<name>llmtuner|llamafactory|mmdet3?d?|mmseg|mmpose|mmaction|mmpretrain|fastchat|llava|open_clip|"
    r"timm|ultralytics|detectron2|fairseq|openrlhf|verl|nnunetv2|espnet2?|torchtitan|gpt_neox|unsloth)[/\\]"
)
"""Packages that people run out of a clone."""
OWN_WORDS = frozenset({"torch", "functorch"})
"""Packages through which programs call themselves: a module's forward, an attribute of a module."""
NOTHING = lazy_re(
    r"'NoneType' object (?:is not|has no attribute)|\bNoneType\b[^\n]{0,40}\bfound$|not NoneType$|and 'NoneType'$|"
    r"for \S{1,4}: 'NoneType'"
)
"""Python's words where a value is None that should be something."""
OF_TOOLKIT = lazy_re(r"\bnvcc\b|\bcuda_dir\b|\bCUDA_HOME\b")
"""Of a build's source line: torch's CUDA_HOME is None where no toolkit was found."""
OF_OPTION = lazy_re(r"\b(?:args|opts?|options|cli_args|flags|FLAGS)\.(?P<name>[a-z]\w{1,60})\b")
"""A parser's result: what nobody gave, and has no default, is None."""
REFUSED = lazy_re(r"got an unexpected keyword argument '(?P<name>\w{1,80})'")
HANDED_ON = lazy_re(r"\w\((?:\w{1,30}, ?)*(?:\*\w{1,30}, ?)?\*\*\w{1,30}\)$")
"""`return func(*args, **kwargs)`."""
REFUSES = lazy_re(r"(?:(?P<owner>\w{1,60})\.)?(?P<function>\w{1,60})\(\) got an unexpected keyword argument '")
OF_ENVIRONMENT = lazy_re(r"(?:python3\.\d{1,2}[/\\]os\.py|^[A-Za-z]:.{1,300}[/\\][Ll]ib[/\\]os\.py|^<frozen os>)$")
NO_SETTING = lazy_re(
    r"^'(?:[\w.]{1,80}\.)?(?:Namespace|ConfigDict|DictConfig|EasyDict|AttrDict|CfgNode|Munch)' object has no attribute "
    r"'(?P<name>\w{1,80})'"
)
STARTS = lazy_re(r"(?:[/\\]subprocess\.py|[/\\]asyncio[/\\]\w{1,40}\.py|[/\\]os\.py|^<frozen os>)$")
PROGRAM = lazy_re(r"No such file or directory: '(?P<name>[\w+.-]{1,60})'")
"""subprocess names the program that it was to start, and a path where it is the folder that is missing."""
PUT_THERE = (
    "No program {name} is on the PATH of that process: install it on that machine or in its image, load its module in "
    "the script itself, or give its whole path."
)
VARIABLE = lazy_re(r"[A-Z][A-Z0-9]{1,20}(?:_[A-Z0-9]{1,30}){1,6}")
ENTRY = lazy_re(r"^'(?P<key>[^\s'\"]{1,200})'$")
ENTRIES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lazy_re(words), of)
    for words, of in (
        (r"(?i)check_?point|\bckpt|state_?dict|\bresume|pretrained|\bsaved?_",
         "The file that was loaded was written without it: by another program or release, or with weights alone; load "
         "it by the option that takes those, or give the one that the training itself saved."),
        (r"(?i)collat|\bbatch(?:es)?\b|data_?(?:set|loader|module)|tokeniz|"
         r"\b(?:sample|example|record|row|item|manifest|input|feature)s?\b",
         "A record of the data (or what collates them) has no field of this name: compare one with what the program "
         "reads, its spelling too; this split may not be prepared as the other one was."),
        (r"(?i)\bcfg\b|\bconf(?:ig(?:s|uration)?)?\b|config|\bhparams\b|\bsettings?\b|\bparams\b|\byaml\b",
         "The settings have none of this name: write it there, or take the file that belongs to this release of the "
         "program."),
    )
)  # fmt: skip
"""By the words of the file and of the line that asks, what it is that lacks an entry."""
ENTRY_OF_ANY = (
    "It was never put there, under another name, or by another program or release than the one that reads it."
)
NUMBER = lazy_re(r"-?\d{1,9}")
MISSING = lazy_re(
    r"missing \d+ required (?:positional|keyword-only) arguments?: (?P<names>'\w{1,80}'(?:,? (?:and )?'\w{1,80}'){0,9})"
)


def is_of_a_package(raised_in: str) -> bool:
    """The file is no program's own."""
    return IN_PACKAGE.search(raised_in) is not None or OF_FRAMEWORKS.search(raised_in) is not None


def package_of(raised_in: str) -> str:
    """The installed package, or the framework's folder, in which a file lies; empty where it is neither."""
    if match := IN_PACKAGE.search(raised_in):
        return match["package"]
    if match := OF_SOURCES.search(raised_in):
        return match["name"]
    match = OF_FRAMEWORKS.search(raised_in)
    return re.split(r"[/\\]", match[0].strip("/\\."))[0] if match else ""


def is_of_settings(raised_in: str, raised_by: str, *, is_named: bool) -> bool:
    """What was refused there is what somebody set, and no call of a program. `is_named`: the message names what."""
    if not is_of_a_package(raised_in) or OF_TORCH.search(raised_in):
        return False
    if OF_SETTINGS.search(raised_in) or CHECKS.match(raised_by):
        return True
    return is_named and OF_FRAMEWORKS.search(raised_in) is not None


def of_call(type_name: str, message: str, raised_in: str, code: str = "") -> tuple[str, dict[str, str]] | None:
    """The variant of the cause program-error for what a call was not given, or a mapping has not, and its values."""
    name, first = type_name.rpartition(".")[2], message.partition("\n")[0]
    if name == "KeyError" and (match := ENTRY.search(first)):
        file = re.split(r"[/\\]", raised_in)[-1]
        where = next((of for words, of in ENTRIES if words.search(f"{file} {code}")), ENTRY_OF_ANY)
        return "missing-entry", {**match.groupdict(), "of": where}
    if name == "KeyError" and code and NUMBER.fullmatch(first):
        return "missing-number", {"key": first, "code": code}
    if name == "AttributeError" and (match := NO_SETTING.search(first)):
        return "no-setting", match.groupdict()
    if name == "FileNotFoundError" and (match := PROGRAM.search(first)):
        how = command_fix(match["name"])[1].get("how", "")
        if not (STARTS.search(raised_in) or (how and not raised_in)):
            return None
        return "program-to-start", {"how": how or PUT_THERE.format(name=match["name"])}
    if name != "TypeError":
        return None
    if match := REFUSED.search(first):
        known = superseded("argument", match["name"]) if first.startswith("__init__()") else None
        if known is not None:  # Python before 3.10 does not say whose __init__ it is
            return "trainer-perhaps", {"name": known.name, "since": known.since, "today": known.whole}
        owned = REFUSES.search(first)
        if owned is not None and (package := PACKAGES.get(owned["owner"] or "")):
            return "argument-newer", {"package": package, "function": owned["owner"], **match.groupdict()}
        return "argument-refused", match.groupdict()
    if (match := MISSING.search(first)) and not IN_PACKAGE.search(raised_in):
        return "argument-missing", match.groupdict()
    return None


MODULE = lazy_re(r"module '(?P<package>\w{1,60})(?:\.[\w.]{1,80})?' has no attribute '(?P<name>\w{1,80})'")


def of_a_release(type_name: str, message: str, raised_in: str) -> tuple[str, dict[str, str]] | None:
    """The variant for a call of a package that another release of it would take, or that the program's own class would
    take by its signature, and its values."""
    name, first, package = type_name.rpartition(".")[2], message.partition("\n")[0], package_of(raised_in)
    if name == "AttributeError" and (match := MODULE.search(first)) and package:
        by = "" if package == match["package"] else f" ({package})"  # by its own __getattr__: who asks it is another
        return "module-lacks", {**match.groupdict(), "by": by}
    owned, named = REFUSES.search(first), REFUSED.search(first)
    if name != "TypeError" or owned is None or named is None or not package or package in OWN_WORDS:
        return None
    if not owned["owner"] or owned["function"] == "__init__" or not owned["owner"][0].isupper():
        return None
    return "handed-argument", {
        "package": package,
        "function": f"{owned['owner']}.{owned['function']}",
        "name": named["name"],
    }


def variable_of(type_name: str, message: str, raised_in: str) -> str:
    """The environment variable that is read and not set; empty where a KeyError is of something else."""
    match = ENTRY.search(message.partition("\n")[0])
    if type_name != "KeyError" or match is None:
        return ""
    of_environment = OF_ENVIRONMENT.search(raised_in) if raised_in else VARIABLE.fullmatch(match["key"])
    return match["key"] if of_environment else ""


def of_torch(type_name: str, message: str, code: str) -> dict[str, str] | None:
    """Values for what one of torch's functions for several GPUs was given and does not take; None where it is another
    function, or nothing is known but that."""
    first = message.partition("\n")[0]
    match, named = REFUSES.search(first), REFUSED.search(first)
    if type_name.rpartition(".")[2] != "TypeError" or match is None or named is None:
        return None
    argument = named["name"]
    name = (match["owner"] or _called_with(argument, code)) if match["function"] == "__init__" else match["function"]
    every = ((key, refused(key, argument, None) or _later(key, argument)) for key in SIGNATURES)
    known = next(
        ((key, argument) for key, argument in every if argument is not None and key.rpartition(".")[2] == name), None
    )
    if known is None:
        return None
    function, refused_argument = known[0].rpartition(".")[2], known[1]
    if refused_argument.near:
        what = f"write {refused_argument.near}="
    elif function == "DistributedDataParallel" and argument in OF_APEX:
        what = "it is of Apex's DistributedDataParallel, which has the same name: take it out"
    elif refused_argument.when:
        what = "take it out, or install a release that has it"
    else:
        return None
    return {"function": function, "name": argument, "when": refused_argument.when, "what": what}


def _later(function: str, argument: str) -> RefusedArgument | None:
    """An argument of today's that releases which people run do not have yet."""
    known = SIGNATURES[function].get(argument)
    oldest = min(known_argument.first for known_argument in SIGNATURES[function].values())
    return RefusedArgument(known.first, (), "") if known is not None and known.first > oldest else None


def _called_with(argument: str, code: str) -> str:
    """The last part of the name that a source line calls with this argument; "DataParallel" of nn.DataParallel(...)."""
    try:
        tree = ast.parse(code.strip().removeprefix("return ").strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(keyword.arg == argument for keyword in node.keywords):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            return SHORT.get(name, name)
    return ""


def of_hugging_face(type_name: str, message: str, raised_in: str, code: str) -> dict[str, str] | None:
    """Values for what a class of accelerate or transformers took once and takes no more, where the program's own line
    gives it."""
    first = message.partition("\n")[0]
    match, named = REFUSES.search(first), REFUSED.search(first)
    if type_name.rpartition(".")[2] != "TypeError" or match is None or named is None or match["function"] != "__init__":
        return None
    if IN_PACKAGE.search(raised_in) and not HANDED_ON.search(code):
        return None
    lost = lost_argument(match["owner"] or _called_with(named["name"], code), named["name"])
    if lost is None:
        return None
    today = f"{lost.today}..." if lost.today.endswith("=") else lost.today
    return {"function": lost.owner, "name": lost.name, "since": lost.since, "today": today}


def caller(type_name: str, message: str, raised_in: str, code: str = "") -> str:
    """The package that calls what does not fit; empty where it is not that, and where what calls is a decorator's
    function, which hands on what it was given."""
    if HANDED_ON.search(code):
        return ""
    if type_name.rpartition(".")[2] not in ("TypeError", "AttributeError"):
        return ""
    first = message.partition("\n")[0]
    match = IN_PACKAGE.search(raised_in)
    if match is None or match["package"] in OWN_WORDS or not CALLED.search(first) or OF_DATA.search(first):
        return ""
    return match["package"]


NO_ATTRIBUTE = lazy_re(r"^'(?P<owner>\w{1,60})' object has no attribute '(?P<name>\w{1,80})'")


def by_code(type_name: str, message: str, code: str, source: str = "") -> tuple[str, dict[str, str]] | None:
    """The variant of the cause program-error that shows the source line, and its values. `source`: of the innermost
    line of the program's own."""
    name, first = type_name.rpartition(".")[2], message.partition("\n")[0].strip()
    match = NO_ATTRIBUTE.search(first) if name == "AttributeError" else None
    if match and re.search(rf"\bself\.{match['name']}\b(?! ?=[^=])", source):
        return "own-attribute", {**match.groupdict(), "code": source}
    if not code:
        return None
    if name == "AssertionError" and not first and code.startswith("assert"):
        return "assertion-line", {"code": code}
    if name in ("TypeError", "AttributeError") and NOTHING.search(first):
        if OF_TOOLKIT.search(code):
            return "no-toolkit", {}
        if option := OF_OPTION.search(code):
            return "nothing-given", {"code": code, "option": option["name"].replace("_", "-"), "name": option["name"]}
        return "nothing-there", {"code": code}
    return None
