"""What bash makes of a start: the real bash runs each text with a torchrun that only tells its words, and `lint` reads
the same words. A word that nobody knows before it runs stays unknown; none may be another one."""

import re
import subprocess
from pathlib import Path

import pytest

from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.read import read_job

TELLS = '#!/bin/bash\nwords=$(printf "\\037%s" "$@")\nprintf "%s%s\\n" "${0##*/}" "$words" >> "$TOLD"\n'  # in one piece
SSH = '#!/bin/bash\nshift\nexec bash -c "$*"\n'
FILE = re.compile(r"^#@ file (\S+)\n", re.MULTILINE)
TEXTS = r"""
GPUS=8
torchrun --standalone --nproc_per_node=${GPUS:-4} t.py
====
GPUS=
torchrun --standalone --nproc_per_node=${GPUS:-4} t.py
====
unset GPUS
: ${GPUS:=4}
torchrun --standalone --nproc_per_node=$GPUS t.py
====
X=1
torchrun --standalone ${X:+--nproc_per_node=2} t.py
====
LIST=248
torchrun --standalone --nproc_per_node=${LIST:1:1} t.py
====
LIST=248
torchrun --standalone --nproc_per_node=${LIST: -1} t.py
====
IDS=0123
torchrun --standalone --nproc_per_node=${#IDS} t.py
====
export CUDA_VISIBLE_DEVICES=0,1,2,3
N=$(echo $CUDA_VISIBLE_DEVICES | tr ',' '\n' | wc -l)
torchrun --standalone --nproc_per_node=$N t.py
====
IDS=(0 1 2)
torchrun --standalone --nproc_per_node=${#IDS[@]} t.py
====
IDS=0,1,2,3
IFS=, read -ra A <<< "$IDS"
torchrun --standalone --nproc_per_node=${#A[@]} t.py
====
N=2; G=4
W=$((N*G))
accelerate launch --multi_gpu --num_machines 1 --machine_rank 0 --num_processes $W t.py
====
N=2
((G=N*2))
torchrun --standalone --nproc_per_node=$G t.py
====
let G=2+2
torchrun --standalone --nproc_per_node=$G t.py
====
G=$(expr 2 \* 4)
torchrun --standalone --nproc_per_node=$G t.py
====
run() { torchrun --standalone --nproc_per_node=$1 "${@:2}"; }
run 4 t.py --lr 1
====
run() {
  local n=$1; shift
  torchrun --standalone --nproc_per_node=$n "$@"
}
run 2 t.py
====
start() { torchrun --nnodes=2 --nproc_per_node=4 --node-rank=$1 --master-addr=n0 t.py & }
start 0
start 1
wait
====
gpus() { echo 4; }
torchrun --standalone --nproc_per_node=$(gpus) t.py
====
bash x.sh 16
#@ file x.sh
torchrun --standalone --nproc_per_node=$1 t.py
====
./x.sh 4 t.py --a
#@ file x.sh
#!/bin/bash
N=$1
shift
torchrun --standalone --nproc_per_node=$N "$@"
====
bash -c 'N=4; torchrun --standalone --nproc_per_node=$N t.py'
====
bash -c 'torchrun --standalone --nproc_per_node=$1 $2' _ 4 t.py
====
bash -c 'torchrun --standalone --nproc_per_node=$0 t.py' 4
====
bash -c "$(cat <<'EOF'
N=4
torchrun --standalone --nproc_per_node=$N t.py
EOF
)"
====
bash <<EOF
torchrun --standalone --nproc_per_node=4 t.py
EOF
====
N=8
bash <<'EOF'
N=4
torchrun --standalone --nproc_per_node=$N t.py
EOF
====
CMD="torchrun --standalone --nproc_per_node=4 t.py"
$CMD
====
CMD='torchrun --standalone --nproc_per_node=$N t.py'
N=4
eval $CMD
====
N=4
CMD="torchrun --standalone --nproc_per_node=$N t.py"
eval "$CMD"
====
CMD=(torchrun --standalone)
CMD+=(--nproc_per_node=4)
"${CMD[@]}" t.py
====
LAUNCH="torchrun --standalone --nproc_per_node 4"
bash -c "$LAUNCH t.py"
====
exec torchrun --standalone --nproc_per_node=4 t.py
====
env -S 'N=4 torchrun --standalone --nproc_per_node=2 t.py'
====
env N=4 bash -c 'torchrun --standalone --nproc_per_node=$N t.py'
====
echo {a,b}
for i in {0..1}; do torchrun --nnodes=2 --nproc_per_node=4 --node-rank=$i --master-addr=n0 t.py & done
wait
====
set -- --standalone --nproc_per_node=4
torchrun "$@" t.py
====
set -- 4 t.py
N=$1; shift
torchrun --standalone --nproc_per_node=$N "$@"
====
MODE=big
case $MODE in
 small) N=1;;
 big) N=8;;
esac
torchrun --standalone --nproc_per_node=$N t.py
====
MODE=other
case "$MODE" in small|tiny) N=1;; *) N=2;; esac
torchrun --standalone --nproc_per_node=$N t.py
====
MODE=big
if [ "$MODE" = big ]; then N=8; else N=1; fi
torchrun --standalone --nproc_per_node=$N t.py
====
X=3
if (( X > 2 )); then N=4; else N=1; fi
torchrun --standalone --nproc_per_node=$N t.py
====
if [ -z "" ]; then N=4; fi
torchrun --standalone --nproc_per_node=$N t.py
====
DEBUG=0
[ $DEBUG = 1 ] && N=1 || N=4
torchrun --standalone --nproc_per_node=$N t.py
====
while read -r h r; do
 ssh $h "torchrun --nnodes=2 --nproc_per_node=4 --node-rank=$r --master-addr=n0 t.py" &
done <<EOF
n0 0
n1 1
EOF
wait
====
i=0
for h in n0 n1; do
 ssh $h "cd /tmp && torchrun --nnodes=2 --nproc_per_node=4 --node-rank=$i --master-addr=n0 t.py"
 i=$((i+1))
done
====
i=0
for h in n0 n1; do
 ssh $h "cd /tmp && torchrun --nnodes=2 --nproc_per_node=4 --node-rank=$i --master-addr=n0 t.py" &
 i=$((i+1))
done
wait
====
HOSTS=(n0 n1)
for i in "${!HOSTS[@]}"; do
 ssh ${HOSTS[$i]} torchrun --nnodes=${#HOSTS[@]} --nproc_per_node=4 --node-rank=$i --master-addr=${HOSTS[0]} t.py &
done
wait
====
trap 'kill 0' EXIT
torchrun --standalone --nproc_per_node=4 t.py
====
NAME=GPUS
GPUS=4
torchrun --standalone --nproc_per_node=${!NAME} t.py
====
printf -v N '%d' 4
torchrun --standalone --nproc_per_node=$N t.py
====
N=`echo 4`
torchrun --standalone --nproc_per_node=$N t.py
====
EP=n0:29511
torchrun --nnodes=2 --node-rank=0 --master-addr=$(echo $EP | cut -d: -f1) --master-port=${EP##*:} t.py
====
bash x.sh --n 4
#@ file x.sh
N=2
while [[ $# -gt 0 ]]; do case $1 in --n) N=$2; shift 2 ;; *) shift ;; esac; done
torchrun --standalone --nproc_per_node=$N t.py
====
GPUS=0,1,2,3
C=${GPUS//[^,]/}
torchrun --standalone --nproc_per_node=$((${#C}+1)) t.py
====
M=1
N=$(( M == 1 ? 4 : 8 ))
torchrun --standalone --nproc_per_node=$N t.py
====
N=4
(N=8)
torchrun --standalone --nproc_per_node=$N t.py
====
N=4
echo x | while read l; do N=8; done
torchrun --standalone --nproc_per_node=$N t.py
====
declare -i N=2*2
torchrun --standalone --nproc_per_node=$N t.py
====
readonly N=4
torchrun --standalone --nproc_per_node=$N t.py
====
N=3
N=$((N+1))
((N++))
torchrun --standalone --nproc_per_node=$N t.py
====
ARGS='--standalone'
ARGS+=' --nproc_per_node=4'
torchrun $ARGS t.py
====
if [[ -n ${SLURM_JOB_ID:-} ]]; then N=4; else N=4; fi
torchrun --standalone --nproc_per_node=$N t.py
====
source ./env.sh
torchrun --standalone --nproc_per_node=$N t.py
#@ file env.sh
export N=4
====
ssh n1 'bash -s' <<'EOF'
torchrun --standalone --nproc_per_node=4 t.py
EOF
====
N=4
ssh n1 "torchrun --standalone --nproc_per_node=$N t.py"
====
mapfile -t H <<< $'n0\nn1'
torchrun --nnodes=${#H[@]} --nproc_per_node=4 --node-rank=0 --master-addr=${H[0]} t.py
====
cat > run.sh <<'EOF'
torchrun --standalone --nproc_per_node=$1 t.py
EOF
chmod +x run.sh
./run.sh 4
====
for r in $(seq 0 1); do torchrun --nnodes=2 --nproc_per_node=4 --node-rank=$r --master-addr=n0 t.py & done; wait
====
for ((r=0;r<2;r++)); do torchrun --nnodes=2 --nproc_per_node=4 --node-rank=$r --master-addr=n0 t.py & done; wait
====
set -- a b 4
torchrun --standalone --nproc_per_node=${!#} t.py
====
A=(x y 4)
torchrun --standalone --nproc_per_node=${A[-1]} t.py
====
A=(x --nproc_per_node=4 t.py)
torchrun --standalone "${A[@]:1}"
""".strip("\n").split("\n====\n")


def in_bash(text: str, folder: Path) -> set[tuple[str | None, ...]]:
    """The words of each launcher that bash starts."""
    tools = folder / "tools"
    tools.mkdir()
    for name, script in (("torchrun", TELLS), ("accelerate", TELLS), ("python", TELLS), ("ssh", SSH)):
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    parts = FILE.split(text)
    for name, content in zip(parts[1::2], parts[2::2], strict=True):
        (folder / name).write_text(content)
        (folder / name).chmod(0o755)
    told = folder / "told"
    told.touch()
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "TOLD": str(told), "HOME": str(folder)}
    subprocess.run(
        ["bash", "-c", parts[0]], cwd=folder, env=environment, capture_output=True, timeout=20, check=False,
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    return {tuple(line.split("\x1f")) for line in told.read_text().splitlines()}


def read(text: str) -> set[tuple[str | None, ...]]:
    job = read_job(text, parse_facts(""), "shell")
    assert not job.notes
    return {
        (
            (launch.invocation.words[0].text or "").rpartition("/")[2],
            *(word.text for word in launch.invocation.words[1:]),
        )
        for launch in job.launches
    }


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.splitlines()[0][:40])
def test_words_are_those_that_bash_gives(text: str, tmp_path: Path) -> None:
    ours, real = read(text), in_bash(text, tmp_path)
    assert real
    for one, others in ((ours, real), (real, ours)):
        assert [each for each in one if not any(_alike(each, other) for other in others)] == []


def _alike(one: tuple[str | None, ...], other: tuple[str | None, ...]) -> bool:
    return len(one) == len(other) and all(a == b or None in (a, b) for a, b in zip(one, other, strict=True))
