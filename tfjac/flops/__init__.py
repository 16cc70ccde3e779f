"""Counting and measuring the work of a forward and a backward pass."""

from tfjac.flops.count import count_flops
from tfjac.flops.counting import OpFlops
from tfjac.flops.measuring import Measurement
from tfjac.flops.report import FlopCount, FlopRow
