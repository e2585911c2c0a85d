"""JAX: a compiled step of training of a small network."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")
import common  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

assert jax.devices()[0].platform == "gpu", jax.devices()
keys = jax.random.split(jax.random.PRNGKey(1), 4)
weights = [jax.random.normal(key, (512, 512)) / 23 for key in keys[:3]]
x = jax.random.normal(keys[3], (256, 512))


def loss(weights):
    y = x
    for weight in weights:
        y = jnp.tanh(y @ weight)
    return (y ** 2).mean()


@jax.jit
def step(weights):
    value, slopes = jax.value_and_grad(loss)(weights)
    return value, [weight - 0.1 * slope for weight, slope in zip(weights, slopes)]


values = []


def request():
    global weights
    value, weights = step(weights)
    values.append(float(value))


measured = common.times(request, 100)
import numpy  # noqa: E402

common.report(common.digest([numpy.array(values), numpy.asarray(weights[0])]), measured)
