"""A first tensor on the device: what starting costs."""

import time

begin = time.perf_counter_ns()
import torch  # noqa: E402

torch.zeros(1).cuda()
import common  # noqa: E402

common.report("none", [(time.perf_counter_ns() - begin) / 1e6])
