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
    PERMISSION,
    RENDEZVOUS,
    SHAPE,
)
from gpudoctor.lazy import lazy_re

OF_NAME: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (lazy_re(text), judged)
    for text, judged in (
        (r"OutOfMemory|OOM", GPU_MEMORY),
        (r"^Rendezvous", RENDEZVOUS),
        (r"Config|Argument|Option|Usage|Validation|Setting|Missing(?:Mandatory|Config)|Interpolation", CONFIG),
        (r"Permission|Auth|Forbidden|Access|Credential|Gated|Token", PERMISSION),
        (r"NotFound|Missing|NoSuch", FILE),
        (
            r"\wTimeout|Timeout(?!Error$)|Http|HTTP|Connect|Network|Url|URL|Remote|Protocol|SSL|Throttl"
            r"|ClientError|Download",
            DOWNLOAD,
        ),
        (r"Decode|Pars|Corrupt|Truncat|Malformed|Format|Data|Image|Sample|Zip|Arrow|Parquet", DATA),
        (r"Version|Compat|Requirement|Compil|Backend|Unsatisfiable|Conflict|PackagesNotFound|Dependency", MISMATCH),
        (r"Shape|Dimension|Size", SHAPE),
        (r"Checkpoint|Pickl|Serializ|Tensor", CHECKPOINT),
        (r"Import|Module", IMPORT),
        (r"Memory", MEMORY),
        (r"NaN|Nan|Overflow|Diverge", NAN),
    )
)
