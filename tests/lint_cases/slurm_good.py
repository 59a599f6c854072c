"""Starts that work, of SLURM users and others: no rule of devices, environment and SLURM may call them wrong."""

H = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --partition=gpu\n"
N2 = H + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n#SBATCH --cpus-per-task=24\n"
N2G = H + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=6\n"
N1 = H + "#SBATCH --nodes=1\n#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=24\n"
ADDR = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nexport MASTER_PORT=61234\n'
C10D = (
    "torchrun --nnodes=$SLURM_NNODES --nproc_per_node=4 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d"
    " --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT train.py"
)

GOOD: dict[str, str] = {
    "srun-c10d": N2 + ADDR + f"srun --cpus-per-task=24 {C10D}\n",
    "srun-c10d-conda": (
        N2 + "module purge\nmodule load cuda/12.1\nsource ~/miniconda3/etc/profile.d/conda.sh\n"
        "conda activate torch\nset -euo pipefail\n" + ADDR + f"srun {C10D} --lr 1e-4\n"
    ),
    "srun-c10d-continued": (
        N2 + ADDR + "srun torchrun \\\n  --nnodes 2 \\\n  --nproc_per_node 4 \\\n  --rdzv_id $RANDOM \\\n"
        "  --rdzv_backend c10d \\\n  --rdzv_endpoint $MASTER_ADDR:29500 \\\n  train.py --epochs 10\n"
    ),
    "srun-static-quotes": (
        N2 + ADDR + "srun bash -c 'torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$SLURM_NODEID"
        " --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py'\n"
    ),
    "srun-static-procid": (
        N2 + ADDR + "srun bash -c 'torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$SLURM_PROCID"
        " --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py'\n"
    ),
    "srun-static-backslash": (
        N2 + ADDR + 'srun bash -c "torchrun --nnodes=$SLURM_NNODES --nproc_per_node=4'
        ' --node_rank=\\$SLURM_NODEID --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py"\n'
    ),
    "launcher-variable": (
        N2 + ADDR + 'export LAUNCHER="torchrun --nproc_per_node 4 --nnodes $SLURM_NNODES'
        ' --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT --rdzv_backend c10d"\n'
        'export CMD="train.py --lr 0.1"\nsrun --jobid $SLURM_JOBID bash -c "$LAUNCHER $CMD"\n'
    ),
    "bigscience-style": (
        N2 + ADDR + 'GPUS_PER_NODE=4\nNNODES=$SLURM_NNODES\nexport LAUNCHER="python -u -m torch.distributed.run'
        " --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT"
        ' --rdzv_backend c10d --max_restarts 0 --tee 3"\nclear; srun --jobid $SLURM_JOBID bash -c'
        ' "$LAUNCHER --node_rank \\$SLURM_PROCID train.py" 2>&1 | tee -a main_log.txt\n'
    ),
    "lightning-srun lightning=2.2": N2G
    + "srun python train.py --accelerator gpu --devices 4 --num_nodes 2 --strategy ddp\n",
    "lightning-srun-auto lightning=2.2": N2G + "srun python train.py --accelerator gpu --devices auto --num_nodes 2\n",
    "lightning-documentation lightning=2.0": (
        "#!/bin/bash -l\n#SBATCH --nodes=4\n#SBATCH --gres=gpu:8\n#SBATCH"
        " --ntasks-per-node=8\n#SBATCH --mem=0\n#SBATCH --time=0-02:00:00\nsource activate $1\n"
        "export NCCL_DEBUG=INFO\nexport PYTHONFAULTHANDLER=1\nsrun python3 train.py\n"
    ),
    "lightning-one-gpu lightning=2.0": H + "#SBATCH --gres=gpu:1\npython train.py --accelerator gpu --devices 1\n",
    "lightning-srun-one lightning=2.0": H + "#SBATCH --gres=gpu:1\n#SBATCH --ntasks=1\nsrun python train.py\n",
    "lightning-one-node-no-srun": N1 + "python train.py --accelerator gpu --devices 4 --strategy ddp\n",
    "lightning-cli": (
        N2G + "srun python main.py fit --config cfg.yaml --trainer.devices=4 --trainer.num_nodes=2"
        " --trainer.strategy=ddp\n"
    ),
    "lightning-hydra": N2G + "srun python train.py trainer.devices=4 trainer.num_nodes=2 trainer.strategy=ddp\n",
    "lightning-export-node-rank lightning=2.1": N2G
    + ADDR
    + "export NODE_RANK=$SLURM_NODEID\nsrun python train.py --devices 4 --num_nodes 2\n",
    "lightning-by-hand lightning=2.2,nodes=2,gpus_per_node=4": (
        "#@ node 0\nMASTER_ADDR=10.0.0.5 MASTER_PORT=61234 NODE_RANK=0 python"
        " train.py --devices 4 --num_nodes 2\n#@ node 1\nMASTER_ADDR=10.0.0.5 MASTER_PORT=61234 NODE_RANK=1"
        " python train.py --devices 4 --num_nodes 2\n"
    ),
    "lightning-torchrun lightning=2.2": (
        "torchrun --standalone --nproc-per-node=4 train.py --devices 4 --strategy ddp\n"
    ),
    "lightning-torchrun-srun lightning=2.4": N2 + ADDR + f"srun {C10D} --devices 4 --num_nodes 2 --strategy ddp\n",
    "lightning-spawn-local-rank lightning=2.2": (
        "LOCAL_RANK=0 NODE_RANK=0 python train.py --devices 4 --strategy ddp_spawn\n"
    ),
    "slurm-env-per-rank": (
        N2G + ADDR + "srun bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID"
        " WORLD_SIZE=$SLURM_NTASKS; python train.py'\n"
    ),
    "slurm-read-by-script": N2G + ADDR + "srun python train_ddp.py --backend nccl\n",
    "world-size-computed": (
        N2G + ADDR + "export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))\n"
        'echo "NODELIST="${SLURM_NODELIST}\nsrun python train.py\n'
    ),
    "mmlab-slurm": (
        "#!/usr/bin/env bash\nset -x\nPARTITION=$1\nJOB_NAME=$2\nCONFIG=$3\nGPUS=${GPUS:-8}\n"
        'GPUS_PER_NODE=${GPUS_PER_NODE:-8}\nCPUS_PER_TASK=${CPUS_PER_TASK:-5}\nSRUN_ARGS=${SRUN_ARGS:-""}\n'
        "srun -p ${PARTITION} --job-name=${JOB_NAME} --gres=gpu:${GPUS_PER_NODE} --ntasks=${GPUS}"
        " --ntasks-per-node=${GPUS_PER_NODE} --cpus-per-task=${CPUS_PER_TASK} --kill-on-bad-exit=1 ${SRUN_ARGS}"
        ' python -u tools/train.py ${CONFIG} --launcher="slurm"\n'
    ),
    "gpus-per-task-cuda0": (
        H
        + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-task=1\n"
        + ADDR
        + "srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=0 WORLD_SIZE=$SLURM_NTASKS python train.py'\n"
    ),
    "gpus-per-task-one-task": H
    + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-task=4\n"
    + ADDR
    + f"srun {C10D}\n",
    "gpus-per-task-unbound": (
        N2G.replace("--gres=gpu:4", "--gpus-per-task=1") + ADDR + "srun --gpu-bind=none bash -c"
        " 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS python train.py'\n"
    ),
    "accelerate-two-nodes": (
        N2 + ADDR + "srun bash -c 'accelerate launch --multi_gpu --num_machines 2 --num_processes 8"
        " --machine_rank $SLURM_NODEID --main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT"
        " train.py'\n"
    ),
    "accelerate-documentation": (
        N2 + "export GPUS_PER_NODE=4\nhead_node_ip=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        'export LAUNCHER="accelerate launch --num_processes $((SLURM_NNODES * GPUS_PER_NODE))'
        " --num_machines $SLURM_NNODES --rdzv_backend c10d --main_process_ip $head_node_ip"
        ' --main_process_port 29500 --machine_rank 0 "\nexport SCRIPT="complete_nlp_example.py"\n'
        "srun $LAUNCHER $SCRIPT\n"
    ),
    "accelerate-one-node": N1 + "accelerate launch --multi_gpu --num_processes 4 train.py\n",
    "accelerate-one-node-srun": N1 + "srun accelerate launch --multi_gpu --num_processes 4 train.py\n",
    "deepspeed-one-node": N1 + "deepspeed --num_gpus=4 train.py --deepspeed ds_config.json\n",
    "deepspeed-hostfile": (
        N2 + 'for h in $(scontrol show hostnames); do echo "$h slots=4"; done > hostfile\n'
        "deepspeed --hostfile hostfile --master_addr $(hostname) --launcher slurm train.py\n"
    ),
    "torchrun-one-node": N1 + "torchrun --standalone --nproc_per_node=4 train.py\n",
    "torchrun-gpus-on-node": N1 + "torchrun --standalone --nproc_per_node=$SLURM_GPUS_ON_NODE train.py\n",
    "python-then-torchrun": N2 + ADDR + f"python preprocess_data.py --out $SCRATCH/data\nsrun {C10D}\n",
    "python-two-nodes-prepare": N2 + ADDR + f"python make_splits.py\nsrun {C10D}\n",
    "job-array": (
        H + "#SBATCH --array=0-7\n#SBATCH --gres=gpu:1\nSEEDS=(1 2 3 4 5 6 7 8)\n"
        "python train.py --seed ${SEEDS[$SLURM_ARRAY_TASK_ID]}\n"
    ),
    "job-array-torchrun": (
        H + "#SBATCH --array=1-4\n#SBATCH --gres=gpu:2\ntorchrun --nproc_per_node=2"
        " --master_port=$((20000 + SLURM_ARRAY_TASK_ID)) train.py --fold $SLURM_ARRAY_TASK_ID\n"
    ),
    "one-node-four-tasks-cpus": H + "#SBATCH --nodes=1\n#SBATCH --ntasks=8\n#SBATCH --gres=gpu:1\npython train.py\n",
    "four-runs-in-background": (
        N1 + "for i in 0 1 2 3; do\n  CUDA_VISIBLE_DEVICES=$i python train.py --seed $i > log_$i.txt 2>&1 &\n"
        "done\nwait\n"
    ),
    "four-steps": (
        H + "#SBATCH --ntasks=4\n#SBATCH --gpus-per-task=1\nfor s in 1 2 3 4; do\n  srun --exact -n1 --gpus=1 python"
        " train.py --seed $s &\ndone\nwait\n"
    ),
    "two-trainings-in-turn": N2 + ADDR + f"srun {C10D} --stage 1\nsrun {C10D} --stage 2\n",
    "pyxis": (
        N2 + ADDR + "srun --container-image=/images/torch.sqsh --container-mounts=/data:/data bash -c '"
        "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$SLURM_NODEID --master-addr=$MASTER_ADDR"
        " --master-port=$MASTER_PORT train.py'\n"
    ),
    "pyxis-per-rank": N2G + "srun --container-image=nvcr.io#nvidia/pytorch:24.05-py3 --mpi=pmix python train.py\n",
    "singularity": N2 + ADDR + f"srun singularity exec --nv -B $PWD torch.sif {C10D}\n",
    "apptainer-per-rank": (
        N2G + ADDR + "srun apptainer exec --nv t.sif bash -c 'RANK=$SLURM_PROCID"
        " LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS python train.py'\n"
    ),
    "docker-one-node": "docker run --gpus all --ipc=host --rm img torchrun --standalone --nproc_per_node=4 train.py\n",
    "log-names": N2 + ADDR + f"srun --output=logs/%x-%j-%n.out {C10D} --log_dir logs/$SLURM_JOB_ID-$SLURM_NODEID\n",
    "srun-on-hosts-in-background": (
        N2 + "nodes=( $(scontrol show hostnames $SLURM_JOB_NODELIST) )\nport=61234\n"
        "for ((i = 0; i < SLURM_NNODES; i++)); do\n  srun -N1 -n1 -w ${nodes[$i]} torchrun --nnodes=2"
        " --nproc_per_node=4 --node_rank=$i --master_addr=${nodes[0]} --master_port=$port train.py &\n"
        "done\nwait\n"
    ),
    "ray-on-slurm": (
        N2 + "head=$(hostname)\nsrun -N1 -n1 -w $head ray start --head --block &\nsleep 10\n"
        "srun -N1 -n1 ray start --address=$head:6379 --block &\npython train_ray.py --num-workers 8\n"
    ),
    "mpirun-in-batch": N2G + "export NCCL_DEBUG=WARN\nmpirun -np 8 -bind-to none python train_hvd.py\n",
    "interactive-salloc": "srun --jobid=12345 --pty bash\n",
    "shell-inside-the-task": (
        "torchrun --nnodes=$SLURM_NNODES --node_rank=$SLURM_NODEID --nproc_per_node=4"
        " --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py\n"
    ),
    "visible-devices": 'CUDA_VISIBLE_DEVICES="2,3" torchrun --standalone --nproc_per_node=2 train.py\n',
    "visible-devices-uuid": "export CUDA_VISIBLE_DEVICES=GPU-8932f937-d72c-4106-c12f-20bd9faed9f6\npython train.py\n",
    "visible-devices-from-argument": "export CUDA_VISIBLE_DEVICES=$1\ntorchrun --nproc_per_node=$2 train.py\n",
    "visible-devices-hidden": 'CUDA_VISIBLE_DEVICES="" torchrun --nproc_per_node=8 train.py\n',
    "cpu-gloo gpus_per_node=1": "torchrun --standalone --nproc_per_node=8 train.py --backend gloo\n",
    "yolo-device": "python -m torch.distributed.run --nproc_per_node 2 train.py --batch 64 --device 0,1\n",
    "hf-local-rank-minus-one": "torchrun --nproc_per_node=4 run_clm.py --local_rank -1 --fp16\n",
    "by-hand-two-processes": (
        "export MASTER_ADDR=10.0.0.5 MASTER_PORT=61234 WORLD_SIZE=2\nRANK=0 LOCAL_RANK=0 python train.py &\n"
        "RANK=1 LOCAL_RANK=1 python train.py &\nwait\n"
    ),
    "debug-one-process": (
        "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=12355 python -m pdb train.py\n"
    ),
    "imagenet-spawn": (
        "python main.py -a resnet50 --dist-url 'tcp://127.0.0.1:61234' --dist-backend nccl"
        " --multiprocessing-distributed --world-size 1 --rank 0 /data\n"
    ),
    "variables-used-not-exported": (
        "GPUS=4\nMASTER_ADDR=10.0.0.5\nMASTER_PORT=61234\nWORLD_SIZE=2\ntorchrun --nnodes $WORLD_SIZE"
        " --node_rank $1 --nproc_per_node $GPUS --master_addr $MASTER_ADDR --master_port"
        " $MASTER_PORT train.py\n"
    ),
    "ifname": (
        "export NCCL_SOCKET_IFNAME=ens5\nexport GLOO_SOCKET_IFNAME=ens5\nexport NCCL_IB_HCA=mlx5\n"
        "torchrun --nnodes=2 --node_rank=0 --nproc_per_node=8 --master_addr=10.0.0.5 --master_port=61234 t.py\n"
    ),
    "commented-sbatch": (
        N2.replace("#SBATCH --partition", "##SBATCH --account=x\n# SBATCH --qos=y\n#SBATCH --partition")
        + ADDR
        + f"srun {C10D}\n"
    ),
    "het-cpus-omp": N2G + "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\nsrun python train.py\n",
    "sbatch-wrap": 'sbatch -N1 --gres=gpu:4 --wrap="torchrun --standalone --nproc_per_node=4 train.py"\n',
    "slurm-exclusive-total": (
        H
        + "#SBATCH -N 2\n#SBATCH -n 8\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus=8\n"
        + ADDR
        + "srun python train.py\n"
    ),
    "nemo-style": (
        N2G + 'read -r -d "" cmd <<EOF\necho start && python train.py trainer.devices=4 trainer.num_nodes=2\nEOF\n'
        'srun -o log.txt --container-image="$IMG" bash -c "${cmd}"\n'
    ),
}
