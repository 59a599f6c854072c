"""What Python itself refuses of values of another type, length or form than an operation takes: Objects/*.c, Python/*.c
and the standard library, in their words, each with the values that the message names."""

from gpudoctor.remedy import Remedy

BUILTIN = (
    r"(?:list|tuple|dict|set|str|bytes|int|float|bool|function|method|generator|range|dict_keys|dict_values|Tensor|"
    r"ndarray|DataFrame|Series|type|slice|complex|builtin_function_or_method|property)"
)
REMEDIES = (
    Remedy(
        "another-type-there",
        types=("AttributeError",),
        words=rf"^'(?P<have>{BUILTIN})' object has no attribute '(?P<name>\w{{1,80}})'",
        fix=(
            "A {have} stands before .{name} there, and what is meant has a {name}: look where it comes from. Mostly "
            "one of several is handed on in place of one of them or the other way round, a name in place of what it "
            "names, a dict where dots want an object, a function or class that was not called, or a library's release "
            "gives back another type than before.{told}"
        ),
        source="Python's Objects/object.c (PyObject_GenericGetAttr)",
        sample="AttributeError: 'list' object has no attribute 'split'",
        counter="AttributeError: 'Trainer' object has no attribute 'split'",
    ),
    Remedy(
        "number-as-text",
        types=("TypeError",),
        words=(
            r"not supported between instances of '(?:int|float)' and '(?P<have>str)'",
            r"not supported between instances of '(?P<have>str)' and '(?:int|float)'",
            r"^must be real number, not (?P<have>str)\b",
            r"^unsupported operand type\(s\) for [^\n:]{1,12}: '(?:int|float)' and '(?P<have>str)'",
            r"^unsupported operand type\(s\) for [-/*<>=@|&^]{1,3}: '(?P<have>str)' and '(?:int|float)'",
            r"^can't multiply sequence by non-int of type 'float'",
        ),
        fix=(
            "A text stands where a number is wanted: mostly a setting that was read as text. YAML takes 1e-4 for text "
            "and 1.0e-4 for a number; a value in quotes, of the environment or of a command line without type=float is "
            "text too. Write it as a number, or convert it where it is read (float(...)).{told}"
        ),
        kind="config",
        source="Python's Objects/object.c (do_richcompare), Objects/abstract.c; PyYAML resolver.py (YAML 1.1 floats)",
        sample=(
            "TypeError: '<=' not supported between instances of 'float' and 'str'",
            "TypeError: unsupported operand type(s) for /: 'str' and 'int'",
        ),
        counter="TypeError: '<' not supported between instances of 'dict' and 'dict'",
    ),
    Remedy(
        "types-together",
        types=("TypeError",),
        words=(
            r"^unsupported operand type\(s\) for (?P<what>[^\n:]{1,20}): '(?P<left>(?!NoneType)\w{1,40})' and "
            r"'(?P<right>(?!NoneType)\w{1,40})'",
            r"^'(?P<what>[<>=!]{1,2})' not supported between instances of '(?P<left>(?!NoneType)\w{1,40})' and "
            r"'(?P<right>(?!NoneType)\w{1,40})'",
            r"^(?P<what>can) only concatenate (?P<left>\w{1,20}) \(not \"(?P<right>(?!NoneType)\w{1,40})\"\) to",
        ),
        fix=(
            "A {left} and a {right} meet in one operation there, which takes no such two: look where each comes from, "
            "and convert one (str(), int(), float(), torch.as_tensor(), list()), or take the part of it that is meant."
            "{told}"
        ),
        kind="argument",
        source="Python's Objects/abstract.c (binop_type_error), Objects/unicodeobject.c, Objects/listobject.c",
        sample=(
            "TypeError: unsupported operand type(s) for +: 'dict' and 'list'",
            'TypeError: can only concatenate str (not "int") to str',
        ),
        counter="TypeError: unsupported operand type(s) for +: 'NoneType' and 'str'",
    ),
    Remedy(
        "not-that-use",
        types=("TypeError",),
        words=(
            r"^'(?P<have>(?!NoneType)[\w.]{1,60})' object is not (?P<how>callable|iterable|subscriptable|an iterator|"
            r"a mapping|reversible|an async iterator)",
            r"^object of type '(?P<have>(?!NoneType)[\w.]{1,60})' has no (?P<how>len\(\))",
            r"^'(?P<have>(?!NoneType)[\w.]{1,60})' object (?:does not|doesn't) support (?P<how>item assignment|"
            r"item deletion|"
            r"the context manager protocol|the asynchronous context manager protocol)",
        ),
        fix=(
            "A {have} stands there, and it is not {how}: look where it comes from. A module is no class of its own "
            "name (from tqdm import tqdm), brackets and a call are not the same, a class is not yet an object of it, a "
            "name may be taken by a variable, and a release may give back another type than before.{told}"
        ),
        kind="argument",
        source="Python's Objects/abstract.c, Objects/call.c, Python/ceval.c",
        sample=(
            "TypeError: 'module' object is not callable",
            "TypeError: object of type 'generator' has no len()",
        ),
        counter="TypeError: 'NoneType' object is not iterable",
    ),
    Remedy(
        "whole-number-wanted",
        types=("TypeError",),
        words=(
            r"^'(?P<have>float|numpy\.float64|numpy\.float32|str|Tensor)' object cannot be interpreted as an integer",
            r"^slice indices must be integers or None",
            r"^(?:list|tuple) indices must be integers or slices, not (?P<have>float)\b",
        ),
        fix=(
            "A whole number is wanted there (a count, a size, an index), and it is none: a division gives a float "
            "(write //), a setting is written as 4.0 or 1e3, or a value was read as text: int(...) makes one.{told}"
        ),
        kind="argument",
        source="Python's Objects/abstract.c (PyNumber_Index), Python/ceval.c (_PyEval_SliceIndex)",
        sample="TypeError: 'float' object cannot be interpreted as an integer",
        counter="TypeError: 'list' object cannot be interpreted as a tensor",
    ),
    Remedy(
        "name-as-index",
        types=("TypeError",),
        words=r"^(?P<have>list|tuple|string|str|bytes) indices must be integers(?: or slices)?, not (?:str|'str')",
        fix=(
            "A {have} is asked for an entry by name, as if it were a dict: one level more or less is there than the "
            "program takes (a list of records in place of one, a text that was not parsed: json.loads), or a release "
            "gives back another form. Look at what is read there.{told}"
        ),
        kind="data",
        source="Python's Objects/listobject.c, Objects/unicodeobject.c",
        sample="TypeError: list indices must be integers or slices, not str",
        counter="TypeError: list indices must be integers or slices, not tuple",
    ),
    Remedy(
        "how-many-values",
        types=("ValueError",),
        words=(
            r"^not enough values to unpack \(expected (?:at least )?(?P<wanted>\d{1,3}), got (?P<given>\d{1,3})\)",
            r"^too many values to unpack \(expected (?P<wanted>\d{1,3})(?:, got (?P<given>\d{1,9}))?\)",
        ),
        fix=(
            "{wanted} values are taken apart there, and another number comes: a function or data set gives back more "
            "or fewer than the program takes (another release, another `return_*` setting, a record with fewer "
            "fields). Look at what gives them, and take as many.{told}"
        ),
        kind="argument",
        source="Python's Python/ceval.c (unpack_iterable)",
        sample=(
            "ValueError: not enough values to unpack (expected 3, got 2)",
            "ValueError: too many values to unpack (expected 2)",
        ),
        counter="ValueError: too many values",
    ),
    Remedy(
        "not-for-json",
        types=("TypeError",),
        words=r"^Object of type (?P<have>\w{1,60}) is not JSON serializable",
        fix=(
            "A {have} is to be written as JSON, which has no such thing: write what it holds (.item() or .tolist() of "
            "tensors and arrays, str() of paths and dtypes, asdict() of configurations).{told}"
        ),
        kind="argument",
        source="Python's Lib/json/encoder.py (default)",
        sample="TypeError: Object of type float32 is not JSON serializable",
        counter="TypeError: Object of type float32",
    ),
    Remedy(
        "no-path-given",
        types=("TypeError",),
        words=(
            r"^expected str, bytes or os\.PathLike object, not (?P<have>\w{1,60})",
            r"^(?:stat|listdir|scandir|join|mkdir|_path_\w{1,20}|open)(?:\(\))?(?: path|"
            r": path)? (?:argument )?should be "
            r"(?:string, bytes, os\.PathLike|a path)[^\n]{0,40}, not (?P<have>\w{1,60})",
            r"^argument should be a str or an os\.PathLike object where __fspath__ returns a str, not "
            r"'(?P<have>\w{1,60})'",
        ),
        fix=(
            "A path is wanted there and a {have} comes: NoneType means that the setting, option or variable which "
            "names the file or folder is not set (a checkpoint that was not found, an output folder that nobody gave); "
            "a list that several are given where one is taken. Give that path.{told}"
        ),
        kind="argument",
        source="Python's Modules/posixmodule.c (path_converter, PyOS_FSPath), Lib/pathlib.py",
        sample="TypeError: expected str, bytes or os.PathLike object, not NoneType",
        counter="TypeError: expected str, not NoneType",
    ),
    Remedy(
        "not-that-encoding",
        types=("UnicodeDecodeError",),
        words=(r"codec can't decode byte (?P<byte>0x(?:8b|80|89|ff|fe|50|d0)) in position (?P<place>[01])\b",),
        fix=(
            "What is read there as text is none: its first bytes are those of a packed or binary file ({byte} at "
            "{place}: 0x8b of gzip, 0x80 of a pickle or checkpoint, 0x89 of PNG, 0xff of JPEG or UTF-16). Open it with "
            "what it is of (gzip.open, torch.load, PIL), give the file that is meant, or fetch it again.{told}"
        ),
        kind="data",
        source="Python's Objects/unicodeobject.c (utf-8 codec); magic(5)",
        sample="UnicodeDecodeError: 'utf-8' codec can't decode byte 0x8b in position 1: invalid start byte",
        counter="UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in position 4711: invalid continuation byte",
    ),
    Remedy(
        "other-encoding",
        types=("UnicodeDecodeError", "UnicodeEncodeError"),
        words=r"'(?P<codec>[\w-]{1,40})' codec can't (?P<way>decode|encode)",
        fix=(
            "The text has characters that {codec} cannot {way}: name its encoding where it is opened "
            "(open(..., encoding='utf-8'), errors='replace' to lose them), or, where {codec} is ascii, give the job a "
            "locale of UTF-8 (export LANG=C.UTF-8, or PYTHONUTF8=1).{told}"
        ),
        kind="data",
        source="Python's Objects/unicodeobject.c; os.environ PYTHONUTF8 (PEP 540)",
        sample=(
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in position 4711: invalid continuation byte",
            "UnicodeEncodeError: 'ascii' codec can't encode character '\\u2588' in position 9: ordinal not in "
            "range(128)",
        ),
        counter="UnicodeDecodeError: unknown",
    ),
    Remedy(
        "changed-while-walked",
        types=("RuntimeError",),
        words=r"^(?:dictionary|Set|OrderedDict|deque)(?: keys)? (?:changed (?:size )?|mutated )during iteration",
        fix=(
            "What is gone through there was changed meanwhile: go through a copy (list(...)), or keep threads from "
            "changing it (a lock).{told}"
        ),
        kind="exception",
        source="Python's Objects/dictobject.c, Objects/setobject.c, Modules/_collectionsmodule.c",
        sample="RuntimeError: dictionary changed size during iteration",
        counter="RuntimeError: size changed",
    ),
    Remedy(
        "too-deep",
        types=("RecursionError",),
        words=r"^maximum recursion depth exceeded",
        fix=(
            "Functions call each other without an end, or a structure is deeper than Python follows: the frames that "
            "repeat show which; mostly a __getattr__ that asks for what it does not have, an object that holds itself "
            "(deepcopy, pickle), or a patch that calls what it has replaced. sys.setrecursionlimit only helps where "
            "the depth is meant.{told}"
        ),
        kind="argument",
        source="Python's Python/ceval.c (_Py_CheckRecursiveCall)",
        sample="RecursionError: maximum recursion depth exceeded while calling a Python object",
        counter="RecursionError: too deep",
    ),
    Remedy(
        "closed-file",
        types=("ValueError",),
        words=r"^I/O operation on closed file|^(?:read|write) of closed file|^seek of closed file",
        fix=(
            "A file is used there after it was closed: do it inside of its `with`, or open it again in each worker "
            "(an open file does not go into another process).{told}"
        ),
        kind="exception",
        source="Python's Modules/_io/iobase.c, Modules/_io/bufferedio.c",
        sample="ValueError: I/O operation on closed file.",
        counter="ValueError: the file is closed",
    ),
    Remedy(
        "not-hashable",
        types=("TypeError",),
        words=(
            r"^(?:cannot use .[\w.]{1,60}. as a (?:dict key|set element) \()?"
            r"unhashable type: .(?P<have>[\w.]{1,60})."
        ),
        fix=(
            "A {have} is used there as a key or member, which only what cannot change may be: make a tuple or a text "
            "of it; in a dataclass field of a configuration use default_factory.{told}"
        ),
        kind="argument",
        source="Python's Objects/object.c (PyObject_HashNotImplemented)",
        sample="TypeError: unhashable type: 'list'",
        counter="TypeError: type 'list'",
    ),
    Remedy(
        "mutable-default",
        types=("ValueError",),
        words=r"^mutable default (?P<have><class '[\w.]{1,100}'>) for field (?P<name>\w{1,80}) is not allowed",
        fix=(
            "Python since 3.11 takes no {have} as the default of the field {name}: write "
            "field(default_factory=...) there, install a release of the package that does, or take Python 3.10."
        ),
        kind="dependency-mismatch",
        source="Python's Lib/dataclasses.py (_get_field)",
        sample="ValueError: mutable default <class 'fairseq.dataclass.configs.CommonConfig'> for field common is not "
        "allowed: use default_factory",
        counter="ValueError: mutable default",
    ),
)
