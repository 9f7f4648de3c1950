// Takes the place of libcuda.so.1: the few functions of the CUDA driver that the tests of a generated project
// call beside the library.
#include <cstdlib>

namespace {

int there_is_one;

}  // namespace

extern "C" {

int cuInit(unsigned int) {
    return 0;
}
int cuDeviceGet(int* device, int) {
    *device = 0;
    return 0;
}
// SMs are all that is asked for: as many as cudaDeviceGetAttribute says.
int cuDeviceGetAttribute(int* value, int, int) {
    const char* clusters = std::getenv("EMULATOR_CLUSTERS");
    *value = (clusters == nullptr ? 9 : std::atoi(clusters)) * 8 + 4;
    return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
    *context = &there_is_one;
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
    return 0;
}
int cuCtxSetCurrent(void*) {
    return 0;
}
int cuCtxGetCurrent(void** context) {
    *context = &there_is_one;
    return 0;
}
int cuStreamCreate(void** stream, unsigned int) {
    *stream = &there_is_one;
    return 0;
}
int cuStreamSynchronize(void*) {
    return 0;
}
int cuStreamDestroy_v2(void*) {
    return 0;
}
}
