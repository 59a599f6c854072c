"""DataParallel, a model whose halves lie on two GPUs, Apex's AMP."""

from tests.tutorials.row import Row, Title

TITLE: Title = "DataParallel, a model split by hand, and Apex"
ALONE = ("rank", "other processes", "LOCAL_RANK", "DistributedDataParallel")
"""Words of another program than one that has one process."""
SPLIT = ALONE[:-1]
"""Of tensors on two devices, what another wrapper does may be said."""

ROWS = (
    Row(
        id="data-parallel-first-device",
        title=TITLE,
        about="DataParallel of a model that lies on another GPU than the first of device_ids",
        line="RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one "
        "of them on device: cuda:1",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("DataParallel", "first device of its device_ids", "cuda:0", "cuda:1"),
        untold=(*ALONE, "device-not-set"),
        today="DataParallel copies the model from the first GPU of its list at every step, and takes the inputs there.",
        write='model = torch.nn.DataParallel(model.to("cuda:0"), device_ids=[0, 1])',
    ),
    Row(
        id="data-parallel-first-device-traceback",
        title=TITLE,
        about="The same with its traceback",
        line="""Traceback (most recent call last):
  File "/home/mia/train.py", line 44, in <module>
    loss = criterion(model(images.cuda()), labels.cuda())
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/parallel/data_parallel.py", line 178, in forward
    raise RuntimeError(
RuntimeError: module must have its parameters and buffers on device cuda:2 (device_ids[0]) but found one of them on \
device: cpu
""",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("DataParallel", "first device of its device_ids", "train.py:44", 'model.to("cuda:2")'),
        untold=(*ALONE, "device-not-set"),
        today="The model was never moved to a GPU, and DataParallel does not move it.",
        write='model = torch.nn.DataParallel(model.to("cuda:2"), device_ids=[2, 3])',
    ),
    Row(
        id="two-devices",
        title=TITLE,
        about="The halves of a model on two GPUs, and an input on the wrong one",
        line="RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and "
        "cuda:0! (when checking argument for argument mat1 in method wrapper_CUDA_addmm)",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("cuda:0", "cuda:1", "one device", ".to("),
        untold=SPLIT,
        today="Each half takes its input on its own GPU: what the first gives is moved before the second.",
        write='x = self.first(x.to("cuda:0"))\nreturn self.second(x.to("cuda:1"))',
    ),
    Row(
        id="two-devices-traceback",
        title=TITLE,
        about="The same with its traceback, and with torch's later words",
        line="""Traceback (most recent call last):
  File "/home/mia/split.py", line 58, in <module>
    out = net(batch)
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1751, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
  File "/home/mia/split.py", line 23, in forward
    return self.second(x)
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 125, in forward
    return F.linear(input, self.weight, self.bias)
RuntimeError: Expected all tensors to be on the same device, but got mat1 is on cuda:0, different from other tensors \
on cuda:1 (when checking argument in method wrapper_CUDA_addmm)
""",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("cuda:0", "cuda:1", "one device", "split.py:23", ".to("),
        untold=SPLIT,
        today="The line of the traceback that is yours is the one before which the input must be moved.",
        write='return self.second(x.to("cuda:1"))',
    ),
    Row(
        id="two-devices-of-a-rank",
        title=TITLE,
        about="Tensors on two devices in a program of several ranks",
        line="[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/home/mia/ddp.py", line 40, in <module>\n'
        "[rank1]:     loss = model(batch.cuda(0)).sum()\n"
        "[rank1]: RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 "
        "and cuda:0!\n",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("rank 1", "ddp.py:40", "LOCAL_RANK", "cuda:0", "cuda:1"),
        untold=("split by hand",),
        today="A number in .cuda(0) is the same on every rank, and each rank has a GPU of its own.",
        write="torch.cuda.set_device(local_rank)\nloss = model(batch.cuda()).sum()",
    ),
    Row(
        id="two-devices-of-a-convolution",
        title=TITLE,
        about="The same of a convolution, in the words of torch up to 1.7",
        line="""Traceback (most recent call last):
  File "/home/mia/halves.py", line 71, in <module>
    out = net(images)
  File "/home/mia/halves.py", line 29, in forward
    return self.tail(x)
  File "/opt/venv/lib/python3.8/site-packages/torch/nn/modules/conv.py", line 416, in _conv_forward
    self.padding, self.dilation, self.groups)
RuntimeError: Expected tensor for argument #1 'input' to have the same device as tensor for argument #2 'weight'; but \
device 0 does not equal 3 (while checking arguments for cudnn_convolution)
""",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("input is on cuda:0, the rest on cuda:3", 'self.tail(x.to("cuda:3"))', "halves.py:29"),
        untold=SPLIT,
        today="Each operator had words of its own before torch 1.6; the argument that is named is the one to move.",
        write='return self.tail(x.to("cuda:3"))',
    ),
    Row(
        id="model-left-on-the-cpu",
        title=TITLE,
        about="A model that was never moved",
        line="RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("input is on cuda, the rest on cpu", 'model.to("cuda")'),
        untold=("autocast", *SPLIT),
        today="The input is on the GPU, and the layer is not: the types differ by cuda alone.",
        write='model.to("cuda")',
    ),
    Row(
        id="log-data-parallel-devices",
        title=TITLE,
        about="DataParallel(model, devices=...), in a log",
        line="""Traceback (most recent call last):
  File "/home/mia/train.py", line 18, in <module>
    net = nn.DataParallel(net, devices=[0, 1])
TypeError: __init__() got an unexpected keyword argument 'devices'
""",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("torch's DataParallel has no argument devices", "train.py:18", "write device_ids="),
        untold=ALONE,
        today="Python before 3.10 does not say whose __init__ it is; the line of the program does.",
        write="net = nn.DataParallel(net, device_ids=[0, 1])",
    ),
    Row(
        id="log-invalid-device-id",
        title=TITLE,
        about="AssertionError: Invalid device id",
        line="AssertionError: Invalid device id",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("does not see", "counts those that it sees from 0", "gpudoctor devices"),
        untold=("Correct what raised it", *ALONE),
        today="DataParallel asks for the properties of each GPU of its list, and one is not there.",
        write="model = torch.nn.DataParallel(model, device_ids=[0, 1])",
    ),
    Row(
        id="apex-of-another-kind",
        title=TITLE,
        about="from apex import amp, after pip install apex",
        line="""Traceback (most recent call last):
  File "/home/mia/train.py", line 9, in <module>
    from apex import amp
  File "/opt/venv/lib/python3.8/site-packages/apex/__init__.py", line 13, in <module>
    from pyramid.session import UnencryptedCookieSessionFactoryConfig
ImportError: cannot import name 'UnencryptedCookieSessionFactoryConfig' from 'pyramid.session' (unknown location)
""",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("NVIDIA's", "torch.autocast with torch.amp.GradScaler"),
        untold=("do not fit", "Correct what raised it"),
        today="The apex of the package index is another project; torch has mixed precision itself since 1.6.",
        write='scaler = torch.amp.GradScaler("cuda")\n'
        'with torch.autocast("cuda", dtype=torch.float16):\n    loss = net(x)',
    ),
    Row(
        id="accelerate-fp16",
        title=TITLE,
        about="Accelerator(fp16=True)",
        line="from accelerate import Accelerator\n\naccelerator = Accelerator(fp16=True)\n",
        name="train.py",
        command="gpudoctor lint train.py --facts accelerate=1.2",
        told=("removed in accelerate 0.16", 'Write mixed_precision="fp16".'),
        today="One argument names the precision since 0.6.",
        write='accelerator = Accelerator(mixed_precision="fp16")',
    ),
)
