"""What Python, and what every program leans on, say of a program's own mistakes."""

from gpudoctor.remedy import Remedy

WARNINGS = (
    *("FutureWarning", "DeprecationWarning", "PendingDeprecationWarning", "UserWarning", "RuntimeWarning"),
    *("SyntaxWarning", "ResourceWarning", "ImportWarning", "UnicodeWarning", "EncodingWarning", "BytesWarning"),
)
REMEDIES = (
    Remedy(
        "queue-full",
        types=("Full", "Empty"),
        words=r"^\s*$|^[^\n]",
        fix=(
            "A queue was full, or empty, and the call did not wait for it: let put() and get() wait (no False, no "
            "short timeout), make the queue larger (maxsize), and look whether the other side still runs."
        ),
        kind="exception",
        source="Python's Lib/queue.py, Lib/multiprocessing/queues.py",
        sample="queue.Full: ",
        counter="queue.Closed: the end",
    ),
    Remedy(
        "warning-raised",
        types=WARNINGS,
        words=r"\S",
        fix=(
            "A warning ended it: warnings are made errors here (python -W error, PYTHONWARNINGS=error, "
            "warnings.simplefilter('error')). Take that away, or write what the warning asks for."
        ),
        kind="config",
        source="Python's Lib/warnings.py (warn_explicit, action error)",
        sample="FutureWarning: `old()` is deprecated. Please use `new()` instead.",
        counter="ValueError: FutureWarning: `old()` is deprecated",
    ),
    Remedy(
        "told-above",
        words=r"check the print statements above|[Ss]ee (?:stack trace for )?root cause|Look further up your stdout",
        fix=(
            "This only follows, and says so: another process or thread failed before. Read its own first "
            "exception above; where none stands there, it was killed, mostly for want of memory (dmesg; SLURM: "
            "sacct; Kubernetes: kubectl describe pod): take fewer workers, or give the job more."
        ),
        source="vllm/v1/engine/utils.py; batchgenerators' multi_threaded_augmenter.py",
        sample=(
            "RuntimeError: One or more background workers are no longer alive. Exiting. Please check the print "
            "statements above for the actual error message",
            (
                "Exception: WorkerProc initialization failed due to an exception in a background process. See "
                "stack trace for root cause."
            ),
        ),
        counter="RuntimeError: see the documentation",
    ),
    Remedy(
        "compiler-ended",
        words=r"CalledProcessError: Command '?\[?'?\S{0,200}(?:gcc|g\+\+|clang|cc|c\+\+|nvcc|ninja)'",
        fix=(
            "A compiler that was called there failed, and its own words stand in the lines above: mostly a "
            "header or library is missing (Python.h: python3-dev; libcuda.so: the driver's, or ldconfig; "
            "libaio-dev), or the compiler is too old or too new. Run its command by hand to see them."
        ),
        kind="dependency-mismatch",
        source="Python's subprocess.py; triton/runtime/build.py; torch/utils/cpp_extension.py",
        sample=(
            "BackendCompilerFailed: backend='inductor' raised: CalledProcessError: Command '['/usr/bin/gcc', "
            "'/tmp/x.c']' returned non-zero exit status 1."
        ),
        counter="CalledProcessError: Command '['git', 'pull']' returned non-zero exit status 1.",
    ),
    Remedy(
        "no-such-argument",
        types=("AttributeError",),
        words=r"^'(?:Simple)?Namespace' object has no attribute '(?P<name>\w{1,80})'",
        fix=(
            "The program reads its argument {name}, which nothing gives: add --{name} to its parser, with a default, "
            "or take the program and the configuration from one release."
        ),
        kind="argument",
        source="Python's Lib/argparse.py (Namespace), Objects/object.c",
        sample="AttributeError: 'Namespace' object has no attribute 'hidden_size'",
        counter="AttributeError: 'Net' object has no attribute 'hidden_size'",
    ),
    Remedy(
        "misspelt-name",
        types=("NameError",),
        words=r"^name '(?P<name>\w{1,80})' is not defined\. Did you mean: '(?P<meant>\w{1,80})'\?",
        fix=(
            "Nothing is called {name} there: write {meant}, if that was meant; otherwise import or assign {name} "
            "before."
        ),
        source="Python's Python/ceval.c, Lib/traceback.py (_compute_suggestion_error)",
        sample="NameError: name 'n_gpu' is not defined. Did you mean: 'n_gpus'?",
        counter="NameError: name 'n_gpu' is not defined",
    ),
    Remedy(
        "name-not-defined",
        types=("NameError",),
        words=r"^name '(?P<name>\w{1,80})' is not defined(?:\n|$)",
        fix=(
            "Nothing is called {name} there: import or assign it before. What an `if` or `try` imports is missing "
            "where that branch was not taken, as of a package that is not installed."
        ),
        source="Python's Python/ceval.c",
        sample="NameError: name 'flash_attn_func' is not defined",
        counter="NameError: name",
    ),
    Remedy(
        "no-value-yet",
        types=("UnboundLocalError",),
        words=(
            r"^cannot access local variable '(?P<name>\w{1,80})' where it is not associated with a value",
            r"^local variable '(?P<name>\w{1,80})' referenced before assignment",
        ),
        fix=(
            "{name} is assigned in that function, so all of the function takes it for its own, which has no value yet. "
            "Where the module's {name} is meant, as in {name} = {name}.cuda(): write `global {name}` as the first "
            "line, hand it over as an argument, or give the new one another name. Where an `if`, a `try` or a loop "
            "assigns it, that was passed by."
        ),
        source="Python's reference, 4.2.2; Python/ceval.c, in its words since 3.11 and before",
        sample=(
            "UnboundLocalError: cannot access local variable 'model' where it is not associated with a value",
            "UnboundLocalError: local variable 'model' referenced before assignment",
        ),
        counter="NameError: name 'model' is not defined",
    ),
    Remedy(
        "no-number",
        types=("ValueError",),
        words=(
            r"^could not convert string to float: (?P<value>b?'[^'\n]{0,60}')",
            r"^invalid literal for int\(\) with base \d+: (?P<value>b?'[^'\n]{0,60}')",
        ),
        fix=(
            "{value} is read as a number and is none: look where it is written, mostly a setting with a comma, a unit "
            "or an empty value, a header line in the data, or a file that is another one than is meant (a page, a "
            "script or a damaged download in place of a tokenizer or a table: look at its first lines, and fetch it "
            "again)."
        ),
        source="Python's Objects/floatobject.c, Objects/longobject.c",
        sample=(
            "ValueError: could not convert string to float: '1e-4,'",
            "ValueError: invalid literal for int() with base 10: ''",
        ),
        counter="ValueError: could not convert tensor to float",
    ),
    Remedy(
        "index-beyond",
        types=("IndexError",),
        words=r"^index (?P<index>-?\d+) is out of bounds for (?:dimension|axis) \d+ with size (?P<size>\d+)",
        fix=(
            "{index} is looked up where there are {size}, numbered from 0: a label must be below the number of "
            "classes, a token below the vocabulary, and a place in the data below its length (an index or a cache made "
            "for another file, or an offset by one)."
        ),
        kind="data",
        source="torch aten native/TensorAdvancedIndexing.cpp, TensorShape.cpp; numpy core/src/multiarray/common.h",
        sample="IndexError: index 151 is out of bounds for dimension 0 with size 150",
        counter="IndexError: list index out of range",
    ),
    Remedy(
        "matrix-shapes",
        words=r"mat1 and mat2 shapes cannot be multiplied \(\d+x(?P<given>\d+) and (?P<wanted>\d+)x\d+\)",
        fix=(
            "A linear layer there is made for {wanted} features and gets {given}: make it for {given}, or bring what "
            "comes before to {wanted}. Where nobody changed the model, the input's size or the checkpoint is another's."
        ),
        kind="shape",
        source="torch aten native/LinearAlgebra.cpp, native/cuda/Blas.cpp",
        sample="RuntimeError: mat1 and mat2 shapes cannot be multiplied (48x1280 and 1024x512)",
        counter="RuntimeError: mat1 must be a matrix",
    ),
    Remedy(
        "broken-image",
        words=r"cannot identify image file '(?P<file>[^'\n]{1,200})'",
        fix=(
            "{file} is no image that Pillow reads: it is cut off, a web page that a download saved, a git-lfs pointer "
            "or of a kind that Pillow has no reader for. Fetch it again, or leave it out; `file` tells what it is."
        ),
        kind="data",
        source="Pillow PIL/Image.py (open)",
        sample="UnidentifiedImageError: cannot identify image file '/data/raw/000001.jpg'",
        counter="UnidentifiedImageError: cannot identify image",
    ),
    Remedy(
        "no-room-for-data-set",
        words=r"Not enough disk space\. Needed: (?P<needed>[^(\n]{1,30}?) \(download: ",
        fix=(
            "The data set needs {needed}: set HF_HOME, or cache_dir of load_dataset, to a file system that has them, "
            "or remove what is there."
        ),
        kind="disk-full",
        source="datasets/builder.py (download_and_prepare)",
        sample="OSError: Not enough disk space. Needed: 38.24 GiB (download: 19.10 GiB, generated: 19.14 GiB, "
        "post-processed: Unknown size)",
        counter="OSError: Not enough disk space",
    ),
    Remedy(
        "yaml-line",
        types=("ScannerError", "ParserError", "ComposerError", "ConstructorError"),
        words=r'\bin "(?P<file>[^"\n]{1,200})", line (?P<line>\d+), column \d+',
        fix=(
            "Correct {file} at line {line}, or the line before it: a colon without a space or without quotes, a tab, "
            "or other indentation."
        ),
        kind="config",
        source="PyYAML yaml/error.py (Mark)",
        sample='ScannerError: mapping values are not allowed here\n  in "conf/base.yaml", line 12, column 16',
        counter="ParserError: Error tokenizing data. C error: Expected 3 fields in line 7, saw 4",
    ),
)
