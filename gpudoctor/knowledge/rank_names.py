"""Names by which programs call a rank's number among some of the ranks, as Megatron, DeepSpeed, torch's meshes and vLLM
do: `tp_rank`, `get_data_parallel_rank()`, `ring_attn_rank`. Which ranks of the world have it, no name tells."""

import re

from gpudoctor.lazy import lazy_re

_GROUPS = (
    "tp|dp|pp|ep|cp|sp|mp|etp|edp|vpp|fsdp|hsdp|zero|tensor|model|data|pipe|pipeline|expert|context|sequence|seq|ring"
    "|ulysses|parallel|stage|group|subgroup|mesh|shard|replica|replicate|row|col|column|node|machine|host|island|team"
    "|slice|intra|inter"
)
IN_GROUP = lazy_re(rf"(?:get_)?(?:\w+_)?(?:{_GROUPS})(?:_\w+)?_rank(?:_id)?", re.I)
