// A second translation unit with gpuvec.hpp, for handles.cpp.
#include "gpuvec.hpp"

float sum_of_products(std::span<const float> a, std::span<const float> b) {
    gpuvec::accumulator<float> sum(gpuvec::terms::products);
    sum.add(a, b);
    return sum.value();
}
