"""What straight text of numbers and pointers says, computed in Python: no loops, no branches, nothing read from memory."""

import operator
import re

_BINARY = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.divui": operator.floordiv,
    "arith.ceildivsi": lambda one, other: -(-one // other),
    "arith.divsi": lambda one, other: int(one / other),
    "arith.remui": operator.mod,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.minui": min,
    "arith.andi": operator.and_,
    "arith.cmpi slt": operator.lt,
    "arith.cmpi sgt": operator.gt,
    "arith.cmpi sge": operator.ge,
    "arith.cmpi eq": operator.eq,
}
_BYTES = {"f32": 4, "i32": 4, "i8": 1}


def computed(lines, **values):
    """``values`` and those that ``lines`` add, by their names; and the addresses that these ask for, in their order."""
    asked = []
    for line in lines:
        if "prefetch" in line:
            asked.append(values[re.search(r"\(%(\w+)\)", line)[1]])
            continue
        name, operation, rest = re.match(r"%(\w+) = (arith\.cmpi \w+|[\w.]+),? ?(.*)$", line).groups()
        operands = [values[operand] for operand in re.findall(r"%([\w#]+)", rest)]
        if operation == "arith.constant":
            values[name] = int(rest.split()[0])
        elif operation == "llvm.ptrtoint":
            (values[name],) = operands
        elif operation == "arith.select":
            condition, one, other = operands
            values[name] = one if condition else other
        elif operation == "llvm.getelementptr":
            index, type_ = re.match(r"%\w+\[(%?\w+)\].*, (\w+)$", rest).groups()
            base, *by = operands
            values[name] = base + (by[0] if by else int(index)) * _BYTES[type_]
        else:
            values[name] = _BINARY[operation](*operands)
    return values, asked
