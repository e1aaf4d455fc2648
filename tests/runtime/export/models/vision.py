"""Vision: detectors, transformers on patches, image quality, augmentation on the device."""

# mypy: ignore-errors

from abc import ABC, abstractmethod
from typing import ClassVar

import mlx.core as mx
import mlx.nn as nn
import numpy as np

ANCHORS = np.array([[10, 13], [16, 30], [33, 23]], dtype=np.float32)
_K = np.outer(np.hamming(5), np.hamming(5))
GAUSS = mx.array((_K / _K.sum()).astype(np.float32)).reshape(1, 5, 5, 1)


class Backbone(ABC, nn.Module):
    stride: ClassVar[int] = 4

    @abstractmethod
    def tokens(self, x): ...

    def __call__(self, x):
        return self.head(self.norm(self.tokens(x))[:, 0])


class ViT(Backbone):
    def __init__(self, dim=16, patches=9, classes=5):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, kernel_size=self.stride, stride=self.stride)
        self.cls = mx.zeros((1, 1, dim))
        self.pos = mx.random.normal((1, patches + 1, dim)) * 0.02
        self.gamma = mx.full((dim,), 0.1)
        self.qkv = nn.Linear(dim, dim * 3)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def tokens(self, x):
        x = self.patch(x)
        b, h, w, c = x.shape
        x = x.reshape(b, h * w, c)
        x = mx.concatenate([mx.broadcast_to(self.cls, (b, 1, c)), x], axis=1) + self.pos
        q, k, v = mx.split(self.qkv(self.norm(x)), 3, axis=-1)
        a = mx.softmax(q @ mx.transpose(k, (0, 2, 1)) / c**0.5, axis=-1)
        return x + self.gamma * (a @ v)


vit = ViT()


def box_iou(a, b, eps: float = 1e-7):
    """IoU of every pair of boxes, as x1 y1 x2 y2."""
    (ax1, ay1, ax2, ay2) = mx.split(a[:, None], 4, axis=-1)
    (bx1, by1, bx2, by2) = mx.split(b[None], 4, axis=-1)
    w = mx.maximum(mx.minimum(ax2, bx2) - mx.maximum(ax1, bx1), 0)
    h = mx.maximum(mx.minimum(ay2, by2) - mx.maximum(ay1, by1), 0)
    inter = (w * h)[..., 0]
    area_a = ((ax2 - ax1) * (ay2 - ay1))[..., 0]
    area_b = ((bx2 - bx1) * (by2 - by1))[..., 0]
    return inter / (area_a + area_b - inter + eps)


def decode(prediction, anchors=ANCHORS, stride=8):
    """YOLO's boxes from a grid of predictions."""
    b, h, w, _ = prediction.shape
    p = mx.sigmoid(prediction.reshape(b, h, w, len(anchors), -1))
    gy, gx = mx.meshgrid(mx.arange(h), mx.arange(w), indexing="ij")
    grid = mx.stack([gx, gy], axis=-1)[None, :, :, None]
    xy = (p[..., :2] * 2 - 0.5 + grid) * stride
    wh = (p[..., 2:4] * 2) ** 2 * mx.array(anchors)
    scores = p[..., 4:5] * p[..., 5:]
    return mx.concatenate([xy - wh / 2, xy + wh / 2, scores], axis=-1).reshape(
        b, -1, p.shape[-1] - 1
    )


def focal_loss(logits, targets, alpha=0.25, gamma=2.0, reduction="mean"):
    p = mx.sigmoid(logits)
    ce = nn.losses.binary_cross_entropy(logits, targets, with_logits=True, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    loss = ce * (1 - p_t) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    if reduction == "mean":
        return mx.mean(loss)
    elif reduction == "sum":
        return mx.sum(loss)
    return loss


def ssim(x, y, *, data_range=1.0):
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2

    def blur(image):
        return mx.conv2d(image, GAUSS)

    mx_, my_ = blur(x), blur(y)
    vx, vy, vxy = blur(x * x) - mx_**2, blur(y * y) - my_**2, blur(x * y) - mx_ * my_
    value = ((2 * mx_ * my_ + c1) * (2 * vxy + c2)) / ((mx_**2 + my_**2 + c1) * (vx + vy + c2))
    return value.mean(axis=(1, 2, 3))


def color_jitter(image, brightness, contrast):
    image = image.astype(mx.float32) / 255
    image = image * brightness[:, None, None, None]
    grey = (image * mx.array([0.299, 0.587, 0.114])).sum(-1, keepdims=True)
    mean = grey.mean(axis=(1, 2, 3), keepdims=True)
    image = (image - mean) * contrast[:, None, None, None] + mean
    return (mx.clip(image, 0, 1) * 255).astype(mx.uint8)


def bilinear_upsample(x, scale: int = 2):
    return nn.Upsample(scale_factor=scale, mode="linear", align_corners=False)(x)


def example_inputs():
    pixels = mx.zeros((2, 10, 10, 1))
    return {
        "vit": mx.zeros((2, 12, 12, 3)),
        "box_iou": (mx.zeros((7, 4)), mx.zeros((9, 4))),
        "decode": mx.zeros((1, 4, 5, 24)),
        "focal_loss": (mx.zeros((6, 20)), mx.zeros((6, 20))),
        "ssim": (pixels, pixels),
        "color_jitter": (mx.zeros((2, 8, 8, 3), mx.uint8), mx.ones((2,)), mx.ones((2,))),
        "bilinear_upsample": mx.zeros((1, 5, 6, 4)),
    }
