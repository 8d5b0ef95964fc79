// An image of its own: what the driver's shortest launch takes, without the work of any other kernel.

// Does nothing, and so takes no parameters.
extern "C" __global__ void empty() {}
