"""What Captum says of small networks by features that are hidden, by gradient SHAP, by metrics, and of concepts.

Run once, `python captum_shapley.py`, with PyTorch 2.14.1 and Captum 0.9.0 on a CPU; neither is a dependency of the
tests. It reads weights and examples from `../interception/captum_attributions.npz`, and writes `captum_shapley.npz`
beside itself, in the layout of Keras and in float64. Captum rounds what it hides to float32 in places.
"""

import pathlib
import sys

import numpy as np
import torch
from captum import attr, metrics

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "interception"))

from captum_attributions import ConvolutionalNetwork, DenseNetwork, channels_first, channels_last  # noqa: E402

GROUPS = np.array([0, 0, 1, 2, 2, 3])
PATCHES = np.kron(np.arange(4).reshape(2, 2), np.ones((6, 6), int))
SEED, SAMPLES = 0, 20000


def hidden(model, x, reference, target, mask):
    """Ablation and exact Shapley values of groups of elements."""
    options = {"baselines": reference, "target": target, "feature_mask": mask}
    exact = attr.ShapleyValues(model).attribute(x, **options)
    torch.manual_seed(SEED)
    kernel = attr.KernelShap(model).attribute(x, n_samples=2000, **options)
    return {
        "ablation": attr.FeatureAblation(model).attribute(x, **options),
        "shapley": exact,
        "kernel_shap": kernel,
    }


def gradient_shap(model, x, background, target):
    """Expected gradients by very many samples."""
    np.random.seed(SEED)  # noqa: NPY002  Captum draws from it
    torch.manual_seed(SEED)
    return attr.GradientShap(model).attribute(x, background, n_samples=SAMPLES, target=target)


def judged(model, x, attributions, target):
    """Infidelity of contributions for given noise, and the largest change of gradients among given moves."""
    rng = np.random.default_rng(SEED)
    noise = [torch.tensor(0.1 * rng.normal(size=x.shape)) for _ in range(50)]
    left = iter(noise)

    @metrics.infidelity_perturb_func_decorator(True)
    def perturb(inputs, baselines=None):
        return inputs - next(left)

    found = metrics.infidelity(model, perturb, x, attributions, target=target, n_perturb_samples=50,
                               max_examples_per_batch=len(x))  # fmt: skip
    rng = np.random.default_rng(SEED)
    moves = iter([torch.tensor(rng.uniform(-0.02, 0.02, x.shape)) for _ in range(10)])

    def explain(inputs, **_):
        return attr.IntegratedGradients(model).attribute(inputs, target=target)

    changed = metrics.sensitivity_max(explain, x, lambda inputs, _: inputs + next(moves), n_perturb_samples=10,
                                      max_examples_per_batch=len(x))  # fmt: skip
    return {"infidelity": found, "sensitivity_max": changed}


def main():
    given = dict(np.load(HERE.parent / "interception" / "captum_attributions.npz"))
    target, values = torch.tensor(given["target"]), {}
    for name, make, groups in ("mlp/tanh", DenseNetwork, GROUPS), ("cnn/relu", ConvolutionalNetwork, PATCHES):
        kind = name.split("/")[0]
        weights = {key.removeprefix(f"{kind}/"): value for key, value in given.items()}
        model = make(weights, torch.nn.Tanh) if kind == "mlp" else make(weights)
        x, reference = channels_first(given[f"{kind}/x"]), channels_first(given[f"{kind}/reference"])
        mask = torch.tensor(groups)[None] if kind == "mlp" else torch.tensor(groups)[None, None]
        found = hidden(model, x, reference, target, mask)
        if kind == "mlp":
            single = hidden(model, x, reference, target, None)
            found |= {f"single/{key}": value for key, value in single.items()}
            found["gradient_shap"] = gradient_shap(model, x, reference, target)
            integrated = attr.IntegratedGradients(model).attribute(x, target=target)
            found |= {"integrated": integrated, **judged(model, x, integrated, target)}
        values |= {f"{name}/{key}": channels_last(value) for key, value in found.items()}
    values |= {"mlp/groups": GROUPS, "cnn/groups": PATCHES}
    np.savez_compressed(HERE / "captum_shapley.npz", **values)


if __name__ == "__main__":
    main()
