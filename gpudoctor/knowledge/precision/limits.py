"""How far a small net under autocast may be from fp32 before its result is called wrong.

Measured with the nets of workers/amp_nets.py on a CPU (torch 2.13): fp16 output 0.0006, gradients 0.0007, the worst
parameter's 0.0009, cosine 0.9999998; bf16 0.005, 0.005, 0.007 and 0.99999. All limits are our
rule of thumb, at least four times what was measured.
"""

from typing import NamedTuple


class Limit(NamedTuple):
    """Relative L2 errors, and the least cosine."""

    output: float
    gradient: float
    """Over all parameters."""
    parameter: float
    """Of any one parameter's gradient: one broken layer is lost in the sum over all."""
    cosine: float


LIMITS = {
    "fp16": Limit(0.005, 0.01, 0.02, 0.999),
    "bf16": Limit(0.02, 0.03, 0.05, 0.999),
    # As many bits of mantissa as fp16.
    "tf32": Limit(0.005, 0.01, 0.02, 0.999),
    # A product of matrices that are fp8 already: its result is bf16, which rounds by 0.0017 (measured).
    "fp8": Limit(0.01, 0.0, 0.0, 0.0),
}

FP32 = 5e-4
"""fp32 with TF32 off against float64: 3e-7 measured on a CPU; Winograd convolutions of cuDNN are some 1e-5 off, and
TF32 that could not be switched off is at 1e-3 for these nets' depth (our rule of thumb lies between)."""
TF32_VISIBLE = 2e-5
"""A product with TF32 on is off by some 3e-4, one in fp32 by 4e-7: less than this, and TF32 was not used."""
COMPILED = {"fp16": 0.005, "bf16": 0.02}
"""A compiled net against the same net as it is: another order of roundings, no more."""
