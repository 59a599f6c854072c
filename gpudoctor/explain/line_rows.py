"""Of what kind an error's text is, by its shape: what is refused, lost, used up or not there, in whatever words.

Asked of texts only of which it is known that they are errors, or that end a log that shows no job, and that neither a
symptom nor a remedy knows. Each row names both the thing and what is wrong with it. Before a row of things stand those
of its special kinds; an errno's words decide before all of them.
"""

import re

from gpudoctor.cause import Judged
from gpudoctor.explain.guesses import without_guesses
from gpudoctor.explain.kinds import (
    CHECKPOINT,
    CONFIG,
    DATA,
    DIED,
    DOWNLOAD,
    GPU_MEMORY,
    LIMITS,
    MEMORY,
    MISMATCH,
    NAME,
    NAN,
    NO_DEVICE,
    PERMISSION,
    RENDEZVOUS,
    ROUTE,
    own,
)
from gpudoctor.lazy import lazy_re

WRONG = (
    r"not|n't|no|cannot|could not|unable|fail(?:ed|s|ure|ing)?|error|refused|denied|invalid|lost|missing|timed out"
    r"|unavailable"
)
"""What is wrong with a thing, in whatever words."""


def _of(thing: str, more: str = "", near: int = 60) -> str:
    """A thing and what is wrong with it, in this order or the other. `more`: words of its own for that."""
    wrong = rf"(?:{WRONG}{more})"
    return rf"(?i)(?:{thing})[^\n]{{0,{near}}}?\b{wrong}\b|\b{wrong}\b[^\n]{{0,{near}}}?(?:{thing})"


ROWS: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (lazy_re(text), judged)
    for text, judged in (
        # what NVIDIA's catalog lays to the program that ran there (knowledge/gpus/xid.py)
        (r"\bXid \([^)\n]{4,40}\): (?:8|13|25|31|32|43|45|69|80),", own("illegal-access")),
        # memory, time and room that are used up
        (
            r"(?i)\b(?:cuda|gpu|hip|vram|device)\b[^\n]{0,30}\b(?:out of memory|oom)\b"
            r"|\bran out of (?:gpu )?memory: tried|"
            r"\bgpu \d{1,3} ran out of memory",
            GPU_MEMORY,
        ),
        (
            r"(?i)\b(?:memory|mem|rss|vmem) (?:usage|limit|cgroup)?[^\n]{0,30}\b(?:exceed|limit|over|above)\w*|"
            r"\b(?:exceed\w*|over|beyond|hit|reach\w*)\b[^\n]{0,20}\bmem(?:ory)?\b[^\n]{0,12}\b(?:limit|usage"
            r"|request)|"
            r"\boom[-_ ]?kill|\bOOMKilled\b|\bkilled signal terminated program\b",
            MEMORY,
        ),
        (
            r"(?i)\b(?:exceed\w*|reach\w*|over|beyond|hit)\b[^\n]{0,24}\b(?:time|run(?:ning)?"
            r"|wall)[- ]?(?:time)?[- ]?limit|"
            r"\b(?:wall ?time|time limit|run limit)\b[^\n]{0,30}\b(?:exceeded|expired|reached|up)\b"
            r"|\bDeadlineExceeded\b|"
            r"\bsending signal (?:TERM|KILL) to command\b|\bstart operation timed out\b|\bcell execution timed out\b",
            Judged("time-limit", "scheduler", "as it is"),
        ),
        (
            r"(?i)\bpre-?empt(?:ed|ion notice)\b|\bspot (?:instance |vm )?(?:interruption|termination|reclaim"
            r"|eviction)|"
            r"\breclaimed\b|\bbeing deallocated\b",
            Judged("preempted", "scheduler", "as it is"),
        ),
        (
            r"(?i)\bquotas?\b[^\n]{0,60}\b(?:exceed|reach|insufficient|used up)\w*|\b(?:exceed\w*|over"
            r"|insufficient)\b"
            r"[^\n]{0,40}\bquota\b|\bresourcelimitexceeded\b|\bservice limit\b|\bbilling\b[^\n]{0,40}\b(?:disabled"
            r"|limit)",
            own("quota", "environment"),
        ),
        (
            r"(?i)\bno space left(?! (?:in|on|for) (?:the )?(?:\w{2,6} )?(?:cache|buffer|pool|queue|gpu|memory))|"
            r"\bdisk (?:is )?full\b|\b(?:ephemeral"
            r"|local)[- ](?:local )?storage\b[^\n]{0,40}\b(?:exceeds?|low)|"
            r"\bnot enough (?:free )?(?:disk )?space\b|\blow on resource: ephemeral",
            own("disk-full", "node"),
        ),
        (r"(?i)\btoo many open files\b|\bpids? limit\b|\bcan't start new thread\b", LIMITS),
        # who may not, and who is asked too often
        (
            r"(?i)(?<!hw )(?<!sw )(?<!hardware )(?<!thermal )(?<!brake )\b(?:slow ?down\b|throttl)|"
            r"\brate[- ]limit(?!er)|\btoo many requests\b|\breduce your request rate\b|\b429\b",
            DOWNLOAD,
        ),
        (
            r"(?i)\btime ?too ?skewed\b|\bclock skew\b|\bclocks? (?:differ|is off)|\bnot yet valid\b",
            own("config", "environment"),
        ),
        (
            r"(?i)\b(?:token|credential|certificate|ticket|session|key|licen[cs]e)s?\b[^\n]{0,40}\b(?:expired"
            r"|invalid|revoked"
            r"|not (?:set|found|configured|valid|accepted))\b|\bexpired ?token\b|\bunable to locate credentials\b|"
            r"\b(?:unauthori[sz]ed|unauthenticated|forbidden|not authori[sz]ed|authentication failed"
            r"|login (?:failed|required)"
            r"|access ?denied|permission denied|no permission|not permitted)\b|\b40[13]\b[^\n]{0,20}\b(?:error"
            r"|forbidden"
            r"|unauthorized|response)|<Response \[40[13]\]>",
            PERMISSION,
        ),
        # names, ways and peers
        (
            r"(?i)\bno such host\b|\bcan(?:'t|not) resolve\b|\bcould not resolve\b|\bhost not found\b"
            r"|\bunknown host\b",
            NAME,
        ),
        (r"(?i)\bno route to host\b|\bnetwork (?:is )?unreachable\b|\bdestination is unreachable\b", ROUTE),
        (
            r"(?i)\bdid not (?:join|register|arrive|connect)\b|\bbarrier timed out\b|\b(?:rendezvous"
            r"|coordination service|(?<![/.])c10d(?![/.])"
            r"|tcpstore|etcd|gcs)\b[^\n]{0,80}\b(?:fail|timed? ?out|not reach|closed|error|no longer|unavailable)\w*|"
            r"\btimed out\b[^\n]{0,40}\bwaiting for\b[^\n]{0,24}\b(?:workers|ranks|nodes|tasks|peers|hosts"
            r"|replicas)\b|"
            r"\bfail\w*\b[^\n]{0,40}\b(?:connect|join|reach|regist)\w*[^\n]{0,30}\b(?:gcs|master|coordinator|head"
            r"|chief"
            r"|rendezvous|scheduler)\b|\bwait\w*\b[^\n]{0,30}\bfor (?:master|all (?:ranks|nodes|workers|tasks))\b",
            RENDEZVOUS,
        ),
        # drivers, devices, fabrics
        (
            _of(
                r"\bnvml\b|\blibnvidia-ml|\blibcuda\.so|\bnvidia driver|\bcuda driver|\bfabric ?manager|\bnvswitch"
                r"|\bgsp firmware"
                r"|\bnvidia-smi\b|\bcdi devices?\b|\bcdi spec|\bcontainer toolkit|\bdcgm\b|\bmps (?:control|server"
                r"|client|daemon)|"
                r"\bze(?:Init|ContextCreate)\b|\blevel[_ ]zero",
                r"|incompatible|unresolvable|exited|unknown",
            ),
            own("driver", "node"),
        ),
        (
            r"(?i)\bno (?:\w{1,12} )?(?:cuda |nvidia |amd )?(?:gpus?|accelerators?"
            r"|cuda devices?)\b[^\n]{0,20}\b(?:visible|found"
            r"|available|detected|present)\b|\bno (?:\w{1,12} )?devices? (?:were |was )?(?:found|available|detected|"
            r"visible)\b|"
            r"\b(?:could not|cannot|can't|unable to|failed to) (?:find|initialize|find/initialize|open|"
            r"acquire)\b[^\n]{0,40}\b"
            r"(?:accelerator|cuda|opencl|hip|gpu|sycl|egl)s? (?:device|\d|platform)",
            NO_DEVICE,
        ),
        (
            r"(?i)\bxid\b|\becc error|\bfallen off\b|\bnvlink\b[^\n]{0,40}\b(?:error|down|inactive)|\bremapp\w* fail",
            own("device-lost", "node", "elsewhere"),
        ),
        (
            _of(
                r"\bibv_\w|\brdma_\w|\bfi_(?:getinfo|domain|endpoint|fabric|av)\b|\bcxi[l\d]|\blibfabric"
                r"|\bopenfabrics|\bverbs\b"
                r"|\bmlx[45]_|\brdma (?:device|link)|\bucx endpoint|\bhca\b|\bpkey\b"
            ),
            own("rdma", "fabric", "not decided"),
        ),
        # images and containers
        (
            r"(?i)\b(?:image|container)\b[^\n]{0,20}\b(?:build|pull|creat|import|export"
            r"|start)\w{0,6}\b[^\n]{0,30}\bfail|"
            r"\bfail\w*\b[^\n]{0,30}\b(?:pull|import|build|export|unpack|register"
            r"|extract)\w{0,6}\b[^\n]{0,20}\b(?:image|layer"
            r"|container)\b|\bsquash(?:fs|fuse)|\brootfs\b|\bmanifest (?:unknown|for)\b|\bimage driver\b"
            r"|\bimage directory\b|"
            r"\bcontainer creation failed\b|\binitializing source docker",
            own("image", "environment", "not decided"),
        ),
        # file systems
        (
            _of(
                r"(?<![/\w.-])(?:u?n?mount(?:ed|ing|s|point)?|remount|fuse(?:rmount)?|nfs|lustre|gpfs|beegfs|ceph|"
                r"juicefs"
                r"|gcsfuse|s3fs"
                r"|bucket|volumes?|meta redis|transport endpoint|file ?system)\b",
                r"|broken|stale|doesn't exist|hung|blocked|shutdown|not connected",
            ),
            own("storage", "environment", "not decided"),
        ),
        # versions, solvers, compilers
        (
            r"(?i)\bnothing provides\b|\bnot installable\b|\bcould not solve\b|\bunsatisfiable\b"
            r"|\bno solution found\b|"
            r"\bmatches no installed packages\b|\bsupported python range\b|\brequires python\b"
            r"|\bversion (?:mismatch|conflict)|"
            r"\bno longer (?:supported|available)\b|\b(?:compute capability|gpu architecture)\b(?!\W{0,4}\d[\d.]*\s*$)|"
            r"'sm_\d{2,3}'"
            r"|\bno execution plans?\b|"
            r"\bno valid execution plan|\bexecution plans? built\b|\bfailed to legalize\b|^LLVM ERROR"
            r"|\bfailed to build\b|"
            r"\bincompatible (?:version|abi|wheel|strategy)|\bundefined symbol\b|\bGLIBC(?:XX)?_\d"
            r"|\bno kernel image\b|"
            r"\btoo much shared data\b",
            MISMATCH,
        ),
        # launchers and schedulers
        (
            r"\b(?:PMIX|PMIx|PRTE|PRRTE|ORTE|PMI2?)\b[^\n]{0,12}(?:ERROR|[Ee]rror|_Init|_Abort|daemon)"
            r"|(?i:\b(?:mpi_init|pmi_init)"
            r"\b[^\n]{0,60}\bfail|\bremote daemon\b|\bhydu_\w|\bssh (?:not successful|checks? failed|exited)|"
            r"\bexecvp error\b|\b(?:application|task|step) launch failed\b|\bunable to (?:start|launch"
            r"|find the specified executable)|"
            r"\bslots?\b[^\n]{0,40}\b(?:not|no|specified)\b)",
            own("launcher", "environment", "not decided"),
        ),
        (
            r"(?i)\b(?:queue|partition|account|qos|reservation|priorityclass|job ?submission|resource[_ ]list"
            r"|resource value)\b"
            r"[^\n]{0,60}\b(?:not|no|invalid|illegal|disabled|unknown|fail\w*|exceed\w*|limit|denied|rejected"
            r"|closed|held)\b|"
            r"\b(?:no such|unknown|invalid|illegal|exceeds)\b[^\n]{0,30}\b(?:queue|partition|account|qos|reservation"
            r"|priorityclass|resource)\b|\bjob (?:was )?(?:held|evicted|rejected)\b|\bnot submitted\b"
            r"|\bunschedulable\b|"
            r"\b(?:insufficient|not enough|unable to provision)\b[^\n]{0,40}\bcapacity\b|\bCapacityError\b"
            r"|\bNO_CAPACITY\b|\bno (?:gpu )?(?:offers|capacity)\b|\bstock ?out\b|"
            r"\bQOS\w{3,40}|\bAssoc\w{3,40}Limit\b|\bReqNodeNotAvail\b|\bPartition\w{4,20}Limit\b",
            Judged("scheduler", "user", "not decided"),
        ),
        (r"\bruntime error: |\bnil pointer\b|\bpanicked at\b|^Assertion failed\b|\bcore dumped\b", own("exception")),
        # numbers, data and checkpoints
        (r"(?i)\bloss is (?:nan|inf)|\bnan (?:loss|detected)\b|\b(?:nan|inf)s? (?:in|found)\b", NAN),
        (
            r"(?i)\bcheckpoint\b[^\n]{0,60}\b(?:does not exist|not found|corrupt\w*|cannot|could not|mismatch"
            r"|missing)\b|"
            r"\bcannot resume\b",
            CHECKPOINT,
        ),
        (
            r"(?i)\binvalid utf-8\b|\bno samples\b|\bempty (?:dataset|file|batch)\b|\b(?:corrupt\w*|truncated"
            r"|malformed)\b|"
            r"\bchecksum\b[^\n]{0,40}\b(?:mismatch|differ|wrong|fail)|\bnothing to train on\b",
            DATA,
        ),
        # what follows from an end that is told elsewhere
        (
            r"(?i)\b(?:worker|trainer|process|rank|task|actor|replica|child|node|pod|container|peer"
            r"|step)s?\b[^\n]{0,60}\b(?:died"
            r"|has died|was killed|aborted|crashed|terminated|disconnected|unexpectedly|pod deleted|is dead|dead)\b|"
            r"\bphase (?:\w+ -> )(?:Failed|Error)\b|\bmarked dead\b|\bcontainer failed\b|\btask\(s\) exited\b|"
            r"\bexits? with return code\b|\banother task died\b|\b(?:MPI_ABORT|MPI_Abort)\b|\bpod deleted\b",
            DIED,
        ),
        # what a command line gives, and settings
        (
            r"(?i)\b(?:unknown|unrecogni[sz]ed|ambiguous|no such|invalid|missing) (?:command[- ]line )?"
            r"(?:option|argument|flag|subcommand)s?\b|\boption requires an argument\b|\bIncorrect usage\b",
            own("argument", "user"),
        ),
        (
            r"\bKey '[\w.-]{1,100}' (?:is )?not in (?:struct\b|'\w+')|^\s{2,8}full_key: \w|"
            r"(?i:\b(?:validation errors?|invalid (?:type|value|configuration|config)"
            r"|field required|extra inputs"
            r"|unknown (?:field|key|setting|optimizer|variable|parameter|command)"
            r"|missing property"
            r"|(?:key|field|property|setting|variable|value|entry|option) '?[\w.-]{1,60}'? (?:is )?(?:missing"
            r"|required|not set"
            r"|not allowed|undefined)|unbound variable|no such (?:variable|setting)|don't meet the spec\w*"
            r"|does not validate|undefined (?:volume|variable|service)|must be (?:positive|one of|a )|out of range"
            r"|unrecognized)\b)",
            CONFIG,
        ),
    )
)


NO_FAULT = lazy_re(
    r"^[\s|*-]{0,24}[A-Za-z][\w `().?/-]{1,60}:\s{0,8}"
    r"(?:No(?:ne|t Active| CUDA)?|N/A|Disabled|False|0|UNTHROTTLED)[\s|]*$"
    r"|\.\.\. ?truncated\b|\bOOM killer (?:en|dis)abled\b"
)
"""A form's field that says no ("Remapping Failure Occurred : No"); a mark of what was cut; the kernel, as the machine
goes to sleep and wakes."""


def judged_shape(text: str, *, guesses: bool = False) -> Judged | None:
    """By the rows here alone, each of which tells by itself that something is wrong. `guesses`: what a text only takes
    to be possible counts too."""
    if NO_FAULT.search(text[:200]):
        return None
    said = text[:1000] if guesses else without_guesses(text[:1000])
    return next((judged for words, judged in ROWS if words.search(said)), None)
