"""Pictures of fits of named parameters: the curve, its parts, and the residuals below."""


def drawn_fit(fit, curve, axes, level, points, residuals, components, x):
    """Draw a `NamedFit`; arguments and what is returned as of `NamedFit.plot`, and `curve` its `CurveFitResult`."""
    has_panel = axes is None if residuals is None else bool(residuals)
    if has_panel and axes is not None:
        raise ValueError("The residuals are a panel of a new figure: leave axes out, or residuals. Received: both")
    panel = None
    if has_panel:
        import matplotlib.pyplot as plt

        sizes = {"height_ratios": [3, 1]}
        _, (axes, panel) = plt.subplots(2, 1, sharex=True, gridspec_kw=sizes, figsize=(8, 6), layout="constrained")
    axes = curve.plot(axes, level, points, x)
    if components and len(getattr(fit._f, "parts", list)()) > 1:
        grid = axes.lines[-1].get_xdata()
        for number, (title, values) in enumerate(fit.components(grid).items(), start=1):
            axes.plot(grid, values, "--", lw=1, color=f"C{number % 10}", label=title, zorder=2)
        axes.legend()
    if panel is not None:
        panel.axhline(0, color="C0", lw=1)
        panel.plot(curve.xdata, fit.residuals(), "o", color="black", markersize=3)
        panel.set(xlabel=axes.get_xlabel(), ylabel="residuals")
        axes.set_xlabel("")
    return axes
