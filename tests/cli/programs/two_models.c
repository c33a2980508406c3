/* Two models in one program, the second on the output of the first: two_models WEIGHTS1 WEIGHTS2 < 4 floats > 4 floats */
#include <stdio.h>

#include "first.h"
#include "second.h"

int main(int count, char **arguments) {
  float elements[4];
  o2m_error error = {0, "usage"};
  o2m_tensor input = {elements, O2M_FLOAT32, 2, {2, 2}, NULL}, between[FIRST_OUTPUTS], last[SECOND_OUTPUTS];
  int done = 0;
  if (count == 3 && fread(elements, sizeof elements, 1, stdin) == 1) {
    first_model *first = first_open(arguments[1], 0, &error);
    second_model *second = first ? second_open(arguments[2], 0, &error) : NULL;
    if (second && !first_run(first, &input, between, &error)) {
      if (!second_run(second, between, last, &error)) {
        done = fwrite(last[0].data, sizeof(float), 4, stdout) == 4;
        second_free(last);
      }
      first_free(between);
    }
    second_close(second);
    first_close(first);
  }
  if (!done) fprintf(stderr, "%s\n", error.text);
  return !done;
}
