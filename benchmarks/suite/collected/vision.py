"""Functions of image models: layouts, windows, norms over planes, pre- and post-processing."""

import mlx.core as mx

from benchmarks.suite.workload import Workload

CONVNEXT = "ConvNeXt base, 64 images"
SWIN = "Swin base, 64 images"
RESNET = "ResNet-50, 64 images"
UNET = "a U-Net of 256 x 256 images"


def group_norm_silu(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """Normalise 32 groups of the channels of each image, then SiLU, channels last."""
    batch, height, width, channels = x.shape
    grouped = x.reshape(batch, height * width, 32, channels // 32).astype(mx.float32)
    mean = grouped.mean(axis=(1, 3), keepdims=True)
    variance = grouped.var(axis=(1, 3), keepdims=True)
    normal = ((grouped - mean) * mx.rsqrt(variance + 1e-5)).reshape(x.shape)
    y = normal.astype(x.dtype) * weight + bias
    return y * mx.sigmoid(y)


def instance_norm(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """Normalise each channel of each image over its plane, channels last."""
    mean = x.mean(axis=(1, 2), keepdims=True)
    variance = x.var(axis=(1, 2), keepdims=True)
    return (x - mean) * mx.rsqrt(variance + 1e-5) * weight + bias


def layer_scale_residual(x: mx.array, y: mx.array, gamma: mx.array) -> mx.array:
    """Add a branch, scaled by channel."""
    return x + gamma * y


def global_response_norm(x: mx.array, gamma: mx.array, beta: mx.array) -> mx.array:
    """Compete among channels by the norms of their planes (ConvNeXt V2)."""
    g = mx.sqrt((x * x).sum(axis=(1, 2), keepdims=True))
    n = g / (g.mean(axis=-1, keepdims=True) + 1e-6)
    return gamma * (x * n) + beta + x


def window_partition(x: mx.array) -> mx.array:
    """Cut images into windows of 7 x 7, each a row of tokens."""
    b, h, w, c = x.shape
    x = x.reshape(b, h // 7, 7, w // 7, 7, c)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)


def window_attention_weights(scores: mx.array, bias: mx.array) -> mx.array:
    """Softmax of 49 x 49 windows after each head's relative position bias."""
    return mx.softmax(scores * 0.1768 + bias[None], axis=-1)


def squeeze_excite(x: mx.array, scale: mx.array) -> mx.array:
    """Scale channels by gates that were computed from pooled planes."""
    return x * mx.sigmoid(scale)[:, None, None, :]


def average_pool_plane(x: mx.array) -> mx.array:
    """Average whole planes, channels last."""
    return x.mean(axis=(1, 2))


def normalize_images(x: mx.array, mean: mx.array, deviation: mx.array) -> mx.array:
    """Turn bytes into normalised numbers, channels first."""
    y = (x.astype(mx.float32) / 255.0 - mean) / deviation
    return y.transpose(0, 3, 1, 2).astype(mx.float16)


def channels_first(x: mx.array) -> mx.array:
    """Put channels before the plane after a scale and a clip."""
    return mx.clip(x * 2.0 - 1.0, -1.0, 1.0).transpose(0, 3, 1, 2)


def pixel_shuffle(x: mx.array) -> mx.array:
    """Trade four channels for a plane twice as wide and high (super-resolution)."""
    b, h, w, c = x.shape
    x = x.reshape(b, h, w, 2, 2, c // 4)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(b, 2 * h, 2 * w, c // 4)


def upsample_add(x: mx.array, skip: mx.array) -> mx.array:
    """Double planes by repetition and add the finer level (feature pyramid)."""
    b, h, w, c = x.shape
    x = mx.broadcast_to(x[:, :, None, :, None, :], (b, h, 2, w, 2, c))
    return x.reshape(b, 2 * h, 2 * w, c) + skip


def batch_norm_relu(
    x: mx.array, mean: mx.array, variance: mx.array, weight: mx.array, bias: mx.array
) -> mx.array:
    """Normalise by running statistics, then ReLU."""
    return mx.maximum((x - mean) * mx.rsqrt(variance + 1e-5) * weight + bias, 0)


def batch_statistics(x: mx.array) -> tuple[mx.array, mx.array]:
    """Return mean and variance of each channel over batch and plane (training)."""
    wide = x.astype(mx.float32)
    return wide.mean(axis=(0, 1, 2)), wide.var(axis=(0, 1, 2))


def box_iou(a: mx.array, b: mx.array) -> mx.array:
    """Overlap of each box of one list with each of another."""
    low = mx.maximum(a[:, None, :2], b[None, :, :2])
    high = mx.minimum(a[:, None, 2:], b[None, :, 2:])
    size = mx.maximum(high - low, 0)
    both = size[..., 0] * size[..., 1]
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return both / (area_a[:, None] + area_b[None] - both + 1e-6)


def segmentation_loss(logits: mx.array, labels: mx.array) -> mx.array:
    """Cross entropy of each pixel over 19 classes, channels last."""
    picked = mx.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return mx.logsumexp(logits, axis=-1) - picked


def dice_terms(logits: mx.array, target: mx.array) -> tuple[mx.array, mx.array]:
    """Return overlap and sum of each mask for a dice loss."""
    p = mx.sigmoid(logits)
    return (p * target).sum(axis=(1, 2)), (p + target).sum(axis=(1, 2))


def gray_edges(x: mx.array) -> mx.array:
    """Luma, then the absolute differences to the right and lower neighbour."""
    gray = x[..., 0] * 0.299 + x[..., 1] * 0.587 + x[..., 2] * 0.114
    dx = mx.abs(gray[:, :-1, 1:] - gray[:, :-1, :-1])
    dy = mx.abs(gray[:, 1:, :-1] - gray[:, :-1, :-1])
    return dx + dy


VISION = (
    Workload("group_norm_silu", "vision", group_norm_silu,
             ("T[8,128,128,256]", "T[256]", "T[256]"), UNET),
    Workload("instance_norm", "vision", instance_norm,
             ("T[16,128,128,64]", "T[64]", "T[64]"), UNET),
    Workload("layer_scale_residual", "vision", layer_scale_residual,
             ("T[64,56,56,128]", "T[64,56,56,128]", "T[128]"), CONVNEXT),
    Workload("global_response_norm", "vision", global_response_norm,
             ("T[32,28,28,1024]", "T[1024]", "T[1024]"), CONVNEXT),
    Workload("window_partition", "vision", window_partition, ("T[64,56,56,128]",), SWIN),
    Workload("window_attention_weights", "vision", window_attention_weights,
             ("T[4096,4,49,49]", "T[4,49,49]"), SWIN),
    Workload("squeeze_excite", "vision", squeeze_excite,
             ("T[64,56,56,144]", "T[64,144]"), "EfficientNet"),
    Workload("average_pool_plane", "vision", average_pool_plane, ("T[64,28,28,512]",), RESNET),
    Workload("normalize_images", "vision", normalize_images,
             ("u8[128,224,224,3]", "f32[3]", "f32[3]"), RESNET),
    Workload("channels_first", "vision", channels_first, ("T[64,256,256,3]",), UNET),
    Workload("pixel_shuffle", "vision", pixel_shuffle, ("T[16,180,180,64]",), "EDSR"),
    Workload("upsample_add", "vision", upsample_add,
             ("T[16,64,64,256]", "T[16,128,128,256]"), "FPN"),
    Workload("batch_norm_relu", "vision", batch_norm_relu,
             ("T[64,56,56,256]", "T[256]", "T[256]<2", "T[256]", "T[256]"), RESNET),
    Workload("batch_statistics", "vision", batch_statistics, ("T[64,56,56,256]",), RESNET),
    Workload("box_iou", "vision", box_iou, ("T[8400,4]", "T[1200,4]"), "YOLO"),
    Workload("segmentation_loss", "vision", segmentation_loss,
             ("T[16,512,512,19]", "i32[16,512,512]<19"), "Cityscapes"),
    Workload("dice_terms", "vision", dice_terms, ("T[100,400,400]", "T[100,400,400]"), "DETR"),
    Workload("gray_edges", "vision", gray_edges, ("T[32,512,512,3]",), "image pipeline"),
)  # fmt: skip
