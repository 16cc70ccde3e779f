"""PyTorch's side of a comparison: the same perceptron, and torch-levenberg-marquardt on it.

PyTorch stands beside TensorFlow in one process where triton, which brings an LLVM of its own, is not installed.
"""

import importlib.util
import warnings

import numpy as np

HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_CAPTUM = HAS_TORCH and importlib.util.find_spec("captum") is not None
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


def explainers(model, layer: str, x, classes, steps: int, threads: int):
    """Captum's integrated gradients, and Grad-CAM at a convolution, of a Keras model: convolutions, means, one dense.

    Args:
        threads: so many threads PyTorch takes; on cores that others use too, one may be faster than all.

    Returns:
        A pair of functions without arguments that return arrays in the layout of Keras.
    """
    import torch
    from captum import attr

    modules, chosen = [], None
    for each in model.layers:
        if each.weights and each.kernel.shape.rank == 4:
            kernel, bias = np.array(each.kernel), np.array(each.bias)
            module = torch.nn.Conv2d(*kernel.shape[2:], kernel.shape[0], padding="same")
            _load(module, kernel.transpose(3, 2, 0, 1), bias)
            modules += [module, torch.nn.ReLU()]
            chosen = modules[-1] if each.name == layer else chosen
        elif each.weights:
            modules += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(*each.kernel.shape)]
            _load(modules[-1], np.array(each.kernel).T, np.array(each.bias))
    network = torch.nn.Sequential(*modules)
    given, target = torch.tensor(np.transpose(x, (0, 3, 1, 2)).copy()), torch.tensor(classes)
    integrated, cam = attr.IntegratedGradients(network), attr.LayerGradCam(network, chosen)

    def by_integration():
        torch.set_num_threads(threads)
        found = integrated.attribute(given, target=target, n_steps=steps, internal_batch_size=64)
        return found.detach().numpy().transpose(0, 2, 3, 1)

    def by_maps():
        torch.set_num_threads(threads)
        return cam.attribute(given, target, relu_attributions=True).detach().numpy()[:, 0]

    return by_integration, by_maps


def _load(module, weight, bias):
    import torch

    module.load_state_dict({"weight": torch.tensor(weight.copy()), "bias": torch.tensor(bias)})


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
