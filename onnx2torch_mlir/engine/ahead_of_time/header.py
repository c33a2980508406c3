"""The C header of a compiled model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from onnx2torch_mlir.engine.ahead_of_time.interface import (
    BAD_ARGUMENT,
    BAD_FILE,
    BAD_PROCESSOR,
    ELEMENT_TYPES,
    ERROR_BYTES,
    ERROR_TEXT,
    MAX_RANK,
    NO_MEMORY,
    REQUIREMENT,
    CValue,
    Interface,
)

_COMMON = f"""\
#ifndef O2M_TENSOR
#define O2M_TENSOR 1 /* the version of these structures; models of one version share them */

#define O2M_MAX_RANK {MAX_RANK}

/* A dense array, row by row. A caller fills in inputs up to the shape; for the element types see O2M_... below. */
typedef struct o2m_tensor {{
  void *data; /* an input is only read; it begins at a multiple of its element's size (8 for larger ones) */
  int32_t dtype;
  int32_t rank;
  int64_t shape[O2M_MAX_RANK];
  void *memory; /* of an output: what is given back when it is freed */
}} o2m_tensor;

typedef struct o2m_error {{
  int32_t code; /* 0, or one of O2M_ERROR_... */
  char text[{ERROR_BYTES - ERROR_TEXT}]; /* what is wrong, in English */
}} o2m_error;

#define O2M_ERROR_ARGUMENT {BAD_ARGUMENT} /* an argument, or the type or size of an input */
#define O2M_ERROR_REQUIREMENT {REQUIREMENT} /* sizes or values contradict what the model requires */
#define O2M_ERROR_MEMORY {NO_MEMORY}
#define O2M_ERROR_FILE {BAD_FILE} /* the weights' file cannot be read, or is not the one of this code */
#define O2M_ERROR_PROCESSOR {BAD_PROCESSOR} /* this processor lacks what the code was compiled for */

/* Element types, by ONNX's numbers, and what C has for them. */
{{types}}

#endif
"""


def text(interface: Interface, *, model: str, version: str, target: str) -> str:
    """The header; ``model`` is the file the code comes from, ``target`` the processor it is for."""
    name, upper = interface.prefix, interface.prefix.upper()
    guard = f"{upper}_H"
    types = "\n".join(f"#define {element.macro} {element.number} /* {element.c_type} */" for element in ELEMENT_TYPES.values())
    return f"""\
/* {_comment(name)}: {_comment(model)}, compiled by onnx2torch_mlir {_comment(version)}
 * for {_comment(target)}.
 *
{_example(interface)}
 *
 * Link with {name}.o, -lm and -pthread; there is no other run time.
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{_COMMON.replace("{types}", types)}
/* Inputs. Dims of one name have one size in a call. */
#define {upper}_INPUTS {len(interface.inputs)}
{_listed(f"{upper}_INPUT_", interface.inputs)}
/* Outputs. */
#define {upper}_OUTPUTS {len(interface.outputs)}
{_listed(f"{upper}_OUTPUT_", interface.outputs)}
typedef struct {name}_model {name}_model;

/* Opens a model: maps the weights' file into memory, where all who open it share its pages. NULL after a failure.
 * `threads` is how many threads a call may use, its own among them; 0 is one for each processor. They are started here
 * and ended by close. `error` may be NULL, here and below. */
{name}_model *{name}_open(const char *weights, int threads, o2m_error *error);

/* Runs the model on inputs[{upper}_INPUTS]; gives 0 and outputs[{upper}_OUTPUTS], or the code of an error and
 * outputs that are all zero. What was in `outputs` before is overwritten, not freed. Several threads may run one
 * model at the same time; memory for intermediate results stays with the model for later calls. */
int {name}_run({name}_model *model, const o2m_tensor *inputs, o2m_tensor *outputs, o2m_error *error);

/* Frees the data of outputs[{upper}_OUTPUTS]. They outlive the model, and share no memory with anything. */
void {name}_free(o2m_tensor *outputs);

/* Closes a model that no call is using; NULL is allowed. */
void {name}_close({name}_model *model);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _example(interface: Interface) -> str:
    name, upper = interface.prefix, interface.prefix.upper()
    rows = []
    for number, value in enumerate(interface.inputs):
        sizes = ", ".join(str(size) if isinstance(size, int) else re.sub(r"\W", "_", size) for size in value.shape)
        rows.append(f"{{input_{number}, {value.element.macro}, {len(value.shape)}, {{{sizes or '0'}}}}}")
    given = ",\n *       ".join(_comment(row) for row in rows) or "{0}"
    count = f"{upper}_INPUTS" if rows else "1"
    return f"""\
 *     o2m_error error;
 *     {name}_model *model = {name}_open("{name}.weights", 0, &error);
 *     o2m_tensor outputs[{upper}_OUTPUTS] = {{{{0}}}}, inputs[{count}] = {{
 *       {given}}};
 *     if (!model || {name}_run(model, inputs, outputs, &error)) puts(error.text);
 *     ... outputs[0].data, outputs[0].shape ...
 *     {name}_free(outputs);
 *     {name}_close(model);"""


def _listed(prefix: str, values: Sequence[CValue]) -> str:
    """The index of each value under its name, with what it is."""
    lines, taken = [], set()
    for number, value in enumerate(values):
        name = base = re.sub(r"[^A-Za-z0-9_]", "_", value.name).upper() or "_"
        if name in taken:
            name = f"{base}_{number}"
        taken.add(name)
        lines.append(f"#define {prefix}{name} {number} /* {_comment(f'{value.name}: {value.dtype}{value.declared}')} */\n")
    return "".join(lines)


def _comment(content: str) -> str:
    """``content`` where it can neither end a comment nor its line."""
    return "".join(char if char.isprintable() else "?" for char in content).replace("*/", "* /").replace("/*", "/ *")
