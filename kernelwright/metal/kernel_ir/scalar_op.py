"""What an expression does with its operands: ops of the graph, and those that lowering adds."""

from enum import StrEnum

from kernelwright.ir.graph.dtype import Dtype


class ScalarOp(StrEnum):
    """The ops that passes build or recognise.

    An op of a graph that no pass knows goes by its own name: `Apply.op` is a string, of which these
    are some.
    """

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    NEGATIVE = "negative"
    ABS = "abs"
    SQUARE = "square"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    EXP = "exp"
    LOG = "log"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    SELECT = "select"
    LESS = "less"
    LESS_EQUAL = "less_equal"
    GREATER = "greater"
    GREATER_EQUAL = "greater_equal"
    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    LOGICAL_AND = "logical_and"
    LOGICAL_OR = "logical_or"
    LOGICAL_NOT = "logical_not"
    BITWISE_AND = "bitwise_and"
    BITWISE_OR = "bitwise_or"
    BITWISE_XOR = "bitwise_xor"
    LEFT_SHIFT = "left_shift"
    RIGHT_SHIFT = "right_shift"
    CONVERT = "convert"
    """To the dtype of the expression."""
    BITCAST = "bitcast"
    """The same bits as the dtype of the expression."""
    CUBE = "cube"
    ROUNDED_MULTIPLY = "rounded_multiply"
    """A product that no compiler makes a part of a fused multiply-add."""
    ROUNDED_SQUARE = "rounded_square"
    DIVISOR_SCALE = "divisor_scale"
    """A power of two that brings a divisor near one."""
    DIVIDE_BY_RECIPROCAL = "divide_by_reciprocal"
    """An exact quotient of a dividend, a divisor and the divisor's reciprocal."""
    LOG_OF_SHIFTED_SUM = "log_of_shifted_sum"
    """The logarithm of a sum of exponentials, from their largest exponent and the shifted sum."""
    FROM_END = "from_end"
    """A place in an axis of some extent; a negative one counts from the end."""
    FUNNEL_SHIFT = "funnel_shift"
    """The low word of two words, high and low, moved to the right."""
    POWER_OF_TWO = "power_of_two"
    EIGHT_BIT_FLOAT = "eight_bit_float"


_OPERATORS = frozenset(
    {
        ScalarOp.ADD,
        ScalarOp.SUBTRACT,
        ScalarOp.MULTIPLY,
        ScalarOp.DIVIDE,
        ScalarOp.SQUARE,
        ScalarOp.LESS,
        ScalarOp.LESS_EQUAL,
        ScalarOp.GREATER,
        ScalarOp.GREATER_EQUAL,
        ScalarOp.EQUAL,
        ScalarOp.NOT_EQUAL,
        ScalarOp.LOGICAL_AND,
        ScalarOp.LOGICAL_OR,
        ScalarOp.BITWISE_AND,
        ScalarOp.BITWISE_OR,
        ScalarOp.BITWISE_XOR,
        ScalarOp.LEFT_SHIFT,
        ScalarOp.RIGHT_SHIFT,
    }
)
_PROPAGATING_NAN = frozenset(
    {
        ScalarOp.ADD,
        ScalarOp.SUBTRACT,
        ScalarOp.MULTIPLY,
        ScalarOp.DIVIDE,
        ScalarOp.SQUARE,
        ScalarOp.EXP,
        ScalarOp.LOG,
        ScalarOp.SQRT,
        ScalarOp.RSQRT,
    }
)
_LOGICAL_FORMS = {
    "add": ScalarOp.LOGICAL_OR,
    "maximum": ScalarOp.LOGICAL_OR,
    "multiply": ScalarOp.LOGICAL_AND,
    "minimum": ScalarOp.LOGICAL_AND,
    "bitwise_invert": ScalarOp.LOGICAL_NOT,
}
_WHOLE = frozenset({"floor", "ceil", "round"})


def canonical_op(op: str, operand: Dtype) -> str:
    """Return the op that means the same over operands of a dtype: arithmetic of bools is logic."""
    return _LOGICAL_FORMS.get(op, op) if operand is Dtype.BOOL else op


def is_identity(op: str, operand: Dtype, result: Dtype) -> bool:
    """Say whether an op gives its first operand, whatever that is."""
    if op == ScalarOp.CONVERT:
        return operand is result
    if op == ScalarOp.ABS:
        return operand is Dtype.BOOL or operand.value.startswith("uint")
    if op == ScalarOp.SQUARE:
        return operand is Dtype.BOOL
    return op in _WHOLE and operand.is_integer and operand is not Dtype.BOOL


def is_one_instruction(op: str, result: Dtype) -> bool:
    """Say whether an op costs less to compute again than a register costs to keep its result."""
    return op in _OPERATORS or (op == ScalarOp.CONVERT and result is Dtype.BOOL)


def propagates_nan(op: str) -> bool:
    """Say whether a NaN of any operand is one of the result."""
    return op in _PROPAGATING_NAN
