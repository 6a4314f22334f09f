/* Mean, standard deviation and slopes of an exported model at one point:
 *
 *   predict 0.5 1.2
 *
 * The model was written by: mgp export model.mgp --to c --gradient --out model.c
 */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

int main(int argc, char **argv)
{
    static double w[MODEL_WORKSPACE], w_gradient[MODEL_GRADIENT_WORKSPACE]; /* one for each thread */
    double x[MODEL_INPUTS], mean[MODEL_TARGETS], std[MODEL_TARGETS], slopes[MODEL_TARGETS * MODEL_INPUTS];

    if (argc != 1 + MODEL_INPUTS) {
        fprintf(stderr, "The model has %d inputs, and %d came.\n", MODEL_INPUTS, argc - 1);
        return 1;
    }
    for (int i = 0; i < MODEL_INPUTS; i++) x[i] = strtod(argv[1 + i], NULL);
    model_predict(x, mean, std, w);
    model_gradient(x, mean, slopes, w_gradient);
    for (int o = 0; o < MODEL_TARGETS; o++) {
        printf("%.15g %.15g", mean[o], std[o]);
        for (int i = 0; i < MODEL_INPUTS; i++) printf(" %.15g", slopes[o * MODEL_INPUTS + i]);
        printf("\n");
    }
    return 0;
}
