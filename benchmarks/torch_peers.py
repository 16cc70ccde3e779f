"""PyTorch's side of a comparison: the same perceptron, and torch-levenberg-marquardt on it.

PyTorch stands beside TensorFlow in one process where triton, which brings an LLVM of its own, is not installed.
"""

import importlib.util
import warnings

import numpy as np

HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_TORCH_LEVENBERG_MARQUARDT = HAS_TORCH and importlib.util.find_spec("torch_levenberg_marquardt") is not None


def perceptron(model):
    """A `torch.nn.Sequential` with the weights of a Keras model of dense layers, one module a layer, in its dtype."""
    import torch

    modules = []
    for layer in model.layers:
        kernel, bias = np.array(layer.kernel), np.array(layer.bias)
        dense = torch.nn.Linear(*kernel.shape, dtype=torch.from_numpy(kernel).dtype)
        with torch.no_grad():
            dense.weight.copy_(torch.tensor(kernel.T))
            dense.bias.copy_(torch.tensor(bias))
        tail = [torch.nn.Tanh()] if layer.activation.__name__ == "tanh" else []
        modules.append(torch.nn.Sequential(dense, *tail))
    return torch.nn.Sequential(*modules)


def levenberg_marquardt(model, x, y, steps: int):
    """A function that takes so many steps of torch-levenberg-marquardt from the same start, and returns the loss.

    By vmap, its default, and by Cholesky, which its documentation calls fast.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        import torch_levenberg_marquardt as peer
    network = perceptron(model)
    module = peer.training.LevenbergMarquardtModule(network, solve_method="cholesky")
    start = module.flat_params.clone()
    given, wanted = torch.tensor(x.numpy()), torch.tensor(y.numpy())

    def train():
        with torch.no_grad():
            module.flat_params.copy_(start)
        module.backup_parameters()
        module.reset()
        for _ in range(steps):
            _, loss, stop, _ = module.training_step(given, wanted)
            if stop:
                break
        return float(loss)

    return train
