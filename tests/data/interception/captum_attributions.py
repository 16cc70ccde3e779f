"""What PyTorch and Captum say of small networks: integrated gradients, Grad-CAM, DeepLIFT, LRP and their kin.

Run once, `python captum_attributions.py`, with PyTorch 2.14.1 and Captum 0.9.0 on a CPU; neither is a dependency of
the tests. It writes `captum_attributions.npz` beside itself: weights and examples in the layout of Keras (images
channels last, kernels `[height, width, in, out]`), and what was found, in that layout, in float64.

Captum refuses a module that is used twice, so that PyTorch's networks have a module for each use; where Keras has one
layer for both, the functions are the same.
"""

import pathlib

import numpy as np
import torch
from captum import attr
from captum.attr._utils.lrp_rules import EpsilonRule, GammaRule
from torch import nn

EXAMPLES, CLASSES = 4, 3
STEPS, SAMPLES, NOISE = 50, 3, 0.15
RULES = {"epsilon": EpsilonRule, "epsilon_0.3": lambda: EpsilonRule(0.3), "gamma": lambda: GammaRule(0.25)}


class DenseNetwork(nn.Module):
    """Two hidden layers with the same activation."""

    def __init__(self, weights, activation):
        super().__init__()
        self.first, self.second, self.head = (dense(weights, name) for name in ("first", "second", "head"))
        self.act_0, self.act_1 = activation(), activation()

    def forward(self, x):
        return self.head(self.act_1(self.second(self.act_0(self.first(x)))))


class ConvolutionalNetwork(nn.Module):
    """Two convolutions with ReLU, and means of two by two pixels between them."""

    def __init__(self, weights):
        super().__init__()
        self.first, self.second, self.head = (make(weights, name) for make, name in zip((conv, conv, dense), NAMES))
        self.act_0, self.act_1, self.pool = nn.ReLU(), nn.ReLU(), nn.AvgPool2d(2)

    def forward(self, x):
        return self.head(flat(self.act_1(self.second(self.pool(self.act_0(self.first(x)))))))


class PoolingNetwork(nn.Module):
    """A convolution with ReLU, and one with the largest of two by two pixels.

    With ReLU beside the pooling, Captum's attributions do not add up to the change of the score: its own convergence
    delta is as large as the change.
    """

    def __init__(self, weights):
        super().__init__()
        self.first, self.second, self.head = (make(weights, name) for make, name in zip((conv, conv, dense), NAMES))
        self.act_0, self.pool = nn.ReLU(), nn.MaxPool2d(2)

    def forward(self, x):
        return self.head(flat(self.pool(self.second(self.act_0(self.first(x))))))


class TokenNetwork(nn.Module):
    """The mean of embeddings, with tanh, and a head."""

    def __init__(self, weights):
        super().__init__()
        table = torch.tensor(weights["embedding/kernel"])
        self.embedding = nn.Embedding.from_pretrained(table)
        self.first, self.head = dense(weights, "first"), dense(weights, "head")

    def forward(self, tokens):
        return self.head(torch.tanh(self.first(torch.tanh(self.embedding(tokens)).mean(1))))


def flat(x):
    """In the order of Keras."""
    return x.permute(0, 2, 3, 1).flatten(1)


NAMES = ("first", "second", "head")
DENSE = {"first": (6, 8), "second": (8, 8), "head": (8, CLASSES)}
CONVOLUTIONAL = {"first": (3, 3, 2, 4), "second": (3, 3, 4, 5), "head": (45, CLASSES)}
POOLING = CONVOLUTIONAL | {"head": (80, CLASSES)}
TOKENS = {"embedding": (9, 4), "first": (4, 5), "head": (5, CLASSES)}


def dense(weights, name):
    kernel, bias = weights[f"{name}/kernel"], weights[f"{name}/bias"]
    return loaded(nn.Linear(*kernel.shape), kernel.T, bias)


def conv(weights, name):
    kernel, bias = weights[f"{name}/kernel"], weights[f"{name}/bias"]
    return loaded(nn.Conv2d(*kernel.shape[2:], 3), kernel.transpose(3, 2, 0, 1), bias)


def loaded(layer, kernel, bias):
    layer.double().load_state_dict({"weight": torch.tensor(kernel.copy()), "bias": torch.tensor(bias)})
    return layer


def draw(shapes, rng):
    """Weights of every layer by name."""
    drawn = {}
    for name, shape in shapes.items():
        drawn[f"{name}/kernel"] = rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))
        drawn[f"{name}/bias"] = rng.normal(0, 0.3, shape[-1])
    return drawn


def channels_first(x):
    return torch.tensor(x.transpose(0, 3, 1, 2) if x.ndim == 4 else x)


def channels_last(x):
    x = x.detach().numpy()
    return x.transpose(0, 2, 3, 1) if x.ndim == 4 else x


def explained(model, x, reference, target):
    """All attributions of the scores of the target classes."""
    inputs, references, target = channels_first(x), channels_first(reference), torch.tensor(target)
    found = {"scores": model(inputs), "guided": attr.GuidedBackprop(model).attribute(inputs.clone(), target)}
    found["deep_lift"], gap = attr.DeepLift(model).attribute(inputs, references, target, return_convergence_delta=True)
    assert gap.abs().max() < 1e-12
    for name in (name for name in ("act_0", "act_1") if hasattr(model, name)):
        layer = getattr(model, name)
        found[f"{name}/gradient_x_activation"] = attr.LayerGradientXActivation(model, layer).attribute(inputs, target)
        if inputs.ndim == 4:
            found[f"{name}/grad_cam"] = attr.LayerGradCam(model, layer).attribute(inputs, target)
    integrated = attr.IntegratedGradients(model)
    found["integrated"] = integrated.attribute(inputs, references, target, n_steps=STEPS)
    found["smooth"] = smooth(model, x, target)
    if not isinstance(getattr(model, "act_0", None), nn.Sigmoid):  # for which Captum has no rule
        found |= {f"lrp/{name}": lrp(model, inputs, target, rule) for name, rule in RULES.items()}
    return {name: channels_last(value) for name, value in found.items()}


def gradient_shap(model, x, background, target):
    """Expected gradients by very many samples."""
    np.random.seed(0)  # noqa: NPY002  Captum draws from it
    torch.manual_seed(0)
    return attr.GradientShap(model).attribute(x, background, n_samples=20000, target=target)


def smooth(model, x, target):
    """The mean gradient at copies with noise, in the range of each example."""
    rng, axes = np.random.default_rng(0), tuple(range(1, x.ndim))
    deviation = NOISE * np.ptp(x, axis=axes, keepdims=True)
    copies = [channels_first(x + deviation * rng.normal(size=x.shape)) for _ in range(SAMPLES)]
    gradients = [attr.Saliency(model).attribute(copy.requires_grad_(), target, abs=False) for copy in copies]
    return torch.stack(gradients).mean(0)


def lrp(model, inputs, target, rule):
    """Relevance, by the rule where weights are, and plainly where is a mean or the largest of several."""
    for layer in model.children():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            layer.rule = rule()
        elif hasattr(layer, "rule"):
            del layer.rule
    return attr.LRP(model).attribute(inputs.clone().requires_grad_(), target)


def explained_tokens(model, tokens, reference, target):
    """Integrated gradients by the embedding, for each token."""
    explainer = attr.LayerIntegratedGradients(model, model.embedding)
    tokens, reference, target = map(torch.tensor, (tokens, reference, target))
    attributions = explainer.attribute(tokens, reference, target, n_steps=STEPS)
    return {"scores": model(tokens).detach().numpy(), "integrated": attributions.sum(-1).detach().numpy()}


def main():
    rng = np.random.default_rng(0)
    images, rows = rng.normal(size=(2, EXAMPLES, 12, 12, 2)), rng.normal(size=(2, EXAMPLES, 6))
    examples = {"mlp": rows, "cnn": images, "pooling": images}
    weights = {"mlp": draw(DENSE, rng), "cnn": draw(CONVOLUTIONAL, rng), "pooling": draw(POOLING, rng)}
    models = {f"mlp/{f.__name__.lower()}": DenseNetwork(weights["mlp"], f) for f in (nn.ReLU, nn.Sigmoid, nn.Tanh)}
    models["cnn/relu"] = ConvolutionalNetwork(weights["cnn"])
    models["pooling/relu"] = PoolingNetwork(weights["pooling"])
    values = {"target": rng.integers(0, CLASSES, EXAMPLES)}
    for kind, (x, reference) in examples.items():
        values |= {f"{kind}/x": x, f"{kind}/reference": reference}
        values |= {f"{kind}/{name}": value for name, value in weights[kind].items()}
    for name, model in models.items():
        x, reference = examples[name.split("/")[0]]
        found = explained(model, x, reference, values["target"])
        if name == "mlp/tanh":
            given = map(torch.tensor, (x, reference, values["target"]))
            found["gradient_shap"] = channels_last(gradient_shap(model, *given))
        values |= {f"{name}/{key}": value for key, value in found.items()}
    values |= token_values(rng, values["target"])
    np.savez_compressed(pathlib.Path(__file__).with_suffix(".npz"), **values)


def token_values(rng, target):
    """Tokens, weights, and what was found."""
    (tokens, reference), weights = rng.integers(0, 9, (2, EXAMPLES, 6)), draw(TOKENS, rng)
    found = {"x": tokens, "reference": reference, **weights}
    found |= explained_tokens(TokenNetwork(weights), tokens, reference, target)
    return {f"tokens/{name}": value for name, value in found.items()}


if __name__ == "__main__":
    main()
