"""A decoder with random weights and slots for requests: rotary positions, grouped heads, SwiGLU.

Prompts are read one at a time into a slot; a step then gives the next token of all slots. Both have
fixed shapes, so both can be graphs, and what a slot computes does not depend on the others.
"""

import dataclasses

import torch
from torch.nn import functional


@dataclasses.dataclass(frozen=True)
class Shape:
    """The size of a model."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int

    @property
    def head(self):
        """Numbers of a head."""
        return self.hidden // self.heads


SHAPES = {
    "1b": Shape(2048, 16, 32, 8, 8192, 128256),
    "3b": Shape(3072, 28, 24, 8, 8192, 128256),
    "8b": Shape(4096, 32, 32, 8, 14336, 128256),
    "tiny": Shape(64, 2, 4, 2, 128, 256),
}


def norm(x):
    """The root mean square made 1, in FP32."""
    whole = x.float()
    return (whole * torch.rsqrt(whole.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def turned(x, cosine, sine):
    """Numbers with their position: `x` is [..., head], the others are of its last half."""
    left, right = x.float().chunk(2, -1)
    both = (left * cosine - right * sine, right * cosine + left * sine)
    return torch.cat(both, -1).to(x.dtype)


class Decoder:
    """Weights, and the keys and values of all slots."""

    def __init__(self, shape, slots, prompt, new, dtype, target):
        self.shape, self.slots, self.prompt, self.new = shape, slots, prompt, new
        self.room = (prompt + new + 7) // 8 * 8
        drawn = lambda *size: torch.randn(*size, device=target, dtype=dtype)  # noqa: E731
        scaled = lambda rows, columns: drawn(rows, columns) * columns**-0.5  # noqa: E731
        width, small = shape.hidden, shape.kv_heads * shape.head
        self.table = drawn(shape.vocabulary, width)
        self.layers = [
            (scaled(width + 2 * small, width), scaled(width, width),
             scaled(2 * shape.inner, width), scaled(width, shape.inner))
            for _ in range(shape.layers)]
        self.ends = scaled(shape.vocabulary, width)
        size = (shape.layers, slots, shape.kv_heads, self.room, shape.head)
        self.keys, self.values = (torch.zeros(size, device=target, dtype=dtype) for _ in "kv")
        at = torch.arange(self.room, device=target)
        speeds = 10000.0 ** (-torch.arange(0, shape.head, 2, device=target) / shape.head)
        angles = at[:, None].float() * speeds
        self.cosine, self.sine, self.at = angles.cos(), angles.sin(), at
        whole = lambda *size: torch.zeros(*size, device=target, dtype=torch.int64)  # noqa: E731
        # What a step needs of the slots, on the device: nothing is copied between two steps.
        self.tokens, self.lengths, self.written = whole(slots), whole(slots), whole(slots, new)
        self.slot, self.given = whole(1), whole(1, prompt)
        self.every = torch.arange(slots, device=target)

    def split(self, x, layer):
        """Queries, keys and values of `x`, by heads."""
        shape = self.shape
        small = shape.kv_heads * shape.head
        made = functional.linear(norm(x), self.layers[layer][0])
        parts = made.split((shape.hidden, small, small), -1)
        heads = (shape.heads, shape.kv_heads, shape.kv_heads)
        return [part.unflatten(-1, (count, shape.head)) for part, count in zip(parts, heads)]

    def rest(self, x, attended, layer):
        """What follows attention in a layer."""
        _, out, up, down = self.layers[layer]
        x = x + functional.linear(attended, out)
        gate, value = functional.linear(norm(x), up).chunk(2, -1)
        return x + functional.linear(functional.silu(gate) * value, down)

    def next_tokens(self, x):
        """The most likely tokens."""
        return functional.linear(norm(x), self.ends).float().argmax(-1)

    def read(self):
        """Reads the prompt `given` into the slot `slot`, and writes the first token."""
        x = self.table[self.given]
        cosine, sine = (one[:self.prompt, None] for one in (self.cosine, self.sine))
        groups = self.shape.heads // self.shape.kv_heads
        for layer in range(self.shape.layers):
            query, key, value = self.split(x, layer)
            query, key = turned(query, cosine, sine), turned(key, cosine, sine)
            query, key, value = (one.transpose(1, 2) for one in (query, key, value))
            self.keys[layer][:, :, :self.prompt].index_copy_(0, self.slot, key)
            self.values[layer][:, :, :self.prompt].index_copy_(0, self.slot, value)
            key, value = (one.repeat_interleave(groups, 1) for one in (key, value))
            attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = self.rest(x, attended.transpose(1, 2).flatten(2), layer)
        token = self.next_tokens(x[:, -1])
        self.tokens.index_copy_(0, self.slot, token)
        self.lengths.index_fill_(0, self.slot, self.prompt)
        self.written[:, 0].index_copy_(0, self.slot, token)

    def step(self):
        """Writes the next token of every slot; in slots without a request it means nothing."""
        shape, at = self.shape, self.lengths
        x = self.table[self.tokens]
        cosine, sine = self.cosine[at][:, None], self.sine[at][:, None]
        hidden = (self.at[None] > at[:, None])[:, None, None]
        for layer in range(shape.layers):
            query, key, value = self.split(x, layer)
            query, key = turned(query, cosine, sine), turned(key, cosine, sine)
            self.keys[layer][self.every, :, at] = key
            self.values[layer][self.every, :, at] = value
            # The heads that share keys are the rows of one product.
            query = query.unflatten(1, (shape.kv_heads, -1))
            scores = query @ self.keys[layer].transpose(-1, -2)
            scores = (scores.float() * shape.head**-0.5).masked_fill(hidden, -torch.inf)
            attended = scores.softmax(-1).to(x.dtype) @ self.values[layer]
            x = self.rest(x, attended.flatten(1), layer)
        self.tokens.copy_(self.next_tokens(x))
        # A slot without a request goes on at its end.
        self.lengths.add_(1).clamp_(max=self.room - 1)
        place = (self.lengths - self.prompt).clamp(0, self.new - 1)
        self.written.scatter_(1, place[:, None], self.tokens[:, None])
