"""How far long calls have come: a line on a terminal after a while, and nothing in logs."""

import io
import re
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac import models, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "IN_LOGS", 0.01)
    monkeypatch.setattr(progress, "_EACH", 0.01)


def shown_by(call, monkeypatch, stream):
    monkeypatch.setattr("sys.stderr", stream)
    call()
    return stream.getvalue()


def seen(text):
    """What stands in the last line of a terminal, and all lines that stood there."""
    lines = text.split("\r")
    return lines[-1], [line.rstrip() for line in lines if line.strip()]


def waited():
    with progress.shown("call") as told:
        told.at(3, 8, of="fits", cost=0.25)
        time.sleep(0.1)


def test_a_line_on_a_terminal_is_wiped(at_once, monkeypatch):
    last, lines = seen(shown_by(waited, monkeypatch, Terminal()))
    assert last == "" and lines[0] == "call: 0 s, 3 of 8 fits, cost 0.25"


def test_a_notebook_is_as_a_terminal(at_once, monkeypatch):
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    last, lines = seen(shown_by(waited, monkeypatch, stream))
    assert last == "" and lines[0] == "call: 0 s, 3 of 8 fits, cost 0.25"


def test_nothing_in_logs(at_once, monkeypatch):
    assert shown_by(waited, monkeypatch, io.StringIO()) == ""


def test_nothing_for_short_calls(monkeypatch):
    assert shown_by(waited, monkeypatch, Terminal()) == ""


def test_errors_leave_no_line_and_no_thread(at_once, monkeypatch):
    def failing():
        with pytest.raises(ZeroDivisionError), progress.shown("call"):
            time.sleep(0.05)
            raise ZeroDivisionError

    assert seen(shown_by(failing, monkeypatch, Terminal()))[0] == ""
    assert seen(shown_by(waited, monkeypatch, Terminal()))[1]  # the next call has its turn


def test_the_outermost_of_nested_calls_has_the_line(at_once, monkeypatch):
    def nested():
        with progress.shown("outer"):
            waited()

    lines = seen(shown_by(nested, monkeypatch, Terminal()))[1]
    assert lines and all(line.startswith("outer") for line in lines)


def test_a_stream_that_is_closed_or_missing_does_not_matter(at_once, monkeypatch):
    for stream in (None, Terminal()):
        if stream is not None:
            stream.close()
        monkeypatch.setattr("sys.stderr", stream)
        waited()


X = np.linspace(-1.0, 1.0, 40)


def _fitted():
    return models.gaussian().fit(X, np.exp(-(X**2) / 0.1) + 0.01 * np.cos(50 * X))


def slow():
    time.sleep(0.05)  # while it is traced
    return tf.square(slow.at)


slow.at = tf.Variable([3.0, 1.0], dtype=tf.float64)


def line(x, a):
    time.sleep(0.05)
    return a * x


CALLS = {
    "least_squares": lambda: tfjac.least_squares(slow, slow.at),
    "curve_fit": lambda: tfjac.curve_fit(line, X, 2 * X, p0=[1.0]),
    "sparsity": lambda: tfjac.sparsity(slow, slow.at),
    "bootstrap": lambda: _fitted().bootstrap(20),
    "conf_interval": lambda: _fitted().conf_interval(),
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", CALLS)
def test_public_calls_show_one_on_a_terminal_and_none_in_logs(name, at_once, monkeypatch):
    last, lines = seen(shown_by(CALLS[name], monkeypatch, Terminal()))
    assert last == "" and any(name in line for line in lines)
    assert shown_by(CALLS[name], monkeypatch, io.StringIO()) == ""


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_the_line_of_fit(stream, at_once, monkeypatch, capsys):
    def trained(**options):
        model = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
        tfjac.fit(model, X[:, None], np.sin(3 * X)[:, None], max_steps=20, **options)

    text = shown_by(trained, monkeypatch, stream())
    assert "s, tracing the step, once" in text and "epochs, loss" in text
    assert shown_by(lambda: trained(verbose=0), monkeypatch, stream()) == ""
    assert capsys.readouterr().out == ""
    trained(verbose=2)
    assert "Epoch 1/2" in capsys.readouterr().out


def trained(loss="mse", verbose=2, **options):
    """A model of three weights, after two epochs of batches of 12, 12 and 8."""
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, "tanh"), keras.layers.Dense(1, use_bias=False)])
    model.compile(optimizer=tfjac.LevenbergMarquardt(), loss=loss, **options)
    model.fit(X[:32, None], np.sin(3 * X[:32, None]), batch_size=12, epochs=2, verbose=verbose)
    return model


LINE = r"tfjac: tracing the step, once \.\.\. \d+\.\d s\n"


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}, {"steps_per_execution": 3}], ids=str)
def test_the_first_epoch_of_fit_says_what_it_does(options, capsys):
    trained(**options)
    out = capsys.readouterr().out
    assert re.match(rf"Epoch 1/2\n{LINE}3/3 - ", out) and out.count("tracing") == 1


def test_that_line_of_a_bar(capsys):
    model = trained(verbose=1)
    assert re.match(rf"Epoch 1/2\n{LINE}.*━", capsys.readouterr().out, re.DOTALL)
    model.fit(X[:, None], X[:, None], epochs=1, verbose=1)
    assert "tracing" not in capsys.readouterr().out  # it is another batch size, and another trace


def test_that_line_ends_where_the_trace_fails(capsys):
    with pytest.raises(ValueError, match="squares"):
        trained(loss="mae")
    assert capsys.readouterr().out.endswith("tfjac: tracing the step, once ... \n")


def test_no_such_line_where_epochs_are_not_shown(capsys):
    trained(verbose=0)
    keras.config.disable_interactive_logging()
    try:
        trained()
    finally:
        keras.config.enable_interactive_logging()
    model = trained(verbose=0)
    optimizer = tfjac.LevenbergMarquardt()
    optimizer.minimize(lambda: model(X[:, None]) - 1.0, model.trainable_variables)
    assert capsys.readouterr().out == ""
