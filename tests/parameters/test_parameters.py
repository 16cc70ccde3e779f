"""Parameters by name: what may be said of them, expressions, ties, and how all of it is written down."""

import copy
import math

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.parameters.expressions import parsed

pytestmark = pytest.mark.core

VALUES = {"a": 0.3, "b": -1.7, "c2": 2.5}

TEXTS = {
    "0.5*a + b/c2 - 3": lambda a, b, c2: 0.5 * a + b / c2 - 3,
    "-a**2 + +b": lambda a, b, c2: -(a**2) + b,
    "2**-a": lambda a, b, c2: 2**-a,
    "sqrt(abs(b)) * exp(-a) * log(c2)": lambda a, b, c2: math.sqrt(abs(b)) * math.exp(-a) * math.log(c2),
    "sin(a) + cos(b) + tan(a) + arctan2(a, b)": lambda a, b, c2: (
        math.sin(a) + math.cos(b) + math.tan(a) + math.atan2(a, b)
    ),
    "min(a, b, c2) + max(a, b) * pi + e": lambda a, b, c2: b + a * math.pi + math.e,
    "a if b > c2 else c2": lambda a, b, c2: c2,
    "where(b < a <= 0.3 and not c2 < 0, 1, 2)": lambda a, b, c2: 1.0,
    "hypot(a, b) + erf(a) + gamma(c2) + sign(b)": lambda a, b, c2: math.hypot(a, b) + math.erf(a) + math.gamma(c2) - 1,
    "gamma(-a) + gamma(-c2 - 1.4) + gamma(a)": lambda a, b, c2: math.gamma(-a) + math.gamma(-c2 - 1.4) + math.gamma(a),
    "asin(a) + acos(a) + sinh(b) + arctanh(a) + log1p(a)": lambda a, b, c2: (
        math.asin(a) + math.acos(a) + math.sinh(b) + math.atanh(a) + math.log1p(a)
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_expressions_are_what_python_makes_of_them(text):
    params = tfjac.Parameters(VALUES, tied=text)
    np.testing.assert_allclose(params["tied"].value, TEXTS[text](**VALUES), rtol=1e-14)


@pytest.mark.parametrize("text", list(TEXTS)[:5])
def test_expressions_have_derivatives(text):
    tensors = {name: tf.constant(value, tf.float64) for name, value in VALUES.items()}
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = parsed(text).function(tensors)
    for name, slope in tape.gradient(value, tensors).items():
        if slope is not None:
            moved = [TEXTS[text](**(VALUES | {name: VALUES[name] + step})) for step in (1e-6, -1e-6)]
            np.testing.assert_allclose(slope, (moved[0] - moved[1]) / 2e-6, rtol=1e-7)


HARMFUL = {
    "__import__('os').system('true')": r"the function .*__import__\('os'\).system.* at position 0",
    "a.__class__": r"'a.__class__' at position 0",
    "open('x')": r"the function 'open' at position 0",
    "[a for a in b]": r"at position 0",
    "a[0]": r"'a\[0\]' at position 0",
    "1 + (lambda: 1)()": r"at position 4",
    "'text'": r"'text' at position 0",
    "a if b else c2": r"'b' where a comparison, a < b, should be, at position 5",
    "a == b": r"'a == b' at position 0",
    "f'{a}'": r"at position 0",
    "a @ b": r"'a @ b' at position 0",
    "~a": r"'~a' at position 0",
    "True": r"True at position 0",
    "1e3j": r"at position 0",
    "exp(a, b)": r"2 arguments of exp, which takes 1 at position 0",
    "max(a)": r"1 arguments of max, which takes 2 or more at position 0",
    "exp(x=a)": r"arguments that are not numbers",
    "2 * sqr(a)": r"the function 'sqr' \(Did you mean 'sqrt'\?\) at position 4",
    "(a +": r"no expression.*Received: '\(a \+', which goes wrong at",
    "a; b": r"no expression",
    "x := 1": r"no expression",
    "": r"no expression",
    "+" * 1999 + "a": r"no expression|nested too deeply",
    "a" * 3000: r"at most 2000 characters",
}


@pytest.mark.parametrize("text", HARMFUL)
def test_what_is_no_arithmetic_is_refused_with_its_position(text):
    with pytest.raises(ValueError, match=HARMFUL[text]):
        tfjac.Parameters(a=1.0, b=2.0, c2=3.0, tied={"expr": text})


def test_a_chain_of_ties_in_any_order():
    params = tfjac.Parameters(d="c + 1", c="2*b", b="a**2", a=3.0)
    assert params.valuesdict() == {"d": 19.0, "c": 18.0, "b": 9.0, "a": 3.0}
    params["a"].value = 2.0
    assert params["d"].value == 9.0
    params["b"].set(expr=None, value=1.0)
    assert params["d"].value == 3.0


def test_ties_that_lead_nowhere():
    params = tfjac.Parameters(a="b + 1", b="2*c", c="a - 1", d=1.0)
    with pytest.raises(ValueError, match=r"Ties lead back.*Received: a → b → c → a$"):
        params.valuesdict()
    with pytest.raises(ValueError, match=r"Received: a → a$"):
        tfjac.Parameters(a="a + 1").valuesdict()
    unknown = tfjac.Parameters(amplitude1=1.0, b="0.5*amplitud1")
    with pytest.raises(ValueError, match=r"Did you mean 'amplitude1'\?.*'amplitud1' at position 4; parameters"):
        unknown.valuesdict()


def test_a_function_of_python_as_a_tie():
    params = tfjac.Parameters(a=2.0, b=lambda a: tf.exp(a) + 1.0, c=lambda a, b: a * b)
    np.testing.assert_allclose(params["c"].value, 2 * (math.exp(2) + 1))
    with pytest.raises(ValueError, match=r"whose arguments have the names of parameters.*Received: expr="):
        tfjac.Parameters(a=1.0, b=lambda *all: all[0])
    with pytest.raises(ValueError, match=r"a function with 'z' at position 0"):
        tfjac.Parameters(a=1.0, b=lambda z: z).valuesdict()
    with pytest.raises(TypeError, match=r"cannot be written down.*'b'"):
        params.to_json()


def test_what_is_said_is_kept_through_json_and_copies():
    params = tfjac.Parameters({"a": {"value": 1.5, "min": 0, "unit": "mm"}, "b": "2*a", "c": 3})
    params.add("d", 0.2, -1, 1, vary=False, prior=(0.0, 0.5))
    for other in (tfjac.Parameters.from_json(params.to_json()), params.copy(), copy.deepcopy(params)):
        assert repr(other) == repr(params)
        assert {name: each.fields() for name, each in other.items()} == {n: p.fields() for n, p in params.items()}
        other["a"].value = 2.0
        assert params["b"].value == 3.0 and other["b"].value == 4.0
    with pytest.raises(ValueError, match="at position"):
        tfjac.Parameters.from_json('{"a": {"expr": "__import__(\'os\')"}}')
    with pytest.raises(ValueError, match=r"not what Parameters.to_json wrote"):
        tfjac.Parameters.from_json("[1, 2]")
    with pytest.raises(TypeError):
        tfjac.Parameters.from_json('{"a": {"evil": 1}}')


def test_a_mapping():
    params = tfjac.Parameters(a=1.0)
    params["b"] = 2
    params["c"] = "a + b"
    assert list(params) == ["a", "b", "c"] and len(params) == 3 and "b" in params and "z" not in params
    assert params["c"].value == 3.0
    del params["c"], params["b"]
    joined = params + tfjac.Parameters(z=5.0)
    assert joined.valuesdict() == {"a": 1.0, "z": 5.0} and list(params) == ["a"]
    with pytest.raises(KeyError, match=r"Did you mean 'alpha'\?.*'alhpa'"):
        tfjac.Parameters(alpha=1.0)["alhpa"]


def test_the_table():
    text = repr(tfjac.Parameters(width={"value": 1.25, "min": 0, "unit": "nm"}, height="2*width"))
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["name", "value", "unit", "min", "max", "vary", "tie", "or", "prior"]
    assert lines[1] == ["width", "1.25", "nm", "0", "inf", "True"]
    assert lines[2] == ["height", "2.5", "-inf", "inf", "False", "=", "2*width"]
    assert "<pre>" in tfjac.Parameters(a=1.0)._repr_html_()
    assert "no value" in repr(tfjac.Parameters(a=None)) and "none yet" in repr(tfjac.Parameters())


REFUSED = {
    "a value outside": (
        lambda: tfjac.Parameters(a={"value": 3.0, "max": 2.0}),
        r"'a' must be within its bounds.*3, min",
    ),
    "bounds that cross": (
        lambda: tfjac.Parameters(a={"value": 1, "min": 2, "max": 0}),
        r"min must be at most max.*'a'",
    ),
    "a tie with bounds": (lambda: tfjac.Parameters(a=1.0, b={"expr": "a", "min": 0}), r"tied parameter.*'b'.*bounds"),
    "a tie with a prior": (lambda: tfjac.Parameters(a=1.0, b={"expr": "a", "prior": (0, 1)}), r"'b'.*and a prior"),
    "a prior of no width": (lambda: tfjac.Parameters(a={"value": 1, "prior": (0, 0)}), r"deviation positive.*'a'"),
    "a prior that is none": (lambda: tfjac.Parameters(a={"value": 1, "prior": 3}), r"A prior is a pair.*'a'"),
    "no name": (lambda: tfjac.Parameters({"my width": 1.0}), r"a word of Python.*'my width'"),
    "a keyword": (lambda: tfjac.Parameters({"lambda": 1.0}), r"a word of Python.*'lambda'"),
    "the name of a constant": (lambda: tfjac.Parameters({"pi": 1.0}), r"pi is a number in expressions.*'pi_1'"),
    "a tie of a vector": (
        lambda: tfjac.Parameters(a=1.0, b=lambda a: tf.stack([a, a])).valuesdict(),
        r"a tie of a that returns the shape \(2,\)",
    ),
    "NaN": (lambda: tfjac.Parameters(a=math.nan), r"value of 'a' must be a number. Received: NaN"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_together_is_refused_by_name(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_the_value_of_a_tied_parameter_is_not_set():
    params = tfjac.Parameters(a=1.0, b="2*a")
    with pytest.raises(ValueError, match=r"'b' is tied"):
        params["b"].value = 3.0
    with pytest.raises(TypeError, match=r"must be a number; a tie is expr="):
        params["a"].value = "2*b"
    with pytest.raises(TypeError, match=r"A parameter has value, min.*vari=False"):
        params["a"].set(vari=False)


def test_names_are_read_as_python_reads_them():
    """The sign of a unit, µ, is another character than the letter μ, which Python makes of it in a program."""
    params = tfjac.Parameters({"\u00b5": 1.0, "s": 0.0, "twice": "2*\u00b5"})
    assert "\u00b5" in params and params["\u00b5"] is params["\u03bc"]
    x = np.linspace(0.0, 1.0, 9)
    fit = tfjac.curve_fit(lambda x, µ, s: µ * x + s, x, 2 * x + 1, p0=params)
    np.testing.assert_allclose([fit.values["\u03bc"], fit.values["twice"]], [2.0, 4.0])
    del params["\u00b5"]
    assert list(params) == ["s", "twice"]


def test_a_misspelt_key_is_said_with_its_parameter():
    for given in ({"value": 1.0, "mn": 0.0}, {"vlaue": 1.0}):
        with pytest.raises(TypeError, match=r"Did you mean '(min|value)'\? Received: 'width' with (mn|vlaue)="):
            tfjac.Parameters(height=1.0, width=given)
    with pytest.raises(TypeError, match=r"Did you mean 'max'\? Received: 'width' with mx=2"):
        tfjac.Parameters(width=1.0)["width"].set(mx=2)
    with pytest.raises(TypeError, match=r"Received: 'amplitude' with vlue=2"):
        tfjac.models.gaussian().parameters(amplitude={"vlue": 2.0})
