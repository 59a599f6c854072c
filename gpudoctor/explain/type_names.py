"""What the words tell of which the name of an exception's type is made, where nothing else tells more."""

import re

from gpudoctor.cause import Judged
from gpudoctor.explain.kinds import (
    CHECKPOINT,
    CONFIG,
    DATA,
    DOWNLOAD,
    FILE,
    GPU_MEMORY,
    IMPORT,
    MEMORY,
    MISMATCH,
    NAN,
    NOBODY,
    PERMISSION,
    RENDEZVOUS,
    SHAPE,
)
from gpudoctor.explain.package_types import WAITED
from gpudoctor.lazy import lazy_re

OF_NAME: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (lazy_re(text), judged)
    for text, judged in (
        (r"(?:C[Uu][Dd][Aa]|G[Pp][Uu]|Device|H[Bb][Mm]|V[Rr][Aa][Mm])\w{0,20}(?:OutOfMemory|OOM)", GPU_MEMORY),
        (r"^Rendezvous", RENDEZVOUS),
        (r"Config|Argument|Option(?!al)|Usage|Validation|Setting|MissingMandatory|Interpolation", CONFIG),
        (
            r"Permission|Auth(?:entication|orization)?(?:Error|Exception|Failure|Failed|Denied|Required)|Forbidden(?!Con)|"
            r"Access(?:Denied|Error)|Credential|Gated|Unauthori[sz]ed",
            PERMISSION,
        ),
        (
            r"(?:File|Path|Directory|Folder|Dataset|Repo(?:sitory)?|Entry|Revision|Bucket|Blob|Artifact|Checkpoint)"
            r"s?(?:NotFound|Missing)|(?:Missing|NoSuch)(?:File|Path|Directory|Folder|Bucket)|^NoSuchKey$",
            FILE,
        ),
        (r"TimedOut|Timeout", WAITED),
        (
            r"H[Tt][Tt][Pp](?!Not)|SSL|Throttl|^U[Rr][Ll]Error|Download(?:Fail\w{0,10}|Error|Exception)?$|^ConnectionError$",
            DOWNLOAD,
        ),
        (r"Connect(?:ion)?(?:Error|Failure|Failed|Lost|Closed|Refused|Reset|Exception)", NOBODY),
        (
            r"Decod(?:e|er|ing)(?:Error|Exception)|Pars(?:e|er|ing)\w{0,10}(?:Error|Exception)|Corrupt|Malformed|"
            r"Format(?:Error|Exception|ting)|(?:Bad|Invalid|No|Empty|Missing|Incomplete)\w{0,20}(?:Data(?!base)|Image|Sample)|"
            r"Data(?:set|loader)?(?:Error|Exception|Exhausted)|(?:Image|Sample)(?:Error|Exception)|Zip|Parquet|Arrow",
            DATA,
        ),
        (
            r"Version(?:Mismatch|Error|NotSupported|TooOld|IsTooOld)|Incompatib|Compatibility|Requirement|"
            r"Compil(?:e|er|ation)(?:Error|Exception|Failed)|Unsatisfiable|PackagesNotFound",
            MISMATCH,
        ),
        (r"Shape(?:Error|Mismatch|Exception)|Dimension(?:Error|Mismatch|ality)|SizeMismatch", SHAPE),
        (r"Checkpoint|Unpickl|Deserializ", CHECKPOINT),
        (r"ImportError$|(?:Missing|Optional)(?:Dependency|Package|Requirement)", IMPORT),
        (r"^_?ArrayMemoryError$", MEMORY),
        (r"N[Aa][Nn](?:Error|Exception|Loss|Detected)|NonFinite|Diverge", NAN),
    )
)
"""Each decides only where its words are the type's own matter in what packages define: measured over the types of 123
packages (docs/measured/explain.md). Memory, a module or a connection in a name tell nothing of this machine's."""
