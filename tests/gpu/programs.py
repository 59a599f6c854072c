"""Programs that fail on a GPU, each in its own way: `python tests/gpu/programs.py NAME`. They know nothing of us."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

GIB = 1 << 30
KERNEL = 'extern "C" __global__ void poke(long long place) {{ {body} }}'


def kernel(body: str) -> Callable[..., None]:
    """A CUDA kernel of one parameter, compiled by nvrtc."""
    made: Callable[..., None] = torch.cuda._compile_kernel(KERNEL.format(body=body), "poke")
    return made


def launched(body: str, place: torch.Tensor | None = None, threads: int = 1) -> None:
    """`place`: whose address the kernel is given; a number as an argument would be cut to 32 bits."""
    room = torch.zeros(64, dtype=torch.uint8, device="cuda") if place is None else place
    kernel(body)(grid=(1, 1, 1), block=(threads, 1, 1), args=[room])
    torch.cuda.synchronize()


def word_unknown() -> None:
    words = torch.nn.Embedding(10, 4).cuda()
    print(words(torch.tensor([3, 50], device="cuda")).sum().item())


def label_unknown() -> None:
    scores = torch.nn.Linear(16, 10).cuda()(torch.randn(8, 16, device="cuda"))
    torch.autograd.backward(torch.nn.functional.cross_entropy(scores, torch.full((8,), 12, device="cuda")))
    torch.cuda.synchronize()


def memory_asked() -> None:
    torch.empty(300 * GIB, dtype=torch.uint8, device="cuda")


def memory_of_another() -> None:
    hold = "import sys, torch; left = torch.cuda.mem_get_info()[0]; "
    hold += "kept = torch.empty(left - (1 << 30), dtype=torch.uint8, device='cuda'); print('held', flush=True); "
    hold += "sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
        finally:
            other.kill()


def memory_of_fraction() -> None:
    torch.cuda.set_per_process_memory_fraction(0.01)
    torch.empty(4 * GIB, dtype=torch.uint8, device="cuda")


def memory_for_cublas() -> None:
    torch.zeros(1, device="cuda")
    kept = torch.empty(torch.cuda.mem_get_info()[0] - (40 << 20), dtype=torch.uint8, device="cuda")
    left = torch.randn(64, 64, device="cuda")
    print((left @ left).sum().item(), kept.numel())


def memory_for_cudnn() -> None:
    torch.zeros(1, device="cuda")
    image = torch.randn(1, 3, 64, 64, device="cuda")
    layer = torch.nn.Conv2d(3, 8, 3).cuda()
    kept = torch.empty(torch.cuda.mem_get_info()[0] - (30 << 20), dtype=torch.uint8, device="cuda")
    print(layer(image).sum().item(), kept.numel())


def address_illegal() -> None:
    launched("*(int *)(place + (1LL << 45)) = 1;")


def address_odd() -> None:
    launched("*(int *)(place + 1) = 1;")


def trap() -> None:
    launched('asm("trap;");')


def threads_too_many() -> None:
    launched("", threads=4096)


def image_of_others() -> None:
    """Machine code for another GPU only."""
    source = "__global__ void none() {}\n"
    source += 'extern "C" int launch() { none<<<1, 1>>>(); return (int)cudaGetLastError(); }\n'
    import ctypes

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "one.cu").write_text(source)
        options = ["-gencode", "arch=compute_75,code=sm_75", "-Xcompiler", "-fPIC", "-shared", "-cudart", "shared"]
        nvcc = "/usr/local/cuda/bin/nvcc" if Path("/usr/local/cuda/bin/nvcc").exists() else "nvcc"
        subprocess.run([nvcc, *options, "-o", f"{folder}/one.so", f"{folder}/one.cu"], check=True)
        torch.zeros(1, device="cuda")
        status = ctypes.CDLL(f"{folder}/one.so").launch()
    torch.cuda.check_error(status)


def ordinal() -> None:
    torch.cuda.set_device(3)


def ordinal_of_local_rank() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.barrier()


def none_visible() -> None:
    torch.zeros(1).cuda()


def forked() -> None:
    torch.zeros(1).cuda()
    data = torch.utils.data.TensorDataset(torch.ones(8, 2))
    loader = torch.utils.data.DataLoader(data, num_workers=1, collate_fn=to_device)
    next(iter(loader))


def to_device(batch: list[tuple[torch.Tensor, ...]]) -> torch.Tensor:
    return torch.stack([item[0] for item in batch]).cuda()


def devices_mixed() -> None:
    torch.nn.Linear(4, 4).cuda()(torch.ones(2, 4))


def captured_wait() -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.zeros(1, device="cuda").item()


def anomaly() -> None:
    torch.autograd.set_detect_anomaly(True)
    value = torch.zeros(4, device="cuda", requires_grad=True)
    torch.autograd.backward((value.sqrt() * 0).sum())


def compiler_missing() -> None:
    os.environ["CC"] = "/opt/none/bin/gcc"
    torch.compile(lambda value: torch.relu(value * 2 + 1))(torch.ones(1000, device="cuda"))


def cpu_on_nccl() -> None:
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    dist.all_reduce(torch.ones(1))


def on_one_gpu(seconds: float = 600) -> int:
    """A rank on GPU 0; NCCL takes each for one of a host of its own. Its rank."""
    os.environ["NCCL_HOSTID"] = os.environ["RANK"]
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=timedelta(seconds=seconds))
    rank: int = dist.get_rank()
    return rank


def gpu_twice() -> None:
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    dist.all_reduce(torch.ones(1, device="cuda"))
    torch.cuda.synchronize()


def rank_killed() -> None:
    rank = on_one_gpu(20)
    for step in range(1000):
        if rank == 1 and step == 20:
            os.kill(os.getpid(), 9)
        value = torch.ones(1 << 16, device="cuda")
        dist.all_reduce(value)
        print(f"rank {rank} step {step} loss {value[0].item()}", flush=True)


def rank_asleep() -> None:
    rank = on_one_gpu(10)
    for step in range(1000):
        if rank == 1 and step == 20:
            time.sleep(3600)
        value = torch.ones(1 << 16, device="cuda")
        dist.all_reduce(value)
        print(f"rank {rank} step {step} loss {value[0].item()}", flush=True)


def shapes_differ() -> None:
    """So unlike that NCCL cuts them into other numbers of pieces; of 32768 and 65536 floats it says nothing (H200)."""
    rank = on_one_gpu(10)
    for step in range(1000):
        value = torch.ones((1 << (28 if rank else 12)) if step == 20 else 16, device="cuda")
        dist.all_reduce(value)
        print(f"rank {rank} step {step} loss {value[0].item()}", flush=True)


def barrier_against_gradient() -> None:
    rank = on_one_gpu(10)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
    for step in range(1000):
        if rank == 0 and step == 20:
            dist.barrier()
        torch.autograd.backward(model(torch.ones(8, 64, device="cuda")).sum())
        print(f"rank {rank} step {step}", flush=True)


def rank_out_of_memory() -> None:
    rank = on_one_gpu(15)
    kept = []
    for step in range(1000):
        if rank == 1 and step > 10:
            kept.append(torch.empty(20 * GIB, dtype=torch.uint8, device="cuda"))
        value = torch.ones(1 << 16, device="cuda")
        dist.all_reduce(value)
        print(f"rank {rank} step {step} loss {value[0].item()}", flush=True)


def checkpoint_of_another() -> None:
    """Saved where there were more GPUs."""
    with tempfile.TemporaryDirectory() as folder:
        torch.save({"weight": torch.ones(4)}, f"{folder}/last.pt")
        torch.load(f"{folder}/last.pt", map_location="cuda:3")


def allocator_option() -> None:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size:128"
    torch.zeros(1).cuda()


def cublas_undetermined() -> None:
    torch.use_deterministic_algorithms(True)
    print((torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")).sum().item())


def pooling_undetermined() -> None:
    torch.use_deterministic_algorithms(True)
    image = torch.randn(1, 3, 8, 8, device="cuda", requires_grad=True)
    torch.autograd.backward(torch.nn.functional.adaptive_avg_pool2d(image, 3).sum())


def attention_in_fp32() -> None:
    query = torch.randn(1, 4, 128, 64, device="cuda")
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        torch.nn.functional.scaled_dot_product_attention(query, query, query)


def gradients_in_fp16() -> None:
    model = torch.nn.Linear(8, 8).cuda().half()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
    torch.autograd.backward(scaler.scale(model(torch.ones(4, 8, device="cuda").half()).float().sum()))
    scaler.step(optimizer)


def unscaled_twice() -> None:
    model = torch.nn.Linear(8, 8).cuda()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
    for _ in range(2):
        torch.autograd.backward(scaler.scale(model(torch.ones(4, 8, device="cuda")).sum()))
        scaler.unscale_(optimizer)


def products_of_fp8() -> None:
    one = torch.ones((), device="cuda")
    left = torch.ones(16, 24, device="cuda").to(torch.float8_e4m3fn)
    torch._scaled_mm(left, torch.ones(16, 24, device="cuda").to(torch.float8_e4m3fn).t(), one, one)


def graph_in_whole() -> None:
    def step(value: torch.Tensor) -> torch.Tensor:
        return value * 2 if value.sum().item() > 0 else value

    torch.compile(step, fullgraph=True)(torch.ones(8, device="cuda"))


def output_overwritten() -> None:
    model = torch.compile(torch.nn.Linear(8, 8).cuda(), mode="reduce-overhead")
    with torch.no_grad():
        kept = [model(torch.ones(4, 8, device="cuda")) for _ in range(6)]
    print(sum(value.sum().item() for value in kept))


def memory_in_pieces() -> None:
    """Each second of the pieces is given back: two of them lie in one segment, and none of these is free as a whole."""
    torch.cuda.set_per_process_memory_fraction(4 * GIB / torch.cuda.mem_get_info()[1])
    pieces = [torch.empty(GIB // 128, dtype=torch.uint8, device="cuda") for _ in range(380)]
    del pieces[::2]
    torch.empty(GIB, dtype=torch.uint8, device="cuda")


def loss_is_nan() -> None:
    weight = torch.full((4,), 1e30, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], 10.0)
    for step in range(10):
        loss = (weight**2).sum()
        print(f"step {step} loss {loss.item()}", flush=True)
        if not torch.isfinite(loss):
            raise ValueError(f"loss is {loss.item()} at step {step}, stopping training")
        torch.autograd.backward(loss)
        optimizer.step()


def assertion_of_one() -> None:
    rank = on_one_gpu(20)
    words = torch.nn.Embedding(100, 8).cuda()
    for step in range(1000):
        batch = torch.full((4,), 100 if rank == 1 and step == 20 else 7, device="cuda")
        value = words(batch).detach()
        dist.all_reduce(value)
        print(f"rank {rank} step {step} loss {value.sum().item()}", flush=True)


def address_of_one() -> None:
    rank = on_one_gpu(20)
    for step in range(1000):
        if rank == 1 and step == 20:
            launched("*(int *)8 = 1;")
        value = torch.ones(1 << 16, device="cuda")
        dist.all_reduce(value)
        print(f"rank {rank} step {step} loss {value[0].item()}", flush=True)


def fewer_batches() -> None:
    rank = on_one_gpu(15)
    for step in range(20 if rank == 1 else 24):
        value = torch.ones(1 << 16, device="cuda")
        dist.all_reduce(value)
        print(f"rank {rank} step {step} loss {value[0].item()}", flush=True)
    if rank == 1:
        time.sleep(60)  # exports its model
    dist.destroy_process_group()


def type_of_nobody() -> None:
    on_one_gpu()
    dist.all_reduce(torch.ones(8, dtype=torch.int16, device="cuda"))


def transposed() -> None:
    on_one_gpu()
    dist.all_reduce(torch.ones(8, 4, device="cuda").t())


def gathered_into_less() -> None:
    on_one_gpu()
    dist.all_gather_into_tensor(torch.ones(12, device="cuda"), torch.ones(8, device="cuda"))


def interface_of_another() -> None:
    on_one_gpu()
    dist.all_reduce(torch.ones(1, device="cuda"))


def network_of_another() -> None:
    on_one_gpu()
    dist.all_reduce(torch.ones(1, device="cuda"))


def group_not_begun() -> None:
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())


def parameter_without_gradient() -> None:
    on_one_gpu(20)
    model = torch.nn.ModuleDict({"used": torch.nn.Linear(4, 4), "spare": torch.nn.Linear(4, 4)}).cuda()
    model.forward = lambda value: model["used"](value)
    trained = torch.nn.parallel.DistributedDataParallel(model)
    for _ in range(2):
        torch.autograd.backward(trained(torch.ones(2, 4, device="cuda")).sum())


def kernel_without_end() -> None:
    """Is looked at while it stands; a kernel that never ends."""
    print("step 1", flush=True)
    launched("volatile int *p = (int *)place; while (*p == 0) { }")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
