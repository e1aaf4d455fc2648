"""Reinforcement learning and preference tuning: losses with statistics, returns, policies."""

# mypy: ignore-errors

from dataclasses import dataclass

import mlx.core as mx
import mlx.core as np  # some people do
import mlx.nn as nn

GAMMA, LAMBDA = 0.99, 0.95


def gae(rewards, values, dones, last_value, gamma=GAMMA, lam=LAMBDA):
    advantages, running = [], mx.zeros_like(last_value)
    steps = rewards.shape[0]
    for i in reversed(range(steps)):
        following = values[i + 1] if i + 1 < steps else last_value
        alive = 1.0 - dones[i].astype(mx.float32)
        delta = rewards[i] + gamma * following * alive - values[i]
        running = delta + gamma * lam * alive * running
        advantages.insert(0, running)
    advantages = mx.stack(advantages)
    returns = advantages + values
    return (advantages - advantages.mean()) / (mx.sqrt(advantages.var()) + 1e-8), returns


def ppo_loss(logits, actions, old_logp, advantages, returns, values, clip=0.2, *, vf=0.5, ent=0.01):
    logp_all = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    logp = mx.take_along_axis(logp_all, actions[:, None], -1)[:, 0]
    ratio = mx.exp(logp - old_logp)
    clipped = mx.clip(ratio, 1 - clip, 1 + clip)
    policy = -mx.minimum(ratio * advantages, clipped * advantages).mean()
    value = 0.5 * mx.square(values - returns).mean()
    entropy = -(mx.exp(logp_all) * logp_all).sum(-1).mean()
    total = policy + vf * value - ent * entropy
    return total, {
        "policy": policy,
        "value": value,
        "entropy": entropy,
        "kl": (old_logp - logp).mean(),
        "clipped": (mx.abs(ratio - 1) > clip).astype(mx.float32).mean(),
    }


@dataclass
class TanhGaussian:
    low: float = -5.0
    high: float = 2.0

    def log_prob(self, mean, log_std, noise):
        log_std = mx.tanh(log_std)
        log_std = self.low + 0.5 * (self.high - self.low) * (log_std + 1)
        raw = mean + mx.exp(log_std) * noise
        action = mx.tanh(raw)
        logp = -0.5 * noise**2 - log_std - 0.5 * mx.log(mx.array(2 * 3.141592653589793))
        logp = logp - mx.log(1 - action**2 + 1e-6)
        return action, logp.sum(axis=-1)


policy = TanhGaussian()


class DuelingQ(nn.Module):
    def __init__(self, obs: int, actions: int):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.value = nn.Linear(32, 1)
        self.advantage = nn.Linear(32, actions)

    def __call__(self, obs):
        h = self.trunk(obs)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(axis=-1, keepdims=True)

    def td_error(self, obs, action, reward, target):
        q = mx.take_along_axis(self(obs), action[..., None], axis=-1).squeeze(-1)
        return nn.losses.huber_loss(q, reward + GAMMA * target, reduction="mean")


q_network = DuelingQ(6, 5)


def dpo_loss(
    policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta=0.1, loss_type="sigmoid"
):
    chosen = policy_chosen - ref_chosen
    rejected = policy_rejected - ref_rejected
    margin = beta * (chosen - rejected)
    match loss_type:
        case "sigmoid":
            loss = -nn.log_sigmoid(margin)
        case "hinge":
            loss = nn.relu(1 - margin)
        case "ipo":
            loss = (margin / beta - 1 / (2 * beta)) ** 2
        case _:
            raise ValueError(f"no loss is called {loss_type!r}")
    accuracy = (margin > 0).astype(np.float32).mean()
    return loss.mean(), (beta * chosen, beta * rejected), accuracy


def example_inputs():
    t, n, b = 4, 6, 12
    rows = mx.zeros((t, n))
    flat = mx.zeros((b,))
    return {
        "gae": (rows, rows, mx.zeros((t, n), mx.bool_), mx.zeros((n,))),
        "ppo_loss": (mx.zeros((b, 7)), mx.zeros((b,), mx.int32), flat, flat, flat, flat),
        "policy.log_prob": (mx.zeros((b, 5)), mx.zeros((b, 5)), mx.zeros((b, 5))),
        "q_network": mx.zeros((b, 6)),
        "q_network.td_error": (mx.zeros((b, 6)), mx.zeros((b,), mx.int32), flat, flat),
        "dpo_loss": (flat, flat, flat, flat),
    }
