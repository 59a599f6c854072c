"""Calls of Python programs by name: what they wait for, and which wait for nothing but their own work."""

import re

from gpudoctor.lazy import lazy_re

KNOWN_WAITS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lazy_re(pattern), kind)
    for pattern, kind in (
        (
            r"^(?:requests|httpx|aiohttp|session|client|http)\.(?:get|post|put|head|request|delete|patch|send)$",
            "service",
        ),
        (r"(?:^|\.)(?:urlopen|urlretrieve|create_connection|getaddrinfo|gethostbyname)$", "service"),
        (
            r"(?:^|\.)(?:snapshot_download|hf_hub_download|load_dataset|download_file|download|from_pretrained)$",
            "service",
        ),
        (r"^(?:wandb|mlflow|comet_ml|neptune|clearml|boto3|redis|grpc)\.", "service"),
        (r"(?:^|\.)(?:recv|recv_into|recvfrom|accept|recv_bytes)$", "service"),
        (r"^subprocess\.(?:run|call|check_call|check_output)$|^os\.(?:system|popen|wait|waitpid)$", "child"),
        (r"(?:^|\.)communicate$|\.std(?:out|err)\.(?:read\w*|__next__)$", "child"),
        (r"^(?:sys\.)?stdin\.(?:buffer\.)?read\w*$", "input"),
        (r"^(?:input|breakpoint)$|(?:^|\.)set_trace$|^getpass\.", "input"),
        (r"^(?:sys\.exit|os\._exit|exit|quit)$", "leaves"),
        (r"^(?:fcntl\.)?(?:flock|lockf)$", "file lock"),
        (r"^asyncio\.run$|\.run_until_complete$|\.run_forever$", "asyncio"),
        (r"^signal\.(?:pause|sigwait|sigwaitinfo|sigtimedwait)$", "signal"),
        (r"^(?:torch|np|numpy|pickle|json|yaml|safetensors)\.(?:load|load_file|save|savez|dump|memmap)$", "storage"),
        (r"^open$|\.(?:open|read_text|read_bytes|write_text|write_bytes|readline|readlines)$", "storage"),
        (r"(?:optim\w*|sched\w*|scaler|prof\w*|p?bar|progress|meter\w*)\.(?:step|update|zero_grad)$", "harmless"),
        (r"^(?:threading\.)?(?:Thread|Timer|Event|R?Lock|Condition|(?:Bounded)?Semaphore|Barrier)$", "harmless"),
        (r"^(?:queue\.)?(?:Lifo|Priority|Simple)?Queue$|^\w*PoolExecutor$|^(?:subprocess\.)?Popen$", "harmless"),
        (r"^shutil\.|^os\.(?:fsync|sync|replace|rename)$|\.fsync$", "storage"),
    )
)
"""The dotted name as it is called."""

NAMED_BY: tuple[tuple[re.Pattern[str], frozenset[str], str], ...] = tuple(
    (lazy_re(pattern, re.IGNORECASE), frozenset(methods.split()), kind)
    for pattern, methods, kind in (
        (r"queue$|^q$", "get put join", "queue"),
        (r"store$", "get wait multi_get", "store"),
        (r"FileLock|SoftFileLock|InterProcessLock", "acquire __enter__", "file lock"),
        (r"\block$|rlock$|_lock$|lock$|semaphore$|mutex$", "acquire __enter__", "lock"),
        # Its lock is held for a moment, as a rule, and given back by who waits.
        (r"condition$", "acquire __enter__", "harmless"),
        (r"condition$", "wait wait_for", "thread"),
        (r"thread$|timer$", "start", "harmless"),
        (r"event$|barrier$|ready$|done$", "wait", "thread"),
        (r"thread$|worker$|writer$|process$", "join", "thread"),
        (r"future$|submit$|result$", "result exception", "future"),
        (r"popen$|process$|proc$|child$", "wait poll", "child"),
        (r"pool$|executor$", "map starmap apply join shutdown", "pool"),
        (r"pool$|executor$", "submit apply_async map_async starmap_async", "harmless"),
        (r"\bopen$|\bfdopen$|TemporaryFile$", "read readline readlines readinto write writelines", "storage"),
        (r"pipe$|connection$|conn$|sock$|socket$", "recv send read write connect sendall", "service"),
    )
)
"""What made the object, or what it is called, and the methods that wait."""

_HARMLESS_ROOTS = """
torch np numpy math random json os sys re time datetime functools itertools collections copy logging logger log
warnings string gc contextlib dataclasses typing operator statistics F nn optim argparse parser platform uuid
traceback inspect types enum pprint textwrap bisect heapq struct hashlib Path pathlib tempfile
"""
HARMLESS_ROOTS = frozenset(_HARMLESS_ROOTS.split())
"""Modules and the like, whose calls compute, or write a line. What of them waits is told above."""
HARMLESS_MADE = lazy_re(
    r"^(?:random|collections|itertools|statistics|datetime|hashlib|argparse|string)\.|^(?:np|numpy)\.random\."
    r"|^(?:Random|deque|Counter|defaultdict|OrderedDict|ArgumentParser)$|^torch\.Generator$"
)
"""What makes an object whose methods only compute."""
_HARMLESS_METHODS = """
append extend items keys values pop setdefault copy split join strip lower upper format startswith endswith
replace add remove discard clear sort index count insert get zero_grad cuda cpu to item tolist detach clone
float half bfloat16 int long bool view reshape flatten unsqueeze squeeze transpose permute contiguous sum mean
max min abs sqrt square norm pow exp log softmax argmax argmin any all size dim numel fill_ zero_ mul_ add_ div_
sub_ copy_ clamp clamp_ train eval parameters named_parameters state_dict modules children new_zeros new_ones
isnan isfinite eq ne gt lt ge le matmul mm bmm t repeat expand chunk stack write flush debug info warning error
exception set_epoch set_postfix perf_counter exists is_file is_dir mkdir touch unlink glob iterdir relative_to
with_suffix random_ normal_ uniform_ requires_grad_ type masked_fill scatter_ gather unbind nonzero where close
qsize is_set is_alive getsockname getpeername fileno settimeout setsockopt
encode decode digest hexdigest Semaphore BoundedSemaphore Lock RLock Event Condition Queue SimpleQueue
"""
HARMLESS_METHODS = frozenset(_HARMLESS_METHODS.split())
"""Methods of tensors, containers, texts, paths, models and optimizers; and what only makes something to wait for."""
_PLAIN = """
print len range int float str sum min max abs round list dict tuple set frozenset zip enumerate sorted
isinstance issubclass getattr hasattr setattr repr bool any all map filter super type id vars divmod pow format
hash reversed slice bytes bytearray callable chr ord hex bin iter object property Path deepcopy partial
defaultdict Counter deque
"""
PLAIN = frozenset(_PLAIN.split())
