// The classes of gpuvec.hpp: memory, streams, events, expressions, accumulators, registrations, errors.
//
// handles_parts.cpp is the program's other part, which includes the header, too.
#include "gpuvec.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <type_traits>

float sum_of_products(std::span<const float> a, std::span<const float> b);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);           \
            std::exit(EXIT_FAILURE);                                                               \
        }                                                                                          \
    } while (0)

// Returns the status of the error that a call throws.
template <typename F> gpuvec_status failure(F &&call) {
    try {
        call();
    } catch (const gpuvec::error &error) {
        CHECK(error.what()[0] != '\0');
        return error.status();
    }
    return GPUVEC_OK;
}

static void operations() {
    const std::vector<float> a{1, 2, 3};
    const std::array<float, 3> b{10, 20, 30};
    std::vector<float> out(3);
    gpuvec::add(a, b, out);
    CHECK((out == std::vector<float>{11, 22, 33}));
    gpuvec::sub(b, a, out);
    CHECK((out == std::vector<float>{9, 18, 27}));
    gpuvec::mul(a, a, out);
    CHECK((out == std::vector<float>{1, 4, 9}));
    gpuvec::div(b, a, out);
    CHECK((out == std::vector<float>{10, 10, 10}));
    gpuvec::scale(2.0f, a, out);
    CHECK((out == std::vector<float>{2, 4, 6}));
    gpuvec::axpy(2.0f, a, b, out);
    CHECK((out == std::vector<float>{12, 24, 36}));
    CHECK(gpuvec::sum(a) == 6 && gpuvec::min(b) == 10 && gpuvec::max(b) == 30);
    CHECK(gpuvec::dot(a, b) == 140 && sum_of_products(a, b) == 140);

    const std::vector<double> doubles{1e300, 1, -1e300};
    CHECK(gpuvec::sum(doubles) == 1);
    const std::vector<std::int32_t> large{INT32_MAX, INT32_MAX};
    static_assert(std::is_same_v<decltype(gpuvec::sum(large)), std::int64_t>);
    CHECK(gpuvec::sum(large) == 2 * std::int64_t{INT32_MAX});
    const std::vector<std::int64_t> longs{3, 4};
    CHECK(gpuvec::dot(longs, longs) == 25);

    gpuvec::add(std::span<const float>{}, std::span<const float>{}, std::span<float>{});
    CHECK(gpuvec::sum(std::span<const float>{}) == 0);
}

static void errors() {
    const std::vector<float> a{1, 2, 3}, shorter{1, 2};
    std::vector<float> out(3);
    CHECK(failure([&] { gpuvec::add(a, shorter, out); }) == GPUVEC_ERROR_SIZE);
    CHECK(failure([&] { gpuvec::dot(a, shorter); }) == GPUVEC_ERROR_SIZE);
    CHECK(failure([&] { gpuvec::min(std::span<const float>{}); }) == GPUVEC_ERROR_EMPTY);
    CHECK(failure([&] { gpuvec::add(a, std::span(out).first(2), std::span(out).last(2)); }) == GPUVEC_ERROR_SIZE);
    std::span<float> all(out);
    CHECK(failure([&] { gpuvec::add(all.first(2), all.first(2), all.last(2)); }) == GPUVEC_ERROR_OVERLAP);
    CHECK(failure([] { gpuvec::stream(1 << 20); }) != GPUVEC_OK);
    CHECK(failure([] { gpuvec::pinned_array<double>{SIZE_MAX / 4}; }) == GPUVEC_ERROR_SIZE);
    static_assert(std::is_base_of_v<std::runtime_error, gpuvec::error>);
#ifdef __cpp_lib_expected
    const auto sum = gpuvec::attempt([&] { return gpuvec::sum(a); });
    CHECK(sum.has_value() && *sum == 6);
    const auto nothing = gpuvec::attempt([&] { gpuvec::add(a, shorter, out); });
    CHECK(!nothing.has_value() && nothing.error().status() == GPUVEC_ERROR_SIZE);
    std::printf("std::expected: %s\n", nothing.error().what());
#endif
}

static void memory_and_streams() {
    constexpr std::size_t n = 10000;
    gpuvec::pinned_array<double> a(n), b(n);
    std::iota(a.begin(), a.end(), 0.0);
    gpuvec::device_array<double> on_device(n);
    CHECK(on_device.device() >= -1);

    gpuvec::stream stream;
    gpuvec::event start, end;
    start.record(stream);
    gpuvec::copy(a, on_device, stream);
    gpuvec::scale(2.0, on_device, on_device, stream);
    gpuvec::pinned_array<double> sum(1);
    gpuvec::sum(on_device, sum.data(), stream);
    end.record(stream);
    gpuvec::stream other;
    other.wait(end);
    gpuvec::copy(on_device, b, other);
    other.synchronize();
    end.synchronize();
    CHECK(stream.is_done() && end.is_done() && end.since(start) >= 0);
    CHECK(b[n - 1] == 2.0 * (n - 1) && sum[0] == static_cast<double>(n) * (n - 1));

    gpuvec::pinned_array<double> moved = std::move(a);
    CHECK(moved[1] == 1 && a.get() == nullptr);
    static_assert(!std::is_copy_constructible_v<gpuvec::pinned_array<double>>);
    static_assert(!std::is_copy_constructible_v<gpuvec::stream>);
    static_assert(std::is_nothrow_move_constructible_v<gpuvec::device_array<float>>);

    std::vector<float> values(5000, 1.0f);
    {
        const gpuvec::registration registered(values);
        CHECK(gpuvec::sum(values) == 5000);
    }
    CHECK(gpuvec_host_unregister(values.data()) == GPUVEC_ERROR_POINTER);
    std::vector<float> empty;
    const gpuvec::registration nothing(empty);
}

static void expressions() {
    const std::vector<float> a{3, 5}, b{4, 12};
    std::vector<float> out(2), sum(1);
    const gpuvec::expression length("sqrt(a*a + b*b)", {{"a", GPUVEC_F32}, {"b", GPUVEC_F32}});
    CHECK(length.num_outputs() == 1 && length.output_type() == GPUVEC_F32 && !length.is_reduction());
    length.prepare();
    length.run({out}, {a, b});
    CHECK((out == std::vector<float>{5, 13}));

    const gpuvec::expression two("k*a; sum(a)", {{"a", GPUVEC_F32}, {"k", GPUVEC_F32 | GPUVEC_SCALAR}});
    CHECK(two.num_outputs() == 2 && two.is_reduction(1));
    two.run({out, sum}, {a, 2.0f});
    CHECK((out == std::vector<float>{6, 10}) && sum[0] == 8);

    std::vector<float> three(3);
    CHECK(failure([&] { two.run({out}, {a, 2.0f}); }) == GPUVEC_ERROR_VALUE);
    CHECK(failure([&] { two.run({out, sum}, {a}); }) == GPUVEC_ERROR_VALUE);
    CHECK(failure([&] { two.run({out, sum}, {a, 2.0}); }) == GPUVEC_ERROR_VALUE);
    CHECK(failure([&] { two.run({out, sum}, {a, b}); }) == GPUVEC_ERROR_VALUE);
    CHECK(failure([&] { length.run({three}, {a, b}); }) == GPUVEC_ERROR_SIZE);
    CHECK(failure([&] { length.run({out}, {a, three}); }) == GPUVEC_ERROR_SIZE);
    CHECK(failure([] { gpuvec::expression("a +", {{"a", GPUVEC_F32}}); }) == GPUVEC_ERROR_EXPRESSION);

    gpuvec::expression from("a + 1", {{"a", GPUVEC_F32}});
    const gpuvec::expression to = std::move(from);
    to.run({out}, {a});
    CHECK(failure([&] { from.run({out}, {a}); }) == GPUVEC_ERROR_NULL);
    CHECK(failure([&] { from.prepare(); }) == GPUVEC_ERROR_NULL);
    CHECK(failure([&] { from.num_outputs(); }) == GPUVEC_ERROR_NULL);
    CHECK(failure([&] { from.output_type(); }) == GPUVEC_ERROR_NULL);
    CHECK(failure([&] { from.is_reduction(); }) == GPUVEC_ERROR_NULL);
    length.run({out}, {a, b});

    // Objects convert to gpuvec.h's handles.
    const std::int64_t shape[] = {2};
    const gpuvec_array inputs[] = {{const_cast<float *>(a.data()), nullptr}, {const_cast<float *>(b.data()), nullptr}};
    const gpuvec_array outputs[] = {{out.data(), nullptr}};
    gpuvec::check(gpuvec_expr_run_nd(length, 1, shape, inputs, outputs, 0, nullptr));
    CHECK((out == std::vector<float>{5, 13}));
}

static void accumulators() {
    const std::vector<double> a{1e300, 1}, b{-1e300, 1};
    gpuvec::accumulator<double> sum, other;
    sum.add(a);
    other.add(b);
    sum.merge(other);
    CHECK(sum.value() == 2);
    const gpuvec::accumulator<double> copy(sum.serialize());
    CHECK(copy.value() == 2);

    const std::vector<float> c{1, 2}, d{3, 4};
    gpuvec::accumulator<float> dot(gpuvec::terms::products);
    dot.add(c, d);
    CHECK(dot.value() == 11);
    CHECK(gpuvec::accumulator<float>(dot.serialize(), gpuvec::terms::products).value() == 11);
    CHECK(failure([&] { dot.add(c); }) == GPUVEC_ERROR_VALUE);
    CHECK(failure([&] { gpuvec::accumulator<float>().add(c, d); }) == GPUVEC_ERROR_VALUE);
    CHECK(failure([&] { gpuvec::accumulator<float>(sum.serialize()); }) != GPUVEC_OK);
}

int main() {
    try {
        operations();
        errors();
        memory_and_streams();
        expressions();
        accumulators();
    } catch (const gpuvec::error &error) {
        std::fprintf(stderr, "%d: %s\n", static_cast<int>(error.status()), error.what());
        return EXIT_FAILURE;
    }
    std::printf("all classes work\n");
    return EXIT_SUCCESS;
}
