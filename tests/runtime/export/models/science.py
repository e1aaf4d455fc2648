"""Simulation and statistics: stencils, particles, filters, options, with constants of their own."""

# mypy: ignore-errors

from typing import NamedTuple

import mlx.core as mx

G = 6.674e-3
SOFTENING = 0.05
DT = mx.array(0.01)


class Bodies(NamedTuple):
    position: mx.array
    velocity: mx.array
    mass: mx.array


class Leapfrog:
    calls = 0

    @staticmethod
    def acceleration(position, mass):
        d = position[None] - position[:, None]
        r2 = (d * d).sum(-1) + SOFTENING**2
        return G * (d * (mass[None] * r2**-1.5)[..., None]).sum(1)

    def __call__(self, bodies: Bodies) -> Bodies:
        a = self.acceleration(bodies.position, bodies.mass)
        v = bodies.velocity + a * DT
        return Bodies(bodies.position + v * DT, v, bodies.mass)


leapfrog = Leapfrog()


def heat_step(u, alpha=0.1):
    """Five-point stencil with fixed borders."""
    inner = u[1:-1, 1:-1]
    laplacian = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner
    out = mx.array(u)
    out[1:-1, 1:-1] = inner + alpha * laplacian
    return out


def black_scholes(spot, strike, years, rate: float = 0.03, sigma: float = 0.2):
    cdf = lambda z: 0.5 * (1 + mx.erf(z / 2**0.5))  # noqa: E731
    d1 = (mx.log(spot / strike) + (rate + sigma**2 / 2) * years) / (sigma * mx.sqrt(years))
    d2 = d1 - sigma * mx.sqrt(years)
    discount = mx.exp(-rate * years)
    call = spot * cdf(d1) - strike * discount * cdf(d2)
    return call, call - spot + strike * discount


def rbf_kernel(x, y, length_scales, variance):
    x, y = x / length_scales, y / length_scales
    d2 = (x**2).sum(-1)[:, None] + (y**2).sum(-1)[None] - 2 * x @ y.T
    return variance * mx.exp(-0.5 * mx.maximum(d2, 0))


def quaternion_rotate(q, v):
    q = q * mx.rsqrt((q * q).sum(-1, keepdims=True))
    w, u = q[..., :1], q[..., 1:]
    uv = mx.linalg.cross(u, v)
    return v + 2 * (w * uv + mx.linalg.cross(u, uv))


def particle_weights(log_weights, observation, particles, noise=0.3):
    innovation = (particles - observation) / noise
    lw = log_weights - 0.5 * mx.square(innovation).sum(axis=-1)
    lw = lw - mx.logsumexp(lw)
    w = mx.exp(lw)
    effective = 1 / mx.sum(w * w)
    return lw, effective, mx.cumsum(w)


def spherical_harmonics(xyz):
    x, y, z = (xyz[..., i] for i in range(3))
    r2 = x * x + y * y + z * z
    return mx.stack(
        [
            mx.full(x.shape, 0.2820947918),
            0.4886025119 * y,
            0.4886025119 * z,
            0.4886025119 * x,
            1.0925484306 * x * y,
            0.3153915653 * (3 * z * z - r2),
        ],
        axis=-1,
    )


def example_inputs():
    n = 9
    bodies = Bodies(mx.zeros((n, 3)), mx.zeros((n, 3)), mx.ones((n,)))
    ones = mx.ones((300,))
    return {
        "leapfrog": (bodies,),
        "heat_step": mx.zeros((12, 15)),
        "black_scholes": (ones, ones, ones),
        "rbf_kernel": (mx.zeros((7, 4)), mx.zeros((5, 4)), mx.ones((4,)), mx.ones(())),
        "quaternion_rotate": (mx.ones((20, 4)), mx.zeros((20, 3))),
        "particle_weights": (mx.zeros((50,)), mx.zeros((3,)), mx.zeros((50, 3))),
        "spherical_harmonics": mx.zeros((40, 3)),
    }
