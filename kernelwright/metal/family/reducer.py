"""How the elements of rows are joined, for each op that reduces them: one line an op."""

from kernelwright.metal.kernel_ir.expression import Reducer

REDUCERS = {
    "sum": Reducer.SUM,
    "prod": Reducer.PRODUCT,
    "max": Reducer.MAXIMUM,
    "min": Reducer.MINIMUM,
    "all": Reducer.ALL,
    "any": Reducer.ANY,
}
"""Of ops that reduce results of parts of a row as they do its elements."""
PLACES = {"argmax": Reducer.ARGMAX, "argmin": Reducer.ARGMIN}
"""Of ops that say where an element stands."""
