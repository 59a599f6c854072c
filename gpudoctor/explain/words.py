"""What the words of a message tell of its kind, the first that fits, whoever wrote it.

The narrow rows stand first: a thing by a name that nothing else has. Of the wide ones those that refuse a value go
before those that only name a thing: "should be a `StreamingDataset`" is about what was handed in, and not about data.
"""

import re

from gpudoctor.cause import Judged
from gpudoctor.explain.kinds import (
    ARGUMENT,
    CHECKPOINT,
    CONFIG,
    DATA,
    DIED,
    DOWNLOAD,
    FILE,
    GPU_MEMORY,
    IMPORT,
    LIMITS,
    MEMORY,
    MISMATCH,
    NAME,
    NAN,
    NO_DEVICE,
    PERMISSION,
    RENDEZVOUS,
    SHAPE,
    TIMED_OUT,
    own,
)
from gpudoctor.lazy import lazy_re

SIZES = r"(?:\[\d{1,12}(?:, ?\d{1,12}){0,7},?\]|\(\d{1,12}(?:, ?\d{1,12}){0,7},?\))"
"""Sizes of a tensor, as torch and numpy write them: a message that names two of them, and a shape, is about shapes."""
PATH = (
    r"(?:[\w.)'\"]?/[\w.*{]|\b\w:\\|\b(?:files?|folders?|director(?:y|ies)|dirs?|paths?)\b|"
    r"\.(?:json|ya?ml|toml|txt|csv|tsv|parquet|arrow|pt|pth|bin|ckpt|safetensors|np[yz]|h5|tar|gz|zip|zst|py|sh|so|"
    r"jpe?g|png|wav|flac|mp4|model|sif|sqsh|idx|pkl)\b)"
)
"""What shows that a path is not there, and no name of something else."""
OF_SETTINGS = r"\bconfig\w*\b|\byaml\b|hyperparameter|\bTrainingArguments\b"
OF_WORDS: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (lazy_re(text), judged)
    for text, judged in (
        (r"\b(?:[Nn]eeds|[Rr]equires) (?:version )?(?!Python\b)[\w '-]{0,30}\d+(?:\.\d+)+'? or "
         r"(?:less|lower|older|newer|later|greater|higher)\b", MISMATCH),
        (r"(?i)\b(?:binary|library|extension)\b[^\n]{0,20}\bnot found\b[^\n]{0,200}"
         r"(?:site|dist)-packages\S{1,200}\.so\b", MISMATCH),
        (r"\bRAY_memory_\w{3,40}|\bray-oom-prevention\b", MEMORY),
        (r"(?i)\b(?:cuda|gpu|device|hbm)\b[ -](?:memory )?allocation (?:has )?failed|"
         r"failed to allocate[^\n]{0,40}\b(?:device|gpu|cuda|hbm|vram)\b|"
         r"Attempting to (?:reserve|allocate) [\d.]+ ?[KMGT]i?B?\b[^\n]{0,60}\bnot possible|"
         r"\b(?:cudaErrorMemoryAllocation|hipErrorOutOfMemory|CUDA_ERROR_OUT_OF_MEMORY)\b", GPU_MEMORY),
        (r"(?i)insufficient memory on (?:the )?(?:accelerator|device|gpu)\b", GPU_MEMORY),
        (r"(?i)(?:cuda|gpu|hip|cublas\w*|nccl)[^\n]{0,40}out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_"
         r"FAILED|No available memory for the cache blocks|KV cache[^\n]{0,80}(?:larger than|memory)|"
         r"Free memory on device|RESOURCE_EXHAUSTED", GPU_MEMORY),
        (r"(?i)uncorrectable ECC|fallen off the bus|\bGPU is lost\b", own("device-lost", "node", "elsewhere")),
        (r"Java heap space|runtime: out of memory|memory allocation of \d+ bytes failed|\bhost out of memory\b|"
         r"\b(?:out of|no|not enough|insufficient) host memory\b|DefaultCPUAllocator|can't allocate memory|"
         r"Unable to allocate [\d.]+ [KMGTP]iB|std::bad_alloc", MEMORY),
        (r"(?i)error\(s\) in loading state_dict|size mismatch for |Missing key(?:\(s\)| in checkpoint)|"
         r"\bno (?:valid )?checkpoints? (?:found|was)|"
         r"PytorchStreamReader|"
         r"(?:checkpoint|safetensors|state_dict|pytorch_model)\b[^\n]{0,60}(?:not found|does not exist|"
         r"corrupt|missing)|"
         r"weights_only|Weights only load failed|invalid load key|HeaderTooLarge|InvalidHeader|"
         r"MetadataIncompleteBuffer|"
         r"unexpected EOF, expected \d+ more bytes|optimizer group|parameter group|"
         r"(?i:\b(?:load|restor|resum|sav)\w{1,4}\b[^\n]{0,30}\bcheckpoint|\bcheckpoint\b[^\n]{0,20}\b(?:load"
         r"|restor|sav)ed)",
         CHECKPOINT),
        (r"inline_container\.cc:\d+\]? ?\. unexpected pos|PytorchStreamWriter failed|write_end_of_file",
         own("disk-full", "node")),
        (r"(?i)\b(?:loss|grad\w*|gradient norm|logits|weights?)\b[^\n]{0,60}\b(?:nan|inf|non-?finite|not finite)\b|"
         r"\b(?:nan|non-?finite)\b[^\n]{0,60}\b(?:loss|grad\w*|values?)\b|probability tensor contains|returned nan "
         r"values|found invalid values:[^\0]{0,80}\bnan\b|loss scale already at minimum|\bloss scale\b[^\n]{0,40}"
         r"\bminimum\b|minimum loss scale", NAN),
        (r"(?i)\bworld[ _]?size\b[^\n]{0,40} divisible by|divisible by[^\n]{0,40}(?:parallel|world|batch_size)",
         CONFIG),
        (rf"\A(?![^\n]*\bconstraint\b)[^\n]*?(?i:shape|size|dimension)[^\n]{{0,80}}?{SIZES}[^\n]{{1,120}}?{SIZES}|"
         r"must match the size of tensor|shapes cannot be multiplied|size mismatch, |(?i:shape)[^\n]{0,40}(?:is )?"
         r"invalid for input|expected input\S{0,3} to have|Sizes of tensors must match|"
         r"to have \d+ channels|size\(-1\) must be|same shape|"
         r"(?i:\b(?:different|inconsistent|mismatch\w*|unequal) (?:\w{1,12} ){0,2}(?:lengths?|shapes?|ranks?)\b)|"
         r"\b(?i:(?:expected|must be|should be|at least) (?:an? )?[1-5]-?D)\b|must be square|[Ii]nput shape must|"
         r"not broadcastable|mat1 and mat2|The expanded size of the tensor|could not be broadcast"
         r"|inconsistent tensor "
         r"size|Expected input batch_size|Calculated padded input size|not divisible|Dimension out of range", SHAPE),
        (r"stack expects each tensor to be equal size|default_collate|each element in list of batch|"
         r"num_samples should be"
         r"|DataLoader worker (?:\(pid|process \d)|Target \d+ is out of bounds|"
         r"all elements of (?:input|target) should be between|"
         r"class values "
         r"must be|\b(?:[Ll]abel|[Tt]arget)s? (?:values?|ids?|index(?:es)?|indices) (?:must|should)\b|"
         r"image file is truncated|broken data stream|cannot identify image|Truncated File Read", DATA),
        (r"(?i)device-side assert(?!ions)|illegal memory access", own("illegal-access")),
        (r"(?i)\border differs across ranks|\brank \d+ is \S[^\n]{0,120} while rank \d+ is ", own("divergence")),
        (r"retrieving ncclUniqueId from|setting up NCCL communicator", RENDEZVOUS),
        (r"(?i)\bno (?:cuda |nvidia )?gpus? (?:were |was )?(?:found|available|detected)|"
         r"\b(?:cuda|gpu|hip|opencl)\b[^\n]{0,40}\bno (?:\w{1,12} )?devices? (?:were |was )?(?:found|available|"
         r"detected)\b",
         NO_DEVICE),
        (r"(?i:\blocal_rank\b[^\n]{0,60}\bdevice)|invalid device ordinal|deserialize object on CUDA device \d|"
         r"Expected a '?cuda'? device|"
         r"Invalid CUDA '?device", own("device-ordinal")),
        (r"No CUDA GPUs are available|(?i:cuda driver (?:can't|cannot|could not) be loaded)|"
         r"no NVIDIA driver|CUDA driver (?:version|initialization)|driver is too old",
         own("driver", "node")),
        (r"cannot import name '\w{1,80}' from '[\w.]{1,200}' \((?![^)\n]*(?:site|dist)-packages)[^)\n]{1,400}\)",
         IMPORT),
        (r"got an unexpected keyword argument|has no attribute|cannot import name|undefined symbol"
         r"|version [`']?GLIBC|"
         r"numpy\.dtype size changed|(?:was|were|been) compiled (?:against|using|with)|requires [\w-]+ ?[<>=]=|"
         r"incompatible with|is required for a normal functioning|untagged enum|Descriptors cannot|"
         r"(?:newer|older|different) version of|no kernel image|multiarray failed|_ARRAY_API not found|"
         r"does not recognize this architecture|operator \S+ does not exist"
         r"|Couldn't instantiate the backend tokenizer"
         r"|CUDA_HOME environment variable is not set|does not match the version|"
         r"mismatches the CUDA version|No matching distribution found|find a version that satisfies|[Uu]nsatisfiable|"
         r"ResolutionImpossible|unsupported GNU version|"
         r"\bversion \d+(?:\.\d+)+ (?:and|or) (?:above|later|newer|higher)|"
         r"(?:>=|==|<=|<|>) ?\d+(?:\.\d+)+ (?:is|are) required|\b(?:un)?supported since [A-Z]\w{1,30} \d",
         MISMATCH),
        (r"(?i)requires the \S+ library but it was not found|(?:please|try to)[^\n]{0,20} (?:pip )?install\b|is not "
         r"installed|\b\w+ is required to (?:build|compile|use|run)\b|"
         r"\brequires? (?:the )?[`'\"]?[\w-]{2,40}[`'\"]? (?:library|package|module)\b|"
         r"No module named|ensure you(?:'ve| have) installed", IMPORT),
        (r"inplace operation|ready (?:only once|twice)|backward through the graph a second|does not require grad"
         r"|leaf "
         r"Variable|start a new process before|re-initialize CUDA in forked|"
         r"(?i:can't pickle|cannot pickle|refusing to serialize)|Can't get local",
         ARGUMENT),
        (r"ancdata|(?i:pthread_create failed)|can't start new thread", LIMITS),
        (r"Watchdog caught collective operation timeout|NCCL operations have failed or timed out", TIMED_OUT),
        (r"communicator was aborted|Connection closed by peer \[", DIED),
        (r"[Ii]nput type \S[^\n]{0,80} and (?:weight|bias) type|unscale FP16 gradients|inf checks were "
         r"recorded", ARGUMENT),
        (r"to deserialize object on a CUDA device but", NO_DEVICE),
        (r"(?i:unable to find (?:an engine|a valid cuDNN algorithm))|doesn't have \w{2,8} built in|"
         r"not compatible with the current PyTorch", MISMATCH),
        (r"terminate called (?:without|after)", own("signal", "program", "not decided")),
        (r"expected scalar type|must have the same dtype|Found dtype|not implemented for '|expected m1 and m2 to have",
         ARGUMENT),
        (r"(?i)\bapi[ _-]?key\b[^\n]{0,60}\b(?:cannot|must|invalid|missing|not|no)\b|\b(?:no|missing|invalid) "
         r"(?:api[ _-]?key|access token|token available|credentials)\b|"
         r"host key verification failed|permission denied \(|unauthorized|"
         r"\b40[13] client error|access denied|AccessDenied|gated repo|restricted and you are not|"
         r"must have access to it|must be authenticated|invalid (?:user )?token", PERMISSION),
        (r"(?i)\bquotas?\b[^\n]{0,60}\b(?:exceed|reach|insufficient|used up)\w*|\b(?:exceed\w*|insufficient)\b"
         r"[^\n]{0,40}\bquota\b", own("quota", "environment")),
        (r"(?i)\b(?:enough|insufficient|no available) (?:cluster )?resources\b|"
         r"\bresource requests?\b[^\n]{0,80}\bcannot be\b",
         own("scheduler", "scheduler", "not decided")),
        (r"(?i)not a valid model identifier|is not a local folder|\b404 client error|Repository Not Found|"
         r"Entry Not Found|"
         r"couldn't find (?:a |any )?(?:dataset|data file)|doesn't exist on the hub", FILE),
        (r"(?i)offline mode is (?:enabled|set)|(?:cannot|could not|couldn't|unable to)\b[^\n]{0,80}\boffline\b|"
         r"(?:could not|couldn't|failed to|unable to) (?:be )?(?:download|fetch)|"
         r"couldn't connect to|max retries exceeded|connection error|429 client error"
         r"|\b50\d server error|"
         r"Too Many Requests|HTTPSConnectionPool|Read timed out", DOWNLOAD),
        (r"(?i)name resolution|getaddrinfo|nodename nor servname|Name or service not known|"
         r"No address associated|(?:can't|could not|cannot) resolve|does not resolve|NXDOMAIN", NAME),
        (r"(?i)\b(?:unknown|unrecognized|unrecognised|ambiguous|no such|invalid) (?:command[- ]line )?"
         r"(?:option|argument|flag|subcommand)s?\b(?! (?:combination|value))", own("argument", "user")),
        (rf"(?i)no file named\b|{PATH}[^\n]{{0,120}}\bdo(?:es not|esn't) exist\b|"
         rf"\bdo(?:es not|esn't) exist\b[^\n]{{0,40}}{PATH}|"
         r"(?:(?:could|did|can)(?: ?not|n't)|unable to|failed to) find\b[^\n]{1,60}? (?:at|in|under) [\"'`]?[~./][\w/]|"
         r"not found in (?:the )?(?:\$?path|folder|director(?:y|ies)|[\"'`]?[~./\\])|"
         r"unable to find\b[^\n]{0,60}\bfile|file not found|cannot find the (?:file|path)|is not a (?:file|directory)|"
         r"no (?:data|checkpoint|image|parquet|input)? ?files? (?:found|match)|cannot open shared object", FILE),
        (rf"(?i)\A(?![^\n]*(?:{OF_SETTINGS}))[^\n]*?\b(?:must|should|needs? to|ha(?:s|ve) to|(?:can|may) only)\b"
         r"[^\n]{0,30}?\bbe (?:set to |strictly )?(?:an? (?!file|path|folder|directory|valid path)|one of |either |"
         r"in [\[({'`]|of type |instances? of |of the following types|callable|None\b|True\b|False\b|positive|"
         r"non-?negative|provided|specified|greater|less|larger|smaller|at (?:least|most)|between|[<>]=?|[`'\[(\d])|"
         r"\bPlease pass `\w{1,60}` to\b", ARGUMENT),
        (r"(?i)\bconfig(?!ure_)\w*\b|(?:^|\s)--[a-z][\w-]+|\byaml\b|hyperparameter|must be divisible|train_batch_size|"
         r"set `[\w.]+`|\bTrainingArguments\b|unknown key|max_model_len|"
         r"mutually exclusive", CONFIG),
        (r"(?i)\b(?:datasets?|samples?|(?:data|tar)[ _]?shards?|corrupt\w*|truncated|decod\w+|"
         r"malformed|archive|unexpected end of)\b",
         DATA),
        (r"(?i)out of memory|failed to allocate memory \[Op:", GPU_MEMORY),
    )
)  # fmt: skip
"""What a message says, the first that fits; asked where the type says little."""
