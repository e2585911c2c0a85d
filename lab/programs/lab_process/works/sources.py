"""Two programs in CUDA and HIP of our own: Black-Scholes, and a stencil of computational fluids.

The kernels are compared with the same formulas in PyTorch when they are loaded. On the processor
those formulas are the work.
"""

import math

from . import gpu_source
from .work import Work

BLACK_SCHOLES = r"""
__device__ float below(float x) { return 0.5f * erfcf(-x * 0.70710678f); }

extern "C" __global__ void black_scholes(const float* price, const float* strike,
        const float* years, float* call, float* put, float rate, float volatility, int count) {
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        float spread = volatility * sqrtf(years[i]);
        float d1 = (logf(price[i] / strike[i])
            + (rate + 0.5f * volatility * volatility) * years[i]) / spread;
        float d2 = d1 - spread, later = strike[i] * expf(-rate * years[i]);
        call[i] = price[i] * below(d1) - later * below(d2);
        put[i] = later * below(-d2) - price[i] * below(-d1);
    }
}
"""

# Two-dimensional flow of a compressible gas by the method of Lax and Friedrichs: density,
# momentum in two directions and energy of each cell, with the edges joined.
CFD = r"""
#define GAMMA 1.4f

struct Cell { float density, x, y, energy; };

__device__ Cell at(const float* state, int row, int column, int size) {
    row = (row + size) % size;
    column = (column + size) % size;
    int cells = size * size, i = row * size + column;
    return Cell{state[i], state[i + cells], state[i + 2 * cells], state[i + 3 * cells]};
}

// What flows along one axis: `along` is the momentum there, `across` that of the other axis.
__device__ Cell flux(float density, float along, float across, float energy) {
    float speed = along / density;
    float pressure = (GAMMA - 1.0f)
        * (energy - 0.5f * (along * along + across * across) / density);
    return Cell{along, along * speed + pressure, across * speed, (energy + pressure) * speed};
}

extern "C" __global__ void cfd(const float* from, float* to, float ratio, int size) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= size || row >= size) return;
    Cell west = at(from, row, column - 1, size), east = at(from, row, column + 1, size);
    Cell north = at(from, row - 1, column, size), south = at(from, row + 1, column, size);
    Cell w = flux(west.density, west.x, west.y, west.energy);
    Cell e = flux(east.density, east.x, east.y, east.energy);
    Cell n = flux(north.density, north.y, north.x, north.energy);
    Cell s = flux(south.density, south.y, south.x, south.energy);
    int cells = size * size, i = row * size + column;
    to[i] = 0.25f * (west.density + east.density + north.density + south.density)
        - ratio * (e.density - w.density + s.density - n.density);
    to[i + cells] = 0.25f * (west.x + east.x + north.x + south.x)
        - ratio * (e.x - w.x + s.y - n.y);
    to[i + 2 * cells] = 0.25f * (west.y + east.y + north.y + south.y)
        - ratio * (e.y - w.y + s.x - n.x);
    to[i + 3 * cells] = 0.25f * (west.energy + east.energy + north.energy + south.energy)
        - ratio * (e.energy - w.energy + s.energy - n.energy);
}
"""


class Source(Work):
    """Kernels from source on a GPU, the formula on the processor."""

    source, kernel = "", ""

    def __init__(self, role, device):
        super().__init__(role, device)
        self.kernels = None
        self.make()
        if not self.is_tiny:
            self.kernels = gpu_source.Kernels(self.torch, device.name, self.source, [self.kernel])
            self.compare()

    def make(self):
        """Makes the inputs."""
        raise NotImplementedError

    def formula(self):
        """What one pass has to compute, by PyTorch."""
        raise NotImplementedError

    def one_pass(self):
        """One pass by the kernel; what it wrote."""
        raise NotImplementedError

    def compare(self):
        """Refuses kernels that do not compute what the formula does."""
        found, wanted = self.one_pass(), self.formula()
        self.device.synchronize()
        for one, other in zip(found, wanted):
            if not self.torch.allclose(one, other, rtol=1e-3, atol=1e-3):
                worst = (one - other).abs().max().item()
                raise RuntimeError(f"{self.kernel} is off by {worst}")


class BlackScholes(Source):
    """Prices of European options; a batch is so many passes over all."""

    settings = {"options": 16 << 20, "passes": 8}
    source, kernel = BLACK_SCHOLES, "black_scholes"
    rate, volatility = 0.02, 0.3

    def make(self):
        torch, count = self.torch, self.option("options", tiny=1000)
        drawn = torch.rand(3, count, device=self.device.target)
        self.price, self.strike = 5 + 25 * drawn[0], 1 + 99 * drawn[1]
        self.years = 0.25 + 9.75 * drawn[2]
        self.call, self.put = torch.empty_like(self.price), torch.empty_like(self.price)

    def below(self, x):
        """The normal distribution."""
        return 0.5 * self.torch.erfc(-x * math.sqrt(0.5))

    def formula(self):
        torch = self.torch
        spread = self.volatility * self.years.sqrt()
        drift = (self.rate + 0.5 * self.volatility**2) * self.years
        d1 = (torch.log(self.price / self.strike) + drift) / spread
        d2 = d1 - spread
        later = self.strike * torch.exp(-self.rate * self.years)
        call = self.price * self.below(d1) - later * self.below(d2)
        put = later * self.below(-d2) - self.price * self.below(-d1)
        return [call, put]

    def one_pass(self):
        count = self.price.numel()
        self.kernels.launch(self.kernel, (min((count + 255) // 256, 65535), 1, 1), (256, 1, 1),
                            self.price, self.strike, self.years, self.call, self.put,
                            self.rate, self.volatility, count)
        return [self.call, self.put]

    def launch(self):
        for _ in range(self.role.batch * self.option("passes", tiny=1)):
            if self.kernels:
                self.one_pass()
            else:
                self.call, self.put = self.formula()

    def outputs(self):
        return [self.call, self.put]


class Cfd(Source):
    """Steps of a flow on a square grid, always from the same begin."""

    settings = {"size": 4096, "steps": 50}
    source, kernel = CFD, "cfd"
    ratio = 0.1

    def make(self):
        torch, size = self.torch, self.option("size", tiny=32)
        target = self.device.target
        at = torch.arange(size, device=target) * (2 * math.pi / size)
        density = 1 + 0.2 * torch.sin(at)[:, None] * torch.cos(at)[None, :]
        x, y = 0.3 * torch.sin(at)[:, None].expand(size, size), 0.1 * density
        energy = 2.5 + 0.5 * (x * x + y * y) / density
        self.first = torch.stack((density, x, y, energy)).contiguous()
        self.now, self.next = self.first.clone(), torch.empty_like(self.first)

    @staticmethod
    def flux(density, along, across, energy):
        """What flows along an axis, as the kernel has it."""
        speed = along / density
        pressure = 0.4 * (energy - 0.5 * (along * along + across * across) / density)
        return density * speed, along * speed + pressure, across * speed, (energy + pressure) * speed

    def formula(self):
        torch, state = self.torch, self.now
        west, east = state.roll(1, 2), state.roll(-1, 2)
        north, south = state.roll(1, 1), state.roll(-1, 1)
        w, e = (torch.stack(self.flux(*side)) for side in (west, east))
        # Along the other axis the two momenta change their places.
        turned = [torch.stack(self.flux(side[0], side[2], side[1], side[3]))[[0, 2, 1, 3]]
                  for side in (north, south)]
        spread = 0.25 * (west + east + north + south)
        return [spread - self.ratio * (e - w + turned[1] - turned[0])]

    def one_pass(self):
        size = self.now.shape[1]
        blocks = ((size + 31) // 32, (size + 7) // 8, 1)
        self.kernels.launch(self.kernel, blocks, (32, 8, 1), self.now, self.next, self.ratio, size)
        return [self.next]

    def launch(self):
        self.now.copy_(self.first)
        steps = self.role.batch * self.option("steps", tiny=4)
        for _ in range(2 * ((steps + 1) // 2)):
            if self.kernels:
                self.one_pass()
            else:
                self.next = self.formula()[0]
            self.now, self.next = self.next, self.now

    def outputs(self):
        return [self.now]
