/* A model in a loop at 100 Hz on an ESP32 (or any board with some hundred kB of flash and an FPU): Arduino IDE, or arduino-cli.
 *
 *   mgp export model.mgp --to c --dtype float32 --max-members 1 --out examples/esp32/model.c
 *
 * model.c and model.h lie beside this file, and the IDE compiles them along. Constants stay in flash, the workspace is static, and the loop
 * needs less than 1 kB of the task's stack. Boards that read flash with instructions of its own (AVR) are not supported.
 */
#include "model.h"

static float w[MODEL_WORKSPACE];
static float x[MODEL_INPUTS], mean[MODEL_TARGETS], deviation[MODEL_TARGETS];

void setup()
{
    Serial.begin(115200);
}

void loop()
{
    for (int i = 0; i < MODEL_INPUTS; i++) x[i] = analogRead(A0) * (3.3f / 4095); /* your sensors, in the units of the training data */
    const unsigned long begin = micros();
    model_predict(x, mean, deviation, w);
    const unsigned long taken = micros() - begin;
    Serial.print(mean[0]);
    Serial.print(" +- ");
    Serial.print(deviation[0]);
    Serial.print(", us: ");
    Serial.println(taken);
    delay(10);
}
