/* Runs a model of one float input and prints its first output: run_model WEIGHTS DIM... < elements > shape and elements */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

static int fail(const char *text) {
  fprintf(stderr, "%s\n", text);
  return 1;
}

int main(int count, char **arguments) {
  o2m_error error;
  o2m_tensor input = {NULL, O2M_FLOAT32, count - 2, {0}, NULL}, outputs[MODEL_OUTPUTS];
  size_t elements = 1;
  for (int dim = 0; dim < input.rank; ++dim) elements *= input.shape[dim] = atoll(arguments[dim + 2]);
  input.data = malloc(elements * sizeof(float) + 1);
  if (fread(input.data, sizeof(float), elements, stdin) != elements) return fail("too few elements");

  model_model *model = model_open(arguments[1], 1, &error);
  if (!model) return fail(error.text);
  for (int call = 0; call < 2; ++call) { /* the second finds the memory of the first */
    if (model_run(model, &input, outputs, &error)) return fail(error.text);
    if (call == 0) model_free(outputs);
  }
  model_close(model);

  elements = 1;
  for (int dim = 0; dim < outputs[0].rank; ++dim) elements *= outputs[0].shape[dim];
  fwrite(outputs[0].shape, sizeof(int64_t), outputs[0].rank, stdout);
  fwrite(outputs[0].data, sizeof(float), elements, stdout);
  model_free(outputs);
  free(input.data);
  return 0;
}
