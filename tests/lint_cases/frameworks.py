"""Launch texts as people write them: accelerate, DeepSpeed, MPI, Kubernetes, Lightning, and what pasting breaks."""

GOOD: dict[str, str] = {
    "accelerate on one node": "accelerate launch train.py --lr 1e-4",
    "accelerate with a config": "accelerate launch --config_file fsdp.yaml --machine_rank 1 train.py",
    "accelerate in a batch script": """#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
export GPUS_PER_NODE=8
head_node_ip=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export LAUNCHER="accelerate launch --multi_gpu --num_processes $((SLURM_NNODES * GPUS_PER_NODE)) \\
    --num_machines $SLURM_NNODES --rdzv_backend c10d --main_process_ip $head_node_ip --main_process_port 29500"
srun --kill-on-bad-exit=1 bash -c "$LAUNCHER --machine_rank \\$SLURM_PROCID train.py --epochs 3"
""",
    "accelerate module": "python -m accelerate.commands.launch --num_processes=4 --multi_gpu train.py",
    "accelerate deepspeed nossh": "accelerate launch --use_deepspeed --deepspeed_multinode_launcher nossh "
    "--deepspeed_hostfile hf --num_machines 2 --num_processes 16 --machine_rank 0 --main_process_ip n1 train.py",
    "deepspeed alone": "deepspeed train.py --deepspeed --deepspeed_config ds_config.json",
    "deepspeed gpus": "deepspeed --num_gpus=8 --master_port 29501 finetune.py --model_name_or_path m --fp16",
    "deepspeed localhost": "deepspeed --include=localhost:0,2,3 train.py --zero 3",
    "deepspeed hostfile": "#@ file myhostfile\nworker-1 slots=4\nworker-2 slots=4\n#@ node 0\n"
    'deepspeed --hostfile=myhostfile --include="worker-2:0,1" train.py',
    "deepspeed module": "deepspeed --module pkg.train --lr 3",
    "hostfile with comments": "# cluster\nn1 slots=8 # rack 1\nn2 slots=8\n",
    "hostfile of Open MPI": "n1 slots=4 max_slots=4\nn2 slots=4 max_slots=4\n",
    "horovod": "horovodrun -np 4 -H localhost:4 python train.py",
    "horovod verbose": "horovodrun --gloo -np 16 -H s1:4,s2:4,s3:4,s4:4 --network-interfaces eth0 python train.py",
    "mpirun of the docs": "mpirun -np 16 -H s1:4,s2:4,s3:4,s4:4 -bind-to none -map-by slot -x NCCL_DEBUG=INFO "
    "-x LD_LIBRARY_PATH -x PATH -mca pml ob1 -mca btl ^openib python train_horovod.py",
    "nccl-tests": "mpirun -np 16 -N 8 --host n1:8,n2:8 -x NCCL_DEBUG ./build/all_reduce_perf -b 8 -e 8G -f 2 -g 1",
    "intel": "mpiexec.hydra -n 8 -ppn 4 -hosts n1,n2 -genv MASTER_ADDR n1 python train_ipex_mpi4py.py",
    "mpirun hostfile": "mpirun --hostfile hosts -np 8 --bind-to none python -m mpi4py train.py",
    "oversubscribed": "mpirun --oversubscribe -np 8 -H localhost --bind-to none python cpu_mpi4py.py",
    "torchrun of the docs": "torchrun --standalone --nnodes=1 --nproc-per-node=$NUM_TRAINERS train.py --arg1",
    "plain array": """#!/bin/bash
ARGS=(
  --nproc_per_node 8
  --nnodes 1
)
MODEL_ARGS="
    --num-layers 12 \\
    --hidden-size 512
"
torchrun ${ARGS[@]} pretrain.py $MODEL_ARGS
""",
    "megatron": """#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
MASTER_ADDR=localhost
MASTER_PORT=6000
NNODES=1
NODE_RANK=0
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
DISTRIBUTED_ARGS="
    --nproc_per_node $GPUS_PER_NODE \\
    --nnodes $NNODES \\
    --node_rank $NODE_RANK \\
    --master_addr $MASTER_ADDR \\
    --master_port $MASTER_PORT
"
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py --micro-batch-size 4 --lr 0.00015
""",
    "quotes": "echo \"don't stop\"; torchrun --standalone --nproc_per_node=2 train.py --name 'a \"b\" c' # it's\n",
    "heredoc": "cat > c.yaml <<'EOF'\nname: don't\npath: \\ \n  --nnodes\nEOF\ntorchrun --standalone t.py\n",
    "redirections": "torchrun --nproc_per_node 4 train.py <input.txt >out.log 2>&1 &\nwait\n",
    "comment between commands": "# torchrun --nnodes=2 \\\n# --x\ntorchrun --standalone train.py\n",
    "sudo docker": "sudo docker run --gpus all --rm img torchrun --standalone --nproc_per_node 8 train.py",
    "nohup": "nohup torchrun --standalone --nproc_per_node 8 train.py > log 2>&1 &",
    "sweep": "for seed in 1 2 3; do\n  accelerate launch --multi_gpu --num_processes 4 train.py --seed $seed\ndone\n",
    "script has --devices": "torchrun --standalone --nproc_per_node 4 train.py --devices 4 --precision bf16",
    "hugging face trainer": "#@ file t.py\ntrainer = Trainer(model=model, args=args, train_dataset=d)\n#@ node 0\n"
    "torchrun --nnodes 2 --nproc_per_node 8 --node_rank 0 --master_addr 10.0.0.5 --master_port 29500 t.py --fp16",
    "timm": "./distributed_train.sh 4 /data --model seresnet34 --amp",
    "typographic text in an argument": 'torchrun --standalone t.py --prompt "it\u2019s \u2014 fine"',
    "windows line ends": "torchrun --standalone \\\r\n  --nproc_per_node=2 \\\r\n  train.py\r\n",
    "module": "python -m torch.distributed.run --nproc_per_node=2 -m pkg.train --nnodes-are 3",
    "lightning cli": "python main.py fit --trainer.devices 4 --trainer.accelerator gpu --config c.yaml",
    "job manifest": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: prep}\nspec:\n  template:\n    spec:\n"
    "      containers:\n        - name: main\n          image: python\n          command: [python, prepare_data.py]\n"
    "      restartPolicy: Never\n",
}

BAD: dict[tuple[str, str], str] = {
    (
        "C01",
        "nodes=2,gpus_per_node=8",
    ): "accelerate launch --multi_gpu --num_machines=2 --num_processes=8 --machine_rank=0 "
    "--main_process_ip=10.0.0.1 train.py",
    (
        "C02",
        "",
    ): "accelerate launch --num_machines 2 --num_processes 16 --main_process_ip 10.0.0.1 --multi_gpu train.py",
    ("C03", "gpus_per_node=1"): "accelerate launch --num_machines 3 --num_processes 3 --machine_rank 2 "
    "--main_process_ip 10.0.0.1 train.py",
    ("C04", ""): "accelerate launch --num_machines 2 --num_processes 16 --machine_rank 1 --main_process_ip 10.0.0.1 "
    "--deepspeed_config_file ds.json train.py",
    ("C07", ""): "accelerate launch --num_machines 2 --num_processes 16 --machine_rank 1 --multi_gpu train.py",
    ("D01", ""): "#@ file /job/hosts\nn1 slot=8\nn2 slots=8\n#@ node 0\ndeepspeed -H /job/hosts train.py",
    ("D02", ""): "#@ file hf\nn1 slots=2\nn2 slots=2\n#@ node 0\ndeepspeed -H hf -i n1:0,1,2@n2 train.py",
    ("D04", ""): "export CUDA_VISIBLE_DEVICES=2,3\ndeepspeed --num_gpus 2 train.py",
    ("D06", ""): "deepspeed --num_nodes=4 --num_gpus=8 train.py --deepspeed",
    ("D07", ""): "deepspeed --num_gpus=2 --include=localhost:1,2 train.py",
    ("D08", ""): "#@ file hf\nn1 slots=2\nn2 slots=2\n#@ every node\ndeepspeed --hostfile hf train.py",
    ("M02", ""): "mpirun -np 16 -H n1,n2 --bind-to none python hvd_horovod.py",
    (
        "M04",
        "",
    ): "#@ file hvd.py\nfrom horovod import torch as hvd\nhvd.init()\n#@ node 0\ntorchrun --nproc_per_node 4 hvd.py",
    ("L01", "lightning=2.5.1"): "#@ file t.py\nt = pl.Trainer(gpus=-1, strategy='ddp', amp_backend='native')\n",
    ("L02", "lightning=2.0"): "#@ file t.py\nt = pl.Trainer(devices=4, strategy='bagua')\n",
    ("L04", "lightning=1.6"): "#@ file t.py\nt = Trainer(gpus=2, strategy='dp', num_nodes=4)\n",
    ("L07", "lightning=1.8"): "#@ file t.py\nt = Trainer(gpus=2, strategy='ddp', precision='bf16-mixed')\n",
    ("V02", ""): "torchrun --nproc_per_node=all train.py",
    ("V03", ""): "torchrun --nproc_per_gpu=4 train.py",
    ("V04", "torch=1.11"): "torchrun --nproc-per-node 2 --master-port 1234 t.py",
    ("V05", "torch=2.3"): "python3 -m torch.distributed.launch --nproc_per_node 2 tools/train.py --cfg a",
    ("Q01", ""): "accelerate launch --multi_gpu \\\n  --num_processes 4 \\  \n  train.py \\\n  --lr 3\n",
    ("Q02", ""): "torchrun --standalone --nproc_per_node=\u201c4\u201d t.py",
    ("Q03", ""): "torchrun main.py --config c.yaml --nproc_per_node=8",
    ("Q04", ""): "deepspeed --num_gpus 4 python train.py",
    ("Q07", ""): "torchrun \u2014nproc_per_node=4 t.py",
    (
        "Q08",
        "",
    ): "torchrun --nnodes 2 --nproc_per_node 8 --node_rank 0 --master_addr <HEAD_IP> --master_port 29500 t.py",
}
