"""Equation (4) of Wang, Wei, Hsu and Lee: the two objectives along the paper's run."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, one_row_per_entry
from separatrix.report.theme import BLUE, ORANGE

_OBJECTIVES = {"mean of the loss": BLUE, "loss of the mean": ORANGE}


@Curves(
    series=[Curve(name, name, colour, mode="lines") for name, colour in _OBJECTIVES.items()],
    x=Axis("step", "step", log=True),
    y=Axis("loss", log=True),
    columns=("step", *_OBJECTIVES),
)
def two_objectives(results: Results) -> Chart:
    """Equation (4): the losses by two objectives during the training run of the paper."""
    result = next(cell.result for cell in results if "mean of the loss" in cell.result)
    run = {"step": result["step"], **{name: result[name]["loss"] for name in _OBJECTIVES}}
    last = [result[name]["last"] for name in _OBJECTIVES]
    return one_row_per_entry([run], *run), (
        "Along the paper's run the mean of the loss over encodings, which training minimises, stays above the loss of "
        f"the mean output; they end at {last[0]:.5f} and {last[1]:.5f}."
    )
