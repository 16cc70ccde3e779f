"""Images and signals."""

import tensorflow as tf

from tests.sweep.samples.table import constant, distinct, normal, sample, uniform

image, raw, signal = tf.image, tf.raw_ops, tf.signal

for _method in ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"):
    for _size in ((5, 4), (2, 2)):
        for _antialias in (False, True):
            if _antialias and _method not in ("bilinear", "lanczos3"):
                continue
            sample(
                f"resize, {_method} to {_size}, antialias={_antialias}",
                lambda x, m=_method, s=_size, a=_antialias: tf.cast(image.resize(x, s, m, antialias=a), tf.float64),
                normal(2, 3, 4, 2),
                single=_method != "nearest",
            )
for _name in ("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"):
    for _options in ({"align_corners": True}, {"half_pixel_centers": True}, {}):
        sample(
            f"{_name}, {_options}",
            lambda x, op=getattr(raw, _name), o=_options: tf.cast(op(images=x, size=[5, 4], **o), tf.float64),
            normal(2, 3, 4, 2),
            single=_name != "ResizeNearestNeighbor",
        )
sample(
    "ScaleAndTranslate",
    lambda x: tf.cast(
        raw.ScaleAndTranslate(images=tf.cast(x, tf.float32), size=[4, 4], scale=[1.2, 1.1], translation=[0.3, 0.1]),
        tf.float64,
    ),
    normal(2, 3, 4, 2),
    single=True,
)
for _method in ("bilinear", "nearest"):
    sample(
        f"crop_and_resize, {_method}",
        lambda x, m=_method: tf.cast(
            image.crop_and_resize(tf.cast(x, tf.float32), [[0.1, 0.1, 0.8, 0.9], [0, 0, 1, 1]], [0, 0], [2, 3], m),
            tf.float64,
        ),
        normal(1, 4, 4, 2),
        single=True,
    )
sample(
    "crop_and_resize, its boxes",
    lambda x, b: tf.cast(
        image.crop_and_resize(tf.cast(x, tf.float32), tf.cast(b, tf.float32), [0, 1], [2, 3]), tf.float64
    ),
    normal(2, 4, 4, 1),
    constant([[0.11, 0.07, 0.83, 0.76], [0.21, 0.13, 0.9, 0.64]]),  # no place of a crop is that of a pixel
    single=True,
)
sample(
    "extract_patches",
    lambda x: image.extract_patches(x, [1, 2, 2, 1], [1, 1, 2, 1], [1, 1, 1, 1], "SAME"),
    normal(2, 4, 3, 2),
)
sample(
    "extract_patches, dilated",
    lambda x: image.extract_patches(x, [1, 2, 2, 1], [1] * 4, [1, 2, 1, 1], "VALID"),
    normal(2, 4, 3, 2),
)
sample(
    "extract_volume_patches",
    lambda x: tf.compat.v1.extract_volume_patches(x, [1, 2, 2, 1, 1], [1, 1, 2, 1, 1], "VALID"),
    normal(1, 3, 3, 2, 2),
)
sample(
    "ImageProjectiveTransformV3",
    lambda x: tf.cast(
        raw.ImageProjectiveTransformV3(
            images=tf.cast(x, tf.float32),
            transforms=[[1.0, 0.1, 0.2, 0.1, 0.9, 0.3, 0.0, 0.0]],
            output_shape=[4, 4],
            fill_value=0.0,
            interpolation="BILINEAR",
        ),
        tf.float64,
    ),
    normal(2, 4, 4, 1),
    single=True,
)
sample(
    "ImageProjectiveTransformV2",
    lambda x: tf.cast(
        raw.ImageProjectiveTransformV2(
            images=tf.cast(x, tf.float32),
            transforms=[[1.0, 0.1, 0.2, 0.1, 0.9, 0.3, 0.0, 0.0]],
            output_shape=[4, 4],
            interpolation="BILINEAR",
        ),
        tf.float64,
    ),
    normal(2, 4, 4, 1),
    single=True,
)
sample("rgb_to_hsv", lambda x: image.rgb_to_hsv(x), uniform(0.2, 0.8, 3, 3))
sample("hsv_to_rgb", lambda x: image.hsv_to_rgb(x), uniform(0.2, 0.8, 3, 3))
sample("rgb_to_yiq", lambda x: image.rgb_to_yiq(x), uniform(0.2, 0.8, 2, 3))
sample("rgb_to_yuv", lambda x: image.rgb_to_yuv(x), uniform(0.2, 0.8, 2, 2, 3))
sample("rgb_to_grayscale", image.rgb_to_grayscale, uniform(0.2, 0.8, 2, 2, 3), single=True)
sample(
    "adjust_contrast",
    lambda x: tf.cast(image.adjust_contrast(x, 2.0), tf.float64),
    uniform(0.2, 0.8, 2, 2, 3),
    single=True,
)
sample("adjust_gamma", lambda x: image.adjust_gamma(x, 2.0), uniform(0.2, 0.8, 2, 2, 3), single=True)
sample("adjust_brightness", lambda x: image.adjust_brightness(x, 0.1), uniform(0.2, 0.8, 2, 2, 3), single=True)
sample(
    "adjust_hue",
    lambda x: tf.cast(image.adjust_hue(tf.cast(x, tf.float32), 0.1), tf.float64),
    distinct(2, 2, 3),
    single=True,
)
sample(
    "adjust_saturation",
    lambda x: tf.cast(image.adjust_saturation(tf.cast(x, tf.float32), 0.7), tf.float64),
    uniform(0.2, 0.8, 2, 2, 3),
    single=True,
)
sample(
    "per_image_standardization",
    lambda x: tf.cast(image.per_image_standardization(x), tf.float64),
    normal(2, 3, 3, 1),
    single=True,
)
sample("total_variation", image.total_variation, distinct(2, 3, 3, 1))
sample("image_gradients", image.image_gradients, normal(2, 3, 3, 1))
sample("sobel_edges", image.sobel_edges, normal(1, 3, 3, 1))
sample(
    "psnr",
    lambda x, y: tf.cast(image.psnr(x, y, 1.0), tf.float64),
    uniform(0, 1, 1, 3, 3, 1),
    uniform(0, 1, 1, 3, 3, 1),
    single=True,
)
sample(
    "ssim",
    lambda x, y: tf.cast(image.ssim(x, y, 1.0, filter_size=3), tf.float64),
    uniform(0, 1, 1, 4, 4, 1),
    uniform(0, 1, 1, 4, 4, 1),
    single=True,
)
sample("flip and rotate", lambda x: [image.flip_left_right(x), image.rot90(x), image.transpose(x)], normal(2, 3, 3, 1))
sample("pad_to_bounding_box", lambda x: image.pad_to_bounding_box(x, 1, 1, 5, 6), normal(2, 3, 3, 1))
sample("central_crop", lambda x: image.central_crop(x, 0.5), normal(2, 4, 4, 1))
sample("resize_with_crop_or_pad", lambda x: image.resize_with_crop_or_pad(x, 2, 6), normal(2, 4, 4, 1))


def _both(z):
    return [tf.math.real(z), tf.math.imag(z)]


for _name in ("fft", "ifft", "fft2d", "ifft2d", "fft3d", "ifft3d"):
    _rank = 1 if _name.endswith("t") else int(_name[-2])
    sample(
        f"signal.{_name}",
        lambda x, y, f=getattr(signal, _name): _both(f(tf.complex(x, y))),
        normal(2, *[2, 3, 2][:_rank]),
        normal(2, *[2, 3, 2][:_rank]),
    )
for _rank in (1, 2, 3):
    for _length in (3, 4):
        _name = "rfft" + ("" if _rank == 1 else f"{_rank}d")
        sample(
            f"signal.{_name} of {_length}",
            lambda x, f=getattr(signal, _name): _both(f(x)),
            normal(2, *[2] * (_rank - 1), _length),
        )
        _parts = [2] * (_rank - 1) + [_length // 2 + 1]
        sample(
            f"signal.i{_name} to {_length}",
            lambda x, y, f=getattr(signal, "i" + _name), n=[2] * (_rank - 1) + [_length]: f(tf.complex(x, y), n),
            normal(2, *_parts),
            normal(2, *_parts),
        )
sample("signal.rfft, longer", lambda x: _both(signal.rfft(x, [6])), normal(2, 4))
sample("signal.rfft, shorter", lambda x: _both(signal.rfft(x, [2])), normal(2, 4))
sample("signal.irfft of rfft", lambda x: signal.irfft(signal.rfft(x) ** 2), normal(2, 4))
sample("signal.fftnd", lambda x, y: _both(signal.fftnd(tf.complex(x, y), axes=[0, 1])), normal(2, 3), normal(2, 3))
sample("signal.rfftnd", lambda x: _both(signal.rfftnd(x)), normal(2, 4))
sample("signal.frame", lambda x: signal.frame(x, 3, 2), normal(2, 7))
sample("signal.frame, padded", lambda x: signal.frame(x, 3, 2, pad_end=True), normal(2, 6))
sample("signal.overlap_and_add", lambda x: signal.overlap_and_add(x, 2), normal(2, 3, 4))
sample("signal.stft", lambda x: _both(signal.stft(x, 4, 2)), normal(2, 8))
sample(
    "signal.inverse_stft", lambda x, y: signal.inverse_stft(tf.complex(x, y), 4, 2), normal(2, 3, 3), normal(2, 3, 3)
)
for _kind in (1, 2, 3, 4):
    sample(f"signal.dct, type {_kind}", lambda x, k=_kind: signal.dct(x, k), normal(2, 4))
    sample(f"signal.idct, type {_kind}", lambda x, k=_kind: signal.idct(x, k), normal(2, 4))
sample("signal.mdct", lambda x: signal.mdct(x, 4), normal(2, 8))
sample("signal.inverse_mdct", lambda x: signal.inverse_mdct(x), normal(2, 3, 2))
sample("signal.mfccs_from_log_mel", signal.mfccs_from_log_mel_spectrograms, normal(2, 4))
